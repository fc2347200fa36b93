#include "server/responses_request.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "server/json_read.h"
#include "server/parse_request.h"
#include "server/surface_blocks.h"

namespace ballast {

namespace {

const TextParts kParts = {"parts",
                          {"input_text", "output_text", "text", "reasoning_text"},
                          "input_text, output_text",
                          {"type", "text", "annotations", "logprobs"}};

/// Builds the chat's messages item by item.
class Conversation {
 public:
  explicit Conversation(std::string instructions) : system_(std::move(instructions)) {}

  ApiStatus Add(const Json& item, const std::string& path) {
    RETURN_IF_ERROR(RequireObject(item, path));
    std::string type = "message";
    RETURN_IF_ERROR(ReadString(item, "type", type));
    if (type == "message") return AddMessage(item, path);
    if (type == "function_call") return AddCall(item, path);
    if (type == "function_call_output") return AddOutput(item, path);
    if (type == "reasoning") return AddReasoning(item, path);
    return UnsupportedType(path, type, "message, function_call, function_call_output, reasoning");
  }

  Json Take() {
    if (messages_.empty() && !system_.empty()) FlushSystem();
    return std::move(messages_);
  }

 private:
  // Templates take one system message and want it first, so what leads is one message.
  void FlushSystem() {
    if (system_.empty()) return;
    messages_.push_back(Json{{"role", "system"}, {"content", std::exchange(system_, "")}});
  }

  /// The assistant's turn that calls and texts without anything in between belong to.
  Json& Assistant() {
    FlushSystem();
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
      messages_.push_back(Json{{"role", "assistant"}, {"content", ""}});
    }
    Json& message = messages_.back();
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, "");
    return message;
  }

  ApiStatus AddMessage(const Json& item, const std::string& path) {
    RETURN_IF_ERROR(CheckMembers(item, path, {"type", "role", "content", "id", "status", "phase"}));
    ASSIGN_OR_RETURN(const std::string role, RequireString(item, "role", path));
    const Json* content = FindMember(item, "content");
    const std::string inside = path + ".content";
    if (content == nullptr) {
      return FieldError(inside, "missing_field", "the field {:?} is missing", inside);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadTextParts(*content, inside, kParts));
    if (role == "assistant") {
      Json& message = Assistant();
      std::string joined = message["content"].get<std::string>();
      AppendLine(joined, text);
      message["content"] = joined;
    } else if (role == "system" || role == "developer") {
      if (messages_.empty()) {
        AppendLine(system_, text);
      } else {
        messages_.push_back(Json{{"role", "system"}, {"content", text}});
      }
    } else if (role == "user") {
      FlushSystem();
      messages_.push_back(Json{{"role", "user"}, {"content", text}});
    } else {
      return FieldError(path + ".role", "invalid_value",
                        "{}.role is {:?}; known are user, assistant, system and developer", path,
                        role.substr(0, 64));
    }
    return {};
  }

  ApiStatus AddCall(const Json& item, const std::string& path) {
    RETURN_IF_ERROR(
        CheckMembers(item, path, {"type", "id", "call_id", "name", "arguments", "status"}));
    ASSIGN_OR_RETURN(const std::string id, RequireString(item, "call_id", path));
    ASSIGN_OR_RETURN(const std::string name, RequireString(item, "name", path));
    ASSIGN_OR_RETURN(const std::string arguments, RequireString(item, "arguments", path));
    const Json function = Json{{"name", name}, {"arguments", arguments}};
    Json& message = Assistant();
    if (!message.contains("tool_calls")) message["tool_calls"] = Json::array();
    message["tool_calls"].push_back(Json{{"id", id}, {"type", "function"}, {"function", function}});
    return {};
  }

  ApiStatus AddOutput(const Json& item, const std::string& path) {
    RETURN_IF_ERROR(CheckMembers(item, path, {"type", "id", "call_id", "output", "status"}));
    ASSIGN_OR_RETURN(const std::string id, RequireString(item, "call_id", path));
    const Json* output = FindMember(item, "output");
    const std::string inside = path + ".output";
    if (output == nullptr) {
      return FieldError(inside, "missing_field", "the field {:?} is missing", inside);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadTextParts(*output, inside, kParts));
    FlushSystem();
    messages_.push_back(Json{{"role", "tool"}, {"tool_call_id", id}, {"content", text}});
    return {};
  }

