// Role: AVX-512 VNNI products of one to eight input rows: memory-bound decode. Each panel is read
// once, prefetched, unpacked in registers and used for all rows at hand. Thread: as
// kernels/linear.h. Invariant: bits of ref/linear_ref.cc.
#include "kernels/avx512/linear_gemv.h"

#include "kernels/avx512/linear_codes.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

/// How the codes of a group become F (docs/arithmetic.md).
enum class Way {
  kInt8,   // one sum
  kFused,  // int12 on 4-bit codes: Σ 16q·h + q·l in one sum
  kWide,   // Σ q·h and Σ q·l apart
};

// Up to this many rows both groups of a pair are summed at once; beyond, registers allow one.
constexpr int kBothGroups = 4;

template <int kRows>
struct Sums {
  __m512 acc[kRows], mac[kRows], p[kRows];
};

/// The integer sums of one group: `high` alone for kInt8 and kFused.
template <int kRows>
struct Dots {
  __m512i high[kRows], low[kRows];
};

template <Way W, int kRows>
BALLAST_INLINE void AddDots(__m512i codes, const std::byte* a, Dots<kRows>* dots) {
  constexpr int kBytes = W == Way::kInt8 ? kGroup : 2 * kGroup;
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    if constexpr (W == Way::kInt8) {
      dots->high[t] = _mm512_dpbusd_epi32(dots->high[t], codes, BroadcastCodes(a + t * kBytes));
    } else if constexpr (W == Way::kFused) {
      const __m512i shifted = _mm512_slli_epi16(codes, 4);  // codes < 16: stays in its byte
      dots->high[t] = _mm512_dpbusd_epi32(dots->high[t], shifted, BroadcastCodes(a + t * kBytes));
      __m512i* low = kRows > kBothGroups ? &dots->high[t] : &dots->low[t];
      *low = _mm512_dpbusd_epi32(*low, codes, BroadcastCodes(a + t * kBytes + kGroup));
    } else {
      dots->high[t] = _mm512_dpbusd_epi32(dots->high[t], codes, BroadcastCodes(a + t * kBytes));
      dots->low[t] =
          _mm512_dpbusd_epi32(dots->low[t], codes, BroadcastCodes(a + t * kBytes + kGroup));
    }
  }
}

// Pairs of groups whose starts are made together: a small part of L1 even for Q6_K.
constexpr int kStartPairs = 8;

/// Where the integer sums of the next kStartPairs pairs start: −z·Σa, so that codes may stay
/// unsigned. A load, where a correction at the end would be two instructions a row and group.
/// Laid out as RoundedRows::Impl::asum (Q6_K: parts).
template <DType T>
struct alignas(64) Starts {
  static constexpr int kPerRow = Format<T>::kSix ? 4 : 1;
  int32_t values[2 * kStartPairs * kTileRows * kPerRow];

  /// From the sums of `count` rows and groups; reads up to a vector beyond them (kSlackBytes).
  BALLAST_INLINE void Fill(const int32_t* sums, int count) {
    if constexpr (Format<T>::kZero != 0) {
      constexpr int kShift = __builtin_ctz(Format<T>::kZero);
      static_assert(1 << kShift == Format<T>::kZero);
      for (int i = 0; i < count * kPerRow; i += 16) {
        const __m512i negated =
            _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(sums + i));
        _mm512_store_si512(values + i, _mm512_slli_epi32(negated, kShift));
      }
    }
  }
};

template <DType T, Way W, int kRows>
BALLAST_INLINE void Start(const int32_t* starts, Dots<kRows>* dots) {
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    dots->high[t] = dots->low[t] = _mm512_setzero_si512();
    if constexpr (Format<T>::kZero != 0) {
      (W == Way::kWide ? dots->low[t] : dots->high[t]) = _mm512_set1_epi32(starts[t]);
    }
  }
}

/// The same for half `kHalf` of a Q6_K group.
template <Way W, int kHalf, int kRows>
BALLAST_INLINE void StartHalf(const int32_t* starts, Dots<kRows>* dots) {
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    dots->high[t] = _mm512_set1_epi32(starts[4 * t + kHalf]);
    if constexpr (W != Way::kInt8) dots->low[t] = _mm512_set1_epi32(starts[4 * t + 2 + kHalf]);
  }
}

