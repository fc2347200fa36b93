// Role: the reference bodies of linear layers: docs/arithmetic.md in scalar code, one operation a
// line. Every other body must give these bits. Thread: as kernels/linear.h.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/linear.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_REF)
namespace ballast {
namespace ref {
namespace {

float HalfAt(const std::byte* p, int index) {
  uint16_t bits;
  std::memcpy(&bits, p + 2 * index, 2);
  return _cvtsh_ss(bits);
}

int U8(const std::byte* p, int index) { return static_cast<int>(p[index]); }
int S8(const std::byte* p, int index) { return static_cast<int8_t>(p[index]); }

/// The weights of one panel and group: value = d · w + m.
struct Group {
  int16_t w[kGroup][kPanelRows];  // q − z; for Q6_K sc · (q − 32)
  float d[kPanelRows];
  float m[kPanelRows];
  int q[kGroup][kPanelRows];  // q − z, for DequantizeRow
};

bool HasMinimum(DType type) {
  return type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K ||
         type == DType::kQ5_K;
}

/// The 4-bit code of (group, row, column) in a run of 4-bit vectors that starts at `codes`.
int Nibble(const std::byte* codes, int group, int row, int column) {
  const int byte = U8(codes + 512 * (group / 2) + 64 * (column / 4), 4 * row + column % 4);
  return group % 2 == 0 ? byte & 15 : byte >> 4;
}

/// The fifth bit, from one vector a group.
int FifthBit(const std::byte* bits, int group, int row, int column) {
  return (U8(bits + 64 * group, 4 * row + column % 4) >> (column / 4)) & 1;
}

void DecodeGroupOf32(DType type, const std::byte* unit, int group, Group* out) {
  const bool minimum = HasMinimum(type);
  const std::byte* codes = unit + (minimum ? 128 : 64);
  const bool five = type == DType::kQ5_0 || type == DType::kQ5_1;
  const int zero = type == DType::kQ4_0 ? 8 : type == DType::kQ5_0 ? 16 : 0;
  for (int r = 0; r < kPanelRows; ++r) {
    out->d[r] = HalfAt(unit, 16 * group + r);
    out->m[r] = minimum ? HalfAt(unit + 64, 16 * group + r) : 0.0f;
    for (int c = 0; c < kGroup; ++c) {
      int q;
      if (type == DType::kQ8_0) {
        q = S8(codes + 512 * group + 64 * (c / 4), 4 * r + c % 4);
      } else {
        q = Nibble(codes, group, r, c);
        if (five) q |= FifthBit(codes + 512, group, r, c) << 4;
      }
      out->q[c][r] = q - zero;
      out->w[c][r] = static_cast<int16_t>(q - zero);
    }
  }
}

void DecodeKQuant(DType type, const std::byte* unit, int group, Group* out) {
  const std::byte* scales = unit + 64;
  const std::byte* minimums = unit + 192;
  const std::byte* codes = unit + 320;
  for (int r = 0; r < kPanelRows; ++r) {
    out->d[r] = HalfAt(unit, r) * static_cast<float>(U8(scales, 16 * group + r));
    out->m[r] = -(HalfAt(unit + 32, r) * static_cast<float>(U8(minimums, 16 * group + r)));
    for (int c = 0; c < kGroup; ++c) {
      int q = Nibble(codes, group, r, c);
      if (type == DType::kQ5_K) q |= FifthBit(codes + 2048, group, r, c) << 4;
      out->q[c][r] = q;
      out->w[c][r] = static_cast<int16_t>(q);
    }
  }
}

int Q6Scale(const std::byte* unit, int group, int row, int column) {
  return S8(unit + 64, 16 * (2 * group + column / 16) + row);
}

void DecodeQ6K(const std::byte* unit, int group, Group* out) {
  const std::byte* codes = unit + 320;
  const std::byte* high = codes + 2048;
  for (int r = 0; r < kPanelRows; ++r) {
    out->d[r] = HalfAt(unit, r);
    out->m[r] = 0;
    for (int c = 0; c < kGroup; ++c) {
      const int byte = U8(high + 64 * (2 * group + c / 16), 4 * r + c % 4);
      const int top = (byte >> (2 * ((c % 16) / 4))) & 3;
      const int q = (Nibble(codes, group, r, c) | top << 4) - 32;
      out->q[c][r] = q;
      out->w[c][r] = static_cast<int16_t>(Q6Scale(unit, group, r, c) * q);
    }
  }
}

void DecodeGroup(DType type, const std::byte* unit, int group, Group* out) {
  if (type == DType::kQ6_K) {
    DecodeQ6K(unit, group, out);
  } else if (type == DType::kQ4_K || type == DType::kQ5_K) {
    DecodeKQuant(type, unit, group, out);
  } else {
    DecodeGroupOf32(type, unit, group, out);
  }
}

float FloatWeight(DType type, const std::byte* unit, int row) {
  if (type == DType::kF16) return HalfAt(unit, row);
  float value;
  if (type == DType::kF32) {
    std::memcpy(&value, unit + 4 * row, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, unit + 2 * row, 2);
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Running sums of one block of input rows against one panel.
struct Sums {
  float acc[kTileRows][kPanelRows];
  float mac[kTileRows][kPanelRows];
  float p[kTileRows][kPanelRows];  // the current block of 256, wide roundings
};

/// Exact Σ w · a over a group for each panel row.
void Dot(const Group& group, const std::byte* a, int32_t* sums) {
  std::fill_n(sums, kPanelRows, 0);
  for (int c = 0; c < kGroup; ++c) {
    const int32_t value = S8(a, c);
    for (int r = 0; r < kPanelRows; ++r) sums[r] += group.w[c][r] * value;
  }
}

void AddGroupInt8(const Group& group, const std::byte* a, float scale, float* acc) {
  int32_t sums[kPanelRows];
  Dot(group, a, sums);
  for (int r = 0; r < kPanelRows; ++r) {
    acc[r] = __builtin_fmaf(static_cast<float>(sums[r]), group.d[r] * scale, acc[r]);
  }
}

void AddGroupWide(const Group& group, const std::byte* a, float radix, float* p) {
  int32_t high[kPanelRows], low[kPanelRows];
  Dot(group, a, high);
  Dot(group, a + kGroup, low);
  for (int r = 0; r < kPanelRows; ++r) {
    const float f = __builtin_fmaf(radix, static_cast<float>(high[r]), static_cast<float>(low[r]));
    p[r] = __builtin_fmaf(f, group.d[r], p[r]);
  }
}

/// Adds group `g` (index within the row) to the sums of the block of `n` rows that starts at
/// `first`.
void AddGroup(const Group& group, const RoundedRows::Impl& x, int64_t first, int n, int64_t g,
              bool last, Sums* sums) {
  const std::byte* codes = x.codes + first * x.code_bytes + g * n * x.group_bytes();
  const float* u = x.u + first * x.groups + g * n;
  const float* scale = x.scale + first * x.scales;
  const float radix = x.rounding == ActRounding::kInt12 ? 16.0f : 256.0f;
  for (int t = 0; t < n; ++t) {
    const std::byte* a = codes + t * x.group_bytes();
    if (x.wide()) {
      AddGroupWide(group, a, radix, sums->p[t]);
    } else {
      AddGroupInt8(group, a, scale[g * n + t], sums->acc[t]);
    }
    for (int r = 0; r < kPanelRows; ++r) {
      sums->mac[t][r] = __builtin_fmaf(group.m[r], u[t], sums->mac[t][r]);
    }
    if (!x.wide() || !(last || g % kBlockGroups == kBlockGroups - 1)) continue;
    const float block_scale = scale[g / kBlockGroups * n + t];
    for (int r = 0; r < kPanelRows; ++r) {
      sums->acc[t][r] = __builtin_fmaf(block_scale, sums->p[t][r], sums->acc[t][r]);
      sums->p[t][r] = 0;
    }
  }
}

void Store(const LinearPiece& piece, int32_t panel, int64_t row, bool minimum, const float* acc,
           const float* mac) {
  for (int r = 0; r < kPanelRows; ++r) {
    const int32_t out = panel * kPanelRows + r;
    if (out >= piece.weight->rows) return;
    float y = minimum ? acc[r] + mac[r] : acc[r];
    if (piece.bias != nullptr) y = y + piece.bias[out];
    if (piece.residual != nullptr) y = y + piece.residual[row * piece.y_stride + out];
    piece.y[row * piece.y_stride + out] = y;
  }
}

void MultiplyQuantised(const LinearPiece& piece, int32_t panel, int64_t first, int n) {
  const PackedMatrix& w = *piece.weight;
  const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
  const int unit_groups = Unit(w.type).columns / kGroup;
  const int64_t groups = static_cast<int64_t>(w.units()) * unit_groups;
  Sums sums{};
  Group group;
  for (int64_t g = 0; g < groups; ++g) {
    DecodeGroup(w.type, data + g / unit_groups * Unit(w.type).bytes,
                static_cast<int>(g % unit_groups), &group);
    AddGroup(group, *piece.x, first, n, g, g + 1 == groups, &sums);
  }
  for (int t = 0; t < n; ++t) {
    Store(piece, panel, first + t, HasMinimum(w.type), sums.acc[t], sums.mac[t]);
  }
}

void MultiplyFloat(const LinearPiece& piece, int32_t panel, int64_t first, int n) {
  const PackedMatrix& w = *piece.weight;
  const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
  const float* x = reinterpret_cast<const float*>(piece.x->codes + first * piece.x->code_bytes);
  Sums sums{};
  for (int32_t k = 0; k < w.cols; ++k) {
    float weight[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) {
      weight[r] = FloatWeight(
          w.type, data + static_cast<size_t>(k) * static_cast<size_t>(Unit(w.type).bytes), r);
    }
    for (int t = 0; t < n; ++t) {
      const float value = x[static_cast<int64_t>(k) * n + t];
      for (int r = 0; r < kPanelRows; ++r) {
        sums.acc[t][r] = __builtin_fmaf(weight[r], value, sums.acc[t][r]);
      }
    }
  }
  for (int t = 0; t < n; ++t) Store(piece, panel, first + t, false, sums.acc[t], nullptr);
}

void Multiply(const LinearPiece& piece) noexcept {
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
    for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
      const int n = piece.x->BlockRows(first);
      if (IsFloat(piece.weight->type)) {
        MultiplyFloat(piece, panel, first, n);
      } else {
        MultiplyQuantised(piece, panel, first, n);
      }
    }
  }
}

// ---- Rounding ----

constexpr float kTiny = 0x1p-100f;  // below this a group is zero: 127 / amax must stay finite

float MaxAbs(const float* x, int64_t n) {
  float amax = 0;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  return amax;
}

/// Integers for x[0, n), the rest of 256 zero. Returns the scale.
float RoundBlock(const float* x, int64_t n, float qmax, int32_t* a, int64_t padded) {
  std::fill_n(a, padded, 0);
  const float amax = MaxAbs(x, n);
  if (amax < kTiny) return 0;
  const float inverse = qmax / amax;
  for (int64_t i = 0; i < n; ++i) a[i] = static_cast<int32_t>(__builtin_nearbyintf(x[i] * inverse));
  return amax / qmax;
}

void RoundRowInt8(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  for (int64_t g = 0; g < out->groups; ++g) {
    int32_t a[kGroup];
    const int64_t left = std::clamp<int64_t>(out->cols - g * kGroup, 0, kGroup);
    const float scale = RoundBlock(x + (left > 0 ? g * kGroup : 0), left, 127.0f, a, kGroup);
    std::byte* codes = out->codes + first * out->code_bytes + (g * n + t) * kGroup;
    const int64_t at = first * out->groups + g * n + t;
    int32_t* parts = out->parts + 4 * at;
    std::fill_n(parts, 4, 0);
    for (int c = 0; c < kGroup; ++c) {
      codes[c] = static_cast<std::byte>(a[c]);
      parts[c / 16] += a[c];
    }
    const int32_t sum = parts[0] + parts[1];
    out->scale[at] = scale;
    out->asum[at] = sum;
    out->u[at] = scale * static_cast<float>(sum);
  }
}

void RoundRowWide(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  const int shift = out->rounding == ActRounding::kInt12 ? 4 : 8;
  const float qmax = out->rounding == ActRounding::kInt12 ? 2039.0f : 32639.0f;
  constexpr int kBlock = kBlockGroups * kGroup;
  for (int64_t b = 0; b < out->scales; ++b) {
    int32_t a[kBlock];
    const float scale = RoundBlock(
        x + b * kBlock, std::min<int64_t>(out->cols - b * kBlock, kBlock), qmax, a, kBlock);
    out->scale[first * out->scales + b * n + t] = scale;
    for (int i = 0; i < kBlockGroups; ++i) {
      const int64_t g = b * kBlockGroups + i;
      std::byte* codes = out->codes + first * out->code_bytes + (g * n + t) * 2 * kGroup;
      const int64_t at = first * out->groups + g * n + t;
      int32_t* parts = out->parts + 4 * at;
      std::fill_n(parts, 4, 0);
      int32_t sum = 0;
      for (int c = 0; c < kGroup; ++c) {
        const int32_t value = a[i * kGroup + c];
        const int32_t high = (value + (1 << (shift - 1))) >> shift;
        codes[c] = static_cast<std::byte>(high);
        const int32_t low = value - high * (1 << shift);
        codes[kGroup + c] = static_cast<std::byte>(low);
        parts[c / 16] += high;
        parts[2 + c / 16] += low;
        sum += value;
      }
      out->asum[at] = sum;
      out->u[at] = scale * static_cast<float>(sum);
    }
  }
}

void CopyRow(const float* x, int64_t first, int t, int n, RoundedRows::Impl* out) {
  float* codes = reinterpret_cast<float*>(out->codes + first * out->code_bytes);
  for (int64_t k = 0; k < out->cols; ++k) codes[k * n + t] = x[k];
}

void Round(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
           RoundedRows::Impl* out) noexcept {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t first = row / kTileRows * kTileRows;
    const int t = static_cast<int>(row - first), n = out->BlockRows(first);
    if (out->rounding == ActRounding::kFloat) {
      CopyRow(x + row * stride, first, t, n, out);
    } else if (out->wide()) {
      RoundRowWide(x + row * stride, first, t, n, out);
    } else {
      RoundRowInt8(x + row * stride, first, t, n, out);
    }
  }
}

// ---- One row as fp32 ----

float Weight(DType type, const Group& group, const std::byte* unit, int g, int row, int c) {
  const float q = static_cast<float>(group.q[c][row]);
  if (type == DType::kQ6_K) {
    return group.d[row] * static_cast<float>(Q6Scale(unit, g, row, c)) * q;
  }
  if (HasMinimum(type)) return __builtin_fmaf(group.d[row], q, group.m[row]);
  return group.d[row] * q;
}

}  // namespace

void DequantizeRow(const PackedMatrix& w, int32_t row, float* out) noexcept {
  const std::byte* data = w.data + static_cast<size_t>(row / kPanelRows) * w.panel_bytes();
  const int lane = row % kPanelRows, unit_columns = Unit(w.type).columns;
  const auto unit_bytes = static_cast<size_t>(Unit(w.type).bytes);
  if (IsFloat(w.type)) {
    for (int32_t k = 0; k < w.cols; ++k) {
      out[k] = FloatWeight(w.type, data + static_cast<size_t>(k) * unit_bytes, lane);
    }
    return;
  }
  Group group;
  for (int32_t k = 0; k < w.cols; k += kGroup) {
    const std::byte* unit = data + static_cast<size_t>(k / unit_columns) * unit_bytes;
    const int g = k % unit_columns / kGroup;
    DecodeGroup(w.type, unit, g, &group);
    const int columns = std::min(kGroup, w.cols - k);
    for (int c = 0; c < columns; ++c) out[k + c] = Weight(w.type, group, unit, g, lane, c);
  }
}

}  // namespace ref

const LinearTable kLinearRef = {ref::Round, ref::Multiply, ref::DequantizeRow};

}  // namespace ballast
KERNEL_END
