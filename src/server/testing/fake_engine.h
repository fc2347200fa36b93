// Role: an EngineClient without a model, for tests of the server: answers a fixed text token by
// token and can be held at any stage. Never part of the program. Thread: as EngineClient demands;
// one thread of its own plays the engine thread.
#ifndef BALLAST_SERVER_TESTING_FAKE_ENGINE_H_
#define BALLAST_SERVER_TESTING_FAKE_ENGINE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/client.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ballast {

class FakeEngine final : public EngineClient {
 public:
  /// The stage that no request passes.
  enum class Hold { kNothing, kQueue, kPrefill, kDecode };
  struct Options {
    std::string model_id = "fake-model";
    std::string reply = "Grüße aus dem Testmodell.";
    bool chat_template = true;
    int64_t context = 4096;
    size_t queue_limit = 64;
    size_t max_running = 8;
    int64_t prefill_tokens = 256;  // a step
    int64_t step_ms = 0;
  };

  explicit FakeEngine(Options options);
  ~FakeEngine() override;

  Result<RequestId> Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  void Cancel(RequestId id) override;
  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ChatTemplate* chat_template() const override {
    return chat_template_ ? &*chat_template_ : nullptr;
  }
  EngineStats Stats() const override;
  void Drain(int64_t timeout_ms) override;
  bool ready() const override { return true; }

  void SetHold(Hold hold);
  /// Fails every running request with `error`.
  void FailAll(const Error& error);
  /// Waits until `count` requests in all were cancelled. False after `timeout_ms`.
  bool AwaitCancelled(int64_t count, int64_t timeout_ms = 5000);
  /// Waits until `count` requests are queued or running now.
  bool AwaitActive(int64_t count, int64_t timeout_ms = 5000);
  /// The request submitted last.
  GenerationRequest last() const;

 private:
  struct Active {
    RequestId id;
    GenerationRequest request;
    std::shared_ptr<RequestSink> sink;
    std::vector<TokenId> reply;
    std::string stop;  // the stop string that cuts the reply
    std::unique_ptr<StreamingDetokenizer> detokenizer;
    bool running = false;
    bool cancelled = false;
    int64_t prefilled = 0;
    int64_t cached = 0;
    size_t emitted = 0;
  };
  void Loop();
  void StepAll(std::unique_lock<std::mutex>& lock);
  /// One step of one request; true when it has ended. Without the mutex.
  bool Step(Active& active, Hold hold);
  TokenEvent MakeEvent(Active& active);
  void Finish(Active& active, FinishReason reason);

  const Options options_;
  EngineInfo info_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Active>> active_;
  std::vector<std::vector<TokenId>> seen_prompts_;
  GenerationRequest last_;
  Hold hold_ = Hold::kNothing;
  std::optional<Error> fail_all_;
  uint64_t next_id_ = 1;
  EngineStats stats_;
  bool draining_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_TESTING_FAKE_ENGINE_H_
