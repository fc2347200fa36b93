// Role: 16 virtual lanes in two ymm: the vector words that the shared bodies are written in
// (attention_body.inc, rows_body.inc). Thread: pure. Invariants: lane for lane the operations of
// kernels/ref/math.h.
#ifndef BALLAST_KERNELS_AVX2_MATH_H_
#define BALLAST_KERNELS_AVX2_MATH_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/ref/math.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {

struct V {
  __m256 lo;
  __m256 hi;
};
struct Mask {
  __m256i lo;
  __m256i hi;
};

inline V Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline V Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline V Add(V a, V b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline V Sub(V a, V b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline V Mul(V a, V b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline V Div(V a, V b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline V Max(V a, V b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline V Min(V a, V b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline V Abs(V a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline V Negate(V a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(sign, a.lo), _mm256_xor_ps(sign, a.hi)};
}
inline V Fma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

/// Lanes [begin, end).
inline Mask Lanes(int begin, int end) {
  const __m256i lo = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i hi = _mm256_add_epi32(lo, _mm256_set1_epi32(8));
  const __m256i from = _mm256_set1_epi32(begin - 1), to = _mm256_set1_epi32(end);
  return {_mm256_and_si256(_mm256_cmpgt_epi32(lo, from), _mm256_cmpgt_epi32(to, lo)),
          _mm256_and_si256(_mm256_cmpgt_epi32(hi, from), _mm256_cmpgt_epi32(to, hi))};
}
inline V Select(Mask mask, V yes, V no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, _mm256_castsi256_ps(mask.lo)),
          _mm256_blendv_ps(no.hi, yes.hi, _mm256_castsi256_ps(mask.hi))};
}
inline V LoadFirst(const float* p, int n) {
  const Mask mask = Lanes(0, n);
  return {_mm256_maskload_ps(p, mask.lo), _mm256_maskload_ps(p + 8, mask.hi)};
}
inline void StoreFirst(float* p, int n, V v) {
  const Mask mask = Lanes(0, n);
  _mm256_maskstore_ps(p, mask.lo, v.lo);
  _mm256_maskstore_ps(p + 8, mask.hi, v.hi);
}

inline V LoadF32(const float* p) { return Load(p); }
inline V LoadF32(const uint16_t* p) {
  const auto* half = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
inline V LoadF32(const int8_t* p) {
  const auto* half = reinterpret_cast<const __m128i*>(p);
  const auto* high = reinterpret_cast<const __m128i*>(p + 8);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(half))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(high)))};
}
inline void StoreF16(uint16_t* p, V v) {
  v = Min(Max(v, Set1(-kHalfMax)), Set1(kHalfMax));
  auto* out = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(out, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(out + 1, _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

/// Bit i: a[i] > b[i].
inline uint32_t Above(V a, V b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))) << 8;
}

inline float HorizontalMax(V v) {
  const __m256 a = _mm256_max_ps(v.lo, v.hi);
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_shuffle_ps(b, b, 1)));
}

inline float TreeSum(V v) {
  const __m256 a = _mm256_add_ps(v.lo, v.hi);
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}

inline __m256 ExpNotHigh(__m256 x) {
  const __m256 normal = _mm256_cmp_ps(x, _mm256_set1_ps(kExpLowest), _CMP_NLT_UQ);
  const __m256 magic = _mm256_set1_ps(kExpMagic), one = _mm256_set1_ps(1.0f);
  const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(kExpLog2E), magic);
  const __m256 n = _mm256_sub_ps(t, magic);
  __m256 f = _mm256_fmadd_ps(n, _mm256_set1_ps(-kExpLn2Hi), x);
  f = _mm256_fmadd_ps(n, _mm256_set1_ps(-kExpLn2Lo), f);
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(kExpC6), f, _mm256_set1_ps(kExpC5));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExpC4));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExpC3));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExpC2));
  p = _mm256_fmadd_ps(p, f, one);
  p = _mm256_fmadd_ps(p, f, one);
  const __m256i bits =
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23));
  return _mm256_and_ps(_mm256_castsi256_ps(bits), normal);
}
/// exp for x ≤ kExpHighest.
inline V ExpNotHigh(V x) { return {ExpNotHigh(x.lo), ExpNotHigh(x.hi)}; }

inline V Exp(V x) { return ExpNotHigh(Min(x, Set1(kExpHighest))); }

}  // namespace avx2
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_AVX2_MATH_H_
