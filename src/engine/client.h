// Role: the engine's boundary: what servers, agents and commands may know of it.
// Thread: every method may be called from any thread. Events of one request are delivered in order,
// from the engine thread, to that request's sink; a sink must return quickly and never block.
// Invariants: exactly one final event (OnFinish or OnError) ends a request, also after Cancel,
// deadline, drain or shutdown; one request never breaks another.
#ifndef BALLAST_ENGINE_CLIENT_H_
#define BALLAST_ENGINE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace ballast {

class Tokenizer;
class ChatTemplate;
struct EngineHistograms;
namespace grammar {
class Grammar;
}

/// How the next token is chosen. Defaults are the OpenAI API's: temperature 1, top-p 1.
struct SamplingParams {
  float temperature = 1.0f;                           // [0, 2]; 0 is greedy
  int32_t top_k = 0;                                  // 0: off
  float top_p = 1.0f;                                 // (0, 1]
  float min_p = 0.0f;                                 // [0, 1]
  float repetition_penalty = 1.0f;                    // (0, 2]; over prompt and output
  float presence_penalty = 0.0f;                      // [-2, 2]; over the output
  float frequency_penalty = 0.0f;                     // [-2, 2]; over the output
  std::vector<std::pair<TokenId, float>> logit_bias;  // added before everything else
  uint64_t seed = 0;
};

/// Checks every range. Errors: kInvalidArgument naming the API field, value and limits.
Status ValidateSampling(const SamplingParams& params, int32_t vocab);

/// What an embedding is made of: the mean of the prompt's hidden states or the last one.
enum class Pooling { kNone, kMean, kLast };

inline constexpr size_t kMaxStops = 16;        // stop strings of a request
inline constexpr size_t kMaxStopBytes = 1024;  // of one of them

struct GenerationRequest {
  std::vector<TokenId> prompt;  // not empty; BOS already added by the caller
  SamplingParams sampling;
  int64_t max_tokens = 0;         // 0: until the context is full
  std::vector<std::string> stop;  // matched on text, across token borders; not emitted
  bool ignore_eos = false;
  int32_t top_logprobs = -1;   // −1: none, 0: the chosen token only, up to 20
  bool echo_progress = false;  // report prefill progress
  int64_t deadline_ms = 0;     // from Submit; 0: none
  std::string tenant;          // fairness; "" is the default tenant
  std::string cache_salt;      // 32 bytes, or empty: what prompts of this tenant are cached under
  /// What the output must look like (text/grammar/grammar.h); null: anything. Tokens that do not
  /// fit are ruled out before everything else. The request ends with kStop once nothing can follow;
  /// before that, an end token fits only where the text may end. Not together with ignore_eos.
  /// Log probabilities stay those of the model, before the mask.
  std::shared_ptr<const grammar::Grammar> grammar;
  /// Other than kNone: nothing is generated; the end carries the prompt's embedding. Every row's
  /// hidden state is computed, so a cached prefix is of no use to kMean.
  Pooling pooling = Pooling::kNone;
};

struct TokenLogprob {
  TokenId token = 0;
  std::string bytes;  // raw bytes of the token
  float logprob = 0;
};

/// One or more tokens' worth of text. `text` is whole UTF-8 and may be empty.
struct TokenEvent {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;                   // per token when asked for
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // per token
};

enum class FinishReason { kStop, kLength, kCancelled, kDeadline };

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
};

/// llama.cpp-compatible names appear in the API; times in milliseconds.
struct Timings {
  double queue_ms = 0;
  double prompt_ms = 0;     // from admission to the first token
  double predicted_ms = 0;  // from the first token to the last
  int32_t preemptions = 0;
};

struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string text;  // what the detokenizer still held back
  std::string stop;  // the stop string that matched, if one did
  Usage usage;
  Timings timings;
  /// With pooling: final-norm hidden states, pooled and scaled to length 1, [info().hidden]. The
  /// same bits whatever the batch and the chunks.
  std::vector<float> embedding = {};
};

/// Receives one request's events. Kept alive by the engine until the final event.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void OnProgress(int64_t prompt_tokens_done, int64_t prompt_tokens) = 0;
  virtual void OnTokens(TokenEvent event) = 0;
  virtual void OnFinish(FinishEvent event) = 0;
  virtual void OnError(Error error) = 0;
};

/// How many of a model's tensors have one type, and their bytes in the file.
struct WeightTypeInfo {
  std::string type;  // as the file format spells it: "Q4_K"
  int64_t tensors = 0;
  uint64_t bytes = 0;
};

/// What a surface needs to know about the loaded model.
struct EngineInfo {
  std::string model_id;  // alias or catalogue name
  std::string architecture;
  int64_t context = 0;  // tokens a request may use
  int32_t vocab = 0;
  int32_t hidden = 0;                // dimensions of an embedding
  Pooling pooling = Pooling::kMean;  // of embeddings, unless a request says
  int64_t created_unix = 0;
  std::string isa;
  std::string activations;  // "default" or "precise"
  std::string kv_dtype;     // "f16" or "kv8"
  int32_t threads = 0;
  uint64_t weight_bytes_resident = 0;
  uint64_t weight_bytes_logical = 0;
  std::vector<WeightTypeInfo> weight_types;  // most bytes first
  int32_t layers = 0;
  int64_t trained_context = 0;  // tokens
  uint64_t parameters = 0;
  int32_t max_sequences = 0;  // admitted at the same time
};

/// A consistent snapshot for /metrics and the console.
struct EngineStats {
  int64_t queued = 0;
  int64_t running = 0;  // admitted sequences
  int64_t submitted_total = 0;
  int64_t finished_total = 0;
  int64_t rejected_total = 0;
  int64_t cancelled_total = 0;
  int64_t preempted_total = 0;
  int64_t prompt_tokens_total = 0;
  int64_t generated_tokens_total = 0;
  int64_t steps_total = 0;
  int64_t congested_joins_total = 0;
  int64_t grammar_masks_total = 0;
  double grammar_mask_ms_total = 0;  // beside the kernels
  double grammar_wait_ms_total = 0;  // that steps waited for masks
  double last_step_ms = 0;
  double decode_tokens_per_s = 0;  // over the last second of decoding
  uint64_t kv_used_bytes = 0;
  uint64_t kv_capacity_bytes = 0;
  uint64_t memory_by_owner[5] = {};  // index: MemoryOwner
  uint64_t budget_bytes = 0;
};

class EngineClient {
 public:
  virtual ~EngineClient() = default;

  /// Queues a request. Errors, at once and without calling the sink: kInvalidArgument (bad field;
  /// reason "context_length_exceeded" with both numbers), kResourceExhausted (queue full; reason
  /// "queue_full"), kUnavailable (draining; reason "draining").
  virtual Result<RequestId> Submit(GenerationRequest request,
                                   std::shared_ptr<RequestSink> sink) = 0;
  /// Stops a request at the next step border (≤ one step). Unknown ids are ignored.
  virtual void Cancel(RequestId id) = 0;

  virtual const EngineInfo& info() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  /// Null when the model has no chat template.
  virtual const ChatTemplate* chat_template() const = 0;
  virtual EngineStats Stats() const = 0;
  /// Distributions for /metrics (engine/histograms.h), or null when not measured.
  virtual const EngineHistograms* histograms() const { return nullptr; }

  /// Refuses new requests from now on; running ones finish. Returns when idle or after
  /// `timeout_ms`, when the rest is cancelled.
  virtual void Drain(int64_t timeout_ms) = 0;
  virtual bool ready() const = 0;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_CLIENT_H_
