// Role: where a text stands in a grammar. Cheap to copy (a few hundred bytes to a few KB), so a
// caller that speculates keeps a copy and goes back to it.
// Thread: one owner; the Grammar it reads is shared and immutable.
#ifndef BALLAST_TEXT_GRAMMAR_MATCHER_H_
#define BALLAST_TEXT_GRAMMAR_MATCHER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/grammar/frames.h"
#include "text/grammar/grammar.h"

namespace ballast::grammar {

class TokenTrie;

class Matcher {
 public:
  explicit Matcher(GrammarPtr grammar);

  /// Advances over `bytes`. False: they do not fit, and nothing changed.
  /// Cost: about 50 ns a byte and possible reading (almost always one).
  bool Accept(std::string_view bytes);
  /// Advances over a token. An end-of-generation token fits where IsComplete(); after it nothing
  /// does. A control token fits only where the grammar names it.
  bool AcceptToken(const TokenTrie& trie, TokenId token);

  /// Whether the text may end here.
  bool IsComplete() const { return threads_.complete; }
  /// Whether the text must end here (or has ended): no byte can follow.
  bool IsExhausted() const { return threads_.tops.empty(); }
  /// Whether an end-of-generation token was accepted.
  bool ended() const { return ended_; }

  /// The bytes that must come next whatever the model says, at most `max_bytes` of them. Empty
  /// where the text may end or go on in two ways. Cost: about 10 µs a byte.
  std::string ForcedBytes(size_t max_bytes) const;

  const GrammarPtr& grammar() const { return grammar_; }

 private:
  friend class TokenMasker;
  void Compact();

  GrammarPtr grammar_;
  Pool pool_;
  Threads threads_;
  size_t compact_at_ = 64;
  bool ended_ = false;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_MATCHER_H_
