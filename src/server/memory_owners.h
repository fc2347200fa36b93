// Role: the names of EngineStats::memory_by_owner, as metrics and /v1/memory show them. The ledger
// behind the engine's boundary has the same list; a test compares them.
#ifndef BALLAST_SERVER_MEMORY_OWNERS_H_
#define BALLAST_SERVER_MEMORY_OWNERS_H_

#include <array>
#include <string_view>

namespace ballast {

inline constexpr std::array<std::string_view, 5> kMemoryOwnerLabels = {
    "weights", "kv", "activations", "experts", "runtime"};

}  // namespace ballast

#endif  // BALLAST_SERVER_MEMORY_OWNERS_H_
