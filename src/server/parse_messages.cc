#include "server/parse_messages.h"

#include <string>

#include "server/json_read.h"
#include "server/parse_request.h"

namespace ballast {

namespace {

ApiResult<std::string> ReadRole(const Json& message, const std::string& path) {
  const Json* role = FindMember(message, "role");
  if (role == nullptr) {
    return FieldError(path + ".role", "missing_field", "{}.role is missing", path);
  }
  if (role->is_string()) {
    const auto& text = role->get_ref<const std::string&>();
    if (text == "developer") return std::string("system");
    for (const char* known : {"system", "user", "assistant", "tool"}) {
      if (text == known) return text;
    }
  }
  return FieldError(path + ".role", "invalid_value",
                    "{}.role is {}; known are system, developer, user, assistant and tool", path,
                    ShowJson(*role));
}

ApiResult<std::string> ReadPart(const Json& part, const std::string& path) {
  const Json* type = part.is_object() ? FindMember(part, "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return FieldError(path, "invalid_type", "{} must be an object with a \"type\", not {}", path,
                      ShowJson(part));
  }
  const auto& name = type->get_ref<const std::string&>();
  if (name != "text") {
    return FieldError(path + ".type", "unsupported_field",
                      "{}.type is {}; this server reads text parts only", path, ShowJson(*type));
  }
  const Json* text = FindMember(part, "text");
  if (text == nullptr || !text->is_string()) {
    return FieldError(path + ".text", "invalid_type", "{}.text must be a string", path);
  }
  return text->get<std::string>();
}

ApiResult<std::string> ReadContent(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return FieldError(path, "invalid_type", "{} must be a string or an array of parts, not {}",
                      path, ShowJson(content));
  }
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string text, ReadPart(content[i], fmt::format("{}[{}]", path, i)));
    if (i > 0) joined.push_back('\n');
    joined += text;
  }
  return joined;
}

// One call of the history, with its arguments as the object that templates expect.
ApiResult<Json> ReadToolCall(const Json& call, const std::string& path) {
  const Json* function = call.is_object() ? FindMember(call, "function") : nullptr;
  const Json* name =
      function != nullptr && function->is_object() ? FindMember(*function, "name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    return FieldError(path, "invalid_type", "{} must hold a \"function\" with a \"name\"", path);
  }
  const std::string inside = path + ".function.arguments";
  Json arguments = Json::object();
  if (const Json* given = FindMember(*function, "arguments")) {
    if (given->is_object()) {
      arguments = *given;
    } else if (given->is_string()) {
      const auto& text = given->get_ref<const std::string&>();
      const bool blank = text.find_first_not_of(" \n\r\t") == std::string::npos;
      auto parsed = ParseJson(blank ? "{}" : text, kMaxJsonDepth, kMaxObjectMembers);
      if (!parsed || !parsed->is_object()) {
        return FieldError(inside, "invalid_value", "{} is {}, which is not a JSON object", inside,
                          ShowJson(*given));
      }
      arguments = *std::move(parsed);
    } else {
      return FieldError(inside, "invalid_type", "{} must be a string of JSON, not {}", inside,
                        ShowJson(*given));
    }
  }
  Json out;
  if (const Json* id = FindMember(call, "id"); id != nullptr && id->is_string()) out["id"] = *id;
  out["type"] = "function";
  out["function"] = Json{{"name", *name}, {"arguments", std::move(arguments)}};
  return out;
}

// Members beside role and content. Clients send an assistant's reply back as they got it, so empty
// values of its other members are dropped.
ApiStatus ReadOther(const std::string& role, const std::string& name, const Json& value,
                    const std::string& path, Json& out) {
  const bool assistant = role == "assistant";
  const std::string member = path + "." + name.substr(0, 64);
  if (value.is_null() || (value.is_array() && value.empty())) return {};
  const bool text_member = name == "name" || (assistant && name == "reasoning_content") ||
                           (role == "tool" && name == "tool_call_id");
  if (text_member) {
    if (!value.is_string()) {
      return FieldError(member, "invalid_type", "{} must be a string, not {}", member,
                        ShowJson(value));
    }
    out[name] = value;
    return {};
  }
  if (assistant && name == "tool_calls") {
    if (!value.is_array()) {
      return FieldError(member, "invalid_type", "{} must be an array, not {}", member,
                        ShowJson(value));
    }
    out[name] = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      ASSIGN_OR_RETURN(Json call, ReadToolCall(value[i], fmt::format("{}[{}]", member, i)));
      out[name].push_back(std::move(call));
    }
    return {};
  }
  const bool known = assistant && (name == "refusal" || name == "audio" || name == "function_call");
  return FieldError(member, known ? "unsupported_field" : "unknown_field",
                    "the field {:?} is not {} here", member, known ? "supported" : "known");
}

ApiResult<Json> ReadMessage(const Json& message, const std::string& path) {
  if (!message.is_object()) {
    return FieldError(path, "invalid_type", "{} must be an object, not {}", path,
                      ShowJson(message));
  }
  ASSIGN_OR_RETURN(const std::string role, ReadRole(message, path));
  Json out = Json::object();
  out["role"] = role;
  const Json* content = FindMember(message, "content");
  const bool may_lack = role == "assistant" && FindMember(message, "tool_calls") != nullptr;
  if (content == nullptr && !may_lack) {
    return FieldError(path + ".content", "missing_field", "{}.content is missing", path);
  }
  out["content"] = "";
  if (content != nullptr) {
    ASSIGN_OR_RETURN(out["content"], ReadContent(*content, path + ".content"));
  }
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content") continue;
    RETURN_IF_ERROR(ReadOther(role, name, value, path, out));
  }
  return out;
}

}  // namespace

ApiResult<Json> ParseMessages(const Json& body) {
  const Json* messages = FindMember(body, "messages");
  if (messages == nullptr) {
    return FieldError("messages", "missing_field", "the field \"messages\" is missing");
  }
  if (!messages->is_array()) {
    return FieldError("messages", "invalid_type", "messages must be an array, not {}",
                      ShowJson(*messages));
  }
  if (messages->empty() || messages->size() > kMaxMessages) {
    return FieldError("messages", "invalid_value", "messages holds {}; the limits are 1 and {}",
                      messages->size(), kMaxMessages);
  }
  Json out = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    ASSIGN_OR_RETURN(Json message, ReadMessage((*messages)[i], fmt::format("messages[{}]", i)));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace ballast
