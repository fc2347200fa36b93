// Role: the weights of one loaded model: packed matrices and fp32 vectors in one huge-page buffer,
// charged to the ledger. The file's pages are given back while they are consumed, so loading never
// needs the file and its packed copy at once.
// Thread: Load is called by the engine thread (it uses the pool); afterwards immutable.
#ifndef BALLAST_WEIGHTS_WEIGHT_STORE_H_
#define BALLAST_WEIGHTS_WEIGHT_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "memory/ledger.h"
#include "platform/huge_buffer.h"
#include "platform/page_backing.h"
#include "platform/thread_pool.h"
#include "tensor/packed.h"
#include "weights/source.h"

namespace ballast {

enum class WeightKind : uint8_t {
  kMatrix,  // packed panels, any type
  kVector,  // fp32 values; the file holds F32, F16 or BF16
};
enum class Presence : uint8_t { kRequired, kOptional };

/// A tensor that a model wants.
struct WeightRequest {
  std::string name;  // canonical (GGUF) name
  int32_t rows = 1;  // 1 for vectors
  int32_t cols = 0;  // a vector's length
  WeightKind kind = WeightKind::kMatrix;
  Presence presence = Presence::kRequired;
};

class WeightStore {
 public:
  /// Checks every request against the source, then loads all in one fork-join.
  /// @param ledger charged with MemoryOwner::kWeights until the store dies; may be null.
  /// Errors, before anything is allocated: kNotFound for a missing required tensor;
  /// kInvalidArgument naming tensor, expected and found shape, or a block type where fp32 values
  /// are needed; kResourceExhausted when the ledger's budget (unless 0) cannot hold the weights.
  /// Cost: memory speed; 490 MB take about 0.2 s on two threads when the file is cached. Where
  /// 2 MiB pages come slowly the weights move to them in the background from a second later on
  /// (platform/page_backing.h).
  static Result<std::unique_ptr<WeightStore>> Load(const WeightSource& source,
                                                   std::span<const WeightRequest> requests,
                                                   ThreadPool& pool, Ledger* ledger);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// True if the tensor was requested and is there.
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  /// Errors: kNotFound; kInvalidArgument naming the tensor, expected and found shape.
  Result<PackedMatrix> Matrix(std::string_view name, int32_t rows, int32_t cols) const;
  Result<std::span<const float>> Vector(std::string_view name, int32_t n) const;

  /// Returns when the weights lie on 2 MiB pages, as far as there are any: before measuring.
  void Settle() { backing_->Settle(); }

  /// Bytes in memory, padding included.
  uint64_t resident_bytes() const { return buffer_.size(); }
  /// Bytes of the same tensors in the file.
  uint64_t logical_bytes() const { return logical_bytes_; }
  /// Most bytes first; only types that occur.
  std::vector<WeightTypeShare> types() const;

 private:
  struct Entry {
    std::string name;
    WeightKind kind = WeightKind::kMatrix;
    PackedMatrix matrix = {};            // vectors: only rows and cols
    size_t offset = 0;                   // in buffer_
    const TensorInfo* tensor = nullptr;  // valid during Load only
  };
  struct Chunk {
    uint32_t entry;
    int32_t panel_begin;
    int32_t panel_end;
  };

  struct ByteRange {
    uint64_t begin;  // within the tensor
    uint64_t size;
  };

  WeightStore() = default;
  Status Plan(const WeightSource& source, std::span<const WeightRequest> requests);
  Status Allocate(const std::string& path, Ledger* ledger);
  void Fill(const WeightSource& source, ThreadPool& pool);
  std::vector<Chunk> MakeChunks() const;
  ByteRange FileRange(const Chunk& chunk) const;
  void Prefetch(const WeightSource& source, const Chunk& chunk) const;
  void FillChunk(const WeightSource& source, const Chunk& chunk);
  const Entry* Find(std::string_view name) const;

  HugeBuffer buffer_;
  std::optional<PageBacking> backing_;  // of buffer_, and gone before it
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
  uint64_t planned_bytes_ = 0;
  uint64_t logical_bytes_ = 0;
  std::array<WeightTypeShare, kDTypeCount> types_ = {};
  Ledger* ledger_ = nullptr;
};

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_WEIGHT_STORE_H_
