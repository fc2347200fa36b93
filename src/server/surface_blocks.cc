#include "server/surface_blocks.h"

#include <algorithm>

#include "server/json_read.h"

namespace ballast {

ApiStatus CheckMembers(const Json& object, const std::string& path,
                       std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_null() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string member = path + "." + name.substr(0, 64);
    return FieldError(member, "unknown_field", "the field {:?} is not known here", member);
  }
  return {};
}

ApiResult<std::string> RequireString(const Json& object, std::string_view name,
                                     const std::string& path) {
  const std::string member = fmt::format("{}.{}", path, name);
  const Json* value = FindMember(object, name);
  if (value == nullptr) {
    return FieldError(member, "missing_field", "the field {:?} is missing", member);
  }
  if (!value->is_string()) {
    return FieldError(member, "invalid_type", "{} must be a string, not {}", member,
                      ShowJson(*value));
  }
  return value->get<std::string>();
}

ApiStatus RequireObject(const Json& object, const std::string& path) {
  if (object.is_object()) return {};
  return FieldError(path, "invalid_type", "{} must be an object, not {}", path, ShowJson(object));
}

ApiError UnsupportedType(const std::string& path, const std::string& type, std::string_view known) {
  return FieldError(path + ".type", "unsupported_field", "{}.type is {:?}; supported here: {}",
                    path, type.substr(0, 64), known);
}

ApiResult<std::string> ReadTextPart(const Json& part, const std::string& path,
                                    const TextParts& known) {
  RETURN_IF_ERROR(RequireObject(part, path));
  ASSIGN_OR_RETURN(const std::string type, RequireString(part, "type", path));
  if (std::find(known.types.begin(), known.types.end(), type) == known.types.end()) {
    return UnsupportedType(path, type, known.shown_types);
  }
  RETURN_IF_ERROR(CheckMembers(part, path, known.members));
  return RequireString(part, "text", path);
}

ApiResult<std::string> ReadTextParts(const Json& content, const std::string& path,
                                     const TextParts& known) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return FieldError(path, "invalid_type", "{} must be a string or an array of {}, not {}", path,
                      known.word, ShowJson(content));
  }
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string text,
                     ReadTextPart(content[i], fmt::format("{}[{}]", path, i), known));
    AppendLine(joined, text);
  }
  return joined;
}

void AppendLine(std::string& text, const std::string& more) {
  if (!text.empty()) text.push_back('\n');
  text += more;
}

}  // namespace ballast
