// Role: the decoder that the supported architectures share: embedding, then per layer attention and
// gated MLP around a residual, final norm and head. Architectures differ in a DecoderSpec.
// Thread: the engine thread; kernels spread over the pool. Invariants: a row's results depend on
// its own sequence only; Forward allocates nothing once its buffers have grown to the
// step.
#ifndef BALLAST_MODEL_DECODER_H_
#define BALLAST_MODEL_DECODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "memory/ledger.h"
#include "model/model.h"
#include "model/registry.h"
#include "model/spec.h"
#include "platform/huge_buffer.h"
#include "tensor/packed.h"
#include "weights/weight_store.h"

namespace ballast {

/// A linear layer: y = W x + bias.
struct Linear {
  PackedMatrix weight;
  const float* bias = nullptr;  // [rows] or null
};

/// Weights of one layer; norms are null where the spec has none.
struct DecoderLayer {
  const float* attention_norm = nullptr;       // [hidden]
  const float* q_norm = nullptr;               // [head_dim]
  const float* k_norm = nullptr;               // [head_dim]
  const float* attention_post_norm = nullptr;  // [hidden]
  const float* ffn_norm = nullptr;             // [hidden]
  const float* ffn_post_norm = nullptr;        // [hidden]
  Linear q, k, v, o, gate, up, down;
  int32_t window = 0;  // 0: sees everything
  const RopeTable* rope = nullptr;
};

/// All weights of a decoder. The store owns the bytes.
struct DecoderWeights {
  PackedMatrix embedding;             // [vocab, hidden]
  PackedMatrix head;                  // [vocab, hidden]; the embedding where it is tied
  const float* final_norm = nullptr;  // [hidden]
  std::vector<float> rope_factors;    // [rope_dim / 2] or empty
  std::vector<DecoderLayer> layers;
  uint64_t bytes_per_token = 0;  // packed bytes that one decoded token reads
};

struct LoadedDecoderWeights {
  std::unique_ptr<WeightStore> store;
  DecoderWeights weights;
};

/// Loads every tensor that the spec needs, under GGUF's names.
/// Errors: those of WeightStore::Load; kUnimplemented for a tensor in the file that the spec does
/// not use, because leaving it out would silently compute another model.
Result<LoadedDecoderWeights> LoadDecoderWeights(const DecoderSpec& spec, const WeightSource& source,
                                                ThreadPool& pool, Ledger* ledger);

class Decoder final : public Model {
 public:
  /// Loads the weights and allocates all buffers. The source is closed afterwards.
  /// Errors: those of LoadDecoderWeights; kInvalidArgument for a context over the model's own.
  static Result<std::unique_ptr<Model>> Create(DecoderSpec spec, LoadContext context);
  ~Decoder() override;

  const ModelConfig& config() const override { return spec_.config; }
  void Forward(const StepBatch& batch, float* logits) override;
  void Forward(const StepBatch& batch, LogitSink& sink) override;
  int32_t max_step_rows() const override { return max_step_rows_; }
  void SettleMemory() override { store_->Settle(); }
  uint64_t resident_weight_bytes() const override { return store_->resident_bytes(); }
  uint64_t logical_weight_bytes() const override { return store_->logical_bytes(); }
  std::vector<WeightTypeShare> weight_types() const override { return store_->types(); }
  uint64_t decode_weight_bytes() const override { return weights_.bytes_per_token; }
  uint64_t activation_bytes() const override { return activation_bytes_; }
  uint64_t activation_growth_bytes() const override;
  KvLayers kv_layers() const override;

 private:
  /// The input of linear layers, [rows, cols], and what makes it: nothing (x and cols only), a norm
  /// of `from`, or the gated activation of `from` and `up`. REQUIRES with `from`: `norm` or `up`.
  struct LinearInput {
    float* x = nullptr;
    int64_t cols = 0;
    const float* from = nullptr;
    const float* norm = nullptr;
    const float* up = nullptr;
  };
  /// Rows of one slice whose attention is wanted, and where their results go.
  struct RowRun {
    int32_t slice = 0;
    int32_t first = 0;  // within the slice
    int32_t rows = 0;
    int64_t out_row = 0;  // of the first row, in att_
  };

