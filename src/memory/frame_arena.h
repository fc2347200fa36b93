// Role: 2 MiB frames out of the one budget. KV (later experts and weight planes) lives in frames.
// Thread: the engine thread; counters may be read from any thread.
// Invariants: frames never move; the address of a free frame holds no memory of the OS.
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

/// Hands out frames up to a cap. A freed frame goes back to the OS at once (MADV_DONTNEED of the
/// whole huge page), so RSS follows the ledger; address space is reserved up front and never moves.
class FrameArena {
 public:
  /// @param budget_bytes rounded down to whole frames; one frame at least.
  /// @param ledger outlives the arena and is charged to owner kKv for every frame in use.
  /// Errors: kInvalidArgument for less than one frame or more than 2^30 frames;
  /// kResourceExhausted when the address space cannot be reserved.
  static Result<std::unique_ptr<FrameArena>> Create(uint64_t budget_bytes, Ledger* ledger);
  ~FrameArena();
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;

  /// A zero-filled frame, 2 MiB-aligned; null when the cap is reached. The frame given last is
  /// taken first. Cost: O(1); the OS zeroes pages when they are first touched (about 100 µs a
  /// frame).
  std::byte* Take();
  /// Gives back a frame of this arena. REQUIRES: taken, and given only once.
  void Give(std::byte* frame);

  /// The index of the frame that holds `address`, in [0, capacity_frames()).
  int64_t FrameIndex(const std::byte* address) const {
    return (address - buffer_.data()) / static_cast<int64_t>(kFrameBytes);
  }

  int64_t capacity_frames() const { return capacity_frames_; }
  int64_t used_frames() const { return used_frames_.load(std::memory_order_relaxed); }
  int64_t free_frames() const { return capacity_frames_ - used_frames(); }

 private:
  FrameArena(HugeBuffer buffer, int64_t frames, Ledger* ledger);

  HugeBuffer buffer_;
  int64_t capacity_frames_;
  std::atomic<int64_t> used_frames_{0};
  int64_t untouched_ = 0;              // frames [untouched_, capacity) were never handed out
  std::vector<std::byte*> free_list_;  // handed out before and given back, last in first out
  std::vector<bool> taken_;            // [capacity], catches a frame given twice
  Ledger* ledger_;
};

}  // namespace ballast

#endif  // BALLAST_MEMORY_FRAME_ARENA_H_
