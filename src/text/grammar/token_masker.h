// Role: which tokens may come next, as a bit mask over the vocabulary. Automaton states recur, so
// what a state allows is worked out once and cached; what depends on the text further out (what
// may follow a closing quote) is kept as a small tree of remainders and decided at run time.
// Thread: one owner, the engine thread. The trie must outlive it.
#ifndef BALLAST_TEXT_GRAMMAR_TOKEN_MASKER_H_
#define BALLAST_TEXT_GRAMMAR_TOKEN_MASKER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "text/grammar/frames.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_trie.h"

namespace ballast::grammar {

class TokenMasker {
 public:
  /// `cache_bytes` bounds what is remembered between calls.
  explicit TokenMasker(const TokenTrie& trie, size_t cache_bytes = kDefaultCacheBytes);
  ~TokenMasker();
  TokenMasker(const TokenMasker&) = delete;
  TokenMasker& operator=(const TokenMasker&) = delete;

  static constexpr size_t kDefaultCacheBytes = 8u << 20;

  /// Words of a mask: bit t % 64 of word t / 64 is token t.
  size_t mask_words() const { return (static_cast<size_t>(trie_.vocab_size()) + 63) / 64; }

  /// Overwrites `mask` [mask_words()] with the tokens that `matcher` accepts; end-of-generation
  /// tokens where the text may end. All zero only after the end. `matcher` changes only its
  /// scratch memory. Cost: a few µs where the state was met before, up to some ms the first time.
  void Fill(Matcher* matcher, std::span<uint64_t> mask);

  /// The one token of `mask`, if there is exactly one.
  static std::optional<TokenId> OnlyToken(std::span<const uint64_t> mask);

  /// Works out the states of plain JSON strings and numbers ahead of the first request.
  void Prewarm();

  size_t cached_bytes() const { return cached_bytes_; }
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  struct Entry;
  struct Walker;
  struct Key {
    uint64_t fingerprint;
    int32_t state;
    /// kKey frames keep more; a frame with nothing below it needs no remainders.
    uint8_t kind;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return static_cast<size_t>(k.fingerprint + static_cast<uint64_t>(k.state) * 0x9E3779B97F4Au +
                                 k.kind);
    }
  };
  using Lru = std::list<std::pair<Key, std::unique_ptr<Entry>>>;

  struct Query {
    const Dfa* dfa;
    int32_t state;
    const ObjectTable* object;  ///< kKey only
    bool text, string, last;    ///< kText; kString; nothing follows the frame
  };

  const Entry& Lookup(const Query& query);
  std::unique_ptr<Entry> Compute(const Query& query) const;
  void FillLeaf(Matcher* matcher, const Frame& top, std::span<uint64_t> mask);
  void FillOpenKey(Matcher* matcher, const Frame& top, const AllowedKeys& allowed,
                   std::span<uint64_t> mask);
  void FillByWalk(Matcher* matcher, std::span<const Frame> tops, std::span<uint64_t> mask);

  const TokenTrie& trie_;
  size_t cache_bytes_;
  size_t cached_bytes_ = 0;
  uint64_t hits_ = 0, misses_ = 0;
  Lru lru_;
  std::unordered_map<Key, Lru::iterator, KeyHash> entries_;
  std::unique_ptr<Walker> walker_;
  std::vector<uint64_t> scratch_;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_TOKEN_MASKER_H_
