// Role: Tokenizer::Create: checks a TokenizerSpec and builds the lookup tables.
// Time matters here: it is on the path of every start, so each token is touched a few times only.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "text/tokenizer_tables.h"
#include "text/unicode.h"

namespace ballast {
namespace {

constexpr size_t kMaxVocab = size_t{1} << 22;
constexpr size_t kMaxMerges = size_t{1} << 23;
constexpr size_t kMaxTokenBytes = 16 * 1024;
constexpr size_t kMaxTemplateBytes = 1024 * 1024;

// Ends of a turn or of the text, in the vocabularies of the model families that we know. "</s>" is
// not here: Gemma uses it for HTML. It still counts where a file names it as eos.
constexpr std::string_view kEnds[] = {
    "<|im_end|>",      "<|endoftext|>",   "<end_of_turn>",
    "<|eot_id|>",      "<|eom_id|>",      "<|eot|>",
    "<|end_of_text|>", "<|end|>",         "<|return|>",
    "<|call|>",        "<EOT>",           "<|EOT|>",
    "[EOS]",           "[EOT]",           "<turn|>",
    "<|endofturn|>",   "<|end_of_turn|>", "<｜end▁of▁sentence｜>",
};
// Starts of a turn: forging one is as bad as forging an end, so neither may come from user text
// even if a file's types call them user-defined or normal.
constexpr std::string_view kStarts[] = {
    "<|im_start|>",
    "<start_of_turn>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|start|>",
    "<|message|>",
    "<|channel|>",
    "<|turn>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|begin_of_text|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜begin▁of▁sentence｜>",
};

bool Contains(std::span<const std::string_view> list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Status CheckSizes(const TokenizerSpec& spec) {
  const size_t vocab = spec.tokens.size();
  if (vocab == 0 || vocab > kMaxVocab) {
    return InvalidArgument("tokens: {} entries; allowed are 1 to {}", vocab, kMaxVocab);
  }
  if (!spec.types.empty() && spec.types.size() != vocab) {
    return InvalidArgument("token types: {} entries for {} tokens", spec.types.size(), vocab);
  }
  if (!spec.scores.empty() && spec.scores.size() != vocab) {
    return InvalidArgument("token scores: {} entries for {} tokens", spec.scores.size(), vocab);
  }
  if (spec.merges.size() > kMaxMerges) {
    return InvalidArgument("merges: {} entries; the limit is {}", spec.merges.size(), kMaxMerges);
  }
  if (spec.kind == TokenizerKind::kSentencePiece && spec.merges.empty() && spec.scores.empty()) {
    return InvalidArgument("a SentencePiece vocabulary needs scores or merges; it has neither");
  }
  if (spec.chat_template.size() > kMaxTemplateBytes) {
    return InvalidArgument("chat_template: {} bytes; the limit is {}", spec.chat_template.size(),
                           kMaxTemplateBytes);
  }
  const std::pair<std::string_view, std::optional<TokenId>> ids[] = {{"bos", spec.bos},
                                                                     {"eos", spec.eos},
                                                                     {"eot", spec.eot},
                                                                     {"unk", spec.unk},
                                                                     {"pad", spec.pad}};
  for (const auto& [name, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= vocab)) {
      return InvalidArgument("{} token id {} is outside the vocabulary of {}", name, *id, vocab);
    }
  }
  for (size_t i = 0; i < vocab; ++i) {
    if (spec.tokens[i].size() > kMaxTokenBytes) {
      return InvalidArgument("token {} has {} bytes; the limit is {}", i, spec.tokens[i].size(),
                             kMaxTokenBytes);
    }
  }
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const int type = static_cast<int>(spec.types[i]);
    if (type < 0 || type > static_cast<int>(TokenType::kByte)) {
      return InvalidArgument("token {} has type {}; known are 0 to 6", i, type);
    }
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i])) return InvalidArgument("token {} has a score of NaN", i);
  }
  return OkStatus();
}

bool IsSpaceRun(std::string_view text) {
  return text.size() >= 2 && text.find_first_not_of(' ') == std::string_view::npos;
}

/// A monotone map from float to uint32 that puts the greatest score first.
uint32_t DescendingKey(float score) {
  uint32_t bits;
  score += 0.0f;  // -0 and +0 compare equal and must map alike
  std::memcpy(&bits, &score, sizeof bits);
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~bits;
}

}  // namespace

