// Role: the boundary of src/kernels: what models call. Each operation is a written sequence of IEEE
// operations (docs/arithmetic.md); every body (ref, avx2, avx512, amx) keeps it bit for bit.
// Thread: operations are called by the engine thread and spread their rows over the pool; results
// do not depend on the number of threads, on the batch or on how rows are grouped into calls.
#ifndef BALLAST_KERNELS_KERNELS_H_
#define BALLAST_KERNELS_KERNELS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/cpu.h"
#include "platform/thread_pool.h"
#include "tensor/kv_layout.h"
#include "tensor/packed.h"

namespace ballast {

struct KernelTable;  // kernels/table.h: the bodies of one ISA

/// How the input of a linear layer is rounded. A property of (weight type, role, setting), never of
/// the ISA, the batch or the thread count.
enum class ActRounding : uint8_t {
  kFloat = 0,  // float weights: no rounding
  kInt8 = 1,   // one fp32 scale per 32 inputs, |a| ≤ 127
  kInt12 = 2,  // one scale per 256 inputs, a = 16h + l, |a| ≤ 2039
  kInt16 = 3,  // one scale per 256 inputs, a = 256h + l, |a| ≤ 32639
};

/// --activations: part of every fingerprint.
enum class Activations : uint8_t { kDefault = 0, kPrecise = 1 };

/// What a linear layer is for; decides its rounding under kDefault.
enum class MatmulRole : uint8_t { kQkv, kAttentionOut, kGateUp, kDown, kHead };

/// The rounding policy, one table (docs/arithmetic.md, "Activations").
ActRounding ChooseRounding(DType weight, MatmulRole role, Activations setting);

/// Rounded inputs of linear layers: [rows, cols]. The inner layout belongs to the kernels.
/// Reused between calls: Resize never shrinks its memory.
class RoundedRows {
 public:
  RoundedRows();
  ~RoundedRows();
  RoundedRows(RoundedRows&&) noexcept;
  RoundedRows& operator=(RoundedRows&&) noexcept;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// One linear layer inside a fused call: y[m, r] = (W · x[m])[r] + bias[r] + y_add[m, r].
struct MatmulTask {
  const PackedMatrix* weight = nullptr;
  const float* bias = nullptr;      // [rows] or null
  const float* residual = nullptr;  // [m, rows] with stride y_stride, or null; may equal y
  float* y = nullptr;               // [m, rows], row stride y_stride
  int64_t y_stride = 0;             // in floats
};

/// Attention over paged KV for the rows of one sequence.
/// Query row i stands at absolute position first_position + i and sees keys
/// [max(0, p − window + 1), p]. `pages[j]` is this layer's record of tokens [64j, 64j + 64);
/// pages wholly outside every row's window may be null.
struct AttentionTask {
  const float* q = nullptr;  // [rows, heads · head_dim], row stride q_stride; roped, not scaled
  int64_t q_stride = 0;      // in floats
  float* out = nullptr;      // [rows, heads · head_dim], row stride out_stride
  int64_t out_stride = 0;
  int32_t rows = 0;
  int64_t first_position = 0;
  const std::byte* const* pages = nullptr;
  const KvDType* page_types = nullptr;  // null: all f16
};

struct AttentionShape {
  int32_t heads = 0;
  KvShape kv;
  float scale = 0;     // multiplied into q before the dot
  int32_t window = 0;  // 0: unlimited
  float softcap = 0;   // 0: none (reserved)
};

/// RoPE variants. kNeox rotates (i, i + d/2); kNorm rotates (2i, 2i + 1).
enum class RopeKind : uint8_t { kNeox, kNorm };

/// cos and sin of every (position, frequency), by our own polynomials in double. Computed by need
/// in blocks of 64 positions: the whole table of a long context would cost 100 ms and 32 MB at
/// start. Thread: Prepare by the engine thread outside parallel sections; Row by any thread in
/// between.
class RopeTable {
 public:
  /// @param freq_factors [rotary_dim / 2] divisors (llama3-style scaling), or empty.
  RopeTable(int32_t rotary_dim, double theta, double linear_scale,
            std::span<const float> freq_factors, int64_t max_positions);
  /// Makes Row valid for `position`. REQUIRES: 0 ≤ position < max_positions.
  void Prepare(int64_t position) const {
    const auto block = static_cast<size_t>(position / kBlockPositions);
    if (position < 0 || block >= blocks_.size() || blocks_[block] == nullptr) Fill(position);
  }
  /// cos at [0, rotary_dim/2), sin at [rotary_dim/2, rotary_dim). REQUIRES: Prepare(position).
  const float* Row(int64_t position) const {
    return blocks_[static_cast<size_t>(position / kBlockPositions)].get() +
           position % kBlockPositions * rotary_dim_;
  }
  int32_t rotary_dim() const { return rotary_dim_; }

