// Role: attention inside src/kernels: the work of one item and the functions that one ISA supplies.
// Thread: table functions run on pool threads, each on its own outputs; inputs are read only.
// Invariants: a pair's result depends on its query, its keys and nothing else (docs/arithmetic.md).
#ifndef BALLAST_KERNELS_ATTENTION_H_
#define BALLAST_KERNELS_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "platform/cpu.h"
#include "tensor/kv_layout.h"

namespace ballast {

inline constexpr int32_t kMaxHeadDim = 512;
inline constexpr int kPagesPerSegment = kSegmentTokens / kPageTokens;
// Strides of the bodies' scratch: odd numbers of lines, so that the rows of a tile do not share L1
// sets.
inline constexpr int kQueryStride = kMaxHeadDim + 16;      // floats
inline constexpr int kScoreStride = kSegmentTokens + 16;   // floats
inline constexpr int kPlaneStride = 2 * kMaxHeadDim + 64;  // bytes of a rounded query: both planes
inline constexpr int32_t kKvQmax = 32639;                  // largest |a| of a rounded query (kv8)

/// One KV head's part of a kv8 record.
struct Kv8Head {
  const uint8_t* k;  // [block 4][head_dim / 4][16 tokens][4 dims]
  const float* k_scale;
  const float* k_offset;
  const int8_t* v;  // [64][head_dim]
  const float* v_scale;
};

inline Kv8Head Kv8HeadAt(const std::byte* record, const KvShape& shape, int32_t kv_head) {
  const size_t dim = static_cast<size_t>(shape.head_dim);
  const std::byte* p = record + static_cast<size_t>(kv_head) * shape.kv8_head_bytes();
  Kv8Head head;
  head.k = reinterpret_cast<const uint8_t*>(p);
  head.k_scale = reinterpret_cast<const float*>(p + dim * kPageTokens);
  head.k_offset = head.k_scale + dim;
  head.v = reinterpret_cast<const int8_t*>(head.k_offset + dim);
  head.v_scale = reinterpret_cast<const float*>(head.v + dim * kPageTokens);
  return head;
}

/// K of one KV head in an f16 record: [block 4][head_dim][16 tokens].
inline const uint16_t* F16KeysAt(const std::byte* record, const KvShape& shape, int32_t kv_head) {
  return reinterpret_cast<const uint16_t*>(record) +
         static_cast<int64_t>(kv_head) * shape.head_dim * kPageTokens;
}
/// V of one KV head in an f16 record: [64 tokens][head_dim].
inline const uint16_t* F16ValuesAt(const std::byte* record, const KvShape& shape, int32_t kv_head) {
  return F16KeysAt(record + shape.f16_half_bytes(), shape, kv_head);
}

/// The queries of one KV head against segments [segment_begin, segment_end), ascending. A pair is
/// one query head at one position. Each segment's (M, l, o) is merged into the pair's state; with a
/// step ≠ 0 every segment has a state of its own, `*_step` floats after the one before.
struct AttentionJob {
  KvShape kv;
  int32_t kv_head = 0;
  const std::byte* const* pages = nullptr;  // by absolute page index
  const KvDType* page_types = nullptr;      // by absolute page index, or null: all f16
  float scale = 0;
  int32_t pairs = 0;
  const float* const* q = nullptr;  // [pairs] → [head_dim]
  const int64_t* first = nullptr;   // [pairs] the first key seen
  const int64_t* last = nullptr;  // [pairs] the last key seen; first and last ascend with the pair
  int64_t segment_begin = 0;
  int64_t segment_end = 0;
  float* m = nullptr;         // [pairs]; −∞: nothing yet (l and o are then not read)
  float* l = nullptr;         // [pairs]
  float* const* o = nullptr;  // [pairs] → [head_dim]
  int64_t ml_step = 0;
  int64_t o_step = 0;
  const std::byte* after = nullptr;  // what this thread reads next, or null: prefetched at the end
};

/// The bodies of one ISA.
struct AttentionTable {
  void (*attend)(const AttentionJob& job) noexcept;
  /// Merges state 2 into state 1 (both of segments, 1 the earlier); m2 = −∞ leaves state 1 alone.
  void (*merge)(float* m, float* l, float* o, float m2, float l2, const float* o2,
                int32_t head_dim) noexcept;
  /// o = o · (1 / l).
  void (*finish)(float* o, float l, int32_t head_dim) noexcept;
  /// Writes tokens [slot, slot + rows) of one f16 record, slot + rows ≤ 64; strides in floats.
  void (*write_kv)(const float* k, const float* v, int64_t stride, int32_t rows, int32_t slot,
                   const KvShape& shape, std::byte* record) noexcept;
  void (*seal_kv8)(const std::byte* f16_record, const KvShape& shape,
                   std::byte* kv8_record) noexcept;
};

const AttentionTable& AttentionTableFor(Isa isa);

extern const AttentionTable kAttentionRef;
extern const AttentionTable kAttentionAvx2;
extern const AttentionTable kAttentionAvx512;

/// At least `bytes` of 64-byte aligned memory of this thread, kept until it ends; a later call may
/// move it. Slot 0 belongs to the driver, slot 1 to the bodies.
std::byte* ThreadScratch(int slot, size_t bytes);

}  // namespace ballast

#endif  // BALLAST_KERNELS_ATTENTION_H_
