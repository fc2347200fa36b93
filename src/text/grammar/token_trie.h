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
#include "text/tokenizer.h"

namespace ballast::grammar {

class TokenTrie {
 public:
  /// A token and its bytes; tokens without bytes can never be generated.
  using Entry = std::pair<std::string, TokenId>;

  /// Cost: about 20 ms for 50,000 tokens.
  static TokenTrie FromTokenizer(const Tokenizer& tokenizer);
  /// `ends` are the tokens that end a text, whatever their bytes.
  TokenTrie(std::vector<Entry> entries, std::vector<TokenId> ends, int vocab_size);

  /// In depth-first order; node 0 is the root. A node's subtree is [node, end).
  struct Node {
    uint32_t end;
    uint32_t tokens;  ///< index of the first token that ends here; the next node's bounds them
    uint16_t depth;
    uint8_t byte;
  };

  int vocab_size() const { return vocab_size_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Tokens in depth-first order of their node.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint32_t tokens_end(size_t node) const {
    return node + 1 < nodes_.size() ? nodes_[node + 1].tokens
                                    : static_cast<uint32_t>(tokens_.size());
  }
  int max_depth() const { return max_depth_; }

  /// Empty for ends, for tokens without bytes and for ids out of range.
  std::string_view Bytes(TokenId token) const;
  bool IsEnd(TokenId token) const;
  const std::vector<TokenId>& ends() const { return ends_; }
  size_t bytes() const;

 private:
  void Build(const std::vector<Entry>& entries);

  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<TokenId> ends_;
  std::string text_;                  ///< all tokens' bytes, joined
  std::vector<uint32_t> text_begin_;  ///< [vocab + 1]
  int vocab_size_ = 0;
  int max_depth_ = 0;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_TOKEN_TRIE_H_
