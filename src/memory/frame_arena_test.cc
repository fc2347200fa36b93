#include "memory/frame_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "platform/cpu.h"

namespace ballast {
namespace {

TEST(FrameArena, RefusesBudgetsBelowOneFrame) {
  Ledger ledger(kGiB);
  auto arena = FrameArena::Create(kFrameBytes - 1, &ledger);
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(FrameArena::Create(~uint64_t{0}, &ledger).has_value());
}

TEST(FrameArena, HandsOutEveryFrameOnceAndChargesTheLedger) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(10 * kFrameBytes + 5, &ledger);
  std::set<std::byte*> seen;
  for (int i = 0; i < 10; ++i) {
    std::byte* frame = arena->Take();
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % kFrameBytes, 0u);
    EXPECT_TRUE(seen.insert(frame).second);
    EXPECT_EQ(ledger.used_bytes(MemoryOwner::kKv), (static_cast<uint64_t>(i) + 1) * kFrameBytes);
  }
  EXPECT_EQ(arena->Take(), nullptr);
  EXPECT_EQ(arena->free_frames(), 0);
  for (std::byte* frame : seen) arena->Give(frame);
  EXPECT_EQ(arena->free_frames(), 10);
  EXPECT_EQ(ledger.total_bytes(), 0u);
}

TEST(FrameArena, ReusesTheFrameGivenLastAndZeroFilled) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(8 * kFrameBytes, &ledger);
  std::byte* first = arena->Take();
  std::byte* second = arena->Take();
  std::memset(first, 0xAB, kFrameBytes);
  arena->Give(second);
  arena->Give(first);
  std::byte* again = arena->Take();
  EXPECT_EQ(again, first);
  for (size_t i = 0; i < kFrameBytes; i += 4093) ASSERT_EQ(again[i], std::byte{0}) << i;
}

TEST(FrameArena, FreedFramesLeaveTheResidentSet) {
  constexpr int kFrames = 64;  // 128 MiB: far above the noise of the test program
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(kFrames * kFrameBytes, &ledger);
  const uint64_t before = ReadResidentBytes().current;
  std::vector<std::byte*> frames;
  for (int i = 0; i < kFrames; ++i) {
    frames.push_back(arena->Take());
    std::memset(frames.back(), 1, kFrameBytes);
  }
  EXPECT_GT(ReadResidentBytes().current, before + 100 * kMiB);
  for (std::byte* frame : frames) arena->Give(frame);
  EXPECT_LT(ReadResidentBytes().current, before + 20 * kMiB);
}

TEST(FrameArena, LedgerMatchesUseUnderRandomTraffic) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Ledger ledger(kGiB);
    auto arena = *FrameArena::Create(16 * kFrameBytes, &ledger);
    std::vector<std::byte*> held;
    for (int step = 0; step < 500; ++step) {
      if (rng.Below(2) == 0) {
        std::byte* frame = arena->Take();
        ASSERT_EQ(frame == nullptr, held.size() == 16);
        if (frame != nullptr) held.push_back(frame);
      } else if (!held.empty()) {
        const size_t pick = rng.Below(held.size());
        arena->Give(held[pick]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
      }
      ASSERT_EQ(arena->used_frames(), static_cast<int64_t>(held.size()));
      ASSERT_EQ(ledger.used_bytes(MemoryOwner::kKv), held.size() * kFrameBytes);
    }
  }
}

}  // namespace
}  // namespace ballast