bool UndoByteAlphabet(std::string* text) {
  // Code points 33-126, 161-172 and 174-255 stand for themselves; the other 68 bytes, ascending,
  // for 256, 257, … (the table of the GPT-2 encoder).
  static const auto kByteOf = [] {
    std::array<int16_t, 324> table;
    table.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
                             (byte >= 174 && byte <= 255);
      table[static_cast<size_t>(printable ? byte : next++)] = static_cast<int16_t>(byte);
    }
    return table;
  }();
  std::string& s = *text;
  bool plain = true;
  for (const char c : s) plain = plain && c >= 33 && c <= 126;
  if (plain) return true;
  for (int pass = 0; pass < 2;
       ++pass) {  // first check, then write, so that failure changes nothing
    size_t to = 0;
    for (size_t from = 0; from < s.size();) {
      const auto lead = static_cast<uint8_t>(s[from]);
      size_t code = lead;
      size_t length = 1;
      if (lead >= 0x80) {
        if (lead < 0xC2 || lead > 0xC5 || from + 1 >= s.size()) return false;
        const auto second = static_cast<uint8_t>(s[from + 1]);
        if ((second & 0xC0) != 0x80) return false;
        code = (static_cast<size_t>(lead & 0x1F) << 6) | (second & 0x3F);
        length = 2;
      }
      if (code >= kByteOf.size() || kByteOf[code] < 0) return false;
      if (pass == 1) s[to] = static_cast<char>(kByteOf[code]);
      ++to;
      from += length;
    }
    if (pass == 1) s.resize(to);
  }
  return true;
}

void UndoMetaspace(std::string* text) {
  constexpr std::string_view kMeta = "\xE2\x96\x81";
  size_t from = text->find(kMeta);
  if (from == std::string::npos) return;
  size_t to = from;
  while (from < text->size()) {
    if (std::string_view(*text).substr(from).starts_with(kMeta)) {
      (*text)[to++] = ' ';
      from += kMeta.size();
    } else {
      (*text)[to++] = (*text)[from++];
    }
  }
  text->resize(to);
}

int ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

class TokenizerBuilder {
 public:
  TokenizerBuilder(TokenizerSpec spec, Tokenizer::Tables* tables)
      : spec_(std::move(spec)), t_(*tables) {}

  Status Build() {
    RETURN_IF_ERROR(CheckSizes(spec_));
    CopyScalars();
    SettleTypes();
    RETURN_IF_ERROR(ToRawBytes());
    FillMaps();
    if (spec_.kind == TokenizerKind::kBpe) {
      ASSIGN_OR_RETURN(t_.pre_tokenizer, PreTokenizer::Create(spec_.pre_tokenizer));
    }
    RETURN_IF_ERROR(FillMerges());
    if (t_.kind == TokenizerKind::kSentencePiece) RankByScore();
    return OkStatus();
  }

 private:
  void CopyScalars() {
    t_.kind = spec_.kind;
    t_.bos = spec_.bos;
    t_.eos = spec_.eos;
    t_.eot = spec_.eot;
    t_.unk = spec_.unk;
    t_.pad = spec_.pad;
    t_.add_bos = spec_.add_bos;
    t_.add_eos = spec_.add_eos;
    t_.nfc = spec_.nfc;
    t_.add_space_prefix = spec_.add_space_prefix && spec_.kind == TokenizerKind::kSentencePiece;
    t_.ignore_merges = spec_.ignore_merges || spec_.pre_tokenizer == "llama-bpe" ||
                       spec_.pre_tokenizer == "llama3";
    t_.chat_template = std::move(spec_.chat_template);
    t_.bytes = std::move(spec_.tokens);
  }

  void SetType(TokenId token, TokenType type) {
    t_.types[static_cast<size_t>(token)] = static_cast<uint8_t>(type);
  }

