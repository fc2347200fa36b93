// Role: the budget ledger: who owns which bytes. Every large allocation is charged here.
// Thread: any; counters are atomic.
#ifndef BALLAST_MEMORY_LEDGER_H_
#define BALLAST_MEMORY_LEDGER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace ballast {

/// Owners of memory. Values are frozen: they are metric labels.
enum class MemoryOwner : int {
  kWeights = 0,
  kKv = 1,
  kActivations = 2,
  kExperts = 3,
  kRuntime = 4
};
inline constexpr int kMemoryOwners = 5;

constexpr std::string_view MemoryOwnerName(MemoryOwner owner) {
  constexpr std::string_view kNames[] = {"weights", "kv", "activations", "experts", "runtime"};
  return kNames[static_cast<int>(owner)];
}

class Ledger {
 public:
  explicit Ledger(uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  void Charge(MemoryOwner owner, uint64_t bytes) { At(owner).fetch_add(bytes); }
  void Release(MemoryOwner owner, uint64_t bytes) { At(owner).fetch_sub(bytes); }
  uint64_t used_bytes(MemoryOwner owner) const {
    return used_[static_cast<size_t>(owner)].load(std::memory_order_relaxed);
  }
  uint64_t total_bytes() const {
    uint64_t total = 0;
    for (const auto& used : used_) total += used.load(std::memory_order_relaxed);
    return total;
  }
  uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  std::atomic<uint64_t>& At(MemoryOwner owner) { return used_[static_cast<size_t>(owner)]; }

  std::array<std::atomic<uint64_t>, kMemoryOwners> used_{};
  uint64_t budget_bytes_;
};

}  // namespace ballast

#endif  // BALLAST_MEMORY_LEDGER_H_
