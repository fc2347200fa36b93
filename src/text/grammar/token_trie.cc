#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/grammar/grammar.h"

namespace ballast::grammar {

void ByteTree::Build(const std::vector<std::string_view>& sorted) {
  nodes_.assign(1, Node{});
  max_depth_ = 0;
  std::vector<uint32_t> path{0};  // the node at each depth of the current string
  std::string_view previous;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (size_t item = 0; item < sorted.size(); ++item) {
    const std::string_view bytes = sorted[item];
    const auto common = static_cast<size_t>(
        std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end()).first -
        bytes.begin());
    close(common);
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(item), static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(bytes[i])});
    }
    max_depth_ = std::max(max_depth_, static_cast<int>(bytes.size()));
    previous = bytes;
  }
  close(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.shrink_to_fit();
  num_items_ = static_cast<uint32_t>(sorted.size());
}

TokenTrie TokenTrie::FromTokenizer(const Tokenizer& tokenizer) {
  std::vector<Entry> entries;
  std::vector<TokenId> ends;
  for (TokenId t = 0; t < tokenizer.vocab_size(); ++t) {
    if (tokenizer.IsEndOfGeneration(t)) {
      ends.push_back(t);
    } else if (tokenizer.IsControl(t)) {
      entries.emplace_back(SpecialTokenBytes(t), t);
    } else if (tokenizer.type(t) != TokenType::kUnused &&
               tokenizer.type(t) != TokenType::kUnknown) {
      entries.emplace_back(tokenizer.TokenBytes(t), t);
    }
  }
  return TokenTrie(std::move(entries), std::move(ends), tokenizer.vocab_size());
}

TokenTrie::TokenTrie(std::vector<Entry> entries, std::vector<TokenId> ends, int vocab_size)
    : ends_(std::move(ends)), vocab_size_(vocab_size) {
  std::sort(ends_.begin(), ends_.end());
  std::erase_if(entries, [&](const Entry& e) {
    return e.first.empty() || e.first.size() > kMaxTokenBytes || e.second < 0 ||
           e.second >= vocab_size || IsEnd(e.second);
  });
  std::sort(entries.begin(), entries.end());
  std::vector<const std::string*> of(static_cast<size_t>(vocab_size), nullptr);
  std::vector<std::string_view> sorted;
  for (const Entry& e : entries) {
    of[static_cast<size_t>(e.second)] = &e.first;
    sorted.push_back(e.first);
    tokens_.push_back(e.second);
  }
  for (const std::string* bytes : of) {
    text_begin_.push_back(static_cast<uint32_t>(text_.size()));
    if (bytes != nullptr) text_ += *bytes;
  }
  text_begin_.push_back(static_cast<uint32_t>(text_.size()));
  tree_.Build(sorted);
}

std::string_view TokenTrie::Bytes(TokenId token) const {
  if (token < 0 || token >= vocab_size_) return {};
  const auto t = static_cast<size_t>(token);
  return std::string_view(text_).substr(text_begin_[t], text_begin_[t + 1] - text_begin_[t]);
}

bool TokenTrie::IsEnd(TokenId token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

size_t TokenTrie::bytes() const {
  return tree_.bytes() + tokens_.capacity() * sizeof(TokenId) + text_.capacity() +
         text_begin_.capacity() * sizeof(uint32_t);
}

}  // namespace ballast::grammar
