#include "server/testing/fake_engine.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace ballast {

namespace {

constexpr char kChatMl[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' "
    "}}{% endif %}";

void AppendUtf8(std::string& out, int code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// GPT-2's printable names of the 256 bytes, one merge, and ChatML's control tokens.
TokenizerSpec ByteSpec() {
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt2";
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string name;
    AppendUtf8(name, printable ? byte : next++);
    spec.tokens.push_back(name);
    spec.types.push_back(TokenType::kNormal);
  }
  spec.tokens.push_back("he");
  spec.types.push_back(TokenType::kNormal);
  spec.merges.push_back("h e");
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    spec.tokens.emplace_back(name);
    spec.types.push_back(TokenType::kControl);
  }
  spec.eos = static_cast<TokenId>(spec.tokens.size() - 1);
  return spec;
}

int64_t SharedTokens(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t shared = 0;
  while (shared < limit && a[shared] == b[shared]) ++shared;
  return static_cast<int64_t>(shared);
}

}  // namespace

FakeEngine::FakeEngine(Options options) : options_(std::move(options)) {
  auto tokenizer = Tokenizer::Create(ByteSpec());
  CHECK(tokenizer.has_value());
  tokenizer_ = std::move(*tokenizer);
  if (options_.chat_template) {
    auto parsed = ChatTemplate::Parse(kChatMl);
    CHECK(parsed.has_value());
    chat_template_.emplace(std::move(*parsed));
  }
  info_.model_id = options_.model_id;
  info_.architecture = "fake";
  info_.context = options_.context;
  info_.vocab = tokenizer_->vocab_size();
  info_.hidden = 4;
  info_.created_unix = 1'700'000'000;
  info_.isa = "ref";
  info_.activations = "default";
  info_.kv_dtype = "f16";
  info_.threads = 1;
  info_.weight_bytes_resident = 1000;
  info_.weight_bytes_logical = 2000;
  info_.weight_types = {{"Q8_0", 3, 1800}, {"F32", 2, 200}};
  info_.parameters = 1744;
  info_.layers = 2;
  info_.trained_context = 2 * options_.context;
  info_.max_sequences = static_cast<int32_t>(options_.max_running);
  stats_.budget_bytes = 1 << 20;
  stats_.kv_capacity_bytes = 4096;
  for (int i = 0; i < 5; ++i) stats_.memory_by_owner[i] = static_cast<uint64_t>(100 * (i + 1));
  thread_ = std::thread([this] { Loop(); });
}

FakeEngine::~FakeEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& active : active_) active->cancelled = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<RequestId> FakeEngine::Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  const std::lock_guard lock(mutex_);
  if (draining_) {
    Error error = Unavailable("the engine is draining");
    error.reason = "draining";
    return error;
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= options_.context) {
    Error error = InvalidArgument("the prompt has {} tokens; the context is {} tokens", prompt,
                                  options_.context);
    error.reason = "context_length_exceeded";
    return error;
  }
  const auto waiting = std::count_if(active_.begin(), active_.end(),
                                     [](const auto& active) { return !active->running; });
  if (static_cast<size_t>(waiting) >= options_.queue_limit) {
    ++stats_.rejected_total;
    Error error =
        ResourceExhausted("{} requests wait; the limit is {}", waiting, options_.queue_limit);
    error.reason = "queue_full";
    return error;
  }
  auto active = std::make_shared<Active>();
  active->id = RequestId(next_id_++);
  std::string text = options_.reply;
  for (const std::string& stop : request.stop) {
    const size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    text.resize(at);
    active->stop = stop;
  }
  active->reply = tokenizer_->Encode(text);
  for (const auto& seen : seen_prompts_) {
    const int64_t shared = std::min(SharedTokens(seen, request.prompt), prompt - 1);
    active->cached = std::max(active->cached, shared / 64 * 64);
  }
  seen_prompts_.push_back(request.prompt);
  active->prefilled = active->cached;
  active->detokenizer = std::make_unique<StreamingDetokenizer>(*tokenizer_);
  last_ = request;
  active->request = std::move(request);
  active->sink = std::move(sink);
  active_.push_back(active);
  ++stats_.submitted_total;
  changed_.notify_all();
  return active->id;
}

void FakeEngine::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  for (const auto& active : active_) {
    if (active->id == id) active->cancelled = true;
  }
  changed_.notify_all();
}

EngineStats FakeEngine::Stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.running = std::count_if(active_.begin(), active_.end(),
                                [](const auto& active) { return active->running; });
  stats.queued = static_cast<int64_t>(active_.size()) - stats.running;
  return stats;
}

void FakeEngine::Drain(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto idle = [this] { return active_.empty(); };
  if (changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), idle)) return;
  for (const auto& active : active_) active->cancelled = true;
  changed_.notify_all();
  changed_.wait(lock, idle);
}

