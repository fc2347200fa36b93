// Role: AVX2 products with F32, F16 and BF16 weights, AVX2 rounding of inputs, and the table.
// Thread: as kernels/linear.h. Invariant: bits of ref/linear_ref.cc.
#include "kernels/avx2/linear_avx2.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {
namespace {

// ---- Products ----

/// Eight weights from row `half` · 8 of a column.
template <DType T>
BALLAST_INLINE __m256 LoadWeights(const std::byte* column, int half) {
  if constexpr (T == DType::kF32) {
    return _mm256_load_ps(reinterpret_cast<const float*>(column) + 8 * half);
  }
  if constexpr (T == DType::kF16) return LoadHalves(column + 16 * half);
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(column) + half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/// One panel for kRows input rows: 2 · kRows independent chains.
template <DType T, int kRows>
void MultiplyTile(const LinearPiece& piece, int32_t panel, const float* x, int n, int64_t row) {
  constexpr int kBytes = kPackedUnit[static_cast<int>(T)].bytes;
  const PackedMatrix& w = *piece.weight;
  const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
  __m256 acc[2][kRows];
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) acc[0][t] = acc[1][t] = _mm256_setzero_ps();
  for (int32_t k = 0; k < w.cols; ++k) {
    _mm_prefetch(reinterpret_cast<const char*>(data) + 2560, _MM_HINT_T0);
    const __m256 w0 = LoadWeights<T>(data, 0), w1 = LoadWeights<T>(data, 1);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      const __m256 value = _mm256_set1_ps(x[t]);
      acc[0][t] = _mm256_fmadd_ps(w0, value, acc[0][t]);
      acc[1][t] = _mm256_fmadd_ps(w1, value, acc[1][t]);
    }
    data += kBytes;
    x += n;
  }
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    StoreEight(piece, panel * kPanelRows, row + t, acc[0][t]);
    StoreEight(piece, panel * kPanelRows + 8, row + t, acc[1][t]);
  }
}

template <DType T>
void Multiply(const LinearPiece& piece) {
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
    for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
      const RoundedBlock block = BlockAt(*piece.x, first);
      const float* x = reinterpret_cast<const float*>(block.codes);
      int t = 0;
      for (; t + 4 <= block.n; t += 4) {
        MultiplyTile<T, 4>(piece, panel, x + t, block.n, first + t);
      }
      if (t + 2 <= block.n) {
        MultiplyTile<T, 2>(piece, panel, x + t, block.n, first + t);
        t += 2;
      }
      if (t < block.n) MultiplyTile<T, 1>(piece, panel, x + t, block.n, first + t);
    }
  }
}

void MultiplyAny(const LinearPiece& piece) noexcept {
  if (IsFloat(piece.weight->type)) return MultiplyFloat(piece);
  Gemm(piece);
}

// ---- Rounding ----

constexpr float kTiny = 0x1p-100f;  // docs/arithmetic.md

/// Eight elements of a row; cols is a multiple of 32, so a group exists whole or not at all.
BALLAST_INLINE __m256 AbsMax(__m256 top, __m256 v) {
  return _mm256_max_ps(top, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v));
}

BALLAST_INLINE float MaxOf(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

BALLAST_INLINE int32_t SumOf(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/// 32 integers in [−128, 127] as bytes, in order; sums of both halves to parts[0], parts[1].
BALLAST_INLINE void StoreCodes(const __m256i* v, std::byte* codes, int32_t* parts) {
  const __m256i ab = _mm256_packs_epi32(v[0], v[1]), cd = _mm256_packs_epi32(v[2], v[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes),
                      _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order));
  parts[0] = SumOf(_mm256_add_epi32(v[0], v[1]));
  parts[1] = SumOf(_mm256_add_epi32(v[2], v[3]));
}

BALLAST_INLINE void RoundGroup(const float* x, __m256 inverse, __m256i* a) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
  }
}

