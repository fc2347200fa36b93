// Role: byte sizes in text, e.g. "2GiB", both ways.
#ifndef BALLAST_BASE_UNITS_H_
#define BALLAST_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ballast {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

/// Parses "512", "512B", "64KiB", "1.5GiB", "2G" (binary units; case-insensitive).
/// Errors: kInvalidArgument for anything else, including negative and overflowing values.
Result<uint64_t> ParseBytes(std::string_view text);

/// "98.4 MiB" style text for people.
std::string FormatBytes(uint64_t bytes);

/// Rounds up to a multiple of `unit` (> 0).
template <class Int>
constexpr Int RoundUp(Int value, Int unit) {
  return (value + unit - 1) / unit * unit;
}
template <class Int>
constexpr Int CeilDiv(Int value, Int unit) {
  return (value + unit - 1) / unit;
}

}  // namespace ballast

#endif  // BALLAST_BASE_UNITS_H_
