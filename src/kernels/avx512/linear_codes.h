// Role: reading packed panels with AVX-512: the codes and scales of a pair of groups as vectors.
// Shared by the GEMV, GEMM and AMX bodies. Layout: docs/formats/packed-panels.md.
#ifndef BALLAST_KERNELS_AVX512_LINEAR_CODES_H_
#define BALLAST_KERNELS_AVX512_LINEAR_CODES_H_

#include <immintrin.h>

#include "kernels/linear.h"
#include "kernels/target.h"

#define BALLAST_INLINE inline __attribute__((always_inline))
// Big bodies shared by several callers: inlining them would multiply code and compile time.
#define BALLAST_NOINLINE __attribute__((noinline))

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {

/// What the bodies need to know of a format.
template <DType T>
struct Format {
  static constexpr bool kSuper = T == DType::kQ4_K || T == DType::kQ5_K || T == DType::kQ6_K;
  static constexpr bool kSix = T == DType::kQ6_K;
  static constexpr bool kFive = T == DType::kQ5_0 || T == DType::kQ5_1 || T == DType::kQ5_K;
  static constexpr bool kEight = T == DType::kQ8_0;
  static constexpr bool kMinimum =
      T == DType::kQ4_1 || T == DType::kQ5_1 || T == DType::kQ4_K || T == DType::kQ5_K;
  /// 4-bit codes: 16·q still fits a byte, so int12 needs one sum and not two.
  static constexpr bool kFour = T == DType::kQ4_0 || T == DType::kQ4_1 || T == DType::kQ4_K;
  static constexpr int kUnitBytes = kPackedUnit[static_cast<int>(T)].bytes;
  static constexpr int kUnitPairs = kSuper ? 4 : 1;                  // pairs of groups in a unit
  static constexpr int kCodes = kSuper ? 320 : kMinimum ? 128 : 64;  // offset of the codes
  static constexpr int kExtra = kCodes + (kSuper ? 2048 : 512);      // fifth or high bits
  /// The code that means zero once codes are unsigned bytes (Q8_0: xor 0x80).
  static constexpr int kZero = T == DType::kQ4_0   ? 8
                               : T == DType::kQ5_0 ? 16
                               : kSix              ? 32
                               : kEight            ? 128
                                                   : 0;
};

BALLAST_INLINE __m512i LoadVector(const std::byte* p) { return _mm512_load_si512(p); }

BALLAST_INLINE __m512 LoadHalves(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
}

BALLAST_INLINE __m512 LoadBytesU(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}

BALLAST_INLINE __m512 LoadBytesS(const std::byte* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
}

/// Moves bit `from` of every byte to bit 4 (other bits become garbage or zero).
template <int kFrom>
BALLAST_INLINE __m512i BitToFour(__m512i v) {
  if constexpr (kFrom < 4) return _mm512_slli_epi16(v, 4 - kFrom);
  if constexpr (kFrom > 4) return _mm512_srli_epi16(v, kFrom - 4);
  return v;
}

/// (v & mask) | bits
BALLAST_INLINE __m512i MaskOr(__m512i v, __m512i mask, __m512i bits) {
  return _mm512_ternarylogic_epi32(v, mask, bits, 0xEA);
}

/// Codes of vector J of both groups of pair `pair` of a unit, as unsigned bytes (q of
/// docs/arithmetic.md; Q8_0: q + 128).
template <DType T, int J>
BALLAST_INLINE void LoadCodes(const std::byte* unit, int pair, __m512i* first, __m512i* second) {
  using F = Format<T>;
  if constexpr (F::kEight) {
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
    *first = _mm512_xor_si512(LoadVector(unit + F::kCodes + 64 * J), flip);
    *second = _mm512_xor_si512(LoadVector(unit + F::kCodes + 512 + 64 * J), flip);
    return;
  }
  const __m512i low4 = _mm512_set1_epi8(0x0F);
  const __m512i v = LoadVector(unit + F::kCodes + 512 * pair + 64 * J);
  const __m512i w = _mm512_srli_epi16(v, 4);
  if constexpr (F::kFive) {
    const __m512i bit4 = _mm512_set1_epi8(0x10);
    const std::byte* bits = unit + F::kExtra + 128 * pair;
    *first = MaskOr(v, low4, _mm512_and_si512(BitToFour<J>(LoadVector(bits)), bit4));
    *second = MaskOr(w, low4, _mm512_and_si512(BitToFour<J>(LoadVector(bits + 64)), bit4));
  } else if constexpr (F::kSix) {
    const __m512i bits45 = _mm512_set1_epi8(0x30);
    const std::byte* high = unit + F::kExtra + 256 * pair + 64 * (J / 4);
    *first = MaskOr(v, low4, _mm512_and_si512(BitToFour<2 * (J % 4)>(LoadVector(high)), bits45));
    *second =
        MaskOr(w, low4, _mm512_and_si512(BitToFour<2 * (J % 4)>(LoadVector(high + 128)), bits45));
  } else {
    *first = _mm512_and_si512(v, low4);
    *second = _mm512_and_si512(w, low4);
  }
}

/// d_g of group `half` (0, 1) of pair `pair`; for Q6_K d alone.
template <DType T>
BALLAST_INLINE __m512 LoadScale(const std::byte* unit, int pair, int half) {
  using F = Format<T>;
  if constexpr (F::kSix) return LoadHalves(unit);
  if constexpr (F::kSuper) {
    return _mm512_mul_ps(LoadHalves(unit), LoadBytesU(unit + 64 + 32 * pair + 16 * half));
  }
  return LoadHalves(unit + 32 * half);
}

/// m_g; only for formats with minimums.
template <DType T>
BALLAST_INLINE __m512 LoadMinimum(const std::byte* unit, int pair, int half) {
  using F = Format<T>;
  if constexpr (F::kSuper) {
    const __m512 product =
        _mm512_mul_ps(LoadHalves(unit + 32), LoadBytesU(unit + 192 + 32 * pair + 16 * half));
    return _mm512_xor_ps(product, _mm512_set1_ps(-0.0f));
  }
  return LoadHalves(unit + 64 + 32 * half);
}

/// The scale of 16 columns of a Q6_K group: columns 16·`part` … of group `half` of the pair.
BALLAST_INLINE __m512 LoadSixScale(const std::byte* unit, int pair, int half, int part) {
  return LoadBytesS(unit + 64 + 64 * pair + 32 * half + 16 * part);
}

/// y = acc (+ bias) (+ residual) for the rows of one panel and one input row.
BALLAST_INLINE void StoreRow(const LinearPiece& piece, int32_t panel, int64_t row, __m512 y) {
  const int32_t first = panel * kPanelRows;
  const int32_t left = piece.weight->rows - first;
  const auto mask = static_cast<__mmask16>(left >= kPanelRows ? 0xFFFF : (1 << left) - 1);
  if (piece.bias != nullptr) {
    y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, piece.bias + first));
  }
  const int64_t at = row * piece.y_stride + first;
  if (piece.residual != nullptr) {
    y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, piece.residual + at));
  }
  _mm512_mask_storeu_ps(piece.y + at, mask, y);
}

