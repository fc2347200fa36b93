// Round-to-nearest quantisers of every block format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tools/make_model_lib.h"
#include "weights/quant.h"

namespace ballast {
namespace {

struct Writer {
  uint8_t* at;
  void U8(int value) { *at++ = static_cast<uint8_t>(value); }
  void Half(float value) {
    const uint16_t half = F32ToF16(value);
    std::memcpy(at, &half, 2);
    at += 2;
  }
};

float AsHalf(float value) { return F16ToF32(F32ToF16(value)); }

// The value of largest magnitude, with its sign: it gets the code farthest from zero.
float Extreme(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

int Code(float value, float scale, int low, int high) {
  if (scale == 0) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::nearbyint(value / scale)), low, high);
}

void StoreNibbles(const int (&codes)[32], Writer* out) {
  for (int i = 0; i < 16; ++i) out->U8((codes[i] & 15) | ((codes[i + 16] & 15) << 4));
}

void StoreFifth(const int (&codes)[32], Writer* out) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  std::memcpy(out->at, &bits, 4);
  out->at += 4;
}

// Q4_0 and Q5_0: codes 0 to 2·zero − 1 around `zero`.
void QuantizeSymmetric(const float* x, int zero, bool fifth, Writer* out) {
  const float d = AsHalf(Extreme(x, 32) / static_cast<float>(-zero));
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = Code(x[i], d, -zero, zero - 1) + zero;
  out->Half(d);
  if (fifth) StoreFifth(codes, out);
  StoreNibbles(codes, out);
}

// Q4_1 and Q5_1: codes 0 to `top` above the minimum.
void QuantizeWithMin(const float* x, int top, bool fifth, Writer* out) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float m = AsHalf(*low);
  const float d = AsHalf((*high - *low) / static_cast<float>(top));
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = Code(x[i] - m, d, 0, top);
  out->Half(d);
  out->Half(m);
  if (fifth) StoreFifth(codes, out);
  StoreNibbles(codes, out);
}

void QuantizeQ8_0(const float* x, Writer* out) {
  const float d = AsHalf(std::fabs(Extreme(x, 32)) / 127);
  out->Half(d);
  for (int i = 0; i < 32; ++i) out->U8(Code(x[i], d, -127, 127));
}

// The 12 bytes of eight 6-bit scales and minimums.
void StoreScales(const int (&scales)[8], const int (&minimums)[8], Writer* out) {
  uint8_t packed[12] = {};
  for (int g = 0; g < 4; ++g) {
    packed[g] = static_cast<uint8_t>(scales[g] | ((scales[g + 4] >> 4) << 6));
    packed[g + 4] = static_cast<uint8_t>(minimums[g] | ((minimums[g + 4] >> 4) << 6));
    packed[g + 8] = static_cast<uint8_t>((scales[g + 4] & 15) | ((minimums[g + 4] & 15) << 4));
  }
  std::memcpy(out->at, packed, sizeof(packed));
  out->at += sizeof(packed);
}

void QuantizeQ45_K(const float* x, bool fifth, Writer* out) {
  const int top = fifth ? 31 : 15;
  float scale[8], minimum[8], max_scale = 0, max_minimum = 0;
  for (int g = 0; g < 8; ++g) {
    const auto [low, high] = std::minmax_element(x + 32 * g, x + 32 * g + 32);
    minimum[g] = std::max(0.0f, -*low);  // dmin · mn is subtracted, so it cannot be negative
    scale[g] = std::max(0.0f, *high + minimum[g]) / static_cast<float>(top);
    max_scale = std::max(max_scale, scale[g]);
    max_minimum = std::max(max_minimum, minimum[g]);
  }
  const float d = AsHalf(max_scale / 63), dmin = AsHalf(max_minimum / 63);
  int scales[8], minimums[8], codes[256];
  for (int g = 0; g < 8; ++g) {
    scales[g] = Code(scale[g], d, 0, 63);
    minimums[g] = Code(minimum[g], dmin, 0, 63);
    const float ds = d * static_cast<float>(scales[g]);
    const float ms = dmin * static_cast<float>(minimums[g]);
    for (int i = 32 * g; i < 32 * g + 32; ++i) codes[i] = Code(x[i] + ms, ds, 0, top);
  }
  out->Half(d);
  out->Half(dmin);
  StoreScales(scales, minimums, out);
  if (fifth) {
    for (int l = 0; l < 32; ++l) {
      int bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (codes[32 * g + l] >> 4) << g;
      out->U8(bits);
    }
  }
  for (int pair = 0; pair < 4; ++pair) {
    const int* low = codes + 64 * pair;
    for (int l = 0; l < 32; ++l) out->U8((low[l] & 15) | ((low[l + 32] & 15) << 4));
  }
}

