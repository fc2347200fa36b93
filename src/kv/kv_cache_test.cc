// Property tests of the KV cache against a naive model: what each sequence wrote must be read back
// after any order of Reserve, Commit, seal and death; no record is used twice; frames go back.
#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"
#include "base/units.h"

namespace ballast {
namespace {

KvLayer Layer(int32_t kv_heads, int32_t head_dim, int32_t window = 0) {
  return {KvShape{kv_heads, head_dim}, window};
}

/// A stamp that a test writes into a record and expects to find later.
uint64_t StampOf(uint64_t sequence, int32_t layer, int64_t page) {
  return CounterHash(sequence, static_cast<uint64_t>(layer), static_cast<uint64_t>(page));
}

void Fill(std::byte* record, size_t bytes, uint64_t stamp) {
  for (size_t at = 0; at + 8 <= bytes; at += 1024) std::memcpy(record + at, &stamp, 8);
  std::memcpy(record + bytes - 8, &stamp, 8);
}

::testing::AssertionResult Holds(const std::byte* record, size_t bytes, uint64_t stamp) {
  for (size_t at = 0; at + 8 <= bytes; at += 1024) {
    if (std::memcmp(record + at, &stamp, 8) != 0) {
      return ::testing::AssertionFailure() << "byte " << at << " is not the stamp";
    }
  }
  if (std::memcmp(record + bytes - 8, &stamp, 8) != 0) {
    return ::testing::AssertionFailure() << "the last bytes are not the stamp";
  }
  return ::testing::AssertionSuccess();
}

/// One sequence and what the naive model knows about it.
struct Tracked {
  uint64_t id = 0;
  std::unique_ptr<KvSequence> kv;
  int64_t written = 0;  // tokens
};

class Traffic {
 public:
  Traffic(KvLayers layers, KvDType dtype, int64_t frames, uint64_t seed)
      : rng_(seed),
        ledger_(kGiB),
        arena_(*FrameArena::Create(static_cast<uint64_t>(frames) * kFrameBytes, &ledger_)),
        cache_(*KvCache::Create(std::move(layers), dtype, arena_.get())) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const uint64_t action = rng_.Below(10);
      if (action == 0 && sequences_.size() < 6) {
        sequences_.push_back({next_id_++, cache_->NewSequence(), 0});
      } else if (action == 1 && !sequences_.empty()) {
        sequences_.erase(sequences_.begin() +
                         static_cast<std::ptrdiff_t>(rng_.Below(sequences_.size())));
      } else if (!sequences_.empty()) {
        Grow(sequences_[rng_.Below(sequences_.size())]);
      }
      Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    sequences_.clear();
    EXPECT_EQ(arena_->used_frames(), 0);
    EXPECT_EQ(ledger_.total_bytes(), 0u);
    EXPECT_EQ(cache_->bytes_in_use(), 0u);
  }

  int64_t refusals() const { return refusals_; }

 private:
  size_t RecordBytes(int32_t layer, KvDType type) const {
    const KvShape& shape = cache_->layers()[static_cast<size_t>(layer)].shape;
    return type == KvDType::kF16 ? shape.f16_record_bytes() : shape.kv8_record_bytes();
  }

  void Grow(Tracked& sequence) {
    const int64_t rows = 1 + static_cast<int64_t>(rng_.Below(rng_.Below(4) == 0 ? 300 : 40));
    const int64_t free_before = cache_->FreePages();
    const int64_t reserved_before = sequence.kv->reserved_tokens();
    const int64_t used_before = arena_->used_frames();
    const int64_t target = sequence.written + rows;
    const Status status = sequence.kv->Reserve(target);
    const int64_t added = CeilDiv(target, int64_t{kPageTokens}) - reserved_before / kPageTokens;
    if (!status.has_value()) {
      ++refusals_;
      EXPECT_EQ(status.error().code, Code::kResourceExhausted);
      EXPECT_EQ(sequence.kv->reserved_tokens(), reserved_before) << "a refusal changes nothing";
      EXPECT_EQ(arena_->used_frames(), used_before);
      if (reserved_before > 0) {
        EXPECT_GT(added, free_before) << "refused although it fitted";
      }
      return;
    }
    EXPECT_GE(sequence.kv->reserved_tokens(), target);
    if (added > 0) {
      EXPECT_LE(added, free_before);
    }
    WriteStep(sequence, target);
    sequence.written = target;
    sequence.kv->Commit(target);
  }

