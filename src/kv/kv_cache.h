// Role: the boundary of src/kv: records in frames, pages in sequences.
// Thread: the engine thread only. Invariants: a record is one layer's state of one page of 64
// tokens; records of equal size share 2 MiB frames; frames come from the arena and go back whole; a
// sliding layer's records behind the window are freed as soon as no row can see them. kv8: every
// page has a reserved kv8 record; the page being written lives in the layer's one open f16 record
// and is rounded into its own record when it is full.
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
class RecordTables;

/// The page table of one token timeline. Created by KvCache; freeing it frees its records.
class KvSequence {
 public:
  ~KvSequence();
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  /// Makes room for tokens [0, tokens). All or nothing; a smaller value changes nothing.
  /// Reserve a step at a time (committed tokens + rows of the step): sliding layers hold every
  /// reserved record until Commit lets them go.
  /// Errors: kResourceExhausted when the arena has too few frames left; nothing changed.
  Status Reserve(int64_t tokens);
  /// Marks [0, tokens) as written and frees what lies behind every window. Records may move: every
  /// address of every sequence is void afterwards. Rows written beyond `tokens` are forgotten and
  /// may be written again (kv8: unless they filled their page, which was rounded then).
  /// REQUIRES: committed_tokens() <= tokens <= reserved_tokens().
  void Commit(int64_t tokens);
  int64_t committed_tokens() const { return committed_tokens_; }
  int64_t reserved_tokens() const { return static_cast<int64_t>(page_count_) * kPageTokens; }

  /// This layer's records by page as attention reads them. [reserved pages]. Null: behind the
  /// window, or (kv8) not yet opened. Valid until the next Reserve, Commit or death of any
  /// sequence.
  std::byte* const* Records(int32_t layer) const;
  /// Types of this layer's records by page.
  const KvDType* RecordTypes(int32_t layer) const;

  /// kv8 only: makes `page` the page that the layer's open f16 record stands for, and returns it.
  /// Its content is what was last written there.
  std::byte* OpenRecord(int32_t layer, int64_t page);
  /// kv8 only: the reserved kv8 record of a page, to round into. Never fails.
  std::byte* BeginSeal(int32_t layer, int64_t page);
  /// kv8 only: from now on Records() shows the kv8 record of `page`.
  void FinishSeal(int32_t layer, int64_t page);

 private:
  friend class KvCache;
  explicit KvSequence(KvCache* cache);
  void AddPage();
  void FreeBehindWindows();

  KvCache* cache_;
  std::unique_ptr<RecordTables> tables_;
  int64_t committed_tokens_ = 0;
  size_t page_count_ = 0;
};

/// All KV of one loaded model.
class KvCache {
 public:
  /// @param arena outlives the cache. Errors: kInvalidArgument for a head size that is not a
  /// multiple of 16 or a record over one frame.
  static Result<std::unique_ptr<KvCache>> Create(KvLayers layers, KvDType dtype, FrameArena* arena);
  /// REQUIRES: all sequences are gone.
  ~KvCache();

  std::unique_ptr<KvSequence> NewSequence();

  /// Pages (all layers, sealed type) that running sequences could still reserve now, counting
  /// partly free frames. A new kv8 sequence also needs one f16 page for what it writes.
  int64_t FreePages() const;
  /// True if `pages` pages more fit, the open f16 pages of `new_sequences` (kv8) included.
  bool HasRoom(int64_t pages, int64_t new_sequences) const;
  /// The most pages one sequence could ever hold if everything else were freed, reserving at most
  /// kReserveAheadTokens ahead of what it has committed.
  int64_t CapacityPages() const;
  /// Bytes of the frames in use.
  uint64_t bytes_in_use() const;
  /// Bytes one more token costs, averaged over a page, all layers, in the sealed type.
  uint64_t bytes_per_token() const;
  const KvLayers& layers() const;
  KvDType dtype() const;

  static constexpr int64_t kReserveAheadTokens = 2048;

 private:
  friend class KvSequence;
  struct Impl;
  explicit KvCache(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ballast

#endif  // BALLAST_KV_KV_CACHE_H_
