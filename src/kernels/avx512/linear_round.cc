// Role: AVX-512 rounding of inputs, and the table of AVX-512 bodies.
// Thread: as kernels/linear.h. Invariant: bytes of ref/linear_ref.cc.
#include "kernels/avx512/linear_codes.h"
#include "kernels/avx512/linear_gemv.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

constexpr float kTiny = 0x1p-100f;  // docs/arithmetic.md

/// 16 elements of a row whose first `left` exist; the rest read as 0.
BALLAST_INLINE __m512 LoadInputs(const float* x, int64_t left) {
  if (left >= 16) return _mm512_loadu_ps(x);
  if (left <= 0) return _mm512_setzero_ps();
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1 << left) - 1), x);
}

BALLAST_INLINE void StoreCodes(std::byte* at, __m512i values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtepi32_epi8(values));
}

void RoundRowInt8(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  std::byte* codes = out->codes + first * out->code_bytes + t * kGroup;
  int64_t at = first * out->groups + t;
  for (int64_t g = 0; g < out->groups; ++g, at += n, codes += n * kGroup) {
    const int64_t left = out->cols - g * kGroup;
    const __m512 a = LoadInputs(x + g * kGroup, left);
    const __m512 b = LoadInputs(x + g * kGroup + 16, left - 16);
    const float amax = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const bool zero = amax < kTiny;
    const float scale = zero ? 0.0f : amax / 127.0f;
    const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : 127.0f / amax);
    const __m512i ia = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse));
    const __m512i ib = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
    StoreCodes(codes, ia);
    StoreCodes(codes + 16, ib);
    const int32_t s0 = _mm512_reduce_add_epi32(ia), s1 = _mm512_reduce_add_epi32(ib);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out->parts + 4 * at), _mm_setr_epi32(s0, s1, 0, 0));
    out->scale[at] = scale;
    out->asum[at] = s0 + s1;
    out->u[at] = scale * static_cast<float>(s0 + s1);
  }
}

/// h and l of 16 integers, and their sums.
template <int kShift>
BALLAST_INLINE void Split(__m512i a, std::byte* codes, int32_t* high_sum, int32_t* low_sum) {
  const __m512i h =
      _mm512_srai_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(1 << (kShift - 1))), kShift);
  const __m512i l = _mm512_sub_epi32(a, _mm512_slli_epi32(h, kShift));
  StoreCodes(codes, h);
  StoreCodes(codes + kGroup, l);
  *high_sum = _mm512_reduce_add_epi32(h);
  *low_sum = _mm512_reduce_add_epi32(l);
}

template <int kShift>
void RoundRowWide(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  constexpr float kMax = kShift == 4 ? 2039.0f : 32639.0f;
  constexpr int kBlock = kBlockGroups * kGroup;
  std::byte* codes = out->codes + first * out->code_bytes + t * 2 * kGroup;
  int64_t at = first * out->groups + t;
  for (int64_t b = 0; b < out->scales; ++b, x += kBlock) {
    const int64_t left = out->cols - b * kBlock;
    __m512 v[16];
    __m512 top = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      v[i] = LoadInputs(x + 16 * i, left - 16 * i);
      top = _mm512_max_ps(top, _mm512_abs_ps(v[i]));
    }
    const float amax = _mm512_reduce_max_ps(top);
    const bool zero = amax < kTiny;
    const float scale = zero ? 0.0f : amax / kMax;
    const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : kMax / amax);
    out->scale[first * out->scales + b * n + t] = scale;
#pragma GCC unroll 8
    for (int g = 0; g < kBlockGroups; ++g, at += n, codes += n * 2 * kGroup) {
      int32_t* parts = out->parts + 4 * at;
      Split<kShift>(_mm512_cvtps_epi32(_mm512_mul_ps(v[2 * g], inverse)), codes, parts, parts + 2);
      Split<kShift>(_mm512_cvtps_epi32(_mm512_mul_ps(v[2 * g + 1], inverse)), codes + 16, parts + 1,
                    parts + 3);
      const int32_t sum = (parts[0] + parts[1]) * (1 << kShift) + parts[2] + parts[3];
      out->asum[at] = sum;
      out->u[at] = scale * static_cast<float>(sum);
    }
  }
}

void CopyRow(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  float* codes = reinterpret_cast<float*>(out->codes + first * out->code_bytes) + t;
  for (int64_t k = 0; k < out->cols; ++k) codes[k * n] = x[k];
}

void Multiply(const LinearPiece& piece) noexcept {
  if (IsFloat(piece.weight->type)) return MultiplyFloat(piece);
  // Few rows: reading the panel is the cost, and unpacking in registers keeps up with it.
  if (piece.row_end - piece.row_begin <= kGemvRows) return GemvBlock(piece, piece.row_begin);
  Gemm(piece);
}

}  // namespace

void Round(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
           RoundedRows::Impl* out) noexcept {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t first = row / kTileRows * kTileRows;
    const int t = static_cast<int>(row - first), n = out->BlockRows(first);
    switch (out->rounding) {
      case ActRounding::kFloat:
        CopyRow(x + row * stride, first, t, n, out);
        break;
      case ActRounding::kInt8:
        RoundRowInt8(x + row * stride, first, t, n, out);
        break;
      case ActRounding::kInt12:
        RoundRowWide<4>(x + row * stride, first, t, n, out);
        break;
      case ActRounding::kInt16:
        RoundRowWide<8>(x + row * stride, first, t, n, out);
        break;
    }
  }
}

}  // namespace avx512

const LinearTable kLinearAvx512 = {avx512::Round, avx512::Multiply, ref::DequantizeRow};

}  // namespace ballast
KERNEL_END
