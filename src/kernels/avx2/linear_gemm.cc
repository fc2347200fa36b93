// Role: AVX2 products with quantised weights, any number of rows. A panel's block of 256 columns is
// unpacked once into L1 and used for every row; that keeps up with memory for a single row as well.
// maddubs saturates at 16 bits, so codes of more than 4 bits are summed in fewer steps or in two
// planes. Thread: as kernels/linear.h; scratch is on the stack. Invariant: bits of
// ref/linear_ref.cc.
#include "kernels/avx2/linear_avx2.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {
namespace {

constexpr int kPrefetchBytes = 2560;
constexpr int kVectorBytes = 64;
constexpr int kHalfRows = 8;  // rows of a ymm register

template <DType T>
struct Format {
  static constexpr bool kSuper = T == DType::kQ4_K || T == DType::kQ5_K || T == DType::kQ6_K;
  static constexpr bool kSix = T == DType::kQ6_K;
  static constexpr bool kFive = T == DType::kQ5_0 || T == DType::kQ5_1 || T == DType::kQ5_K;
  static constexpr bool kEight = T == DType::kQ8_0;
  static constexpr bool kMinimum =
      T == DType::kQ4_1 || T == DType::kQ5_1 || T == DType::kQ4_K || T == DType::kQ5_K;
  static constexpr int kBits = kSix ? 6 : kFive ? 5 : kEight ? 8 : 4;
  static constexpr int kUnitBytes = kPackedUnit[static_cast<int>(T)].bytes;
  static constexpr int kUnitPairs = kSuper ? 4 : 1;
  static constexpr int kCodes = kSuper ? 320 : kMinimum ? 128 : 64;
  static constexpr int kExtra = kCodes + (kSuper ? 2048 : 512);
  static constexpr int kZero = T == DType::kQ4_0 ? 8 : T == DType::kQ5_0 ? 16 : kEight ? 128 : 0;
};

/// A block of up to 256 columns of one panel.
struct alignas(64) Unpacked {
  std::byte codes[kBlockGroups][2][8 * kVectorBytes];  // plane 1: the high nibbles of Q8_0
  float d[kBlockGroups][kPanelRows];
  float m[kBlockGroups][kPanelRows];
  float six[kBlockGroups][2][kPanelRows];
};

// ---- Unpacking ----

BALLAST_INLINE __m256i Load(const std::byte* p) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
}
BALLAST_INLINE void Store(std::byte* p, __m256i v) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(p), v);
}

