// Role: the reference bodies of row operations: docs/arithmetic.md in scalar code.
// Thread: pure. Invariants: every other body gives these bits.
#include <algorithm>
#include <cmath>

#include "kernels/ref/math.h"
#include "kernels/rows.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_REF)
namespace ballast {
namespace ref {
namespace {

void RmsNorm(const float* x, const float* w, float eps, int64_t n, float* y) noexcept {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] = Fma(x[i], x[i], lanes[i % 16]);
  const float mean = TreeSum(lanes) / static_cast<float>(n);
  const float r = 1.0f / __builtin_sqrtf(mean + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * r) * w[i];
}

void Rope(float* x, int32_t heads, int32_t head_dim, RopeKind kind, int32_t rotary_dim,
          const float* cos_sin) noexcept {
  const int32_t half = rotary_dim / 2;
  for (int32_t h = 0; h < heads; ++h, x += head_dim) {
    for (int32_t i = 0; i < half; ++i) {
      float* a = kind == RopeKind::kNeox ? x + i : x + 2 * i;
      float* b = kind == RopeKind::kNeox ? x + i + half : x + 2 * i + 1;
      const float c = cos_sin[i], s = cos_sin[half + i], x0 = *a, x1 = *b;
      *a = Fma(x0, c, -(x1 * s));
      *b = Fma(x1, c, x0 * s);
    }
  }
}

void Gated(Activation act, const float* gate, const float* up, int64_t n, float* y) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (act == Activation::kSilu ? Silu(gate[i]) : GeluTanh(gate[i])) * up[i];
  }
}

void Add(const float* x, int64_t n, float* y) noexcept {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void Scale(float factor, int64_t n, float* x) noexcept {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

float Max(const float* x, int64_t n) noexcept {
  float max = x[0];
  for (int64_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

float SumExp(const float* x, int64_t n, float max) noexcept {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] += Exp(x[i] - max);
  return TreeSum(lanes);
}

int64_t FindAbove(const float* x, int64_t begin, int64_t n, float threshold) noexcept {
  while (begin < n && !(x[begin] > threshold)) ++begin;
  return begin;
}

}  // namespace
}  // namespace ref

const RowTable kRowsRef = {ref::RmsNorm, ref::Rope, ref::Gated,  ref::Add,
                           ref::Scale,   ref::Max,  ref::SumExp, ref::FindAbove};

}  // namespace ballast
KERNEL_END
