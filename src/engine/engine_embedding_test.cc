// Embedding requests: the pooled states, the same bits in any company, chunks and after preemption.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/harness.h"

namespace ballast {
namespace {

using testing::FakeModel;
using testing::FakeModelOptions;
using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

GenerationRequest Embed(uint64_t seed, int64_t tokens, Pooling pooling) {
  GenerationRequest request = MakeRequest(seed, tokens, 0);
  request.pooling = pooling;
  return request;
}

std::vector<float> Expected(const GenerationRequest& request) {
  std::vector<double> sums(16);
  std::vector<TokenId> seen;
  for (const TokenId token : request.prompt) {
    seen.push_back(token);
    if (request.pooling == Pooling::kLast && seen.size() < request.prompt.size()) continue;
    const std::vector<float> hidden = FakeModel::HiddenAfter(seen);
    for (size_t i = 0; i < 16; ++i) sums[i] += static_cast<double>(hidden[i]);
  }
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  std::vector<float> expected;
  for (const double sum : sums) expected.push_back(static_cast<float>(sum / std::sqrt(squares)));
  return expected;
}

TEST(EngineEmbeddingTest, PoolsTheHiddenStates) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    for (const int64_t tokens : {1, 15, 16, 130}) {
      const GenerationRequest request = Embed(7, tokens, pooling);
      const auto sink = RunAlone(request);
      ASSERT_TRUE(sink->finish.has_value());
      EXPECT_EQ(sink->finish->reason, FinishReason::kStop);
      EXPECT_TRUE(sink->tokens.empty());
      EXPECT_EQ(sink->finish->usage.prompt_tokens, tokens);
      EXPECT_EQ(sink->finish->usage.completion_tokens, 0);
      const std::vector<float> expected = Expected(request);
      ASSERT_EQ(sink->finish->embedding.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(sink->finish->embedding[i], expected[i], 1e-5f) << tokens << " " << i;
      }
    }
  }
}

std::vector<GenerationRequest> Mixed(int64_t scale) {
  std::vector<GenerationRequest> requests;
  for (uint64_t i = 0; i < 12; ++i) {
    const auto tokens = static_cast<int64_t>(1 + i * 23) * scale / 4;
    requests.push_back(i % 3 == 2
                           ? MakeRequest(i, tokens + 1, 30)
                           : Embed(i, tokens + 1, i % 3 == 0 ? Pooling::kMean : Pooling::kLast));
  }
  return requests;
}

TEST(EngineEmbeddingTest, TheBitsDoNotDependOnCompanyOrChunks) {
  const auto requests = Mixed(4);
  for (const int32_t chunk : {0, 16, 48}) {
    EngineOptions options;
    options.max_prefill_rows = chunk;
    TestEngine engine = MakeEngine({}, options);
    std::vector<std::shared_ptr<testing::CollectSink>> sinks;
    for (const auto& request : requests) sinks.push_back(engine.Submit(request));
    for (size_t i = 0; i < sinks.size(); ++i) {
      ASSERT_TRUE(sinks[i]->Wait());
      ASSERT_TRUE(sinks[i]->finish.has_value());
      const auto alone = RunAlone(requests[i]);
      EXPECT_EQ(sinks[i]->finish->embedding, alone->finish->embedding) << i;
      EXPECT_EQ(sinks[i]->tokens, alone->tokens) << i;
      EXPECT_EQ(sinks[i]->finish->embedding.empty(), requests[i].pooling == Pooling::kNone);
    }
    EXPECT_EQ(engine.model->violations(), 0);
  }
}

TEST(EngineEmbeddingTest, PreemptionStartsOver) {
  FakeModelOptions model;
  model.head_dim = 4096;  // a record is 1 MiB: few pages fit
  EngineOptions options;
  options.max_prefill_rows = 64;
  TestEngine engine = MakeEngine(model, options, /*frames=*/12);
  std::vector<GenerationRequest> requests;
  for (uint64_t i = 0; i < 3; ++i) requests.push_back(MakeRequest(i, 100, 120));
  for (uint64_t i = 3; i < 6; ++i) requests.push_back(Embed(i, 250, Pooling::kMean));
  std::vector<std::shared_ptr<testing::CollectSink>> sinks;
  for (const auto& request : requests) sinks.push_back(engine.Submit(request));
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->Wait());
    ASSERT_TRUE(sinks[i]->finish.has_value()) << sinks[i]->error->message;
    EXPECT_EQ(sinks[i]->finish->embedding, RunAlone(requests[i])->finish->embedding) << i;
  }
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineEmbeddingTest, APromptMayFillTheContext) {
  FakeModelOptions model;
  model.context = 128;
  TestEngine engine = MakeEngine(model);
  const auto sink = engine.Submit(Embed(1, 128, Pooling::kMean));
  ASSERT_TRUE(sink->Wait());
  ASSERT_TRUE(sink->finish.has_value());
  EXPECT_FALSE(sink->finish->embedding.empty());
  const auto over = engine.engine->Submit(Embed(1, 129, Pooling::kMean),
                                          std::make_shared<testing::CollectSink>());
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().reason, "context_length_exceeded");
}

}  // namespace
}  // namespace ballast