  Decoder(DecoderSpec spec, const LoadContext& context, LoadedDecoderWeights loaded);

  Status AllocateBuffers();
  void MakeRopeTables();
  /// Bytes of the RoPE tables for positions [0, positions).
  uint64_t RopeBytes(int64_t positions) const;
  void ChargeRope(int64_t positions);

  // The step (decoder.cc).
  void Layers(const StepBatch& batch);
  void Embed(std::span<const TokenId> tokens);
  void Layer(size_t index, const StepBatch& batch, int64_t rows, int64_t wanted);
  void ProjectQkv(const DecoderLayer& layer, int64_t rows);
  void AttentionOut(const DecoderLayer& layer, int64_t rows);
  void Mlp(const DecoderLayer& layer, int64_t rows);
  void AddNormed(const float* y, const float* norm, int64_t rows);
  void KeepWantedRows();
  void Hidden(const StepBatch& batch);
  void Head(int64_t first, int64_t rows, float* logits);
  void MatmulRounded(std::span<const MatmulTask> tasks, MatmulRole role, const LinearInput& input,
                     int64_t rows);

  // KV and attention of one layer (decoder_attention.cc).
  void PlanRows(const StepBatch& batch);
  void AddRuns(int32_t slice, const SequenceSlice& s, int32_t first, int32_t rows, int64_t out_row,
               std::vector<RowRun>* runs) const;
  void Attend(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs);
  void AttendF16(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs);
  void AttendKv8(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs);
  size_t WriteKv8Group(int32_t layer, const StepBatch& batch, size_t first_slice);
  std::byte* const* WriteKv8Slice(int32_t layer, const SequenceSlice& slice, size_t* scratch_used);
  void SealPending(int32_t layer);
  void SealFilled(int32_t layer, std::span<const SequenceSlice> slices);
  AttentionTask TaskOf(const SequenceSlice& slice, const RowRun& run) const;
  void SetKv8Pages(int32_t layer, const SequenceSlice& slice, const RowRun& run,
                   AttentionTask* task, size_t* used);
  AttentionShape ShapeOf(int32_t layer) const;

  DecoderSpec spec_;
  ModelOptions options_;
  Kernels kernels_;
  Ledger* ledger_;
  std::unique_ptr<WeightStore> store_;
  DecoderWeights weights_;
  std::optional<RopeTable> rope_;
  std::optional<RopeTable> rope_local_;

  int32_t max_step_rows_;
  int64_t qkv_cols_;        // (heads + 2 · kv_heads) · head_dim
  int64_t attention_cols_;  // heads · head_dim
  uint64_t activation_bytes_ = 0;
  int64_t rope_positions_ = 0;  // charged for
  HugeBuffer buffer_;
  // Views into buffer_, [max_step_rows, …].
  float* x_ = nullptr;             // residual stream, [rows, hidden]
  float* h_ = nullptr;             // norm output; attention output; output before a post norm
  float* qkv_ = nullptr;           // [rows, qkv_cols]; later the o projection before its post norm
  float* gate_ = nullptr;          // [rows, ffn]; shares memory with qkv_, which is dead by then
  float* up_ = nullptr;            // [rows, ffn]
  float* block_logits_ = nullptr;  // [kLogitBlockRows, vocab], made on first use of a sink
  HugeBuffer block_buffer_;
  HugeBuffer seal_scratch_;  // kv8: f16 records of pages that fill up within a step
  size_t seal_scratch_records_ = 0;
  RoundedRows rounded_;

  // Plans of the current step; they keep their memory.
  std::vector<int64_t> positions_;
  std::vector<RowRun> all_runs_;
  std::vector<RowRun> wanted_runs_;
  std::vector<int32_t> wanted_rows_;  // logit and hidden rows, ascending
  std::vector<AttentionTask> tasks_;
  std::vector<std::byte*> write_pages_;       // kv8: f16 records to write a slice into
  std::vector<const std::byte*> read_pages_;  // kv8: page lists of tasks inside a filling page
  std::vector<KvDType> read_types_;
  struct Seal {
    KvSequence* kv;
    int64_t page;
    const std::byte* from;
    std::byte* to;
  };
  std::vector<Seal> seals_;
};

}  // namespace ballast

#endif  // BALLAST_MODEL_DECODER_H_
