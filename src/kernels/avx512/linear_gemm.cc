// Role: AVX-512 VNNI products of nine and more input rows. A panel's block of 256 columns is
// unpacked once into L1 and used for every row of the piece; running sums stay in a small scratch.
// Thread: as kernels/linear.h; scratch is on the stack. Invariant: bits of ref/linear_ref.cc.
#include "kernels/avx512/linear_block.h"
#include "kernels/avx512/linear_codes.h"
#include "kernels/avx512/linear_gemv.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

/// A block of up to 256 columns of one panel.
struct alignas(64) Unpacked {
  std::byte codes[kBlockGroups][8][64];  // unsigned bytes
  float d[kBlockGroups][kPanelRows];
  float six[kBlockGroups][2][kPanelRows];
};

enum class Way { kInt8, kFused, kWide, kSixInt8, kSixWide };

constexpr bool IsInt8(Way way) { return way == Way::kInt8 || way == Way::kSixInt8; }
/// Rows at once, so that all sums stay in registers.
constexpr int MaxRows(Way way) { return way == Way::kSixWide ? 4 : 8; }

template <DType T, int J>
BALLAST_INLINE void UnpackVector(const std::byte* unit, int pair, int group, Unpacked* out) {
  __m512i a, b;
  LoadCodes<T, J>(unit, pair, &a, &b);
  _mm512_store_si512(out->codes[group][J], a);
  _mm512_store_si512(out->codes[group + 1][J], b);
}

template <DType T>
void UnpackPair(const std::byte* unit, int pair, int group, Unpacked* out) {
  PrefetchPair<T>(unit, pair);
  UnpackVector<T, 0>(unit, pair, group, out);
  UnpackVector<T, 1>(unit, pair, group, out);
  UnpackVector<T, 2>(unit, pair, group, out);
  UnpackVector<T, 3>(unit, pair, group, out);
  UnpackVector<T, 4>(unit, pair, group, out);
  UnpackVector<T, 5>(unit, pair, group, out);
  UnpackVector<T, 6>(unit, pair, group, out);
  UnpackVector<T, 7>(unit, pair, group, out);
  for (int half = 0; half < 2; ++half) {
    _mm512_store_ps(out->d[group + half], LoadScale<T>(unit, pair, half));
    if constexpr (Format<T>::kSix) {
      for (int part = 0; part < 2; ++part) {
        _mm512_store_ps(out->six[group + half][part], LoadSixScale(unit, pair, half, part));
      }
    }
  }
}

/// Sums of up to 8 input rows, all in registers once inlined.
template <Way W, int kRows>
struct Tile {
  static constexpr int kBytes = IsInt8(W) ? kGroup : 2 * kGroup;
  __m512i x[kRows], y[kRows];  // high and low sums; Q6_K int8: first and second half
  __m512i z[kRows], w[kRows];  // Q6_K wide: second halves of both

