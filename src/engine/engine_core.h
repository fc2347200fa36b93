// Role: the engine's inside: the mailbox that other threads write to, and the loop of the engine
// thread that empties it and runs steps.
// Thread: members are grouped by who touches them. Locks are held for a few moves only, never while
// a sink or the model is called.
#ifndef BALLAST_ENGINE_ENGINE_CORE_H_
#define BALLAST_ENGINE_ENGINE_CORE_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engine/chunk_sizer.h"
#include "engine/engine.h"
#include "engine/grammar_masks.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "text/chat_template.h"

namespace ballast {

/// Tokens per second over the last second of decoding (time without decoding does not count).
class DecodeRate {
 public:
  void Add(double ms, int64_t tokens);
  double tokens_per_s() const { return ms_ > 0 ? static_cast<double>(tokens_) * 1000 / ms_ : 0; }

 private:
  std::deque<std::pair<double, int64_t>> steps_;
  double ms_ = 0;
  int64_t tokens_ = 0;
};

class EngineCore {
 public:
  EngineCore(EngineOptions options, std::unique_ptr<Model> model, Kernels kernels,
             std::unique_ptr<const Tokenizer> tokenizer, std::optional<ChatTemplate> chat_template,
             EngineMemory memory, std::unique_ptr<KvCache> kv);
  ~EngineCore();

  // Any thread.
  Result<RequestId> Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink);
  void Cancel(RequestId id);
  void Drain(int64_t timeout_ms);
  bool ready() const;
  EngineStats Stats() const;
  const EngineInfo& info() const { return info_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate* chat_template() const { return chat_template_ ? &*chat_template_ : nullptr; }
  const EngineHistograms& histograms() const { return histograms_; }

 private:
  Status Validate(const GenerationRequest& request) const;
  int64_t NowNs() const { return clock_->NowNs(); }

  // The engine thread.
  void Run();
  bool TakeMail();
  void ExpireDeadlines();
  void Step();
  void EndExhausted(const StepPlan& plan);
  /// False: everybody in the step has been cancelled meanwhile; nothing of it counts.
  bool Compute(const StepPlan& plan);
  void AddPooledRows(const StepItem& item, int32_t first_row);
  void BeginStep(const StepPlan& plan);
  bool EndStep();
  void SampleRows();
  void Deliver(const StepPlan& plan);
  void DeliverToken(Sequence& sequence, TokenId token, std::span<const float> logits);
  void Measure(const StepPlan& plan, double ms);
  void End(RequestId id, FinishReason reason, std::optional<Error> error = std::nullopt);
  void PublishStats();
  std::span<const float> LogitsRow(size_t row) const;

  // Immutable after construction.
  const EngineOptions options_;
  const Clock* clock_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  EngineInfo info_;
  int64_t context_ = 0;          // tokens of one request, by the model
  int64_t capacity_tokens_ = 0;  // tokens of one request, by the KV cache
  EngineHistograms histograms_;

  // The engine thread only.
  EngineMemory memory_;
  std::unique_ptr<Model> model_;
  Kernels kernels_;
  std::unique_ptr<KvCache> kv_;
  Scheduler scheduler_;
  ChunkSizer sizer_;
  DecodeRate decode_rate_;
  std::vector<Sampler> samplers_;  // [pool threads]
  GrammarMasks masks_;             // Prepare: any thread
  std::vector<TokenId> step_tokens_;
  std::vector<SequenceSlice> step_slices_;
  std::vector<int32_t> step_logit_rows_;
  std::vector<Sequence*> step_sampled_;  // [logit rows]
  std::vector<TokenId> step_new_tokens_;
  std::vector<float> logits_;  // [logit rows, vocab]
  std::vector<int32_t> step_hidden_rows_;
  struct PooledRow {
    Sequence* sequence;
    int64_t position;
  };
  std::vector<PooledRow> step_pooled_;  // [hidden rows]

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // the engine thread waits for mail
  std::condition_variable idle_;  // Drain waits for outstanding_ == 0
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::vector<RequestId> cancels_;
  std::vector<RequestId> step_ids_;  // in the running step and not cancelled
  int64_t waiting_ = 0;              // in the scheduler, not yet admitted
  int64_t outstanding_ = 0;          // accepted, final event not yet delivered
  bool draining_ = false;
  bool cancel_all_ = false;
  bool stop_ = false;

  mutable std::mutex stats_mutex_;
  EngineStats stats_;  // guarded by stats_mutex_; written by the engine thread
  std::atomic<int64_t> submitted_total_{0};
  std::atomic<int64_t> rejected_total_{0};
  std::atomic<uint64_t> last_id_{0};
  // Stops the running step between layers; written under mutex_, read by the model.
  std::atomic<bool> abandon_{false};

  std::thread thread_;  // last: starts when all else is ready
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_ENGINE_CORE_H_
