// The chunk sizer's and the scheduler's decisions, without a model.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/chunk_sizer.h"
#include "engine/testing/harness.h"

namespace ballast {
namespace {

TEST(ChunkSizerTest, ConvergesOnTheTargetAndStaysOnBorders) {
  ChunkSizer sizer(50, 200, 2048);
  int32_t rows = sizer.Rows(0);
  EXPECT_EQ(rows, 128);
  for (int i = 0; i < 20; ++i) {
    rows = sizer.Rows(0);
    ASSERT_EQ(rows % 16, 0);
    sizer.Record(0, rows, 5 + rows * 0.5);  // 2,000 rows a second
  }
  EXPECT_GE(rows, 336);  // 200 ms would be 390
  EXPECT_LE(rows, 400);
  for (int i = 0; i < 20; ++i) sizer.Record(4, 0, 20);
  for (int i = 0; i < 20; ++i) {
    rows = sizer.Rows(4);
    ASSERT_EQ(rows % 16, 0);
    sizer.Record(4, rows, 20 + rows * 0.5);
  }
  EXPECT_EQ(rows, 48);  // 30 ms are left: 60 rows
}

// Attention makes rows dearer with depth; the estimate must not lag behind it.
TEST(ChunkSizerTest, ASlowStepCountsInFullAndAFastOneByHalf) {
  ChunkSizer sizer(50, 200, 4096);
  sizer.Record(1, 0, 2);
  for (int i = 0; i < 5; ++i) sizer.Record(1, 96, 2 + 96 * 0.5);
  EXPECT_EQ(sizer.Rows(1), 96);
  sizer.Record(1, 96, 2 + 96 * 1.0);
  EXPECT_EQ(sizer.Rows(1), 48);
  sizer.Record(1, 48, 2 + 48 * 0.5);  // 0.75 ms a row
  EXPECT_EQ(sizer.Rows(1), 64);
}

TEST(ChunkSizerTest, SlowModelsStillAdvance) {
  ChunkSizer sizer(50, 200, 2048);
  sizer.Record(8, 0, 400);  // decoding alone is over the target
  sizer.Record(8, 16, 900);
  EXPECT_EQ(sizer.Rows(8), 16);
}

TEST(ChunkSizerTest, NeverExceedsTheModel) {
  ChunkSizer sizer(50, 200, 64);
  sizer.Record(0, 2048, 1);
  EXPECT_EQ(sizer.Rows(0), 64);
  EXPECT_EQ(sizer.Rows(1), 48);
  EXPECT_EQ(sizer.Rows(60), 0);
}

TEST(ChunkSizerTest, OneLuckyMeasurementDoesNotMakeAHugeChunk) {
  ChunkSizer sizer(50, 200, 2048);
  sizer.Record(0, 64, 0.001);
  EXPECT_LE(sizer.Rows(0), 256);
}

class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() {
    ledger_ = std::make_unique<Ledger>(8 * kFrameBytes);
    arena_ = std::move(*FrameArena::Create(8 * kFrameBytes, ledger_.get()));
    // 512 KiB of K and of V a page: two pages a frame.
    kv_ = std::move(*KvCache::Create({{{1, 4096}, 0}}, KvDType::kF16, arena_.get()));
    scheduler_ = std::make_unique<Scheduler>(SchedulerOptions{.max_sequences = 8}, kv_.get());
    tokenizer_ = testing::TestTokenizer();
  }

  void Add(uint64_t id, int64_t prompt, const std::string& tenant = "") {
    GenerationRequest request = testing::MakeRequest(id, prompt, 10);
    request.tenant = tenant;
    scheduler_->Enqueue(std::make_unique<Sequence>(RequestId(id), std::move(request),
                                                   std::make_shared<testing::CollectSink>(),
                                                   *tokenizer_, 100000, 0));
  }