  template <int J>
  BALLAST_INLINE void Add(__m512i v, const std::byte* a) {
    constexpr bool kSecond = J >= 4;
    const __m512i shifted = _mm512_slli_epi16(v, 4);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      const std::byte* at = a + t * kBytes + 4 * J;
      if constexpr (W == Way::kSixInt8 && kSecond) {
        y[t] = _mm512_dpbusd_epi32(y[t], v, BroadcastCodes(at));
      } else if constexpr (W == Way::kSixWide && kSecond) {
        z[t] = _mm512_dpbusd_epi32(z[t], v, BroadcastCodes(at));
        w[t] = _mm512_dpbusd_epi32(w[t], v, BroadcastCodes(at + kGroup));
      } else if constexpr (W == Way::kFused) {
        x[t] = _mm512_dpbusd_epi32(x[t], shifted, BroadcastCodes(at));
        x[t] = _mm512_dpbusd_epi32(x[t], v, BroadcastCodes(at + kGroup));
      } else {
        x[t] = _mm512_dpbusd_epi32(x[t], v, BroadcastCodes(at));
        if constexpr (!IsInt8(W)) y[t] = _mm512_dpbusd_epi32(y[t], v, BroadcastCodes(at + kGroup));
      }
    }
  }

  BALLAST_INLINE void Clear() {
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) x[t] = y[t] = z[t] = w[t] = _mm512_setzero_si512();
  }

  BALLAST_INLINE __m512 Value(int t, int zero, __m128i shift, float radix, int32_t asum,
                              const int32_t* parts, const float (*six)[kPanelRows]) const {
    if constexpr (W == Way::kSixInt8) {
      return Halves(x[t], y[t], parts, six);
    } else if constexpr (W == Way::kSixWide) {
      const __m512 high = Halves(x[t], z[t], parts, six);
      return _mm512_fmadd_ps(_mm512_set1_ps(radix), high, Halves(y[t], w[t], parts + 2, six));
    } else {
      __m512i sum = x[t];
      if constexpr (W == Way::kWide) sum = _mm512_add_epi32(_mm512_sll_epi32(sum, shift), y[t]);
      return _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(zero * asum)));
    }
  }

 private:
  static BALLAST_INLINE __m512 Halves(__m512i a, __m512i b, const int32_t* sums,
                                      const float (*six)[kPanelRows]) {
    const __m512 f0 = _mm512_cvtepi32_ps(_mm512_sub_epi32(a, _mm512_set1_epi32(32 * sums[0])));
    const __m512 f1 = _mm512_cvtepi32_ps(_mm512_sub_epi32(b, _mm512_set1_epi32(32 * sums[1])));
    return _mm512_fmadd_ps(_mm512_load_ps(six[0]), f0, _mm512_mul_ps(_mm512_load_ps(six[1]), f1));
  }
};

/// What one call of the inner loop works on: rows [t, t + kRows) of a block, `groups` groups.
struct Inner {
  const Unpacked* weights;
  RoundedBlock at;  // positioned at the row and the first group
  float block_scale[8];
  int groups;
  int zero;
  int shift;
};

