#include "platform/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "platform/cpu.h"
#include "platform/huge_buffer.h"

namespace ballast {
namespace {

TEST(ThreadPoolTest, RunsEveryTaskExactlyOnce) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 2000; ++round) {
      const int64_t tasks = round % 37;
      std::vector<std::atomic<int>> hits(static_cast<size_t>(tasks));
      pool.ParallelFor(tasks, [&](int64_t task, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        hits[static_cast<size_t>(task)].fetch_add(1);
      });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, WakesSleepersAndSurvivesEpochWrapAround) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.ParallelFor(100, [&](int64_t task, int) { sum.fetch_add(task); });
  }
  EXPECT_EQ(sum.load(), 5 * 4950);
}

TEST(HugeBufferTest, IsAlignedAndZeroed) {
  auto buffer = HugeBuffer::Allocate(3 << 20);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kHugePageBytes, 0u);
  EXPECT_EQ(buffer->size(), 2 * kHugePageBytes);
  for (size_t i = 0; i < buffer->size(); i += 4096) ASSERT_EQ(buffer->data()[i], std::byte{0});
}

TEST(CpuTest, NamesAndParsesIsas) {
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    EXPECT_EQ(*ParseIsa(IsaName(isa)), isa);
  }
  EXPECT_FALSE(ParseIsa("sse9").has_value());
  EXPECT_TRUE(BestIsa().has_value());
  EXPECT_GE(UsableCores(), 1);
}

}  // namespace
}  // namespace ballast
