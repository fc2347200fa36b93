// Role: the vocabulary's hash tables: bytes -> token, and pair of tokens -> merge.
// Open addressing over flat arrays; keys live with the owner of the vocabulary.
// std::unordered_map would cost one allocation an entry and triple the time to load a model.
// Thread: immutable after filling.
#ifndef BALLAST_TEXT_TOKEN_MAP_H_
#define BALLAST_TEXT_TOKEN_MAP_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace ballast {

namespace token_map_internal {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline constexpr uint64_t kOdd0 = 0x9E3779B97F4A7C15;
inline constexpr uint64_t kOdd1 = 0xD6E8FEB86659FD93;

/// Multiply-fold over 8-byte words; tokens are short, so the tail is the common case.
inline uint64_t HashBytes(std::string_view text) {
  uint64_t hash = text.size() * kOdd1;
  const char* p = text.data();
  size_t left = text.size();
  while (left >= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = Mix(hash ^ word, kOdd0);
    p += 8;
    left -= 8;
  }
  uint64_t word = 0;
  if (left != 0) std::memcpy(&word, p, left);
  return Mix(hash ^ word ^ kOdd1, kOdd0);
}

}  // namespace token_map_internal

/// Bytes -> token id. Slots hold a hash tag and the id only, so that a miss, the common case while
/// merging, touches one cache line. The bytes stay with the owner: texts[token] must not change.
/// The first insertion of a key wins.
class TokenMap {
 public:
  void Reserve(const std::vector<std::string>* texts, size_t count) {
    texts_ = texts;
    slots_.assign(std::bit_ceil(count * 3 / 2 + 8), Slot{});
    mask_ = slots_.size() - 1;
  }

  /// Reserve() must have made room. Returns false if its text was there already.
  bool Insert(TokenId token) {
    const std::string& key = Text(token);
    const uint64_t hash = token_map_internal::HashBytes(key);
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.token < 0) {
        slot = {Tag(hash), token};
        return true;
      }
      if (slot.tag == Tag(hash) && Text(slot.token) == key) return false;
    }
  }

  /// -1 if absent.
  TokenId Find(std::string_view key) const {
    if (slots_.empty()) return -1;
    return FindHashed(key, token_map_internal::HashBytes(key));
  }

  /// In two steps, so that several lookups can wait for memory at once.
  uint64_t Prefetch(std::string_view key) const {
    const uint64_t hash = token_map_internal::HashBytes(key);
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & mask_]);
    return hash;
  }
  TokenId FindHashed(std::string_view key, uint64_t hash) const {
    if (slots_.empty()) return -1;
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.token < 0) return -1;
      if (slot.tag == Tag(hash) && Text(slot.token) == key) return slot.token;
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    TokenId token = -1;
  };
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  const std::string& Text(TokenId token) const { return (*texts_)[static_cast<size_t>(token)]; }

  const std::vector<std::string>* texts_ = nullptr;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

/// What two neighbouring tokens merge into. Lower rank merges first.
struct Merge {
  uint32_t rank = UINT32_MAX;
  TokenId token = -1;
};

/// (left, right) -> Merge. The first insertion of a pair wins.
class MergeMap {
 public:
  void Reserve(size_t count) {
    slots_.assign(std::bit_ceil(count * 3 / 2 + 8), Slot{});
    mask_ = slots_.size() - 1;
  }

  void Insert(TokenId left, TokenId right, Merge merge) {
    const uint64_t key = Key(left, right);
    for (size_t i = Hash(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return;
      if (slots_[i].key == kEmpty) {
        slots_[i] = {key, merge};
        return;
      }
    }
  }

  /// nullptr if the pair does not merge.
  const Merge* Find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const uint64_t key = Key(left, right);
    for (size_t i = Hash(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t Key(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }
  static uint64_t Hash(uint64_t key) {
    return token_map_internal::Mix(key ^ token_map_internal::kOdd1, token_map_internal::kOdd0);
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_TOKEN_MAP_H_
