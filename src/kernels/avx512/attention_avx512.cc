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

constexpr int kMaxTile = 8;    // pairs that share one pass over stored keys
constexpr int kDenseTile = 6;  // 6 × 4 sums, 4 keys, 1 query: 29 registers
constexpr int TileBlocks(int pairs) { return pairs <= 6 ? 4 : 2; }

/// Planes of a rounded query: h as int8 [head_dim], then l at kMaxHeadDim.
inline void Kv8Pack(V scaled, int32_t d, std::byte* planes) {
  const __m512i a = _mm512_cvtps_epi32(scaled);
  const __m512i h = _mm512_srai_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(128)), 8);
  const __m512i l = _mm512_sub_epi32(a, _mm512_slli_epi32(h, 8));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(planes + d), _mm512_cvtepi32_epi8(h));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(planes + kMaxHeadDim + d), _mm512_cvtepi32_epi8(l));
}

inline __m512i Word(const std::byte* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

template <int R, int NB>
inline void Kv8Blocks(const uint8_t* k, int32_t dim, const std::byte* planes, const float* scale,
                      const float* base, float* s) {
  constexpr int kStride = 2 * kMaxHeadDim;
  __m512i high[R][NB], low[R][NB];
  UNROLL for (int r = 0; r < R; ++r) {
    UNROLL for (int b = 0; b < NB; ++b) high[r][b] = low[r][b] = _mm512_setzero_si512();
  }
  const int64_t block = int64_t{dim} * 16;
  for (int32_t d = 0; d < dim; d += 4, k += 64) {
    __m512i codes[NB];
    UNROLL for (int b = 0; b < NB; ++b) codes[b] = _mm512_loadu_si512(k + b * block);
    UNROLL for (int r = 0; r < R; ++r) {
      const __m512i h = Word(planes + r * kStride + d);
      const __m512i l = Word(planes + r * kStride + kMaxHeadDim + d);
      UNROLL for (int b = 0; b < NB; ++b) {
        high[r][b] = _mm512_dpbusd_epi32(high[r][b], codes[b], h);
        low[r][b] = _mm512_dpbusd_epi32(low[r][b], codes[b], l);
      }
    }
  }
  const V shift = Set1(256.0f);
  UNROLL for (int r = 0; r < R; ++r) {
    UNROLL for (int b = 0; b < NB; ++b) {
      const V f = Fma(shift, _mm512_cvtepi32_ps(high[r][b]), _mm512_cvtepi32_ps(low[r][b]));
      Store(s + r * kSegmentTokens + b * 16, Fma(Set1(scale[r]), f, Set1(base[r])));
    }
  }
}

/// Scores of R rounded queries against `blocks` blocks of codes.
template <int R>
void Kv8Scores(const uint8_t* k, int blocks, int32_t dim, const std::byte* planes,
               const float* scale, const float* base, float* s) {
  constexpr int kStep = R <= 3 ? 4 : R <= 6 ? 2 : 1;
  const int64_t block = int64_t{dim} * 16;
  for (; blocks >= kStep; blocks -= kStep, k += kStep * block, s += kStep * 16) {
    Kv8Blocks<R, kStep>(k, dim, planes, scale, base, s);
  }
  if constexpr (kStep > 1) {
    for (; blocks > 0; --blocks, k += block, s += 16) {
      Kv8Blocks<R, 1>(k, dim, planes, scale, base, s);
    }
  }
}

#include "kernels/attention_body.inc"

void WriteKv(const float* k, const float* v, int64_t stride, int32_t rows, int32_t slot,
             const KvShape& shape, std::byte* record) noexcept {
  kAttentionRef.write_kv(k, v, stride, rows, slot, shape, record);
}
void SealKv8(const std::byte* f16_record, const KvShape& shape, std::byte* kv8_record) noexcept {
  kAttentionRef.seal_kv8(f16_record, shape, kv8_record);
}

}  // namespace
}  // namespace avx512

const AttentionTable kAttentionAvx512 = {avx512::Attend, avx512::Merge, avx512::Finish,
                                         avx512::WriteKv, avx512::SealKv8};

}  // namespace ballast
KERNEL_END
