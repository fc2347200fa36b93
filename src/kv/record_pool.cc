// Role: see record_pool.h and record_tables.h.
#include "kv/record_pool.h"

#include <cstring>

#include "base/check.h"
#include "kv/record_tables.h"

namespace ballast {

void RecordTables::Relocate(const RecordOwner& owner, std::byte* to) {
  LayerTable& table = layer(owner.layer);
  if (owner.page == kOpenRecord) {
    table.open = to;
    if (table.open_page >= 0) table.records[static_cast<size_t>(table.open_page)] = to;
    return;
  }
  const auto page = static_cast<size_t>(owner.page);
  if (table.sealed.empty()) {
    table.records[page] = to;
    return;
  }
  // A reserved record is visible only after its page was sealed.
  if (table.records[page] == table.sealed[page]) table.records[page] = to;
  table.sealed[page] = to;
}

RecordPool::RecordPool(size_t record_bytes, FrameArena* arena)
    : record_bytes_(record_bytes),
      per_frame_(static_cast<int64_t>(kFrameBytes / record_bytes)),
      arena_(arena),
      slabs_(static_cast<size_t>(arena->capacity_frames())) {
  CHECK(record_bytes % 64 == 0 && per_frame_ >= 1 && per_frame_ <= 65535);
}

RecordPool::~RecordPool() { CHECK(live_ == 0 && frames_ == 0); }

RecordPool::Slab* RecordPool::SlabOf(const std::byte* record) {
  return slabs_[static_cast<size_t>(arena_->FrameIndex(record))].get();
}

void RecordPool::AddOpen(Slab* slab) {
  slab->open_position = open_.size();
  open_.push_back(slab);
}

void RecordPool::RemoveOpen(Slab* slab) {
  open_[slab->open_position] = open_.back();
  open_[slab->open_position]->open_position = slab->open_position;
  open_.pop_back();
}

std::byte* RecordPool::Take(const RecordOwner& owner) {
  if (open_.empty()) {
    std::byte* frame = arena_->Take();
    if (frame == nullptr) return nullptr;
    auto slab = std::make_unique<Slab>();
    slab->base = frame;
    slab->owners.resize(static_cast<size_t>(per_frame_));
    // Descending, so that records are taken in ascending order of address.
    for (int64_t i = per_frame_ - 1; i >= 0; --i) slab->free.push_back(static_cast<uint16_t>(i));
    AddOpen(slab.get());
    slabs_[static_cast<size_t>(arena_->FrameIndex(frame))] = std::move(slab);
    ++frames_;
  }
  Slab* slab = open_.back();
  const size_t index = slab->free.back();
  slab->free.pop_back();
  if (slab->free.empty()) RemoveOpen(slab);
  slab->owners[index] = owner;
  ++live_;
  return slab->base + index * record_bytes_;
}

void RecordPool::Give(std::byte* record) {
  Slab* slab = SlabOf(record);
  CHECK(slab != nullptr);
  const auto offset = static_cast<size_t>(record - slab->base);
  const size_t index = offset / record_bytes_;
  CHECK(offset % record_bytes_ == 0 && slab->owners[index].tables != nullptr);
  slab->owners[index] = RecordOwner{};
  if (slab->free.empty()) AddOpen(slab);
  slab->free.push_back(static_cast<uint16_t>(index));
  --live_;
  if (static_cast<int64_t>(slab->free.size()) == per_frame_) ReleaseSlab(slab);
}

void RecordPool::ReleaseSlab(Slab* slab) {
  RemoveOpen(slab);
  std::byte* frame = slab->base;
  slabs_[static_cast<size_t>(arena_->FrameIndex(frame))].reset();
  arena_->Give(frame);
  --frames_;
}

RecordPool::Slab* RecordPool::EmptiestOpen() const {
  Slab* emptiest = nullptr;
  for (Slab* slab : open_) {
    if (emptiest == nullptr || slab->free.size() > emptiest->free.size()) emptiest = slab;
  }
  return emptiest;
}

void RecordPool::Evacuate(Slab* slab) {
  // Out of the open list, so that Take cannot answer with a record of the slab being emptied. The
  // other open slabs have room: at least one frame's worth is free in all.
  RemoveOpen(slab);
  for (size_t index = 0; index < slab->owners.size(); ++index) {
    const RecordOwner owner = slab->owners[index];
    if (owner.tables == nullptr) continue;
    CHECK(!open_.empty());
    std::byte* to = Take(owner);
    std::memcpy(to, slab->base + index * record_bytes_, record_bytes_);
    owner.tables->Relocate(owner, to);
    --live_;
  }
  AddOpen(slab);
  ReleaseSlab(slab);
}

void RecordPool::Compact() {
  while (free_records() >= per_frame_) Evacuate(EmptiestOpen());
}

}  // namespace ballast
