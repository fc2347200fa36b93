// Role: see frame_arena.h.
#include "memory/frame_arena.h"

#include <sys/mman.h>

#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace ballast {
namespace {

constexpr uint64_t kMaxFrames = uint64_t{1} << 30;

}  // namespace

Result<std::unique_ptr<FrameArena>> FrameArena::Create(uint64_t budget_bytes, Ledger* ledger) {
  CHECK(ledger != nullptr);
  const uint64_t frames = budget_bytes / kFrameBytes;
  if (frames == 0) {
    return InvalidArgument("KV budget {} is below the minimum of one frame, {}",
                           FormatBytes(budget_bytes), FormatBytes(kFrameBytes));
  }
  if (frames > kMaxFrames) {
    return InvalidArgument("KV budget {} is above the limit {}", FormatBytes(budget_bytes),
                           FormatBytes(kMaxFrames * kFrameBytes));
  }
  ASSIGN_OR_RETURN(HugeBuffer buffer, HugeBuffer::Allocate(frames * kFrameBytes));
  return std::unique_ptr<FrameArena>(
      new FrameArena(std::move(buffer), static_cast<int64_t>(frames), ledger));
}

FrameArena::FrameArena(HugeBuffer buffer, int64_t frames, Ledger* ledger)
    : buffer_(std::move(buffer)),
      capacity_frames_(frames),
      taken_(static_cast<size_t>(frames), false),
      ledger_(ledger) {}

FrameArena::~FrameArena() {
  ledger_->Release(MemoryOwner::kKv, static_cast<uint64_t>(used_frames()) * kFrameBytes);
}

std::byte* FrameArena::Take() {
  std::byte* frame = nullptr;
  if (!free_list_.empty()) {
    frame = free_list_.back();
    free_list_.pop_back();
  } else if (untouched_ < capacity_frames_) {
    frame = buffer_.data() + static_cast<size_t>(untouched_++) * kFrameBytes;
  } else {
    return nullptr;
  }
  taken_[static_cast<size_t>(FrameIndex(frame))] = true;
  used_frames_.fetch_add(1, std::memory_order_relaxed);
  ledger_->Charge(MemoryOwner::kKv, kFrameBytes);
  return frame;
}

void FrameArena::Give(std::byte* frame) {
  const auto index = static_cast<size_t>(FrameIndex(frame));
  CHECK(index < taken_.size() && taken_[index]);
  CHECK(frame == buffer_.data() + index * kFrameBytes);
  taken_[index] = false;
  CHECK(madvise(frame, kFrameBytes, MADV_DONTNEED) == 0);
  free_list_.push_back(frame);
  used_frames_.fetch_sub(1, std::memory_order_relaxed);
  ledger_->Release(MemoryOwner::kKv, kFrameBytes);
}

}  // namespace ballast
