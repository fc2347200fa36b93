// Tokenizers: any text encodes without a control token, byte-level ids spell the text again, spans
// give the ids of the joined text, and streaming equals decoding at once.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

using ballast::TokenId;
using ballast::Tokenizer;
using ballast::TokenizerKind;
using ballast::TokenizerSpec;
using ballast::TokenType;

void Require(bool condition) {
  if (!condition) std::abort();
}

void Add(TokenizerSpec* spec, std::string text, TokenType type) {
  spec->tokens.push_back(std::move(text));
  spec->types.push_back(type);
  spec->scores.push_back(-static_cast<float>(spec->tokens.size()));
}

std::unique_ptr<const Tokenizer> ByteLevel(const char* pre_tokenizer) {
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string text;
    ballast::AppendUtf8(printable ? byte : next++, &text);
    Add(&spec, text, TokenType::kNormal);
  }
  spec.merges = {"a b", "ab a", "Ġ a", "Ġ Ġ", "ĠĠ ĠĠ", "a a", "aa aa", "Ã ©", "Ċ Ċ", "1 2"};
  for (const char* merged : {"ab", "aba", "Ġa", "ĠĠ", "ĠĠĠĠ", "aa", "aaaa", "Ã©", "ĊĊ", "12"}) {
    Add(&spec, merged, TokenType::kNormal);
  }
  Add(&spec, "<|im_start|>", TokenType::kControl);
  Add(&spec, "<|im_end|>", TokenType::kControl);
  Add(&spec, "<tool>", TokenType::kUserDefined);
  spec.scores.clear();
  auto tokenizer = Tokenizer::Create(std::move(spec));
  Require(tokenizer.has_value());
  return std::move(*tokenizer);
}

std::unique_ptr<const Tokenizer> SentencePiece() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  Add(&spec, "<unk>", TokenType::kUnknown);
  Add(&spec, "<bos>", TokenType::kControl);
  Add(&spec, "<end_of_turn>", TokenType::kControl);
  for (const char* text : {"▁a", "ab", "▁ab", "aa", "aaaa", "▁", "a", "b", "é", ">▁<", ">", "<"}) {
    Add(&spec, text, TokenType::kNormal);
  }
  for (const char* text : {"▁▁", "▁▁▁", "\n", "\n\n"}) Add(&spec, text, TokenType::kUserDefined);
  for (int byte = 0; byte < 256; ++byte) {
    Add(&spec, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  spec.unk = 0;
  spec.bos = 1;
  auto tokenizer = Tokenizer::Create(std::move(spec));
  Require(tokenizer.has_value());
  return std::move(*tokenizer);
}

void CheckStreaming(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  ballast::StreamingDetokenizer stream(tokenizer, ballast::SkipSpecial::kNo);
  std::string streamed;
  for (const TokenId token : tokens) {
    const std::string part = stream.Push(token);
    Require(ballast::IsValidUtf8(part));
    streamed += part;
  }
  streamed += stream.Flush();
  Require(streamed == tokenizer.Decode(tokens, ballast::SkipSpecial::kNo));
}

void CheckText(const Tokenizer& tokenizer, std::string_view text, size_t cut) {
  const std::vector<TokenId> tokens = tokenizer.Encode(text);
  std::string bytes;
  for (const TokenId token : tokens) {
    Require(token >= 0 && token < tokenizer.vocab_size() && !tokenizer.IsControl(token));
    bytes += tokenizer.TokenBytes(token);
  }
  if (tokenizer.kind() == TokenizerKind::kBpe) {
    Require(bytes == text);
    if (ballast::IsValidUtf8(text)) {
      Require(tokenizer.Decode(tokens, ballast::SkipSpecial::kYes) == text);
    }
  }
  CheckStreaming(tokenizer, tokens);
  const std::string head(text.substr(0, cut));
  const std::string tail(text.substr(cut));
  const std::vector<ballast::TextSpan> trusted = {{head, true}, {tail, true}};
  const std::vector<ballast::TextSpan> joined = {{std::string(text), true}};
  const bool splits_character = tokenizer.kind() == TokenizerKind::kSentencePiece &&
                                cut < text.size() &&
                                (static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80;
  if (!splits_character) {
    Require(tokenizer.EncodeSpans(trusted) == tokenizer.EncodeSpans(joined));
    const std::vector<ballast::TextSpan> untrusted = {{head, false}, {tail, false}};
    Require(tokenizer.EncodeSpans(untrusted) == tokens);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<const Tokenizer> kTokenizers[] = {
      ByteLevel("gpt2"),   ByteLevel("smollm"),  ByteLevel("llama-bpe"),   ByteLevel("qwen2"),
      ByteLevel("gpt-4o"), ByteLevel("kimi-k2"), ByteLevel("deepseek-v3"), SentencePiece(),
  };
  if (size < 2) return 0;
  const Tokenizer& tokenizer = *kTokenizers[data[0] % std::size(kTokenizers)];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  CheckText(tokenizer, text, text.empty() ? 0 : data[1] % (text.size() + 1));
  return 0;
}
