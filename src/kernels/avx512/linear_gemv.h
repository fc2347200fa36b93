// Role: the AVX-512 bodies that kernels/avx512/linear_table.cc and the AMX body choose between.
#ifndef BALLAST_KERNELS_AVX512_LINEAR_GEMV_H_
#define BALLAST_KERNELS_AVX512_LINEAR_GEMV_H_

#include "kernels/linear.h"

namespace ballast::avx512 {

/// Up to this many rows GemvBlock is faster than Gemm.
inline constexpr int kGemvRows = 8;

/// All panels of `piece` for the block of up to 16 input rows at `first`; quantised weights. Best
/// for one to eight rows.
void GemvBlock(const LinearPiece& piece, int64_t first) noexcept;

/// All rows and panels of `piece`; quantised weights. Unpacks a panel once for all rows.
void Gemm(const LinearPiece& piece) noexcept;

/// All rows and panels of `piece`; F32, F16 and BF16 weights.
void MultiplyFloat(const LinearPiece& piece) noexcept;

void Round(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
           RoundedRows::Impl* out) noexcept;

}  // namespace ballast::avx512

#endif  // BALLAST_KERNELS_AVX512_LINEAR_GEMV_H_
