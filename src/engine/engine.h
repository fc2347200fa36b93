// Role: the engine: one thread that owns sequences, KV and the scheduler, and runs the model step
// by step. Implements EngineClient. Thread: EngineClient's methods may be called from any thread
// (also from sinks, except Drain and the destructor). Sinks are called on the engine thread and
// never under a lock. Invariants: every accepted request gets exactly one final event; its pages
// are free before that event; an idle engine sleeps.
#ifndef BALLAST_ENGINE_ENGINE_H_
#define BALLAST_ENGINE_ENGINE_H_

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/client.h"
#include "engine/histograms.h"
#include "kernels/kernels.h"
#include "kv/kv_cache.h"
#include "memory/frame_arena.h"
#include "memory/ledger.h"
#include "model/model.h"
#include "platform/thread_pool.h"
#include "text/tokenizer.h"

namespace ballast {

struct EngineOptions {
  std::string model_id;
  int64_t context = 0;  // tokens a request may use; 0: the model's
  KvDType kv_dtype = KvDType::kF16;
  Activations activations = Activations::kDefault;  // for info() only; the model has it built in
  int32_t max_queue = 256;                          // requests waiting for admission
  int32_t max_sequences = 32;                       // admitted at a time
  double target_step_ms = 50;                       // of a step while anything streams
  double max_step_ms = 200;      // of a step while nothing streams: bounds the delay of Cancel
  int32_t max_prefill_rows = 0;  // prompt rows of one step; 0: the model's limit, sized by time
  const Clock* clock = nullptr;  // null: SystemClock()
};

/// What the model and its KV live in. Owned by the engine, destroyed in the right order. The pool
/// is the one that `kernels` and the model use.
struct EngineMemory {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<FrameArena> arena;
};

class EngineCore;

class Engine final : public EngineClient {
 public:
  /// Creates the KV cache and starts the engine thread. Every tokenizer id must be in the model's
  /// vocabulary. Errors: kInvalidArgument naming the option, value and limit; those of
  /// KvCache::Create; kResourceExhausted when the arena cannot hold one page.
  static Result<std::unique_ptr<Engine>> Create(EngineOptions options, std::unique_ptr<Model> model,
                                                Kernels kernels,
                                                std::unique_ptr<const Tokenizer> tokenizer,
                                                std::optional<ChatTemplate> chat_template,
                                                EngineMemory memory);
  /// Cancels what is left (their final events are delivered) and joins the thread.
  ~Engine() override;

  Result<RequestId> Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  void Cancel(RequestId id) override;
  const EngineInfo& info() const override;
  const Tokenizer& tokenizer() const override;
  const ChatTemplate* chat_template() const override;
  EngineStats Stats() const override;
  const EngineHistograms* histograms() const override;
  /// Not from a sink.
  void Drain(int64_t timeout_ms) override;
  bool ready() const override;

 private:
  explicit Engine(std::unique_ptr<EngineCore> core);
  std::unique_ptr<EngineCore> core_;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_ENGINE_H_
