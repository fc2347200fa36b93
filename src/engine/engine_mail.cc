// The half of EngineCore that other threads call: the mailbox, drain, statistics.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "engine/engine_core.h"
#include "engine/logprobs.h"

namespace ballast {

namespace {

constexpr size_t kMaxTenantBytes = 256;
constexpr int64_t kMaxDeadlineMs = int64_t{365} * 24 * 3600 * 1000;

Error WithReason(Error error, const char* reason) {
  error.reason = reason;
  return error;
}

}  // namespace

EngineCore::EngineCore(EngineOptions options, std::unique_ptr<Model> model, Kernels kernels,
                       std::unique_ptr<const Tokenizer> tokenizer,
                       std::optional<ChatTemplate> chat_template, EngineMemory memory,
                       std::unique_ptr<KvCache> kv)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? options_.clock : &SystemClock()),
      tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      memory_(std::move(memory)),
      model_(std::move(model)),
      kernels_(kernels),
      kv_(std::move(kv)),
      scheduler_({options_.max_sequences}, kv_.get()),
      sizer_(options_.target_step_ms, options_.max_step_ms, model_->max_step_rows()),
      samplers_(static_cast<size_t>(memory_.pool->size())),
      masks_(*tokenizer_, memory_.ledger.get()) {
  const ModelConfig& config = model_->config();
  context_ = options_.context > 0 ? options_.context : config.context;
  // The bound on pages keeps the product in range for models whose layers all slide.
  capacity_tokens_ = std::min<int64_t>(kv_->CapacityPages(), int64_t{1} << 40) * kPageTokens;
  info_.model_id = options_.model_id;
  info_.architecture = config.architecture;
  info_.context = std::min(context_, capacity_tokens_);
  info_.vocab = config.vocab;
  info_.hidden = config.hidden;
  info_.pooling = config.pools_last_token ? Pooling::kLast : Pooling::kMean;
  info_.created_unix = clock_->UnixSeconds();
  info_.isa = IsaName(kernels_.isa());
  info_.activations = options_.activations == Activations::kDefault ? "default" : "precise";
  info_.kv_dtype = options_.kv_dtype == KvDType::kF16 ? "f16" : "kv8";
  info_.threads = memory_.pool->size();
  info_.weight_bytes_resident = model_->resident_weight_bytes();
  info_.weight_bytes_logical = model_->logical_weight_bytes();
  info_.layers = config.layers;
  info_.trained_context = config.context;
  info_.max_sequences = options_.max_sequences;
  for (const WeightTypeShare& share : model_->weight_types()) {
    info_.weight_types.push_back({std::string(DTypeName(share.type)), share.tensors, share.bytes});
    info_.parameters += share.values;
  }
  stats_.kv_capacity_bytes = static_cast<uint64_t>(memory_.arena->capacity_frames()) * kFrameBytes;
  stats_.budget_bytes = memory_.ledger->budget_bytes();
  // Each sampler keeps two rows: scaled logits, and penalised ones or masses.
  memory_.ledger->Charge(
      MemoryOwner::kActivations,
      samplers_.size() * 2 * static_cast<uint64_t>(config.vocab) * sizeof(float));
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ballast-engine");
    Run();
  });
}

EngineCore::~EngineCore() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    cancel_all_ = true;
    stop_ = true;
    abandon_.store(true);
  }
  wake_.notify_all();
  thread_.join();
}

Status EngineCore::Validate(const GenerationRequest& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("prompt: 0 tokens, at least 1 is needed");
  const bool embeds = request.pooling != Pooling::kNone;
  const std::string_view room = embeds ? "" : " and needs room for at least one more";
  const int64_t need = prompt + (embeds ? 0 : 1);
  if (need > context_) {
    return WithReason(InvalidArgument("This model's maximum context length is {} tokens, but the "
                                      "request has {} prompt tokens{}",
                                      context_, prompt, room),
                      "context_length_exceeded");
  }
  if (need > capacity_tokens_) {
    return WithReason(InvalidArgument("The server's memory holds the context of at most {} tokens, "
                                      "but the request has {} prompt tokens{}",
                                      capacity_tokens_, prompt, room),
                      "context_length_exceeded");
  }
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= info_.vocab) {
      return InvalidArgument("prompt: token {} is outside [0, {})", token, info_.vocab);
    }
  }
  RETURN_IF_ERROR(ValidateSampling(request.sampling, info_.vocab));
  RETURN_IF_ERROR(StopMatcher::Validate(request.stop));
  if (request.max_tokens < 0) {
    return InvalidArgument("max_tokens: {} is below 0", request.max_tokens);
  }
  if (request.top_logprobs < -1 || request.top_logprobs > kMaxTopLogprobs) {
    return InvalidArgument("top_logprobs: {} is outside [0, {}]", request.top_logprobs,
                           kMaxTopLogprobs);
  }
  if (request.deadline_ms < 0 || request.deadline_ms > kMaxDeadlineMs) {
    return InvalidArgument("deadline_ms: {} is outside [0, {}]", request.deadline_ms,
                           kMaxDeadlineMs);
  }
  if (request.grammar != nullptr && request.ignore_eos) {
    return InvalidArgument("ignore_eos: a constrained output ends where its grammar ends");
  }
  if (request.tenant.size() > kMaxTenantBytes) {
    return InvalidArgument("tenant: {} bytes, at most {} are allowed", request.tenant.size(),
                           kMaxTenantBytes);
  }
  return OkStatus();
}