BALLAST_INLINE __m256 LoadBytesU(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
BALLAST_INLINE __m256 LoadBytesS(const std::byte* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

/// Bits [from, from + width) of every byte at bits [4, 4 + width).
template <int kFrom, int kMask>
BALLAST_INLINE __m256i BitsToFour(__m256i v) {
  if constexpr (kFrom < 4) v = _mm256_slli_epi16(v, 4 - kFrom);
  if constexpr (kFrom > 4) v = _mm256_srli_epi16(v, kFrom - 4);
  return _mm256_and_si256(v, _mm256_set1_epi8(kMask));
}

/// Vector J (half of its rows at `offset`) of both groups of a pair.
template <DType T, int J>
BALLAST_INLINE void UnpackHalfVector(const std::byte* unit, int pair, int group, int offset,
                                     Unpacked* out) {
  using F = Format<T>;
  const __m256i low4 = _mm256_set1_epi8(0x0F);
  const int at = kVectorBytes * J + offset;
  if constexpr (F::kEight) {
    for (int half = 0; half < 2; ++half) {
      const __m256i q = _mm256_xor_si256(Load(unit + F::kCodes + 512 * half + at),
                                         _mm256_set1_epi8(static_cast<char>(0x80)));
      Store(out->codes[group + half][0] + at, _mm256_and_si256(q, low4));
      Store(out->codes[group + half][1] + at, _mm256_and_si256(_mm256_srli_epi16(q, 4), low4));
    }
    return;
  }
  const __m256i v = Load(unit + F::kCodes + 512 * pair + at);
  __m256i a = _mm256_and_si256(v, low4);
  __m256i b = _mm256_and_si256(_mm256_srli_epi16(v, 4), low4);
  if constexpr (F::kFive) {
    const std::byte* bits = unit + F::kExtra + 128 * pair + offset;
    a = _mm256_or_si256(a, BitsToFour<J, 0x10>(Load(bits)));
    b = _mm256_or_si256(b, BitsToFour<J, 0x10>(Load(bits + 64)));
  }
  if constexpr (F::kSix) {
    const std::byte* high = unit + F::kExtra + 256 * pair + 64 * (J / 4) + offset;
    a = _mm256_or_si256(a, BitsToFour<2 * (J % 4), 0x30>(Load(high)));
    b = _mm256_or_si256(b, BitsToFour<2 * (J % 4), 0x30>(Load(high + 128)));
  }
  Store(out->codes[group][0] + at, a);
  Store(out->codes[group + 1][0] + at, b);
}

template <DType T, int J>
BALLAST_INLINE void UnpackVectors(const std::byte* unit, int pair, int group, Unpacked* out) {
  UnpackHalfVector<T, J>(unit, pair, group, 0, out);
  UnpackHalfVector<T, J>(unit, pair, group, 32, out);
  if constexpr (J + 1 < 8) UnpackVectors<T, J + 1>(unit, pair, group, out);
}

/// Scales and minimums of the eight rows from `r` on.
template <DType T>
BALLAST_INLINE void UnpackScales(const std::byte* unit, int pair, int half, int r, int group,
                                 Unpacked* out) {
  using F = Format<T>;
  if constexpr (F::kSix) {
    _mm256_store_ps(out->d[group] + r, LoadHalves(unit + 2 * r));
    for (int part = 0; part < 2; ++part) {
      _mm256_store_ps(out->six[group][part] + r,
                      LoadBytesS(unit + 64 + 64 * pair + 32 * half + 16 * part + r));
    }
  } else if constexpr (F::kSuper) {
    const int at = 32 * pair + 16 * half + r;
    _mm256_store_ps(out->d[group] + r,
                    _mm256_mul_ps(LoadHalves(unit + 2 * r), LoadBytesU(unit + 64 + at)));
    const __m256 minimum =
        _mm256_mul_ps(LoadHalves(unit + 32 + 2 * r), LoadBytesU(unit + 192 + at));
    _mm256_store_ps(out->m[group] + r, _mm256_xor_ps(minimum, _mm256_set1_ps(-0.0f)));
  } else {
    _mm256_store_ps(out->d[group] + r, LoadHalves(unit + 32 * half + 2 * r));
    if constexpr (F::kMinimum) {
      _mm256_store_ps(out->m[group] + r, LoadHalves(unit + 64 + 32 * half + 2 * r));
    }
  }
}

template <DType T>
void UnpackPair(const std::byte* unit, int pair, int group, Unpacked* out) {
  constexpr int kBytes = Format<T>::kUnitBytes / Format<T>::kUnitPairs;
  const auto* ahead = reinterpret_cast<const char*>(unit) + pair * kBytes + kPrefetchBytes;
  for (int i = 0; i < kBytes; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T0);
  UnpackVectors<T, 0>(unit, pair, group, out);
  for (int half = 0; half < 2; ++half) {
    UnpackScales<T>(unit, pair, half, 0, group + half, out);
    UnpackScales<T>(unit, pair, half, kHalfRows, group + half, out);
  }
}

// ---- Products ----

BALLAST_INLINE __m256i BroadcastCodes(const std::byte* a) {
  int32_t four;
  __builtin_memcpy(&four, a, 4);
  return _mm256_set1_epi32(four);
}

/// Exact Σ q · a over vectors [kFirst, kLast) for kRows input rows; q < 2^kBits, a in [−128, 127].
template <int kBits, int kFirst, int kLast, int kStride, int kRows>
BALLAST_INLINE void Dot(const std::byte* codes, const std::byte* a, __m256i* sums) {
  // 2 · (2^bits − 1) · 128 a vector must stay within 16 bits: 8, 4 and 2 vectors.
  constexpr int kVectors = kBits == 4 ? 8 : kBits == 5 ? 4 : 2;
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) sums[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int j = kFirst; j < kLast; j += kVectors) {
    __m256i words[kRows];
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) words[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = j; i < j + kVectors; ++i) {
      const __m256i v = Load(codes + kVectorBytes * i);
#pragma GCC unroll 8
      for (int t = 0; t < kRows; ++t) {
        const __m256i product = _mm256_maddubs_epi16(v, BroadcastCodes(a + t * kStride + 4 * i));
        words[t] = _mm256_add_epi16(words[t], product);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(words[t], ones));
    }
  }
}

/// A whole group of any format but Q6_K. `codes` points at the half of plane 0.
template <int kBits, int kStride, int kRows>
BALLAST_INLINE void DotGroup(const std::byte* codes, const std::byte* a, __m256i* sums) {
  if constexpr (kBits == 8) {
    __m256i high[kRows];
    Dot<4, 0, 8, kStride, kRows>(codes, a, sums);
    Dot<4, 0, 8, kStride, kRows>(codes + 8 * kVectorBytes, a, high);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      sums[t] = _mm256_add_epi32(sums[t], _mm256_slli_epi32(high[t], 4));
    }
  } else {
    Dot<kBits, 0, 8, kStride, kRows>(codes, a, sums);
  }
}

