// Codes move as dwords of four columns; a panel is a transposition of 16 rows. Everything is
// SSE4.1, which the build's baseline (x86-64-v2) has, so there is one body for every machine.
#include "weights/pack.h"

#include <emmintrin.h>
#include <smmintrin.h>

#include <array>
#include <cstring>

#include "base/check.h"

namespace ballast {
namespace {

using Bytes = const uint8_t*;
using RowPointers = std::array<Bytes, kPanelRows>;

__m128i Load(Bytes p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
void Store(uint8_t* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }

// rows[r] holds four dwords of row r: writes four vectors of 16 dwords each, row by row.
void StoreDwordColumns(const __m128i (&rows)[kPanelRows], uint8_t* dst) {
  for (int r = 0; r < kPanelRows; r += 4) {
    const __m128i a = _mm_unpacklo_epi32(rows[r], rows[r + 1]);
    const __m128i b = _mm_unpacklo_epi32(rows[r + 2], rows[r + 3]);
    const __m128i c = _mm_unpackhi_epi32(rows[r], rows[r + 1]);
    const __m128i d = _mm_unpackhi_epi32(rows[r + 2], rows[r + 3]);
    uint8_t* out = dst + 4 * r;
    Store(out, _mm_unpacklo_epi64(a, b));
    Store(out + 64, _mm_unpackhi_epi64(a, b));
    Store(out + 128, _mm_unpacklo_epi64(c, d));
    Store(out + 192, _mm_unpackhi_epi64(c, d));
  }
}

// Transposes 16 rows of 16 bytes: four perfect shuffles of the rows.
void StoreByteColumns(__m128i (&rows)[kPanelRows], uint8_t* dst) {
  for (int round = 0; round < 4; ++round) {
    __m128i next[kPanelRows];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    std::memcpy(rows, next, sizeof(next));
  }
  for (int i = 0; i < kPanelRows; ++i) Store(dst + 16 * i, rows[i]);
}

// In each dword moves bit 4j + i to bit 8i + j: twice "even bits down, odd bits up".
// Source of the swaps: Warren, Hacker's Delight, 7-2.
__m128i GroupEveryFourthBit(__m128i x) {
  const auto swap = [](__m128i v, int shift, int mask) {
    const __m128i t =
        _mm_and_si128(_mm_xor_si128(v, _mm_srli_epi32(v, shift)), _mm_set1_epi32(mask));
    return _mm_xor_si128(v, _mm_xor_si128(t, _mm_slli_epi32(t, shift)));
  };
  for (int i = 0; i < 2; ++i) {
    x = swap(x, 1, 0x22222222);
    x = swap(x, 2, 0x0C0C0C0C);
    x = swap(x, 4, 0x00F000F0);
    x = swap(x, 8, 0x0000FF00);
  }
  return x;
}

// The 16 rows' halfwords at `offset` of their blocks.
void StoreHalves(const RowPointers& blocks, size_t offset, uint8_t* dst) {
  for (size_t r = 0; r < kPanelRows; ++r) std::memcpy(dst + 2 * r, blocks[r] + offset, 2);
}

// The block that stands for rows and groups beyond the matrix: scale 0 and the code of zero.
template <DType kType>
const uint8_t* ZeroBlock() {
  static constexpr auto kBlock = [] {
    std::array<uint8_t, 210> block{};
    if (kType == DType::kQ4_0) {
      for (size_t i = 2; i < 18; ++i) block[i] = 0x88;
    } else if (kType == DType::kQ5_0) {
      for (size_t i = 2; i < 6; ++i) block[i] = 0xff;
    } else if (kType == DType::kQ6_K) {
      for (size_t i = 128; i < 192; ++i) block[i] = 0xaa;
    }
    return block;
  }();
  return kBlock.data();
}

constexpr bool HasMin(DType type) { return type == DType::kQ4_1 || type == DType::kQ5_1; }
constexpr bool HasFifth(DType type) { return type == DType::kQ5_0 || type == DType::kQ5_1; }

// Nibbles of two blocks: low nibbles of a vector belong to group 0, high ones to group 1.
void StoreNibblePairs(const RowPointers& b0, const RowPointers& b1, size_t offset, uint8_t* dst) {
  const __m128i low_mask = _mm_set1_epi8(0x0f);
  __m128i first[kPanelRows], second[kPanelRows];  // columns 0–15 and 16–31 of both groups
  for (size_t r = 0; r < kPanelRows; ++r) {
    const __m128i x = Load(b0[r] + offset), y = Load(b1[r] + offset);
    first[r] =
        _mm_or_si128(_mm_and_si128(x, low_mask), _mm_slli_epi16(_mm_and_si128(y, low_mask), 4));
    second[r] =
        _mm_or_si128(_mm_and_si128(_mm_srli_epi16(x, 4), low_mask), _mm_andnot_si128(low_mask, y));
  }
  StoreDwordColumns(first, dst);
  StoreDwordColumns(second, dst + 256);
}

template <DType kType>
void PackUnit32(const RowPointers& b0, const RowPointers& b1, uint8_t* dst) {
  StoreHalves(b0, 0, dst);
  StoreHalves(b1, 0, dst + 32);
  dst += 64;
  if constexpr (kType == DType::kQ8_0) {
    for (size_t quarter = 0; quarter < 4; ++quarter) {
      const RowPointers& blocks = quarter < 2 ? b0 : b1;
      __m128i rows[kPanelRows];
      for (size_t r = 0; r < kPanelRows; ++r) rows[r] = Load(blocks[r] + 2 + 16 * (quarter % 2));
      StoreDwordColumns(rows, dst + 256 * quarter);
    }
    return;
  }
  size_t offset = 2;
  if constexpr (HasMin(kType)) {
    StoreHalves(b0, offset, dst);
    StoreHalves(b1, offset, dst + 32);
    dst += 64;
    offset += 2;
  }
  if constexpr (HasFifth(kType)) {
    for (size_t g = 0; g < 2; ++g) {
      uint32_t bits[kPanelRows];
      for (size_t r = 0; r < kPanelRows; ++r) {
        std::memcpy(&bits[r], (g == 0 ? b0 : b1)[r] + offset, 4);
      }
      for (size_t r = 0; r < kPanelRows; r += 4) {
        const __m128i x = Load(reinterpret_cast<Bytes>(&bits[r]));
        Store(dst + 512 + 64 * g + 4 * r, GroupEveryFourthBit(x));
      }
    }
    offset += 4;
  }
  StoreNibblePairs(b0, b1, offset, dst);
}

// The 12 packed bytes of Q4_K and Q5_K as scales 0–7, then minimums 0–7.
__m128i UnpackScales(Bytes packed) {
  uint32_t a, b, c;
  std::memcpy(&a, packed, 4);
  std::memcpy(&b, packed + 4, 4);
  std::memcpy(&c, packed + 8, 4);
  const uint32_t s0 = a & 0x3f3f3f3fu;
  const uint32_t s1 = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
  const uint32_t m0 = b & 0x3f3f3f3fu;
  const uint32_t m1 = ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u);
  return _mm_setr_epi32(static_cast<int>(s0), static_cast<int>(s1), static_cast<int>(m0),
                        static_cast<int>(m1));
}

// 128 bytes of code pairs in the file's own order, which is also the panel's.
void StoreCodeBytes(const RowPointers& blocks, size_t offset, uint8_t* dst) {
  for (size_t part = 0; part < 8; ++part) {
    __m128i rows[kPanelRows];
    for (size_t r = 0; r < kPanelRows; ++r) rows[r] = Load(blocks[r] + offset + 16 * part);
    StoreDwordColumns(rows, dst + 256 * part);
  }
}

// Fifth bits of Q5_K: byte l of a row has bit g for element l of group g.
void StoreFifthBitsK(const RowPointers& blocks, size_t offset, uint8_t* dst) {
  // Bytes 4j + i of each half to i·4 + j, then both halves' dwords i side by side.
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (size_t r = 0; r < kPanelRows; ++r) {
    const __m128i low = _mm_shuffle_epi8(Load(blocks[r] + offset), order);
    const __m128i high = _mm_shuffle_epi8(Load(blocks[r] + offset + 16), order);
    __m128i x = _mm_unpacklo_epi32(low, high), y = _mm_unpackhi_epi32(low, high);
    // movemask takes bit 7, so group 7 comes first; adding a byte to itself brings up the next.
    for (size_t g = 8; g-- > 0;) {
      const uint32_t bits = static_cast<uint32_t>(_mm_movemask_epi8(x)) |
                            static_cast<uint32_t>(_mm_movemask_epi8(y)) << 16;
      std::memcpy(dst + 64 * g + 4 * r, &bits, 4);
      x = _mm_add_epi8(x, x);
      y = _mm_add_epi8(y, y);
    }
  }
}

template <DType kType>
void PackUnitK45(const RowPointers& blocks, uint8_t* dst) {
  StoreHalves(blocks, 0, dst);
  StoreHalves(blocks, 2, dst + 32);
  __m128i scales[kPanelRows];
  for (size_t r = 0; r < kPanelRows; ++r) scales[r] = UnpackScales(blocks[r] + 4);
  StoreByteColumns(scales, dst + 64);
  constexpr bool kFive = kType == DType::kQ5_K;
  StoreCodeBytes(blocks, kFive ? 48 : 16, dst + 320);
  if constexpr (kFive) StoreFifthBitsK(blocks, 16, dst + 320 + 2048);
}

// Low nibbles of Q6_K: in each half of 128 elements the file pairs element l with l + 64, the panel
// with l + 32.
void StoreLowNibbles6(const RowPointers& blocks, uint8_t* dst) {
  const __m128i low_mask = _mm_set1_epi8(0x0f);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t part = 0; part < 2; ++part) {
      __m128i lows[kPanelRows], highs[kPanelRows];
      for (size_t r = 0; r < kPanelRows; ++r) {
        const Bytes codes = blocks[r] + 64 * half + 16 * part;
        const __m128i x = Load(codes), y = Load(codes + 32);
        lows[r] =
            _mm_or_si128(_mm_and_si128(x, low_mask), _mm_slli_epi16(_mm_and_si128(y, low_mask), 4));
        highs[r] = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(x, 4), low_mask),
                                _mm_andnot_si128(low_mask, y));
      }
      StoreDwordColumns(lows, dst + 1024 * half + 256 * part);
      StoreDwordColumns(highs, dst + 1024 * half + 512 + 256 * part);
    }
  }
}

