// Role: random weight matrices for the tests and benches of linear layers, packed here
// independently of src/weights and of the kernels' decoding, straight from
// docs/formats/packed-panels.md. Test code only; header-only so that it is in no library.
#ifndef BALLAST_KERNELS_LINEAR_TESTING_H_
#define BALLAST_KERNELS_LINEAR_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/linear.h"

namespace ballast::linear_testing {

/// Which corner of the number space a matrix or an input explores.
enum class Corner { kOrdinary, kLargest, kSubnormal, kZeros, kExtremeCodes, kMixed };

/// The f16 number nearest below |value| in magnitude, for scales; exact for what tests use.
inline double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// A random finite f16.
inline uint16_t RandomHalf(Rng& rng, Corner corner) {
  const auto sign = static_cast<uint16_t>(rng.Below(2) << 15);
  if (corner == Corner::kMixed) corner = static_cast<Corner>(rng.Below(4));
  switch (corner) {
    case Corner::kLargest:
      return static_cast<uint16_t>(sign | 0x7BFF);
    case Corner::kSubnormal:
      return static_cast<uint16_t>(sign | rng.Below(1024));
    case Corner::kZeros:
      return rng.Below(2) == 0 ? sign : static_cast<uint16_t>(sign | 0x2000 | rng.Below(1024));
    default:  // about 2^-10 … 2^-5
      return static_cast<uint16_t>(sign | ((5 + rng.Below(5)) << 10) | rng.Below(1024));
  }
}

/// A matrix with its logical contents beside the packed bytes.
struct TestMatrix {
  PackedMatrix packed;
  std::vector<double> value;  // [rows, cols]
  std::vector<std::byte> bytes;

  std::byte* Panel(int row) {
    return const_cast<std::byte*>(packed.data) +
           static_cast<size_t>(row / kPanelRows) * packed.panel_bytes();
  }
};

inline void Put(std::byte* at, uint32_t bits) { *at |= static_cast<std::byte>(bits); }
inline void PutHalf(std::byte* base, int index, uint16_t half) {
  std::memcpy(base + 2 * index, &half, 2);
}

struct Codes {
  int low, high;  // range, inclusive
};
inline Codes CodeRange(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return {-128, 127};
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      return {0, 31};
    case DType::kQ6_K:
      return {0, 63};
    default:
      return {0, 15};
  }
}

inline int RandomCode(Rng& rng, DType type, Corner corner) {
  const Codes range = CodeRange(type);
  if (corner == Corner::kExtremeCodes) return rng.Below(8) == 0 ? range.high : range.low;
  if (corner == Corner::kLargest) return range.high;
  return range.low + static_cast<int>(rng.Below(static_cast<uint64_t>(range.high - range.low + 1)));
}

inline void PutNibble(std::byte* codes, int group, int r, int c, int q) {
  Put(codes + 512 * (group / 2) + 64 * (c / 4) + 4 * r + c % 4, static_cast<uint32_t>(q & 15)
                                                                    << (4 * (group % 2)));
}
inline void PutFifth(std::byte* bits, int group, int r, int c, int q) {
  Put(bits + 64 * group + 4 * r + c % 4, static_cast<uint32_t>(q >> 4 & 1) << (c / 4));
}

/// Fills one row's group of 32 in formats whose unit is 64 columns.
inline void FillGroup32(TestMatrix* m, std::byte* unit, int row, int g, int k, Rng& rng,
                        Corner corner) {
  const DType type = m->packed.type;
  const int r = row % kPanelRows;
  const bool minimum = type == DType::kQ4_1 || type == DType::kQ5_1;
  const int zero = type == DType::kQ4_0 ? 8 : type == DType::kQ5_0 ? 16 : 0;
  std::byte* codes = unit + (minimum ? 128 : 64);
  const uint16_t d = RandomHalf(rng, corner);
  const uint16_t min = RandomHalf(rng, corner);
  PutHalf(unit, 16 * g + r, d);
  if (minimum) PutHalf(unit + 64, 16 * g + r, min);
  for (int c = 0; c < kGroup; ++c) {
    const int q = RandomCode(rng, type, corner);
    if (type == DType::kQ8_0) {
      codes[512 * g + 64 * (c / 4) + 4 * r + c % 4] = static_cast<std::byte>(q);
    } else {
      PutNibble(codes, g, r, c, q);
      if (type == DType::kQ5_0 || type == DType::kQ5_1) PutFifth(codes + 512, g, r, c, q);
    }
    m->value[static_cast<size_t>(row) * static_cast<size_t>(m->packed.cols) +
             static_cast<size_t>(k + c)] =
        HalfValue(d) * (q - zero) + (minimum ? HalfValue(min) : 0.0);
  }
}

