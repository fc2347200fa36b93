// Role: AMX products of many input rows. A block of 256 columns of a panel is unpacked once into B
// tiles; A tiles are the rounded rows as they lie. Tile products of one block of rows run beside
// the fp32 work on the products of the block before it, through a small ring of C tiles in L1.
// Thread: as kernels/linear.h; tiles are configured and released per piece. Few rows and float
// weights go to the AVX-512 bodies. Invariant: bits of ref/linear_ref.cc.
#include <utility>

#include "kernels/avx512/linear_block.h"
#include "kernels/avx512/linear_codes.h"
#include "kernels/avx512/linear_gemv.h"

KERNEL_BEGIN(KERNEL_TARGET_AMX)
namespace ballast {
namespace amx {
namespace {

using avx512::Format;

/// Tile rows are 64 bytes and tiles 16 rows.
constexpr int kTileBytes = 1024;
constexpr int kVectorBytes = 64;

/// Palette 1 of LDTILECFG (Intel SDM, volume 2, "LDTILECFG").
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// How a group becomes F, and so which tiles it takes.
enum class Way {
  kInt8,     // one K = 32 product
  kFusedS,   // int12 on signed 4-bit codes: one K = 64 product of [h | l] with [16q | q]
  kFusedU,   // the same on unsigned codes
  kWide,     // two K = 32 products
  kSixInt8,  // Q6_K: sc · (q − 32) = 64·hi + lo, two planes
  kSixWide,  // both of the above: four
};

constexpr bool IsFused(Way w) { return w == Way::kFusedS || w == Way::kFusedU; }
constexpr bool IsSix(Way w) { return w == Way::kSixInt8 || w == Way::kSixWide; }
constexpr bool IsInt8(Way w) { return w == Way::kInt8 || w == Way::kSixInt8; }
/// C tiles of a group.
constexpr int Products(Way w) {
  return w == Way::kSixWide ? 4 : w == Way::kWide || w == Way::kSixInt8 ? 2 : 1;
}
constexpr int GroupBytes(Way w) { return IsInt8(w) ? kGroup : 2 * kGroup; }

/// A block of 256 columns of one panel as B tiles, with its scales.
struct alignas(64) Weights {
  std::byte b[kBlockGroups][2 * 8 * kVectorBytes];
  float d[kBlockGroups][kPanelRows];
};

/// C tiles in flight: eight groups.
template <Way W>
struct alignas(64) Ring {
  int32_t c[kBlockGroups][Products(W)][kTileRows * kPanelRows];
};

// ---- Unpacking ----

template <DType T, Way W>
BALLAST_INLINE void StoreCodes(__m512i q, int vector, std::byte* group) {
  using F = Format<T>;
  if constexpr (F::kEight) {
    q = _mm512_xor_si512(q, _mm512_set1_epi8(static_cast<char>(0x80)));
  } else if constexpr (F::kZero != 0) {
    q = _mm512_sub_epi8(q, _mm512_set1_epi8(F::kZero));
  }
  std::byte* at = group + kVectorBytes * vector;
  if constexpr (IsFused(W)) {
    // 16·q in a byte: the shift moves at most the other byte's dead bits, which the mask removes.
    const __m512i scaled =
        _mm512_and_si512(_mm512_slli_epi16(q, 4), _mm512_set1_epi8(static_cast<char>(0xF0)));
    _mm512_store_si512(at, scaled);
    _mm512_store_si512(at + 8 * kVectorBytes, q);
  } else {
    _mm512_store_si512(at, q);
  }
}

/// sc · (q − 32) = 64·hi + lo with lo in [−32, 31]: exact in 16 bits, |hi| ≤ 64.
BALLAST_INLINE void StoreSixPlanes(__m512i q, __m512i scales16_lo, __m512i scales16_hi, int vector,
                                   std::byte* group) {
  const __m512i centred = _mm512_sub_epi8(q, _mm512_set1_epi8(32));
  const __m512i lo =
      _mm512_mullo_epi16(_mm512_cvtepi8_epi16(_mm512_castsi512_si256(centred)), scales16_lo);
  const __m512i hi =
      _mm512_mullo_epi16(_mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(centred, 1)), scales16_hi);
  const __m512i half = _mm512_set1_epi16(32);
  const __m512i top_lo = _mm512_srai_epi16(_mm512_add_epi16(lo, half), 6);
  const __m512i top_hi = _mm512_srai_epi16(_mm512_add_epi16(hi, half), 6);
  const __m512i rest_lo = _mm512_sub_epi16(lo, _mm512_slli_epi16(top_lo, 6));
  const __m512i rest_hi = _mm512_sub_epi16(hi, _mm512_slli_epi16(top_hi, 6));
  auto* at = reinterpret_cast<__m256i*>(group + kVectorBytes * vector);
  _mm256_store_si256(at, _mm512_cvtepi16_epi8(top_lo));
  _mm256_store_si256(at + 1, _mm512_cvtepi16_epi8(top_hi));
  _mm256_store_si256(at + 16, _mm512_cvtepi16_epi8(rest_lo));
  _mm256_store_si256(at + 17, _mm512_cvtepi16_epi8(rest_hi));
}

/// The scales of rows 0…7 or 8…15, each four times, as 16-bit lanes.
BALLAST_INLINE void SixScales(const std::byte* scales, __m512i* lo, __m512i* hi) {
  const __m512i wide =
      _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(scales)));
  // Lane r holds sc in both halves; rows 0–7 spread to 32 lanes of 16 bits by doubling.
  const __m512i both = _mm512_or_si512(_mm512_and_si512(wide, _mm512_set1_epi32(0xFFFF)),
                                       _mm512_slli_epi32(wide, 16));
  const __m512i first = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  *lo = _mm512_permutexvar_epi32(first, both);
  *hi = _mm512_permutexvar_epi32(_mm512_add_epi32(first, _mm512_set1_epi32(8)), both);
}

