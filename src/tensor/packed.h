// Role: the packed-panel layout of weight matrices: what the loader writes and every kernel reads.
// docs/formats/packed-panels.md is the normative description, byte by byte.
// Invariants: panels hold 16 output rows; every unit starts on a 64-byte line; rows and columns
// beyond the matrix are zero weights (scale 0), so kernels need no tails.
#ifndef BALLAST_TENSOR_PACKED_H_
#define BALLAST_TENSOR_PACKED_H_

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace ballast {

inline constexpr int kPanelRows = 16;

/// Columns per unit: 64 for the formats with groups of 32, 256 for K-quants, 1 for floats.
/// Unit sizes in bytes (docs/formats/packed-panels.md):
///   F32 64, F16/BF16 32 a column;
///   Q4_0 576, Q4_1 640, Q5_0 704, Q5_1 768, Q8_0 1,088 a 64 columns;
///   Q4_K 2,368, Q5_K 2,880, Q6_K 3,392 a 256 columns.
struct PackedUnit {
  int32_t columns;
  int32_t bytes;
};

inline constexpr PackedUnit kPackedUnit[kDTypeCount] = {
    {1, 64},   {1, 32},   {1, 32},     {64, 1088},  {64, 576},   {64, 640},
    {64, 704}, {64, 768}, {256, 2368}, {256, 2880}, {256, 3392},
};

constexpr const PackedUnit& Unit(DType type) { return kPackedUnit[static_cast<int>(type)]; }

/// A packed matrix [rows, cols]: y[rows] = W · x[cols]. Does not own `data`.
/// Panel p holds rows [16p, 16p + 16) and starts at data + p · panel_bytes().
struct PackedMatrix {
  DType type = DType::kF32;
  int32_t rows = 0;
  int32_t cols = 0;
  const std::byte* data = nullptr;

  int32_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int32_t units() const { return (cols + Unit(type).columns - 1) / Unit(type).columns; }
  /// Columns with padding: units() · unit columns.
  int32_t padded_cols() const { return units() * Unit(type).columns; }
  /// Rounded up to 64 so that panels start on lines for float types too.
  size_t panel_bytes() const {
    return (static_cast<size_t>(units()) * static_cast<size_t>(Unit(type).bytes) + 63) / 64 * 64;
  }
  size_t bytes() const { return static_cast<size_t>(panels()) * panel_bytes(); }
};

}  // namespace ballast

#endif  // BALLAST_TENSOR_PACKED_H_