// Sixteen pairs of bits, one a byte, folded into a dword: pairs of bytes 4i + c to bits 2i of byte
// c.
__m128i FoldPairs(__m128i pairs) {
  const __m128i two = _mm_or_si128(pairs, _mm_srli_epi64(pairs, 30));
  return _mm_or_si128(two, _mm_slli_epi16(_mm_srli_si128(two, 8), 4));
}

void StoreHighPairs6(const RowPointers& blocks, uint8_t* dst) {
  const __m128i pair_mask = _mm_set1_epi8(3);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t r = 0; r < kPanelRows; ++r) {
      for (size_t t = 0; t < 2; ++t) {
        __m128i x = Load(blocks[r] + 128 + 32 * half + 16 * t);
        for (size_t quarter = 0; quarter < 4; ++quarter) {
          const int bits = _mm_cvtsi128_si32(FoldPairs(_mm_and_si128(x, pair_mask)));
          const size_t vector = 2 * (4 * half + quarter) + t;
          std::memcpy(dst + 64 * vector + 4 * r, &bits, 4);
          x = _mm_srli_epi16(x, 2);
        }
      }
    }
  }
}

void PackUnit6(const RowPointers& blocks, uint8_t* dst) {
  StoreHalves(blocks, 208, dst);
  std::memset(dst + 32, 0, 32);
  __m128i scales[kPanelRows];
  for (size_t r = 0; r < kPanelRows; ++r) scales[r] = Load(blocks[r] + 192);
  StoreByteColumns(scales, dst + 64);
  StoreLowNibbles6(blocks, dst + 320);
  StoreHighPairs6(blocks, dst + 320 + 2048);
}

