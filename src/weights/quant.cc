#include "weights/quant.h"

#include <cstring>

#include "base/check.h"

namespace ballast {
namespace {

uint16_t Load16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint32_t Load32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Blocks of 32. Low nibbles are elements 0 to 15, high nibbles 16 to 31.
// Q4_0: d, 16 bytes. Q4_1: d, m, 16 bytes.
// Q5_0: d, 32 fifth bits, 16 bytes. Q5_1: d, m, 32 fifth bits, 16 bytes.
void Dequantize32(DType type, const uint8_t* block, float* out) {
  const bool has_min = type == DType::kQ4_1 || type == DType::kQ5_1;
  const bool has_fifth = type == DType::kQ5_0 || type == DType::kQ5_1;
  const float d = F16ToF32(Load16(block));
  const uint8_t* rest = block + 2;
  float m = 0;
  if (has_min) {
    m = F16ToF32(Load16(rest));
    rest += 2;
  }
  uint32_t fifth = 0;
  if (has_fifth) {
    fifth = Load32(rest);
    rest += 4;
  }
  const int zero = type == DType::kQ4_0 ? 8 : type == DType::kQ5_0 ? 16 : 0;
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? rest[i] & 15 : rest[i - 16] >> 4;
    const int code = low | static_cast<int>((fifth >> i) & 1u) << 4;
    const float product = d * static_cast<float>(code - zero);
    out[i] = has_min ? product + m : product;
  }
}

// d, 32 signed bytes.
void DequantizeQ8_0(const uint8_t* block, float* out) {
  const float d = F16ToF32(Load16(block));
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// The 6-bit scale and minimum of group g, packed into 12 bytes.
void UnpackScale(const uint8_t* packed, int g, int* scale, int* minimum) {
  if (g < 4) {
    *scale = packed[g] & 63;
    *minimum = packed[g + 4] & 63;
  } else {
    *scale = (packed[g + 4] & 15) | ((packed[g - 4] >> 6) << 4);
    *minimum = (packed[g + 4] >> 4) | ((packed[g] >> 6) << 4);
  }
}

// Q4_K: d, dmin, 12 bytes of scales, 128 bytes of codes. Q5_K: 32 bytes of fifth bits before the
// codes, bit g of byte l for element l of group g.
void DequantizeQ45_K(DType type, const uint8_t* block, float* out) {
  const float d = F16ToF32(Load16(block));
  const float dmin = F16ToF32(Load16(block + 2));
  const uint8_t* fifth = type == DType::kQ5_K ? block + 16 : nullptr;
  const uint8_t* codes = block + (fifth != nullptr ? 48 : 16);
  for (int g = 0; g < 8; ++g) {
    int scale = 0, minimum = 0;
    UnpackScale(block + 4, g, &scale, &minimum);
    const float ds = d * static_cast<float>(scale);
    const float ms = dmin * static_cast<float>(minimum);
    for (int l = 0; l < 32; ++l) {
      const uint8_t byte = codes[32 * (g / 2) + l];
      int code = g % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth != nullptr) code |= ((fifth[l] >> g) & 1) << 4;
      out[32 * g + l] = ds * static_cast<float>(code) - ms;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high pairs, 16 signed scales, d. Each half of 128 elements:
// nibbles low 0–31, low 32–63, high 0–31, high 32–63; pair bits 0, 2, 4, 6 of byte l.
void DequantizeQ6_K(const uint8_t* block, float* out) {
  const float d = F16ToF32(Load16(block + 208));
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, l = e % 32;
    const uint8_t byte = block[64 * half + 32 * (quarter % 2) + l];
    const int low = quarter < 2 ? byte & 15 : byte >> 4;
    const int high = (block[128 + 32 * half + l] >> (2 * quarter)) & 3;
    const float ds = d * static_cast<float>(static_cast<int8_t>(block[192 + e / 16]));
    out[e] = ds * static_cast<float>((low | (high << 4)) - 32);
  }
}

void DequantizeBlock(DType type, const uint8_t* block, float* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, block, 4);
      break;
    case DType::kF16:
      *out = F16ToF32(Load16(block));
      break;
    case DType::kBF16:
      *out = BF16ToF32(Load16(block));
      break;
    case DType::kQ8_0:
      DequantizeQ8_0(block, out);
      break;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
      Dequantize32(type, block, out);
      break;
    case DType::kQ4_K:
    case DType::kQ5_K:
      DequantizeQ45_K(type, block, out);
      break;
    case DType::kQ6_K:
      DequantizeQ6_K(block, out);
      break;
  }
}

}  // namespace

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // ≥ 65520
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 aligns the mantissa to 2^-24 with the FPU's own rounding.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void DequantizeBlocks(DType type, const std::byte* bytes, int64_t n, float* out) {
  const DTypeInfo& info = Info(type);
  CHECK(n >= 0 && n % info.block_elements == 0);
  const auto* block = reinterpret_cast<const uint8_t*>(bytes);
  for (int64_t i = 0; i < n; i += info.block_elements) {
    DequantizeBlock(type, block, out + i);
    block += info.block_bytes;
  }
}

}  // namespace ballast
