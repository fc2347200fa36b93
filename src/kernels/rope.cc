// Role: RoPE tables: binary64 (kernels/math.h) rounded to binary32, block by block when needed.
// Thread: see RopeTable.
#include "base/check.h"
#include "base/units.h"
#include "kernels/kernels.h"
#include "kernels/math.h"

namespace ballast {

RopeTable::RopeTable(int32_t rotary_dim, double theta, double linear_scale,
                     std::span<const float> freq_factors, int64_t max_positions)
    : rotary_dim_(rotary_dim), max_positions_(max_positions) {
  CHECK(rotary_dim > 0 && rotary_dim % 2 == 0 && max_positions > 0 && theta > 0);
  const int32_t half = rotary_dim / 2;
  CHECK(freq_factors.empty() || freq_factors.size() == static_cast<size_t>(half));
  for (int32_t i = 0; i < half; ++i) {
    double frequency = Pow64(theta, -2.0 * i / rotary_dim) / linear_scale;
    if (!freq_factors.empty()) {
      frequency = frequency / static_cast<double>(freq_factors[static_cast<size_t>(i)]);
    }
    frequencies_.push_back(frequency);
  }
  blocks_.resize(static_cast<size_t>(CeilDiv(max_positions, kBlockPositions)));
}

void RopeTable::Fill(int64_t position) const {
  CHECK(position >= 0 && position < max_positions_);
  const int64_t first = position / kBlockPositions * kBlockPositions;
  const int32_t half = rotary_dim_ / 2;
  auto rows = std::make_unique<float[]>(static_cast<size_t>(kBlockPositions * rotary_dim_));
  for (int64_t p = 0; p < kBlockPositions; ++p) {
    float* out = rows.get() + p * rotary_dim_;
    for (int32_t i = 0; i < half; ++i) {
      const SinCos value =
          SinCos64(static_cast<double>(first + p) * frequencies_[static_cast<size_t>(i)]);
      out[i] = static_cast<float>(value.cos);
      out[half + i] = static_cast<float>(value.sin);
    }
  }
  blocks_[static_cast<size_t>(first / kBlockPositions)] = std::move(rows);
}

}  // namespace ballast