/// Fills one row's super-block of 256 of a K-quant.
inline void FillKQuant(TestMatrix* m, std::byte* unit, int row, int k, Rng& rng, Corner corner) {
  const DType type = m->packed.type;
  const int r = row % kPanelRows;
  const bool six = type == DType::kQ6_K;
  const uint16_t d = RandomHalf(rng, corner), dmin = RandomHalf(rng, corner);
  const bool extreme = corner == Corner::kExtremeCodes || corner == Corner::kLargest;
  PutHalf(unit, r, d);
  if (!six) PutHalf(unit + 32, r, dmin);
  for (int g = 0; g < kBlockGroups; ++g) {
    const int mn = extreme ? 63 : static_cast<int>(rng.Below(64));
    if (!six) Put(unit + 192 + 16 * g + r, static_cast<uint32_t>(mn));
    int sc = 0;
    for (int c = 0; c < kGroup; ++c) {
      if (six && c % 16 == 0) {
        sc = extreme ? -128 : static_cast<int>(rng.Below(256)) - 128;
        Put(unit + 64 + 16 * (2 * g + c / 16) + r, static_cast<uint32_t>(sc) & 255);
      } else if (!six && c == 0) {
        sc = extreme ? 63 : static_cast<int>(rng.Below(64));
        Put(unit + 64 + 16 * g + r, static_cast<uint32_t>(sc));
      }
      const int q = RandomCode(rng, type, corner);
      PutNibble(unit + 320, g, r, c, q);
      if (type == DType::kQ5_K) PutFifth(unit + 320 + 2048, g, r, c, q);
      if (six) {
        Put(unit + 320 + 2048 + 64 * (2 * g + c / 16) + 4 * r + c % 4, static_cast<uint32_t>(q >> 4)
                                                                           << (2 * (c % 16 / 4)));
      }
      m->value[static_cast<size_t>(row) * static_cast<size_t>(m->packed.cols) +
               static_cast<size_t>(k + g * kGroup + c)] =
          six ? HalfValue(d) * sc * (q - 32) : HalfValue(d) * sc * q - HalfValue(dmin) * mn;
    }
  }
}

inline void FillFloatRow(TestMatrix* m, std::byte* panel, int row, Rng& rng, Corner corner) {
  const DType type = m->packed.type;
  const int r = row % kPanelRows, cols = m->packed.cols;
  for (int k = 0; k < cols; ++k) {
    double* value =
        &m->value[static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(k)];
    if (type == DType::kF16) {
      const uint16_t half = RandomHalf(rng, corner);
      PutHalf(panel, 16 * k + r, half);
      *value = HalfValue(half);
      continue;
    }
    float number = rng.Uniform() * 2 - 1;
    if (corner == Corner::kSubnormal) number *= 0x1p-127f;
    if (corner == Corner::kLargest) number *= 0x1p100f;
    uint32_t bits;
    std::memcpy(&bits, &number, 4);
    if (type == DType::kBF16) {
      PutHalf(panel, 16 * k + r, static_cast<uint16_t>(bits >> 16));
      bits &= 0xFFFF0000u;
      std::memcpy(&number, &bits, 4);
    } else {
      std::memcpy(panel + 64 * static_cast<size_t>(k) + 4 * r, &number, 4);
    }
    *value = number;
  }
}

/// The padding code that means zero (docs/formats/packed-panels.md) is irrelevant to results
/// because scale and minimum are 0 there; tests leave the bytes 0.
inline TestMatrix MakeMatrix(DType type, int rows, int cols, Rng& rng, Corner corner) {
  TestMatrix m;
  m.packed.type = type;
  m.packed.rows = rows;
  m.packed.cols = cols;
  m.value.resize(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  m.bytes.assign(m.packed.bytes() + 64, std::byte{0});
  const auto address = reinterpret_cast<uintptr_t>(m.bytes.data());
  m.packed.data = m.bytes.data() + (64 - address % 64) % 64;
  for (int row = 0; row < rows; ++row) {
    if (IsFloat(type)) {
      FillFloatRow(&m, m.Panel(row), row, rng, corner);
      continue;
    }
    const PackedUnit unit = Unit(type);
    for (int k = 0; k < cols; k += unit.columns == 256 ? 256 : kGroup) {
      std::byte* at = m.Panel(row) + static_cast<size_t>(k / unit.columns * unit.bytes);
      if (unit.columns == 256) {
        FillKQuant(&m, at, row, k, rng, corner);
      } else {
        FillGroup32(&m, at, row, k % 64 / kGroup, k, rng, corner);
      }
    }
  }
  return m;
}

/// Random inputs [rows, cols].
inline std::vector<float> MakeInput(int64_t rows, int64_t cols, Rng& rng, Corner corner) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  float factor = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 32 == 0) {
      const Corner now = corner == Corner::kMixed ? static_cast<Corner>(rng.Below(4)) : corner;
      factor = now == Corner::kLargest     ? 0x1p90f
               : now == Corner::kSubnormal ? 0x1p-126f
               : now == Corner::kZeros     ? (rng.Below(3) == 0 ? 1.0f : 0.0f)
                                           : 1.0f;
    }
    float value = rng.Uniform() * 2 - 1;
    if (corner == Corner::kExtremeCodes) value = value < 0 ? -1.0f : 1.0f;
    x[i] = value * factor;
  }
  return x;
}

}  // namespace ballast::linear_testing

#endif  // BALLAST_KERNELS_LINEAR_TESTING_H_
