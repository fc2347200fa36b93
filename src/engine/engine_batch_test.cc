// Many requests at a time: the same text in any company, fairness, preemption, cancellation, drain.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <semaphore>
#include <set>
#include <thread>

#include "base/rng.h"
#include "engine/engine.h"
#include "engine/testing/harness.h"
#include "text/chat_template.h"

namespace ballast {
namespace {

using testing::CollectSink;
using testing::FakeClock;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

// Holds the engine thread in a step until the test lets it go on.
struct Gate {
  std::counting_semaphore<1 << 20> allowed{0};
  std::counting_semaphore<1 << 20> entered{0};
  std::atomic<bool> open{false};

  std::function<void(const StepBatch&)> Hook() {
    return [this](const StepBatch&) {
      entered.release();
      if (!open.load()) allowed.acquire();
    };
  }
  void Step() { allowed.release(); }
  void Open() {
    open.store(true);
    allowed.release(1000);
  }
};

TEST(EngineBatchTest, TheTextDoesNotDependOnCompanyOrChunks) {
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<CollectSink>> alone;
  for (uint64_t i = 0; i < 32; ++i) {
    GenerationRequest request = MakeRequest(100 + i, 1 + static_cast<int64_t>(i * 23 % 300), 40);
    if (i % 4 == 1) request.sampling.temperature = 0;
    if (i % 4 == 2) request.sampling.top_p = 0.8f;
    if (i % 4 == 3) request.sampling.frequency_penalty = 1.5f;
    alone.push_back(RunAlone(request));
    requests.push_back(std::move(request));
  }
  for (const int32_t rows : {16, 48, 256, 0}) {
    EngineOptions options;
    options.max_prefill_rows = rows;
    TestEngine engine = MakeEngine({}, options);
    std::vector<std::shared_ptr<CollectSink>> sinks;
    for (const auto& request : requests) sinks.push_back(engine.Submit(request));
    for (size_t i = 0; i < sinks.size(); ++i) {
      ASSERT_TRUE(sinks[i]->Wait());
      ASSERT_EQ(sinks[i]->tokens, alone[i]->tokens) << "rows " << rows << " request " << i;
      ASSERT_EQ(sinks[i]->text, alone[i]->text);
    }
    EXPECT_EQ(engine.model->violations(), 0);
    EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);
  }
}

TEST(EngineBatchTest, SeveralPromptsShareAStep) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  TestEngine engine = MakeEngine(model);
  const auto first = engine.Submit(MakeRequest(1, 10, 2));
  gate.entered.acquire();
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (uint64_t i = 0; i < 3; ++i) sinks.push_back(engine.Submit(MakeRequest(2 + i, 5, 2)));
  gate.Open();
  for (const auto& sink : sinks) ASSERT_TRUE(sink->Wait());
  ASSERT_TRUE(first->Wait());
  EXPECT_EQ(engine.model->history()[1].size(), 4u);  // one decode row, three whole prompts
}

