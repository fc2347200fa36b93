#include "kernels/math.h"

#include <cstdint>
#include <cstring>

#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_REF)
namespace ballast {

namespace {

double Fma64(double a, double b, double c) { return __builtin_fma(a, b, c); }

constexpr double kRound = 0x1.8p+52;  // adding and subtracting it rounds to an integer
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPi = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;  // π/2 − kHalfPi
constexpr double kLn2Hi = 0x1.62e42fefa3800p-1;       // 42 bits: n · hi is exact
constexpr double kLn2Lo = 0x1.ef35793c76730p-45;
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;

/// Σ sign^k · z^k / ((first)(first + 1)…): Taylor terms of sin and cos in z = r².
double Alternating(double z, int first, int terms) {
  // Horner from the innermost term: 1 − z/(a(a+1)) · (1 − z/((a+2)(a+3)) · …).
  double p = 1.0;
  for (int k = terms - 1; k >= 0; --k) {
    const double d = static_cast<double>((first + 2 * k) * (first + 2 * k + 1));
    p = Fma64(-(z / d), p, 1.0);
  }
  return p;
}

}  // namespace

SinCos SinCos64(double x) {
  const double n = Fma64(x, kTwoOverPi, kRound) - kRound;
  // The first step is exact: x and n · kHalfPi agree to within one unit and share the last bit's
  // weight; so r carries one rounding, of the second.
  double r = Fma64(-n, kHalfPi, x);
  r = Fma64(-n, kHalfPiLow, r);
  const double z = r * r;
  const double sin = r * Alternating(z, 2, 9);
  const double cos = Alternating(z, 1, 9);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

double Log64(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, 8);
  int64_t exponent = (bits >> 52) - 1022;
  bits = (bits & 0xFFFFFFFFFFFFF) | (int64_t{1022} << 52);
  double m;  // in [0.5, 1)
  std::memcpy(&m, &bits, 8);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(s) with |s| ≤ 0.1716.
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 0.0;
  for (int k = 12; k >= 1; --k) p = Fma64(p, z, 1.0 / (2 * k + 1));
  const double log_m = Fma64(2.0 * s * z, p, 2.0 * s);
  const double n = static_cast<double>(exponent);
  return Fma64(n, kLn2Hi, Fma64(n, kLn2Lo, log_m));
}

double Exp64(double x) {
  const double n = Fma64(x, kLog2E, kRound) - kRound;
  double f = Fma64(-n, kLn2Hi, x);
  f = Fma64(-n, kLn2Lo, f);
  double p = 1.0;
  for (int k = 15; k >= 1; --k) p = Fma64(f / k, p, 1.0);
  const int64_t bits = (static_cast<int64_t>(n) + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, 8);
  return p * power;
}

double Pow64(double base, double exponent) { return Exp64(exponent * Log64(base)); }

}  // namespace ballast
KERNEL_END