template <DType T, Way W, int J>
BALLAST_INLINE void UnpackVector(const std::byte* unit, int pair, std::byte* first,
                                 std::byte* second) {
  __m512i a, b;
  avx512::LoadCodes<T, J>(unit, pair, &a, &b);
  if constexpr (IsSix(W)) {
    const std::byte* scales = unit + 64 + 64 * pair + 16 * (J / 4);
    __m512i lo, hi;
    SixScales(scales, &lo, &hi);
    StoreSixPlanes(a, lo, hi, J, first);
    SixScales(scales + 32, &lo, &hi);
    StoreSixPlanes(b, lo, hi, J, second);
  } else {
    StoreCodes<T, W>(a, J, first);
    StoreCodes<T, W>(b, J, second);
  }
}

template <DType T, Way W>
BALLAST_NOINLINE void UnpackPair(const std::byte* unit, int pair, int group, Weights* out) {
  avx512::PrefetchPair<T>(unit, pair);
  std::byte* first = out->b[group];
  std::byte* second = out->b[group + 1];
  UnpackVector<T, W, 0>(unit, pair, first, second);
  UnpackVector<T, W, 1>(unit, pair, first, second);
  UnpackVector<T, W, 2>(unit, pair, first, second);
  UnpackVector<T, W, 3>(unit, pair, first, second);
  UnpackVector<T, W, 4>(unit, pair, first, second);
  UnpackVector<T, W, 5>(unit, pair, first, second);
  UnpackVector<T, W, 6>(unit, pair, first, second);
  UnpackVector<T, W, 7>(unit, pair, first, second);
  _mm512_store_ps(out->d[group], avx512::LoadScale<T>(unit, pair, 0));
  _mm512_store_ps(out->d[group + 1], avx512::LoadScale<T>(unit, pair, 1));
}

// ---- Tiles ----
// tmm0, 1: C of full blocks; 2, 3: A of full blocks; 4, 5: B; 6: C and 7: A of a last block of
// fewer rows.

template <Way W>
void ConfigureTiles(int tail_rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    const bool is_a = i == 2 || i == 3 || i == 7, is_b = i == 4 || i == 5, is_tail = i >= 6;
    config.row_bytes[i] = is_a && !IsFused(W) ? 32 : 64;
    const int rows = is_b && !IsFused(W) ? 8 : is_tail && tail_rows > 0 ? tail_rows : kTileRows;
    config.rows[i] = static_cast<uint8_t>(rows);
  }
  _tile_loadconfig(&config);
}