  // Plans and "runs" a step: every row's KV is written, and whoever wants a token gets one.
  StepPlan RunStep(int32_t budget) {
    scheduler_->Admit(1);
    StepPlan plan;
    scheduler_->PlanDecode(&plan);
    scheduler_->PlanPrefill(budget, &plan);
    for (const StepItem& item : plan.items) {
      item.sequence->computed = item.position + item.rows;
      item.sequence->kv->Commit(item.sequence->computed);
    }
    scheduler_->Charge(plan);
    for (const StepItem& item : plan.items) {
      if (item.wants_logits) item.sequence->Accept(testing::kFirstByteToken + 'a');
    }
    return plan;
  }

  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<FrameArena> arena_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, AdmitsOnlyWhatFitsBesideWhatIsPromised) {
  Add(1, 600);  // 10 of 16 pages in the end, none of them held yet
  Add(2, 400);  // 7
  Add(3, 10);   // would fit, but nobody overtakes
  scheduler_->Admit(1);
  EXPECT_EQ(scheduler_->admitted(), 1);
  EXPECT_EQ(scheduler_->waiting_new(), 2);
  EXPECT_NE(scheduler_->Remove(RequestId(1)), nullptr);
  scheduler_->Admit(2);
  EXPECT_EQ(scheduler_->admitted(), 2);
  EXPECT_EQ(scheduler_->Remove(RequestId(1)), nullptr);
}

TEST_F(SchedulerTest, PastServiceIsNoLastingDebt) {
  Add(1, 900, "old");
  while (scheduler_->Find([](const Sequence& s) { return s.generated() > 5; }).empty()) {
    RunStep(512);
  }
  scheduler_->Remove(RequestId(1));
  // "old" has used 900 tokens more than "new" ever has; now they take turns all the same.
  for (uint64_t id = 2; id < 6; ++id) Add(id, 700, id % 2 == 0 ? "new" : "old");
  std::vector<uint64_t> order;
  while (!scheduler_->empty()) {
    RunStep(1024);
    for (const RequestId id :
         scheduler_->Find([](const Sequence& s) { return s.generated() > 0; })) {
      order.push_back(id.value());
      scheduler_->Remove(id);
    }
  }
  ASSERT_EQ(order.size(), 4u);
  // One of each among the first two: nobody pays for the past.
  EXPECT_NE(order[0] % 2, order[1] % 2);
}

TEST_F(SchedulerTest, TheYoungestGivesWayAndComesBackFirst) {
  Add(1, 500);
  Add(2, 380);  // 8 + 6 pages of 16
  for (int i = 0; i < 8; ++i) RunStep(1024);
  EXPECT_EQ(scheduler_->admitted(), 2);
  while (scheduler_->preempted_total() == 0) RunStep(1024);
  EXPECT_EQ(scheduler_->admitted(), 1);
  EXPECT_FALSE(
      scheduler_->Find([](const Sequence& s) { return s.id() == RequestId(2) && !s.kv; }).empty());
  Add(3, 10);
  RunStep(1024);
  EXPECT_EQ(scheduler_->admitted(), 1);  // 3 does not overtake 2
  scheduler_->Remove(RequestId(1));
  RunStep(1024);
  EXPECT_EQ(scheduler_->admitted(), 2);
  EXPECT_EQ(scheduler_->preempted_total(), 1);
}

TEST_F(SchedulerTest, ChunksEndOnBordersAndRespectTheBudget) {
  Add(1, 333);
  Add(2, 77);
  int64_t rows[3] = {};
  for (int i = 0; i < 60; ++i) {
    const StepPlan plan = RunStep(48);
    EXPECT_LE(plan.prefill_rows, 48);
    for (const StepItem& item : plan.items) {
      if (item.decode) continue;
      rows[item.sequence->id().value()] += item.rows;
      EXPECT_TRUE(item.wants_logits || (item.position + item.rows) % 16 == 0);
    }
  }
  EXPECT_EQ(rows[1], 333);
  EXPECT_EQ(rows[2], 77);
}

}  // namespace
}  // namespace ballast