void RoundRowInt8(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  for (int64_t g = 0; g < out->groups; ++g) {
    const int64_t at = first * out->groups + g * n + t;
    std::byte* codes = out->codes + first * out->code_bytes + (g * n + t) * kGroup;
    __m256i a[4] = {};
    int32_t* parts = out->parts + 4 * at;
    float scale = 0;
    if (g * kGroup < out->cols) {
      __m256 top = _mm256_setzero_ps();
      for (int i = 0; i < 4; ++i) top = AbsMax(top, _mm256_loadu_ps(x + g * kGroup + 8 * i));
      const float amax = MaxOf(top);
      if (!(amax < kTiny)) {
        scale = amax / 127.0f;
        RoundGroup(x + g * kGroup, _mm256_set1_ps(127.0f / amax), a);
      }
    }
    StoreCodes(a, codes, parts);
    parts[2] = parts[3] = 0;
    out->scale[at] = scale;
    out->asum[at] = parts[0] + parts[1];
    out->u[at] = scale * static_cast<float>(out->asum[at]);
  }
}

template <int kShift>
void RoundRowWide(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  constexpr float kMax = kShift == 4 ? 2039.0f : 32639.0f;
  for (int64_t b = 0; b < out->scales; ++b) {
    const int64_t begin = b * kBlockGroups * kGroup;
    const int64_t end =
        begin + kBlockGroups * kGroup < out->cols ? begin + kBlockGroups * kGroup : out->cols;
    __m256 top = _mm256_setzero_ps();
    for (int64_t k = begin; k < end; k += 8) top = AbsMax(top, _mm256_loadu_ps(x + k));
    const float amax = MaxOf(top);
    const bool zero = amax < kTiny;
    const float scale = zero ? 0.0f : amax / kMax;
    const __m256 inverse = _mm256_set1_ps(zero ? 0.0f : kMax / amax);
    out->scale[first * out->scales + b * n + t] = scale;
    for (int64_t g = b * kBlockGroups; g < (b + 1) * kBlockGroups; ++g) {
      const int64_t at = first * out->groups + g * n + t;
      std::byte* codes = out->codes + first * out->code_bytes + (g * n + t) * 2 * kGroup;
      int32_t* parts = out->parts + 4 * at;
      __m256i a[4] = {}, h[4], l[4];
      if (g * kGroup < end) RoundGroup(x + g * kGroup, inverse, a);
      for (int i = 0; i < 4; ++i) {
        h[i] =
            _mm256_srai_epi32(_mm256_add_epi32(a[i], _mm256_set1_epi32(1 << (kShift - 1))), kShift);
        l[i] = _mm256_sub_epi32(a[i], _mm256_slli_epi32(h[i], kShift));
      }
      StoreCodes(h, codes, parts);
      StoreCodes(l, codes + kGroup, parts + 2);
      out->asum[at] = (parts[0] + parts[1]) * (1 << kShift) + parts[2] + parts[3];
      out->u[at] = scale * static_cast<float>(out->asum[at]);
    }
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

void Round(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
           RoundedRows::Impl* out) noexcept {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t first = row / kTileRows * kTileRows;
    const int t = static_cast<int>(row - first), n = out->BlockRows(first);
    const float* at = x + row * stride;
    switch (out->rounding) {
      case ActRounding::kFloat: {
        float* codes = reinterpret_cast<float*>(out->codes + first * out->code_bytes) + t;
        for (int64_t k = 0; k < out->cols; ++k) codes[k * n] = at[k];
        break;
      }
      case ActRounding::kInt8:
        RoundRowInt8(at, first, t, n, out);
        break;
      case ActRounding::kInt12:
        RoundRowWide<4>(at, first, t, n, out);
        break;
      case ActRounding::kInt16:
        RoundRowWide<8>(at, first, t, n, out);
        break;
    }
  }
}

}  // namespace avx2

const LinearTable kLinearAvx2 = {avx2::Round, avx2::MultiplyAny, ref::DequantizeRow};

}  // namespace ballast
KERNEL_END
