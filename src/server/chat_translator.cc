#include "server/chat_translator.h"

#include <utility>

#include "server/json_read.h"

namespace ballast {

namespace {

constexpr int kOk = 200;

std::string Text(const Json& object, std::string_view name) {
  const Json* value = FindMember(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

int64_t Count(const Json& object, std::string_view name) {
  const Json* value = FindMember(object, name);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : 0;
}

}  // namespace

void ChatTranslator::Send(HttpResponse response) {
  const auto parsed = ParseJson(response.body);
  if (!parsed) return to().Send(std::move(response));  // nothing that the chat writes
  const Json& body = *parsed;
  if (response.status == kOk) {
    OnStart();
    const Json& choice = body["choices"][0];
    TakeMessage(choice["message"]);
    end_.finish_reason = Text(choice, "finish_reason");
    end_.stop = Text(choice, "stop_reason");
    TakeUsage(body["usage"]);
    OnEnd(end_);
    response.body = DumpJson(Whole());
  } else if (const Json* error = FindMember(body, "error")) {
    response.body = DumpJson(ErrorBody(*error, response.status));
  }
  to().Send(std::move(response));
}

void ChatTranslator::StartStream(HttpResponse response) {
  streaming_ = true;
  to().StartStream(std::move(response));
}

bool ChatTranslator::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find("\n\n");
    const std::string_view event = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 2);
    if (event.starts_with(":")) {
      OnComment(event);
      continue;
    }
    if (!event.starts_with("data: ")) continue;
    const std::string_view data = event.substr(6);
    if (data == "[DONE]") {
      OnEnd(end_);
    } else if (const auto chunk = ParseJson(data)) {
      TakeChunk(*chunk);
    }
  }
  return open_;
}

void ChatTranslator::TakeChunk(const Json& chunk) {
  if (const Json* error = FindMember(chunk, "error")) return OnStreamError(*error);
  if (!std::exchange(started_, true)) OnStart();
  if (const Json* usage = FindMember(chunk, "usage")) TakeUsage(*usage);
  const Json* choices = FindMember(chunk, "choices");
  if (choices == nullptr || choices->empty()) return;
  const Json& choice = choices->front();
  if (const Json* delta = FindMember(choice, "delta")) TakeMessage(*delta);
  if (const std::string reason = Text(choice, "finish_reason"); !reason.empty()) {
    end_.finish_reason = reason;
    end_.stop = Text(choice, "stop_reason");
  }
}

// A message and a delta have the same members.
void ChatTranslator::TakeMessage(const Json& message) {
  const std::string reasoning = Text(message, "reasoning_content");
  if (!reasoning.empty()) OnPiece(Kind::kReasoning, reasoning, "");
  const std::string content = Text(message, "content");
  if (!content.empty()) OnPiece(Kind::kText, content, "");
  const Json* calls = FindMember(message, "tool_calls");
  if (calls == nullptr) return;
  for (const Json& call : *calls) {
    const Json* function = FindMember(call, "function");
    if (function == nullptr) continue;
    const std::string name = Text(*function, "name");
    if (!name.empty()) OnPiece(Kind::kCall, name, Text(call, "id"));
    const std::string arguments = Text(*function, "arguments");
    if (!arguments.empty()) OnPiece(Kind::kArguments, arguments, "");
  }
}

void ChatTranslator::TakeUsage(const Json& usage) {
  end_.prompt_tokens = Count(usage, "prompt_tokens");
  end_.completion_tokens = Count(usage, "completion_tokens");
  if (const Json* details = FindMember(usage, "prompt_tokens_details")) {
    end_.cached_tokens = Count(*details, "cached_tokens");
  }
}

void ChatTranslator::Emit(std::string_view name, const Json& data) {
  if (!streaming_) return;
  EmitRaw(fmt::format("event: {}\ndata: {}\n\n", name, DumpJson(data)));
}

void ChatTranslator::EmitRaw(std::string_view text) { open_ = to().Write(text) && open_; }

}  // namespace ballast