/// Exact Σ sc · (q − 32) · a of a Q6_K group.
template <int kStride, int kRows>
BALLAST_INLINE void DotSix(const std::byte* codes, const std::byte* a, const float* scales,
                           const int32_t* parts, __m256* sums) {
  __m256i first[kRows], second[kRows];
  Dot<6, 0, 4, kStride, kRows>(codes, a, first);
  Dot<6, 4, 8, kStride, kRows>(codes, a, second);
  const __m256 s0 = _mm256_load_ps(scales), s1 = _mm256_load_ps(scales + kPanelRows);
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    const int32_t* zero = parts + 4 * t;
    const __m256 f0 =
        _mm256_cvtepi32_ps(_mm256_sub_epi32(first[t], _mm256_set1_epi32(32 * zero[0])));
    const __m256 f1 =
        _mm256_cvtepi32_ps(_mm256_sub_epi32(second[t], _mm256_set1_epi32(32 * zero[1])));
    sums[t] = _mm256_fmadd_ps(s0, f0, _mm256_mul_ps(s1, f1));
  }
}

/// Rows [t, t + kRows) of a block against eight panel rows of an unpacked block of columns.
struct Inner {
  const Unpacked* weights;
  RoundedBlock at;  // positioned at the row and the first group
  const float* block_scale;
  int groups;
  int zero;
  int shift;
};

/// F of kRows input rows in group g (docs/arithmetic.md).
template <int kBits, bool kWide, int kRows>
BALLAST_INLINE void GroupF(const Inner& in, int g, int r, __m256* f) {
  constexpr int kBytes = kWide ? 2 * kGroup : kGroup;
  const ptrdiff_t i = static_cast<ptrdiff_t>(g) * in.at.n;
  const std::byte* codes = in.weights->codes[g][0] + 4 * r;
  const std::byte* a = in.at.codes + i * kBytes;
  if constexpr (kBits == 6) {
    const float* scales = in.weights->six[g][0] + r;
    DotSix<kBytes, kRows>(codes, a, scales, in.at.parts + 4 * i, f);
    if constexpr (!kWide) return;
    __m256 low[kRows];
    DotSix<kBytes, kRows>(codes, a + kGroup, scales, in.at.parts + 4 * i + 2, low);
    const __m256 radix = _mm256_set1_ps(static_cast<float>(1 << in.shift));
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) f[t] = _mm256_fmadd_ps(radix, f[t], low[t]);
    return;
  }
  __m256i sums[kRows];
  DotGroup<kBits == 6 ? 4 : kBits, kBytes, kRows>(codes, a, sums);
  if constexpr (kWide) {
    __m256i low[kRows];
    DotGroup<kBits == 6 ? 4 : kBits, kBytes, kRows>(codes, a + kGroup, low);
    const __m128i shift = _mm_cvtsi32_si128(in.shift);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      sums[t] = _mm256_add_epi32(_mm256_sll_epi32(sums[t], shift), low[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    const __m256i zero = _mm256_set1_epi32(in.zero * in.at.asum[i + t]);
    f[t] = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums[t], zero));
  }
}

template <int kBits, bool kWide, bool kMinimum, int kRows>
void MultiplyRowsOf(const Inner& in, int r, float* acc, float* mac) {
  __m256 sums[kRows], minimums[kRows];
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    sums[t] = kWide ? _mm256_setzero_ps() : _mm256_load_ps(acc + kPanelRows * t);
    if (kMinimum) minimums[t] = _mm256_load_ps(mac + kPanelRows * t);
  }
  for (int g = 0; g < in.groups; ++g) {
    __m256 f[kRows];
    GroupF<kBits, kWide, kRows>(in, g, r, f);
    const ptrdiff_t i = static_cast<ptrdiff_t>(g) * in.at.n;
    const __m256 d = _mm256_load_ps(in.weights->d[g] + r);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      const __m256 by = kWide ? d : _mm256_mul_ps(d, _mm256_set1_ps(in.at.scale[i + t]));
      sums[t] = _mm256_fmadd_ps(f[t], by, sums[t]);
      if constexpr (kMinimum) {
        minimums[t] = _mm256_fmadd_ps(_mm256_load_ps(in.weights->m[g] + r),
                                      _mm256_set1_ps(in.at.u[i + t]), minimums[t]);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    float* at = acc + kPanelRows * t;
    if constexpr (kWide) {
      sums[t] = _mm256_fmadd_ps(_mm256_set1_ps(in.block_scale[t]), sums[t], _mm256_load_ps(at));
    }
    _mm256_store_ps(at, sums[t]);
    if (kMinimum) _mm256_store_ps(mac + kPanelRows * t, minimums[t]);
  }
}