/// One panel's 16 rows in the file; rows beyond the matrix are null.
struct PanelRows {
  RowPointers rows{};
  int32_t cols = 0;
};

template <DType kType>
void PackPanelQuant(const PanelRows& panel, uint8_t* dst) {
  constexpr DTypeInfo kInfo = Info(kType);
  constexpr PackedUnit kUnit = Unit(kType);
  constexpr size_t kBlock = static_cast<size_t>(kInfo.block_bytes);
  const size_t blocks = static_cast<size_t>(panel.cols / kInfo.block_elements);
  constexpr size_t kPerUnit = static_cast<size_t>(kUnit.columns / kInfo.block_elements);
  const auto at = [&](size_t block) {
    RowPointers pointers;
    for (size_t r = 0; r < kPanelRows; ++r) {
      pointers[r] = panel.rows[r] != nullptr && block < blocks ? panel.rows[r] + block * kBlock
                                                               : ZeroBlock<kType>();
    }
    return pointers;
  };
  for (size_t block = 0; block < blocks; block += kPerUnit) {
    if constexpr (kPerUnit == 2) {
      PackUnit32<kType>(at(block), at(block + 1), dst);
    } else if constexpr (kType == DType::kQ6_K) {
      PackUnit6(at(block), dst);
    } else {
      PackUnitK45<kType>(at(block), dst);
    }
    dst += kUnit.bytes;
  }
}

