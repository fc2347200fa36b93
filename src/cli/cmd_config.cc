// Role: `ballast config`: the settings `ballast serve` would use and where each came from.
// Thread: main.
#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/printable.h"
#include "cli/commands.h"

namespace ballast {

Status CommandConfig(const Options& options) {
  if (options.json) {
    Json document = Json::object();
    for (const EffectiveSetting& setting : options.effective) {
      document[setting.key] = Json{{"value", setting.value}, {"origin", setting.origin}};
    }
    std::printf("%s\n", DumpJson(document, 2).c_str());
    return OkStatus();
  }
  size_t key_width = 0;
  size_t value_width = 0;
  for (const EffectiveSetting& setting : options.effective) {
    key_width = std::max(key_width, setting.key.size());
    value_width = std::max(value_width, std::min<size_t>(setting.value.size(), 40));
  }
  for (const EffectiveSetting& setting : options.effective) {
    std::printf("%-*s  %-*s  %s\n", static_cast<int>(key_width), setting.key.c_str(),
                static_cast<int>(value_width), Printable(setting.value).c_str(),
                Printable(setting.origin).c_str());
  }
  return OkStatus();
}

}  // namespace ballast
