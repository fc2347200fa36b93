// Role: UNROLL before a loop with a constant count unrolls it whole, so that arrays of vectors
// become registers with both compilers.
#ifndef BALLAST_KERNELS_UNROLL_H_
#define BALLAST_KERNELS_UNROLL_H_

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif  // BALLAST_KERNELS_UNROLL_H_
