// Role: linear layers inside src/kernels: the layout of rounded inputs and the functions one ISA
// supplies. Thread: table functions run on pool threads, each on its own rows or panels; inputs are
// read only. Invariants: a result depends on its weight row and its input row only
// (docs/arithmetic.md); every body computes all groups of the weight's last unit, padding included,
// so that all agree on it.
#ifndef BALLAST_KERNELS_LINEAR_H_
#define BALLAST_KERNELS_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"
#include "platform/cpu.h"
#include "platform/huge_buffer.h"
#include "tensor/packed.h"

namespace ballast {

inline constexpr int kGroup = 32;          // columns that share a weight scale
inline constexpr int kBlockGroups = 8;     // groups that share a wide activation scale
inline constexpr int kTileRows = 16;       // input rows of a block
inline constexpr int kMaxPieceRows = 256;  // input rows of a piece: bodies size their scratch by it

/// Rounded rows: blocks of up to 16 input rows, in a block group-major and then row-minor, so that
/// a block is an AMX A tile a group, and a single row is contiguous. A block of n rows holds
///   codes   int8: [groups][n][32 a]; int12, int16: [groups][n][32 h | 32 l]
///   float   [cols][n] f32 instead of codes
///   scale   int8: [groups][n]; int12, int16: [groups / 8][n]
///   u, asum [groups][n]  (scale · asum, and asum itself)
///   parts   [groups][n][4] sums of 16 codes: int8 {a first half, second, 0, 0}; wide {h, h, l, l}
/// `groups` is padded to whole blocks of 256 columns; padding is zero.
struct RoundedRows::Impl {
  ActRounding rounding = ActRounding::kFloat;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t groups = 0;      // multiple of 8
  int64_t code_bytes = 0;  // a row's bytes in `codes`
  int64_t scales = 0;      // a row's floats in `scale`
  std::byte* codes = nullptr;
  float* scale = nullptr;
  float* u = nullptr;
  int32_t* asum = nullptr;
  int32_t* parts = nullptr;
  HugeBuffer memory;

  /// Lays out the arrays for [rows, cols]; grows `memory` if needed and never shrinks it.
  void Resize(int64_t rows, int64_t cols, ActRounding rounding);

  bool wide() const { return rounding == ActRounding::kInt12 || rounding == ActRounding::kInt16; }
  int group_bytes() const { return wide() ? 2 * kGroup : kGroup; }
  /// Rows of the block that starts at row `first` (a multiple of 16).
  int BlockRows(int64_t first) const {
    return static_cast<int>(rows - first < kTileRows ? rows - first : kTileRows);
  }
};

/// The arrays of one block, positioned at its first row.
struct RoundedBlock {
  const std::byte* codes;
  const float* scale;
  const float* u;
  const int32_t* asum;
  const int32_t* parts;
  int n;  // rows of the block: the minor stride of every array
};

inline RoundedBlock BlockAt(const RoundedRows::Impl& x, int64_t first) {
  return {x.codes + first * x.code_bytes, x.scale + first * x.scales,     x.u + first * x.groups,
          x.asum + first * x.groups,      x.parts + first * x.groups * 4, x.BlockRows(first)};
}

/// One piece of a linear layer: panels [panel_begin, panel_end) for input rows [row_begin,
/// row_end). row_begin is a multiple of 16.
struct LinearPiece {
  const PackedMatrix* weight = nullptr;
  const RoundedRows::Impl* x = nullptr;
  int32_t panel_begin = 0;
  int32_t panel_end = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const float* bias = nullptr;
  const float* residual = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
};

/// The bodies of one ISA.
struct LinearTable {
  /// Rounds rows [row_begin, row_end) of x (stride in floats) into `out`, which is laid out
  /// already.
  void (*round)(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
                RoundedRows::Impl* out) noexcept;
  void (*multiply)(const LinearPiece& piece) noexcept;
  /// Row `row` of `w` as fp32 into out [cols].
  void (*dequantize_row)(const PackedMatrix& w, int32_t row, float* out) noexcept;
};

namespace ref {
/// LinearTable::dequantize_row of every ISA: a lookup of a few µs gains nothing from vectors.
void DequantizeRow(const PackedMatrix& w, int32_t row, float* out) noexcept;
}  // namespace ref

const LinearTable& LinearTableFor(Isa isa);

/// Kernels::Round and Kernels::Matmul with the table and the pool spelled out.
void RoundRows(const LinearTable& table, ThreadPool& pool, const float* x, int64_t stride,
               int64_t rows, int64_t cols, ActRounding rounding, RoundedRows* out);
void MultiplyRows(const LinearTable& table, ThreadPool& pool, std::span<const MatmulTask> tasks,
                  const RoundedRows& x);

extern const LinearTable kLinearRef;
extern const LinearTable kLinearAvx2;
extern const LinearTable kLinearAvx512;
extern const LinearTable kLinearAmx;

/// True if `rounding` may be the input of weights of type `type`.
constexpr bool RoundingValid(DType type, ActRounding rounding) {
  return IsFloat(type) == (rounding == ActRounding::kFloat);
}

}  // namespace ballast

#endif  // BALLAST_KERNELS_LINEAR_H_
