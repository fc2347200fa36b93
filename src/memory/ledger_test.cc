#include "memory/ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ballast {
namespace {

TEST(Ledger, KeepsOwnersApartAndSumsThem) {
  Ledger ledger(1000);
  ledger.Charge(MemoryOwner::kWeights, 600);
  ledger.Charge(MemoryOwner::kRuntime, 50);
  ledger.Release(MemoryOwner::kWeights, 100);
  EXPECT_EQ(ledger.used_bytes(MemoryOwner::kWeights), 500u);
  EXPECT_EQ(ledger.used_bytes(MemoryOwner::kKv), 0u);
  EXPECT_EQ(ledger.total_bytes(), 550u);
  EXPECT_EQ(ledger.budget_bytes(), 1000u);
}

TEST(Ledger, CountsFromManyThreads) {
  Ledger ledger(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        ledger.Charge(MemoryOwner::kKv, 3);
        ledger.Release(MemoryOwner::kKv, 2);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ledger.used_bytes(MemoryOwner::kKv), 40000u);
}

TEST(Ledger, NamesAreTheMetricLabels) {
  EXPECT_EQ(MemoryOwnerName(MemoryOwner::kWeights), "weights");
  EXPECT_EQ(MemoryOwnerName(MemoryOwner::kRuntime), "runtime");
}

}  // namespace
}  // namespace ballast
