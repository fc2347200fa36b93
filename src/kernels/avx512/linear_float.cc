// Role: AVX-512 products with F32, F16 and BF16 weights: lanes over output rows, one fma chain an
// output in ascending k. Thread: as kernels/linear.h. Invariant: bits of ref/linear_ref.cc.
#include "kernels/avx512/linear_codes.h"
#include "kernels/avx512/linear_gemv.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

template <DType T>
BALLAST_INLINE __m512 LoadWeights(const std::byte* p) {
  if constexpr (T == DType::kF32) return _mm512_load_ps(p);
  if constexpr (T == DType::kF16) return LoadHalves(p);
  const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/// kPanels panels and kRows rows: kPanels · kRows independent chains hide the latency of fma.
template <DType T, int kPanels, int kRows>
void MultiplyTile(const LinearPiece& piece, int32_t panel, const float* x, int n, int64_t row) {
  constexpr int kBytes = kPackedUnit[static_cast<int>(T)].bytes;
  constexpr int kPrefetch = 2560 / kPanels;
  const PackedMatrix& w = *piece.weight;
  const size_t stride = w.panel_bytes();
  const std::byte* data = w.data + static_cast<size_t>(panel) * stride;
  __m512 acc[kPanels][kRows];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) acc[p][t] = _mm512_setzero_ps();
  }
  for (int32_t k = 0; k < w.cols; ++k) {
    __m512 value[kRows];
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) value[t] = _mm512_set1_ps(x[t]);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* at = data + static_cast<size_t>(p) * stride;
      if (kBytes == 64 || k % 2 == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(at) + kPrefetch, _MM_HINT_T0);
      }
      const __m512 weights = LoadWeights<T>(at);
#pragma GCC unroll 8
      for (int t = 0; t < kRows; ++t) acc[p][t] = _mm512_fmadd_ps(weights, value[t], acc[p][t]);
    }
    data += kBytes;
    x += n;
  }
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) StoreRow(piece, panel + p, row + t, acc[p][t]);
  }
}

template <DType T, int kPanels>
void MultiplyPanels(const LinearPiece& piece, int32_t panel, int64_t first) {
  const RoundedBlock block = BlockAt(*piece.x, first);
  const float* x = reinterpret_cast<const float*>(block.codes);
  int t = 0;
  for (; t + 8 <= block.n; t += 8) {
    MultiplyTile<T, kPanels, 8>(piece, panel, x + t, block.n, first + t);
  }
  if (t + 4 <= block.n) {
    MultiplyTile<T, kPanels, 4>(piece, panel, x + t, block.n, first + t);
    t += 4;
  }
  if (t + 2 <= block.n) {
    MultiplyTile<T, kPanels, 2>(piece, panel, x + t, block.n, first + t);
    t += 2;
  }
  if (t < block.n) MultiplyTile<T, kPanels, 1>(piece, panel, x + t, block.n, first + t);
}

template <DType T>
void Multiply(const LinearPiece& piece) {
  int32_t panel = piece.panel_begin;
  for (; panel + 2 <= piece.panel_end; panel += 2) {
    for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
      MultiplyPanels<T, 2>(piece, panel, first);
    }
  }
  if (panel == piece.panel_end) return;
  for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
    MultiplyPanels<T, 1>(piece, panel, first);
  }
}

}  // namespace

void MultiplyFloat(const LinearPiece& piece) noexcept {
  switch (piece.weight->type) {
    case DType::kF32:
      return Multiply<DType::kF32>(piece);
    case DType::kF16:
      return Multiply<DType::kF16>(piece);
    case DType::kBF16:
      return Multiply<DType::kBF16>(piece);
    default:
      return;
  }
}

}  // namespace avx512
}  // namespace ballast
KERNEL_END