// Orders scratch stores before tile loads: some compilers' tile loads do not say that they read
// memory.
BALLAST_INLINE void CompilerBarrier() { __asm__ volatile("" ::: "memory"); }

#define BALLAST_PRODUCT(C, A, B)     \
  if constexpr (W == Way::kFusedU) { \
    _tile_dpbsud(C, A, B);           \
  } else {                           \
    _tile_dpbssd(C, A, B);           \
  }

// All products of one group: A at `a` (row stride GroupBytes), B at `b`, C tiles to `c`. The A tile
// loads [h] or all of a row, then [l] from 32 bytes on.
#define BALLAST_GROUP(A, B, C0, C1, C2, C3)             \
  _tile_loadd(A, a, GroupBytes(W));                     \
  _tile_loadd(B, b, kVectorBytes);                      \
  _tile_zero(C0);                                       \
  BALLAST_PRODUCT(C0, A, B)                             \
  _tile_stored(C0, c, kVectorBytes);                    \
  if constexpr (W == Way::kWide) {                      \
    _tile_loadd(A, a + kGroup, GroupBytes(W));          \
    _tile_zero(C1);                                     \
    BALLAST_PRODUCT(C1, A, B)                           \
    _tile_stored(C1, c + kTileBytes, kVectorBytes);     \
  }                                                     \
  if constexpr (IsSix(W)) {                             \
    _tile_loadd(B, b + 8 * kVectorBytes, kVectorBytes); \
    _tile_zero(C1);                                     \
    BALLAST_PRODUCT(C1, A, B)                           \
    _tile_stored(C1, c + kTileBytes, kVectorBytes);     \
  }                                                     \
  if constexpr (W == Way::kSixWide) {                   \
    _tile_loadd(A, a + kGroup, GroupBytes(W));          \
    _tile_zero(C2);                                     \
    BALLAST_PRODUCT(C2, A, B)                           \
    _tile_stored(C2, c + 3 * kTileBytes, kVectorBytes); \
    _tile_loadd(B, b, kVectorBytes);                    \
    _tile_zero(C3);                                     \
    BALLAST_PRODUCT(C3, A, B)                           \
    _tile_stored(C3, c + 2 * kTileBytes, kVectorBytes); \
  }

/// C tiles of a group in order: [h or all][l], Q6_K: [h·hi][h·lo][l·hi][l·lo]. Neighbours in time
/// take different tile registers, or they would wait for each other.
template <Way W>
BALLAST_INLINE void MultiplyGroup(const std::byte* a, const std::byte* b, int32_t* out, int turn) {
  auto* c = reinterpret_cast<std::byte*>(out);
  if (turn % 2 == 0) {
    BALLAST_GROUP(2, 4, 0, 1, 0, 1)
  } else {
    BALLAST_GROUP(3, 5, 1, 0, 1, 0)
  }
}

/// The same for a block of fewer rows.
template <Way W>
BALLAST_INLINE void MultiplyGroupTail(const std::byte* a, const std::byte* b, int32_t* out) {
  auto* c = reinterpret_cast<std::byte*>(out);
  BALLAST_GROUP(7, 4, 6, 6, 6, 6)
}

// ---- The fp32 side ----

template <Way W>
BALLAST_INLINE __m512 ReadF(const int32_t* c, int t, __m512i shift, __m512 radix) {
  constexpr int kTile = kTileRows * kPanelRows;
  const int32_t* at = c + kPanelRows * t;
  const __m512i first = _mm512_load_si512(at);
  if constexpr (Products(W) == 1) return _mm512_cvtepi32_ps(first);
  const __m512i second = _mm512_load_si512(at + kTile);
  const __m512i by = IsSix(W) ? _mm512_set1_epi32(6) : shift;
  const __m512 f = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_sllv_epi32(first, by), second));
  if constexpr (W != Way::kSixWide) return f;
  const __m512i third = _mm512_load_si512(at + 2 * kTile);
  const __m512i fourth = _mm512_load_si512(at + 3 * kTile);
  const __m512 low = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_sllv_epi32(third, by), fourth));
  return _mm512_fmadd_ps(radix, f, low);
}

