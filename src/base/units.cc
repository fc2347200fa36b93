#include "base/units.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace ballast {

Result<uint64_t> ParseBytes(std::string_view text) {
  const std::string owned(text);
  char* end = nullptr;
  if (owned.empty() || !(std::isdigit(static_cast<unsigned char>(owned[0])) || owned[0] == '.')) {
    return InvalidArgument("size '{}' is not a number with a unit such as 2GiB", text);
  }
  const double number = std::strtod(owned.c_str(), &end);
  std::string unit;
  for (; *end != '\0'; ++end) {
    if (*end != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  }
  double scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  if (unit == "k" || unit == "kb" || unit == "kib") scale = static_cast<double>(kKiB);
  if (unit == "m" || unit == "mb" || unit == "mib") scale = static_cast<double>(kMiB);
  if (unit == "g" || unit == "gb" || unit == "gib") scale = static_cast<double>(kGiB);
  if (unit == "t" || unit == "tb" || unit == "tib") scale = static_cast<double>(kGiB) * 1024.0;
  if (scale == 0) {
    return InvalidArgument("size '{}' has unknown unit '{}' (use KiB, MiB, GiB or TiB)", text,
                           unit);
  }
  const double bytes = number * scale;
  if (!std::isfinite(bytes) || bytes > 9.0e15) {
    return InvalidArgument("size '{}' is larger than the limit of 9e15 bytes", text);
  }
  return static_cast<uint64_t>(bytes);
}

std::string FormatBytes(uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  if (bytes < kMiB) return fmt::format("{:.1f} KiB", value / static_cast<double>(kKiB));
  if (bytes < kGiB) return fmt::format("{:.1f} MiB", value / static_cast<double>(kMiB));
  return fmt::format("{:.2f} GiB", value / static_cast<double>(kGiB));
}

}  // namespace ballast