template <Way W, int kRows>
void MultiplyRowsOf(const Inner& in, float* acc) {
  const RoundedBlock& at = in.at;
  const __m128i shift = _mm_cvtsi32_si128(in.shift);
  const auto radix = static_cast<float>(1 << in.shift);
  __m512 sums[kRows];
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    sums[t] = IsInt8(W) ? _mm512_load_ps(acc + 16 * t) : _mm512_setzero_ps();
  }
  for (int g = 0; g < in.groups; ++g) {
    Tile<W, kRows> tile;
    tile.Clear();
    const std::byte* a = at.codes + static_cast<ptrdiff_t>(g) * at.n * tile.kBytes;
    const auto& codes = in.weights->codes[g];
    tile.template Add<0>(_mm512_load_si512(codes[0]), a);
    tile.template Add<1>(_mm512_load_si512(codes[1]), a);
    tile.template Add<2>(_mm512_load_si512(codes[2]), a);
    tile.template Add<3>(_mm512_load_si512(codes[3]), a);
    tile.template Add<4>(_mm512_load_si512(codes[4]), a);
    tile.template Add<5>(_mm512_load_si512(codes[5]), a);
    tile.template Add<6>(_mm512_load_si512(codes[6]), a);
    tile.template Add<7>(_mm512_load_si512(codes[7]), a);
    const __m512 d = _mm512_load_ps(in.weights->d[g]);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      const ptrdiff_t i = static_cast<ptrdiff_t>(g) * at.n + t;
      const __m512 f =
          tile.Value(t, in.zero, shift, radix, at.asum[i], at.parts + 4 * i, in.weights->six[g]);
      const __m512 scale = IsInt8(W) ? _mm512_mul_ps(d, _mm512_set1_ps(at.scale[i])) : d;
      sums[t] = _mm512_fmadd_ps(f, scale, sums[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    if constexpr (!IsInt8(W)) {
      sums[t] =
          _mm512_fmadd_ps(_mm512_set1_ps(in.block_scale[t]), sums[t], _mm512_load_ps(acc + 16 * t));
    }
    _mm512_store_ps(acc + 16 * t, sums[t]);
  }
}

template <Way W>
void MultiplySome(const Inner& in, int rows, float* acc) {
  if constexpr (MaxRows(W) == 8) {
    switch (rows) {
      case 5:
        return MultiplyRowsOf<W, 5>(in, acc);
      case 6:
        return MultiplyRowsOf<W, 6>(in, acc);
      case 7:
        return MultiplyRowsOf<W, 7>(in, acc);
      case 8:
        return MultiplyRowsOf<W, 8>(in, acc);
      default:
        break;
    }
  }
  switch (rows) {
    case 1:
      return MultiplyRowsOf<W, 1>(in, acc);
    case 2:
      return MultiplyRowsOf<W, 2>(in, acc);
    case 3:
      return MultiplyRowsOf<W, 3>(in, acc);
    default:
      return MultiplyRowsOf<W, 4>(in, acc);
  }
}

/// All rows of the piece against the unpacked block `b` of the panel.
template <Way W>
void MultiplyBlockOf(const LinearPiece& piece, const Unpacked& weights, int64_t b, int groups,
                     int zero, float* acc) {
  constexpr int kBytes = Tile<W, 1>::kBytes;
  const int64_t g = b * kBlockGroups;
  for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
    const RoundedBlock block = BlockAt(*piece.x, first);
    const int n = block.n;
    for (int t = 0; t < n; t += MaxRows(W)) {
      Inner in;
      in.weights = &weights;
      in.at = {block.codes + (g * n + t) * kBytes,
               IsInt8(W) ? block.scale + g * n + t : nullptr,
               block.u + g * n + t,
               block.asum + g * n + t,
               block.parts + 4 * (g * n + t),
               n};
      in.groups = groups;
      in.zero = zero;
      in.shift = piece.x->rounding == ActRounding::kInt12 ? 4 : 8;
      const int rows = n - t < MaxRows(W) ? n - t : MaxRows(W);
      for (int i = 0; !IsInt8(W) && i < rows; ++i) in.block_scale[i] = block.scale[b * n + t + i];
      MultiplySome<W>(in, rows, acc + 16 * (first - piece.row_begin + t));
    }
  }
}

template <DType T, Way W>
void MultiplyPanels(const LinearPiece& piece) {
  using F = Format<T>;
  constexpr int kZero = F::kSix ? 0 : F::kZero;
  alignas(64) float scratch[1][kMaxPieceRows * kPanelRows];
  float* acc = scratch[0];
  Unpacked weights;
  const PackedMatrix& w = *piece.weight;
  const int pairs = w.units() * F::kUnitPairs;
  const auto rows = static_cast<size_t>(piece.row_end - piece.row_begin);
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
    const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
    __builtin_memset(acc, 0, rows * kPanelRows * sizeof(float));
    for (int begin = 0; begin < pairs; begin += 4) {
      const int count = pairs - begin < 4 ? pairs - begin : 4;
      for (int i = 0; i < count; ++i) {
        const int unit = (begin + i) / F::kUnitPairs, pair = (begin + i) % F::kUnitPairs;
        UnpackPair<T>(data + static_cast<ptrdiff_t>(unit) * F::kUnitBytes, pair, 2 * i, &weights);
      }
      MultiplyBlockOf<W>(piece, weights, begin / 4, 2 * count, kZero, acc);
    }
    if constexpr (F::kMinimum) AddMinimums<T>(piece, data, acc);
    StorePanels(piece, panel, 1, scratch);
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
      if (rounding == ActRounding::kInt12) return MultiplyPanels<T, Way::kFused>(piece);
    }
    return MultiplyPanels<T, Way::kWide>(piece);
  }
}

}  // namespace

void Gemm(const LinearPiece& piece) noexcept {
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
    case DType::kQ6_K:
      return MultiplyRounding<DType::kQ6_K>(piece);
    default:
      return;
  }
}

}  // namespace avx512
}  // namespace ballast
KERNEL_END
