#include "platform/page_backing.h"

#include <sys/mman.h>

#include <chrono>

#include "platform/huge_buffer.h"

// Older headers lack what newer kernels know (include/uapi/asm-generic/mman-common.h).
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace ballast {

namespace {

using Clock = std::chrono::steady_clock;

// One slow page may be a thread that lost its core.
constexpr int kSlowPages = 2;
constexpr size_t kSmallPageBytes = 4096;

/// Whether the kernel knows both kinds of advice: it says so for an empty range.
bool KernelHelps() {
  static const bool helps =
      madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0 && madvise(nullptr, 0, MADV_COLLAPSE) == 0;
  return helps;
}

}  // namespace

PageBacking::PageBacking(std::span<std::byte> memory, int64_t slow_ns)
    : memory_(memory),
      slow_ns_(slow_ns),
      states_(KernelHelps() ? memory.size() / kHugePageBytes : 0) {}

PageBacking::~PageBacking() { StopSettling(); }

void PageBacking::StopSettling() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PageBacking::Prepare(size_t offset, size_t size) {
  if (states_.empty() || size == 0) return;
  bool small = false;
  for (size_t i = offset / kHugePageBytes; i <= (offset + size - 1) / kHugePageBytes; ++i) {
    uint8_t state = kUntouched;
    if (states_[i].compare_exchange_strong(state, kLarge)) {
      TouchLarge(i);
    } else {
      small = small || state == kSmall;
    }
  }
  if (!small) return;
  const size_t begin = offset / kSmallPageBytes * kSmallPageBytes;
  // One call for all pages of the range: half the cost of a fault for each.
  (void)madvise(memory_.data() + begin, offset + size - begin, MADV_POPULATE_WRITE);
}

void PageBacking::TouchLarge(size_t index) {
  const Clock::time_point start = Clock::now();
  // Failure (no memory) is left to the first use.
  (void)madvise(memory_.data() + index * kHugePageBytes, kHugePageBytes, MADV_POPULATE_WRITE);
  const bool slow = Clock::now() - start > std::chrono::nanoseconds(slow_ns_);
  if (slow && slow_pages_.fetch_add(1) + 1 == kSlowPages) TurnSmall();
}

void PageBacking::TurnSmall() {
  for (size_t i = 0; i < states_.size();) {
    const size_t begin = i;
    for (uint8_t state = kUntouched;
         i < states_.size() && states_[i].compare_exchange_strong(state, kSmall);
         state = kUntouched) {
      ++i;
    }
    const size_t bytes = (i - begin) * kHugePageBytes;
    if (bytes > 0) (void)madvise(memory_.data() + begin * kHugePageBytes, bytes, MADV_NOHUGEPAGE);
    small_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (i == begin) ++i;  // a page that has been touched
  }
}

void PageBacking::SettlePage(size_t index) {
  std::byte* page = memory_.data() + index * kHugePageBytes;
  (void)madvise(page, kHugePageBytes, MADV_HUGEPAGE);
  // Failure (no free 2 MiB page, or huge pages are off) leaves small ones, to be had by the
  // kernel's own collapsing.
  (void)madvise(page, kHugePageBytes, MADV_COLLAPSE);
  states_[index].store(kLarge);
  small_bytes_.fetch_sub(kHugePageBytes, std::memory_order_relaxed);
}

void PageBacking::Settle() {
  StopSettling();
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].load() == kSmall) SettlePage(i);
  }
}

void PageBacking::SettleLater(int64_t delay_ms) {
  if (small_bytes() == 0 || thread_.joinable()) return;
  thread_ = std::thread([this, delay_ms] { SettleLoop(delay_ms); });
}

void PageBacking::SettleLoop(int64_t delay_ms) {
  Clock::duration pause = std::chrono::milliseconds(delay_ms);
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].load() != kSmall) continue;
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, pause, [this] { return stop_; })) return;
    lock.unlock();
    const Clock::time_point start = Clock::now();
    SettlePage(i);
    pause = 2 * (Clock::now() - start);
  }
}

}  // namespace ballast
