// Role: the layout of KV records (docs/formats/kv-record.md), shared by kernels and kv.
// A record is one layer's K and V for one page of 64 tokens, K first. 64-byte aligned.
//   f16: K as [kv_head][block of 16 tokens: 4][head_dim][16 tokens] f16, so that QK has lanes over
//        keys; V as [kv_head][64 tokens][head_dim] f16, so that PV has lanes over the head size.
//   kv8: see docs/formats/kv-record.md. A page that is not full is always f16 (rounded when
//   sealed).
// Version: kKvLayoutVersion is part of every cache key; a change of layout changes it.
#ifndef BALLAST_TENSOR_KV_LAYOUT_H_
#define BALLAST_TENSOR_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace ballast {

inline constexpr int kPageTokens = 64;
inline constexpr int kSegmentTokens = 256;
inline constexpr int kKeyBlockTokens = 16;
inline constexpr uint32_t kKvLayoutVersion = 1;

enum class KvDType : uint8_t { kF16 = 0, kKv8 = 1 };

/// Geometry of one attention layer's KV.
struct KvShape {
  int32_t kv_heads = 0;
  int32_t head_dim = 0;  // multiple of 16

  /// Bytes of the K half (or V half) of an f16 record.
  size_t f16_half_bytes() const {
    return static_cast<size_t>(kv_heads) * static_cast<size_t>(head_dim) * kPageTokens * 2;
  }
  size_t f16_record_bytes() const { return 2 * f16_half_bytes(); }
  /// kv8: one run of bytes a KV head: K codes u8 [block 4][head_dim / 4][16 tokens][4 dims], K
  /// scale and K offset f32 [head_dim] each, V codes s8 [64][head_dim], V scale f32 [64].
  size_t kv8_head_bytes() const {
    const size_t dim = static_cast<size_t>(head_dim);
    return 2 * dim * kPageTokens + 2 * dim * 4 + kPageTokens * 4;
  }
  size_t kv8_record_bytes() const { return static_cast<size_t>(kv_heads) * kv8_head_bytes(); }
};

}  // namespace ballast

#endif  // BALLAST_TENSOR_KV_LAYOUT_H_