void QuantizeQ6_K(const float* x, Writer* out) {
  float scale[16], max_scale = 0;
  for (int g = 0; g < 16; ++g) {
    scale[g] = Extreme(x + 16 * g, 16) / -32;
    max_scale = std::max(max_scale, std::fabs(scale[g]));
  }
  const float d = AsHalf(max_scale / 127);
  int scales[16], codes[256];
  for (int g = 0; g < 16; ++g) {
    scales[g] = Code(scale[g], d, -127, 127);
    const float ds = d * static_cast<float>(scales[g]);
    for (int i = 16 * g; i < 16 * g + 16; ++i) codes[i] = Code(x[i], ds, -32, 31) + 32;
  }
  for (int half = 0; half < 2; ++half) {
    const int* c = codes + 128 * half;
    for (int l = 0; l < 64; ++l) out->U8((c[l] & 15) | ((c[l + 64] & 15) << 4));
  }
  for (int half = 0; half < 2; ++half) {
    const int* c = codes + 128 * half;
    for (int l = 0; l < 32; ++l) {
      out->U8((c[l] >> 4) | ((c[l + 32] >> 4) << 2) | ((c[l + 64] >> 4) << 4) |
              ((c[l + 96] >> 4) << 6));
    }
  }
  for (const int value : scales) out->U8(value);
  out->Half(d);
}

void QuantizeBlock(DType type, const float* x, Writer* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out->at, x, 4);
      out->at += 4;
      return;
    case DType::kF16:
      return out->Half(*x);
    case DType::kBF16: {
      const uint16_t bits = F32ToBF16(*x);
      std::memcpy(out->at, &bits, 2);
      out->at += 2;
      return;
    }
    case DType::kQ8_0:
      return QuantizeQ8_0(x, out);
    case DType::kQ4_0:
      return QuantizeSymmetric(x, 8, false, out);
    case DType::kQ4_1:
      return QuantizeWithMin(x, 15, false, out);
    case DType::kQ5_0:
      return QuantizeSymmetric(x, 16, true, out);
    case DType::kQ5_1:
      return QuantizeWithMin(x, 31, true, out);
    case DType::kQ4_K:
      return QuantizeQ45_K(x, false, out);
    case DType::kQ5_K:
      return QuantizeQ45_K(x, true, out);
    case DType::kQ6_K:
      return QuantizeQ6_K(x, out);
  }
}

}  // namespace

std::vector<std::byte> QuantizeBlocks(DType type, std::span<const float> values) {
  const auto block = static_cast<size_t>(Info(type).block_elements);
  CHECK(values.size() % block == 0);
  std::vector<std::byte> bytes(values.size() / block * static_cast<size_t>(Info(type).block_bytes));
  Writer out{reinterpret_cast<uint8_t*>(bytes.data())};
  for (size_t i = 0; i < values.size(); i += block) QuantizeBlock(type, &values[i], &out);
  CHECK(out.at == reinterpret_cast<uint8_t*>(bytes.data()) + bytes.size());
  return bytes;
}

uint32_t GgufTypeNumber(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 6;
    case DType::kQ5_1:
      return 7;
    case DType::kQ8_0:
      return 8;
    case DType::kQ4_K:
      return 12;
    case DType::kQ5_K:
      return 13;
    case DType::kQ6_K:
      return 14;
    case DType::kBF16:
      return 30;
  }
  return 0;
}

}  // namespace ballast
