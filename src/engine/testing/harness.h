// Role: test support: an engine over the fake model and a small vocabulary, and a sink that
// collects.
#ifndef BALLAST_ENGINE_TESTING_HARNESS_H_
#define BALLAST_ENGINE_TESTING_HARNESS_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/fake_model.h"

namespace ballast::testing {

/// 300 tokens: <unk>, <s>, </s> (ends generation), the 256 bytes, then short words.
std::unique_ptr<const Tokenizer> TestTokenizer();
inline constexpr TokenId kEndToken = 2;
inline constexpr TokenId kFirstByteToken = 3;

/// Collects a request's events.
class CollectSink final : public RequestSink {
 public:
  void OnProgress(int64_t done, int64_t total) override;
  void OnTokens(TokenEvent event) override;
  void OnFinish(FinishEvent event) override;
  void OnError(Error error) override;

  /// Blocks until the final event. False after 60 s.
  bool Wait();
  /// Blocks until `count` tokens have arrived or the request has ended. False after 60 s.
  bool WaitTokens(size_t count);

  // Read after Wait.
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenEvent> events;
  std::vector<int64_t> progress;
  std::optional<FinishEvent> finish;
  std::optional<Error> error;
  int final_events = 0;
  /// Called on the engine thread at every token, before it is recorded.
  std::function<void()> on_token;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct TestEngine {
  FakeModel* model = nullptr;  // owned by the engine
  std::unique_ptr<Engine> engine;

  std::shared_ptr<CollectSink> Submit(GenerationRequest request, RequestId* id = nullptr);
};

/// @param frames of 2 MiB for KV.
TestEngine MakeEngine(FakeModelOptions model = {}, EngineOptions options = {}, uint64_t frames = 64,
                      int threads = 2);

/// A prompt of `tokens` pseudo-random byte tokens and a seed of its own.
GenerationRequest MakeRequest(uint64_t seed, int64_t tokens, int64_t max_tokens);

/// What the request gives when it runs alone, with plenty of memory.
std::shared_ptr<CollectSink> RunAlone(GenerationRequest request, FakeModelOptions model = {});

}  // namespace ballast::testing

#endif  // BALLAST_ENGINE_TESTING_HARNESS_H_
