// Configuration files: any bytes give settings or a message with the file's name.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed =
      ballast::ParseConfig({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!parsed.has_value()) {
    if (!parsed.error().message.starts_with("fuzz.toml:")) std::abort();
    return 0;
  }
  for (const ballast::ConfigEntry& entry : parsed->entries) {
    if (entry.row == nullptr || !entry.row->in_file() || entry.line == 0) std::abort();
    if (entry.value.find('\0') != std::string::npos) std::abort();
  }
  return 0;
}
