#include "base/json.h"

#include <vector>

namespace ballast {

Result<Json> ParseJson(std::string_view text, int max_depth, int max_members) {
  // nlohmann's parser is iterative, but its destructor and dump() are not all so; the depth is
  // therefore bounded by a scan first. Brackets inside strings do not count.
  int depth = 0;
  bool in_string = false;
  std::vector<int> members;  // one entry a level: commas seen in an object, −1 in an array
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') {
      if (++depth > max_depth) {
        return InvalidArgument("JSON nests deeper than the limit of {} levels at byte {}",
                               max_depth, i);
      }
      members.push_back(c == '{' ? 0 : -1);
    }
    if (c == ',' && !members.empty() && members.back() >= 0 && max_members > 0 &&
        ++members.back() >= max_members) {
      return InvalidArgument("a JSON object has more members than the limit of {} at byte {}",
                             max_members, i);
    }
    if (c == '}' || c == ']') {
      --depth;
      if (!members.empty()) members.pop_back();
    }
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return InvalidArgument("invalid JSON: {}", e.what());
  }
}

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ballast
