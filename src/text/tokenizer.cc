// Role: encoding and decoding over the tables of tokenizer_create.cc.
#include "text/tokenizer.h"

#include <utility>

#include "base/check.h"
#include "text/bpe.h"
#include "text/tokenizer_tables.h"
#include "text/unicode.h"

namespace ballast {
namespace {

struct Range {
  size_t begin = 0;
  size_t end = 0;
};

}  // namespace

/// Encodes stretches of text that hold no special token. Owns the scratch of one call.
class Tokenizer::Tables::PlainEncoder {
 public:
  PlainEncoder(const Tables& tables, std::vector<TokenId>* out) : t_(tables), out_(*out) {}

  void Encode(std::string_view text) {
    std::string normalized;
    if (t_.nfc) {
      normalized = NormalizeNfc(text);
      text = normalized;
    }
    if (t_.kind == TokenizerKind::kBpe) {
      EncodeByteLevel(text);
    } else {
      EncodeSentencePiece(text);
    }
  }

 private:
  void EncodeByteLevel(std::string_view text) {
    // The pattern engine wants valid UTF-8; ill-formed sequences are pieces of their own.
    size_t start = 0;
    for (size_t i = 0; i < text.size();) {
      const Utf8Step step = DecodeUtf8(text, i);
      if (!step.valid) {
        EncodePieces(text.substr(start, i - start));
        MergePiece(text.substr(i, step.length));
        start = i + step.length;
      }
      i += step.length;
    }
    EncodePieces(text.substr(start));
  }

  void EncodePieces(std::string_view text) {
    pieces_.clear();
    t_.pre_tokenizer->Split(text, &scratch_, &pieces_);
    for (const std::string_view piece : pieces_) MergePiece(piece);
  }

  void MergePiece(std::string_view piece) {
    if (t_.ignore_merges) {
      const TokenId whole = t_.mergeable.Find(piece);
      if (whole >= 0) {
        out_.push_back(whole);
        return;
      }
    }
    merger_.symbols.clear();
    for (size_t i = 0; i < piece.size(); ++i) {
      TokenId token = t_.byte_tokens[static_cast<uint8_t>(piece[i])];
      if (token < 0) {
        if (!t_.plain_unk) continue;  // as the reference does for a vocabulary without unknown
        token = *t_.plain_unk;
      }
      merger_.symbols.push_back({token, static_cast<uint32_t>(i), 1});
    }
    RunMerges();
  }

  void RunMerges() {
    merger_.Run([this](const BpeSymbol& left, const BpeSymbol& right) -> BpeCandidate {
      const Merge* merge = t_.merges.Find(left.token, right.token);
      if (merge == nullptr) return {};
      return {merge->rank, merge->token};
    });
    for (const BpeSymbol& symbol : merger_.symbols) out_.push_back(symbol.token);
  }

  void EncodeSentencePiece(std::string_view text) {
    std::string prefixed;
    if (t_.add_space_prefix) {
      prefixed = " ";
      prefixed += text;
      text = prefixed;
    }
    size_t start = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      if (text[i] != ' ' || text[i - 1] == ' ') continue;
      if (t_.joins_space[static_cast<uint8_t>(text[i - 1])]) continue;
      MergeWord(text.substr(start, i - start));
      start = i;
    }
    MergeWord(text.substr(start));
  }

  void MergeWord(std::string_view word) {
    merger_.symbols.clear();
    for (size_t i = 0; i < word.size();) {
      const Utf8Step step = DecodeUtf8(word, i);
      AddCharacter(word, i, step.length);
      i += step.length;
    }
    if (t_.has_merges) {
      RunMerges();
      return;
    }
    merger_.Run([this, word](const BpeSymbol& left, const BpeSymbol& right) -> BpeCandidate {
      if (!Mergeable(left.token) || !Mergeable(right.token)) return {};
      const TokenId token = t_.mergeable.Find(word.substr(left.offset, left.size + right.size));
      if (token < 0) return {};
      // Of the ways to make one token the longest left side goes first, then the leftmost place.
      const uint64_t rank = t_.ranks[static_cast<size_t>(token)];
      return {(rank << 32) | (UINT32_MAX - left.size), token};
    });
    for (const BpeSymbol& symbol : merger_.symbols) out_.push_back(symbol.token);
  }

