#include "server/messages_reply.h"

#include <utility>

#include "server/json_read.h"

namespace ballast {

namespace {

const char* ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// An error in a stream has no status, only OpenAI's words for it.
int StatusOf(const Json& error) {
  const Json* type = FindMember(error, "type");
  const Json* code = FindMember(error, "code");
  if (code != nullptr && *code == "deadline_exceeded") return 504;
  if (type != nullptr && *type == "service_unavailable_error") return 503;
  return 500;
}

Json UsageOf(int64_t prompt, int64_t cached, int64_t completion) {
  Json usage;
  usage["input_tokens"] = prompt - cached;  // Anthropic counts cached ones apart
  usage["cache_creation_input_tokens"] = 0;
  usage["cache_read_input_tokens"] = cached;
  usage["output_tokens"] = completion;
  return usage;
}

}  // namespace

Json MessagesErrorBody(const Json& error, int status, const std::string& request_id) {
  Json body;
  body["type"] = "error";
  const Json* message = FindMember(error, "message");
  body["error"] = Json{{"type", ErrorType(status)}, {"message", message ? *message : Json("")}};
  body["request_id"] = request_id;
  return body;
}

MessagesReply::MessagesReply(std::shared_ptr<Exchange> to, std::string id, std::string model,
                             std::string request_id)
    : ChatTranslator(std::move(to)), request_id_(std::move(request_id)) {
  message_["id"] = std::move(id);
  message_["type"] = "message";
  message_["role"] = "assistant";
  message_["model"] = std::move(model);
  message_["content"] = Json::array();
  message_["stop_reason"] = nullptr;
  message_["stop_sequence"] = nullptr;
}

void MessagesReply::OnStart() {
  message_["usage"] = UsageOf(prompt_tokens(), 0, 0);
  Emit("message_start", Json{{"type", "message_start"}, {"message", message_}});
  Emit("ping", Json{{"type", "ping"}});
}

void MessagesReply::OpenBlock(Json block) {
  if (block_open_) {
    if (message_["content"].back()["type"] == block["type"] && block["type"] != "tool_use") return;
    CloseBlock();
  }
  const size_t index = message_["content"].size();
  Emit("content_block_start",
       Json{{"type", "content_block_start"}, {"index", index}, {"content_block", block}});
  message_["content"].push_back(std::move(block));
  block_open_ = true;
}

void MessagesReply::CloseBlock() {
  if (!std::exchange(block_open_, false)) return;
  Json& block = message_["content"].back();
  if (block["type"] == "tool_use") {
    const auto input = ParseJson(arguments_);
    if (input && input->is_object()) block["input"] = *input;
    arguments_.clear();
  }
  Emit("content_block_stop",
       Json{{"type", "content_block_stop"}, {"index", message_["content"].size() - 1}});
}

void MessagesReply::Grow(const char* member, const char* delta_type, const char* delta_member,
                         const std::string& text) {
  Json& block = message_["content"].back();
  if (member == nullptr) {
    arguments_ += text;
  } else {
    block[member].get_ref<std::string&>() += text;
  }
  Emit("content_block_delta", Json{{"type", "content_block_delta"},
                                   {"index", message_["content"].size() - 1},
                                   {"delta", Json{{"type", delta_type}, {delta_member, text}}}});
}

void MessagesReply::OnPiece(Kind kind, const std::string& text, const std::string& call_id) {
  switch (kind) {
    case Kind::kText:
      OpenBlock(Json{{"type", "text"}, {"text", ""}});
      return Grow("text", "text_delta", "text", text);
    case Kind::kReasoning:
      OpenBlock(Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      return Grow("thinking", "thinking_delta", "thinking", text);
    case Kind::kCall:
      return OpenBlock(
          Json{{"type", "tool_use"}, {"id", call_id}, {"name", text}, {"input", Json::object()}});
    case Kind::kArguments:
      if (block_open_) Grow(nullptr, "input_json_delta", "partial_json", text);
      return;
  }
}

void MessagesReply::OnEnd(const End& end) {
  CloseBlock();
  std::string reason = "end_turn";
  if (end.finish_reason == "length") reason = "max_tokens";
  if (end.finish_reason == "tool_calls") reason = "tool_use";
  if (!end.stop.empty()) {
    reason = "stop_sequence";
    message_["stop_sequence"] = end.stop;
  }
  message_["stop_reason"] = reason;
  message_["usage"] = UsageOf(end.prompt_tokens, end.cached_tokens, end.completion_tokens);
  const Json delta = Json{{"stop_reason", reason}, {"stop_sequence", message_["stop_sequence"]}};
  Emit("message_delta",
       Json{{"type", "message_delta"}, {"delta", delta}, {"usage", message_["usage"]}});
  Emit("message_stop", Json{{"type", "message_stop"}});
}

Json MessagesReply::ErrorBody(const Json& error, int status) const {
  return MessagesErrorBody(error, status, request_id_);
}

void MessagesReply::OnStreamError(const Json& error) {
  Emit("error", MessagesErrorBody(error, StatusOf(error), request_id_));
}

void MessagesReply::OnComment(std::string_view) { Emit("ping", Json{{"type", "ping"}}); }

}  // namespace ballast
