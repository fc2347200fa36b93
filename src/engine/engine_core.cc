// The half of EngineCore that runs on the engine thread: the step loop.
#include "engine/engine_core.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/logprobs.h"

namespace ballast {

namespace {

constexpr double kRateWindowMs = 1000;

class PoolingSink final : public HiddenSink {
 public:
  explicit PoolingSink(std::function<void(const float*)> take) : take_(std::move(take)) {}
  void Consume(const float* hidden) override { take_(hidden); }

 private:
  std::function<void(const float*)> take_;
};

// Sampling a row of fewer logits costs less than waking a thread.
constexpr size_t kParallelVocab = 8192;

double MsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * 1e-6;
}

}  // namespace

void DecodeRate::Add(double ms, int64_t tokens) {
  steps_.emplace_back(ms, tokens);
  ms_ += ms;
  tokens_ += tokens;
  while (steps_.size() > 1 && ms_ - steps_.front().first >= kRateWindowMs) {
    ms_ -= steps_.front().first;
    tokens_ -= steps_.front().second;
    steps_.pop_front();
  }
}

void EngineCore::Run() {
  while (TakeMail()) Step();
}

void EngineCore::ExpireDeadlines() {
  const int64_t now = NowNs();
  const auto expired = [now](const Sequence& s) {
    return s.deadline_ns > 0 && s.deadline_ns <= now;
  };
  for (const RequestId id : scheduler_.Find(expired)) End(id, FinishReason::kDeadline);
}

void EngineCore::Step() {
  ExpireDeadlines();
  const int64_t start = NowNs();
  scheduler_.Admit(start);
  {
    std::lock_guard lock(mutex_);
    waiting_ = scheduler_.waiting_new();
  }
  StepPlan plan;
  scheduler_.PlanDecode(&plan);
  int32_t budget = sizer_.Rows(plan.decode_rows);
  if (options_.max_prefill_rows > 0) budget = std::min(budget, options_.max_prefill_rows);
  scheduler_.PlanPrefill(budget, &plan);
  EndExhausted(plan);
  if (plan.items.empty()) return;
  if (!Compute(plan)) return;  // the mailbox ends them all
  SampleRows();
  Measure(plan, MsBetween(start, NowNs()));
  Deliver(plan);
}

void EngineCore::EndExhausted(const StepPlan& plan) {
  for (const RequestId id : plan.exhausted) {
    const auto same = [id](const Sequence& s) { return s.id() == id && s.generated() == 0; };
    if (scheduler_.Find(same).empty()) {
      End(id, FinishReason::kLength);
    } else {
      End(id, FinishReason::kLength,
          ResourceExhausted("the KV cache of {} tokens cannot hold the prompt", capacity_tokens_));
    }
  }
}

// A long chunk would keep a client that has left waiting in its slot: once nobody in the step is
// wanted any more, the step is abandoned between two layers.
void EngineCore::BeginStep(const StepPlan& plan) {
  std::lock_guard lock(mutex_);
  step_ids_.clear();
  for (const StepItem& item : plan.items) {
    const RequestId id = item.sequence->id();
    if (std::find(cancels_.begin(), cancels_.end(), id) == cancels_.end()) step_ids_.push_back(id);
  }
  abandon_.store(step_ids_.empty() || cancel_all_, std::memory_order_relaxed);
}

bool EngineCore::EndStep() {
  std::lock_guard lock(mutex_);
  step_ids_.clear();
  return !abandon_.load(std::memory_order_relaxed);
}

void EngineCore::AddPooledRows(const StepItem& item, int32_t first_row) {
  for (int32_t i = 0; i < item.rows; ++i) {
    if (!item.sequence->pooler().Needs(item.position + i)) continue;
    step_hidden_rows_.push_back(first_row + i);
    step_pooled_.push_back({item.sequence, item.position + i});
  }
}