  void SettleTypes() {
    const size_t vocab = t_.bytes.size();
    t_.types.resize(vocab);
    t_.ends.assign(vocab, 0);
    bool harmony = false;
    for (size_t i = 0; i < vocab; ++i) {
      TokenType type = spec_.types.empty() ? TokenType::kNormal : spec_.types[i];
      if (type == TokenType::kUndefined) type = TokenType::kNormal;
      const std::string& text = t_.bytes[i];
      if (text.size() >= 5 && (text[0] == '<' || text[0] == '[')) {
        const bool end = Contains(kEnds, text) && type != TokenType::kUnused;
        if (end) t_.ends[i] = 1;
        if (end || Contains(kStarts, text)) type = TokenType::kControl;
        harmony = harmony || text == "<|return|>";
      }
      t_.types[i] = static_cast<uint8_t>(type);
    }
    if (harmony) {
      // There <|end|> closes a message within a turn that goes on; <|return|> ends the turn.
      for (size_t i = 0; i < vocab; ++i) {
        if (t_.bytes[i] == "<|end|>") t_.ends[i] = 0;
      }
    }
    for (const auto& id : {t_.bos, t_.eos, t_.eot}) {
      if (id && t_.TypeOf(*id) != TokenType::kByte) SetType(*id, TokenType::kControl);
    }
    for (const auto& id : {t_.eos, t_.eot}) {
      if (id) t_.ends[static_cast<size_t>(*id)] = 1;
    }
    if (t_.unk && t_.unk != t_.bos && t_.unk != t_.eos && t_.unk != t_.eot && t_.unk != t_.pad &&
        t_.ends[static_cast<size_t>(*t_.unk)] == 0 && t_.kind == TokenizerKind::kSentencePiece) {
      SetType(*t_.unk, TokenType::kUnknown);
    }
    if (t_.unk && t_.TypeOf(*t_.unk) == TokenType::kUnknown) t_.plain_unk = t_.unk;
  }

  Status ToRawBytes() {
    t_.byte_tokens.fill(-1);
    for (size_t i = 0; i < t_.bytes.size(); ++i) {
      std::string& text = t_.bytes[i];
      const auto type = static_cast<TokenType>(t_.types[i]);
      if (type == TokenType::kByte) {
        const int value = ParseByteToken(text);
        if (value < 0) {
          return InvalidArgument("token {} has type byte, but its text is not of the form <0xNN>",
                                 i);
        }
        text.assign(1, static_cast<char>(value));
        TokenId& slot = t_.byte_tokens[static_cast<size_t>(value)];
        if (slot < 0) slot = static_cast<TokenId>(i);
        continue;
      }
      if (t_.kind == TokenizerKind::kSentencePiece) {
        UndoMetaspace(&text);
        // The tokenizers library builds runs of spaces by merging (32 spaces are 16 + 16 for
        // Gemma); SentencePiece takes the longest user-defined piece first (31 + 1). Each file gets
        // the behaviour of the program that it was made for.
        if (type == TokenType::kUserDefined && !spec_.merges.empty() && IsSpaceRun(text)) {
          t_.types[i] = static_cast<uint8_t>(TokenType::kNormal);
        }
      } else if (type == TokenType::kNormal) {
        UndoByteAlphabet(&text);
      }
    }
    return OkStatus();
  }

  void FillMaps() {
    t_.mergeable.Reserve(&t_.bytes, t_.bytes.size());
    std::vector<TokenId> specials;
    for (size_t i = 0; i < t_.bytes.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (t_.bytes[i].empty()) continue;
      const TokenType type = t_.TypeOf(id);
      if (type == TokenType::kNormal) {
        t_.mergeable.Insert(id);
      } else if (type == TokenType::kUserDefined || t_.Guarded(id)) {
        specials.push_back(id);
      }
    }
    t_.specials.Build(&t_.bytes, specials);
    if (t_.kind == TokenizerKind::kBpe) {
      for (size_t byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        const TokenId id = t_.mergeable.Find(std::string_view(&c, 1));
        if (id >= 0) t_.byte_tokens[byte] = id;
      }
    }
  }

  /// One line of the merges with its sides turned into raw bytes, side by side.
  struct RawMerge {
    std::string joined;
    size_t left_size = 0;
    uint64_t hashes[3] = {};
    std::string_view left() const { return std::string_view(joined).substr(0, left_size); }
    std::string_view right() const { return std::string_view(joined).substr(left_size); }
  };

  void Undo(std::string* text) {
    if (t_.kind == TokenizerKind::kBpe) {
      UndoByteAlphabet(text);
    } else {
      UndoMetaspace(text);
    }
  }