  ApiStatus AddReasoning(const Json& item, const std::string& path) {
    RETURN_IF_ERROR(CheckMembers(
        item, path, {"type", "id", "summary", "content", "encrypted_content", "status"}));
    const Json* content = FindMember(item, "content");
    if (content == nullptr) return {};
    ASSIGN_OR_RETURN(const std::string text, ReadTextParts(*content, path + ".content", kParts));
    AppendLine(reasoning_, text);
    return {};
  }

  std::string system_;
  std::string reasoning_;  // of the assistant's next item
  Json messages_ = Json::array();
};

ApiStatus ReadInput(const Json& body, Json& chat) {
  std::string instructions;
  RETURN_IF_ERROR(ReadString(body, "instructions", instructions));
  const Json* input = FindMember(body, "input");
  if (input == nullptr) {
    return FieldError("input", "missing_field", "the field \"input\" is missing");
  }
  Conversation conversation(std::move(instructions));
  if (input->is_string()) {
    RETURN_IF_ERROR(conversation.Add(Json{{"role", "user"}, {"content", *input}}, "input"));
  } else if (input->is_array() && !input->empty() && input->size() <= kMaxMessages) {
    for (size_t i = 0; i < input->size(); ++i) {
      RETURN_IF_ERROR(conversation.Add((*input)[i], fmt::format("input[{}]", i)));
    }
  } else {
    return FieldError("input", input->is_array() ? "invalid_value" : "invalid_type",
                      "input is {}; it must be a string or an array of 1 to {} items",
                      ShowJson(*input), kMaxMessages);
  }
  chat["messages"] = conversation.Take();
  return {};
}

ApiStatus ReadTools(const Json& body, ResponsesBody& out) {
  const Json* tools = FindMember(body, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) {
    return FieldError("tools", "invalid_type", "tools must be an array, not {}", ShowJson(*tools));
  }
  Json list = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string path = fmt::format("tools[{}]", i);
    RETURN_IF_ERROR(RequireObject(tool, path));
    ASSIGN_OR_RETURN(const std::string type, RequireString(tool, "type", path));
    if (type != "function") return UnsupportedType(path, type, "function");
    RETURN_IF_ERROR(
        CheckMembers(tool, path, {"type", "name", "description", "parameters", "strict"}));
    Json function;
    ASSIGN_OR_RETURN(function["name"], RequireString(tool, "name", path));
    for (const char* name : {"description", "parameters", "strict"}) {
      if (const Json* value = FindMember(tool, name)) function[name] = *value;
    }
    list.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  out.echo["tools"] = *tools;
  if (!list.empty()) out.chat["tools"] = std::move(list);
  return {};
}

ApiStatus ReadToolChoice(const Json& body, ResponsesBody& out) {
  const Json* choice = FindMember(body, "tool_choice");
  if (choice == nullptr) return {};
  out.echo["tool_choice"] = *choice;
  if (choice->is_string()) {
    out.chat["tool_choice"] = *choice;
    return {};
  }
  RETURN_IF_ERROR(RequireObject(*choice, "tool_choice"));
  ASSIGN_OR_RETURN(const std::string type, RequireString(*choice, "type", "tool_choice"));
  if (type != "function") return UnsupportedType("tool_choice", type, "function");
  RETURN_IF_ERROR(CheckMembers(*choice, "tool_choice", {"type", "name"}));
  ASSIGN_OR_RETURN(const std::string name, RequireString(*choice, "name", "tool_choice"));
  out.chat["tool_choice"] = Json{{"type", "function"}, {"function", Json{{"name", name}}}};
  return {};
}

