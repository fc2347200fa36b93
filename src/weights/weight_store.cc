#include "weights/weight_store.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"
#include "weights/pack.h"
#include "weights/quant.h"

namespace ballast {
namespace {

// File bytes of one task: large enough that giving pages back is cheap, small enough that two
// threads finish together and that a panel's source stays in the L2 cache while it is packed.
constexpr uint64_t kChunkBytes = 1 << 20;
constexpr size_t kLine = 64;
// Chunks that the disk may be reading while one is packed.
constexpr size_t kReadAhead = 16;
// The first request after a start should not share the cores with moving pages.
constexpr int64_t kSettleDelayMs = 1000;

Status CheckVector(const std::string& path, const WeightRequest& request,
                   const TensorInfo& tensor) {
  if (!IsFloat(tensor.type)) {
    return InvalidArgument("'{}': tensor '{}' has type {}, expected F32, F16 or BF16", path,
                           request.name, DTypeName(tensor.type));
  }
  if (tensor.rows() != 1 || tensor.cols() != request.cols) {
    return InvalidArgument("'{}': tensor '{}' has shape [{}, {}], expected [{}]", path,
                           request.name, tensor.rows(), tensor.cols(), request.cols);
  }
  return OkStatus();
}

Status CheckMatrix(const std::string& path, const WeightRequest& request,
                   const TensorInfo& tensor) {
  if (tensor.rows() != request.rows || tensor.cols() != request.cols) {
    return InvalidArgument("'{}': tensor '{}' has shape [{}, {}], expected [{}, {}]", path,
                           request.name, tensor.rows(), tensor.cols(), request.rows, request.cols);
  }
  if (tensor.add != 0) {
    return Internal("'{}': tensor '{}' needs an addition that matrices do not have", path,
                    request.name);
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<WeightStore>> WeightStore::Load(const WeightSource& source,
                                                       std::span<const WeightRequest> requests,
                                                       ThreadPool& pool, Ledger* ledger) {
  std::unique_ptr<WeightStore> store(new WeightStore);
  RETURN_IF_ERROR(store->Plan(source, requests));
  RETURN_IF_ERROR(store->Allocate(source.path(), ledger));
  store->Fill(source, pool);
  RETURN_IF_ERROR(source.CheckIntact());
  for (Entry& entry : store->entries_) entry.tensor = nullptr;
  store->backing_->SettleLater(kSettleDelayMs);
  return store;
}

WeightStore::~WeightStore() {
  if (ledger_ != nullptr) ledger_->Release(MemoryOwner::kWeights, buffer_.size());
}

Status WeightStore::Plan(const WeightSource& source, std::span<const WeightRequest> requests) {
  entries_.reserve(requests.size());
  for (const WeightRequest& request : requests) {
    const TensorInfo* tensor = source.FindTensor(request.name);
    if (tensor == nullptr) {
      if (request.presence == Presence::kOptional) continue;
      return NotFound("'{}': tensor '{}' is missing", source.path(), request.name);
    }
    Entry entry{.name = request.name, .kind = request.kind, .tensor = tensor};
    entry.matrix = {.type = tensor->type, .rows = request.rows, .cols = request.cols};
    uint64_t bytes = 0;
    if (request.kind == WeightKind::kVector) {
      RETURN_IF_ERROR(CheckVector(source.path(), request, *tensor));
      bytes = static_cast<uint64_t>(request.cols) * sizeof(float);
    } else {
      RETURN_IF_ERROR(CheckMatrix(source.path(), request, *tensor));
      bytes = entry.matrix.bytes();
    }
    entry.offset = planned_bytes_;
    planned_bytes_ += RoundUp(bytes, uint64_t{kLine});
    logical_bytes_ += tensor->bytes;
    WeightTypeShare& share = types_[static_cast<size_t>(tensor->type)];
    ++share.tensors;
    share.values += static_cast<uint64_t>(tensor->rows() * tensor->cols());
    share.bytes += tensor->bytes;
    entries_.push_back(std::move(entry));
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!index_.emplace(entries_[i].name, i).second) {
      return Internal("tensor '{}' was requested twice", entries_[i].name);
    }
  }
  return OkStatus();
}

std::vector<WeightTypeShare> WeightStore::types() const {
  std::vector<WeightTypeShare> shares;
  for (size_t i = 0; i < types_.size(); ++i) {
    if (types_[i].tensors == 0) continue;
    shares.push_back(types_[i]);
    shares.back().type = static_cast<DType>(i);
  }
  std::sort(shares.begin(), shares.end(),
            [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return shares;
}

Status WeightStore::Allocate(const std::string& path, Ledger* ledger) {
  const uint64_t need = RoundUp(planned_bytes_, uint64_t{kHugePageBytes});
  if (ledger != nullptr && ledger->budget_bytes() > 0) {
    const uint64_t used = ledger->total_bytes();
    const uint64_t budget = ledger->budget_bytes();
    if (used > budget || need > budget - used) {
      return ResourceExhausted(
          "'{}': its weights need {}, but {} of the memory budget of {} are "
          "left (raise --memory)",
          path, FormatBytes(need), FormatBytes(used > budget ? 0 : budget - used),
          FormatBytes(budget));
    }
  }
  ASSIGN_OR_RETURN(buffer_, HugeBuffer::Allocate(planned_bytes_));
  backing_.emplace(buffer_.span());
  if (ledger != nullptr) ledger->Charge(MemoryOwner::kWeights, buffer_.size());
  ledger_ = ledger;
  for (Entry& entry : entries_) entry.matrix.data = buffer_.data() + entry.offset;
  return OkStatus();
}

std::vector<WeightStore::Chunk> WeightStore::MakeChunks() const {
  // In the order of the file, so that reading ahead works on a cold cache.
  std::vector<uint32_t> order(entries_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    const TensorInfo &x = *entries_[a].tensor, &y = *entries_[b].tensor;
    return std::pair(x.file, x.offset) < std::pair(y.file, y.offset);
  });
  std::vector<Chunk> chunks;
  for (const uint32_t i : order) {
    const Entry& entry = entries_[i];
    const int32_t panels = entry.kind == WeightKind::kVector ? 1 : entry.matrix.panels();
    const uint64_t panel_bytes = entry.tensor->bytes / static_cast<uint64_t>(panels) + 1;
    const auto step = static_cast<int32_t>(std::max<uint64_t>(1, kChunkBytes / panel_bytes));
    for (int32_t begin = 0; begin < panels; begin += step) {
      chunks.push_back({i, begin, std::min(panels, begin + step)});
    }
  }
  return chunks;
}

void WeightStore::Fill(const WeightSource& source, ThreadPool& pool) {
  const std::vector<Chunk> chunks = MakeChunks();
  const auto count = static_cast<int64_t>(chunks.size());
  // A tensor of 2^31 rows would make more chunks than one fork-join takes.
  for (int64_t begin = 0; begin < count; begin += ThreadPool::kMaxTasks) {
    pool.ParallelFor(std::min(count - begin, ThreadPool::kMaxTasks), [&](int64_t task, int) {
      const auto i = static_cast<size_t>(begin + task);
      if (i == 0) {
        for (size_t k = 0; k < std::min(chunks.size(), kReadAhead); ++k) {
          Prefetch(source, chunks[k]);
        }
      }
      if (i + kReadAhead < chunks.size()) Prefetch(source, chunks[i + kReadAhead]);
      FillChunk(source, chunks[i]);
    });
  }
  source.ReleaseAll();
}

WeightStore::ByteRange WeightStore::FileRange(const Chunk& chunk) const {
  const TensorInfo& tensor = *entries_[chunk.entry].tensor;
  if (entries_[chunk.entry].kind == WeightKind::kVector) return {0, tensor.bytes};
  const uint64_t row_bytes = tensor.bytes / static_cast<uint64_t>(tensor.rows());
  const int64_t first = int64_t{chunk.panel_begin} * kPanelRows;
  const int64_t last = std::min<int64_t>(int64_t{chunk.panel_end} * kPanelRows, tensor.rows());
  return {static_cast<uint64_t>(first) * row_bytes,
          static_cast<uint64_t>(last - first) * row_bytes};
}

void WeightStore::Prefetch(const WeightSource& source, const Chunk& chunk) const {
  const ByteRange range = FileRange(chunk);
  source.WillNeed(*entries_[chunk.entry].tensor, range.begin, range.size);
}

void WeightStore::FillChunk(const WeightSource& source, const Chunk& chunk) {
  const Entry& entry = entries_[chunk.entry];
  const TensorInfo& tensor = *entry.tensor;
  const std::span<const std::byte> bytes = source.TensorBytes(tensor);
  std::byte* dst = buffer_.data() + entry.offset;
  if (entry.kind == WeightKind::kVector) {
    auto* values = reinterpret_cast<float*>(dst);
    DequantizeBlocks(tensor.type, bytes.data(), tensor.cols(), values);
    if (tensor.add != 0) {
      for (int64_t i = 0; i < tensor.cols(); ++i) values[i] += tensor.add;
    }
    return;
  }
  const size_t panel_bytes = entry.matrix.panel_bytes();
  backing_->Prepare(entry.offset + static_cast<size_t>(chunk.panel_begin) * panel_bytes,
                    static_cast<size_t>(chunk.panel_end - chunk.panel_begin) * panel_bytes);
  PackPanels(entry.matrix, bytes, chunk.panel_begin, chunk.panel_end, dst);
  const ByteRange range = FileRange(chunk);
  source.Release(tensor, range.begin, range.size);
}

const WeightStore::Entry* WeightStore::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

Result<PackedMatrix> WeightStore::Matrix(std::string_view name, int32_t rows, int32_t cols) const {
  const Entry* entry = Find(name);
  if (entry == nullptr || entry->kind != WeightKind::kMatrix) {
    return NotFound("matrix '{}' was not loaded", name);
  }
  if (entry->matrix.rows != rows || entry->matrix.cols != cols) {
    return InvalidArgument("matrix '{}' has shape [{}, {}], expected [{}, {}]", name,
                           entry->matrix.rows, entry->matrix.cols, rows, cols);
  }
  return entry->matrix;
}

Result<std::span<const float>> WeightStore::Vector(std::string_view name, int32_t n) const {
  const Entry* entry = Find(name);
  if (entry == nullptr || entry->kind != WeightKind::kVector) {
    return NotFound("vector '{}' was not loaded", name);
  }
  if (entry->matrix.cols != n) {
    return InvalidArgument("vector '{}' has length {}, expected {}", name, entry->matrix.cols, n);
  }
  return std::span<const float>(reinterpret_cast<const float*>(entry->matrix.data),
                                static_cast<size_t>(n));
}

}  // namespace ballast
