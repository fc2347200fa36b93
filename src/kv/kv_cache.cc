// Role: see kv_cache.h.
#include "kv/kv_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "kv/record_pool.h"
#include "kv/record_tables.h"

namespace ballast {
namespace {

constexpr size_t kRecordAlign = 64;
constexpr int64_t kMaxPages = int64_t{1} << 30;  // page numbers are int32

Status CheckShape(size_t layer, const KvLayer& kv) {
  const KvShape& shape = kv.shape;
  if (shape.head_dim <= 0 || shape.head_dim % 16 != 0 || shape.head_dim > 4096) {
    return InvalidArgument("KV layer {}: head_dim {} must be a multiple of 16 in [16, 4096]", layer,
                           shape.head_dim);
  }
  if (shape.kv_heads <= 0 || shape.kv_heads > 4096) {
    return InvalidArgument("KV layer {}: kv_heads {} must be in [1, 4096]", layer, shape.kv_heads);
  }
  if (kv.window < 0) {
    return InvalidArgument("KV layer {}: window {} must not be negative", layer, kv.window);
  }
  if (shape.f16_record_bytes() > kFrameBytes) {
    return InvalidArgument("KV layer {}: a record of {} bytes is over one frame of {}", layer,
                           shape.f16_record_bytes(), kFrameBytes);
  }
  return OkStatus();
}

}  // namespace

struct KvCache::Impl {
  KvLayers layers;
  KvDType dtype = KvDType::kF16;
  FrameArena* arena = nullptr;
  std::vector<std::unique_ptr<RecordPool>> pools;  // one a record size
  std::vector<size_t> page_pool;                   // [layers]: pool of a page's record
  std::vector<size_t> open_pool;                   // [layers]: pool of the open f16 record (kv8)
  std::vector<int64_t> page_need;                  // [pools]: records of one page, all layers
  std::vector<int64_t> open_need;                  // [pools]: open records of one sequence
  int64_t sequences = 0;

  size_t PoolFor(size_t bytes) {
    const size_t size = RoundUp(bytes, kRecordAlign);
    for (size_t i = 0; i < pools.size(); ++i) {
      if (pools[i]->record_bytes() == size) return i;
    }
    pools.push_back(std::make_unique<RecordPool>(size, arena));
    return pools.size() - 1;
  }

  /// Whether `pages` more pages and `opens` sets of open records fit, counting partly free frames.
  bool Fits(int64_t pages, int64_t opens) const {
    int64_t frames = 0;
    for (size_t i = 0; i < pools.size(); ++i) {
      const int64_t need = pages * page_need[i] + opens * open_need[i] - pools[i]->free_records();
      if (need > 0) frames += CeilDiv(need, pools[i]->records_per_frame());
    }
    return frames <= arena->free_frames();
  }

  /// Frames that one sequence of `pages` pages takes in an empty arena.
  int64_t FramesOfSequence(int64_t pages) const {
    std::vector<int64_t> need = open_need;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      const int64_t window = layers[layer].window;
      const int64_t held =
          window > 0 ? CeilDiv(window + kReserveAheadTokens, int64_t{kPageTokens}) + 1 : pages;
      need[page_pool[layer]] += std::min(pages, held);
    }
    int64_t frames = 0;
    for (size_t i = 0; i < pools.size(); ++i) {
      frames += CeilDiv(need[i], pools[i]->records_per_frame());
    }
    return frames;
  }

  void Compact() {
    for (auto& pool : pools) pool->Compact();
  }
};

