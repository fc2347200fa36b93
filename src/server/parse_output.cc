#include "server/parse_output.h"

#include <algorithm>
#include <utility>

#include "server/json_read.h"

namespace ballast {

namespace {

using Kind = ResponseFormat::Kind;

bool IsToolName(const std::string& name) {
  if (name.empty() || name.size() > kMaxToolNameBytes) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  });
}

/// Refuses members outside `known`.
ApiStatus OnlyMembers(const Json& object, const std::string& path,
                      std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string member = path + "." + name.substr(0, 64);
    return FieldError(member, "unknown_field", "the field {:?} is not known here", member);
  }
  return {};
}

ApiResult<const Json*> ObjectMember(const Json& object, const char* name, const std::string& path) {
  const Json* value = FindMember(object, name);
  const std::string member = path + "." + name;
  if (value == nullptr) return FieldError(member, "missing_field", "{} is missing", member);
  if (!value->is_object()) {
    return FieldError(member, "invalid_type", "{} must be an object, not {}", member,
                      ShowJson(*value));
  }
  return value;
}

ApiStatus ReadToolChoice(const Json& body, ToolSettings& out) {
  const Json* choice = FindMember(body, "tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_object()) {
    const Json* type = FindMember(*choice, "type");
    if (type != nullptr && type->is_string() && *type == "function") {
      ASSIGN_OR_RETURN(const Json* function, ObjectMember(*choice, "function", "tool_choice"));
      RETURN_IF_ERROR(ReadString(*function, "name", out.named));
      const auto known = std::find_if(out.specs.begin(), out.specs.end(),
                                      [&](const ToolSpec& t) { return t.name == out.named; });
      if (known != out.specs.end()) {
        out.use = ToolUse::kRequired;
        return {};
      }
      return FieldError("tool_choice.function.name", "invalid_value",
                        "tool_choice names {:?}, which is not in tools", out.named.substr(0, 128));
    }
  } else if (choice->is_string()) {
    const auto& text = choice->get_ref<const std::string&>();
    if (text == "none") {
      out.use = ToolUse::kNone;
      return {};
    }
    if (text == "auto") return {};
    if (text == "required") {
      if (out.specs.empty()) {
        return FieldError("tool_choice", "invalid_value",
                          "tool_choice is \"required\", but there are no tools");
      }
      out.use = ToolUse::kRequired;
      return {};
    }
  }
  return FieldError("tool_choice", "invalid_value",
                    "tool_choice is {}; known are \"none\", \"auto\", \"required\" and {{\"type\": "
                    "\"function\", \"function\": {{\"name\": …}}}}",
                    ShowJson(*choice));
}

ApiStatus ReadSchemaFormat(const Json& format, ResponseFormat& out) {
  const Json* holder = &format;
  out.path = "response_format";
  if (FindMember(format, "json_schema") != nullptr) {
    ASSIGN_OR_RETURN(holder, ObjectMember(format, "json_schema", out.path));
    out.path += ".json_schema";
    RETURN_IF_ERROR(OnlyMembers(*holder, out.path, {"name", "description", "schema", "strict"}));
    bool strict = false;
    RETURN_IF_ERROR(ReadBool(*holder, "strict", strict));
  }
  const Json* schema = FindMember(*holder, "schema");
  out.path += ".schema";
  if (schema == nullptr) {
    return FieldError(out.path, "missing_field", "{} is missing", out.path);
  }
  out.kind = Kind::kJsonSchema;
  out.schema = *schema;
  return {};
}

ApiStatus ReadRegex(const Json& holder, const char* name, const std::string& path,
                    ResponseFormat& out) {
  const Json* pattern = FindMember(holder, name);
  if (pattern == nullptr || !pattern->is_string()) {
    return FieldError(path, "invalid_type", "{} must be a string", path);
  }
  out.kind = Kind::kRegex;
  out.pattern = pattern->get<std::string>();
  out.path = path;
  return {};
}

ApiStatus ReadFormatObject(const Json& format, ResponseFormat& out) {
  if (!format.is_object()) {
    return FieldError("response_format", "invalid_type",
                      "response_format must be an object, not {}", ShowJson(format));
  }
  RETURN_IF_ERROR(
      OnlyMembers(format, "response_format", {"type", "json_schema", "schema", "pattern"}));
  std::string type;
  RETURN_IF_ERROR(ReadString(format, "type", type));
  const auto without = [&](const char* name) -> ApiStatus {
    if (FindMember(format, name) == nullptr) return {};
    return FieldError(std::string("response_format.") + name, "invalid_value",
                      "response_format.{} has no meaning with the type {:?}", name, type);
  };
  if (type != "regex") RETURN_IF_ERROR(without("pattern"));
  if (type != "json_schema") RETURN_IF_ERROR(without("json_schema"));
  if (type == "text" || type == "regex") RETURN_IF_ERROR(without("schema"));
  if (type == "text") return {};
  if (type == "json_schema") return ReadSchemaFormat(format, out);
  if (type == "json_object") {
    if (FindMember(format, "schema") != nullptr) return ReadSchemaFormat(format, out);
    out.kind = Kind::kJsonObject;
    out.path = "response_format";
    return {};
  }
  if (type == "regex") return ReadRegex(format, "pattern", "response_format.pattern", out);
  return FieldError(
      "response_format.type", "invalid_value",
      "response_format.type is {:?}; known are text, json_object, json_schema and regex",
      type.substr(0, 64));
}

