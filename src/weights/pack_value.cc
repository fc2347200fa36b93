// PackedValue: packed-panels.md read element by element, with none of the packer's code, so that
// the tests compare two independent readings of the format.
#include <cstring>

#include "base/check.h"
#include "weights/pack.h"
#include "weights/quant.h"

namespace ballast {
namespace {

struct UnitView {
  const uint8_t* bytes;
  int r;  // row within the panel

  uint8_t U8(int offset) const { return bytes[offset]; }
  int S8(int offset) const { return static_cast<int8_t>(bytes[offset]); }
  float F16(int offset) const {
    uint16_t half;
    std::memcpy(&half, bytes + offset, 2);
    return F16ToF32(half);
  }
  // Byte of column `col` in the vectors from `offset`: vector col / 4, byte 4r + col % 4.
  uint8_t Vector(int offset, int col) const {
    return bytes[offset + 64 * (col / 4) + 4 * r + col % 4];
  }
  int Nibble(int offset, int group, int col) const {
    const uint8_t byte = Vector(offset, col);
    return group == 0 ? byte & 15 : byte >> 4;
  }
  // One vector a group: bit col / 4 of byte 4r + col % 4.
  int Fifth(int offset, int group, int col) const {
    return (bytes[offset + 64 * group + 4 * r + col % 4] >> (col / 4)) & 1;
  }
};

float Value32(DType type, const UnitView& unit, int col) {
  const int g = col / 32, c = col % 32;
  const float d = unit.F16(32 * g + 2 * unit.r);
  if (type == DType::kQ8_0)
    return d * static_cast<float>(static_cast<int8_t>(unit.Vector(64, col)));
  const bool has_min = type == DType::kQ4_1 || type == DType::kQ5_1;
  const bool has_fifth = type == DType::kQ5_0 || type == DType::kQ5_1;
  const int codes = has_min ? 128 : 64;
  int q = unit.Nibble(codes, g, c);
  if (has_fifth) q |= unit.Fifth(codes + 512, g, c) << 4;
  if (type == DType::kQ4_0) q -= 8;
  if (type == DType::kQ5_0) q -= 16;
  const float product = d * static_cast<float>(q);
  return has_min ? product + unit.F16(64 + 32 * g + 2 * unit.r) : product;
}

float ValueK(DType type, const UnitView& unit, int col) {
  const int g = col / 32, c = col % 32;
  const float d = unit.F16(2 * unit.r);
  int q = unit.Nibble(320 + 512 * (g / 2), g % 2, c);
  if (type == DType::kQ6_K) {
    const int t = c / 16, i = c % 16 / 4;
    const uint8_t byte = unit.U8(320 + 2048 + 64 * (2 * g + t) + 4 * unit.r + c % 4);
    q |= ((byte >> (2 * i)) & 3) << 4;
    const float scale = static_cast<float>(unit.S8(64 + 16 * (2 * g + t) + unit.r));
    return (d * scale) * static_cast<float>(q - 32);
  }
  if (type == DType::kQ5_K) q |= unit.Fifth(320 + 2048, g, c) << 4;
  const float scale = static_cast<float>(unit.U8(64 + 16 * g + unit.r));
  const float minimum = static_cast<float>(unit.U8(192 + 16 * g + unit.r));
  return (d * scale) * static_cast<float>(q) - unit.F16(32 + 2 * unit.r) * minimum;
}

}  // namespace

float PackedValue(const PackedMatrix& matrix, int32_t row, int32_t col) {
  CHECK(0 <= row && row < matrix.panels() * kPanelRows);
  CHECK(0 <= col && col < matrix.padded_cols());
  const PackedUnit unit = Unit(matrix.type);
  const auto* panel = reinterpret_cast<const uint8_t*>(matrix.data) +
                      static_cast<size_t>(row / kPanelRows) * matrix.panel_bytes();
  const UnitView view{
      panel + static_cast<size_t>(col / unit.columns) * static_cast<size_t>(unit.bytes),
      row % kPanelRows};
  float value;
  switch (matrix.type) {
    case DType::kF32:
      std::memcpy(&value, view.bytes + 4 * view.r, 4);
      return value;
    case DType::kF16:
      return view.F16(2 * view.r);
    case DType::kBF16: {
      uint16_t bits;
      std::memcpy(&bits, view.bytes + 2 * view.r, 2);
      return BF16ToF32(bits);
    }
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
      return Value32(matrix.type, view, col % unit.columns);
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return ValueK(matrix.type, view, col % unit.columns);
  }
  return 0;
}

}  // namespace ballast
