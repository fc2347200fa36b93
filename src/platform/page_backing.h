// Role: which pages lie under a large buffer. 2 MiB pages are worth 1.2 to 1.45 times in bandwidth,
// but a virtual machine's host may take milliseconds to provide one that it had taken back, while
// the 4 KiB pages left over between them are at hand. So a buffer is filled on whichever comes
// quickly, and what lies on small pages moves to 2 MiB pages later, in the background.
// Thread: one owner; the memory may be read and written while it settles.
// Invariants: contents never change; without the kernel's help (MADV_POPULATE_WRITE 5.14,
// MADV_COLLAPSE 6.1) pages come on first use, as without this class.
#ifndef BALLAST_PLATFORM_PAGE_BACKING_H_
#define BALLAST_PLATFORM_PAGE_BACKING_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace ballast {

/// When a 2 MiB page counts as slow. On metal and on memory that the host holds it takes 0.1 to
/// 0.3 ms (the kernel clears it); one that the host must find first took 2 to 6 ms.
inline constexpr int64_t kSlowHugePageNs = 1'000'000;

class PageBacking {
 public:
  /// @param memory aligned to 2 MiB (a HugeBuffer); must outlive this.
  /// @param slow_ns see kSlowHugePageNs; negative: every page is slow (for tests).
  explicit PageBacking(std::span<std::byte> memory, int64_t slow_ns = kSlowHugePageNs);
  /// Stops a settling thread after the page at hand.
  ~PageBacking();
  PageBacking(const PageBacking&) = delete;
  PageBacking& operator=(const PageBacking&) = delete;

  /// Gives memory to [offset, offset + size) before it is written, on any thread: 2 MiB pages until
  /// two of them were slow, small ones from then on. Cost for 470 MB on two threads: 0.04 s (large)
  /// or 0.09 s (small).
  void Prepare(size_t offset, size_t size);
  /// Moves what lies on small pages to 2 MiB pages; returns when done. Cost: about 3.5 ms a page.
  void Settle();
  /// The same on a thread of its own, from `delay_ms` on, with a pause after each page so that it
  /// takes a third of a core. Readers of a page that moves wait for it. No thread if nothing is to
  /// be moved.
  void SettleLater(int64_t delay_ms);

  /// Bytes that still lie on small pages and can be moved.
  size_t small_bytes() const { return small_bytes_.load(std::memory_order_relaxed); }

 private:
  enum State : uint8_t { kUntouched, kLarge, kSmall };

  void TouchLarge(size_t index);
  void TurnSmall();
  void StopSettling();
  void SettlePage(size_t index);
  void SettleLoop(int64_t delay_ms);

  std::span<std::byte> memory_;
  const int64_t slow_ns_;
  std::atomic<int> slow_pages_{0};
  std::atomic<size_t> small_bytes_{0};
  std::vector<std::atomic<uint8_t>> states_;  // State by 2 MiB page; empty: the kernel cannot help
  std::mutex mutex_;                          // with stop_
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ballast

#endif  // BALLAST_PLATFORM_PAGE_BACKING_H_