void FakeEngine::SetHold(Hold hold) {
  const std::lock_guard lock(mutex_);
  hold_ = hold;
  changed_.notify_all();
}

void FakeEngine::FailAll(const Error& error) {
  const std::lock_guard lock(mutex_);
  fail_all_ = error;
  changed_.notify_all();
}

bool FakeEngine::AwaitCancelled(int64_t count, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [&] { return stats_.cancelled_total >= count; });
}

bool FakeEngine::AwaitActive(int64_t count, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [&] { return static_cast<int64_t>(active_.size()) == count; });
}

GenerationRequest FakeEngine::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void FakeEngine::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (active_.empty()) {
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    StepAll(lock);
    // A held engine would spin; a real one works meanwhile.
    const int64_t pause_ms = std::max<int64_t>(options_.step_ms, hold_ == Hold::kNothing ? 0 : 2);
    if (pause_ms > 0) changed_.wait_for(lock, std::chrono::milliseconds(pause_ms));
  }
}

void FakeEngine::StepAll(std::unique_lock<std::mutex>& lock) {
  const auto round = active_;
  const Hold hold = hold_;
  const std::optional<Error> fail = std::exchange(fail_all_, std::nullopt);
  size_t running = 0;
  for (const auto& active : round) {
    if (hold != Hold::kQueue && running < options_.max_running) active->running = true;
    if (active->running) ++running;
    const bool cancelled = active->cancelled;
    const bool admitted = active->running;
    lock.unlock();
    bool ended = true;
    if (fail) {
      active->sink->OnError(*fail);
    } else if (cancelled) {
      Finish(*active, FinishReason::kCancelled);
    } else {
      ended = admitted && Step(*active, hold);
    }
    lock.lock();
    if (!ended) continue;
    (cancelled ? stats_.cancelled_total : stats_.finished_total) += 1;
    std::erase(active_, active);
    changed_.notify_all();
  }
}

bool FakeEngine::Step(Active& active, Hold hold) {
  const auto prompt = static_cast<int64_t>(active.request.prompt.size());
  if (active.prefilled < prompt) {
    // A held prefill still reports where it is.
    if (hold != Hold::kPrefill) {
      active.prefilled = std::min(prompt, active.prefilled + options_.prefill_tokens);
    }
    if (active.request.echo_progress) active.sink->OnProgress(active.prefilled, prompt);
    return false;
  }
  if (active.request.pooling != Pooling::kNone) {
    Finish(active, FinishReason::kStop);
    return true;
  }
  if (hold == Hold::kDecode && active.emitted > 0) return false;
  const auto emitted = static_cast<int64_t>(active.emitted);
  const int64_t room = options_.context - prompt;
  const int64_t limit =
      active.request.max_tokens == 0 ? room : std::min(room, active.request.max_tokens);
  if (!active.request.ignore_eos && active.emitted == active.reply.size()) {
    Finish(active, FinishReason::kStop);
    return true;
  }
  if (emitted >= limit) {
    Finish(active, FinishReason::kLength);
    return true;
  }
  active.sink->OnTokens(MakeEvent(active));
  return false;
}

TokenEvent FakeEngine::MakeEvent(Active& active) {
  TokenEvent event;
  const TokenId token =
      active.reply.empty() ? 0 : active.reply[active.emitted % active.reply.size()];
  ++active.emitted;
  event.tokens.push_back(token);
  event.text = active.detokenizer->Push(token);
  const int32_t top = active.request.top_logprobs;
  if (top < 0) return event;
  event.logprobs.push_back({token, tokenizer_->TokenBytes(token), -0.25f});
  event.top_logprobs.emplace_back();
  for (int32_t i = 0; i < top; ++i) {
    const TokenId other = (token + i) % info_.vocab;
    event.top_logprobs.back().push_back(
        {other, tokenizer_->TokenBytes(other), -0.25f - static_cast<float>(i)});
  }
  return event;
}

void FakeEngine::Finish(Active& active, FinishReason reason) {
  FinishEvent event;
  event.reason = reason;
  if (reason == FinishReason::kStop) event.stop = active.stop;
  event.text = active.detokenizer->Flush();
  event.usage.prompt_tokens = static_cast<int64_t>(active.request.prompt.size());
  event.usage.cached_tokens = active.cached;
  event.usage.completion_tokens = static_cast<int64_t>(active.emitted);
  if (reason == FinishReason::kStop && active.request.pooling != Pooling::kNone) {
    // Length 1; tells prompts and kinds of pooling apart.
    const bool last = active.request.pooling == Pooling::kLast;
    event.embedding = {last ? -0.5f : 0.5f, 0.5f, 0.5f,
                       active.request.prompt[0] % 2 ? 0.5f : -0.5f};
  }
  event.timings.queue_ms = 1;
  event.timings.prompt_ms = 10;
  event.timings.predicted_ms = static_cast<double>(active.emitted);
  active.sink->OnFinish(std::move(event));
}

}  // namespace ballast