bool EngineCore::Compute(const StepPlan& plan) {
  step_tokens_.clear();
  step_slices_.clear();
  step_logit_rows_.clear();
  step_sampled_.clear();
  step_hidden_rows_.clear();
  step_pooled_.clear();
  for (const StepItem& item : plan.items) {
    const int32_t first_row = static_cast<int32_t>(step_tokens_.size());
    step_slices_.push_back({item.sequence->kv.get(), item.position, first_row, item.rows});
    const auto begin = item.sequence->tokens().begin() + item.position;
    step_tokens_.insert(step_tokens_.end(), begin, begin + item.rows);
    AddPooledRows(item, first_row);
    if (!item.wants_logits) continue;
    step_logit_rows_.push_back(first_row + item.rows - 1);
    step_sampled_.push_back(item.sequence);
  }
  const size_t wanted = step_logit_rows_.size() * static_cast<size_t>(info_.vocab);
  if (logits_.size() < wanted) {
    memory_.ledger->Charge(MemoryOwner::kActivations, (wanted - logits_.size()) * sizeof(float));
    logits_ = std::vector<float>();  // freed first: the old values are of no use
    logits_.resize(wanted);
  }
  std::vector<grammar::Matcher*> matchers;
  for (Sequence* sequence : step_sampled_) matchers.push_back(sequence->matcher());
  masks_.Start(std::move(matchers));
  BeginStep(plan);
  PoolingSink sink([this](const float* hidden) {
    const auto cols = static_cast<size_t>(info_.hidden);
    for (size_t i = 0; i < step_pooled_.size(); ++i) {
      step_pooled_[i].sequence->pooler().Add(step_pooled_[i].position, {hidden + i * cols, cols});
    }
  });
  model_->Forward(
      {step_tokens_, step_slices_, step_logit_rows_, &abandon_, step_hidden_rows_, &sink},
      logits_.data());
  masks_.Wait();
  if (!EndStep()) return false;
  for (const StepItem& item : plan.items) {
    Sequence& sequence = *item.sequence;
    sequence.computed = item.position + item.rows;
    if (sequence.kv->committed_tokens() < sequence.computed) sequence.kv->Commit(sequence.computed);
  }
  scheduler_.Charge(plan);
  return true;
}

std::span<const float> EngineCore::LogitsRow(size_t row) const {
  const size_t vocab = static_cast<size_t>(info_.vocab);
  return {logits_.data() + row * vocab, vocab};
}

void EngineCore::SampleRows() {
  const size_t rows = step_sampled_.size();
  step_new_tokens_.resize(rows);
  const auto sample = [this](int64_t task, int worker) {
    const size_t row = static_cast<size_t>(task);
    const Sequence& sequence = *step_sampled_[row];
    step_new_tokens_[row] = samplers_[static_cast<size_t>(worker)].Sample(
        LogitsRow(row), sequence.request().sampling, sequence.counts(), sequence.length(),
        masks_.Mask(row));
  };
  if (rows > 1 && static_cast<size_t>(info_.vocab) >= kParallelVocab) {
    memory_.pool->ParallelFor(static_cast<int64_t>(rows), sample);
  } else {
    for (size_t row = 0; row < rows; ++row) sample(static_cast<int64_t>(row), 0);
  }
}

void EngineCore::Measure(const StepPlan& plan, double ms) {
  sizer_.Record(plan.decode_rows, plan.prefill_rows, ms);
  if (plan.decode_rows > 0) decode_rate_.Add(ms, plan.decode_rows);
  histograms_.step_ms.Observe(ms);
  if (plan.decode_rows > 0) histograms_.decode_rows.Observe(plan.decode_rows);
  if (plan.prefill_rows > 0) histograms_.prefill_rows.Observe(plan.prefill_rows);
  {
    std::lock_guard lock(stats_mutex_);
    ++stats_.steps_total;
    stats_.last_step_ms = ms;
    stats_.prompt_tokens_total += plan.prefill_rows;
    stats_.generated_tokens_total += static_cast<int64_t>(step_sampled_.size());
    stats_.grammar_masks_total = masks_.cost().masks;
    stats_.grammar_mask_ms_total = masks_.cost().busy_ms;
    stats_.grammar_wait_ms_total = masks_.cost().wait_ms;
  }
  PublishStats();
}

