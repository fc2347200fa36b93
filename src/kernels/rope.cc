// Role: RoPE tables. Computed once at load in binary64 (kernels/math.h) and rounded to binary32.
// Thread: immutable after construction.
#include <algorithm>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/math.h"

namespace ballast {

RopeTable::RopeTable(int32_t rotary_dim, double theta, double linear_scale,
                     std::span<const float> freq_factors, int64_t max_positions)
    : rotary_dim_(rotary_dim), max_positions_(max_positions) {
  CHECK(rotary_dim > 0 && rotary_dim % 2 == 0 && max_positions > 0 && theta > 0);
  const int32_t half = rotary_dim / 2;
  CHECK(freq_factors.empty() || freq_factors.size() == static_cast<size_t>(half));
  rows_ = std::make_unique<float[]>(static_cast<size_t>(max_positions) *
                                    static_cast<size_t>(rotary_dim));
  for (int32_t i = 0; i < half; ++i) {
    double frequency = Pow64(theta, -2.0 * i / rotary_dim) / linear_scale;
    if (!freq_factors.empty()) {
      frequency = frequency / static_cast<double>(freq_factors[static_cast<size_t>(i)]);
    }
    float* out = rows_.get() + i;
    for (int64_t p = 0; p < max_positions; ++p, out += rotary_dim) {
      const SinCos value = SinCos64(static_cast<double>(p) * frequency);
      out[0] = static_cast<float>(value.cos);
      out[half] = static_cast<float>(value.sin);
    }
  }
}

const float* RopeTable::Row(int64_t position) const {
  CHECK(position >= 0 && position < max_positions_);
  return rows_.get() + position * rotary_dim_;
}

}  // namespace ballast
