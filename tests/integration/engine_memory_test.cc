// The engine on a seeded model whose sequences do not all fit into the KV cache: everybody
// finishes, with the text of an engine that has room, and nobody is thrown out again and again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "model/registry.h"
#include "model/tokenizer_from_gguf.h"
#include "text/chat_template.h"
#include "tools/make_model_lib.h"
#include "weights/source.h"

namespace ballast {
namespace {

constexpr int kRequests = 6;
constexpr int64_t kPrompt = 180;
constexpr int64_t kOutput = 200;

/// A model whose page takes much of a frame: 256 KiB (f16) a layer.
std::string ModelPath() {
  static const std::string path = [] {
    std::string dir = (std::filesystem::temp_directory_path() / "ballast-memory-XXXXXX").string();
    EXPECT_NE(mkdtemp(dir.data()), nullptr);
    ModelRecipe recipe;
    recipe.type = "Q8_0";
    recipe.layers = 2;
    recipe.hidden = 64;
    recipe.heads = 8;
    recipe.kv_heads = 8;
    recipe.head_dim = 128;
    recipe.context = 1024;
    const Status made = MakeModel(recipe, dir + "/model.gguf");
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return dir + "/model.gguf";
  }();
  return path;
}

class TextSink final : public RequestSink {
 public:
  void OnProgress(int64_t, int64_t) override {}
  void OnTokens(TokenEvent event) override {
    const std::lock_guard lock(mutex_);
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  void OnFinish(FinishEvent event) override { End(event.reason, event.timings.preemptions); }
  void OnError(Error) override { End(FinishReason::kCancelled, 0); }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [this] { return ended_; });
  }

  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kStop;
  int64_t preemptions = 0;

 private:
  void End(FinishReason why, int64_t times) {
    const std::lock_guard lock(mutex_);
    reason = why;
    preemptions = times;
    ended_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

struct Outcome {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<int64_t> preemptions;
  int64_t computed_prompt_tokens = 0;
};

std::unique_ptr<Engine> MakeEngine(KvDType kv_dtype, uint64_t frames) {
  EngineMemory memory;
  memory.pool = std::make_unique<ThreadPool>(2);
  memory.ledger = std::make_unique<Ledger>(uint64_t{1} << 30);
  memory.arena = std::move(*FrameArena::Create(frames * kFrameBytes, memory.ledger.get()));
  const Kernels kernels = *Kernels::Create(*BestIsa(), *memory.pool);
  ModelOptions model_options;
  model_options.kv_dtype = kv_dtype;
  model_options.max_step_rows = 256;
  auto model = LoadModel(ModelPath(), model_options, kernels, memory.ledger.get());
  EXPECT_TRUE(model.has_value()) << model.error().message;
  const auto source = OpenWeights(ModelPath());
  auto tokenizer = Tokenizer::Create(*TokenizerSpecFromSource(**source));
  EXPECT_TRUE(tokenizer.has_value());
  EngineOptions options;
  options.kv_dtype = kv_dtype;
  auto engine = Engine::Create(options, std::move(*model), kernels, std::move(*tokenizer),
                               std::nullopt, std::move(memory));
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  return std::move(*engine);
}

Outcome RunAll(KvDType kv_dtype, uint64_t frames) {
  const auto engine = MakeEngine(kv_dtype, frames);
  std::vector<std::shared_ptr<TextSink>> sinks;
  for (uint64_t i = 0; i < kRequests; ++i) {
    GenerationRequest request;
    Rng rng(i);
    for (int64_t t = 0; t < kPrompt; ++t) {
      request.prompt.push_back(static_cast<TokenId>(rng.Below(256)));
    }
    request.max_tokens = kOutput;
    request.ignore_eos = true;
    request.sampling.seed = i;
    sinks.push_back(std::make_shared<TextSink>());
    EXPECT_TRUE(engine->Submit(std::move(request), sinks.back()).has_value());
  }
  Outcome outcome;
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->Wait()) << "no end after 120 s";
    EXPECT_EQ(sink->reason, FinishReason::kLength);
    outcome.tokens.push_back(sink->tokens);
    outcome.preemptions.push_back(sink->preemptions);
  }
  outcome.computed_prompt_tokens = engine->Stats().prompt_tokens_total;
  EXPECT_EQ(engine->Stats().kv_used_bytes, 0u);
  return outcome;
}

class EngineMemoryTest : public ::testing::TestWithParam<KvDType> {};

TEST_P(EngineMemoryTest, TooLittleForAllChangesNoTextAndDoesNotThrash) {
  const Outcome roomy = RunAll(GetParam(), 128);
  for (const int64_t times : roomy.preemptions) EXPECT_EQ(times, 0);
  EXPECT_EQ(roomy.computed_prompt_tokens, kRequests * kPrompt);
  constexpr uint64_t smallest = 2;  // one sequence just fits
  for (const uint64_t frames : {smallest, smallest + 1, smallest + 3}) {
    const Outcome tight = RunAll(GetParam(), frames);
    EXPECT_EQ(tight.tokens, roomy.tokens) << frames << " frames";
    int64_t preemptions = 0;
    for (const int64_t times : tight.preemptions) preemptions += times;
    EXPECT_EQ(tight.preemptions[0], 0) << frames;
    EXPECT_LE(preemptions, 2 * kRequests) << frames;
    if (frames == smallest + 3) EXPECT_GT(preemptions, 0);
    // What was thrown away and computed again stays within the work itself.
    EXPECT_LE(tight.computed_prompt_tokens, 3 * kRequests * (kPrompt + kOutput)) << frames;
  }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, EngineMemoryTest, ::testing::Values(KvDType::kF16, KvDType::kKv8),
                         [](const auto& info) {
                           return info.param == KvDType::kF16 ? "F16" : "Kv8";
                         });

}  // namespace
}  // namespace ballast
