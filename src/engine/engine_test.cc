// One request at a time: limits, errors, finish reasons, stop strings, log probabilities, seeds.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/sampler.h"
#include "engine/testing/harness.h"
#include "text/chat_template.h"

namespace ballast {
namespace {

using testing::CollectSink;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::kEndToken;
using testing::kFirstByteToken;
using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

TEST(EngineTest, GeneratesUpToMaxTokens) {
  TestEngine engine = MakeEngine();
  const auto sink = engine.Submit(MakeRequest(1, 100, 20));
  ASSERT_TRUE(sink->Wait());
  ASSERT_TRUE(sink->finish.has_value());
  EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
  EXPECT_EQ(sink->tokens.size(), 20u);
  EXPECT_EQ(sink->finish->usage.prompt_tokens, 100);
  EXPECT_EQ(sink->finish->usage.completion_tokens, 20);
  EXPECT_EQ(engine.model->violations(), 0);
  EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);
}

TEST(EngineTest, TheTextIsWhatTheModelAndTheNoiseSay) {
  const GenerationRequest request = MakeRequest(5, 37, 30);
  std::vector<TokenId> tokens = request.prompt;
  Sampler sampler;
  std::vector<float> logits(300);
  for (int i = 0; i < 30; ++i) {
    FakeModel::LogitsAfter(tokens, &logits);
    tokens.push_back(
        sampler.Sample(logits, request.sampling, {}, static_cast<int64_t>(tokens.size())));
  }
  const auto sink = RunAlone(request);
  EXPECT_TRUE(
      std::equal(sink->tokens.begin(), sink->tokens.end(), tokens.begin() + 37, tokens.end()));
}

TEST(EngineTest, StopsAtAnEndTokenUnlessToldToIgnoreIt) {
  GenerationRequest request = MakeRequest(3, 10, 50);
  request.ignore_eos = false;
  request.sampling.logit_bias = {{kEndToken, 4.0f}};
  const auto sink = RunAlone(request);
  EXPECT_EQ(sink->finish->reason, FinishReason::kStop);
  EXPECT_LT(sink->tokens.size(), 50u);
  EXPECT_TRUE(std::find(sink->tokens.begin(), sink->tokens.end(), kEndToken) == sink->tokens.end());
  EXPECT_EQ(sink->finish->usage.completion_tokens, static_cast<int64_t>(sink->tokens.size()) + 1);
  EXPECT_EQ(sink->finish->stop, "");
  request.ignore_eos = true;
  const auto longer = RunAlone(request);
  EXPECT_EQ(longer->finish->reason, FinishReason::kLength);
  EXPECT_EQ(longer->tokens.size(), 50u);
}

TEST(EngineTest, StopStringsMatchAcrossTokensAndAreNotEmitted) {
  const GenerationRequest plain = MakeRequest(8, 20, 120);
  const auto whole = RunAlone(plain);
  // A stop string over several tokens, from the middle of one to the middle of another.
  for (const size_t at : {0u, 17u, 40u, 61u}) {
    size_t begin = at;
    while ((static_cast<unsigned char>(whole->text[begin]) & 0xC0u) == 0x80u) ++begin;
    GenerationRequest request = plain;
    request.stop = {"never this", whole->text.substr(begin, 9)};
    const auto sink = RunAlone(request);
    ASSERT_EQ(sink->finish->reason, FinishReason::kStop);
    EXPECT_EQ(sink->finish->stop, request.stop[1]);
    EXPECT_EQ(sink->text, whole->text.substr(0, whole->text.find(request.stop[1])));
  }
}

TEST(EngineTest, EveryEventIsWholeUtf8AndTheTextIsTheDecodedTokens) {
  const auto sink = RunAlone(MakeRequest(21, 16, 300));
  const auto tokenizer = testing::TestTokenizer();
  EXPECT_EQ(sink->text, tokenizer->Decode(sink->tokens, SkipSpecial::kYes));
  EXPECT_NE(sink->text.find("\uFFFD"), std::string::npos);  // random bytes: some are ill-formed
}

TEST(EngineTest, LogprobsAreTheLogSoftmaxOfTheRawLogits) {
  GenerationRequest request = MakeRequest(4, 33, 6);
  request.top_logprobs = 5;
  request.sampling.temperature = 0.4f;  // changes the choice, not the log probabilities
  const auto sink = RunAlone(request);
  std::vector<TokenId> tokens = request.prompt;
  std::vector<float> logits(300);
  ASSERT_EQ(sink->events.size(), 6u);
  for (const TokenEvent& event : sink->events) {
    FakeModel::LogitsAfter(tokens, &logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    ASSERT_EQ(event.logprobs.size(), 1u);
    ASSERT_EQ(event.top_logprobs.size(), 1u);
    ASSERT_EQ(event.top_logprobs[0].size(), 5u);
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    for (size_t i = 0; i < 5; ++i) {
      const TokenLogprob& top = event.top_logprobs[0][i];
      EXPECT_EQ(top.token, static_cast<TokenId>(order[i]));
      EXPECT_NEAR(top.logprob, static_cast<double>(logits[order[i]]) - std::log(sum), 1e-5);
    }
    EXPECT_EQ(event.logprobs[0].token, event.tokens[0]);
    EXPECT_NEAR(event.logprobs[0].logprob,
                static_cast<double>(logits[static_cast<size_t>(event.tokens[0])]) - std::log(sum),
                1e-5);
    tokens.push_back(event.tokens[0]);
  }
  request.top_logprobs = 0;
  EXPECT_TRUE(RunAlone(request)->events[0].top_logprobs[0].empty());
  request.top_logprobs = -1;
  EXPECT_TRUE(RunAlone(request)->events[0].logprobs.empty());
}

TEST(EngineTest, TheSeedDecides) {
  GenerationRequest request = MakeRequest(2, 40, 40);
  const auto once = RunAlone(request);
  EXPECT_EQ(RunAlone(request)->tokens, once->tokens);
  request.sampling.seed += 1;
  EXPECT_NE(RunAlone(request)->tokens, once->tokens);
}

TEST(EngineTest, MaxTokensIsClippedToTheContext) {
  FakeModelOptions model;
  model.context = 128;
  for (const int64_t max_tokens : {int64_t{0}, int64_t{1000000}}) {
    const auto sink = RunAlone(MakeRequest(6, 100, max_tokens), model);
    EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
    EXPECT_EQ(sink->tokens.size(), 28u);
  }
}

TEST(EngineTest, RefusesWhatCanNeverFitWithBothNumbers) {
  FakeModelOptions model;
  model.context = 128;
  TestEngine engine = MakeEngine(model);
  auto sink = std::make_shared<CollectSink>();
  const auto result = engine.engine->Submit(MakeRequest(1, 128, 1), sink);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_EQ(result.error().reason, "context_length_exceeded");
  EXPECT_NE(result.error().message.find("128 tokens"), std::string::npos);
  EXPECT_NE(result.error().message.find("128 prompt tokens"), std::string::npos);
  EXPECT_EQ(engine.engine->Stats().rejected_total, 1);
  EXPECT_EQ(sink->final_events, 0);

  model.context = 100000;
  model.head_dim = 4096;  // 2 pages a frame and layer
  TestEngine small = MakeEngine(model, {}, 4);
  EXPECT_EQ(small.engine->info().context, 256);
  const auto too_long = small.engine->Submit(MakeRequest(1, 256, 1), sink);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().reason, "context_length_exceeded");
  EXPECT_NE(too_long.error().message.find("256"), std::string::npos);
  const auto fits = small.Submit(MakeRequest(1, 255, 1));
  ASSERT_TRUE(fits->Wait());
  EXPECT_EQ(fits->finish->reason, FinishReason::kLength);
}

TEST(EngineTest, RefusesBadFieldsByName) {
  TestEngine engine = MakeEngine();
  const auto message = [&](auto change) {
    GenerationRequest request = MakeRequest(1, 5, 5);
    change(request);
    const auto result = engine.engine->Submit(std::move(request), std::make_shared<CollectSink>());
    return result.has_value() ? std::string() : result.error().message;
  };
  EXPECT_NE(message([](auto& r) { r.prompt.clear(); }).find("prompt"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.prompt[2] = 300; }).find("prompt"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.prompt[2] = -1; }).find("prompt"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.max_tokens = -1; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.top_logprobs = 21; }).find("top_logprobs"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.stop = {""}; }).find("stop"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.sampling.top_p = 2; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.deadline_ms = -1; }).find("deadline_ms"), std::string::npos);
  EXPECT_EQ(engine.engine->Stats().submitted_total, 0);
}

