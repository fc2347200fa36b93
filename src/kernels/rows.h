// Role: operations on single rows inside src/kernels: the functions that one ISA supplies.
// Thread: table functions are pure and run on any thread. Invariants: docs/arithmetic.md, bit for
// bit.
#ifndef BALLAST_KERNELS_ROWS_H_
#define BALLAST_KERNELS_ROWS_H_

#include <cstdint>

#include "kernels/kernels.h"
#include "platform/cpu.h"

namespace ballast {

/// The bodies of one ISA. n is any size; arrays need no alignment.
struct RowTable {
  /// y = x / sqrt(mean(x²) + eps) · w; y may equal x.
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t n, float* y) noexcept;
  /// Rotates `heads` heads of head_dim in place; cos_sin as RopeTable::Row.
  void (*rope)(float* x, int32_t heads, int32_t head_dim, RopeKind kind, int32_t rotary_dim,
               const float* cos_sin) noexcept;
  void (*gated)(Activation act, const float* gate, const float* up, int64_t n, float* y) noexcept;
  void (*add)(const float* x, int64_t n, float* y) noexcept;
  void (*scale)(float factor, int64_t n, float* x) noexcept;
  /// The maximum of n ≥ 1 values.
  float (*max)(const float* x, int64_t n) noexcept;
  /// Σ exp(x − max) by the 16-lane tree.
  float (*sum_exp)(const float* x, int64_t n, float max) noexcept;
  /// The first index in [begin, n) with x > threshold, or n.
  int64_t (*find_above)(const float* x, int64_t begin, int64_t n, float threshold) noexcept;
};

const RowTable& RowTableFor(Isa isa);

extern const RowTable kRowsRef;
extern const RowTable kRowsAvx2;
extern const RowTable kRowsAvx512;

}  // namespace ballast

#endif  // BALLAST_KERNELS_ROWS_H_
