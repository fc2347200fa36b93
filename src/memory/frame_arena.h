// Role: 2 MiB frames out of the one budget. KV (later experts and weight planes) lives in frames.
// Thread: the engine thread; counters may be read from any thread.
#ifndef BALLAST_MEMORY_FRAME_ARENA_H_
#define BALLAST_MEMORY_FRAME_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "memory/ledger.h"
#include "platform/huge_buffer.h"

namespace ballast {

inline constexpr size_t kFrameBytes = kHugePageBytes;

/// Hands out frames up to a cap. A freed frame goes back to the OS (MADV_DONTNEED of the whole huge
/// page) unless it is reused at once; address space is reserved up front and never moves.
class FrameArena {
 public:
  /// @param ledger is charged to owner kKv for every frame in use.
  static Result<std::unique_ptr<FrameArena>> Create(uint64_t budget_bytes, Ledger* ledger);
  ~FrameArena();

  /// A zeroed-or-stale frame; null when the cap is reached.
  std::byte* Take();
  void Give(std::byte* frame);

  int64_t capacity_frames() const { return capacity_frames_; }
  int64_t used_frames() const { return used_frames_.load(std::memory_order_relaxed); }
  int64_t free_frames() const { return capacity_frames_ - used_frames(); }

 private:
  FrameArena(HugeBuffer buffer, int64_t frames, Ledger* ledger);

  HugeBuffer buffer_;
  int64_t capacity_frames_;
  std::atomic<int64_t> used_frames_{0};
  std::vector<std::byte*> free_list_;
  Ledger* ledger_;
};

}  // namespace ballast

#endif  // BALLAST_MEMORY_FRAME_ARENA_H_