// Floats: a plain transposition, in tiles of 16 bytes a row.
template <size_t kSize>
void PackPanelFloat(const PanelRows& panel, uint8_t* dst) {
  static constexpr uint8_t kZeros[16] = {};
  constexpr size_t kTile = 16 / kSize;
  const size_t cols = static_cast<size_t>(panel.cols);
  size_t col = 0;
  for (; col + kTile <= cols; col += kTile) {
    __m128i rows[kPanelRows];
    for (size_t r = 0; r < kPanelRows; ++r) {
      rows[r] = Load(panel.rows[r] != nullptr ? panel.rows[r] + col * kSize : kZeros);
    }
    uint8_t* out = dst + col * kSize * kPanelRows;
    if constexpr (kSize == 4) {
      StoreDwordColumns(rows, out);
    } else {
      for (int half = 0; half < 2; ++half) {
        __m128i* x = rows + 8 * half;
        for (int round = 0; round < 3; ++round) {
          __m128i next[8];
          for (int i = 0; i < 4; ++i) {
            next[2 * i] = _mm_unpacklo_epi16(x[i], x[i + 4]);
            next[2 * i + 1] = _mm_unpackhi_epi16(x[i], x[i + 4]);
          }
          std::memcpy(x, next, sizeof(next));
        }
        for (int i = 0; i < 8; ++i) Store(out + 32 * i + 16 * half, x[i]);
      }
    }
  }
  for (; col < cols; ++col) {
    for (size_t r = 0; r < kPanelRows; ++r) {
      const Bytes from = panel.rows[r] != nullptr ? panel.rows[r] + col * kSize : kZeros;
      std::memcpy(dst + (col * kPanelRows + r) * kSize, from, kSize);
    }
  }
}

void PackPanel(DType type, const PanelRows& panel, uint8_t* dst) {
  switch (type) {
    case DType::kF32:
      return PackPanelFloat<4>(panel, dst);
    case DType::kF16:
    case DType::kBF16:
      return PackPanelFloat<2>(panel, dst);
    case DType::kQ8_0:
      return PackPanelQuant<DType::kQ8_0>(panel, dst);
    case DType::kQ4_0:
      return PackPanelQuant<DType::kQ4_0>(panel, dst);
    case DType::kQ4_1:
      return PackPanelQuant<DType::kQ4_1>(panel, dst);
    case DType::kQ5_0:
      return PackPanelQuant<DType::kQ5_0>(panel, dst);
    case DType::kQ5_1:
      return PackPanelQuant<DType::kQ5_1>(panel, dst);
    case DType::kQ4_K:
      return PackPanelQuant<DType::kQ4_K>(panel, dst);
    case DType::kQ5_K:
      return PackPanelQuant<DType::kQ5_K>(panel, dst);
    case DType::kQ6_K:
      return PackPanelQuant<DType::kQ6_K>(panel, dst);
  }
}

}  // namespace

Result<size_t> FileRowBytes(DType type, int64_t cols) {
  const DTypeInfo& info = Info(type);
  if (cols < 1 || cols % info.block_elements != 0) {
    return InvalidArgument("{} columns: {} needs a positive multiple of {}", cols, info.name,
                           info.block_elements);
  }
  return static_cast<size_t>(cols / info.block_elements) * static_cast<size_t>(info.block_bytes);
}

void PackPanels(const PackedMatrix& out, std::span<const std::byte> file_bytes, int32_t panel_begin,
                int32_t panel_end, std::byte* dst) {
  const DTypeInfo& info = Info(out.type);
  const size_t row_bytes =
      static_cast<size_t>(out.cols / info.block_elements) * static_cast<size_t>(info.block_bytes);
  CHECK(0 <= panel_begin && panel_end <= out.panels());
  CHECK(out.cols % info.block_elements == 0);
  CHECK(file_bytes.size() == row_bytes * static_cast<size_t>(out.rows));
  const auto* base = reinterpret_cast<Bytes>(file_bytes.data());
  for (int32_t panel = panel_begin; panel < panel_end; ++panel) {
    PanelRows source{.cols = out.cols};
    for (int32_t r = 0; r < kPanelRows; ++r) {
      const int32_t row = panel * kPanelRows + r;
      if (row < out.rows) {
        source.rows[static_cast<size_t>(r)] = base + static_cast<size_t>(row) * row_bytes;
      }
    }
    auto* to = reinterpret_cast<uint8_t*>(dst) + static_cast<size_t>(panel) * out.panel_bytes();
    PackPanel(out.type, source, to);
    // F16 panels of an odd number of columns end half a line early.
    const size_t used =
        static_cast<size_t>(out.units()) * static_cast<size_t>(Unit(out.type).bytes);
    std::memset(to + used, 0, out.panel_bytes() - used);
  }
}

Result<PackedMatrix> PackMatrix(DType type, int32_t rows, int32_t cols,
                                std::span<const std::byte> file_bytes, std::byte* dst) {
  ASSIGN_OR_RETURN(const size_t row_bytes, FileRowBytes(type, cols));
  if (rows < 1) return InvalidArgument("{} rows, must be at least 1", rows);
  if (file_bytes.size() != row_bytes * static_cast<size_t>(rows)) {
    return InvalidArgument("{} [{}, {}] has {} bytes, expected {}", DTypeName(type), rows, cols,
                           file_bytes.size(), row_bytes * static_cast<size_t>(rows));
  }
  const PackedMatrix matrix{.type = type, .rows = rows, .cols = cols, .data = dst};
  PackPanels(matrix, file_bytes, 0, matrix.panels(), dst);
  return matrix;
}

}  // namespace ballast