  void AddCharacter(std::string_view word, size_t offset, uint32_t length) {
    const TokenId token = t_.mergeable.Find(word.substr(offset, length));
    if (token >= 0) {
      merger_.symbols.push_back({token, static_cast<uint32_t>(offset), length});
      return;
    }
    bool complete = true;
    for (size_t i = 0; i < length; ++i) {
      complete = complete && t_.byte_tokens[static_cast<uint8_t>(word[offset + i])] >= 0;
    }
    if (complete) {
      for (uint32_t i = 0; i < length; ++i) {
        merger_.symbols.push_back({t_.byte_tokens[static_cast<uint8_t>(word[offset + i])],
                                   static_cast<uint32_t>(offset + i), 1});
      }
      return;
    }
    if (!t_.plain_unk) return;
    // Neighbouring unknown characters fuse into one token.
    auto& symbols = merger_.symbols;
    if (!symbols.empty() && symbols.back().token == *t_.plain_unk) {
      symbols.back().size += length;
    } else {
      symbols.push_back({*t_.plain_unk, static_cast<uint32_t>(offset), length});
    }
  }

  bool Mergeable(TokenId token) const { return t_.TypeOf(token) == TokenType::kNormal; }

  const Tables& t_;
  std::vector<TokenId>& out_;
  PreTokenizer::Scratch scratch_;
  std::vector<std::string_view> pieces_;
  BpeMerger merger_;
};