/// Adds group products to the sums of kRows rows.
template <Way W, int kRows>
BALLAST_INLINE void AddGroup(const int32_t* c, const float* d, const float* scale, __m512i shift,
                             __m512 radix, __m512* sums) {
  const __m512 weight_scale = _mm512_load_ps(d);
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
    const __m512 f = ReadF<W>(c, t, shift, radix);
    const __m512 by =
        IsInt8(W) ? _mm512_mul_ps(weight_scale, _mm512_set1_ps(scale[t])) : weight_scale;
    sums[t] = _mm512_fmadd_ps(f, by, sums[t]);
    // Keeps the compiler from converting all rows first, which spills the sums.
    __asm__ volatile("" : "+v"(sums[t]));
  }
}

template <Way W, int kRows>
BALLAST_INLINE void StartRows(const float* acc, __m512* sums) {
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
    sums[t] = IsInt8(W) ? _mm512_load_ps(acc + kPanelRows * t) : _mm512_setzero_ps();
  }
}

template <Way W, int kRows>
BALLAST_INLINE void FinishRows(const float* block_scale, const __m512* sums, float* acc) {
#pragma GCC unroll 16
  for (int t = 0; t < kRows; ++t) {
    float* at = acc + kPanelRows * t;
    _mm512_store_ps(at, IsInt8(W) ? sums[t]
                                  : _mm512_fmadd_ps(_mm512_set1_ps(block_scale[t]), sums[t],
                                                    _mm512_load_ps(at)));
  }
}

/// A block of 256 columns for all rows of a piece.
struct Step {
  const Weights* weights;
  int64_t block;  // index of the 256 columns
  int groups;     // in it, even
  __m512i shift;
  __m512 radix;
};

template <Way W>
BALLAST_INLINE const std::byte* Codes(const RoundedBlock& rows, const Step& step) {
  return rows.codes + step.block * kBlockGroups * rows.n * GroupBytes(W);
}

/// Scales of the step's groups (int8) or of its block (wide).
template <Way W>
BALLAST_INLINE const float* Scales(const RoundedBlock& rows, const Step& step) {
  return rows.scale + step.block * rows.n * (IsInt8(W) ? kBlockGroups : 1);
}

/// Full blocks of 16 rows for one step, as a sequence of (block, group) pairs.
struct Sequence {
  const std::byte* a;  // A tile of the first pair
  const float* scale;  // its scales
  float* acc;
  int64_t a_stride;      // from block to block
  int64_t scale_stride;  // in floats
  int64_t pairs;         // blocks · groups
};

/// How many products the fp32 work stays behind: loading a tile that was just stored stalls.
constexpr int Lag(Way w) { return Products(w) == 1 ? 5 : Products(w) == 2 ? 4 : 2; }

/// kSpan pairs from number `base` on: the products of each pair, then the fp32 work on the pair Lag
/// earlier. kSpan is a multiple of kGroups, so everything but the base is known when compiling.
template <Way W, int kGroups, int kSpan>
BALLAST_INLINE void Span(const Step& step, const Sequence& seq, int64_t base, Ring<W>* ring,
                         __m512* sums) {
  constexpr int kStride = kTileRows * GroupBytes(W);
  constexpr int kLag = Lag(W);
#pragma GCC unroll 8
  for (int j = 0; j < kSpan; ++j) {
    const int64_t now = base + j;
    if (now < seq.pairs) {
      MultiplyGroup<W>(seq.a + now / kGroups * seq.a_stride + j % kGroups * kStride,
                       step.weights->b[j % kGroups], ring->c[j][0], j);
    }
    const int64_t then = now - kLag;
    if (then < 0 || then >= seq.pairs) continue;
    const int slot = (j + kSpan - kLag) % kSpan, g = slot % kGroups;
    const int64_t block = then / kGroups;
    float* acc = seq.acc + block * kTileRows * kPanelRows;
    const float* scale = seq.scale + block * seq.scale_stride;
    if (g == 0) StartRows<W, kTileRows>(acc, sums);
    AddGroup<W, kTileRows>(ring->c[slot][0], step.weights->d[g], scale + kTileRows * g, step.shift,
                           step.radix, sums);
    if (g == kGroups - 1) FinishRows<W, kTileRows>(scale, sums, acc);
  }
}