  void WriteStep(Tracked& sequence, int64_t end) {
    const auto layers = static_cast<int32_t>(cache_->layers().size());
    const int64_t first_page = sequence.written / kPageTokens;
    const int64_t last_page = (end - 1) / kPageTokens;
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (int64_t page = first_page; page <= last_page; ++page) {
        const uint64_t stamp = StampOf(sequence.id, layer, page);
        if (cache_->dtype() == KvDType::kF16) {
          Fill(sequence.kv->Records(layer)[page], RecordBytes(layer, KvDType::kF16), stamp);
          continue;
        }
        std::byte* open = sequence.kv->OpenRecord(layer, page);
        EXPECT_EQ(sequence.kv->Records(layer)[page], open);
        Fill(open, RecordBytes(layer, KvDType::kF16), stamp);
        if ((page + 1) * kPageTokens <= end) {
          Fill(sequence.kv->BeginSeal(layer, page), RecordBytes(layer, KvDType::kKv8), stamp);
          sequence.kv->FinishSeal(layer, page);
        }
      }
    }
  }

  /// Every visible record holds its stamp; none overlaps another; waste is bounded.
  void Check() {
    std::map<const std::byte*, size_t> extents;
    std::map<size_t, int64_t> live;  // by record size
    for (const Tracked& sequence : sequences_) {
      for (size_t l = 0; l < cache_->layers().size(); ++l) {
        CheckLayer(sequence, static_cast<int32_t>(l), &extents);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    const std::byte* end = nullptr;
    for (const auto& [begin, bytes] : extents) {
      ASSERT_GE(begin, end) << "two records overlap";
      end = begin + bytes;
    }
    CheckWaste();
  }

  void CheckLayer(const Tracked& sequence, int32_t layer,
                  std::map<const std::byte*, size_t>* extents) {
    const int64_t window = cache_->layers()[static_cast<size_t>(layer)].window;
    const int64_t pages = sequence.kv->reserved_tokens() / kPageTokens;
    for (int64_t page = 0; page < pages; ++page) {
      const bool behind = window > 0 && (page + 1) * kPageTokens <= sequence.written - window + 1;
      const std::byte* record = sequence.kv->Records(layer)[page];
      ASSERT_EQ(record == nullptr, behind) << "layer " << layer << " page " << page;
      if (behind) continue;
      const KvDType type = sequence.kv->RecordTypes(layer)[page];
      const bool full = (page + 1) * kPageTokens <= sequence.written;
      ASSERT_EQ(type == KvDType::kKv8, cache_->dtype() == KvDType::kKv8 && full);
      const size_t bytes = RecordBytes(layer, type);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(record) % 64, 0u);
      ASSERT_TRUE(extents->emplace(record, bytes).second) << "a record is used twice";
      ASSERT_TRUE(Holds(record, bytes, StampOf(sequence.id, layer, page)));
    }
  }

  void CheckWaste() {
    // Bytes of the records the naive model knows to be needed, by size.
    std::map<size_t, int64_t> count;
    for (const KvLayer& layer : cache_->layers()) {
      const bool kv8 = cache_->dtype() == KvDType::kKv8;
      count[RoundUp(layer.shape.f16_record_bytes(), size_t{64})];
      for (const Tracked& sequence : sequences_) {
        const int64_t pages = sequence.kv->reserved_tokens() / kPageTokens;
        const int64_t behind =
            layer.window == 0
                ? 0
                : std::max<int64_t>(0, (sequence.written - layer.window + 1) / kPageTokens);
        const size_t bytes = kv8 ? layer.shape.kv8_record_bytes() : layer.shape.f16_record_bytes();
        count[RoundUp(bytes, size_t{64})] += pages - behind;
        if (kv8 && pages > 0) ++count[RoundUp(layer.shape.f16_record_bytes(), size_t{64})];
      }
    }
    int64_t frames = 0;
    for (const auto& [bytes, n] : count) {
      frames += CeilDiv(n, static_cast<int64_t>(kFrameBytes / bytes));
    }
    ASSERT_EQ(arena_->used_frames(), frames) << "waste is below one frame a record size";
  }

  Rng rng_;
  Ledger ledger_;
  std::unique_ptr<FrameArena> arena_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Tracked> sequences_;
  uint64_t next_id_ = 1;
  int64_t refusals_ = 0;
};

TEST(KvCache, RandomTrafficKeepsEveryRecordF16) {
  int64_t refusals = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Traffic traffic({Layer(3, 64), Layer(3, 64), Layer(1, 256)}, KvDType::kF16, 2, seed);
    traffic.Run(200);
    refusals += traffic.refusals();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refusals, 0) << "the budget must have been reached";
}