// Two distances: memory latency under load needs about 4 KiB in flight a core, more than L1 has
// fill buffers for, so that stretch goes to L2 only; the last KiB comes on to L1. Q4_K gains a
// fifth over one T0 prefetch at 2.5 KiB, Q5_0 a twentieth.
constexpr int kLineBytes = 64;
constexpr int kPrefetchFarBytes = 4096;
constexpr int kPrefetchNearBytes = 1024;

/// Prefetches slice kSlice of kSlices of what lies behind one pair of groups. Between the products,
/// not in one burst: a burst fills the line buffers and holds the products up (eight rows of Q8_0
/// gain 15 %, of Q5_0 8 %).
template <DType T, int kSlice, int kSlices>
BALLAST_INLINE void PrefetchSlice(const std::byte* unit, int pair) {
  constexpr int kBytes = Format<T>::kUnitBytes / Format<T>::kUnitPairs;
  constexpr int kLines = (kBytes + kLineBytes - 1) / kLineBytes;
  const auto* at = reinterpret_cast<const char*>(unit) + pair * kBytes;
#pragma GCC unroll 32
  for (int i = kSlice * kLines / kSlices; i < (kSlice + 1) * kLines / kSlices; ++i) {
    _mm_prefetch(at + kPrefetchFarBytes + kLineBytes * i, _MM_HINT_T1);
    _mm_prefetch(at + kPrefetchNearBytes + kLineBytes * i, _MM_HINT_T0);
  }
}

/// All of it at once.
template <DType T>
BALLAST_INLINE void PrefetchPair(const std::byte* unit, int pair) {
  PrefetchSlice<T, 0, 1>(unit, pair);
}

BALLAST_INLINE __m512i BroadcastCodes(const std::byte* a) {
  int32_t four;
  __builtin_memcpy(&four, a, 4);
  return _mm512_set1_epi32(four);
}

}  // namespace avx512
}  // namespace ballast
KERNEL_END

#endif  // BALLAST_KERNELS_AVX512_LINEAR_CODES_H_
