// Role: slabs of equal-sized records in 2 MiB frames: one pool a record size.
// Thread: the engine thread. Invariants: a record is owned by one table entry; a frame without
// records is given back at once; after Compact the free records are fewer than one frame holds.
#ifndef BALLAST_KV_RECORD_POOL_H_
#define BALLAST_KV_RECORD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/frame_arena.h"

namespace ballast {

class RecordTables;  // kv/record_tables.h: what holds the addresses of one sequence's records

/// Which table entry holds a record's address, so that the record can be moved.
struct RecordOwner {
  RecordTables* tables = nullptr;
  int32_t layer = 0;
  int32_t page = 0;  // kOpenRecord: the layer's open (f16) record of a kv8 sequence
};
inline constexpr int32_t kOpenRecord = -1;

/// Takes and gives records of one size.
class RecordPool {
 public:
  /// REQUIRES: record_bytes is a multiple of 64 in (0, kFrameBytes]; the arena outlives the pool.
  RecordPool(size_t record_bytes, FrameArena* arena);
  /// REQUIRES: every record was given back.
  ~RecordPool();
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  /// A record, 64-byte aligned, with stale or zero content; null when the arena is exhausted.
  std::byte* Take(const RecordOwner& owner);
  void Give(std::byte* record);
  /// Moves records out of the emptiest frames until fewer than one frame's worth is free.
  /// Cost: a memcpy a moved record; a frame's worth at most for every frame that is given back.
  void Compact();

  size_t record_bytes() const { return record_bytes_; }
  int64_t records_per_frame() const { return per_frame_; }
  int64_t frames() const { return frames_; }
  int64_t live_records() const { return live_; }
  int64_t free_records() const { return frames_ * per_frame_ - live_; }

 private:
  struct Slab {
    std::byte* base = nullptr;
    std::vector<RecordOwner> owners;  // [per_frame], tables null: free
    std::vector<uint16_t> free;       // indices of free records, last in first out
    size_t open_position = 0;         // in open_, while `free` is not empty
  };

  Slab* SlabOf(const std::byte* record);
  void AddOpen(Slab* slab);
  void RemoveOpen(Slab* slab);
  Slab* EmptiestOpen() const;
  void Evacuate(Slab* slab);
  void ReleaseSlab(Slab* slab);

  size_t record_bytes_;
  int64_t per_frame_;
  FrameArena* arena_;
  std::vector<std::unique_ptr<Slab>> slabs_;  // by the arena's frame index; null: not ours
  std::vector<Slab*> open_;                   // slabs with a free record
  int64_t frames_ = 0;
  int64_t live_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_KV_RECORD_POOL_H_
