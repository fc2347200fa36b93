#include "text/template_repairs.h"

#include <string_view>

namespace ballast {

namespace {

struct Repair {
  std::string_view broken;
  std::string_view fixed;
  std::string_view what;
};

constexpr Repair kRepairs[] = {
    // Braces doubled as if for a format string; Jinja strings print both. The model does as it is
    // told and writes {{"name": …}}, which is no JSON. Other Qwen2.5 templates have one pair.
    {R"({{\"name\": <function-name>, \"arguments\": <args-json-object>}})",
     R"({\"name\": <function-name>, \"arguments\": <args-json-object>})",
     "the example of a tool call had its braces doubled (Qwen2.5-Coder)"},
};

}  // namespace

std::vector<std::string> RepairChatTemplate(std::string* source) {
  std::vector<std::string> done;
  for (const Repair& repair : kRepairs) {
    const size_t at = source->find(repair.broken);
    if (at == std::string::npos) continue;
    source->replace(at, repair.broken.size(), repair.fixed);
    done.emplace_back(repair.what);
  }
  return done;
}

}  // namespace ballast