/// F of one row: the exact sum, converted once.
template <Way W>
BALLAST_INLINE __m512 Combine(__m512i high, __m512i low, __m128i shift) {
  __m512i sum = high;
  if constexpr (W == Way::kFused) sum = _mm512_add_epi32(high, low);
  if constexpr (W == Way::kWide) sum = _mm512_add_epi32(_mm512_sll_epi32(high, shift), low);
  return _mm512_cvtepi32_ps(sum);
}

/// Exact Σ sc · (q − 32) · a of a Q6_K group from the dots of its halves.
BALLAST_INLINE __m512 CombineHalves(__m512i first, __m512i second, __m512 scale0, __m512 scale1) {
  const __m512 f0 = _mm512_cvtepi32_ps(first), f1 = _mm512_cvtepi32_ps(second);
  return _mm512_fmadd_ps(scale0, f0, _mm512_mul_ps(scale1, f1));
}

/// Adds F to the row's running sum.
template <Way W>
BALLAST_INLINE void Accumulate(__m512 f, __m512 d, float scale, __m512* acc, __m512* p) {
  if constexpr (W == Way::kInt8) {
    *acc = _mm512_fmadd_ps(f, _mm512_mul_ps(d, _mm512_set1_ps(scale)), *acc);
  } else {
    *p = _mm512_fmadd_ps(f, d, *p);
  }
}

// Splits the two passes over a pair's codes: merged, they would need too many registers.
BALLAST_INLINE void CompilerBarrier() { __asm__ volatile("" ::: "memory"); }

/// What changes from group to group of one block of input rows.
struct Cursor {
  const std::byte* codes;
  const float* scale;
  const float* u;
  const int32_t* starts;
};

template <DType T, Way W, int kRows>
BALLAST_INLINE void AddMinimum(const std::byte* unit, int pair, int half, const float* u,
                               Sums<kRows>* sums) {
  if constexpr (Format<T>::kMinimum) {
    const __m512 m = LoadMinimum<T>(unit, pair, half);
#pragma GCC unroll 8
    for (int t = 0; t < kRows; ++t) {
      sums->mac[t] = _mm512_fmadd_ps(m, _mm512_set1_ps(u[t]), sums->mac[t]);
    }
  }
}

template <DType T, Way W, int kRows>
BALLAST_INLINE void FinishGroup(const std::byte* unit, int pair, int half, const Dots<kRows>& dots,
                                const Cursor& at, __m128i shift, Sums<kRows>* sums) {
  const __m512 d = LoadScale<T>(unit, pair, half);
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    const __m512 f = Combine<W>(dots.high[t], dots.low[t], shift);
    Accumulate<W>(f, d, at.scale[t], &sums->acc[t], &sums->p[t]);
  }
  AddMinimum<T, W>(unit, pair, half, at.u, sums);
}

#define BALLAST_EACH_VECTOR(STEP) STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)

/// One pair of groups of every format but Q6_K. `next` is the second group's cursor.
template <DType T, Way W, int kRows>
BALLAST_INLINE void AddPair(const std::byte* unit, int pair, const Cursor& at, const Cursor& next,
                            __m128i shift, Sums<kRows>* sums) {
  __m512i a, b;
  if constexpr (kRows <= kBothGroups) {
    Dots<kRows> first, second;
    Start<T, W>(at.starts, &first);
    Start<T, W>(next.starts, &second);
#define BALLAST_STEP(J)                    \
  PrefetchSlice<T, J, 8>(unit, pair);      \
  LoadCodes<T, J>(unit, pair, &a, &b);     \
  AddDots<W>(a, at.codes + 4 * J, &first); \
  AddDots<W>(b, next.codes + 4 * J, &second);
    BALLAST_EACH_VECTOR(BALLAST_STEP)
#undef BALLAST_STEP
    FinishGroup<T, W>(unit, pair, 0, first, at, shift, sums);
    FinishGroup<T, W>(unit, pair, 1, second, next, shift, sums);
  } else {
    Dots<kRows> dots;
    Start<T, W>(at.starts, &dots);
#define BALLAST_STEP(J)                \
  PrefetchSlice<T, J, 16>(unit, pair); \
  LoadCodes<T, J>(unit, pair, &a, &b); \
  AddDots<W>(a, at.codes + 4 * J, &dots);
    BALLAST_EACH_VECTOR(BALLAST_STEP)
#undef BALLAST_STEP
    FinishGroup<T, W>(unit, pair, 0, dots, at, shift, sums);
    Start<T, W>(next.starts, &dots);
    CompilerBarrier();
#define BALLAST_STEP(J)                    \
  PrefetchSlice<T, 8 + J, 16>(unit, pair); \
  LoadCodes<T, J>(unit, pair, &a, &b);     \
  AddDots<W>(b, next.codes + 4 * J, &dots);
    BALLAST_EACH_VECTOR(BALLAST_STEP)
#undef BALLAST_STEP
    FinishGroup<T, W>(unit, pair, 1, dots, next, shift, sums);
  }
}