namespace {

/// The largest n in [0, limit] with fits(n); fits is monotone and fits(0) holds.
template <class Fits>
int64_t LargestThatFits(int64_t limit, const Fits& fits) {
  int64_t low = 0, high = limit;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::Create(KvLayers layers, KvDType dtype,
                                                 FrameArena* arena) {
  CHECK(arena != nullptr);
  if (layers.empty()) return InvalidArgument("KV cache: 0 layers, at least 1 is needed");
  for (size_t i = 0; i < layers.size(); ++i) RETURN_IF_ERROR(CheckShape(i, layers[i]));
  auto impl = std::make_unique<Impl>();
  impl->dtype = dtype;
  impl->arena = arena;
  for (const KvLayer& layer : layers) {
    const size_t f16_bytes = layer.shape.f16_record_bytes();
    const bool kv8 = dtype == KvDType::kKv8;
    impl->page_pool.push_back(impl->PoolFor(kv8 ? layer.shape.kv8_record_bytes() : f16_bytes));
    impl->open_pool.push_back(kv8 ? impl->PoolFor(f16_bytes) : 0);
  }
  impl->page_need.assign(impl->pools.size(), 0);
  impl->open_need.assign(impl->pools.size(), 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    ++impl->page_need[impl->page_pool[i]];
    if (dtype == KvDType::kKv8) ++impl->open_need[impl->open_pool[i]];
  }
  impl->layers = std::move(layers);
  return std::unique_ptr<KvCache>(new KvCache(std::move(impl)));
}

KvCache::KvCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvCache::~KvCache() { CHECK(impl_->sequences == 0); }

std::unique_ptr<KvSequence> KvCache::NewSequence() {
  ++impl_->sequences;
  return std::unique_ptr<KvSequence>(new KvSequence(this));
}

int64_t KvCache::FreePages() const {
  const Impl& impl = *impl_;
  return LargestThatFits(kMaxPages, [&](int64_t n) { return impl.Fits(n, 0); });
}

bool KvCache::HasRoom(int64_t pages, int64_t new_sequences) const {
  return impl_->Fits(pages, impl_->dtype == KvDType::kKv8 ? new_sequences : 0);
}

int64_t KvCache::CapacityPages() const {
  // A model whose layers all slide could go on for ever: capped by the page number's range.
  const Impl& impl = *impl_;
  return LargestThatFits(kMaxPages, [&](int64_t n) {
    return n == 0 || impl.FramesOfSequence(n) <= impl.arena->capacity_frames();
  });
}

uint64_t KvCache::bytes_in_use() const {
  uint64_t frames = 0;
  for (const auto& pool : impl_->pools) frames += static_cast<uint64_t>(pool->frames());
  return frames * kFrameBytes;
}

uint64_t KvCache::bytes_per_token() const {
  uint64_t page_bytes = 0;
  for (size_t pool : impl_->page_pool) page_bytes += impl_->pools[pool]->record_bytes();
  return CeilDiv(page_bytes, uint64_t{kPageTokens});
}

const KvLayers& KvCache::layers() const { return impl_->layers; }
KvDType KvCache::dtype() const { return impl_->dtype; }

KvSequence::KvSequence(KvCache* cache)
    : cache_(cache), tables_(std::make_unique<RecordTables>(cache->layers().size())) {}

KvSequence::~KvSequence() {
  KvCache::Impl& impl = *cache_->impl_;
  for (size_t i = 0; i < impl.layers.size(); ++i) {
    LayerTable& table = tables_->layer(static_cast<int32_t>(i));
    const bool kv8 = impl.dtype == KvDType::kKv8;
    for (std::byte* record : kv8 ? table.sealed : table.records) {
      if (record != nullptr) impl.pools[impl.page_pool[i]]->Give(record);
    }
    if (table.open != nullptr) impl.pools[impl.open_pool[i]]->Give(table.open);
  }
  --impl.sequences;
  impl.Compact();
}

Status KvSequence::Reserve(int64_t tokens) {
  CHECK(tokens >= 0);
  KvCache::Impl& impl = *cache_->impl_;
  const int64_t pages = CeilDiv(tokens, int64_t{kPageTokens});
  const int64_t added = pages - static_cast<int64_t>(page_count_);
  if (added <= 0) return OkStatus();
  const bool opens = impl.dtype == KvDType::kKv8 && page_count_ == 0;
  if (pages > kMaxPages || !impl.Fits(added, opens ? 1 : 0)) {
    return ResourceExhausted("KV cache: {} pages more for {} tokens, {} are free", added, tokens,
                             cache_->FreePages());
  }
  if (opens) {
    for (size_t i = 0; i < impl.layers.size(); ++i) {
      const auto layer = static_cast<int32_t>(i);
      tables_->layer(layer).open =
          impl.pools[impl.open_pool[i]]->Take({tables_.get(), layer, kOpenRecord});
      CHECK(tables_->layer(layer).open != nullptr);
    }
  }
  for (int64_t i = 0; i < added; ++i) AddPage();
  return OkStatus();
}

void KvSequence::AddPage() {
  KvCache::Impl& impl = *cache_->impl_;
  for (size_t i = 0; i < impl.layers.size(); ++i) {
    const auto layer = static_cast<int32_t>(i);
    LayerTable& table = tables_->layer(layer);
    std::byte* record = impl.pools[impl.page_pool[i]]->Take(
        {tables_.get(), layer, static_cast<int32_t>(page_count_)});
    CHECK(record != nullptr);  // Fits() has counted
    const bool kv8 = impl.dtype == KvDType::kKv8;
    table.records.push_back(kv8 ? nullptr : record);
    table.types.push_back(impl.dtype);
    if (kv8) table.sealed.push_back(record);
  }
  ++page_count_;
}

void KvSequence::Commit(int64_t tokens) {
  CHECK(tokens >= committed_tokens_ && tokens <= reserved_tokens());
  committed_tokens_ = tokens;
  FreeBehindWindows();
}

void KvSequence::FreeBehindWindows() {
  KvCache::Impl& impl = *cache_->impl_;
  bool freed = false;
  for (size_t i = 0; i < impl.layers.size(); ++i) {
    const int64_t window = impl.layers[i].window;
    if (window == 0) continue;
    LayerTable& table = tables_->layer(static_cast<int32_t>(i));
    // The next row stands at committed_tokens_ and sees keys from here on.
    const int64_t first_key = committed_tokens_ - window + 1;
    for (; (table.first_page + 1) * kPageTokens <= first_key; ++table.first_page) {
      const auto page = static_cast<size_t>(table.first_page);
      auto& owned = impl.dtype == KvDType::kKv8 ? table.sealed : table.records;
      impl.pools[impl.page_pool[i]]->Give(std::exchange(owned[page], nullptr));
      table.records[page] = nullptr;
      if (table.open_page == static_cast<int32_t>(page)) table.open_page = -1;
      freed = true;
    }
  }
  if (freed) impl.Compact();
}

std::byte* const* KvSequence::Records(int32_t layer) const {
  return tables_->layer(layer).records.data();
}

const KvDType* KvSequence::RecordTypes(int32_t layer) const {
  return tables_->layer(layer).types.data();
}

std::byte* KvSequence::OpenRecord(int32_t layer, int64_t page) {
  LayerTable& table = tables_->layer(layer);
  DCHECK(table.open != nullptr && page >= 0 && page < static_cast<int64_t>(page_count_));
  if (table.open_page >= 0 && table.open_page != page) {
    const auto old = static_cast<size_t>(table.open_page);
    if (table.records[old] == table.open) {
      table.records[old] = nullptr;
      table.types[old] = KvDType::kKv8;
    }
  }
  table.open_page = static_cast<int32_t>(page);
  table.records[static_cast<size_t>(page)] = table.open;
  table.types[static_cast<size_t>(page)] = KvDType::kF16;
  return table.open;
}

std::byte* KvSequence::BeginSeal(int32_t layer, int64_t page) {
  return tables_->layer(layer).sealed[static_cast<size_t>(page)];
}

void KvSequence::FinishSeal(int32_t layer, int64_t page) {
  LayerTable& table = tables_->layer(layer);
  const auto index = static_cast<size_t>(page);
  table.records[index] = table.sealed[index];
  table.types[index] = KvDType::kKv8;
  if (table.open_page == static_cast<int32_t>(page)) table.open_page = -1;
}

}  // namespace ballast
