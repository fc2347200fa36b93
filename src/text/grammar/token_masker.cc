#include "text/grammar/token_masker.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>

#include "text/grammar/nodes.h"
#include "text/grammar/number.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ballast::grammar {
namespace {

void SetBit(std::span<uint64_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

bool TestBit(std::span<const uint64_t> mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1) != 0;
}

/// mask |= counts[t] <= room for each token t. `counts` is padded to whole words.
void OrCountsUpTo(const std::vector<uint8_t>& counts, uint8_t room, std::span<uint64_t> mask) {
  for (size_t w = 0; w < mask.size(); ++w) {
    uint64_t bits = 0;
#if defined(__SSE2__)
    const __m128i limit = _mm_set1_epi8(static_cast<char>(room));
    for (size_t part = 0; part < 4; ++part) {
      const auto* at = reinterpret_cast<const __m128i*>(counts.data() + w * 64 + part * 16);
      const __m128i c = _mm_loadu_si128(at);
      const __m128i fits = _mm_cmpeq_epi8(_mm_min_epu8(c, limit), c);
      bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(fits))) << (part * 16);
    }
#else
    for (size_t i = 0; i < 64; ++i) {
      bits |= static_cast<uint64_t>(counts[w * 64 + i] <= room) << i;
    }
#endif
    mask[w] |= bits;
  }
}

constexpr uint8_t kRefused = 255;  // above every count: tokens have at most 254 bytes

}  // namespace

/// Tokens that leave the frame with one label, sorted by what is left of them.
struct Closer {
  int32_t label = 0;
  ByteTree tree;
  std::vector<TokenId> tokens;  ///< of each item
  std::vector<uint8_t> counts;  ///< of each item: characters before the frame's end
};

/// What one state of one automaton allows.
struct TokenMasker::Entry {
  std::vector<uint64_t> bits;   ///< tokens that stay inside, or
  std::vector<TokenId> ids;     ///< the same as a list, where they are few
  std::vector<uint8_t> counts;  ///< kString: characters of each token that stays, else kRefused
  std::vector<Closer> closers;
  std::vector<std::pair<TokenId, int32_t>> narrow;  ///< kKey: inside, but only for named keys
  std::vector<TokenId> closing;                     ///< kKey: they end a name that may be a repeat
  size_t bytes = 0;
};

/// A walk of the whole automaton over a tree. Keeps its memory between calls.
struct TokenMasker::Walker {
  std::vector<Threads> levels;
  std::vector<std::pair<size_t, size_t>> sizes;

  /// Calls emit(first, end) for the items of each node whose bytes `tops` accept.
  template <class Emit>
  void Run(const ByteTree& tree, std::span<const Frame> tops, Stepper* stepper, Pool* pool,
           Emit emit) {
    const auto& nodes = tree.nodes();
    levels.resize(std::max(levels.size(), static_cast<size_t>(tree.max_depth()) + 1));
    sizes.resize(levels.size());
    levels[0].tops.assign(tops.begin(), tops.end());
    sizes[0] = {pool->frames.size(), pool->names.size()};
    for (size_t n = 1; n < nodes.size();) {
      const ByteTree::Node& node = nodes[n];
      const size_t depth = node.depth;
      pool->frames.resize(sizes[depth - 1].first);
      pool->names.resize(sizes[depth - 1].second);
      Threads& now = levels[depth];
      now.Clear();
      for (const Frame& top : levels[depth - 1].tops) stepper->Step(top, node.byte, &now);
      sizes[depth] = {pool->frames.size(), pool->names.size()};
      if (now.alive()) emit(node.first_item, tree.items_end(n));
      n = now.tops.empty() ? node.end : n + 1;
    }
    pool->frames.resize(sizes[0].first);
    pool->names.resize(sizes[0].second);
  }
};

TokenMasker::TokenMasker(const TokenTrie& trie, size_t cache_bytes)
    : trie_(trie), cache_bytes_(cache_bytes), walker_(std::make_unique<Walker>()) {}
TokenMasker::~TokenMasker() = default;

namespace {

/// Follows one automaton through the trie and sorts tokens into: inside, leaving, refused.
class LeafScan {
 public:
  struct Leaving {
    int32_t label;
    std::string_view rest;
    TokenId token;
    uint8_t count;
  };
  std::vector<TokenId> inside;
  std::vector<int32_t> inside_state;
  std::vector<uint8_t> inside_count;
  std::vector<Leaving> leaving;
  std::vector<TokenId> closing;

  LeafScan(const TokenTrie& trie, const Dfa& dfa, const ObjectTable* object, int32_t body,
           bool text, bool last)
      : trie_(trie), dfa_(dfa), object_(object), body_(body), text_(text), last_(last) {
    path_.resize(static_cast<size_t>(trie.max_depth()) + 1);
  }