/// The same for Q6_K, whose scales change at the middle of a group.
template <Way W, int kRows>
BALLAST_INLINE void FinishSix(const std::byte* unit, int pair, int half, const Dots<kRows>& x,
                              const Dots<kRows>& y, const Cursor& at, float radix,
                              Sums<kRows>* sums) {
  const __m512 d = LoadHalves(unit);
  const __m512 s0 = LoadSixScale(unit, pair, half, 0), s1 = LoadSixScale(unit, pair, half, 1);
#pragma GCC unroll 8
  for (int t = 0; t < kRows; ++t) {
    __m512 f = CombineHalves(x.high[t], y.high[t], s0, s1);
    if constexpr (W != Way::kInt8) {
      const __m512 low = CombineHalves(x.low[t], y.low[t], s0, s1);
      f = _mm512_fmadd_ps(_mm512_set1_ps(radix), f, low);
    }
    Accumulate<W>(f, d, at.scale[t], &sums->acc[t], &sums->p[t]);
  }
}

template <Way W, int kRows>
BALLAST_INLINE void AddPairSix(const std::byte* unit, int pair, const Cursor& at,
                               const Cursor& next, float radix, Sums<kRows>* sums) {
  constexpr DType T = DType::kQ6_K;
  __m512i a, b;
  Dots<kRows> x, y;  // first and second half of the columns
  StartHalf<W, 0>(at.starts, &x);
  StartHalf<W, 1>(at.starts, &y);
#define BALLAST_STEP(J)                \
  PrefetchSlice<T, J, 16>(unit, pair); \
  LoadCodes<T, J>(unit, pair, &a, &b); \
  AddDots<W>(a, at.codes + 4 * J, J < 4 ? &x : &y);
  BALLAST_EACH_VECTOR(BALLAST_STEP)
#undef BALLAST_STEP
  FinishSix<W>(unit, pair, 0, x, y, at, radix, sums);
  StartHalf<W, 0>(next.starts, &x);
  StartHalf<W, 1>(next.starts, &y);
#define BALLAST_STEP(J)                    \
  PrefetchSlice<T, 8 + J, 16>(unit, pair); \
  LoadCodes<T, J>(unit, pair, &a, &b);     \
  AddDots<W>(b, next.codes + 4 * J, J < 4 ? &x : &y);
  BALLAST_EACH_VECTOR(BALLAST_STEP)
#undef BALLAST_STEP
  FinishSix<W>(unit, pair, 1, x, y, next, radix, sums);
}