  void Prepare(const std::string& line, size_t space, RawMerge* raw) {
    raw->joined.assign(line, 0, space);
    Undo(&raw->joined);
    raw->left_size = raw->joined.size();
    side_.assign(line, space + 1);
    Undo(&side_);
    raw->joined += side_;
    raw->hashes[0] = t_.mergeable.Prefetch(raw->left());
    raw->hashes[1] = t_.mergeable.Prefetch(raw->right());
    raw->hashes[2] = t_.mergeable.Prefetch(raw->joined);
  }

  bool Insert(const RawMerge& raw, size_t index) {
    const TokenId left = t_.mergeable.FindHashed(raw.left(), raw.hashes[0]);
    const TokenId right = t_.mergeable.FindHashed(raw.right(), raw.hashes[1]);
    const TokenId merged = t_.mergeable.FindHashed(raw.joined, raw.hashes[2]);
    if (left < 0 || right < 0 || merged < 0) return false;
    t_.merges.Insert(left, right, {static_cast<uint32_t>(index), merged});
    return true;
  }

  bool Known(std::string_view text) const {
    return t_.mergeable.Find(text) >= 0 || t_.specials.Find(text) >= 0;
  }

  /// A line whose first split did not work. Sides rarely hold a space; where they do, the first
  /// split that works counts. Harmless: a merge into or out of a special token. Those are matched
  /// before merging (Gemma lists its runs of newlines both ways), and must not arise from text.
  Status InsertUnusual(size_t index) {
    const std::string& line = spec_.merges[index];
    bool harmless = false;
    RawMerge raw;
    for (size_t space = line.find(' ', 1); space != std::string::npos;
         space = line.find(' ', space + 1)) {
      Prepare(line, space, &raw);
      if (Insert(raw, index)) return OkStatus();
      harmless = harmless || (Known(raw.left()) && Known(raw.right()) && Known(raw.joined));
    }
    if (harmless) return OkStatus();
    return InvalidArgument("merge {} (\"{}\") names a token that is not in the vocabulary", index,
                           line.substr(0, 80));
  }

  Status FillMerges() {
    if (spec_.merges.empty()) return OkStatus();
    t_.has_merges = true;
    t_.merges.Reserve(spec_.merges.size());
    // Lookups miss the CPU's caches; a few lines are prepared ahead so that they miss together.
    constexpr size_t kAhead = 8;
    std::array<RawMerge, kAhead> ring;
    const size_t count = spec_.merges.size();
    for (size_t i = 0; i < count + kAhead - 1; ++i) {
      if (i < count) {
        const std::string& line = spec_.merges[i];
        const size_t space = line.find(' ', 1);
        RawMerge& raw = ring[i % kAhead];
        raw.left_size = 0;
        if (space == std::string::npos) {
          return InvalidArgument("merge {} (\"{}\") is not two tokens with a space between", i,
                                 line.substr(0, 80));
        }
        Prepare(line, space, &raw);
      }
      if (i + 1 < kAhead) continue;
      const size_t done = i + 1 - kAhead;
      if (!Insert(ring[done % kAhead], done)) RETURN_IF_ERROR(InsertUnusual(done));
    }
    return OkStatus();
  }

  void RankByScore() {
    bool by_position = true;
    float last = INFINITY;
    for (size_t i = 0; i < t_.bytes.size(); ++i) {
      if (t_.TypeOf(static_cast<TokenId>(i)) != TokenType::kNormal) continue;
      const std::string& text = t_.bytes[i];
      for (size_t k = 1; k < text.size(); ++k) {
        if (text[k] == ' ' && text[k - 1] != ' ')
          t_.joins_space[static_cast<uint8_t>(text[k - 1])] = true;
      }
      if (spec_.scores.empty()) continue;
      by_position = by_position && spec_.scores[i] <= last;
      last = spec_.scores[i];
    }
    if (t_.has_merges) return;
    // Where scores fall with the id, the id says the same and also orders the tokens whose score
    // is a mere placeholder (Gemma's runs of spaces carry -1000).
    t_.ranks.resize(t_.bytes.size());
    for (size_t i = 0; i < t_.bytes.size(); ++i) {
      t_.ranks[i] = by_position ? static_cast<uint32_t>(i) : DescendingKey(spec_.scores[i]);
    }
  }

  TokenizerSpec spec_;
  Tokenizer::Tables& t_;
  std::string side_;
};

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  auto tables = std::make_unique<Tables>();
  RETURN_IF_ERROR(TokenizerBuilder(std::move(spec), tables.get()).Build());
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(tables)));
}

}  // namespace ballast
