#include "engine/engine.h"

#include <utility>

#include "engine/engine_core.h"
#include "text/chat_template.h"

namespace ballast {

Result<std::unique_ptr<Engine>> Engine::Create(EngineOptions options, std::unique_ptr<Model> model,
                                               Kernels kernels,
                                               std::unique_ptr<const Tokenizer> tokenizer,
                                               std::optional<ChatTemplate> chat_template,
                                               EngineMemory memory) {
  const ModelConfig& config = model->config();
  if (options.max_queue < 1 || options.max_queue > 100'000) {
    return InvalidArgument("max_queue: {} is outside [1, 100000]", options.max_queue);
  }
  if (options.max_sequences < 1 || options.max_sequences > 1024 ||
      options.max_sequences > model->max_step_rows()) {
    return InvalidArgument("max_sequences: {} is outside [1, {}]", options.max_sequences,
                           std::min(1024, model->max_step_rows()));
  }
  if (!(options.target_step_ms > 0) || !(options.max_step_ms > 0)) {
    return InvalidArgument("target_step_ms, max_step_ms: {}, {} must be above 0",
                           options.target_step_ms, options.max_step_ms);
  }
  if (model->max_step_rows() < kChunkTokens || options.max_prefill_rows < 0 ||
      (options.max_prefill_rows > 0 && options.max_prefill_rows < kChunkTokens)) {
    return InvalidArgument("max_step_rows, max_prefill_rows: {}, {} must be at least {}",
                           model->max_step_rows(), options.max_prefill_rows, kChunkTokens);
  }
  if (options.context < 0 || options.context > (int64_t{1} << 31)) {
    return InvalidArgument("context: {} is outside [0, 2^31]", options.context);
  }
  if (tokenizer->vocab_size() > config.vocab) {
    return InvalidArgument("the tokenizer has {} tokens, but the model's vocabulary only {}",
                           tokenizer->vocab_size(), config.vocab);
  }
  ASSIGN_OR_RETURN(auto kv,
                   KvCache::Create(model->kv_layers(), options.kv_dtype, memory.arena.get()));
  if (kv->CapacityPages() < 1) {
    return ResourceExhausted("the KV memory of {} bytes does not hold one page of {} tokens",
                             static_cast<uint64_t>(memory.arena->capacity_frames()) * kFrameBytes,
                             kPageTokens);
  }
  return std::unique_ptr<Engine>(new Engine(std::make_unique<EngineCore>(
      std::move(options), std::move(model), kernels, std::move(tokenizer), std::move(chat_template),
      std::move(memory), std::move(kv))));
}

Engine::Engine(std::unique_ptr<EngineCore> core) : core_(std::move(core)) {}
Engine::~Engine() = default;

Result<RequestId> Engine::Submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  return core_->Submit(std::move(request), std::move(sink));
}
void Engine::Cancel(RequestId id) { core_->Cancel(id); }
const EngineInfo& Engine::info() const { return core_->info(); }
const Tokenizer& Engine::tokenizer() const { return core_->tokenizer(); }
const ChatTemplate* Engine::chat_template() const { return core_->chat_template(); }
EngineStats Engine::Stats() const { return core_->Stats(); }
const EngineHistograms* Engine::histograms() const { return &core_->histograms(); }
void Engine::Drain(int64_t timeout_ms) { core_->Drain(timeout_ms); }
bool Engine::ready() const { return core_->ready(); }

}  // namespace ballast