TEST(EngineTest, AloneInAFullCacheASequenceEndsWithLength) {
  FakeModelOptions model;
  model.context = 100000;
  model.head_dim = 4096;
  TestEngine engine = MakeEngine(model, {}, 4);  // 256 tokens
  const auto sink = engine.Submit(MakeRequest(1, 200, 0));
  ASSERT_TRUE(sink->Wait());
  ASSERT_TRUE(sink->finish.has_value());
  EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
  EXPECT_EQ(sink->tokens.size(), 56u);
  EXPECT_EQ(engine.model->violations(), 0);
}

TEST(EngineTest, ReportsProgressOfThePrompt) {
  EngineOptions options;
  options.max_prefill_rows = 32;
  TestEngine engine = MakeEngine({}, options);
  GenerationRequest request = MakeRequest(1, 100, 3);
  request.echo_progress = true;
  const auto sink = engine.Submit(request);
  ASSERT_TRUE(sink->Wait());
  EXPECT_EQ(sink->progress, (std::vector<int64_t>{32, 64, 96, 100}));
}

TEST(EngineTest, ReportsTimings) {
  testing::FakeClock clock;
  FakeModelOptions model;
  model.clock = &clock;
  model.step_ms = 10;
  TestEngine engine = MakeEngine(model);
  const auto sink = engine.Submit(MakeRequest(1, 20, 5));
  ASSERT_TRUE(sink->Wait());
  EXPECT_DOUBLE_EQ(sink->finish->timings.queue_ms, 0);
  EXPECT_NEAR(sink->finish->timings.prompt_ms, 10, 1e-6);
  EXPECT_NEAR(sink->finish->timings.predicted_ms, 40, 1e-6);
  const EngineStats stats = engine.engine->Stats();
  EXPECT_NEAR(stats.decode_tokens_per_s, 100, 1e-6);
  EXPECT_EQ(stats.generated_tokens_total, 5);
  EXPECT_EQ(stats.prompt_tokens_total, 20);
  EXPECT_EQ(stats.steps_total, 5);
  const EngineHistograms* histograms = engine.engine->histograms();
  ASSERT_NE(histograms, nullptr);
  EXPECT_EQ(histograms->ttft_ms.count(), 1);
  EXPECT_EQ(histograms->inter_token_ms.count(), 4);
  EXPECT_NEAR(histograms->inter_token_ms.sum(), 40, 1e-6);
}

TEST(EngineTest, RefusesUnusableOptions) {
  EngineMemory memory;
  memory.pool = std::make_unique<ThreadPool>(1);
  memory.ledger = std::make_unique<Ledger>(kFrameBytes);
  memory.arena = std::move(*FrameArena::Create(kFrameBytes, memory.ledger.get()));
  const Kernels kernels = *Kernels::Create(Isa::kRef, *memory.pool);
  FakeModelOptions model;
  model.head_dim = 4096;  // a page takes 2 frames, there is 1
  model.layers = 4;
  const auto engine = Engine::Create({}, std::make_unique<FakeModel>(model), kernels,
                                     testing::TestTokenizer(), std::nullopt, std::move(memory));
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace ballast
