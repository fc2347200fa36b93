#include "server/parse_request.h"

#include <charconv>
#include <limits>
#include <random>

#include "server/json_read.h"
#include "server/parse_messages.h"

namespace ballast {

namespace {

// What a template gets from the request itself or from the model.
constexpr const char* kTemplateOwn[] = {
    "messages",  "tools",     "documents",       "add_generation_prompt",
    "bos_token", "eos_token", "raise_exception", "strftime_now"};

ApiStatus ReadSampling(const Json& body, const ModelLimits& limits, SamplingParams& out) {
  RETURN_IF_ERROR(ReadFloat(body, "temperature", 0, 2, out.temperature));
  int64_t top_k = 0;
  RETURN_IF_ERROR(ReadInt(body, "top_k", -1, std::numeric_limits<int32_t>::max(), top_k));
  out.top_k = static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(top_k, 0), limits.vocab));
  RETURN_IF_ERROR(ReadFloat(body, "top_p", 0, 1, out.top_p));
  if (out.top_p <= 0) {
    return FieldError("top_p", "invalid_value", "top_p is 0; it must be above 0 and at most 1");
  }
  RETURN_IF_ERROR(ReadFloat(body, "min_p", 0, 1, out.min_p));
  if (FindMember(body, "repetition_penalty") && FindMember(body, "repeat_penalty")) {
    return FieldError(
        "repeat_penalty", "invalid_value",
        "repeat_penalty and repetition_penalty are two names of one setting; give one");
  }
  for (const char* name : {"repetition_penalty", "repeat_penalty"}) {
    RETURN_IF_ERROR(ReadFloat(body, name, 0, 2, out.repetition_penalty));
    if (out.repetition_penalty <= 0) {
      return FieldError(name, "invalid_value", "{} is 0; it must be above 0 and at most 2", name);
    }
  }
  RETURN_IF_ERROR(ReadFloat(body, "presence_penalty", -2, 2, out.presence_penalty));
  RETURN_IF_ERROR(ReadFloat(body, "frequency_penalty", -2, 2, out.frequency_penalty));
  int64_t seed = -1;  // −1, as in llama.cpp: choose one
  RETURN_IF_ERROR(ReadInt(body, "seed", std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::max(), seed));
  if (seed == -1) {
    thread_local std::mt19937_64 seeds{std::random_device{}()};
    out.seed = seeds();
  } else {
    out.seed = static_cast<uint64_t>(seed);
  }
  return {};
}

ApiStatus ReadLogitBias(const Json& body, const ModelLimits& limits, SamplingParams& out) {
  const Json* value = FindMember(body, "logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object()) {
    return FieldError("logit_bias", "invalid_type",
                      "logit_bias must be an object from token ids to numbers, not {}",
                      ShowJson(*value));
  }
  if (value->size() > kMaxLogitBias) {
    return FieldError("logit_bias", "invalid_value", "logit_bias has {} entries; the limit is {}",
                      value->size(), kMaxLogitBias);
  }
  for (const auto& [key, bias] : value->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 ||
        token >= limits.vocab) {
      return FieldError("logit_bias", "invalid_value",
                        "logit_bias names the token {:?}; the limits are 0 and {}",
                        key.substr(0, 64), limits.vocab - 1);
    }
    ASSIGN_OR_RETURN(const double number, NumberWithin(bias, "logit_bias", -100, 100));
    out.logit_bias.emplace_back(token, static_cast<float>(number));
  }
  return {};
}

ApiStatus AddStop(const Json& value, std::vector<std::string>& out) {
  if (!value.is_string()) {
    return FieldError("stop", "invalid_type", "stop must hold strings, not {}", ShowJson(value));
  }
  std::string text = value.get<std::string>();
  if (text.empty() || text.size() > kMaxStopBytes) {
    return FieldError("stop", "invalid_value",
                      "a stop string has {} bytes; the limits are 1 and {}", text.size(),
                      kMaxStopBytes);
  }
  out.push_back(std::move(text));
  return {};
}

ApiStatus ReadStop(const Json& body, std::vector<std::string>& out) {
  const Json* value = FindMember(body, "stop");
  if (value == nullptr) return {};
  if (!value->is_array()) return AddStop(*value, out);
  if (value->size() > kMaxStops) {
    return FieldError("stop", "invalid_value", "stop has {} strings; the limit is {}",
                      value->size(), kMaxStops);
  }
  for (const Json& item : *value) RETURN_IF_ERROR(AddStop(item, out));
  return {};
}

ApiStatus ReadStream(const Json& body, GenerationBody& out) {
  RETURN_IF_ERROR(ReadBool(body, "stream", out.stream));
  const Json* options = FindMember(body, "stream_options");
  if (options == nullptr) return {};
  if (!out.stream) {
    return FieldError("stream_options", "invalid_value",
                      "stream_options is only allowed with \"stream\": true");
  }
  if (!options->is_object()) {
    return FieldError("stream_options", "invalid_type", "stream_options must be an object, not {}",
                      ShowJson(*options));
  }
  for (const auto& [name, value] : options->items()) {
    // Padding against traffic analysis is an offer that a server may leave out.
    if (value.is_null() || name == "include_usage" || name == "include_obfuscation") continue;
    const std::string path = "stream_options." + name.substr(0, 64);
    return FieldError(path, "unknown_field", "the field {:?} is not known here", path);
  }
  return ReadBool(*options, "include_usage", out.include_usage);
}

