// Role: the addresses of one sequence's records, by layer and page: what the pools rewrite when
// they move a record.
// Thread: the engine thread.
#ifndef BALLAST_KV_RECORD_TABLES_H_
#define BALLAST_KV_RECORD_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/record_pool.h"
#include "tensor/kv_layout.h"

namespace ballast {

/// One layer's records of one sequence.
struct LayerTable {
  std::vector<std::byte*> records;  // by page: what attention reads; null: behind the window
  std::vector<KvDType> types;       // by page
  std::vector<std::byte*> sealed;   // kv8 only, by page: the reserved kv8 record
  std::byte* open = nullptr;        // kv8 only: the f16 record of the page being written
  int32_t open_page = -1;           // kv8 only: which page `open` stands for in `records`
  int64_t first_page = 0;           // pages before it were freed (sliding window)
};

class RecordTables {
 public:
  explicit RecordTables(size_t layers) : layers_(layers) {}

  LayerTable& layer(int32_t index) { return layers_[static_cast<size_t>(index)]; }
  const LayerTable& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }

  /// The record of `owner` now lives at `to`.
  void Relocate(const RecordOwner& owner, std::byte* to);

 private:
  std::vector<LayerTable> layers_;
};

}  // namespace ballast

#endif  // BALLAST_KV_RECORD_TABLES_H_