  void Run(int32_t start) {
    path_[0] = {start, 0, 0, false};
    const auto& nodes = trie_.tree().nodes();
    for (size_t n = 1; n < nodes.size();) {
      const ByteTree::Node& node = nodes[n];
      const Place& from = path_[static_cast<size_t>(node.depth) - 1];
      Place& at = path_[node.depth];
      at = from;
      at.state = from.state == kNoState ? kNoState : dfa_.Next(from.state, node.byte);
      // A character is counted where it begins, as the matcher does.
      if (from.state == body_ && node.byte != '"') ++at.count;
      if (object_ != nullptr && at.state != kNoState) NoteClosing(from, &at);
      bool exit_here = false;
      if (at.state != kNoState) {
        const int32_t label = dfa_.label[static_cast<size_t>(at.state)];
        exit_here = label != kNoLabel && !(text_ && label == 0) && !last_;
        if (exit_here) exits_.resize(at.exits), exits_.push_back({node.depth, at.count, label});
      }
      if (exit_here) ++at.exits;
      if (at.state == kNoState && at.exits == 0) {
        n = node.end;
        continue;
      }
      exits_.resize(at.exits);
      for (uint32_t i = node.first_item; i < trie_.tree().items_end(n); ++i) {
        Judge(trie_.tokens()[i], at);
      }
      ++n;
    }
  }

 private:
  struct Place {
    int32_t state = kNoState;
    uint8_t count = 0;
    uint32_t exits = 0;  ///< accepting places on the way here
    bool closing = false;
  };
  struct Exit {
    uint16_t depth;
    uint8_t count;
    int32_t label;
  };

  void NoteClosing(const Place& from, Place* at) const {
    const KeyState& to = object_->states[static_cast<size_t>(at->state)];
    at->closing = from.closing || (to.closing && to.open &&
                                   object_->states[static_cast<size_t>(from.state)].endless);
  }

  void Judge(TokenId token, const Place& at) {
    const bool stays =
        at.state != kNoState && (dfa_.HasEdges(at.state) ||
                                 (last_ && dfa_.label[static_cast<size_t>(at.state)] != kNoLabel));
    if (at.closing) closing.push_back(token);
    if (stays) {
      inside.push_back(token);
      inside_state.push_back(at.state);
      inside_count.push_back(at.count);
      return;
    }
    const std::string_view bytes = trie_.Bytes(token);
    for (const Exit& exit : exits_) {
      leaving.push_back({exit.label, bytes.substr(exit.depth), token, exit.count});
    }
  }