 private:
  static constexpr int64_t kBlockPositions = 64;

  void Fill(int64_t position) const;

  int32_t rotary_dim_;
  int64_t max_positions_;
  std::vector<double> frequencies_;                       // [rotary_dim / 2]
  mutable std::vector<std::unique_ptr<float[]>> blocks_;  // null: not computed yet
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

/// All operations on one ISA and one pool. Cheap to copy; owns nothing.
class Kernels {
 public:
  /// Errors: kUnimplemented naming `isa` when this CPU lacks it.
  static Result<Kernels> Create(Isa isa, ThreadPool& pool);

  Isa isa() const { return isa_; }
  ThreadPool& pool() const { return *pool_; }
  const KernelTable& table() const { return *table_; }

  /// y[m] = x[m] / sqrt(mean(x²) + eps) · w. x, y: [rows, n]; y may equal x.
  void RmsNorm(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* y) const;
  /// The same over each head of `heads` in rows with a stride (QK norm), in place.
  void RmsNormHeads(float* x, int64_t stride, const float* w, float eps, int64_t rows,
                    int32_t heads, int32_t head_dim) const;

  /// Rounds x [rows, cols] for linear layers with the given rounding.
  void Round(const float* x, int64_t stride, int64_t rows, int64_t cols, ActRounding rounding,
             RoundedRows* out) const;

  // Fused with what makes the input, in one fork-join: each thread rounds rows that are still in
  // its cache. The same bits as the two calls.
  /// y = RmsNorm(x), then rounds y [rows, n].
  void RmsNormRound(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* y,
                    ActRounding rounding, RoundedRows* out) const;
  /// y = GatedActivation(gate, up), then rounds y [rows, n]; y may equal gate.
  void GatedRound(Activation act, const float* gate, const float* up, int64_t rows, int64_t n,
                  float* y, ActRounding rounding, RoundedRows* out) const;

  /// Runs several linear layers that share one input in one fork-join. All weights have
  /// cols == x.cols and a type for which the rounding of `x` is valid.
  void Matmul(std::span<const MatmulTask> tasks, const RoundedRows& x) const;

  /// x[m, head, :] rotated in place at positions[m]. Rows [rows, stride].
  void Rope(float* x, int64_t stride, int64_t rows, int32_t heads, int32_t head_dim, RopeKind kind,
            const RopeTable& table, const int64_t* positions) const;

  /// Writes K and V rows [rows, kv_heads · head_dim] as f16 into the records of their pages.
  /// pages[j] is the (writable, f16) record of tokens [64j, 64j + 64); positions are consecutive.
  void WriteKv(const float* k, const float* v, int64_t stride, int64_t rows, int64_t first_position,
               const KvShape& shape, std::byte* const* pages) const;
  /// Rounds a full f16 record into a kv8 record (briefly: K by channel with offset, V by token).
  void SealKv8(const std::byte* f16_record, const KvShape& shape, std::byte* kv8_record) const;

  /// Attention for several sequences of one layer in one fork-join.
  void Attention(std::span<const AttentionTask> tasks, const AttentionShape& shape) const;

  /// y = act(gate) · up, [rows, n].
  void GatedActivation(Activation act, const float* gate, const float* up, int64_t rows, int64_t n,
                       float* y) const;
  /// y += x over n values.
  void Add(const float* x, int64_t n, float* y) const;
  void Scale(float factor, int64_t n, float* x) const;

  /// Row `row` of a packed matrix as fp32 (embedding lookup). out: [cols].
  void DequantizeRow(const PackedMatrix& w, int32_t row, float* out) const;

  /// log(sum(exp(x))) over n values and the maximum, by the fixed 16-lane tree.
  struct LogSumExp {
    float max;
    float log_sum;  // log Σ exp(x − max)
  };
  LogSumExp LogSum(const float* x, int64_t n) const;
  /// The k largest of x in descending order, ties to the lower index. ids, values: [k].
  void TopK(const float* x, int64_t n, int32_t k, int32_t* ids, float* values) const;

 private:
  Kernels(Isa isa, const KernelTable* table, ThreadPool* pool)
      : isa_(isa), table_(table), pool_(pool) {}

  Isa isa_;
  const KernelTable* table_;
  ThreadPool* pool_;
};

}  // namespace ballast

#endif  // BALLAST_KERNELS_KERNELS_H_
