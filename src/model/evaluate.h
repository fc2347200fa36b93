// Role: teacher-forced evaluation behind `ballast eval` and the exactness tests: negative
// log-likelihood, and one hash over all logits, under any schedule.
// Thread: the engine thread. Invariant: the hash depends on tokens, model and declared settings;
// the schedule (mode, prefill_chunk, batch, neighbours) must not change it.
#ifndef BALLAST_MODEL_EVALUATE_H_
#define BALLAST_MODEL_EVALUATE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "memory/ledger.h"
#include "model/model.h"

namespace ballast {

/// prefill: chunks of many rows; decode: one row a step, as in generation.
enum class EvalMode : uint8_t { kPrefill, kDecode };

/// Errors: kInvalidArgument naming the word and the allowed ones.
Result<EvalMode> ParseEvalMode(std::string_view name);

struct EvalOptions {
  int64_t context = 512;  // tokens a chunk; each starts with an empty cache
  int64_t chunks = 0;     // 0: as many whole ones as the text has
  EvalMode mode = EvalMode::kPrefill;
  int64_t prefill_chunk = 512;       // rows a step of a sequence
  int32_t batch = 1;                 // the same text as so many sequences that step together
  KvDType kv_dtype = KvDType::kF16;  // as the model was loaded
  std::string save_logits;           // "": none; else a .npy of float32 [positions, vocab]
  /// Other sequences that step along, one a span, with chunks of different sizes; their logits are
  /// computed and thrown away. They must not change anything.
  std::vector<std::vector<TokenId>> neighbours;
};

struct EvalResult {
  int64_t positions = 0;         // rows of logits: chunks · context
  int64_t predicted_tokens = 0;  // those with a next token in their chunk
  double nll_sum = 0;            // nats
  double nll_mean = 0;           // over predicted_tokens
  double perplexity = 0;         // exp(nll_mean)
  std::string logits_sha256;     // over the fp32 logits (little endian) of all positions in order
  /// True if every sequence of the batch had the same logits, bit for bit.
  bool batch_identical = true;
};

/// Sees the logits of the first sequence, position by position. Used by tests.
class EvalObserver {
 public:
  virtual ~EvalObserver() = default;
  virtual void OnLogits(int64_t position, std::span<const float> logits) = 0;
};

/// Cuts `tokens` into chunks of options.context (the last one may be shorter only when it is the
/// only one) and evaluates them in order. The caller adds BOS where the model wants it.
/// Errors: kInvalidArgument naming the option, its value and the limit; kResourceExhausted when the
/// KV does not fit the ledger's budget; kUnknown when the .npy cannot be written.
Result<EvalResult> Evaluate(Model& model, const Kernels& kernels, Ledger* ledger,
                            std::span<const TokenId> tokens, const EvalOptions& options,
                            EvalObserver* observer = nullptr);

}  // namespace ballast

#endif  // BALLAST_MODEL_EVALUATE_H_
