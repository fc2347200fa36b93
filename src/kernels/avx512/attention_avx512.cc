// Role: the AVX-512 bodies of attention and KV records. Thread: pool threads.
// Invariants: the reference's bits; the shared part is attention_body.inc.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/attention.h"
#include "kernels/avx512/math.h"
#include "kernels/target.h"
#include "kernels/unroll.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

// 14 × 2 sums, 2 blocks of keys, 1 query: 31 registers. Each f16 vector is converted once for 14
// pairs.
constexpr std::array kTileSizes = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14};
constexpr int TileBlocks(int pairs) { return pairs <= 6 ? 4 : 2; }

/// Rounds 32 channels (or 16 and zeros) of a query: a = 256 h + l. The 64 bytes hold, for each i of
/// 4, the words h of channels 4i.., h of 16 + 4i.., and then l of the same.
inline void Kv8Pack(V first, V second, int32_t d, std::byte* planes) {
  const __m512i a = _mm512_packs_epi32(_mm512_cvtps_epi32(first), _mm512_cvtps_epi32(second));
  const __m512i h = _mm512_srai_epi16(_mm512_add_epi16(a, _mm512_set1_epi16(128)), 8);
  const __m512i l = _mm512_sub_epi16(a, _mm512_slli_epi16(h, 8));
  _mm512_store_si512(planes + 2 * d, _mm512_packs_epi16(h, l));
}

inline __m512i Word(const std::byte* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

template <int R, int NB>
__attribute__((noinline)) void Kv8Blocks(const uint8_t* k, int32_t dim, const std::byte* planes,
                                         const float* scale, const float* base, float* s,
                                         const uint8_t* next) {
  __m512i high[R][NB], low[R][NB];
  UNROLL for (int r = 0; r < R; ++r) {
    UNROLL for (int b = 0; b < NB; ++b) high[r][b] = low[r][b] = _mm512_setzero_si512();
  }
  const int64_t block = int64_t{dim} * 16;
  for (int32_t d = 0; d < dim; d += 16) {
    // Channels d + 4i: every fourth word of their group of 32.
    const std::byte* words = planes + 2 * (d & ~31) + (d & 16) / 4;
    for (int i = 0; i < 4; ++i, k += 64, next += 64, words += 16) {
      __m512i codes[NB];
      UNROLL for (int b = 0; b < NB; ++b) codes[b] = _mm512_load_si512(k + b * block);
      if constexpr (R <= 8) {
        UNROLL for (int b = 0; b < NB; ++b) {
          _mm_prefetch(reinterpret_cast<const char*>(next + b * block), _MM_HINT_T1);
        }
      }
      UNROLL for (int r = 0; r < R; ++r) {
        const __m512i h = Word(words + r * kPlaneStride);
        const __m512i l = Word(words + r * kPlaneStride + 8);
        UNROLL for (int b = 0; b < NB; ++b) {
          high[r][b] = _mm512_dpbusd_epi32(high[r][b], codes[b], h);
          low[r][b] = _mm512_dpbusd_epi32(low[r][b], codes[b], l);
        }
      }
    }
  }
  const V shift = Set1(256.0f);
  UNROLL for (int r = 0; r < R; ++r) {
    UNROLL for (int b = 0; b < NB; ++b) {
      const V f = Fma(shift, _mm512_cvtepi32_ps(high[r][b]), _mm512_cvtepi32_ps(low[r][b]));
      Store(s + r * kScoreStride + b * 16, Fma(Set1(scale[r]), f, Set1(base[r])));
    }
  }
}

template <int R>
void Kv8Run(const uint8_t* k, int blocks, int32_t dim, const std::byte* planes, const float* scale,
            const float* base, float* s, const uint8_t* next) {
  constexpr int kStep = R <= 3 ? 4 : R <= 6 ? 2 : 1;
  const int64_t step = int64_t{dim} * 16 * kStep;
  for (; blocks >= kStep; blocks -= kStep, k += step, next += step, s += kStep * 16) {
    Kv8Blocks<R, kStep>(k, dim, planes, scale, base, s, next);
  }
  if constexpr (kStep > 1) {
    for (; blocks > 0; --blocks, k += dim * 16, next += dim * 16, s += 16) {
      Kv8Blocks<R, 1>(k, dim, planes, scale, base, s, next);
    }
  }
}

/// Scores of R rounded queries against `blocks` blocks of codes; `next` is prefetched.
template <int R>
void Kv8Scores(const uint8_t* k, int blocks, int32_t dim, const std::byte* planes,
               const float* scale, const float* base, float* s, const uint8_t* next) {
  if constexpr (R > 8) {  // two accumulators a pair: two halves
    constexpr int kHalf = R / 2;
    Kv8Run<kHalf>(k, blocks, dim, planes, scale, base, s, k);
    Kv8Run<R - kHalf>(k, blocks, dim, planes + kHalf * kPlaneStride, scale + kHalf, base + kHalf,
                      s + kHalf * kScoreStride, k);
  } else {
    Kv8Run<R>(k, blocks, dim, planes, scale, base, s, next);
  }
}

/// Rounds to whole numbers in int8.
inline void StoreS8(int8_t* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/// Rounds four channels of 16 tokens to u8 [token][channel].
inline void StoreCodes(uint8_t* p, V a, V b, V c, V d) {
  const __m512i low =
      _mm512_or_si512(_mm512_cvtps_epi32(a), _mm512_slli_epi32(_mm512_cvtps_epi32(b), 8));
  const __m512i high = _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtps_epi32(c), 16),
                                       _mm512_slli_epi32(_mm512_cvtps_epi32(d), 24));
  _mm512_store_si512(p, _mm512_or_si512(low, high));
}

#include "kernels/attention_body.inc"
#include "kernels/records_body.inc"

}  // namespace
}  // namespace avx512

const AttentionTable kAttentionAvx512 = {avx512::Attend, avx512::Merge, avx512::Finish,
                                         avx512::WriteKv, avx512::SealKv8};

}  // namespace ballast
KERNEL_END