void EngineCore::Deliver(const StepPlan& plan) {
  for (const StepItem& item : plan.items) {
    Sequence& sequence = *item.sequence;
    const int64_t done = std::min(sequence.computed, sequence.prompt_tokens());
    if (item.decode || !sequence.request().echo_progress || done <= sequence.reported_progress) {
      continue;
    }
    sequence.reported_progress = done;
    sequence.sink().OnProgress(done, sequence.prompt_tokens());
  }
  for (size_t row = 0; row < step_sampled_.size(); ++row) {
    DeliverToken(*step_sampled_[row], step_new_tokens_[row], LogitsRow(row));
  }
  for (const StepItem& item : plan.items) {
    if (item.decode || item.wants_logits || !item.sequence->embeds()) continue;
    if (item.sequence->computed == item.sequence->length()) {
      End(item.sequence->id(), FinishReason::kStop);
    }
  }
}

void EngineCore::DeliverToken(Sequence& sequence, TokenId token, std::span<const float> logits) {
  const int64_t now = NowNs();
  if (sequence.first_token_ns == 0) {
    sequence.first_token_ns = now;
    histograms_.queue_ms.Observe(MsBetween(sequence.submitted_ns, sequence.admitted_ns));
    histograms_.ttft_ms.Observe(MsBetween(sequence.submitted_ns, now));
  } else {
    histograms_.inter_token_ms.Observe(MsBetween(sequence.last_token_ns, now));
  }
  sequence.last_token_ns = now;
  Sequence::Accepted accepted = sequence.Accept(token);
  if (accepted.misfit) {
    End(sequence.id(), FinishReason::kStop, Internal("no token of the model fits the grammar"));
    return;
  }
  if (accepted.emit) {
    TokenEvent event;
    event.text = std::move(accepted.text);
    event.tokens.push_back(token);
    if (const int32_t top = sequence.request().top_logprobs; top >= 0) {
      LogprobRow row = ComputeLogprobs(kernels_, *tokenizer_, logits, token, top);
      event.logprobs.push_back(std::move(row.chosen));
      event.top_logprobs.push_back(std::move(row.top));
    }
    sequence.sink().OnTokens(std::move(event));
  }
  if (accepted.finished) End(sequence.id(), *accepted.finished);
}

// Ends a request, wherever it is. Its pages are free and the statistics are right before the sink
// hears of it.
void EngineCore::End(RequestId id, FinishReason reason, std::optional<Error> error) {
  std::unique_ptr<Sequence> sequence = scheduler_.Remove(id);
  if (sequence == nullptr) return;
  FinishEvent event;
  event.text = sequence->TakeRest();
  event.stop = sequence->matched_stop();
  event.reason = event.stop.empty() ? reason : FinishReason::kStop;
  event.usage = sequence->usage();
  if (reason == FinishReason::kStop) event.embedding = sequence->pooler().Take();
  const int64_t now = NowNs();
  const bool admitted = sequence->admitted_ns > 0;
  event.timings.queue_ms =
      MsBetween(sequence->submitted_ns, admitted ? sequence->admitted_ns : now);
  if (sequence->first_token_ns > 0) {
    event.timings.prompt_ms = MsBetween(sequence->admitted_ns, sequence->first_token_ns);
    event.timings.predicted_ms = MsBetween(sequence->first_token_ns, sequence->last_token_ns);
  } else if (admitted) {
    event.timings.prompt_ms = MsBetween(sequence->admitted_ns, now);
  }
  event.timings.preemptions = sequence->preemptions;
  {
    std::lock_guard lock(stats_mutex_);
    ++stats_.finished_total;
    if (event.reason == FinishReason::kCancelled) ++stats_.cancelled_total;
  }
  PublishStats();
  if (error) {
    sequence->sink().OnError(std::move(*error));
  } else {
    sequence->sink().OnFinish(std::move(event));
  }
  sequence.reset();
  std::lock_guard lock(mutex_);
  waiting_ = scheduler_.waiting_new();
  if (--outstanding_ == 0) idle_.notify_all();
}

void EngineCore::PublishStats() {
  std::lock_guard lock(stats_mutex_);
  stats_.running = scheduler_.admitted();
  stats_.preempted_total = scheduler_.preempted_total();
  stats_.decode_tokens_per_s = decode_rate_.tokens_per_s();
  stats_.kv_used_bytes = kv_->bytes_in_use();
}

}  // namespace ballast
