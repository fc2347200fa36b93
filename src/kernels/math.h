// Role: deterministic binary64 functions for tables and log-probabilities (docs/arithmetic.md).
// Thread: pure. Invariants: only + − × ÷ and fma, no libm; scalar, not for hot loops.
#ifndef BALLAST_KERNELS_MATH_H_
#define BALLAST_KERNELS_MATH_H_

namespace ballast {

struct SinCos {
  double sin;
  double cos;
};

/// |x| ≤ 2^31 radians; within 2e-16 of the exact values up to 1e6 or so (plus the input's own
/// error).
SinCos SinCos64(double x);

/// Natural logarithm of a positive normal number; relative error about 2e-16.
double Log64(double x);

/// exp(x) for |x| ≤ 700; relative error about 3e-16.
double Exp64(double x);

/// base^exponent for base > 0: Exp64(exponent · Log64(base)).
double Pow64(double base, double exponent);

}  // namespace ballast

#endif  // BALLAST_KERNELS_MATH_H_
