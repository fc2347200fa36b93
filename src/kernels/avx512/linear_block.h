// Role: what the AVX-512 and AMX GEMM bodies share: the fp32 pass over the minimums and the
// epilogue. Both work on the running sums [rows of the piece][16] of one panel.
#ifndef BALLAST_KERNELS_AVX512_LINEAR_BLOCK_H_
#define BALLAST_KERNELS_AVX512_LINEAR_BLOCK_H_

#include "kernels/avx512/linear_codes.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

/// mac of kRows rows over `groups` groups; `mac` holds the sums so far.
template <int kRows>
BALLAST_INLINE void MinimumChain(const float* m, const float* u, int n, int groups, float* mac) {
  __m512 sums[kRows];
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) sums[t] = _mm512_load_ps(mac + 16 * t);
  for (int g = 0; g < groups; ++g) {
    const __m512 minimum = _mm512_load_ps(m + 16 * g);
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) {
      sums[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(u[t]), sums[t]);
    }
    u += n;
  }
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) _mm512_store_ps(mac + 16 * t, sums[t]);
}

/// Adds Σ m_g · u_g, ascending, to `acc` of every row of the piece. A pass of its own because fp32
/// products run at half speed next to tile instructions.
template <DType T>
void AddMinimums(const LinearPiece& piece, const std::byte* panel, float* acc) {
  constexpr int kPairs = 32;  // 2,048 columns a step: 4 KiB of minimums
  alignas(64) float m[2 * kPairs][kPanelRows];
  alignas(64) float mac[kMaxPieceRows * kPanelRows];
  using F = Format<T>;
  const int pairs = piece.weight->units() * F::kUnitPairs;
  const int64_t rows = piece.row_end - piece.row_begin;
  __builtin_memset(mac, 0, static_cast<size_t>(rows) * kPanelRows * sizeof(float));
  for (int begin = 0; begin < pairs; begin += kPairs) {
    const int count = pairs - begin < kPairs ? pairs - begin : kPairs;
    for (int i = 0; i < count; ++i) {
      const int pair = (begin + i) % F::kUnitPairs;
      const std::byte* unit =
          panel + static_cast<ptrdiff_t>((begin + i) / F::kUnitPairs) * F::kUnitBytes;
      _mm512_store_ps(m[2 * i], LoadMinimum<T>(unit, pair, 0));
      _mm512_store_ps(m[2 * i + 1], LoadMinimum<T>(unit, pair, 1));
    }
    for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
      const RoundedBlock block = BlockAt(*piece.x, first);
      const float* u = block.u + 2 * static_cast<ptrdiff_t>(begin) * block.n;
      float* at = mac + (first - piece.row_begin) * kPanelRows;
      int t = 0;
      if (block.n == 16) {
        MinimumChain<16>(m[0], u, 16, 2 * count, at);
        t = 16;
      }
      for (; t + 4 <= block.n; t += 4) {
        MinimumChain<4>(m[0], u + t, block.n, 2 * count, at + 16 * t);
      }
      for (; t < block.n; ++t) MinimumChain<1>(m[0], u + t, block.n, 2 * count, at + 16 * t);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    _mm512_store_ps(acc + 16 * i,
                    _mm512_add_ps(_mm512_load_ps(acc + 16 * i), _mm512_load_ps(mac + 16 * i)));
  }
}

/// Outputs of panels [panel, panel + count) from their sums, row by row: neighbouring panels share
/// lines and pages of y.
BALLAST_INLINE void StorePanels(const LinearPiece& piece, int32_t panel, int count,
                                const float (*acc)[kMaxPieceRows * kPanelRows]) {
  for (int64_t row = piece.row_begin; row < piece.row_end; ++row) {
    const int64_t at = kPanelRows * (row - piece.row_begin);
    for (int i = 0; i < count; ++i) {
      StoreRow(piece, panel + i, row, _mm512_load_ps(acc[i] + at));
    }
  }
}

}  // namespace
}  // namespace avx512
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_AVX512_LINEAR_BLOCK_H_
