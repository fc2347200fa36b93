// Constrained requests: what comes out fits the grammar, in any company and after preemption; ends,
// stops, lengths and errors are right.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "engine/testing/harness.h"
#include "text/grammar/grammar.h"
#include "text/grammar/matcher.h"

namespace ballast {
namespace {

using testing::CollectSink;
using testing::FakeModelOptions;
using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

constexpr char kSchema[] =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},
        "tags":{"type":"array","items":{"enum":["red","green",7]},"maxItems":3}},
        "required":["name","tags"],"additionalProperties":false})";

grammar::GrammarPtr Schema() {
  static const grammar::GrammarPtr compiled =
      grammar::CompileJsonSchema(ParseJson(kSchema).value()).value();
  return compiled;
}

GenerationRequest Constrained(uint64_t seed, int64_t prompt = 20) {
  GenerationRequest request = MakeRequest(seed, prompt, 0);
  request.ignore_eos = false;
  request.grammar = Schema();
  return request;
}

bool Fits(const grammar::GrammarPtr& grammar, const std::string& text, bool whole = true) {
  grammar::Matcher matcher(grammar);
  return matcher.Accept(text) && (!whole || matcher.IsComplete());
}

TEST(EngineGrammarTest, TheTextFitsAndEndsByItself) {
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    GenerationRequest request = Constrained(seed);
    if (seed % 5 == 1) request.sampling.temperature = 0;
    if (seed % 5 == 2) request.sampling.top_k = 3;
    if (seed % 5 == 3) request.sampling.top_p = 0.5f;
    if (seed % 5 == 4) request.sampling.repetition_penalty = 1.3f;
    const auto sink = RunAlone(request);
    ASSERT_TRUE(sink->finish.has_value()) << sink->error->message;
    EXPECT_EQ(sink->finish->reason, FinishReason::kStop);
    EXPECT_TRUE(Fits(request.grammar, sink->text)) << sink->text;
    // The text is over with its last brace: no step is spent on an end token.
    EXPECT_EQ(sink->finish->usage.completion_tokens, static_cast<int64_t>(sink->tokens.size()));
    texts.insert(sink->text);
  }
  EXPECT_GT(texts.size(), 25u);
}

TEST(EngineGrammarTest, AnEndTokenComesOnlyWhereTheTextMayEnd) {
  GenerationRequest request = Constrained(1);
  request.grammar = grammar::CompileRegex("(abc)+").value();
  request.sampling.logit_bias = {{testing::kEndToken, 100.0f}};
  const auto sink = RunAlone(request);
  EXPECT_EQ(sink->text, "abc");
  EXPECT_EQ(sink->finish->reason, FinishReason::kStop);
  EXPECT_EQ(sink->finish->usage.completion_tokens, 4);
}

TEST(EngineGrammarTest, MaxTokensCutsWithLength) {
  GenerationRequest request = Constrained(3);
  request.max_tokens = 5;
  const auto cut = RunAlone(request);
  EXPECT_EQ(cut->finish->reason, FinishReason::kLength);
  EXPECT_TRUE(Fits(request.grammar, cut->text, /*whole=*/false));
  // The last token that was allowed also completes the text: that is an end, not a cut.
  request.max_tokens = 0;
  const auto whole = RunAlone(request);
  request.max_tokens = static_cast<int64_t>(whole->tokens.size());
  const auto exact = RunAlone(request);
  EXPECT_EQ(exact->finish->reason, FinishReason::kStop);
  EXPECT_EQ(exact->text, whole->text);
}

TEST(EngineGrammarTest, StopStringsStillStop) {
  GenerationRequest request = Constrained(4);
  request.stop = {"\"tags\""};
  const auto sink = RunAlone(request);
  EXPECT_EQ(sink->finish->reason, FinishReason::kStop);
  EXPECT_EQ(sink->finish->stop, "\"tags\"");
  EXPECT_TRUE(Fits(request.grammar, sink->text + "\"tags\"", /*whole=*/false)) << sink->text;
}

