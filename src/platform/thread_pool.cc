#include "platform/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace ballast {

namespace {

constexpr uint64_t kIndexBits = 20;
constexpr uint64_t kFieldMask = (uint64_t{1} << kIndexBits) - 1;

// Spinning covers the serial work between two kernels of one step (norms, rounding: 2 to 30 µs);
// beyond it a worker sleeps so that an idle server burns nothing.
constexpr int64_t kSpinNs = 60'000;
// A join normally waits for at most one task. Waiting this much longer than a few of the job's
// tasks take means that the OS took the core away from a worker in the middle of a task.
constexpr int64_t kCongestedWaitNs = 300'000;
constexpr int64_t kCongestedTasks = 4;
// One stolen quantum (about 3 ms) is cheaper to wait out than to answer. Only when such waits take
// more than two fifths of a window is one thread alone the faster: two threads of which one has
// half a core finish no more than one.
constexpr int64_t kWindowNs = 30'000'000;
constexpr int64_t kWindowShareNumerator = 2;
constexpr int64_t kWindowShareDenominator = 5;
// Probing again costs at most a window at half speed.
constexpr int64_t kSoloMinNs = 100'000'000;
constexpr int64_t kSoloMaxNs = 800'000'000;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, 1 << 30, nullptr,
          nullptr, 0);
}

constexpr uint64_t TicketTasks(uint64_t ticket) { return (ticket >> kIndexBits) & kFieldMask; }
constexpr uint64_t TicketNext(uint64_t ticket) { return ticket & kFieldMask; }
constexpr uint64_t TicketEpoch(uint64_t ticket) { return ticket >> (2 * kIndexBits); }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1 && threads <= 256);
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_.fetch_add(1);
  FutexWakeAll(&wake_);
  for (std::thread& thread : workers_) thread.join();
}

int64_t ThreadPool::ClaimAndRun(int worker) {
  int64_t ran = 0;
  for (;;) {
    // The plain load keeps idle pollers from dirtying the line and from overflowing the index
    // field.
    const uint64_t seen = ticket_.load(std::memory_order_acquire);
    if (TicketNext(seen) >= TicketTasks(seen)) return ran;
    const uint64_t claimed = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (TicketNext(claimed) >= TicketTasks(claimed)) return ran;
    // A claimed, unfinished task pins its job: the caller cannot publish past it.
    Slot& slot = slots_[TicketEpoch(claimed) % slots_.size()];
    slot.fn(slot.body, static_cast<int64_t>(TicketNext(claimed)), worker);
    slot.done.fetch_add(1, std::memory_order_acq_rel);
    ++ran;
  }
}

void ThreadPool::WorkerLoop(int worker) {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (ClaimAndRun(worker) > 0) continue;
    // Spin, then sleep.
    const int64_t spin_end_ns = NowNs() + kSpinNs;
    bool found = false;
    while (!found && NowNs() < spin_end_ns) {
      for (int i = 0; i < 16 && !found; ++i) {
        const uint64_t seen = ticket_.load(std::memory_order_relaxed);
        found = TicketNext(seen) < TicketTasks(seen);
        if (!found) _mm_pause();
      }
    }
    if (found) continue;
    const uint32_t wake = wake_.load();
    sleepers_.fetch_add(1);
    const uint64_t seen = ticket_.load();
    if (TicketNext(seen) >= TicketTasks(seen) && !stop_.load()) FutexWait(&wake_, wake);
    sleepers_.fetch_sub(1);
  }
}

void ThreadPool::RunAlone(int64_t tasks, TaskFn fn, void* body) {
  for (int64_t task = 0; task < tasks; ++task) fn(body, task, 0);
}

void ThreadPool::Run(int64_t tasks, TaskFn fn, void* body) {
  CHECK(tasks >= 0 && tasks <= kMaxTasks);
  if (tasks <= 1 || workers_.empty()) return RunAlone(tasks, fn, body);
  if (solo_until_ns_ != 0) {
    if (NowNs() < solo_until_ns_) return RunAlone(tasks, fn, body);
    solo_until_ns_ = 0;
  }
  const uint64_t epoch = (TicketEpoch(ticket_.load(std::memory_order_relaxed)) + 1) & 0xFFFFFF;
  Slot& slot = slots_[epoch % slots_.size()];
  slot.fn = fn;
  slot.body = body;
  slot.done.store(0, std::memory_order_relaxed);
  ticket_.store((epoch << (2 * kIndexBits)) | (static_cast<uint64_t>(tasks) << kIndexBits));
  if (sleepers_.load() > 0) {
    wake_.fetch_add(1);
    FutexWakeAll(&wake_);
  }
  const int64_t start_ns = NowNs();
  const int64_t own_tasks = ClaimAndRun(0);
  if (slot.done.load(std::memory_order_acquire) == tasks) return;
  const int64_t wait_start_ns = NowNs();
  int spins = 0;
  while (slot.done.load(std::memory_order_acquire) != tasks) {
    _mm_pause();
    // On fewer cores than threads the straggler may need this very core.
    if (++spins % 4096 == 0) std::this_thread::yield();
  }
  const int64_t now_ns = NowNs();
  const int64_t task_ns = (wait_start_ns - start_ns) / std::max<int64_t>(own_tasks, 1);
  const int64_t wait_ns = now_ns - wait_start_ns;
  if (wait_ns > kCongestedWaitNs + kCongestedTasks * task_ns) OnCongestedJoin(now_ns, wait_ns);
}

void ThreadPool::OnCongestedJoin(int64_t now_ns, int64_t wait_ns) {
  congested_joins_.fetch_add(1, std::memory_order_relaxed);
  if (now_ns - window_start_ns_ > kWindowNs) {
    window_start_ns_ = now_ns - wait_ns;
    window_wait_ns_ = 0;
  }
  window_wait_ns_ += wait_ns;
  const bool window_is_long_enough = now_ns - window_start_ns_ >= kWindowNs / 3;
  if (!window_is_long_enough || window_wait_ns_ * kWindowShareDenominator <
                                    (now_ns - window_start_ns_) * kWindowShareNumerator) {
    return;
  }
  const bool again = now_ns - last_solo_ns_ < 4 * solo_length_ns_;
  solo_length_ns_ = again ? std::min(2 * solo_length_ns_, kSoloMaxNs) : kSoloMinNs;
  last_solo_ns_ = now_ns;
  solo_until_ns_ = now_ns + solo_length_ns_;
  window_start_ns_ = 0;
}

}  // namespace ballast