TEST(EngineBatchTest, AnOvercommittedCacheFailsNobody) {
  FakeModelOptions model;
  model.head_dim = 4096;
  TestEngine engine = MakeEngine(model, {}, 12);  // 12 pages of 64 tokens
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back(MakeRequest(i, 120, 400));  // 9 pages each in the end
    sinks.push_back(engine.Submit(requests.back()));
  }
  int64_t preemptions = 0;
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->Wait());
    ASSERT_TRUE(sinks[i]->finish.has_value());
    EXPECT_EQ(sinks[i]->finish->reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens, RunAlone(requests[i])->tokens) << i;
    preemptions += sinks[i]->finish->timings.preemptions;
  }
  EXPECT_EQ(sinks[0]->finish->timings.preemptions, 0);  // the oldest never gives way
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(engine.engine->Stats().preempted_total, preemptions);
  EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineBatchTest, SlidingWindowsAndTightMemoryGiveTheSameText) {
  FakeModelOptions model;
  model.head_dim = 4096;
  model.window = 100;
  EngineOptions options;
  options.max_prefill_rows = 32;
  TestEngine engine = MakeEngine(model, options, 12);
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (uint64_t i = 0; i < 5; ++i) sinks.push_back(engine.Submit(MakeRequest(i, 200, 200)));
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(sinks[i]->Wait());
    EXPECT_EQ(sinks[i]->tokens, RunAlone(MakeRequest(i, 200, 200))->tokens);
  }
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineBatchTest, CancelsInTheQueueInAPromptAndInDecoding) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_sequences = 2;
  options.max_prefill_rows = 16;
  TestEngine engine = MakeEngine(model, options);
  RequestId decoding_id, prompt_id, queued_id;
  const auto decoding = engine.Submit(MakeRequest(1, 4, 1000), &decoding_id);
  gate.entered.acquire();
  const auto prompt = engine.Submit(MakeRequest(2, 2000, 10), &prompt_id);
  const auto queued = engine.Submit(MakeRequest(3, 10, 10), &queued_id);
  gate.Step();
  gate.entered.acquire();  // now `prompt` is in its first chunk and `decoding` has a token
  gate.Step();
  gate.entered.acquire();
  engine.engine->Cancel(queued_id);
  engine.engine->Cancel(prompt_id);
  engine.engine->Cancel(decoding_id);
  engine.engine->Cancel(RequestId(999));
  gate.Open();
  for (const auto& sink : {decoding, prompt, queued}) {
    ASSERT_TRUE(sink->Wait());
    ASSERT_TRUE(sink->finish.has_value());
    EXPECT_EQ(sink->finish->reason, FinishReason::kCancelled);
    EXPECT_EQ(sink->final_events, 1);
  }
  EXPECT_EQ(decoding->tokens.size(), 2u);  // nobody in the running step was wanted any more
  EXPECT_TRUE(prompt->tokens.empty());
  const EngineStats stats = engine.engine->Stats();
  EXPECT_EQ(stats.cancelled_total, 3);
  EXPECT_EQ(stats.kv_used_bytes, 0u);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(engine.model->history().size(), 3u);
}

// A cancelled prompt does not even finish the step that it is in; a neighbour's step goes on.
TEST(EngineBatchTest, AStepIsAbandonedOnceNobodyInItIsWanted) {
  std::atomic<size_t> hold{1};  // steps of so many slices wait
  std::atomic<int> held{0};
  std::atomic<int> abandoned{0};
  FakeModelOptions model;
  model.on_step = [&](const StepBatch& batch) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    if (batch.slices.size() == hold.load()) {
      held.fetch_add(1);
      held.notify_all();
      while (hold.load() > 0 && !batch.abandoned() && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
    }
    if (batch.abandoned()) abandoned.fetch_add(1);
  };
  TestEngine engine = MakeEngine(model);
  RequestId id;
  const auto alone = engine.Submit(MakeRequest(1, 200, 5), &id);
  held.wait(0);
  engine.engine->Cancel(id);
  ASSERT_TRUE(alone->Wait());
  EXPECT_EQ(alone->finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(abandoned.load(), 1);
  EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);

  hold.store(2);
  const auto leaves = engine.Submit(MakeRequest(2, 40, 4000), &id);
  const auto stays = engine.Submit(MakeRequest(3, 40, 60));
  held.wait(1);
  engine.engine->Cancel(id);
  hold.store(0);
  ASSERT_TRUE(leaves->Wait());
  ASSERT_TRUE(stays->Wait());
  EXPECT_EQ(leaves->finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(abandoned.load(), 1);
  EXPECT_EQ(stays->tokens, RunAlone(MakeRequest(3, 40, 60))->tokens);
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineBatchTest, CancellingANeighbourChangesNothing) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_prefill_rows = 64;
  TestEngine engine = MakeEngine(model, options);
  const auto kept = engine.Submit(MakeRequest(1, 50, 60));
  gate.entered.acquire();
  RequestId id;
  const auto dropped = engine.Submit(MakeRequest(2, 3000, 60), &id);
  for (int i = 0; i < 5; ++i) {
    gate.Step();
    gate.entered.acquire();
  }
  engine.engine->Cancel(id);
  gate.Open();
  ASSERT_TRUE(kept->Wait());
  ASSERT_TRUE(dropped->Wait());
  EXPECT_EQ(kept->tokens, RunAlone(MakeRequest(1, 50, 60))->tokens);
  const auto third = engine.Submit(MakeRequest(7, 30, 5));
  ASSERT_TRUE(third->Wait());
  EXPECT_EQ(third->tokens, RunAlone(MakeRequest(7, 30, 5))->tokens);
}

