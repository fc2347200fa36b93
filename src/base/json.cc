#include "base/json.h"

#include <set>
#include <string>
#include <vector>

namespace ballast {

namespace {

Status CheckLimits(std::string_view text, int max_depth, int max_members) {
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
  return OkStatus();
}

Result<Json> Parse(std::string_view text, const Json::parser_callback_t& callback) {
  try {
    return Json::parse(text, callback);
  } catch (const Json::exception& e) {
    // The library's own prefix, "[json.exception…] ", tells a reader nothing.
    std::string_view what = e.what();
    const size_t end = what.find("] ");
    if (end != std::string_view::npos) what.remove_prefix(end + 2);
    return InvalidArgument("invalid JSON: {}", what);
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text, int max_depth, int max_members) {
  RETURN_IF_ERROR(CheckLimits(text, max_depth, max_members));
  return Parse(text, nullptr);
}

Result<Json> ParseJsonUniqueKeys(std::string_view text, int max_depth, int max_members) {
  RETURN_IF_ERROR(CheckLimits(text, max_depth, max_members));
  std::vector<std::set<std::string>> names;  // of the objects that are open
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end && !names.empty()) names.pop_back();
    if (event == Json::parse_event_t::key && !names.empty() && twice.empty()) {
      std::string name = value.get<std::string>();
      if (!names.back().insert(name).second) twice = std::move(name);
    }
    return true;
  };
  ASSIGN_OR_RETURN(Json parsed, Parse(text, watch));
  if (!twice.empty()) return InvalidArgument("the member {:?} appears twice in an object", twice);
  return parsed;
}

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ballast