namespace {

/// Cuts `text` at special tokens. Control tokens count only inside one of `trusted` (ascending,
/// disjoint). Calls plain(text) and special(token) in order.
template <class Plain, class Special, class Guarded>
void CutAtSpecials(std::string_view text, std::span<const Range> trusted,
                   const SpecialMatcher& matcher, const Guarded& guarded, const Plain& plain,
                   const Special& special) {
  size_t start = 0;
  size_t range = 0;
  for (size_t i = 0; i < text.size();) {
    while (range < trusted.size() && trusted[range].end <= i) ++range;
    const bool inside = range < trusted.size() && trusted[range].begin <= i;
    size_t length = 0;
    TokenId found = -1;
    matcher.MatchAt(text, i, [&](TokenId token, uint32_t size) {
      if (guarded(token) && (!inside || i + size > trusted[range].end)) return false;
      found = token;
      length = size;
      return true;
    });
    if (found < 0) {
      ++i;
      continue;
    }
    if (i > start) plain(text.substr(start, i - start));
    special(found);
    i += length;
    start = i;
  }
  if (start < text.size()) plain(text.substr(start));
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::Encode(std::string_view user_text) const {
  const TextSpan span{std::string(user_text), false};
  return EncodeSpans({&span, 1});
}

std::vector<TokenId> Tokenizer::EncodeSpans(std::span<const TextSpan> spans) const {
  std::string text;
  std::vector<Range> trusted;
  for (const TextSpan& span : spans) {
    const size_t begin = text.size();
    if (tables_->kind == TokenizerKind::kSentencePiece) {
      // A U+2581 of the text is the same as a space to SentencePiece, also for special tokens.
      std::string spaced = span.text;
      UndoMetaspace(&spaced);
      text += spaced;
    } else {
      text += span.text;
    }
    if (!span.trusted || text.size() == begin) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 4);
  Tables::PlainEncoder encoder(*tables_, &out);
  CutAtSpecials(
      text, trusted, tables_->specials, [this](TokenId token) { return tables_->Guarded(token); },
      [&](std::string_view plain) { encoder.Encode(plain); },
      [&](TokenId token) { out.push_back(token); });
  return out;
}

std::string Tokenizer::Decode(std::span<const TokenId> tokens, SkipSpecial skip) const {
  std::string bytes;
  bool at_start = true;
  for (const TokenId token : tokens) {
    if (!tables_->InRange(token)) continue;
    if (skip == SkipSpecial::kYes && tables_->Guarded(token)) continue;
    std::string_view piece = tables_->bytes[static_cast<size_t>(token)];
    if (at_start && tables_->add_space_prefix && piece.starts_with(' ')) piece.remove_prefix(1);
    at_start = false;
    bytes += piece;
  }
  return ReplaceInvalidUtf8(bytes);
}

const std::string& Tokenizer::TokenBytes(TokenId token) const {
  static const std::string kEmpty;
  return tables_->InRange(token) ? tables_->bytes[static_cast<size_t>(token)] : kEmpty;
}

bool Tokenizer::IsSpecial(TokenId token) const {
  return tables_->InRange(token) &&
         (tables_->Guarded(token) || tables_->TypeOf(token) == TokenType::kUserDefined);
}
bool Tokenizer::IsControl(TokenId token) const {
  return tables_->InRange(token) && tables_->Guarded(token);
}
bool Tokenizer::IsEndOfGeneration(TokenId token) const {
  return tables_->InRange(token) && tables_->ends[static_cast<size_t>(token)] != 0;
}
TokenType Tokenizer::type(TokenId token) const {
  return tables_->InRange(token) ? tables_->TypeOf(token) : TokenType::kUndefined;
}
int Tokenizer::vocab_size() const { return static_cast<int>(tables_->bytes.size()); }
TokenizerKind Tokenizer::kind() const { return tables_->kind; }
std::optional<TokenId> Tokenizer::bos() const { return tables_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return tables_->eos; }
std::optional<TokenId> Tokenizer::eot() const { return tables_->eot; }
std::optional<TokenId> Tokenizer::unk() const { return tables_->unk; }
std::optional<TokenId> Tokenizer::pad() const { return tables_->pad; }
bool Tokenizer::add_bos() const { return tables_->add_bos; }
bool Tokenizer::add_eos() const { return tables_->add_eos; }
bool Tokenizer::add_space_prefix() const { return tables_->add_space_prefix; }
std::optional<TokenId> Tokenizer::Find(std::string_view token) const {
  TokenId id = tables_->specials.Find(token);
  if (id < 0) id = tables_->mergeable.Find(token);
  if (id < 0) return std::nullopt;
  return id;
}
const std::string& Tokenizer::chat_template() const { return tables_->chat_template; }

void EnsureBos(const Tokenizer& tokenizer, std::vector<TokenId>* tokens) {
  if (!tokenizer.add_bos() || !tokenizer.bos()) return;
  if (!tokens->empty() && tokens->front() == *tokenizer.bos()) return;
  tokens->insert(tokens->begin(), *tokenizer.bos());
}

void AddSpecial(const Tokenizer& tokenizer, std::vector<TokenId>* tokens) {
  EnsureBos(tokenizer, tokens);
  if (tokenizer.add_eos() && tokenizer.eos()) tokens->push_back(*tokenizer.eos());
}

std::string StreamingDetokenizer::Push(TokenId token) {
  if (skip_ == SkipSpecial::kYes && tokenizer_->IsControl(token)) return {};
  std::string_view piece = tokenizer_->TokenBytes(token);
  if (at_start_ && tokenizer_->add_space_prefix() && piece.starts_with(' ')) {
    piece.remove_prefix(1);
  }
  at_start_ = false;
  pending_ += piece;
  return TakeCompleteUtf8(&pending_);
}

std::string StreamingDetokenizer::Flush() {
  std::string out = ReplaceInvalidUtf8(pending_);
  pending_.clear();
  at_start_ = true;
  return out;
}

}  // namespace ballast