TEST(EngineBatchTest, DeadlinesEndQueuedAndRunningRequests) {
  FakeClock clock;
  FakeModelOptions model;
  model.clock = &clock;
  model.step_ms = 10;
  Gate gate;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_sequences = 1;
  TestEngine engine = MakeEngine(model, options);
  GenerationRequest running = MakeRequest(1, 4, 1000);
  running.deadline_ms = 205;
  GenerationRequest queued = MakeRequest(2, 4, 10);
  queued.deadline_ms = 50;
  const auto first = engine.Submit(running);
  const auto second = engine.Submit(queued);
  gate.Open();
  ASSERT_TRUE(first->Wait());
  ASSERT_TRUE(second->Wait());
  EXPECT_EQ(first->finish->reason, FinishReason::kDeadline);
  EXPECT_EQ(second->finish->reason, FinishReason::kDeadline);
  EXPECT_EQ(first->tokens.size(), 21u);
  EXPECT_TRUE(second->tokens.empty());
}

TEST(EngineBatchTest, AFullQueueRefusesAtOnce) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_sequences = 1;
  options.max_queue = 3;
  TestEngine engine = MakeEngine(model, options);
  const auto running = engine.Submit(MakeRequest(1, 4, 2));
  gate.entered.acquire();
  std::vector<std::shared_ptr<CollectSink>> queued;
  for (uint64_t i = 0; i < 3; ++i) queued.push_back(engine.Submit(MakeRequest(i, 4, 2)));
  EXPECT_EQ(engine.engine->Stats().queued, 3);
  const auto refused = engine.engine->Submit(MakeRequest(9, 4, 2), std::make_shared<CollectSink>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().reason, "queue_full");
  EXPECT_EQ(engine.engine->Stats().rejected_total, 1);
  gate.Open();
  for (const auto& sink : queued) {
    ASSERT_TRUE(sink->Wait());
    EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
  }
  ASSERT_TRUE(running->Wait());
}

// Counted in rows: while a long prompt is computed, every step also decodes the stream.
TEST(EngineBatchTest, AStreamKeepsItsPaceWhileAnotherPromptIsComputed) {
  FakeClock clock;
  FakeModelOptions model;
  model.clock = &clock;
  model.step_ms = 10;
  model.row_ms = 1;
  int steps = 0;
  std::binary_semaphore twenty_steps(0), submitted(0);
  model.on_step = [&](const StepBatch&) {
    if (++steps != 20) return;
    twenty_steps.release();
    submitted.acquire();
  };
  TestEngine engine = MakeEngine(model);
  const auto stream = engine.Submit(MakeRequest(1, 16, 400));
  twenty_steps.acquire();
  const auto prompt = engine.Submit(MakeRequest(2, 3000, 4));
  submitted.release();
  ASSERT_TRUE(prompt->Wait());
  ASSERT_TRUE(stream->Wait());
  int64_t shared_steps = 0;
  for (const auto& step : engine.model->history()) {
    int64_t rows = 0;
    bool decodes = false, prefills = false;
    for (const auto& slice : step) {
      rows += slice.rows;
      (slice.rows == 1 ? decodes : prefills) = true;
    }
    if (!prefills || !decodes) continue;
    ++shared_steps;
    EXPECT_LE(rows, 64);  // 10 ms + 1 ms a row: near 50 ms
  }
  EXPECT_GT(shared_steps, 40);
  EXPECT_EQ(engine.engine->histograms()->inter_token_ms.count(), 399 + 3);
  for (size_t i = 7; i <= engine.engine->histograms()->inter_token_ms.bounds().size(); ++i) {
    EXPECT_EQ(engine.engine->histograms()->inter_token_ms.bucket_count(i), 0) << i;  // over 75 ms
  }
}

TEST(EngineBatchTest, PromptsAloneUseBigChunksOfBoundedTime) {
  FakeClock clock;
  FakeModelOptions model;
  model.clock = &clock;
  model.row_ms = 0.25;
  TestEngine engine = MakeEngine(model);
  const auto sink = engine.Submit(MakeRequest(2, 4000, 1));
  ASSERT_TRUE(sink->Wait());
  int32_t largest = 0;
  for (const auto& step : engine.model->history()) largest = std::max(largest, step[0].rows);
  EXPECT_LE(largest, 800);  // 200 ms
  EXPECT_GE(largest, 512);
}