  const TokenTrie& trie_;
  const Dfa& dfa_;
  const ObjectTable* object_;
  int32_t body_;
  bool text_, last_;
  std::vector<Place> path_;
  std::vector<Exit> exits_;
};

std::vector<Closer> MakeClosers(std::vector<LeafScan::Leaving> leaving) {
  std::sort(leaving.begin(), leaving.end(), [](const auto& a, const auto& b) {
    return std::tie(a.label, a.rest, a.token) < std::tie(b.label, b.rest, b.token);
  });
  std::vector<Closer> out;
  std::vector<std::string_view> rests;
  for (size_t i = 0; i < leaving.size(); ++i) {
    if (i == 0 || leaving[i].label != leaving[i - 1].label) {
      out.emplace_back();
      out.back().label = leaving[i].label;
      rests.clear();
    }
    rests.push_back(leaving[i].rest);
    out.back().tokens.push_back(leaving[i].token);
    out.back().counts.push_back(leaving[i].count);
    if (i + 1 == leaving.size() || leaving[i + 1].label != leaving[i].label) {
      out.back().tree.Build(rests);
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<TokenMasker::Entry> TokenMasker::Compute(const Query& query) const {
  const int32_t body = query.string ? JsonStringBody() : kNoState - 1;
  LeafScan scan(trie_, *query.dfa, query.object, body, query.text, query.last);
  scan.Run(query.state);
  auto entry = std::make_unique<Entry>();
  const size_t words = mask_words();
  std::vector<TokenId> inside;
  if (query.object != nullptr) {
    for (size_t i = 0; i < scan.inside.size(); ++i) {
      const int32_t state = scan.inside_state[i];
      if (query.object->states[static_cast<size_t>(state)].open) {
        inside.push_back(scan.inside[i]);
      } else {
        entry->narrow.emplace_back(scan.inside[i], state);
      }
    }
    entry->closing = std::move(scan.closing);
  } else {
    inside = std::move(scan.inside);
  }
  if (query.string) {
    entry->counts.assign(words * 64, kRefused);
    for (size_t i = 0; i < inside.size(); ++i) {
      entry->counts[static_cast<size_t>(inside[i])] = scan.inside_count[i];
    }
  }
  if (inside.size() * sizeof(TokenId) * 2 < words * sizeof(uint64_t)) {
    entry->ids = std::move(inside);
  } else {
    entry->bits.assign(words, 0);
    for (const TokenId t : inside) SetBit(entry->bits, t);
  }
  entry->closers = MakeClosers(std::move(scan.leaving));
  entry->bytes = sizeof(Entry) + entry->bits.capacity() * 8 + entry->ids.capacity() * 4 +
                 entry->counts.capacity() + entry->narrow.capacity() * 8 +
                 entry->closing.capacity() * 4;
  for (const Closer& c : entry->closers) {
    entry->bytes += sizeof(Closer) + c.tree.bytes() + c.tokens.capacity() * 4 + c.counts.size();
  }
  return entry;
}

const TokenMasker::Entry& TokenMasker::Lookup(const Query& query) {
  Key key{query.dfa->fingerprint, query.state, 0};
  if (query.object != nullptr) {
    key.fingerprint += 0x9E3779B97F4A7C15u * (query.object->names.size() + 1);
    key.kind = 1;
  } else {
    key.kind = static_cast<uint8_t>(2 + (query.text ? 1 : 0) + (query.string ? 2 : 0) +
                                    (query.last ? 4 : 0));
  }
  if (const auto it = entries_.find(key); it != entries_.end()) {
    ++hits_;
    lru_.splice(lru_.begin(), lru_, it->second);
    return *it->second->second;
  }
  ++misses_;
  lru_.emplace_front(key, Compute(query));
  entries_[key] = lru_.begin();
  cached_bytes_ += lru_.front().second->bytes;
  while (cached_bytes_ > cache_bytes_ && lru_.size() > 1) {
    cached_bytes_ -= lru_.back().second->bytes;
    entries_.erase(lru_.back().first);
    lru_.pop_back();
  }
  return *lru_.front().second;
}

void TokenMasker::FillByWalk(Matcher* matcher, std::span<const Frame> tops,
                             std::span<uint64_t> mask) {
  Stepper stepper(matcher->grammar_->data(), &matcher->pool_);
  walker_->Run(trie_.tree(), tops, &stepper, &matcher->pool_, [&](uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i) SetBit(mask, trie_.tokens()[i]);
  });
}

namespace {

/// Runs `fits(item)` for the tokens of `closer` whose remainder `after` accepts.
template <class Walk, class Emit>
void EachCloser(const Closer& closer, const Threads& after, Walk walk, Emit emit) {
  if (!after.alive()) return;
  emit(0, closer.tree.items_end(0));  // nothing is left of these
  if (!after.tops.empty()) walk(closer.tree, after.tops, emit);
}

}  // namespace

void TokenMasker::FillLeaf(Matcher* matcher, const Frame& top, std::span<uint64_t> mask) {
  const GrammarData& data = matcher->grammar_->data();
  Pool& pool = matcher->pool_;
  Stepper stepper(data, &pool);
  if (top.kind == FrameKind::kKey) {
    const AllowedKeys allowed = stepper.Allowed(pool.frames[static_cast<size_t>(top.parent)]);
    const ObjectTable& table = data.object(data.node(top.node));
    if (allowed.others && table.states[static_cast<size_t>(top.state)].open) {
      FillOpenKey(matcher, top, allowed, mask);
    } else {
      FillByWalk(matcher, {&top, 1}, mask);  // few tokens begin a known name
    }
    return;
  }
  const bool string = top.kind == FrameKind::kString;
  const Entry& entry =
      Lookup({&stepper.Automaton(top), top.state, nullptr, top.kind == FrameKind::kText, string,
              !string && top.parent == kNoFrame});
  int64_t need = 0, room = kRefused;
  if (string) {
    const Node& n = data.node(top.node);
    need = n.min - top.count;
    if (n.max >= 0) room = n.max - top.count;
  }
  const bool tight = room < trie_.max_depth();
  if (tight) {
    OrCountsUpTo(entry.counts, static_cast<uint8_t>(room), mask);
  } else if (!entry.bits.empty()) {
    for (size_t w = 0; w < mask.size(); ++w) mask[w] |= entry.bits[w];
  } else {
    for (const TokenId t : entry.ids) SetBit(mask, t);
  }
  const std::pair<size_t, size_t> sizes{pool.frames.size(), pool.names.size()};
  for (const Closer& closer : entry.closers) {
    Threads after;
    stepper.Done(top.parent, closer.label, &after);
    const auto emit = [&](uint32_t first, uint32_t end) {
      for (uint32_t i = first; i < end; ++i) {
        const int64_t count = closer.counts[i];
        if (count >= need && count <= room) SetBit(mask, closer.tokens[i]);
      }
    };
    EachCloser(
        closer, after,
        [&](const ByteTree& tree, const std::vector<Frame>& tops, const auto& each) {
          walker_->Run(tree, tops, &stepper, &pool, each);
        },
        emit);
    pool.frames.resize(sizes.first);
    pool.names.resize(sizes.second);
  }
}

/// A name that may be any name. What ends it is judged by the object; where names were seen, each
/// token that would end this one is checked against them.
void TokenMasker::FillOpenKey(Matcher* matcher, const Frame& top, const AllowedKeys& allowed,
                              std::span<uint64_t> mask) {
  const GrammarData& data = matcher->grammar_->data();
  const ObjectTable& table = data.object(data.node(top.node));
  Pool& pool = matcher->pool_;
  Stepper stepper(data, &pool);
  const Entry& entry = Lookup({&table.keys, top.state, &table, false, false, false});
  const bool repeats = pool.frames[static_cast<size_t>(top.parent)].names != kNoFrame;
  scratch_.assign(mask.size(), 0);
  if (!entry.bits.empty()) std::copy(entry.bits.begin(), entry.bits.end(), scratch_.begin());
  for (const TokenId t : entry.ids) SetBit(scratch_, t);
  for (const auto& [token, state] : entry.narrow) {
    const Bits& within = table.states[static_cast<size_t>(state)].properties;
    if (within.And(allowed.properties).Any()) SetBit(scratch_, token);
  }
  const std::pair<size_t, size_t> sizes{pool.frames.size(), pool.names.size()};
  for (const Closer& closer : entry.closers) {
    const auto label = static_cast<size_t>(closer.label);
    if (label < table.names.size() && !allowed.properties.Test(label)) continue;
    Threads after;
    stepper.KeyDone(top.parent, closer.label, 0, &after);
    EachCloser(
        closer, after,
        [&](const ByteTree& tree, const std::vector<Frame>& tops, const auto& each) {
          walker_->Run(tree, tops, &stepper, &pool, each);
        },
        [&](uint32_t first, uint32_t end) {
          for (uint32_t i = first; i < end; ++i) SetBit(scratch_, closer.tokens[i]);
        });
    pool.frames.resize(sizes.first);
    pool.names.resize(sizes.second);
  }
  if (repeats) {
    Threads now, next;
    for (const TokenId token : entry.closing) {
      if (!TestBit(scratch_, token)) continue;
      now.Clear();
      now.tops.push_back(top);
      for (const char c : trie_.Bytes(token)) {
        next.Clear();
        for (const Frame& f : now.tops) stepper.Step(f, static_cast<uint8_t>(c), &next);
        std::swap(now, next);
      }
      if (!now.alive()) {
        scratch_[static_cast<size_t>(token) / 64] &=
            ~(uint64_t{1} << (static_cast<size_t>(token) % 64));
      }
      pool.frames.resize(sizes.first);
      pool.names.resize(sizes.second);
    }
  }
  for (size_t w = 0; w < mask.size(); ++w) mask[w] |= scratch_[w];
}

void TokenMasker::Fill(Matcher* matcher, std::span<uint64_t> mask) {
  std::fill(mask.begin(), mask.end(), 0);
  if (matcher->ended_) return;
  if (matcher->threads_.complete) {
    for (const TokenId t : trie_.ends()) SetBit(mask, t);
  }
  std::vector<Frame> others;
  for (const Frame& top : matcher->threads_.tops) {
    if (top.kind == FrameKind::kArray || top.kind == FrameKind::kObject) {
      others.push_back(top);
    } else {
      FillLeaf(matcher, top, mask);
    }
  }
  if (!others.empty()) FillByWalk(matcher, others, mask);
}

std::optional<TokenId> TokenMasker::OnlyToken(std::span<const uint64_t> mask) {
  std::optional<TokenId> found;
  for (size_t w = 0; w < mask.size(); ++w) {
    if (mask[w] == 0) continue;
    if (found || std::popcount(mask[w]) != 1) return std::nullopt;
    found = static_cast<TokenId>(w * 64 + static_cast<size_t>(std::countr_zero(mask[w])));
  }
  return found;
}

void TokenMasker::Prewarm() {
  for (const int32_t state : {0, JsonStringBody()}) {
    Lookup({&JsonStringDfa(), state, nullptr, false, true, false});
  }
}

}  // namespace ballast::grammar