template <Way W, int kGroups>
BALLAST_NOINLINE void FullBlocks(const Step& step, const Sequence& seq, Ring<W>* ring) {
  constexpr int kSpan = kGroups == 6 ? 6 : 8;
  __m512 sums[kTileRows];
#pragma GCC unroll 16
  for (int t = 0; t < kTileRows; ++t) sums[t] = _mm512_setzero_ps();
  for (int64_t base = 0; base < seq.pairs + Lag(W); base += kSpan) {
    Span<W, kGroups, kSpan>(step, seq, base, ring, sums);
  }
}

template <Way W>
void FullBlocks(const LinearPiece& piece, const Step& step, int64_t blocks, Ring<W>* ring,
                float* acc) {
  const RoundedBlock rows = BlockAt(*piece.x, piece.row_begin);
  const Sequence seq = {
      Codes<W>(rows, step),        Scales<W>(rows, step), acc, kTileRows * piece.x->code_bytes,
      kTileRows * piece.x->scales, blocks * step.groups};
  switch (step.groups) {
    case 2:
      return FullBlocks<W, 2>(step, seq, ring);
    case 4:
      return FullBlocks<W, 4>(step, seq, ring);
    case 6:
      return FullBlocks<W, 6>(step, seq, ring);
    default:
      return FullBlocks<W, 8>(step, seq, ring);
  }
}

template <Way W, int kRows>
BALLAST_INLINE void AddTailRows(const Step& step, const RoundedBlock& rows, int t,
                                const Ring<W>& ring, float* acc) {
  const float* scale = Scales<W>(rows, step) + t;
  __m512 sums[kRows];
  StartRows<W, kRows>(acc + kPanelRows * t, sums);
  for (int g = 0; g < step.groups; ++g) {
    AddGroup<W, kRows>(ring.c[g][0] + kPanelRows * t, step.weights->d[g], scale + rows.n * g,
                       step.shift, step.radix, sums);
  }
  FinishRows<W, kRows>(scale, sums, acc + kPanelRows * t);
}

/// The last block, of 1 to 15 rows. Sums beyond its rows may be garbage; the scratch has room.
template <Way W>
BALLAST_NOINLINE void TailBlock(const LinearPiece& piece, const Step& step, int64_t first,
                                Ring<W>* ring, float* acc) {
  const RoundedBlock rows = BlockAt(*piece.x, first);
  const std::byte* a = Codes<W>(rows, step);
  for (int g = 0; g < step.groups; ++g) {
    MultiplyGroupTail<W>(a + g * rows.n * GroupBytes(W), step.weights->b[g], ring->c[g][0]);
  }
  int t = 0;
  for (; rows.n - t > 4; t += 8) AddTailRows<W, 8>(step, rows, t, *ring, acc);
  if (t < rows.n) AddTailRows<W, 4>(step, rows, t, *ring, acc);
}

/// Panels that share one sweep over the input: the codes of 256 columns of all rows (up to 256 KiB)
/// come from L2 for all of them, however long the rows are.
constexpr int kPanelsTogether = 4;

template <DType T, Way W>
void UnpackBlock(const std::byte* data, int begin, int count, Weights* weights) {
  using F = Format<T>;
  for (int i = 0; i < count; ++i) {
    const int unit = (begin + i) / F::kUnitPairs, pair = (begin + i) % F::kUnitPairs;
    UnpackPair<T, W>(data + static_cast<ptrdiff_t>(unit) * F::kUnitBytes, pair, 2 * i, weights);
  }
  CompilerBarrier();
}

