// Role: fork-join pool that runs kernels. Passed by reference, never global.
// Thread: ParallelFor is called by one thread at a time (the engine thread); tasks run on it and on
// the workers. Invariants: results never depend on which thread ran a task; a worker that the OS
// has descheduled before it claimed a task delays nobody; after a join that had to wait too long
// the pool works alone for a while, so that a busy neighbour on one core cannot drag the step below
// the single-thread speed.
#ifndef BALLAST_PLATFORM_THREAD_POOL_H_
#define BALLAST_PLATFORM_THREAD_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace ballast {

/// A fixed set of threads with dynamic chunking: tasks are claimed one by one.
class ThreadPool {
 public:
  /// Starts `threads` − 1 workers; the caller of ParallelFor is the remaining one. threads ≥ 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Threads that may run tasks, the caller included.
  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs `fn(task, worker)` for every task in [0, tasks), worker in [0, size()), and returns when
  /// all are done. At most kMaxTasks tasks. `fn` must not throw. Not reentrant.
  /// Cost: about 1 µs when the workers are awake. Aim for tasks of 10 to 100 µs.
  template <class Fn>
  void ParallelFor(int64_t tasks, Fn&& fn) {
    using Body = std::remove_reference_t<Fn>;
    Run(
        tasks,
        [](void* body, int64_t task, int worker) { (*static_cast<Body*>(body))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  /// Joins that waited much longer than a task takes (for /metrics). Many in a short time send the
  /// pool into solo mode.
  int64_t congested_joins() const { return congested_joins_.load(std::memory_order_relaxed); }

  static constexpr int64_t kMaxTasks = (1 << 20) - 256;

 private:
  using TaskFn = void (*)(void* body, int64_t task, int worker);
  // Jobs rotate through slots, so that a late worker that reads the ticket of an old job cannot
  // touch a newer job's fields: a slot is read only after a task of that very job was claimed.
  struct alignas(64) Slot {
    TaskFn fn = nullptr;
    void* body = nullptr;
    std::atomic<int64_t> done{0};
  };

  void Run(int64_t tasks, TaskFn fn, void* body);
  void OnCongestedJoin(int64_t now_ns, int64_t wait_ns);
  void RunAlone(int64_t tasks, TaskFn fn, void* body);
  int64_t ClaimAndRun(int worker);
  void WorkerLoop(int worker);

  // Ticket: epoch (24 bits) | tasks (20 bits) | next task (20 bits). One atomic word describes the
  // whole job, so claiming is one fetch_add and is always consistent.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::array<Slot, 4> slots_;
  std::vector<std::thread> workers_;
  std::atomic<int64_t> congested_joins_{0};
  // Owned by the calling thread.
  int64_t solo_until_ns_ = 0;
  int64_t solo_length_ns_ = 0;
  int64_t last_solo_ns_ = 0;
  int64_t window_start_ns_ = 0;
  int64_t window_wait_ns_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_PLATFORM_THREAD_POOL_H_
