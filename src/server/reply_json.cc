#include "server/reply_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

namespace {

// JSON has no infinity; OpenAI's API shows impossible tokens with this value.
constexpr double kLowestLogprob = -9999.0;

double ShownLogprob(float logprob) {
  return logprob > kLowestLogprob ? static_cast<double>(logprob) : kLowestLogprob;
}

bool IsUtf8(std::string_view bytes) {
  // dump() in strict mode is the parser's own test; tokens are a few bytes long.
  try {
    (void)Json(std::string(bytes)).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// The old shape has no "bytes" member, so a token that is no text is spelled out.
std::string TokenText(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

Json ChatLogprob(const TokenLogprob& token) {
  Json json;
  json["token"] = token.bytes;
  json["logprob"] = ShownLogprob(token.logprob);
  Json bytes = Json::array();
  for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
  json["bytes"] = std::move(bytes);
  return json;
}

int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

double PerSecond(double count, double ms) { return ms > 0 && count > 0 ? count * 1e3 / ms : 0; }

}  // namespace

Json ReplyEnvelope(const ReplyHeader& header, bool streamed) {
  Json json;
  json["id"] = header.id;
  if (header.endpoint == kChat) {
    json["object"] = streamed ? "chat.completion.chunk" : "chat.completion";
  } else {
    json["object"] = "text_completion";
  }
  json["created"] = header.created;
  json["model"] = header.model;
  json["system_fingerprint"] = header.fingerprint;
  return json;
}

Json UsageJson(const Usage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  return json;
}

Json TimingsJson(const Usage& usage, const Timings& timings) {
  const int64_t prompt_n = usage.prompt_tokens - usage.cached_tokens;
  const auto prompt_count = static_cast<double>(prompt_n);
  // predicted_ms runs from the first token to the last, so it holds one token less.
  const auto intervals = static_cast<double>(std::max<int64_t>(usage.completion_tokens - 1, 0));
  Json json;
  json["cache_n"] = usage.cached_tokens;
  json["prompt_n"] = prompt_n;
  json["prompt_ms"] = timings.prompt_ms;
  json["prompt_per_token_ms"] = prompt_n > 0 ? timings.prompt_ms / prompt_count : 0.0;
  json["prompt_per_second"] = PerSecond(prompt_count, timings.prompt_ms);
  json["predicted_n"] = usage.completion_tokens;
  json["predicted_ms"] = timings.predicted_ms;
  json["predicted_per_token_ms"] = intervals > 0 ? timings.predicted_ms / intervals : 0.0;
  json["predicted_per_second"] = PerSecond(intervals, timings.predicted_ms);
  json["queue_ms"] = timings.queue_ms;
  json["preemptions"] = timings.preemptions;
  return json;
}

std::string_view FinishReasonName(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

void AppendChatLogprobs(const TokenEvent& event, Json& logprobs) {
  if (!logprobs.is_object()) {
    logprobs = Json::object();
    logprobs["content"] = Json::array();
    logprobs["refusal"] = nullptr;
  }
  for (size_t i = 0; i < event.logprobs.size(); ++i) {
    Json token = ChatLogprob(event.logprobs[i]);
    token["top_logprobs"] = Json::array();
    if (i < event.top_logprobs.size()) {
      for (const TokenLogprob& top : event.top_logprobs[i]) {
        token["top_logprobs"].push_back(ChatLogprob(top));
      }
    }
    logprobs["content"].push_back(std::move(token));
  }
}

void AppendCompletionLogprobs(const TokenEvent& event, int64_t& offset, Json& logprobs) {
  if (!logprobs.is_object()) {
    logprobs = Json::object();
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      logprobs[name] = Json::array();
    }
  }
  for (size_t i = 0; i < event.logprobs.size(); ++i) {
    const TokenLogprob& token = event.logprobs[i];
    logprobs["tokens"].push_back(TokenText(token.bytes));
    logprobs["token_logprobs"].push_back(ShownLogprob(token.logprob));
    Json top = Json::object();
    if (i < event.top_logprobs.size()) {
      for (const TokenLogprob& other : event.top_logprobs[i]) {
        top[TokenText(other.bytes)] = ShownLogprob(other.logprob);
      }
    }
    logprobs["top_logprobs"].push_back(std::move(top));
    logprobs["text_offset"].push_back(offset);
    offset += Characters(token.bytes);
  }
}

std::string SseData(const Json& json) { return "data: " + DumpJson(json) + "\n\n"; }

}  // namespace ballast
