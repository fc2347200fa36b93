// Role: the boundary of src/kv: records in frames, pages in sequences (DESIGN 3 and 6).
// Thread: the engine thread only. Invariants: a record is one layer's state of one page of 64 tokens;
// records of equal size share 2 MiB frames; frames come from the arena and go back whole; a sliding
// layer's records behind the window are freed as soon as no row can see them.
#ifndef BALLAST_KV_KV_CACHE_H_
#define BALLAST_KV_KV_CACHE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/frame_arena.h"
#include "tensor/kv_layout.h"

namespace ballast {

/// One attention layer's KV geometry and window.
struct KvLayer {
  KvShape shape;
  int32_t window = 0;  // 0: sees everything
};
using KvLayers = std::vector<KvLayer>;

class KvCache;

/// The page table of one token timeline. Created by KvCache; freeing it frees its records.
class KvSequence {
 public:
  ~KvSequence();
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  /// Makes room for tokens [0, tokens). All or nothing.
  /// Errors: kResourceExhausted when the arena has no frame left; nothing changed.
  Status Reserve(int64_t tokens);
  /// Marks [0, tokens) as written: seals full pages (kv8 rounding needs SealPending from the model
  /// side first) and frees what lies behind every window.
  void Commit(int64_t tokens);
  int64_t committed_tokens() const { return committed_tokens_; }
  int64_t reserved_tokens() const { return static_cast<int64_t>(page_count_) * kPageTokens; }

  /// This layer's records by page; entries behind the window are null. [reserved pages]
  std::byte* const* Records(int32_t layer) const;
  /// Types of this layer's records by page.
  const KvDType* RecordTypes(int32_t layer) const;

  /// kv8 only: page `page` of `layer` is full: returns the new kv8 record to round into, after which
  /// the f16 record is freed by FinishSeal. Never fails: one kv8 staging record is always kept.
  std::byte* BeginSeal(int32_t layer, int64_t page);
  void FinishSeal(int32_t layer, int64_t page);

 private:
  friend class KvCache;
  struct Impl;
  KvSequence(KvCache* cache);
  KvCache* cache_;
  std::unique_ptr<Impl> impl_;
  int64_t committed_tokens_ = 0;
  size_t page_count_ = 0;
};

/// All KV of one loaded model.
class KvCache {
 public:
  /// @param arena outlives the cache. Errors: kInvalidArgument for a head size that is not a
  /// multiple of 16 or a record over one frame.
  static Result<std::unique_ptr<KvCache>> Create(KvLayers layers, KvDType dtype,
                                                 FrameArena* arena);
  ~KvCache();

  std::unique_ptr<KvSequence> NewSequence();

  /// Pages (all layers, f16) that could still be reserved now, counting partly free frames.
  int64_t FreePages() const;
  /// The most pages one sequence could ever hold if everything else were freed.
  int64_t CapacityPages() const;
  uint64_t bytes_in_use() const;
  /// Bytes one more token costs, averaged over a page, all layers, in the sealed type.
  uint64_t bytes_per_token() const;
  const KvLayers& layers() const;
  KvDType dtype() const;

 private:
  friend class KvSequence;
  struct Impl;
  explicit KvCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ballast

#endif  // BALLAST_KV_KV_CACHE_H_
