// Role: what the AVX2 files of linear layers share.
#ifndef BALLAST_KERNELS_AVX2_LINEAR_AVX2_H_
#define BALLAST_KERNELS_AVX2_LINEAR_AVX2_H_

#include <immintrin.h>

#include "kernels/linear.h"
#include "kernels/target.h"

#define BALLAST_INLINE inline __attribute__((always_inline))

namespace ballast::avx2 {

/// Quantised weights: all rows and panels of `piece`.
void Gemm(const LinearPiece& piece) noexcept;

/// F32, F16 and BF16 weights: all rows and panels of `piece`.
void MultiplyFloat(const LinearPiece& piece) noexcept;

void Round(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
           RoundedRows::Impl* out) noexcept;

}  // namespace ballast::avx2

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {
namespace {

/// y = acc (+ bias) (+ residual) for eight outputs from row `first` of the weight on.
BALLAST_INLINE void StoreEight(const LinearPiece& piece, int32_t first, int64_t row, __m256 y) {
  const int32_t left = piece.weight->rows - first;
  if (left <= 0) return;
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), lanes);
  if (piece.bias != nullptr) {
    y = _mm256_add_ps(y, _mm256_maskload_ps(piece.bias + first, mask));
  }
  const int64_t at = row * piece.y_stride + first;
  if (piece.residual != nullptr) {
    y = _mm256_add_ps(y, _mm256_maskload_ps(piece.residual + at, mask));
  }
  _mm256_maskstore_ps(piece.y + at, mask, y);
}

BALLAST_INLINE __m256 LoadHalves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace
}  // namespace avx2
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_AVX2_LINEAR_AVX2_H_
