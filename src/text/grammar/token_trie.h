// Role: a vocabulary as a tree of bytes, so that tokens that begin alike are judged together.
// Control tokens are spelled by SpecialTokenBytes(), which no text can contain.
// Thread: immutable; shared by all threads.
#ifndef BALLAST_TEXT_GRAMMAR_TOKEN_TRIE_H_
#define BALLAST_TEXT_GRAMMAR_TOKEN_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/grammar/byte_tree.h"
#include "text/tokenizer.h"

namespace ballast::grammar {

class TokenTrie {
 public:
  /// A token and its bytes. Tokens without bytes, or with more than kMaxTokenBytes, can never be
  /// generated under a grammar.
  using Entry = std::pair<std::string, TokenId>;
  static constexpr size_t kMaxTokenBytes = 254;

  /// Cost: about 20 ms for 50,000 tokens.
  static TokenTrie FromTokenizer(const Tokenizer& tokenizer);
  /// `ends` are the tokens that end a text, whatever their bytes.
  TokenTrie(std::vector<Entry> entries, std::vector<TokenId> ends, int vocab_size);

  int vocab_size() const { return vocab_size_; }
  const ByteTree& tree() const { return tree_; }
  /// The token of each item of the tree.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int max_depth() const { return tree_.max_depth(); }

  /// Empty for ends, for tokens that can never be generated and for ids out of range.
  std::string_view Bytes(TokenId token) const;
  bool IsEnd(TokenId token) const;
  const std::vector<TokenId>& ends() const { return ends_; }
  size_t bytes() const;

 private:
  ByteTree tree_;
  std::vector<TokenId> tokens_;
  std::vector<TokenId> ends_;
  std::string text_;                  ///< all tokens' bytes, joined
  std::vector<uint32_t> text_begin_;  ///< [vocab + 1]
  int vocab_size_ = 0;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_TOKEN_TRIE_H_
