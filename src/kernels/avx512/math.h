// Role: 16 virtual lanes in one zmm: the vector words that the shared bodies are written in
// (attention_body.inc, rows_body.inc). Thread: pure. Invariants: lane for lane the operations of
// kernels/ref/math.h.
#ifndef BALLAST_KERNELS_AVX512_MATH_H_
#define BALLAST_KERNELS_AVX512_MATH_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/ref/math.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {

using V = __m512;
using Mask = __mmask16;

inline V Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
inline V Set1(float x) { return _mm512_set1_ps(x); }
inline V Zero() { return _mm512_setzero_ps(); }
inline V Add(V a, V b) { return _mm512_add_ps(a, b); }
inline V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
inline V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V Div(V a, V b) { return _mm512_div_ps(a, b); }
inline V Max(V a, V b) { return _mm512_max_ps(a, b); }
inline V Min(V a, V b) { return _mm512_min_ps(a, b); }
inline V Abs(V a) { return _mm512_abs_ps(a); }
inline V Negate(V a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
inline V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

/// Lanes [begin, end).
inline Mask Lanes(int begin, int end) {
  return static_cast<Mask>(((1u << end) - 1u) & ~((1u << begin) - 1u));
}
inline V Select(Mask mask, V yes, V no) { return _mm512_mask_blend_ps(mask, no, yes); }
inline V LoadFirst(const float* p, int n) { return _mm512_maskz_loadu_ps(Lanes(0, n), p); }
inline void StoreFirst(float* p, int n, V v) { _mm512_mask_storeu_ps(p, Lanes(0, n), v); }

inline V LoadF32(const float* p) { return _mm512_loadu_ps(p); }
inline V LoadF32(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}
inline V LoadF32(const int8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline void StoreF16(uint16_t* p, V v) {
  v = Min(Max(v, Set1(-kHalfMax)), Set1(kHalfMax));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/// Bit i: a[i] > b[i].
inline uint32_t Above(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }

inline float HorizontalMax(V v) { return _mm512_reduce_max_ps(v); }

inline float TreeSum(V v) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}

/// exp for x ≤ kExpHighest.
inline V ExpNotHigh(V x) {
  const Mask normal = _mm512_cmp_ps_mask(x, Set1(kExpLowest), _CMP_NLT_UQ);
  const V t = Fma(x, Set1(kExpLog2E), Set1(kExpMagic));
  const V n = Sub(t, Set1(kExpMagic));
  V f = Fma(n, Set1(-kExpLn2Hi), x);
  f = Fma(n, Set1(-kExpLn2Lo), f);
  V p = Fma(Set1(kExpC6), f, Set1(kExpC5));
  p = Fma(p, f, Set1(kExpC4));
  p = Fma(p, f, Set1(kExpC3));
  p = Fma(p, f, Set1(kExpC2));
  p = Fma(p, f, Set1(1.0f));
  p = Fma(p, f, Set1(1.0f));
  return _mm512_castsi512_ps(_mm512_maskz_add_epi32(normal, _mm512_castps_si512(p),
                                                    _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

inline V Exp(V x) { return ExpNotHigh(Min(x, Set1(kExpHighest))); }

}  // namespace avx512
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_AVX512_MATH_H_
