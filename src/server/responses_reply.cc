#include "server/responses_reply.h"

#include <utility>

#include "server/json_read.h"
#include "server/request_id.h"

namespace ballast {

namespace {

Json TextPart(Json text) {
  Json part;
  part["type"] = "output_text";
  part["text"] = std::move(text);
  part["annotations"] = Json::array();
  part["logprobs"] = Json::array();
  return part;
}

Json ReasoningPart(Json text) {
  return Json{{"type", "reasoning_text"}, {"text", std::move(text)}};
}

}  // namespace

ResponsesReply::ResponsesReply(std::shared_ptr<Exchange> to, std::string model, int64_t created,
                               const Json& echo)
    : ChatTranslator(std::move(to)) {
  response_["id"] = RandomId("resp_");
  response_["object"] = "response";
  response_["created_at"] = created;
  response_["status"] = "in_progress";
  response_["background"] = false;
  response_["error"] = nullptr;
  response_["incomplete_details"] = nullptr;
  response_["instructions"] = nullptr;
  response_["max_output_tokens"] = nullptr;
  response_["model"] = std::move(model);
  response_["output"] = Json::array();
  response_["parallel_tool_calls"] = false;
  response_["previous_response_id"] = nullptr;
  response_["reasoning"] = Json{{"effort", nullptr}, {"summary", nullptr}};
  response_["store"] = false;
  response_["temperature"] = 1.0;
  response_["text"] = Json{{"format", Json{{"type", "text"}}}};
  response_["tool_choice"] = "auto";
  response_["tools"] = Json::array();
  response_["top_p"] = 1.0;
  response_["truncation"] = "disabled";
  response_["usage"] = nullptr;
  response_["user"] = nullptr;
  response_["metadata"] = Json::object();
  for (const auto& [name, value] : echo.items()) response_[name] = value;
}

void ResponsesReply::SendEvent(const char* type, Json data) {
  if (!streaming()) return;
  Json event;
  event["type"] = type;
  event["sequence_number"] = sequence_++;
  event.update(data);
  Emit(type, event);
}

void ResponsesReply::SendResponse(const char* type) {
  SendEvent(type, Json{{"response", response_}});
}

void ResponsesReply::OnStart() {
  SendResponse("response.created");
  SendResponse("response.in_progress");
}

Json ResponsesReply::OpenItem() const {
  const Json& output = response_["output"];
  Json data;
  data["item_id"] = output.back()["id"];
  data["output_index"] = output.size() - 1;
  if (kind_ == Kind::kText || kind_ == Kind::kReasoning) data["content_index"] = 0;
  return data;
}

void ResponsesReply::Begin(Json item) {
  SendEvent("response.output_item.added",
            Json{{"output_index", response_["output"].size()}, {"item", item}});
  response_["output"].push_back(std::move(item));
  item_open_ = true;
}

void ResponsesReply::BeginText(Kind kind) {
  if (item_open_ && kind_ == kind) return;
  Close("completed");
  kind_ = kind;
  const bool reasoning = kind == Kind::kReasoning;
  Json item;
  item["id"] = RandomId(reasoning ? "rs_" : "msg_");
  item["type"] = reasoning ? "reasoning" : "message";
  item["status"] = "in_progress";
  if (reasoning) item["summary"] = Json::array();
  if (!reasoning) item["role"] = "assistant";
  item["content"] = Json::array();
  Begin(std::move(item));
  Json part = reasoning ? ReasoningPart("") : TextPart("");
  Json added = OpenItem();
  added["part"] = part;
  SendEvent("response.content_part.added", std::move(added));
  response_["output"].back()["content"].push_back(std::move(part));
}

void ResponsesReply::OnPiece(Kind kind, const std::string& text, const std::string& call_id) {
  if (kind == Kind::kText || kind == Kind::kReasoning) {
    BeginText(kind);
    Json& part = response_["output"].back()["content"].back();
    part["text"].get_ref<std::string&>() += text;
    Json delta = OpenItem();
    delta["delta"] = text;
    if (kind == Kind::kText) delta["logprobs"] = Json::array();
    SendEvent(kind == Kind::kText ? "response.output_text.delta" : "response.reasoning_text.delta",
              std::move(delta));
    return;
  }
  if (kind == Kind::kCall) {
    Close("completed");
    kind_ = kind;
    Json item;
    item["id"] = RandomId("fc_");
    item["type"] = "function_call";
    item["status"] = "in_progress";
    item["call_id"] = call_id;
    item["name"] = text;
    item["arguments"] = "";
    Begin(std::move(item));
    return;
  }
  if (!item_open_ || kind_ != Kind::kCall) return;
  response_["output"].back()["arguments"].get_ref<std::string&>() += text;
  Json delta = OpenItem();
  delta["delta"] = text;
  SendEvent("response.function_call_arguments.delta", std::move(delta));
}

void ResponsesReply::Close(const char* status) {
  if (!std::exchange(item_open_, false)) return;
  Json& item = response_["output"].back();
  item["status"] = status;
  Json done = OpenItem();
  if (kind_ == Kind::kCall) {
    done["name"] = item["name"];
    done["arguments"] = item["arguments"];
    SendEvent("response.function_call_arguments.done", std::move(done));
  } else {
    const Json& part = item["content"].back();
    Json text = done;
    text["text"] = part["text"];
    if (kind_ == Kind::kText) text["logprobs"] = Json::array();
    SendEvent(kind_ == Kind::kText ? "response.output_text.done" : "response.reasoning_text.done",
              std::move(text));
    done["part"] = part;
    SendEvent("response.content_part.done", std::move(done));
  }
  SendEvent("response.output_item.done",
            Json{{"output_index", response_["output"].size() - 1}, {"item", item}});
}

void ResponsesReply::OnEnd(const End& end) {
  const bool cut = end.finish_reason == "length";
  Close(cut ? "incomplete" : "completed");
  response_["status"] = cut ? "incomplete" : "completed";
  if (cut) response_["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
  Json usage;
  usage["input_tokens"] = end.prompt_tokens;
  usage["input_tokens_details"] = Json{{"cached_tokens", end.cached_tokens}};
  usage["output_tokens"] = end.completion_tokens;
  usage["output_tokens_details"] = Json{{"reasoning_tokens", 0}};
  usage["total_tokens"] = end.prompt_tokens + end.completion_tokens;
  response_["usage"] = std::move(usage);
  SendResponse(cut ? "response.incomplete" : "response.completed");
}

Json ResponsesReply::ErrorBody(const Json& error, int) const { return Json{{"error", error}}; }

void ResponsesReply::OnStreamError(const Json& error) {
  response_["status"] = "failed";
  const Json* code = FindMember(error, "code");
  const Json* message = FindMember(error, "message");
  response_["error"] = Json{{"code", code ? *code : Json("server_error")},
                            {"message", message ? *message : Json("")}};
  SendResponse("response.failed");
}

void ResponsesReply::OnComment(std::string_view comment) { EmitRaw(std::string(comment) + "\n\n"); }

}  // namespace ballast
