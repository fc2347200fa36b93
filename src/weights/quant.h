// Role: the reference reading of every block format: file bytes to fp32. Tests and tools use it;
// the kernels read packed panels instead (pack.h). Thread: pure. Source of the block formats: the
// GGUF specification (ggml-org/ggml); docs/formats/gguf-subset.md writes them out.
#ifndef BALLAST_WEIGHTS_QUANT_H_
#define BALLAST_WEIGHTS_QUANT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ballast {

/// IEEE binary16 to binary32, exact; every body converts alike, with or without F16C.
constexpr float F16ToF32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  // A subnormal half is mantissa · 2^-24, a normal float.
  const float value = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// The upper half of a binary32.
constexpr float BF16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// binary32 to binary16, round to nearest even; overflow gives infinity, NaN stays NaN.
uint16_t F32ToF16(float value);
/// binary32 to bfloat16, round to nearest even.
uint16_t F32ToBF16(float value);

/// Dequantises n elements (a multiple of the type's block) at `bytes` (any alignment) into out [n].
/// Each value is a product of fp32 factors and at most one subtraction or addition, each rounded.
void DequantizeBlocks(DType type, const std::byte* bytes, int64_t n, float* out);

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_QUANT_H_