Result<RequestId> EngineCore::Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  CHECK(sink != nullptr);
  const auto reject = [this](Error error) {
    rejected_total_.fetch_add(1, std::memory_order_relaxed);
    return error;
  };
  if (Status status = Validate(request); !status.has_value()) return reject(status.error());
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  int64_t limit = info_.context;
  if (request.max_tokens > 0) limit = prompt + std::min(request.max_tokens, limit - prompt);
  const grammar::TokenTrie* trie = request.grammar != nullptr ? &masks_.Prepare() : nullptr;
  const RequestId id(last_id_.fetch_add(1, std::memory_order_relaxed) + 1);
  auto sequence = std::make_unique<Sequence>(id, std::move(request), std::move(sink), *tokenizer_,
                                             limit, NowNs(), trie);
  {
    std::lock_guard lock(mutex_);
    if (draining_) {
      return reject(WithReason(Unavailable("the server is shutting down and takes no new requests"),
                               "draining"));
    }
    const int64_t queued = waiting_ + static_cast<int64_t>(inbox_.size());
    if (queued >= options_.max_queue) {
      return reject(WithReason(
          ResourceExhausted("{} requests are waiting, which is the queue's limit; try again later",
                            queued),
          "queue_full"));
    }
    inbox_.push_back(std::move(sequence));
    ++outstanding_;
    submitted_total_.fetch_add(1, std::memory_order_relaxed);
  }
  wake_.notify_one();
  return id;
}

void EngineCore::Cancel(RequestId id) {
  {
    std::lock_guard lock(mutex_);
    if (outstanding_ == 0) return;
    cancels_.push_back(id);
    if (std::erase(step_ids_, id) > 0 && step_ids_.empty()) abandon_.store(true);
  }
  wake_.notify_one();
}

void EngineCore::Drain(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto idle = [this] { return outstanding_ == 0; };
  const auto timeout =
      std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kMaxDeadlineMs));
  if (idle_.wait_for(lock, timeout, idle)) return;
  cancel_all_ = true;
  abandon_.store(true);
  wake_.notify_one();
  idle_.wait(lock, idle);
}

bool EngineCore::ready() const {
  std::lock_guard lock(mutex_);
  return !draining_;
}

EngineStats EngineCore::Stats() const {
  EngineStats stats;
  {
    std::lock_guard lock(stats_mutex_);
    stats = stats_;
  }
  {
    std::lock_guard lock(mutex_);
    stats.queued = waiting_ + static_cast<int64_t>(inbox_.size());
  }
  stats.submitted_total = submitted_total_.load(std::memory_order_relaxed);
  stats.rejected_total = rejected_total_.load(std::memory_order_relaxed);
  stats.congested_joins_total = memory_.pool->congested_joins();
  for (int owner = 0; owner < kMemoryOwners; ++owner) {
    stats.memory_by_owner[owner] = memory_.ledger->used_bytes(static_cast<MemoryOwner>(owner));
  }
  return stats;
}

// Takes what other threads have left; waits while there is nothing to do. False: time to stop.
bool EngineCore::TakeMail() {
  std::vector<std::unique_ptr<Sequence>> arrived;
  std::vector<RequestId> cancels;
  bool cancel_all = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return stop_ || cancel_all_ || !inbox_.empty() || !cancels_.empty() || !scheduler_.empty();
    });
    if (stop_ && !cancel_all_ && inbox_.empty() && scheduler_.empty()) return false;
    arrived.swap(inbox_);
    waiting_ += static_cast<int64_t>(arrived.size());
    cancels.swap(cancels_);
    cancel_all = std::exchange(cancel_all_, false);
  }
  for (auto& sequence : arrived) scheduler_.Enqueue(std::move(sequence));
  if (cancel_all) cancels = scheduler_.Find([](const Sequence&) { return true; });
  for (const RequestId id : cancels) End(id, FinishReason::kCancelled);
  return true;
}

}  // namespace ballast
