#include "platform/page_backing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "platform/huge_buffer.h"

namespace ballast {
namespace {

constexpr size_t kPages = 6;

std::byte ValueAt(size_t i) { return static_cast<std::byte>(i * 2654435761u >> 13); }

void Write(std::span<std::byte> memory) {
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = ValueAt(i);
}

size_t Differences(std::span<const std::byte> memory) {
  size_t wrong = 0;
  for (size_t i = 0; i < memory.size(); ++i) wrong += memory[i] != ValueAt(i) ? 1 : 0;
  return wrong;
}

/// KiB of `field` in /proc/self/smaps over the mappings that lie within the buffer.
size_t SmapsKib(const HugeBuffer& buffer, const std::string& field) {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data());
  bool inside = false;
  size_t total = 0;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from >= begin && to <= begin + buffer.size();
    } else if (inside && line.starts_with(field + ":") &&
               std::sscanf(line.c_str() + field.size() + 1, "%lu", &kib) == 1) {
      total += kib;
    }
  }
  return total;
}

/// In pieces that cross pages, as the loader does.
void PreparePieces(const HugeBuffer& buffer, PageBacking* backing) {
  constexpr size_t kPiece = 700'000;
  for (size_t i = 0; i < buffer.size(); i += kPiece) {
    backing->Prepare(i, std::min(kPiece, buffer.size() - i));
  }
}

TEST(PageBacking, SlowPagesBecomeSmallAndSettle) {
  HugeBuffer buffer = HugeBuffer::Allocate(kPages * kHugePageBytes).value();
  PageBacking backing(buffer.span(), /*slow_ns=*/-1);
  PreparePieces(buffer, &backing);
  if (backing.small_bytes() == 0) GTEST_SKIP() << "this kernel lacks MADV_COLLAPSE";
  EXPECT_EQ(backing.small_bytes(), (kPages - 2) * kHugePageBytes);  // two showed that it is slow
  EXPECT_EQ(SmapsKib(buffer, "Rss"), buffer.size() / 1024);         // all pages are there
  EXPECT_LE(SmapsKib(buffer, "AnonHugePages"), 2 * kHugePageBytes / 1024);
  Write(buffer.span());
  backing.Settle();
  EXPECT_EQ(backing.small_bytes(), 0u);
  EXPECT_EQ(Differences(buffer.span()), 0u);
  EXPECT_EQ(SmapsKib(buffer, "Rss"), buffer.size() / 1024);
}

TEST(PageBacking, SettlesBehindAReader) {
  HugeBuffer buffer = HugeBuffer::Allocate(kPages * kHugePageBytes).value();
  PageBacking backing(buffer.span(), -1);
  PreparePieces(buffer, &backing);
  Write(buffer.span());
  backing.SettleLater(0);
  size_t wrong = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  do {
    wrong += Differences(buffer.span());
  } while (backing.small_bytes() > 0 && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(backing.small_bytes(), 0u);
  EXPECT_EQ(wrong + Differences(buffer.span()), 0u);
}

TEST(PageBacking, DestructionStopsTheThread) {
  HugeBuffer buffer = HugeBuffer::Allocate(kPages * kHugePageBytes).value();
  PageBacking backing(buffer.span(), -1);
  PreparePieces(buffer, &backing);
  Write(buffer.span());
  backing.SettleLater(/*delay_ms=*/3'600'000);
}

TEST(PageBacking, QuickPagesStayLarge) {
  HugeBuffer buffer = HugeBuffer::Allocate(kPages * kHugePageBytes).value();
  PageBacking backing(buffer.span(), /*slow_ns=*/INT64_C(3'600'000'000'000));
  PreparePieces(buffer, &backing);
  EXPECT_EQ(backing.small_bytes(), 0u);
}

}  // namespace
}  // namespace ballast