ApiStatus ReadText(const Json& body, ResponsesBody& out) {
  const Json* text = FindMember(body, "text");
  if (text == nullptr) return {};
  RETURN_IF_ERROR(RequireObject(*text, "text"));
  RETURN_IF_ERROR(CheckMembers(*text, "text", {"format", "verbosity"}));
  const Json* verbosity = FindMember(*text, "verbosity");
  if (verbosity != nullptr && *verbosity != "medium") {
    return FieldError("text.verbosity", "unsupported_field",
                      "text.verbosity is {}; only \"medium\" is supported", ShowJson(*verbosity));
  }
  const Json* format = FindMember(*text, "format");
  if (format == nullptr) return {};
  RETURN_IF_ERROR(RequireObject(*format, "text.format"));
  ASSIGN_OR_RETURN(const std::string type, RequireString(*format, "type", "text.format"));
  out.echo["text"] = Json{{"format", *format}};
  if (type == "text") return {};
  if (type == "json_object") {
    out.chat["response_format"] = Json{{"type", type}};
    return {};
  }
  if (type != "json_schema") {
    return UnsupportedType("text.format", type, "text, json_object, json_schema");
  }
  RETURN_IF_ERROR(
      CheckMembers(*format, "text.format", {"type", "name", "description", "schema", "strict"}));
  Json schema = *format;
  schema.erase("type");
  out.chat["response_format"] = Json{{"type", type}, {"json_schema", std::move(schema)}};
  return {};
}

ApiStatus ReadReasoning(const Json& body) {
  const Json* reasoning = FindMember(body, "reasoning");
  if (reasoning == nullptr) return {};
  RETURN_IF_ERROR(RequireObject(*reasoning, "reasoning"));
  // Summaries are an offer that a server may leave out; an effort is a promise about the answer.
  RETURN_IF_ERROR(CheckMembers(*reasoning, "reasoning", {"effort", "summary", "generate_summary"}));
  if (const Json* effort = FindMember(*reasoning, "effort")) {
    return FieldError("reasoning.effort", "unsupported_field",
                      "reasoning.effort is {}; levels of effort are not supported",
                      ShowJson(*effort));
  }
  return {};
}

ApiStatus ReadSettings(const Json& body, ResponsesBody& out) {
  if (FindMember(body, "max_output_tokens") != nullptr) {
    int64_t limit = 0;
    RETURN_IF_ERROR(
        ReadInt(body, "max_output_tokens", 1, std::numeric_limits<int32_t>::max(), limit));
    out.chat["max_tokens"] = limit;
    out.echo["max_output_tokens"] = limit;
  }
  for (const char* name : {"temperature", "top_p", "parallel_tool_calls"}) {
    if (const Json* value = FindMember(body, name)) out.chat[name] = out.echo[name] = *value;
  }
  for (const char* name : {"instructions", "metadata", "user"}) {
    if (const Json* value = FindMember(body, name)) out.echo[name] = *value;
  }
  if (const Json* include = FindMember(body, "include")) {
    // Reasoning comes as plain text, so there is nothing that would have to be encrypted.
    for (const Json& item : *include) {
      if (include->is_array() && item == "reasoning.encrypted_content") continue;
      return FieldError("include", "unsupported_field", "include holds {}, which is not supported",
                        ShowJson(item));
    }
  }
  RETURN_IF_ERROR(ReadBool(body, "stream", out.stream));
  if (const Json* options = FindMember(body, "stream_options")) {
    RETURN_IF_ERROR(RequireObject(*options, "stream_options"));
    RETURN_IF_ERROR(CheckMembers(*options, "stream_options", {"include_obfuscation"}));
  }
  if (out.stream) {
    out.chat["stream"] = true;
    out.chat["stream_options"] = Json{{"include_usage", true}};
  }
  return {};
}

}  // namespace

ApiResult<ResponsesBody> ChatFromResponses(std::string_view text) {
  ASSIGN_OR_RETURN(const Json body, ParseBody(text, kResponses));
  ResponsesBody out;
  std::string model;
  RETURN_IF_ERROR(ReadString(body, "model", model));
  if (!model.empty()) out.chat["model"] = model;
  RETURN_IF_ERROR(ReadInput(body, out.chat));
  RETURN_IF_ERROR(ReadTools(body, out));
  RETURN_IF_ERROR(ReadToolChoice(body, out));
  RETURN_IF_ERROR(ReadText(body, out));
  RETURN_IF_ERROR(ReadReasoning(body));
  RETURN_IF_ERROR(ReadSettings(body, out));
  return out;
}

}  // namespace ballast