template <int kBits, bool kWide, bool kMinimum>
void MultiplySome(const Inner& in, int rows, float* acc, float* mac) {
  for (int r = 0; r < kPanelRows; r += kHalfRows) {
    switch (rows) {
      case 1:
        MultiplyRowsOf<kBits, kWide, kMinimum, 1>(in, r, acc + r, mac + r);
        break;
      case 2:
        MultiplyRowsOf<kBits, kWide, kMinimum, 2>(in, r, acc + r, mac + r);
        break;
      case 3:
        MultiplyRowsOf<kBits, kWide, kMinimum, 3>(in, r, acc + r, mac + r);
        break;
      default:
        MultiplyRowsOf<kBits, kWide, kMinimum, 4>(in, r, acc + r, mac + r);
    }
  }
}

/// All rows of the piece against block `b` of 256 columns.
template <int kBits, bool kWide, bool kMinimum>
void MultiplyBlock(const LinearPiece& piece, const Unpacked& weights, int64_t b, int groups,
                   int zero, float* acc, float* mac) {
  constexpr int kBytes = kWide ? 2 * kGroup : kGroup;
  const int64_t g = b * kBlockGroups;
  for (int64_t first = piece.row_begin; first < piece.row_end; first += kTileRows) {
    const RoundedBlock block = BlockAt(*piece.x, first);
    const int n = block.n;
    for (int t = 0; t < n; t += 4) {
      Inner in;
      in.weights = &weights;
      in.at = {block.codes + (g * n + t) * kBytes,
               kWide ? nullptr : block.scale + g * n + t,
               block.u + g * n + t,
               block.asum + g * n + t,
               block.parts + 4 * (g * n + t),
               n};
      in.block_scale = kWide ? block.scale + b * n + t : nullptr;
      in.groups = groups;
      in.zero = zero;
      in.shift = piece.x->rounding == ActRounding::kInt12 ? 4 : 8;
      const int64_t at = kPanelRows * (first - piece.row_begin + t);
      MultiplySome<kBits, kWide, kMinimum>(in, n - t, acc + at, mac + at);
    }
  }
}

template <DType T, bool kWide>
void MultiplyPanels(const LinearPiece& piece) {
  using F = Format<T>;
  alignas(64) float acc[kMaxPieceRows * kPanelRows];
  alignas(64) float mac[F::kMinimum ? kMaxPieceRows * kPanelRows : kPanelRows];
  Unpacked weights;
  const PackedMatrix& w = *piece.weight;
  const int pairs = w.units() * F::kUnitPairs;
  const int64_t rows = piece.row_end - piece.row_begin;
  const size_t bytes = static_cast<size_t>(rows) * kPanelRows * sizeof(float);
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
    const std::byte* data = w.data + static_cast<size_t>(panel) * w.panel_bytes();
    __builtin_memset(acc, 0, bytes);
    if (F::kMinimum) __builtin_memset(mac, 0, bytes);
    for (int begin = 0; begin < pairs; begin += 4) {
      const int count = pairs - begin < 4 ? pairs - begin : 4;
      for (int i = 0; i < count; ++i) {
        const int unit = (begin + i) / F::kUnitPairs, pair = (begin + i) % F::kUnitPairs;
        UnpackPair<T>(data + static_cast<ptrdiff_t>(unit) * F::kUnitBytes, pair, 2 * i, &weights);
      }
      MultiplyBlock<F::kBits, kWide, F::kMinimum>(piece, weights, begin / 4, 2 * count, F::kZero,
                                                  acc, mac);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int r = 0; r < kPanelRows; r += kHalfRows) {
        __m256 y = _mm256_load_ps(acc + kPanelRows * i + r);
        if constexpr (F::kMinimum) {
          y = _mm256_add_ps(y, _mm256_load_ps(mac + kPanelRows * i + r));
        }
        StoreEight(piece, panel * kPanelRows + r, piece.row_begin + i, y);
      }
    }
  }
}

template <DType T>
void MultiplyRounding(const LinearPiece& piece) {
  if (piece.x->wide()) return MultiplyPanels<T, true>(piece);
  MultiplyPanels<T, false>(piece);
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

}  // namespace avx2
}  // namespace ballast
KERNEL_END
