// Role: the merge loop of byte pair encoding, shared by all vocabularies.
// Short words scan an array; long ones use a heap over a linked list, so that a megabyte of one
// letter stays O(n log n). Both give the same result: lowest rank first, then leftmost.
// Thread: one BpeMerger per call.
#ifndef BALLAST_TEXT_BPE_H_
#define BALLAST_TEXT_BPE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace ballast {

/// A token over `size` bytes at `offset` of the word.
struct BpeSymbol {
  TokenId token = -1;
  uint32_t offset = 0;
  uint32_t size = 0;
};

/// A possible merge: order by `rank`; kNoRank means that the pair does not merge.
struct BpeCandidate {
  static constexpr uint64_t kNoRank = UINT64_MAX;
  uint64_t rank = kNoRank;
  TokenId token = -1;
};

class BpeMerger {
 public:
  std::vector<BpeSymbol> symbols;  ///< The word's symbols; Run() leaves the merged ones here.

  /// `find(left, right)` returns the BpeCandidate of two neighbouring symbols.
  template <class FindFn>
  void Run(const FindFn& find) {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShortWord) {
      RunShort(find);
    } else {
      RunLong(find);
    }
  }

 private:
  // Up to here quadratic scanning of cached ranks beats the heap (measured on prose and code).
  static constexpr size_t kShortWord = 64;

  template <class FindFn>
  void RunShort(const FindFn& find) {
    size_t count = symbols.size();
    for (size_t i = 0; i + 1 < count; ++i) short_[i] = find(symbols[i], symbols[i + 1]);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i) {
        if (short_[i].rank < short_[best].rank) best = i;
      }
      if (short_[best].rank == BpeCandidate::kNoRank) break;
      symbols[best].token = short_[best].token;
      symbols[best].size += symbols[best + 1].size;
      for (size_t i = best + 1; i + 1 < count; ++i) {
        symbols[i] = symbols[i + 1];
        short_[i] = short_[i + 1];
      }
      --count;
      if (best > 0) short_[best - 1] = find(symbols[best - 1], symbols[best]);
      if (best + 1 < count) short_[best] = find(symbols[best], symbols[best + 1]);
    }
    symbols.resize(count);
  }

  struct Entry {
    uint64_t rank;
    uint32_t left;
    uint32_t right;
    uint32_t size;  // of both together: tells a stale entry
    TokenId token;
    // std heap keeps the greatest on top.
    bool operator<(const Entry& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  template <class FindFn>
  void Push(const FindFn& find, uint32_t left, uint32_t right) {
    const BpeCandidate candidate = find(symbols[left], symbols[right]);
    if (candidate.rank == BpeCandidate::kNoRank) return;
    heap_.push_back(
        {candidate.rank, left, right, symbols[left].size + symbols[right].size, candidate.token});
    std::push_heap(heap_.begin(), heap_.end());
  }

  template <class FindFn>
  void RunLong(const FindFn& find) {
    constexpr uint32_t kEnd = UINT32_MAX;
    const auto count = static_cast<uint32_t>(symbols.size());
    next_.resize(count);
    previous_.resize(count);
    heap_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      next_[i] = i + 1 < count ? i + 1 : kEnd;
      previous_[i] = i > 0 ? i - 1 : kEnd;
    }
    for (uint32_t i = 0; i + 1 < count; ++i) Push(find, i, i + 1);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Entry entry = heap_.back();
      heap_.pop_back();
      BpeSymbol& left = symbols[entry.left];
      BpeSymbol& right = symbols[entry.right];
      if (left.size == 0 || right.size == 0 || next_[entry.left] != entry.right ||
          left.size + right.size != entry.size) {
        continue;
      }
      left.token = entry.token;
      left.size += right.size;
      right.size = 0;
      next_[entry.left] = next_[entry.right];
      if (next_[entry.left] != kEnd) previous_[next_[entry.left]] = entry.left;
      if (previous_[entry.left] != kEnd) Push(find, previous_[entry.left], entry.left);
      if (next_[entry.left] != kEnd) Push(find, entry.left, next_[entry.left]);
    }
    std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.size == 0; });
  }

  BpeCandidate short_[kShortWord];
  std::vector<Entry> heap_;
  std::vector<uint32_t> next_, previous_;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_BPE_H_
