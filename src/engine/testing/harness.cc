#include "engine/testing/harness.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "text/chat_template.h"

namespace ballast::testing {

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

}  // namespace

std::unique_ptr<const Tokenizer> TestTokenizer() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  const auto add = [&](std::string text, TokenType type) {
    spec.scores.push_back(-static_cast<float>(spec.tokens.size()));
    spec.tokens.push_back(std::move(text));
    spec.types.push_back(type);
  };
  add("<unk>", TokenType::kUnknown);
  add("<s>", TokenType::kControl);
  add("</s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  for (int i = 0; spec.tokens.size() < 300; ++i) {
    add(fmt::format("{}{}w{}", i % 3 == 0 ? "\u2581" : "", "xyz"[i % 3], i), TokenType::kNormal);
  }
  spec.bos = 1;
  spec.eos = kEndToken;
  spec.unk = 0;
  auto tokenizer = Tokenizer::Create(std::move(spec));
  CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

void CollectSink::OnProgress(int64_t done, int64_t) {
  std::lock_guard lock(mutex_);
  progress.push_back(done);
}

void CollectSink::OnTokens(TokenEvent event) {
  if (on_token) on_token();
  std::lock_guard lock(mutex_);
  text += event.text;
  tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  events.push_back(std::move(event));
  changed_.notify_all();
}

void CollectSink::OnFinish(FinishEvent event) {
  std::lock_guard lock(mutex_);
  text += event.text;
  finish = std::move(event);
  ++final_events;
  changed_.notify_all();
}

void CollectSink::OnError(Error failure) {
  std::lock_guard lock(mutex_);
  error = std::move(failure);
  ++final_events;
  changed_.notify_all();
}

bool CollectSink::Wait() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [this] { return final_events > 0; });
}

bool CollectSink::WaitTokens(size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience,
                           [&] { return tokens.size() >= count || final_events > 0; });
}

std::shared_ptr<CollectSink> TestEngine::Submit(GenerationRequest request, RequestId* id) {
  auto sink = std::make_shared<CollectSink>();
  auto result = engine->Submit(std::move(request), sink);
  CHECK(result.has_value());
  if (id != nullptr) *id = *result;
  return sink;
}

TestEngine MakeEngine(FakeModelOptions model, EngineOptions options, uint64_t frames, int threads) {
  EngineMemory memory;
  memory.pool = std::make_unique<ThreadPool>(threads);
  memory.ledger = std::make_unique<Ledger>(frames * kFrameBytes);
  auto arena = FrameArena::Create(frames * kFrameBytes, memory.ledger.get());
  CHECK(arena.has_value());
  memory.arena = std::move(*arena);
  auto kernels = Kernels::Create(Isa::kRef, *memory.pool);
  CHECK(kernels.has_value());
  auto fake = std::make_unique<FakeModel>(model);
  TestEngine result;
  result.model = fake.get();
  if (options.clock == nullptr) options.clock = model.clock;
  auto engine = Engine::Create(std::move(options), std::move(fake), *kernels, TestTokenizer(),
                               std::nullopt, std::move(memory));
  CHECK(engine.has_value());
  result.engine = std::move(*engine);
  return result;
}

GenerationRequest MakeRequest(uint64_t seed, int64_t tokens, int64_t max_tokens) {
  GenerationRequest request;
  Rng rng(seed * 7919 + 1);
  for (int64_t i = 0; i < tokens; ++i) {
    request.prompt.push_back(kFirstByteToken + 'a' + static_cast<TokenId>(rng.Below(26)));
  }
  request.sampling.seed = seed;
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

std::shared_ptr<CollectSink> RunAlone(GenerationRequest request, FakeModelOptions model) {
  model.clock = nullptr;
  model.on_step = nullptr;
  model.head_dim = 16;
  TestEngine alone = MakeEngine(model);
  auto sink = alone.Submit(std::move(request));
  CHECK(sink->Wait());
  return sink;
}

}  // namespace ballast::testing
