// Role: what a Tokenizer knows after Create; shared by the files that build, encode and decode.
// Private to src/text. Thread: immutable after Create.
#ifndef BALLAST_TEXT_TOKENIZER_TABLES_H_
#define BALLAST_TEXT_TOKENIZER_TABLES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/special_matcher.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace ballast {

struct Tokenizer::Tables {
  TokenizerKind kind = TokenizerKind::kBpe;
  std::vector<std::string> bytes;  ///< [vocab] raw bytes; every view in the maps points here.
  std::vector<uint8_t> types;      ///< [vocab] TokenType after promotions.
  std::vector<uint8_t> ends;       ///< [vocab] 1 where generation stops.
  TokenMap mergeable;              ///< Tokens that plain text can produce, by raw bytes.
  MergeMap merges;                 ///< Used if has_merges.
  bool has_merges = false;
  std::vector<uint32_t> ranks;             ///< SentencePiece without merges: lower merges first.
  std::array<TokenId, 256> byte_tokens{};  ///< -1 where the vocabulary has none.
  SpecialMatcher specials;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  ///< BPE only.
  bool ignore_merges = false;
  bool nfc = false;
  bool add_space_prefix = false;
  /// SentencePiece, by byte: some token holds a space right after this (other) byte. Elsewhere no
  /// merge can cross from a word into the spaces behind it, so that each word is merged alone:
  /// the same result, much faster. Gemma has one such token in 262,144.
  std::array<bool, 256> joins_space{};
  std::optional<TokenId> bos, eos, eot, unk, pad;
  std::optional<TokenId> plain_unk;  ///< What unknown text becomes; never a control token.
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;

  bool InRange(TokenId token) const {
    return token >= 0 && static_cast<size_t>(token) < bytes.size();
  }
  TokenType TypeOf(TokenId token) const {
    return static_cast<TokenType>(types[static_cast<size_t>(token)]);
  }
  /// Control, or the unknown token: never from user text, left out by SkipSpecial::kYes.
  bool Guarded(TokenId token) const {
    return TypeOf(token) == TokenType::kControl || TypeOf(token) == TokenType::kUnknown;
  }

  class PlainEncoder;
};

/// GPT-2's printable stand-ins for bytes, undone in place. Returns false (and leaves `text`) if it
/// holds a character outside that alphabet.
bool UndoByteAlphabet(std::string* text);

/// SentencePiece writes a space as U+2581; turns those back, in place.
void UndoMetaspace(std::string* text);

/// The value of "<0x0A>", or -1.
int ParseByteToken(std::string_view text);

}  // namespace ballast

#endif  // BALLAST_TEXT_TOKENIZER_TABLES_H_
