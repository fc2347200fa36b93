// A long random run of submits and cancels over scarce memory, with the books checked at the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/rng.h"
#include "engine/engine.h"
#include "engine/testing/harness.h"
#include "text/chat_template.h"

namespace ballast {
namespace {

using testing::CollectSink;
using testing::FakeModelOptions;
using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

constexpr int kIterations = 10000;
constexpr uint64_t kKinds = 24;  // distinct requests, so that their text alone can be known

GenerationRequest KindRequest(uint64_t kind) {
  GenerationRequest request = MakeRequest(kind, 1 + static_cast<int64_t>(kind * 37 % 260),
                                          1 + static_cast<int64_t>(kind * 11 % 90));
  request.tenant = kind % 3 == 0 ? "a" : kind % 3 == 1 ? "b" : "";
  request.echo_progress = kind % 2 == 0;
  request.ignore_eos = kind % 5 != 0;
  if (kind % 7 == 0) request.stop = {"zw", "yw2"};
  return request;
}

struct Running {
  uint64_t kind;
  RequestId id;
  std::shared_ptr<CollectSink> sink;
};

// Checks a request that has ended against what it gives alone.
void CheckEnded(const Running& r, const CollectSink& alone) {
  ASSERT_EQ(r.sink->final_events, 1);
  ASSERT_TRUE(r.sink->finish.has_value());
  const std::vector<TokenId>& got = r.sink->tokens;
  if (r.sink->finish->reason == FinishReason::kCancelled) {
    ASSERT_LE(got.size(), alone.tokens.size());
    ASSERT_TRUE(std::equal(got.begin(), got.end(), alone.tokens.begin()));
  } else {
    ASSERT_EQ(got, alone.tokens);
    ASSERT_EQ(r.sink->text, alone.text);
    ASSERT_EQ(r.sink->finish->reason, alone.finish->reason);
  }
}

TEST(EngineSoakTest, RandomSubmitsAndCancelsKeepTextAndMemoryRight) {
  std::vector<std::shared_ptr<CollectSink>> alone;
  for (uint64_t kind = 0; kind < kKinds; ++kind) alone.push_back(RunAlone(KindRequest(kind)));
  FakeModelOptions model;
  model.head_dim = 512;  // 16 pages a frame
  model.window = 130;
  EngineOptions options;
  options.max_queue = 64;
  options.max_sequences = 12;
  TestEngine engine = MakeEngine(model, options, 3);
  Rng rng(2024);
  std::vector<Running> running;
  int64_t accepted = 0, refused = 0;
  for (int i = 0; i < kIterations; ++i) {
    if (rng.Below(3) != 0) {
      const uint64_t kind = rng.Below(kKinds);
      auto sink = std::make_shared<CollectSink>();
      const auto id = engine.engine->Submit(KindRequest(kind), sink);
      if (id.has_value()) {
        running.push_back({kind, *id, std::move(sink)});
        ++accepted;
      } else {
        ASSERT_EQ(id.error().reason, "queue_full");
        ++refused;
        std::this_thread::yield();
      }
    } else if (!running.empty()) {
      engine.engine->Cancel(running[rng.Below(running.size())].id);
    }
    if (running.size() > 90) {  // the oldest must end
      ASSERT_TRUE(running.front().sink->Wait());
      CheckEnded(running.front(), *alone[running.front().kind]);
      running.erase(running.begin());
    }
  }
  for (const Running& r : running) {
    ASSERT_TRUE(r.sink->Wait());
    CheckEnded(r, *alone[r.kind]);
  }
  const EngineStats stats = engine.engine->Stats();
  EXPECT_EQ(stats.kv_used_bytes, 0u);
  EXPECT_EQ(stats.memory_by_owner[static_cast<int>(MemoryOwner::kKv)], 0u);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.queued, 0);
  EXPECT_EQ(stats.submitted_total, accepted);
  EXPECT_EQ(stats.finished_total, accepted);
  EXPECT_EQ(stats.rejected_total, refused);
  EXPECT_GT(stats.preempted_total, 0);
  EXPECT_GT(stats.cancelled_total, 0);
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineSoakTest, ManyThreadsAtOnce) {
  TestEngine engine = MakeEngine({}, {}, 8);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&engine, t] {
      for (uint64_t i = 0; i < 60; ++i) {
        RequestId id;
        const auto sink = engine.Submit(MakeRequest(t * 1000 + i, 30, 20), &id);
        if (i % 3 == 0) engine.engine->Cancel(id);
        engine.engine->Stats();
        engine.engine->histograms()->step_ms.count();
        EXPECT_TRUE(sink->Wait());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(engine.engine->Stats().finished_total, 240);
  EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);
}

}  // namespace
}  // namespace ballast
