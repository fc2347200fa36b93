// Role: the reference bodies of attention and KV records: docs/arithmetic.md in scalar code.
// Thread: pure. Invariants: every other body gives these bits.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/ref/math.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_REF)
namespace ballast {
namespace ref {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float F16ToF32(uint16_t bits) { return _cvtsh_ss(bits); }

uint16_t F32ToF16(float x) {
  x = std::min(std::max(x, -kHalfMax), kHalfMax);
  return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

/// Round to nearest even; |x| < 2^22.
int32_t RoundToInt(float x) { return static_cast<int32_t>((x + kExpMagic) - kExpMagic); }

/// The scores of one query against the 64 keys of an f16 page.
void ScorePageF16(const AttentionJob& job, const std::byte* page, const float* qs, float* s) {
  const int32_t dim = job.kv.head_dim;
  const uint16_t* k = F16KeysAt(page, job.kv, job.kv_head);
  for (int j = 0; j < kPageTokens; ++j) {
    float sum = 0;
    for (int d = 0; d < dim; ++d) {
      sum = Fma(qs[d], F16ToF32(k[(j / 16 * dim + d) * 16 + j % 16]), sum);
    }
    s[j] = sum;
  }
}

/// The same for a kv8 page: the query is rounded to 16 bits in two planes, the dots are exact.
void ScorePageKv8(const AttentionJob& job, const std::byte* page, const float* qs, float* s) {
  const int32_t dim = job.kv.head_dim;
  const Kv8Head head = Kv8HeadAt(page, job.kv, job.kv_head);
  float qd[kMaxHeadDim], lanes[16] = {}, amax = 0;
  for (int d = 0; d < dim; ++d) {
    qd[d] = qs[d] * head.k_scale[d];
    amax = std::max(amax, std::fabs(qd[d]));
    lanes[d % 16] = Fma(qs[d], head.k_offset[d], lanes[d % 16]);
  }
  const float base = TreeSum(lanes);
  const bool zero = amax < kMinAmax;
  const float scale = zero ? 0.0f : amax / kKvQmax;
  const float inverse = zero ? 0.0f : kKvQmax / amax;
  int32_t h[kMaxHeadDim], l[kMaxHeadDim];
  for (int d = 0; d < dim; ++d) {
    const int32_t a = RoundToInt(qd[d] * inverse);
    h[d] = (a + 128) >> 8;
    l[d] = a - 256 * h[d];
  }
  for (int j = 0; j < kPageTokens; ++j) {
    int32_t high = 0, low = 0;
    for (int d = 0; d < dim; ++d) {
      const int32_t code = head.k[((j / 16 * dim / 4 + d / 4) * 16 + j % 16) * 4 + d % 4];
      high += h[d] * code;
      low += l[d] * code;
    }
    const float f = Fma(256.0f, static_cast<float>(high), static_cast<float>(low));
    s[j] = Fma(scale, f, base);
  }
}

float ValueAt(const AttentionJob& job, const std::byte* page, KvDType type, int slot, int d) {
  const int32_t index = slot * job.kv.head_dim + d;
  if (type == KvDType::kF16) return F16ToF32(F16ValuesAt(page, job.kv, job.kv_head)[index]);
  return Kv8HeadAt(page, job.kv, job.kv_head).v[index];
}

void Merge(float* m, float* l, float* o, float m2, float l2, const float* o2,
           int32_t head_dim) noexcept {
  if (m2 == kMinusInfinity) return;
  if (*m == kMinusInfinity) {
    *m = m2;
    *l = l2;
    std::copy_n(o2, head_dim, o);
    return;
  }
  const float max = *m > m2 ? *m : m2;
  const float a = Exp(*m - max), b = Exp(m2 - max);
  *m = max;
  *l = Fma(*l, a, l2 * b);
  for (int d = 0; d < head_dim; ++d) o[d] = Fma(o[d], a, o2[d] * b);
}

/// (M, l, o) of keys [begin, end) of one segment.
void Segment(const AttentionJob& job, const float* qs, int64_t segment, int begin, int end,
             float* m, float* l, float* o) {
  const int32_t dim = job.kv.head_dim;
  float s[kSegmentTokens];
  const std::byte* const* pages = job.pages + segment * kPagesPerSegment;
  KvDType types[kPagesPerSegment] = {};
  for (int page = begin / kPageTokens; page <= (end - 1) / kPageTokens; ++page) {
    if (job.page_types != nullptr) types[page] = job.page_types[segment * kPagesPerSegment + page];
    const auto score = types[page] == KvDType::kF16 ? ScorePageF16 : ScorePageKv8;
    score(job, pages[page], qs, s + page * kPageTokens);
  }
  *m = *std::max_element(s + begin, s + end);
  float lanes[16] = {};
  for (int j = begin; j < end; ++j) {
    s[j] = Exp(s[j] - *m);
    lanes[j % 16] += s[j];
  }
  *l = TreeSum(lanes);
  for (int j = begin; j < end; ++j) {
    const int page = j / kPageTokens;
    if (types[page] == KvDType::kKv8) {
      s[j] = s[j] * Kv8HeadAt(pages[page], job.kv, job.kv_head).v_scale[j % kPageTokens];
    }
  }
  for (int d = 0; d < dim; ++d) {
    float sum = 0;
    for (int j = begin; j < end; ++j) {
      const int page = j / kPageTokens;
      sum = Fma(s[j], ValueAt(job, pages[page], types[page], j % kPageTokens, d), sum);
    }
    o[d] = sum + 0.0f;  // −0 becomes +0: absent keys then change no bit
  }
}

void Attend(const AttentionJob& job) noexcept {
  float qs[kMaxHeadDim], o2[kMaxHeadDim];
  for (int32_t i = 0; i < job.pairs; ++i) {
    for (int d = 0; d < job.kv.head_dim; ++d) qs[d] = job.q[i][d] * job.scale;
    for (int64_t segment = job.segment_begin; segment < job.segment_end; ++segment) {
      const int64_t start = segment * kSegmentTokens, step = segment - job.segment_begin;
      const int64_t begin = std::max<int64_t>(job.first[i] - start, 0);
      const int64_t end = std::min<int64_t>(job.last[i] + 1 - start, kSegmentTokens);
      if (begin >= end) continue;
      float m2, l2;
      Segment(job, qs, segment, static_cast<int>(begin), static_cast<int>(end), &m2, &l2, o2);
      Merge(job.m + step * job.ml_step + i, job.l + step * job.ml_step + i,
            job.o[i] + step * job.o_step, m2, l2, o2, job.kv.head_dim);
    }
  }
}

void Finish(float* o, float l, int32_t head_dim) noexcept {
  const float inverse = 1.0f / l;
  for (int d = 0; d < head_dim; ++d) o[d] = o[d] * inverse;
}

void WriteKv(const float* k, const float* v, int64_t stride, int32_t rows, int32_t slot,
             const KvShape& shape, std::byte* record) noexcept {
  const int32_t dim = shape.head_dim;
  for (int32_t row = 0; row < rows; ++row, k += stride, v += stride) {
    const int j = slot + row;
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      auto* keys = const_cast<uint16_t*>(F16KeysAt(record, shape, head));
      auto* values = const_cast<uint16_t*>(F16ValuesAt(record, shape, head));
      for (int d = 0; d < dim; ++d) {
        keys[(j / 16 * dim + d) * 16 + j % 16] = F32ToF16(k[head * dim + d]);
        values[j * dim + d] = F32ToF16(v[head * dim + d]);
      }
    }
  }
}

void SealKeys(const uint16_t* keys, int32_t dim, Kv8Head out) {
  for (int d = 0; d < dim; ++d) {
    float lo = F16ToF32(keys[d * 16]), hi = lo;
    for (int j = 1; j < kPageTokens; ++j) {
      const float k = F16ToF32(keys[(j / 16 * dim + d) * 16 + j % 16]);
      lo = k < lo ? k : lo;
      hi = k > hi ? k : hi;
    }
    const float range = hi - lo;
    const float inverse = range == 0.0f ? 0.0f : 255.0f / range;
    const_cast<float*>(out.k_scale)[d] = range / 255.0f;
    const_cast<float*>(out.k_offset)[d] = lo + 0.0f;
    for (int j = 0; j < kPageTokens; ++j) {
      const float k = F16ToF32(keys[(j / 16 * dim + d) * 16 + j % 16]);
      const_cast<uint8_t*>(out.k)[((j / 16 * dim / 4 + d / 4) * 16 + j % 16) * 4 + d % 4] =
          static_cast<uint8_t>(RoundToInt((k - lo) * inverse));
    }
  }
}

void SealValues(const uint16_t* values, int32_t dim, Kv8Head out) {
  for (int j = 0; j < kPageTokens; ++j, values += dim) {
    float amax = 0;
    for (int d = 0; d < dim; ++d) amax = std::max(amax, std::fabs(F16ToF32(values[d])));
    const float inverse = amax == 0.0f ? 0.0f : 127.0f / amax;
    const_cast<float*>(out.v_scale)[j] = amax / 127.0f;
    for (int d = 0; d < dim; ++d) {
      const_cast<int8_t*>(out.v)[j * dim + d] =
          static_cast<int8_t>(RoundToInt(F16ToF32(values[d]) * inverse));
    }
  }
}

void SealKv8(const std::byte* f16_record, const KvShape& shape, std::byte* kv8_record) noexcept {
  for (int32_t head = 0; head < shape.kv_heads; ++head) {
    const Kv8Head out = Kv8HeadAt(kv8_record, shape, head);
    SealKeys(F16KeysAt(f16_record, shape, head), shape.head_dim, out);
    SealValues(F16ValuesAt(f16_record, shape, head), shape.head_dim, out);
  }
}

}  // namespace
}  // namespace ref

const AttentionTable kAttentionRef = {ref::Attend, ref::Merge, ref::Finish, ref::WriteKv,
                                      ref::SealKv8};

}  // namespace ballast
KERNEL_END