ApiStatus ReadChoices(const Json& choices, ResponseFormat& out) {
  if (!choices.is_array() || choices.empty() || choices.size() > 1024) {
    return FieldError("guided_choice", "invalid_value",
                      "guided_choice must be an array of 1 to 1024 strings, not {}",
                      ShowJson(choices));
  }
  for (const Json& choice : choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty()) {
      return FieldError("guided_choice", "invalid_type",
                        "guided_choice holds {}, which is not a string with text",
                        ShowJson(choice));
    }
    out.choices.push_back(choice.get<std::string>());
  }
  out.kind = Kind::kChoice;
  out.path = "guided_choice";
  return {};
}

}  // namespace

ApiResult<ToolSpec> ParseTool(const Json& tool, const std::string& path) {
  if (!tool.is_object()) {
    return FieldError(path, "invalid_type", "{} must be an object, not {}", path, ShowJson(tool));
  }
  const Json* type = FindMember(tool, "type");
  if (type == nullptr || *type != "function") {
    return FieldError(path + ".type", "unsupported_field",
                      "{}.type is {}; this server knows tools of the type \"function\"", path,
                      type == nullptr ? "missing" : ShowJson(*type));
  }
  RETURN_IF_ERROR(OnlyMembers(tool, path, {"type", "function"}));
  ASSIGN_OR_RETURN(const Json* function, ObjectMember(tool, "function", path));
  const std::string inside = path + ".function";
  RETURN_IF_ERROR(OnlyMembers(*function, inside, {"name", "description", "parameters", "strict"}));
  ToolSpec spec;
  RETURN_IF_ERROR(ReadString(*function, "name", spec.name));
  if (!IsToolName(spec.name)) {
    return FieldError(inside + ".name", "invalid_value",
                      "{}.name is {:?}; it must be 1 to {} letters, digits, or signs of _-.:/",
                      inside, spec.name.substr(0, 64), kMaxToolNameBytes);
  }
  RETURN_IF_ERROR(ReadString(*function, "description", spec.description));
  bool strict = false;
  RETURN_IF_ERROR(ReadBool(*function, "strict", strict));
  spec.parameters = Json::object();
  if (FindMember(*function, "parameters") != nullptr) {
    ASSIGN_OR_RETURN(const Json* parameters, ObjectMember(*function, "parameters", inside));
    spec.parameters = *parameters;
  }
  if (!spec.parameters.contains("type")) spec.parameters["type"] = "object";
  return spec;
}

ApiResult<ToolSettings> ParseTools(const Json& body) {
  ToolSettings out;
  if (const Json* tools = FindMember(body, "tools")) {
    if (!tools->is_array() || tools->size() > kMaxTools) {
      return FieldError("tools", "invalid_value", "tools must be an array of up to {}, not {}",
                        kMaxTools, ShowJson(*tools));
    }
    for (size_t i = 0; i < tools->size(); ++i) {
      ASSIGN_OR_RETURN(ToolSpec spec, ParseTool((*tools)[i], fmt::format("tools[{}]", i)));
      for (const ToolSpec& other : out.specs) {
        if (other.name != spec.name) continue;
        return FieldError(fmt::format("tools[{}].function.name", i), "invalid_value",
                          "two tools have the name {:?}", spec.name);
      }
      out.specs.push_back(std::move(spec));
    }
    out.tools = *tools;
  }
  out.use = out.specs.empty() ? ToolUse::kNone : ToolUse::kAuto;
  RETURN_IF_ERROR(ReadToolChoice(body, out));
  RETURN_IF_ERROR(ReadBool(body, "parallel_tool_calls", out.parallel));
  return out;
}

ApiResult<ResponseFormat> ParseResponseFormat(const Json& body) {
  ResponseFormat out;
  const char* given = nullptr;
  for (const char* name :
       {"response_format", "json_schema", "guided_json", "guided_regex", "guided_choice"}) {
    const Json* value = FindMember(body, name);
    if (value == nullptr) continue;
    if (given != nullptr) {
      return FieldError(name, "invalid_value", "{} and {} both constrain the reply; give one",
                        given, name);
    }
    given = name;
    const std::string_view field = name;
    if (field == "response_format") {
      RETURN_IF_ERROR(ReadFormatObject(*value, out));
    } else if (field == "guided_regex") {
      RETURN_IF_ERROR(ReadRegex(body, name, name, out));
    } else if (field == "guided_choice") {
      RETURN_IF_ERROR(ReadChoices(*value, out));
    } else {
      out.kind = Kind::kJsonSchema;
      out.schema = *value;
      out.path = name;
    }
  }
  return out;
}

}  // namespace ballast
