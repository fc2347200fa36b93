#include "server/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace ballast {

std::string RandomId(std::string_view prefix) {
  thread_local std::mt19937_64 numbers{(uint64_t{std::random_device{}()} << 32) ^
                                       std::random_device{}()};
  return fmt::format("{}{:016x}{:08x}", prefix, numbers(), numbers() >> 32);
}

std::string RequestIdFrom(std::string_view header) {
  const bool usable =
      !header.empty() && header.size() <= 128 &&
      std::all_of(header.begin(), header.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return usable ? std::string(header) : RandomId("req-");
}

}  // namespace ballast
