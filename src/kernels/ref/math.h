// Role: the scalar elementary functions of docs/arithmetic.md: what every other body must equal bit
// for bit. Thread: pure. Invariants: only + − × ÷ sqrt and fma, no libm; finite inputs. The
// polynomial: minimax (Remez on the relative error of exp over ±ln 2 / 2, constant and linear terms
// fixed at 1), 3.1e-9 before its coefficients are rounded to binary32.
#ifndef BALLAST_KERNELS_REF_MATH_H_
#define BALLAST_KERNELS_REF_MATH_H_

#include <cstdint>
#include <cstring>

#include "kernels/target.h"

namespace ballast {

inline constexpr float kExpLowest = -87.33654f;  // below: 0 (the result would be subnormal)
inline constexpr float kExpHighest = 88.37626f;  // above: clamped
inline constexpr float kExpLog2E = 0x1.715476p+0f;
inline constexpr float kExpMagic = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
inline constexpr float kExpLn2Hi = 0x1.63p-1f;   // nine bits: n · hi is exact
inline constexpr float kExpLn2Lo = -0x1.bd0106p-13f;
inline constexpr float kExpC2 = 0x1.fffffcp-2f;
inline constexpr float kExpC3 = 0x1.555492p-3f;
inline constexpr float kExpC4 = 0x1.5558f2p-5f;
inline constexpr float kExpC5 = 0x1.1239f2p-7f;
inline constexpr float kExpC6 = 0x1.6a23ecp-10f;
inline constexpr float kGeluCubic = 0.044715f;
inline constexpr float kGeluMinus2C = -0x1.988454p+0f;  // −2 · sqrt(2 / π)
inline constexpr float kHalfMax = 65504.0f;
inline constexpr float kMinAmax = 0x1p-100f;  // groups below this round to zero

}  // namespace ballast

KERNEL_BEGIN(KERNEL_TARGET_REF)
namespace ballast {
namespace ref {

inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/// exp(x): 0 below kExpLowest, exp(kExpHighest) above kExpHighest; at most 1 ulp off between.
inline float Exp(float x) {
  if (x < kExpLowest) return 0.0f;
  x = x < kExpHighest ? x : kExpHighest;
  const float t = Fma(x, kExpLog2E, kExpMagic);
  const float n = t - kExpMagic;
  float f = Fma(n, -kExpLn2Hi, x);
  f = Fma(n, -kExpLn2Lo, f);
  float p = kExpC6;
  p = Fma(p, f, kExpC5);
  p = Fma(p, f, kExpC4);
  p = Fma(p, f, kExpC3);
  p = Fma(p, f, kExpC2);
  p = Fma(p, f, 1.0f);
  p = Fma(p, f, 1.0f);
  uint32_t t_bits, p_bits;
  std::memcpy(&t_bits, &t, 4);
  std::memcpy(&p_bits, &p, 4);
  p_bits += t_bits << 23;
  std::memcpy(&p, &p_bits, 4);
  return p;
}

inline float Silu(float x) { return x / (1.0f + Exp(-x)); }

inline float GeluTanh(float x) {
  const float cube = (x * x) * x;
  const float t = Fma(kGeluCubic, cube, x);
  return x / (1.0f + Exp(t * kGeluMinus2C));
}

/// The fixed tree over 16 lanes; destroys v.
inline float TreeSum(float* v) {
  for (int step = 8; step >= 1; step /= 2) {
    for (int i = 0; i < step; ++i) v[i] += v[i + step];
  }
  return v[0];
}

}  // namespace ref
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_REF_MATH_H_