/// Panels [panel, panel + count) for all rows of the piece; sums[i] is scratch of panel i.
template <DType T, Way W>
void MultiplyTogether(const LinearPiece& piece, int32_t panel, int count, Ring<W>* ring,
                      float (*acc)[kMaxPieceRows * kPanelRows]) {
  using F = Format<T>;
  const PackedMatrix& w = *piece.weight;
  const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
  const int pairs = w.units() * F::kUnitPairs;
  const int64_t rows = piece.row_end - piece.row_begin;
  const int64_t blocks = rows / kTileRows;
  const bool twelve = piece.x->rounding == ActRounding::kInt12;
  Weights weights;
  Step step{&weights, 0, 0, _mm512_set1_epi32(twelve ? 4 : 8),
            _mm512_set1_ps(twelve ? 16.0f : 256.0f)};
  const auto sums_bytes = sizeof(float) * kPanelRows * (static_cast<size_t>(rows + 15) / 16 * 16);
  for (int i = 0; i < count; ++i) __builtin_memset(acc[i], 0, sums_bytes);
  ConfigureTiles<W>(static_cast<int>(rows % kTileRows));
  for (int begin = 0; begin < pairs; begin += 4) {
    step.block = begin / 4;
    step.groups = 2 * (pairs - begin < 4 ? pairs - begin : 4);
    for (int i = 0; i < count; ++i) {
      UnpackBlock<T, W>(data + static_cast<size_t>(i) * w.panel_bytes(), begin, step.groups / 2,
                        &weights);
      if (blocks > 0) FullBlocks<W>(piece, step, blocks, ring, acc[i]);
      if (blocks * kTileRows < rows) {
        TailBlock<W>(piece, step, piece.row_begin + blocks * kTileRows, ring,
                     acc[i] + blocks * kTileRows * kPanelRows);
      }
    }
  }
  // AVX-512 runs at half speed while tiles are live.
  _tile_release();
  for (int i = 0; F::kMinimum && i < count; ++i) {
    avx512::AddMinimums<T>(piece, data + static_cast<size_t>(i) * w.panel_bytes(), acc[i]);
  }
  avx512::StorePanels(piece, panel, count, acc);
}

template <DType T, Way W>
void MultiplyPanels(const LinearPiece& piece) {
  alignas(64) float acc[kPanelsTogether][kMaxPieceRows * kPanelRows];
  Ring<W> ring;
  __builtin_memset(&ring, 0, sizeof(ring));
  // Few rows: the weights are the traffic, and one stream of them is prefetched best.
  const int together = piece.row_end - piece.row_begin <= 2 * kTileRows ? 1 : kPanelsTogether;
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; panel += together) {
    const int count = piece.panel_end - panel < together ? piece.panel_end - panel : together;
    MultiplyTogether<T, W>(piece, panel, count, &ring, acc);
  }
}

template <DType T>
void MultiplyRounding(const LinearPiece& piece) {
  const ActRounding rounding = piece.x->rounding;
  if constexpr (Format<T>::kSix) {
    if (rounding == ActRounding::kInt8) return MultiplyPanels<T, Way::kSixInt8>(piece);
    return MultiplyPanels<T, Way::kSixWide>(piece);
  } else {
    if (rounding == ActRounding::kInt8) return MultiplyPanels<T, Way::kInt8>(piece);
    if constexpr (Format<T>::kFour) {
      constexpr Way kFused = Format<T>::kZero == 0 ? Way::kFusedU : Way::kFusedS;
      if (rounding == ActRounding::kInt12) return MultiplyPanels<T, kFused>(piece);
    }
    return MultiplyPanels<T, Way::kWide>(piece);
  }
}

void Multiply(const LinearPiece& piece) noexcept {
  if (IsFloat(piece.weight->type)) return avx512::MultiplyFloat(piece);
  if (piece.row_end - piece.row_begin <= avx512::kGemvRows) {
    return avx512::GemvBlock(piece, piece.row_begin);
  }
  switch (piece.weight->type) {
    case DType::kQ8_0:
      return MultiplyRounding<DType::kQ8_0>(piece);
    case DType::kQ4_0:
      return MultiplyRounding<DType::kQ4_0>(piece);
    case DType::kQ4_1:
      return MultiplyRounding<DType::kQ4_1>(piece);
    case DType::kQ5_0:
      return MultiplyRounding<DType::kQ5_0>(piece);
    case DType::kQ5_1:
      return MultiplyRounding<DType::kQ5_1>(piece);
    case DType::kQ4_K:
      return MultiplyRounding<DType::kQ4_K>(piece);
    case DType::kQ5_K:
      return MultiplyRounding<DType::kQ5_K>(piece);
    default:
      return MultiplyRounding<DType::kQ6_K>(piece);
  }
}

}  // namespace
}  // namespace amx

const LinearTable kLinearAmx = {avx512::Round, amx::Multiply, ref::DequantizeRow};

}  // namespace ballast
KERNEL_END