TEST(EngineGrammarTest, LogprobsAreThoseBeforeTheMask) {
  GenerationRequest request = Constrained(5);
  request.grammar = grammar::CompileRegex("q").value();
  request.top_logprobs = 3;
  const auto sink = RunAlone(request);
  ASSERT_EQ(sink->text, "q");
  ASSERT_EQ(sink->events.front().logprobs.size(), 1u);
  EXPECT_LT(sink->events.front().logprobs[0].logprob, -0.5f);
  EXPECT_EQ(sink->events.front().top_logprobs[0].size(), 3u);
}

TEST(EngineGrammarTest, IgnoreEosIsRefused) {
  TestEngine engine = MakeEngine();
  GenerationRequest request = Constrained(1);
  request.ignore_eos = true;
  const auto result = engine.engine->Submit(request, std::make_shared<CollectSink>());
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
}

std::vector<GenerationRequest> Mixed() {
  std::vector<GenerationRequest> requests;
  for (uint64_t i = 0; i < 16; ++i) {
    const auto prompt = static_cast<int64_t>(1 + i * 37 % 200);
    requests.push_back(i % 3 == 2 ? MakeRequest(50 + i, prompt, 40) : Constrained(50 + i, prompt));
  }
  return requests;
}

TEST(EngineGrammarTest, TheTextDoesNotDependOnCompany) {
  const auto requests = Mixed();
  std::vector<std::shared_ptr<CollectSink>> alone;
  for (const auto& request : requests) alone.push_back(RunAlone(request));
  for (const int threads : {1, 2}) {
    TestEngine engine = MakeEngine({}, {}, 64, threads);
    std::vector<std::shared_ptr<CollectSink>> sinks;
    for (const auto& request : requests) sinks.push_back(engine.Submit(request));
    for (size_t i = 0; i < sinks.size(); ++i) {
      ASSERT_TRUE(sinks[i]->Wait());
      EXPECT_EQ(sinks[i]->tokens, alone[i]->tokens) << i;
    }
    const EngineStats stats = engine.engine->Stats();
    EXPECT_GT(stats.grammar_masks_total, 100);
    EXPECT_GT(stats.grammar_mask_ms_total, 0);
  }
}

TEST(EngineGrammarTest, PreemptionKeepsTheState) {
  FakeModelOptions model;
  model.head_dim = 4096;  // a record is 1 MiB: few pages fit
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<CollectSink>> alone;
  for (uint64_t i = 0; i < 6; ++i) {
    GenerationRequest request = Constrained(90 + i, 55);
    request.grammar = grammar::CompileRegex("([a-f]{3}-){40}").value();
    alone.push_back(RunAlone(request, model));
    requests.push_back(std::move(request));
  }
  TestEngine engine = MakeEngine(model, {}, /*frames=*/12);
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (const auto& request : requests) sinks.push_back(engine.Submit(request));
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->Wait());
    ASSERT_FALSE(sinks[i]->error.has_value()) << sinks[i]->error->message;
    EXPECT_EQ(sinks[i]->text, alone[i]->text) << i;
    EXPECT_EQ(sinks[i]->finish->reason, FinishReason::kStop);
  }
  EXPECT_GT(engine.engine->Stats().preempted_total, 0);
}

TEST(EngineGrammarTest, CancelWhileMasksAreMade) {
  TestEngine engine = MakeEngine();
  for (uint64_t i = 0; i < 20; ++i) {
    GenerationRequest request = Constrained(i);
    request.grammar = grammar::CompileRegex("[a-z ]*").value();
    request.sampling.logit_bias = {{testing::kEndToken, -100.0f}};
    RequestId id;
    const auto sink = engine.Submit(request, &id);
    ASSERT_TRUE(sink->WaitTokens(i % 3));
    engine.engine->Cancel(id);
    ASSERT_TRUE(sink->Wait());
    EXPECT_EQ(sink->final_events, 1);
  }
}

}  // namespace
}  // namespace ballast
