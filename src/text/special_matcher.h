// Role: finds special tokens (control and user-defined) in a prompt, leftmost and longest first.
// Thread: immutable after Build.
#ifndef BALLAST_TEXT_SPECIAL_MATCHER_H_
#define BALLAST_TEXT_SPECIAL_MATCHER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_map.h"

namespace ballast {

class SpecialMatcher {
 public:
  /// `texts` [vocab] must stay alive and unchanged. Empty texts are skipped; of equal texts the
  /// first wins.
  void Build(const std::vector<std::string>* texts, std::span<const TokenId> tokens) {
    map_.Reserve(texts, tokens.size());
    for (const TokenId token : tokens) {
      const std::string& text = (*texts)[static_cast<size_t>(token)];
      if (text.empty() || !map_.Insert(token)) continue;
      auto& lengths = lengths_[static_cast<uint8_t>(text[0])];
      const auto length = static_cast<uint32_t>(text.size());
      if (std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
        lengths.push_back(length);
      }
    }
    for (auto& lengths : lengths_) std::sort(lengths.rbegin(), lengths.rend());
  }

  /// The id of a special token by its text, or -1.
  TokenId Find(std::string_view text) const { return map_.Find(text); }

  /// Calls accept(token, length) for the tokens that start at `offset`, longest first, until it
  /// returns true. Returns whether it did.
  template <class Accept>
  bool MatchAt(std::string_view text, size_t offset, Accept accept) const {
    for (const uint32_t length : lengths_[static_cast<uint8_t>(text[offset])]) {
      if (length > text.size() - offset) continue;
      const TokenId token = map_.Find(text.substr(offset, length));
      if (token >= 0 && accept(token, length)) return true;
    }
    return false;
  }

 private:
  TokenMap map_;
  // By first byte: the distinct lengths, longest first. A vocabulary has few of them.
  std::array<std::vector<uint32_t>, 256> lengths_;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_SPECIAL_MATCHER_H_