ApiStatus ReadMaxTokens(const Json& body, const ModelLimits& limits, GenerationBody& out) {
  int64_t chosen = out.endpoint == kChat ? 0 : kDefaultCompletionTokens;
  int64_t first = 0;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (FindMember(body, name) == nullptr) continue;
    int64_t value = 0;
    // −1, as in llama.cpp: until the context is full.
    RETURN_IF_ERROR(ReadInt(body, name, -1, std::numeric_limits<int32_t>::max(), value));
    if (value == 0) {
      return FieldError(name, "invalid_value",
                        "{} is 0; it must be at least 1, or -1 for all of the context ({} tokens)",
                        name, limits.context);
    }
    if (first != 0 && value != first) {
      return FieldError(name, "invalid_value",
                        "max_tokens is {} and max_completion_tokens is {}; give one", first, value);
    }
    first = value;
    chosen = value < 0 ? 0 : value;
  }
  out.generation.max_tokens = chosen;
  return {};
}

ApiStatus ReadLogprobs(const Json& body, GenerationBody& out) {
  int32_t& wanted = out.generation.top_logprobs;
  int64_t count = 0;
  if (out.endpoint == kCompletions) {
    const Json* value = FindMember(body, "logprobs");
    if (value == nullptr || (value->is_boolean() && !value->get<bool>())) return {};
    RETURN_IF_ERROR(ReadInt(body, "logprobs", 0, 20, count));
    wanted = static_cast<int32_t>(count);
    return {};
  }
  bool on = false;
  RETURN_IF_ERROR(ReadBool(body, "logprobs", on));
  RETURN_IF_ERROR(ReadInt(body, "top_logprobs", 0, 20, count));
  if (!on && count > 0) {
    return FieldError("top_logprobs", "invalid_value",
                      "top_logprobs is {} without \"logprobs\": true", count);
  }
  if (on) wanted = static_cast<int32_t>(count);
  return {};
}

// A trailing assistant message is a prefilled turn, unless the request says otherwise.
ApiStatus ReadContinuation(const Json& body, GenerationBody& out) {
  const Json& last = out.messages.back();
  const bool prefilled = last["role"] == "assistant" && !last.contains("tool_calls");
  const Json* wish = FindMember(body, "continue_final_message");
  RETURN_IF_ERROR(ReadBool(body, "add_generation_prompt", out.add_generation_prompt));
  out.continue_final_message = prefilled && FindMember(body, "add_generation_prompt") == nullptr;
  RETURN_IF_ERROR(ReadBool(body, "continue_final_message", out.continue_final_message));
  if (!out.continue_final_message) return {};
  if (!prefilled) {
    return FieldError("continue_final_message", "invalid_value",
                      "continue_final_message needs a last message of the assistant's without "
                      "tool calls");
  }
  if (wish != nullptr && FindMember(body, "add_generation_prompt") && out.add_generation_prompt) {
    return FieldError("continue_final_message", "invalid_value",
                      "continue_final_message and add_generation_prompt exclude each other");
  }
  if (out.format.kind == ResponseFormat::Kind::kText) return {};
  return FieldError(wish != nullptr ? "continue_final_message" : "messages", "invalid_value",
                    "a reply that {} constrains cannot continue a message that has begun",
                    out.format.path);
}

ApiStatus CheckConstraint(const GenerationBody& body) {
  const bool constrained = body.format.kind != ResponseFormat::Kind::kText;
  if (!body.generation.ignore_eos || (!constrained && body.tools.use == ToolUse::kNone)) return {};
  return FieldError("ignore_eos", "invalid_value", "ignore_eos does not go together with {}",
                    constrained ? body.format.path : "tools");
}

ApiStatus ReadPrompts(const Json& body, const ModelLimits& limits, GenerationBody& out) {
  const Json* value = FindMember(body, "prompt");
  if (value == nullptr) {
    return FieldError("prompt", "missing_field", "the field \"prompt\" is missing");
  }
  if (value->is_string()) {
    out.prompts.emplace_back(value->get<std::string>());
    return {};
  }
  if (!value->is_array() || value->empty()) {
    return FieldError(
        "prompt", "invalid_type",
        "prompt must be a string, an array of strings or an array of token ids; it is {}",
        ShowJson(*value));
  }
  if (value->front().is_number()) {
    ASSIGN_OR_RETURN(auto tokens, TokenArray(*value, "prompt", limits.vocab));
    out.prompts.emplace_back(std::move(tokens));
    return {};
  }
  if (value->size() > kMaxPrompts) {
    return FieldError("prompt", "invalid_value", "prompt holds {} prompts; the limit is {}",
                      value->size(), kMaxPrompts);
  }
  for (const Json& item : *value) {
    if (item.is_string()) {
      out.prompts.emplace_back(item.get<std::string>());
    } else {
      ASSIGN_OR_RETURN(auto tokens, TokenArray(item, "prompt", limits.vocab));
      out.prompts.emplace_back(std::move(tokens));
    }
  }
  return {};
}

}  // namespace