TEST(EngineBatchTest, TenantsShareByTokens) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_sequences = 1;
  TestEngine engine = MakeEngine(model, options);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto submit = [&](const std::string& tenant, uint64_t seed, int64_t tokens) {
    GenerationRequest request = MakeRequest(seed, tokens, 1);
    request.tenant = tenant;
    auto sink = std::make_shared<CollectSink>();
    sink->on_token = [&order, &mutex, tenant] {
      std::lock_guard lock(mutex);
      order.push_back(tenant);
    };
    EXPECT_TRUE(engine.engine->Submit(request, sink).has_value());
    return sink;
  };
  std::vector<std::shared_ptr<CollectSink>> sinks = {submit("greedy", 0, 60)};
  gate.entered.acquire();
  for (uint64_t i = 1; i < 6; ++i) sinks.push_back(submit("greedy", i, 60));
  for (uint64_t i = 0; i < 3; ++i) sinks.push_back(submit("modest", 10 + i, 60));
  gate.Open();
  for (const auto& sink : sinks) ASSERT_TRUE(sink->Wait());
  // First come, first served would be six times "greedy" first.
  const std::vector<std::string> want = {"greedy", "modest", "greedy", "modest", "greedy",
                                         "modest", "greedy", "greedy", "greedy"};
  EXPECT_EQ(order, want);
}

TEST(EngineBatchTest, AShortPromptDoesNotWaitForALongOne) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  EngineOptions options;
  options.max_prefill_rows = 64;
  TestEngine engine = MakeEngine(model, options);
  const auto long_prompt = engine.Submit(MakeRequest(1, 3000, 1));
  gate.entered.acquire();
  const auto short_prompt = engine.Submit(MakeRequest(2, 100, 1));
  gate.Open();
  ASSERT_TRUE(short_prompt->Wait());
  ASSERT_TRUE(long_prompt->Wait());
  const auto history = engine.model->history();
  size_t last_step_of_short = 0;
  for (size_t i = 0; i < history.size(); ++i) {
    if (history[i].size() == 2) last_step_of_short = i;
    if (history[i].size() == 2) EXPECT_GE(history[i][0].rows, 32);  // the long one keeps half
  }
  EXPECT_EQ(last_step_of_short, 4u);  // 100 tokens in steps of 32
}

TEST(EngineBatchTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  Gate gate;
  FakeModelOptions model;
  model.on_step = gate.Hook();
  TestEngine engine = MakeEngine(model);
  const auto sink = engine.Submit(MakeRequest(1, 10, 10));
  gate.entered.acquire();
  std::thread drainer([&] { engine.engine->Drain(60000); });
  while (engine.engine->ready()) std::this_thread::yield();
  const auto refused = engine.engine->Submit(MakeRequest(2, 4, 2), std::make_shared<CollectSink>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_EQ(refused.error().reason, "draining");
  gate.Open();
  drainer.join();
  EXPECT_EQ(sink->final_events, 1);
  EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
}

TEST(EngineBatchTest, DrainCancelsWhatIsLeftAfterItsTime) {
  TestEngine engine = MakeEngine();
  GenerationRequest request = MakeRequest(1, 10, 0);
  const auto sink = engine.Submit(request);
  ASSERT_TRUE(sink->WaitTokens(1));
  engine.engine->Drain(0);
  EXPECT_EQ(sink->final_events, 1);
  EXPECT_TRUE(sink->finish->reason == FinishReason::kCancelled || sink->tokens.size() == 4086);
}

TEST(EngineBatchTest, DestroyingTheEngineEndsEveryRequest) {
  std::vector<std::shared_ptr<CollectSink>> sinks;
  {
    EngineOptions options;
    options.max_sequences = 4;
    TestEngine engine = MakeEngine({}, options);
    for (uint64_t i = 0; i < 20; ++i) sinks.push_back(engine.Submit(MakeRequest(i, 300, 0)));
    ASSERT_TRUE(sinks[0]->WaitTokens(1));
  }
  for (const auto& sink : sinks) EXPECT_EQ(sink->final_events, 1);
}

TEST(EngineBatchTest, ASinkMaySubmitAndCancel) {
  TestEngine engine = MakeEngine();
  auto second = std::make_shared<CollectSink>();
  auto first = std::make_shared<CollectSink>();
  RequestId first_id;
  std::atomic<bool> ready{false};
  bool submitted = false;
  first->on_token = [&] {
    while (!ready.load()) std::this_thread::yield();
    if (submitted) return;
    submitted = true;
    EXPECT_TRUE(engine.engine->Submit(MakeRequest(2, 9, 3), second).has_value());
    engine.engine->Cancel(first_id);
  };
  first_id = *engine.engine->Submit(MakeRequest(1, 9, 0), first);
  ready.store(true);
  ASSERT_TRUE(first->Wait());
  ASSERT_TRUE(second->Wait());
  EXPECT_EQ(first->finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(second->tokens.size(), 3u);
}

}  // namespace
}  // namespace ballast
