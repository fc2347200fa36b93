#include "server/messages_request.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "server/json_read.h"
#include "server/parse_request.h"
#include "server/surface_blocks.h"

namespace ballast {

namespace {

const TextParts kBlocks = {"blocks", {"text"}, "text", {"type", "text", "cache_control"}};

ApiResult<Json> ReadToolUse(const Json& block, const std::string& path) {
  RETURN_IF_ERROR(
      CheckMembers(block, path, {"type", "id", "name", "input", "cache_control", "caller"}));
  ASSIGN_OR_RETURN(const std::string id, RequireString(block, "id", path));
  ASSIGN_OR_RETURN(const std::string name, RequireString(block, "name", path));
  const Json* input = FindMember(block, "input");
  if (input != nullptr) RETURN_IF_ERROR(RequireObject(*input, path + ".input"));
  Json function;
  function["name"] = name;
  function["arguments"] = input == nullptr ? "{}" : DumpJson(*input);
  return Json{{"id", id}, {"type", "function"}, {"function", std::move(function)}};
}

ApiResult<Json> ReadToolResult(const Json& block, const std::string& path) {
  RETURN_IF_ERROR(
      CheckMembers(block, path, {"type", "tool_use_id", "content", "is_error", "cache_control"}));
  ASSIGN_OR_RETURN(const std::string id, RequireString(block, "tool_use_id", path));
  std::string text;
  if (const Json* content = FindMember(block, "content")) {
    ASSIGN_OR_RETURN(text, ReadTextParts(*content, path + ".content", kBlocks));
  }
  bool is_error = false;
  RETURN_IF_ERROR(ReadBool(block, "is_error", is_error));
  // Chat templates have no other place for it.
  if (is_error) text = "Error: " + text;
  return Json{{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
}

ApiStatus ReadUserBlocks(const Json& content, const std::string& path, Json& out) {
  std::string text;
  bool has_text = false;
  const auto flush = [&] {
    if (has_text) out.push_back(Json{{"role", "user"}, {"content", std::exchange(text, "")}});
    has_text = false;
  };
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string inside = fmt::format("{}[{}]", path, i);
    RETURN_IF_ERROR(RequireObject(content[i], inside));
    ASSIGN_OR_RETURN(const std::string type, RequireString(content[i], "type", inside));
    if (type == "tool_result") {
      flush();
      ASSIGN_OR_RETURN(Json message, ReadToolResult(content[i], inside));
      out.push_back(std::move(message));
      continue;
    }
    if (type != "text") return UnsupportedType(inside, type, "text, tool_result");
    ASSIGN_OR_RETURN(const std::string part, ReadTextPart(content[i], inside, kBlocks));
    AppendLine(text, part);
    has_text = true;
  }
  flush();
  return {};
}

ApiResult<Json> ReadAssistantBlocks(const Json& content, const std::string& path) {
  Json message;
  message["role"] = "assistant";
  std::string text, reasoning;
  Json calls = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string inside = fmt::format("{}[{}]", path, i);
    const Json& block = content[i];
    RETURN_IF_ERROR(RequireObject(block, inside));
    ASSIGN_OR_RETURN(const std::string type, RequireString(block, "type", inside));
    if (type == "text") {
      RETURN_IF_ERROR(CheckMembers(block, inside, {"type", "text", "cache_control", "citations"}));
      ASSIGN_OR_RETURN(const std::string part, RequireString(block, "text", inside));
      AppendLine(text, part);
    } else if (type == "thinking") {
      RETURN_IF_ERROR(CheckMembers(block, inside, {"type", "thinking", "signature"}));
      ASSIGN_OR_RETURN(const std::string part, RequireString(block, "thinking", inside));
      AppendLine(reasoning, part);
    } else if (type == "tool_use") {
      ASSIGN_OR_RETURN(Json call, ReadToolUse(block, inside));
      calls.push_back(std::move(call));
    } else {
      return UnsupportedType(inside, type, "text, thinking, tool_use");
    }
  }
  message["content"] = text;
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

ApiStatus ReadMessage(const Json& message, const std::string& path, Json& out) {
  RETURN_IF_ERROR(RequireObject(message, path));
  RETURN_IF_ERROR(CheckMembers(message, path, {"role", "content"}));
  ASSIGN_OR_RETURN(const std::string role, RequireString(message, "role", path));
  if (role != "user" && role != "assistant") {
    return FieldError(path + ".role", "invalid_value",
                      "{}.role is {:?}; known are user and assistant", path, role.substr(0, 64));
  }
  const std::string inside = path + ".content";
  const Json* content = FindMember(message, "content");
  if (content == nullptr) {
    return FieldError(inside, "missing_field", "the field {:?} is missing", inside);
  }
  if (content->is_string()) {
    out.push_back(Json{{"role", role}, {"content", *content}});
    return {};
  }
  if (!content->is_array() || content->empty()) {
    return FieldError(inside, "invalid_type",
                      "{} must be a string or an array of at least one block, not {}", inside,
                      ShowJson(*content));
  }
  if (role == "user") return ReadUserBlocks(*content, inside, out);
  ASSIGN_OR_RETURN(Json assistant, ReadAssistantBlocks(*content, inside));
  out.push_back(std::move(assistant));
  return {};
}

ApiStatus ReadConversation(const Json& body, Json& chat) {
  Json messages = Json::array();
  if (const Json* system = FindMember(body, "system")) {
    ASSIGN_OR_RETURN(const std::string text, ReadTextParts(*system, "system", kBlocks));
    if (!text.empty()) messages.push_back(Json{{"role", "system"}, {"content", text}});
  }
  const Json* given = FindMember(body, "messages");
  if (given == nullptr) {
    return FieldError("messages", "missing_field", "the field \"messages\" is missing");
  }
  if (!given->is_array() || given->empty() || given->size() > kMaxMessages) {
    return FieldError("messages", given->is_array() ? "invalid_value" : "invalid_type",
                      "messages is {}; it must be an array of 1 to {} messages", ShowJson(*given),
                      kMaxMessages);
  }
  for (size_t i = 0; i < given->size(); ++i) {
    RETURN_IF_ERROR(ReadMessage((*given)[i], fmt::format("messages[{}]", i), messages));
  }
  // A last message of the assistant is the beginning of the reply.
  const Json& last = messages.back();
  if (last["role"] == "assistant" && FindMember(last, "tool_calls") == nullptr) {
    chat["continue_final_message"] = true;
  }
  chat["messages"] = std::move(messages);
  return {};
}

ApiStatus ReadTools(const Json& body, Json& chat) {
  const Json* tools = FindMember(body, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) {
    return FieldError("tools", "invalid_type", "tools must be an array, not {}", ShowJson(*tools));
  }
  Json out = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string path = fmt::format("tools[{}]", i);
    RETURN_IF_ERROR(RequireObject(tool, path));
    std::string type = "custom";
    RETURN_IF_ERROR(ReadString(tool, "type", type));
    if (type != "custom") return UnsupportedType(path, type, "custom");
    RETURN_IF_ERROR(CheckMembers(
        tool, path, {"type", "name", "description", "input_schema", "cache_control", "strict"}));
    Json function;
    ASSIGN_OR_RETURN(function["name"], RequireString(tool, "name", path));
    for (const auto& [from, to] :
         {std::pair("description", "description"), std::pair("input_schema", "parameters"),
          std::pair("strict", "strict")}) {
      if (const Json* value = FindMember(tool, from)) function[to] = *value;
    }
    out.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  if (!out.empty()) chat["tools"] = std::move(out);
  return {};
}

ApiStatus ReadToolChoice(const Json& body, Json& chat) {
  const Json* choice = FindMember(body, "tool_choice");
  if (choice == nullptr) return {};
  RETURN_IF_ERROR(RequireObject(*choice, "tool_choice"));
  RETURN_IF_ERROR(
      CheckMembers(*choice, "tool_choice", {"type", "name", "disable_parallel_tool_use"}));
  ASSIGN_OR_RETURN(const std::string type, RequireString(*choice, "type", "tool_choice"));
  if (type == "auto" || type == "none") {
    chat["tool_choice"] = type;
  } else if (type == "any") {
    chat["tool_choice"] = "required";
  } else if (type == "tool") {
    ASSIGN_OR_RETURN(const std::string name, RequireString(*choice, "name", "tool_choice"));
    chat["tool_choice"] = Json{{"type", "function"}, {"function", Json{{"name", name}}}};
  } else {
    return FieldError("tool_choice.type", "invalid_value",
                      "tool_choice.type is {:?}; known are auto, any, tool and none",
                      type.substr(0, 64));
  }
  if (FindMember(*choice, "disable_parallel_tool_use") == nullptr) return {};
  bool disable = false;
  RETURN_IF_ERROR(ReadBool(*choice, "disable_parallel_tool_use", disable));
  chat["parallel_tool_calls"] = !disable;
  return {};
}

// Templates that can think know this variable; others do not look at it.
ApiStatus ReadThinking(const Json& body, Json& chat) {
  const Json* thinking = FindMember(body, "thinking");
  if (thinking == nullptr) return {};
  RETURN_IF_ERROR(RequireObject(*thinking, "thinking"));
  RETURN_IF_ERROR(CheckMembers(*thinking, "thinking", {"type", "budget_tokens", "display"}));
  ASSIGN_OR_RETURN(const std::string type, RequireString(*thinking, "type", "thinking"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return FieldError("thinking.type", "invalid_value",
                      "thinking.type is {:?}; known are enabled, adaptive and disabled",
                      type.substr(0, 64));
  }
  chat["chat_template_kwargs"] = Json{{"enable_thinking", type != "disabled"}};
  return {};
}

ApiStatus ReadGeneration(const Json& body, Json& chat) {
  if (FindMember(body, "max_tokens") == nullptr) {
    return FieldError("max_tokens", "missing_field", "the field \"max_tokens\" is missing");
  }
  int64_t max_tokens = 0;
  RETURN_IF_ERROR(ReadInt(body, "max_tokens", 1, std::numeric_limits<int32_t>::max(), max_tokens));
  chat["max_tokens"] = max_tokens;
  for (const char* name : {"temperature", "top_p", "top_k"}) {
    if (const Json* value = FindMember(body, name)) chat[name] = *value;
  }
  if (const Json* stops = FindMember(body, "stop_sequences")) {
    if (!stops->is_array() || stops->size() > kMaxStops) {
      return FieldError("stop_sequences", stops->is_array() ? "invalid_value" : "invalid_type",
                        "stop_sequences is {}; it must be an array of up to {} strings",
                        ShowJson(*stops), kMaxStops);
    }
    for (const Json& stop : *stops) {
      const size_t size = stop.is_string() ? stop.get_ref<const std::string&>().size() : 0;
      if (size >= 1 && size <= kMaxStopBytes) continue;
      return FieldError("stop_sequences", "invalid_value",
                        "stop_sequences holds {}; it takes strings of 1 to {} bytes",
                        ShowJson(stop), kMaxStopBytes);
    }
    chat["stop"] = *stops;
  }
  bool stream = false;
  RETURN_IF_ERROR(ReadBool(body, "stream", stream));
  if (!stream) return {};
  chat["stream"] = true;
  chat["stream_options"] = Json{{"include_usage", true}};
  return {};
}

}  // namespace

ApiResult<Json> ChatFromMessages(std::string_view text, Endpoints endpoint) {
  ASSIGN_OR_RETURN(const Json body, ParseBody(text, endpoint));
  Json chat = Json::object();
  std::string model;
  RETURN_IF_ERROR(ReadString(body, "model", model));
  if (model.empty()) {
    return FieldError("model", "missing_field", "the field \"model\" is missing");
  }
  chat["model"] = model;
  RETURN_IF_ERROR(ReadConversation(body, chat));
  RETURN_IF_ERROR(ReadTools(body, chat));
  RETURN_IF_ERROR(ReadToolChoice(body, chat));
  RETURN_IF_ERROR(ReadThinking(body, chat));
  if (endpoint == kMessages) RETURN_IF_ERROR(ReadGeneration(body, chat));
  return chat;
}

}  // namespace ballast