ApiResult<Json> ParseBody(std::string_view body, Endpoints endpoint) {
  auto parsed = ParseJsonUniqueKeys(body, kMaxJsonDepth, kMaxObjectMembers);
  if (!parsed) {
    ApiError error = FromError(parsed.error());
    error.code = "invalid_json";
    // The parser's message quotes what it read last, which may be large.
    if (error.message.size() > 300) error.message = error.message.substr(0, 300) + "…";
    return error;
  }
  if (!parsed->is_object()) {
    return FieldError("", "invalid_json", "the request body must be a JSON object, not {}",
                      ShowJson(*parsed));
  }
  RETURN_IF_ERROR(CheckFields(*parsed, endpoint));
  return std::move(*parsed);
}

ApiResult<GenerationBody> ParseGeneration(std::string_view body, Endpoints endpoint,
                                          const ModelLimits& limits) {
  ASSIGN_OR_RETURN(const Json json, ParseBody(body, endpoint));
  return ReadGeneration(json, endpoint, limits);
}

ApiResult<GenerationBody> ReadGeneration(const Json& json, Endpoints endpoint,
                                         const ModelLimits& limits) {
  GenerationBody out;
  out.endpoint = endpoint;
  RETURN_IF_ERROR(ReadString(json, "model", out.model));
  RETURN_IF_ERROR(ReadStream(json, out));
  RETURN_IF_ERROR(ReadMaxTokens(json, limits, out));
  RETURN_IF_ERROR(ReadSampling(json, limits, out.generation.sampling));
  RETURN_IF_ERROR(ReadLogitBias(json, limits, out.generation.sampling));
  RETURN_IF_ERROR(ReadStop(json, out.generation.stop));
  RETURN_IF_ERROR(ReadBool(json, "ignore_eos", out.generation.ignore_eos));
  RETURN_IF_ERROR(ReadLogprobs(json, out));
  RETURN_IF_ERROR(ReadInt(json, "n", 1, kMaxChoices, out.n));
  ASSIGN_OR_RETURN(out.format, ParseResponseFormat(json));
  if (endpoint == kCompletions) {
    RETURN_IF_ERROR(ReadPrompts(json, limits, out));
    RETURN_IF_ERROR(CheckConstraint(out));
    return out;
  }
  ASSIGN_OR_RETURN(out.tools, ParseTools(json));
  RETURN_IF_ERROR(CheckConstraint(out));
  ASSIGN_OR_RETURN(out.messages, ParseMessages(json));
  if (const Json* kwargs = FindMember(json, "chat_template_kwargs")) {
    if (!kwargs->is_object()) {
      return FieldError("chat_template_kwargs", "invalid_type",
                        "chat_template_kwargs must be an object, not {}", ShowJson(*kwargs));
    }
    for (const char* name : kTemplateOwn) {
      if (!kwargs->contains(name)) continue;
      return FieldError(fmt::format("chat_template_kwargs.{}", name), "invalid_value",
                        "chat_template_kwargs.{} is set by the server and cannot be given", name);
    }
    out.template_kwargs = *kwargs;
  }
  RETURN_IF_ERROR(ReadContinuation(json, out));
  return out;
}

ApiResult<TokenizeBody> ParseTokenize(std::string_view body) {
  ASSIGN_OR_RETURN(const Json json, ParseBody(body, kTokenize));
  TokenizeBody out;
  if (FindMember(json, "content") == nullptr) {
    return FieldError("content", "missing_field", "the field \"content\" is missing");
  }
  RETURN_IF_ERROR(ReadString(json, "model", out.model));
  RETURN_IF_ERROR(ReadString(json, "content", out.content));
  RETURN_IF_ERROR(ReadBool(json, "add_special", out.add_special));
  RETURN_IF_ERROR(ReadBool(json, "with_pieces", out.with_pieces));
  return out;
}

ApiResult<DetokenizeBody> ParseDetokenize(std::string_view body, const ModelLimits& limits) {
  ASSIGN_OR_RETURN(const Json json, ParseBody(body, kDetokenize));
  DetokenizeBody out;
  const Json* tokens = FindMember(json, "tokens");
  if (tokens == nullptr) {
    return FieldError("tokens", "missing_field", "the field \"tokens\" is missing");
  }
  RETURN_IF_ERROR(ReadString(json, "model", out.model));
  ASSIGN_OR_RETURN(out.tokens, TokenArray(*tokens, "tokens", limits.vocab));
  return out;
}

}  // namespace ballast