/// Rows [t, t + kRows) of a block against one panel; the block may have fewer, whose sums are
/// dropped.
template <DType T, Way W, int kRows>
void MultiplyPanel(const LinearPiece& piece, int32_t panel, const RoundedBlock& block, int t,
                   int64_t row) {
  using F = Format<T>;
  constexpr int kBytes = W == Way::kInt8 ? kGroup : 2 * kGroup;
  const PackedMatrix& w = *piece.weight;
  const std::byte* unit = w.data + static_cast<size_t>(panel) * w.panel_bytes();
  const int pairs = w.units() * F::kUnitPairs;
  const int n = block.n;
  const bool twelve = piece.x->rounding == ActRounding::kInt12;
  const __m128i shift = _mm_cvtsi32_si128(twelve ? 4 : 8);
  const float radix = twelve ? 16.0f : 256.0f;
  const float* block_scale = block.scale + t;
  Starts<T> starts;
  const int row_starts = n * Starts<T>::kPerRow;
  const int32_t* zero_sums = F::kSix ? block.parts : block.asum;
  Cursor at{block.codes + t * kBytes, block.scale + t, block.u + t, nullptr};
  Sums<kRows> sums;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    sums.acc[i] = sums.mac[i] = sums.p[i] = _mm512_setzero_ps();
  }
  for (int index = 0; index < pairs; ++index) {
    const int pair = F::kUnitPairs == 1 ? 0 : index % F::kUnitPairs;
    if (index % kStartPairs == 0) {
      const int left = pairs - index < kStartPairs ? pairs - index : kStartPairs;
      starts.Fill(zero_sums + 2 * index * row_starts, 2 * left * n);
      at.starts = starts.values + t * Starts<T>::kPerRow;
    }
    const Cursor next{at.codes + n * kBytes, at.scale + n, at.u + n, at.starts + row_starts};
    if constexpr (F::kSix) {
      AddPairSix<W>(unit, pair, at, next, radix, &sums);
    } else {
      AddPair<T, W>(unit, pair, at, next, shift, &sums);
    }
    at = {next.codes + n * kBytes, next.scale + n, next.u + n, next.starts + row_starts};
    if (F::kUnitPairs == 1 || pair == F::kUnitPairs - 1) unit += F::kUnitBytes;
    if (W != Way::kInt8 && (index % 4 == 3 || index + 1 == pairs)) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        sums.acc[i] = _mm512_fmadd_ps(_mm512_set1_ps(block_scale[i]), sums.p[i], sums.acc[i]);
        sums.p[i] = _mm512_setzero_ps();
      }
      block_scale += n;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const __m512 y = F::kMinimum ? _mm512_add_ps(sums.acc[i], sums.mac[i]) : sums.acc[i];
    if (t + i < n) StoreRow(piece, panel, row + i, y);
  }
}

template <DType T, Way W>
void MultiplyBlock(const LinearPiece& piece, int64_t first) {
  const RoundedBlock block = BlockAt(*piece.x, first);
  for (int32_t panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
    int t = 0;
    for (; block.n - t > kBothGroups; t += 8) {
      MultiplyPanel<T, W, 8>(piece, panel, block, t, first + t);
    }
    switch (block.n - t) {
      case 4:
      case 3:
        MultiplyPanel<T, W, 4>(piece, panel, block, t, first + t);
        break;
      case 2:
        MultiplyPanel<T, W, 2>(piece, panel, block, t, first + t);
        break;
      case 1:
        MultiplyPanel<T, W, 1>(piece, panel, block, t, first + t);
        break;
      default:
        break;
    }
  }
}

template <DType T>
void MultiplyRounding(const LinearPiece& piece, int64_t first) {
  if (piece.x->rounding == ActRounding::kInt8) return MultiplyBlock<T, Way::kInt8>(piece, first);
  if constexpr (Format<T>::kFour) {
    if (piece.x->rounding == ActRounding::kInt12) {
      return MultiplyBlock<T, Way::kFused>(piece, first);
    }
  }
  MultiplyBlock<T, Way::kWide>(piece, first);
}

}  // namespace

void GemvBlock(const LinearPiece& piece, int64_t first) noexcept {
  switch (piece.weight->type) {
    case DType::kQ8_0:
      return MultiplyRounding<DType::kQ8_0>(piece, first);
    case DType::kQ4_0:
      return MultiplyRounding<DType::kQ4_0>(piece, first);
    case DType::kQ4_1:
      return MultiplyRounding<DType::kQ4_1>(piece, first);
    case DType::kQ5_0:
      return MultiplyRounding<DType::kQ5_0>(piece, first);
    case DType::kQ5_1:
      return MultiplyRounding<DType::kQ5_1>(piece, first);
    case DType::kQ4_K:
      return MultiplyRounding<DType::kQ4_K>(piece, first);
    case DType::kQ5_K:
      return MultiplyRounding<DType::kQ5_K>(piece, first);
    case DType::kQ6_K:
      return MultiplyRounding<DType::kQ6_K>(piece, first);
    default:
      return;
  }
}

}  // namespace avx512
}  // namespace ballast
KERNEL_END
