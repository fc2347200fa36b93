// Role: compiles a region of a file for an ISA, so that bodies live in ordinary translation units
// and no -mavx* flag can leak AVX code into inline functions that every CPU runs. Use: after ALL
// includes, and inside no namespace that outlives the region:
//   KERNEL_BEGIN(KERNEL_TARGET_AVX2)
//   namespace ballast::avx2 { ... }
//   KERNEL_END
// Keep bodies in a namespace of their ISA (two ISAs must not share an inline function's name), and
// avoid lambdas inside regions: GCC compiles some of them without the region's target.
#ifndef BALLAST_KERNELS_TARGET_H_
#define BALLAST_KERNELS_TARGET_H_

// tune=haswell: the baseline's tuning splits every unaligned 32-byte load in two.
#define KERNEL_TARGET_REF "fma,f16c"
#define KERNEL_TARGET_AVX2 "avx2,fma,f16c,bmi2,tune=haswell"
#define KERNEL_TARGET_AVX512 \
  "tune=haswell,avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi"
#define KERNEL_TARGET_AMX                                                                     \
  "tune=haswell,avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi," \
  "avx512bf16,amx-tile,amx-int8,amx-bf16"

#define KERNEL_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KERNEL_BEGIN_EXPANDED(target_list) \
  KERNEL_PRAGMA(clang attribute push(__attribute__((target(target_list))), apply_to = function))
#define KERNEL_END _Pragma("clang attribute pop")
#else
#define KERNEL_BEGIN_EXPANDED(target_list) \
  _Pragma("GCC push_options") KERNEL_PRAGMA(GCC target(target_list))
#define KERNEL_END _Pragma("GCC pop_options")
#endif
/// Functions defined until KERNEL_END are compiled for `target_list`, one of the strings above.
#define KERNEL_BEGIN(target_list) KERNEL_BEGIN_EXPANDED(target_list)

#endif  // BALLAST_KERNELS_TARGET_H_
