// Role: what the AVX-512 and AMX GEMM bodies share: the fp32 pass over the minimums and the
// epilogue. Both work on the running sums [rows of the piece][16] of one panel.
#ifndef BALLAST_KERNELS_AVX512_LINEAR_BLOCK_H_
#define BALLAST_KERNELS_AVX512_LINEAR_BLOCK_H_

#include "kernels/avx512/linear_codes.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

/// A stretch of groups of one panel's minimums. The first one starts the sums at 0, the last one
/// adds them to acc; between stretches they wait in mac.
struct Stretch {
  const float* m;  // [groups][16]
  int groups;
  bool first;
  bool last;
};

template <int kRows>
BALLAST_INLINE void MinimumChain(const Stretch& stretch, const float* u, int n, float* mac,
                                 float* acc) {
  __m512 sums[kRows];
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
    sums[t] = stretch.first ? _mm512_setzero_ps() : _mm512_load_ps(mac + 16 * t);
  }
  for (int g = 0; g < stretch.groups; ++g) {
    const __m512 minimum = _mm512_load_ps(stretch.m + 16 * g);
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) {
      sums[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(u[t]), sums[t]);
    }
    u += n;
  }
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
    if (stretch.last) {
      _mm512_store_ps(acc + 16 * t, _mm512_add_ps(_mm512_load_ps(acc + 16 * t), sums[t]));
    } else {
      _mm512_store_ps(mac + 16 * t, sums[t]);
    }
  }
}

/// One stretch for all rows of the piece.
BALLAST_NOINLINE inline void AddStretch(const LinearPiece& piece, const Stretch& stretch,
                                        ptrdiff_t group, float* mac, float* acc) {
  for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
    const RoundedBlock block = BlockAt(*piece.x, first);
    const float* u = block.u + group * block.n;
    const int64_t at = (first - piece.row_begin) * kPanelRows;
    if (block.n == 16) {
      MinimumChain<16>(stretch, u, 16, mac + at, acc + at);
      continue;
    }
    int t = 0;
    for (; t + 4 <= block.n; t += 4) {
      MinimumChain<4>(stretch, u + t, block.n, mac + at + 16 * t, acc + at + 16 * t);
    }
    for (; t < block.n; ++t) {
      MinimumChain<1>(stretch, u + t, block.n, mac + at + 16 * t, acc + at + 16 * t);
    }
  }
}

/// Adds Σ m_g · u_g, ascending, to `acc` of every row of the piece. A pass of its own because fp32
/// products run at half speed next to tile instructions.
template <DType T>
void AddMinimums(const LinearPiece& piece, const std::byte* panel, float* acc) {
  constexpr int kPairs = 32;  // 2,048 columns a stretch: 4 KiB of minimums
  alignas(64) float m[2 * kPairs][kPanelRows];
  alignas(64) float mac[kMaxPieceRows * kPanelRows];
  using F = Format<T>;
  const int pairs = piece.weight->units() * F::kUnitPairs;
  for (int begin = 0; begin < pairs; begin += kPairs) {
    const int count = pairs - begin < kPairs ? pairs - begin : kPairs;
    for (int i = 0; i < count; ++i) {
      const int pair = (begin + i) % F::kUnitPairs;
      const std::byte* unit =
          panel + static_cast<ptrdiff_t>((begin + i) / F::kUnitPairs) * F::kUnitBytes;
      _mm512_store_ps(m[2 * i], LoadMinimum<T>(unit, pair, 0));
      _mm512_store_ps(m[2 * i + 1], LoadMinimum<T>(unit, pair, 1));
    }
    const Stretch stretch = {m[0], 2 * count, begin == 0, begin + count == pairs};
    AddStretch(piece, stretch, 2 * static_cast<ptrdiff_t>(begin), mac, acc);
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