TEST(KvCache, RandomTrafficKeepsEveryRecordKv8) {
  int64_t refusals = 0;
  for (uint64_t seed = 100; seed < 112; ++seed) {
    Traffic traffic({Layer(3, 64), Layer(2, 128), Layer(3, 64)}, KvDType::kKv8, 3, seed);
    traffic.Run(200);
    refusals += traffic.refusals();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refusals, 0);
}

TEST(KvCache, RandomTrafficWithSlidingLayers) {
  for (uint64_t seed = 200; seed < 208; ++seed) {
    for (KvDType dtype : {KvDType::kF16, KvDType::kKv8}) {
      Traffic traffic({Layer(1, 256, 100), Layer(1, 256), Layer(1, 256, 512), Layer(2, 64, 1)},
                      dtype, 9, seed);
      traffic.Run(200);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KvCache, FreePagesIsExact) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(5 * kFrameBytes, &ledger);
  auto cache =
      *KvCache::Create({Layer(3, 64), Layer(3, 64), Layer(1, 128)}, KvDType::kF16, arena.get());
  const int64_t pages = cache->FreePages();
  EXPECT_EQ(pages, cache->CapacityPages());
  {
    auto sequence = cache->NewSequence();
    EXPECT_TRUE(sequence->Reserve(pages * kPageTokens).has_value());
    EXPECT_EQ(cache->FreePages(), 0);
    EXPECT_FALSE(sequence->Reserve(pages * kPageTokens + 1).has_value());
    EXPECT_EQ(sequence->reserved_tokens(), pages * kPageTokens);
  }
  EXPECT_EQ(cache->FreePages(), pages);
}

TEST(KvCache, Kv8TakesHalfOfF16) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(64 * kFrameBytes, &ledger);
  const KvLayers layers(30, Layer(3, 64));
  auto f16 = *KvCache::Create(layers, KvDType::kF16, arena.get());
  auto kv8 = *KvCache::Create(layers, KvDType::kKv8, arena.get());
  EXPECT_EQ(f16->bytes_per_token(), 30u * 3 * 64 * 2 * 2);
  EXPECT_LT(static_cast<double>(kv8->bytes_per_token()),
            0.55 * static_cast<double>(f16->bytes_per_token()));
  EXPECT_GT(kv8->CapacityPages(), f16->CapacityPages() * 17 / 10);
}

TEST(KvCache, SlidingLayersBoundALongSequence) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(16 * kFrameBytes, &ledger);
  auto cache = *KvCache::Create({Layer(1, 256, 512)}, KvDType::kF16, arena.get());
  auto sequence = cache->NewSequence();
  for (int64_t token = 0; token < 100000; token += 500) {
    ASSERT_TRUE(sequence->Reserve(token + 500).has_value()) << token;
    sequence->Commit(token + 500);
    ASSERT_LE(arena->used_frames(), 1);
  }
}

TEST(KvCache, RefusesBadShapesByName) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(kFrameBytes, &ledger);
  auto odd = KvCache::Create({Layer(1, 24)}, KvDType::kF16, arena.get());
  ASSERT_FALSE(odd.has_value());
  EXPECT_NE(odd.error().message.find("head_dim 24"), std::string::npos);
  auto large = KvCache::Create({Layer(64, 256)}, KvDType::kF16, arena.get());
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("over one frame"), std::string::npos);
  EXPECT_FALSE(KvCache::Create({}, KvDType::kF16, arena.get()).has_value());
}

TEST(KvCache, RowsBeyondTheCommitMayBeWrittenAgain) {
  Ledger ledger(kGiB);
  auto arena = *FrameArena::Create(4 * kFrameBytes, &ledger);
  auto cache = *KvCache::Create({Layer(1, 64, 64)}, KvDType::kF16, arena.get());
  auto sequence = cache->NewSequence();
  ASSERT_TRUE(sequence->Reserve(140).has_value());
  sequence->Commit(130);
  EXPECT_EQ(sequence->committed_tokens(), 130);
  // Position 130 sees keys from 67 on: page 0 is gone, page 1 is not.
  EXPECT_EQ(sequence->Records(0)[0], nullptr);
  EXPECT_NE(sequence->Records(0)[1], nullptr);
  ASSERT_TRUE(sequence->Reserve(131).has_value());
  sequence->Commit(131);
}

}  // namespace
}  // namespace ballast
