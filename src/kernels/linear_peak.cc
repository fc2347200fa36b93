#include "kernels/linear_peak.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kernels/target.h"
#include "platform/huge_buffer.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast::avx2 {
namespace {

/// Reads `bytes` (a multiple of 256) with a prefetch as far ahead as the products' own.
uint64_t ReadAll(const std::byte* data, int64_t bytes) {
  __m256i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + i) + 2560, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i) + 2624, _MM_HINT_T0);
    for (int j = 0; j < 4; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(data + i + 32 * j);
      sums[j] = _mm256_xor_si256(sums[j], _mm256_load_si256(at));
    }
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

/// 16 chains of maddubs, madd and add on 32 bytes: what AVX2 needs for an exact product.
int64_t Products(int64_t rounds) {
  __m256i sums[8] = {};
  __m256i a = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
    for (int j = 0; j < 8; ++j) {
      __asm__ volatile("" : "+x"(a));
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
    }
  }
  for (int j = 0; j < 8; ++j) __asm__ volatile("" : : "x"(sums[j]));
  return rounds * 8 * 64;
}

}  // namespace
}  // namespace ballast::avx2
KERNEL_END

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast::avx512 {
namespace {

int64_t Products(int64_t rounds) {
  __m512i sums[16] = {};
  __m512i a = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile("" : "+v"(a));
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], a, a);
  }
  for (int j = 0; j < 16; ++j) __asm__ volatile("" : : "v"(sums[j]));
  return rounds * 16 * 128;
}

}  // namespace
}  // namespace ballast::avx512
KERNEL_END

KERNEL_BEGIN(KERNEL_TARGET_AMX)
namespace ballast::amx {
namespace {

struct alignas(64) Config {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

int64_t Products(int64_t rounds) {
  Config config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  alignas(64) static const std::byte kTile[1024] = {};
  _tile_loadconfig(&config);
  _tile_loadd(4, kTile, 64);
  _tile_loadd(5, kTile, 64);
  _tile_loadd(6, kTile, 64);
  _tile_loadd(7, kTile, 64);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return rounds * 4 * 2 * 16 * 16 * 64;
}

}  // namespace
}  // namespace ballast::amx
KERNEL_END

namespace ballast {

namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t Products(Isa isa, int64_t rounds) {
  switch (isa) {
    case Isa::kRef:
      return 0;
    case Isa::kAvx2:
      return avx2::Products(rounds);
    case Isa::kAvx512:
      return avx512::Products(rounds);
    case Isa::kAmx:
      return amx::Products(rounds);
  }
  return 0;
}

}  // namespace

Result<double> MeasureReadBandwidth(ThreadPool& pool) {
  constexpr int64_t kBytes = int64_t{512} << 20;
  constexpr int64_t kTaskBytes = 1 << 20;
  // Prefetches run past the end.
  ASSIGN_OR_RETURN(HugeBuffer buffer, HugeBuffer::Allocate(kBytes + 4096));
  pool.ParallelFor(kBytes / kTaskBytes, [&](int64_t task, int) {
    std::fill_n(buffer.data() + task * kTaskBytes, kTaskBytes, std::byte{1});
  });
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const double start = Seconds();
    pool.ParallelFor(kBytes / kTaskBytes, [&](int64_t task, int) {
      volatile uint64_t sink = avx2::ReadAll(buffer.data() + task * kTaskBytes, kTaskBytes);
      static_cast<void>(sink);
    });
    best = std::max(best, static_cast<double>(kBytes) / (Seconds() - start));
  }
  return best;
}

double MeasureInt8Peak(Isa isa, ThreadPool& pool) {
  if (isa == Isa::kRef) return 0;
  constexpr int64_t kRounds = 20'000;
  double best = 0;
  const int64_t tasks = 4 * pool.size();
  const auto operations = static_cast<double>(tasks * kRounds * Products(isa, 1));
  for (int pass = 0; pass < 20; ++pass) {
    const double start = Seconds();
    pool.ParallelFor(tasks, [&](int64_t, int) { Products(isa, kRounds); });
    best = std::max(best, operations / (Seconds() - start));
  }
  return best;
}

}  // namespace ballast
