#include "server/json_read.h"

#include <cmath>
#include <limits>

namespace ballast {

const Json* FindMember(const Json& object, std::string_view name) {
  const auto it = object.find(std::string(name));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string ShowJson(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return fmt::format("{:?}{}", text.substr(0, 64), text.size() > 64 ? "…" : "");
  }
  return DumpJson(value);
}

ApiStatus ReadBool(const Json& object, std::string_view name, bool& out) {
  const Json* value = FindMember(object, name);
  if (value == nullptr) return {};
  if (!value->is_boolean()) {
    return FieldError(name, "invalid_type", "{} must be true or false, not {}", name,
                      ShowJson(*value));
  }
  out = value->get<bool>();
  return {};
}

ApiStatus ReadString(const Json& object, std::string_view name, std::string& out) {
  const Json* value = FindMember(object, name);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    return FieldError(name, "invalid_type", "{} must be a string, not {}", name, ShowJson(*value));
  }
  out = value->get<std::string>();
  return {};
}

ApiResult<int64_t> IntWithin(const Json& value, std::string_view path, int64_t min, int64_t max) {
  if (!value.is_number_integer()) {
    return FieldError(path, "invalid_type", "{} must be an integer, not {}", path, ShowJson(value));
  }
  const bool too_large = value.is_number_unsigned() &&
                         value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (too_large || value.get<int64_t>() < min || value.get<int64_t>() > max) {
    return FieldError(path, "invalid_value", "{} is {}; the limits are {} and {}", path,
                      ShowJson(value), min, max);
  }
  return value.get<int64_t>();
}

ApiResult<double> NumberWithin(const Json& value, std::string_view path, double min, double max) {
  if (!value.is_number()) {
    return FieldError(path, "invalid_type", "{} must be a number, not {}", path, ShowJson(value));
  }
  const double number = value.get<double>();
  if (!(number >= min && number <= max)) {
    return FieldError(path, "invalid_value", "{} is {}; the limits are {} and {}", path,
                      ShowJson(value), min, max);
  }
  return number;
}

ApiStatus ReadInt(const Json& object, std::string_view name, int64_t min, int64_t max,
                  int64_t& out) {
  const Json* value = FindMember(object, name);
  if (value == nullptr) return {};
  ASSIGN_OR_RETURN(out, IntWithin(*value, name, min, max));
  return {};
}

ApiStatus ReadFloat(const Json& object, std::string_view name, double min, double max, float& out) {
  const Json* value = FindMember(object, name);
  if (value == nullptr) return {};
  ASSIGN_OR_RETURN(const double number, NumberWithin(*value, name, min, max));
  out = static_cast<float>(number);
  return {};
}

ApiResult<std::vector<TokenId>> TokenArray(const Json& value, std::string_view path,
                                           int32_t vocab) {
  if (!value.is_array()) {
    return FieldError(path, "invalid_type", "{} must be an array of token ids, not {}", path,
                      ShowJson(value));
  }
  std::vector<TokenId> tokens;
  tokens.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_number_integer()) {
      return FieldError(path, "invalid_type", "{}[{}] must be a token id, not {}", path, i,
                        ShowJson(value[i]));
    }
    const auto id = IntWithin(value[i], path, 0, vocab - 1);
    if (!id) {
      return FieldError(path, "invalid_value", "{}[{}] is {}; the limits are 0 and {}", path, i,
                        ShowJson(value[i]), vocab - 1);
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  return tokens;
}

}  // namespace ballast
