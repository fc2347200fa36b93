// Role: the boundary of src/model: a loaded model computes steps. One file an architecture
// (llama.cc, qwen2.cc, …) and one line in registry.cc.
// Thread: the engine thread only. Invariant: the logits of a row depend on its sequence's tokens
// and the declared settings, never on the other rows of the step or on how rows were grouped
// (docs/arithmetic.md).
#ifndef BALLAST_MODEL_MODEL_H_
#define BALLAST_MODEL_MODEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "kv/kv_cache.h"
#include "weights/source.h"

namespace ballast {

/// Hyper-parameters common to the supported decoders. Filled by the architecture from metadata.
struct ModelConfig {
  std::string architecture;  // general.architecture, as in registry.cc
  std::string name;          // general.name or the file's name
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;
  int64_t context = 0;  // trained context, tokens
  float norm_eps = 0;
  double rope_theta = 0;
  double rope_theta_local = 0;  // gemma3: sliding layers
  double rope_linear_scale = 1;
  int32_t rope_dim = 0;
  RopeKind rope_kind = RopeKind::kNeox;
  int32_t sliding_window = 0;          // 0: none
  std::vector<bool> layer_is_sliding;  // [layers]; empty: none
  float attention_scale = 0;
  float embedding_scale = 1;
  bool tied_embedding = false;
  bool pools_last_token = false;  // the file says that embeddings are the last token's state
};

/// Consecutive rows of a step that belong to one sequence.
struct SequenceSlice {
  KvSequence* kv = nullptr;  // already reserved up to position + rows
  int64_t position = 0;      // of the first row
  int32_t first_row = 0;
  int32_t rows = 0;
};

/// Takes the hidden states of a step.
class HiddenSink {
 public:
  virtual ~HiddenSink() = default;
  /// [batch.hidden_rows.size(), config().hidden] after the final norm; void after the call. Called
  /// once a step, before any logits, and not for abandoned steps.
  virtual void Consume(const float* hidden) = 0;
};

/// One step. Rows of all slices are stacked: decode rows and prefill chunks alike.
struct StepBatch {
  std::span<const TokenId> tokens;        // [rows]
  std::span<const SequenceSlice> slices;  // cover all rows in order
  std::span<const int32_t> logit_rows;    // rows whose logits are wanted, ascending
  /// Once true, Forward may return early: the logits and the slices' new KV are void then, and the
  /// sequences must be dropped. Null: never.
  const std::atomic<bool>* abandon = nullptr;
  /// Rows whose hidden states go to `hidden_sink` (not null then), ascending. A row may be in both
  /// lists.
  std::span<const int32_t> hidden_rows = {};
  HiddenSink* hidden_sink = nullptr;
  bool abandoned() const { return abandon != nullptr && abandon->load(std::memory_order_relaxed); }
};

/// Takes logits block by block, where all of them at once would not fit in memory.
class LogitSink {
 public:
  virtual ~LogitSink() = default;
  /// Logits [rows, vocab] of batch.logit_rows[first …]; void after the call. Blocks come in order.
  virtual void Consume(int64_t first, int64_t rows, const float* logits) = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;

  /// Computes the step: writes KV for every row and logits [logit_rows.size(), vocab] fp32.
  /// REQUIRES: tokens in [0, vocab); at most max_step_rows() rows; KV reserved.
  virtual void Forward(const StepBatch& batch, float* logits) = 0;
  /// The same step; logits go to `sink` in blocks of at most kLogitBlockRows rows.
  virtual void Forward(const StepBatch& batch, LogitSink& sink) = 0;
  static constexpr int64_t kLogitBlockRows = 64;

  virtual int32_t max_step_rows() const = 0;
  /// Returns once the weights lie as they will in the long run: before measuring.
  virtual void SettleMemory() {}
  /// Bytes of packed weights in memory, and of the same tensors in the file.
  virtual uint64_t resident_weight_bytes() const = 0;
  virtual uint64_t logical_weight_bytes() const = 0;
  /// What the file's tensors are made of, most bytes first; empty where that says nothing.
  virtual std::vector<WeightTypeShare> weight_types() const { return {}; }
  /// Weight bytes that one decoded token reads (the roofline's numerator).
  virtual uint64_t decode_weight_bytes() const = 0;
  /// Bytes of activations buffers and of tables as far as they are filled.
  virtual uint64_t activation_bytes() const = 0;
  /// What activation_bytes() may still grow by: keep it free of the budget.
  virtual uint64_t activation_growth_bytes() const { return 0; }
  /// What one token's KV takes: layers and shape for the KV cache.
  virtual KvLayers kv_layers() const = 0;
};

struct ModelOptions {
  Activations activations = Activations::kDefault;
  KvDType kv_dtype = KvDType::kF16;
  int64_t context = 0;           // 0: the model's own
  int32_t max_step_rows = 2048;  // largest chunk of one step
};

}  // namespace ballast

#endif  // BALLAST_MODEL_MODEL_H_
