// Role: the AVX2 bodies of attention and KV records. Thread: pool threads.
// Invariants: the reference's bits; the shared part is attention_body.inc.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/attention.h"
#include "kernels/avx2/math.h"
#include "kernels/target.h"
#include "kernels/unroll.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {
namespace {

// 6 × 2 sums, 2 keys, 1 query: 15 registers.
constexpr std::array kTileSizes = {1, 2, 3, 4, 5, 6};
constexpr int TileBlocks(int pairs) { return pairs == 1 ? 4 : pairs <= 3 ? 2 : 1; }

/// A rounded query as 16-bit numbers: for every four channels (a0, a2, a1, a3), so that the even
/// and the odd bytes of four codes each meet one 32-bit word.
inline void Kv8Pack16(V scaled, int32_t d, std::byte* planes) {
  // packs works in 128-bit lanes: (lo.0, hi.0, lo.1, hi.1) → in order.
  __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(scaled.lo), _mm256_cvtps_epi32(scaled.hi));
  a = _mm256_permute4x64_epi64(a, _MM_SHUFFLE(3, 1, 2, 0));
  const __m256i swap = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15,  //
                                        0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes + 2 * d), _mm256_shuffle_epi8(a, swap));
}
inline void Kv8Pack(V first, V second, int32_t d, std::byte* planes) {
  Kv8Pack16(first, d, planes);
  Kv8Pack16(second, d + 16, planes);
}

inline __m256i Word(const std::byte* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return _mm256_set1_epi32(word);
}

/// dots[r] = Σ over channels [0, dim) of half a block: 8 tokens' codes, 64 bytes apart for every
/// four channels. 32639 · 255 · dim < 2^31 for dim ≤ 256.
template <int R>
__attribute__((noinline)) void Kv8Dots(const uint8_t* k, int32_t dim, const std::byte* planes,
                                       __m256i* dots) {
  const __m256i even_bytes = _mm256_set1_epi16(0xFF);
  __m256i acc[R];
  UNROLL for (int r = 0; r < R; ++r) acc[r] = _mm256_setzero_si256();
  for (int32_t d = 0; d < dim; d += 4, k += 64, planes += 8) {
    const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(k));
    const __m256i even = _mm256_and_si256(codes, even_bytes);
    const __m256i odd = _mm256_srli_epi16(codes, 8);
    UNROLL for (int r = 0; r < R; ++r) {
      const std::byte* a = planes + r * kPlaneStride;
      acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(even, Word(a)));
      acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(odd, Word(a + 4)));
    }
  }
  UNROLL for (int r = 0; r < R; ++r) dots[r] = acc[r];
}

/// The exact sum of two halves of the channels, rounded once.
inline __m256 SumToFloat(__m256i a, __m256i b) {
  const __m128i a_low = _mm256_castsi256_si128(a), a_high = _mm256_extracti128_si256(a, 1);
  const __m128i b_low = _mm256_castsi256_si128(b), b_high = _mm256_extracti128_si256(b, 1);
  const __m256d low = _mm256_add_pd(_mm256_cvtepi32_pd(a_low), _mm256_cvtepi32_pd(b_low));
  const __m256d high = _mm256_add_pd(_mm256_cvtepi32_pd(a_high), _mm256_cvtepi32_pd(b_high));
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

/// Scores of R rounded queries against `blocks` blocks of codes. The sum of 16-bit products is
/// exact, so one conversion gives what fma(256, H, L) gives.
template <int R>
void Kv8Scores(const uint8_t* k, int blocks, int32_t dim, const std::byte* planes,
               const float* scale, const float* base, float* s, const uint8_t* /*next*/) {
  for (int b = 0; b < 2 * blocks; ++b, s += 8) {
    const uint8_t* codes = k + (b / 2) * dim * 16 + b % 2 * 32;
    __m256i dots[R], rest[R];
    Kv8Dots<R>(codes, std::min(dim, 256), planes, dots);
    if (dim > 256) Kv8Dots<R>(codes + 256 * 16, dim - 256, planes + 512, rest);
    for (int r = 0; r < R; ++r) {
      const __m256 f = dim > 256 ? SumToFloat(dots[r], rest[r]) : _mm256_cvtepi32_ps(dots[r]);
      _mm256_storeu_ps(s + r * kScoreStride,
                       _mm256_fmadd_ps(_mm256_set1_ps(scale[r]), f, _mm256_set1_ps(base[r])));
    }
  }
}

/// Rounds to whole numbers in int8.
inline void StoreS8(int8_t* p, V v) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi)),
      _MM_SHUFFLE(3, 1, 2, 0));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline __m256i JoinCodes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256i low =
      _mm256_or_si256(_mm256_cvtps_epi32(a), _mm256_slli_epi32(_mm256_cvtps_epi32(b), 8));
  const __m256i high = _mm256_or_si256(_mm256_slli_epi32(_mm256_cvtps_epi32(c), 16),
                                       _mm256_slli_epi32(_mm256_cvtps_epi32(d), 24));
  return _mm256_or_si256(low, high);
}
/// Rounds four channels of 16 tokens to u8 [token][channel].
inline void StoreCodes(uint8_t* p, V a, V b, V c, V d) {
  auto* out = reinterpret_cast<__m256i*>(p);
  _mm256_store_si256(out, JoinCodes(a.lo, b.lo, c.lo, d.lo));
  _mm256_store_si256(out + 1, JoinCodes(a.hi, b.hi, c.hi, d.hi));
}

#include "kernels/attention_body.inc"
#include "kernels/records_body.inc"

}  // namespace
}  // namespace avx2

const AttentionTable kAttentionAvx2 = {avx2::Attend, avx2::Merge, avx2::Finish, avx2::WriteKv,
                                       avx2::SealKv8};

}  // namespace ballast
KERNEL_END
