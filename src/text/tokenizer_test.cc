// Tokenizers over small vocabularies: the merge loop against a naive one, trust, errors, streaming.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace ballast {
namespace {

/// The printable stand-in of a byte, as byte-level vocabularies spell it.
std::string ByteSpelling(int byte) {
  static const std::vector<std::string> kSpelling = [] {
    std::vector<std::string> out(256);
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      AppendUtf8(printable ? b : next++, &out[b]);
    }
    return out;
  }();
  return kSpelling[static_cast<size_t>(byte)];
}

/// All bytes, merges of a few pairs over a, b and space, and three special tokens.
TokenizerSpec SmallBpe() {
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(ByteSpelling(byte));
  spec.merges = {"a b", "ab a", "b b", "ab ab", "Ġ a", "bb a", "a a", "Ġ Ġ", "aa bba", "aa aa"};
  for (const char* merged : {"ab", "aba", "bb", "abab", "Ġa", "bba", "aa", "ĠĠ", "aabba", "aaaa"}) {
    spec.tokens.emplace_back(merged);
  }
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.tokens.insert(spec.tokens.end(), {"<|im_start|>", "<|im_end|>", "<tool>"});
  spec.types.insert(spec.types.end(),
                    {TokenType::kControl, TokenType::kControl, TokenType::kUserDefined});
  spec.eos = static_cast<TokenId>(spec.tokens.size() - 2);
  return spec;
}

std::unique_ptr<const Tokenizer> Make(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

std::vector<std::string> Pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  std::vector<std::string> out;
  for (const TokenId token : tokens) out.push_back(tokenizer.TokenBytes(token));
  return out;
}

/// Byte pair encoding as its definition says it: the first pair of lowest rank, again and again.
std::vector<std::string> NaiveBpe(std::string_view word, const std::vector<std::string>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank] == parts[i] + " " + parts[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, EqualsTheDefinitionForShortAndLongWords) {
  const TokenizerSpec spec = SmallBpe();
  const auto tokenizer = Make(spec);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string word;
    const size_t length = 1 + random() % (round % 3 == 0 ? 300 : 70);
    while (word.size() < length) word += random() % 2 == 0 ? 'a' : 'b';
    EXPECT_EQ(Pieces(*tokenizer, tokenizer->Encode(word)), NaiveBpe(word, spec.merges)) << word;
  }
}

TEST(Bpe, LongRunsStayFast) {
  // Quadratic work on a megabyte would take hours, so finishing at all is the check.
  const auto tokenizer = Make(SmallBpe());
  for (const char* unit : {"a", " ", "\n", "é", "1", "'"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text), SkipSpecial::kNo), text);
  }
}

TEST(ByteLevel, RoundTripsAnyBytes) {
  const auto tokenizer = Make(SmallBpe());
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    const size_t length = random() % 50;
    while (bytes.size() < length) bytes += static_cast<char>(random());
    std::string back;
    for (const TokenId token : tokenizer->Encode(bytes)) back += tokenizer->TokenBytes(token);
    EXPECT_EQ(back, bytes);
  }
}

TEST(Trust, ControlTokensComeFromTrustedSpansOnly) {
  const auto tokenizer = Make(SmallBpe());
  const TokenId start = *tokenizer->Find("<|im_start|>");
  const TokenId end = *tokenizer->Find("<|im_end|>");
  for (const TokenId token : tokenizer->Encode("<|im_start|>ab<|im_end|>")) {
    EXPECT_FALSE(tokenizer->IsControl(token));
  }
  const auto encode = [&](std::vector<TextSpan> spans) { return tokenizer->EncodeSpans(spans); };
  const TokenId ab = *tokenizer->Find("ab");
  EXPECT_EQ(encode({{"<|im_start|>", true}, {"ab", false}, {"<|im_end|>", true}}),
            (std::vector<TokenId>{start, ab, end}));
  EXPECT_EQ(encode({{"<|im_", true}, {"start|>", true}}), (std::vector<TokenId>{start}));
  // A control token that only exists across a border of trust is text.
  for (const TokenId token : encode({{"<|im_", true}, {"end|>", false}})) EXPECT_NE(token, end);
  for (const TokenId token : encode({{"<|im_", false}, {"end|>", true}})) EXPECT_NE(token, end);
  // Merging does not stop at borders: the ids are those of the joined text.
  EXPECT_EQ(encode({{"a", true}, {"b", false}}), (std::vector<TokenId>{ab}));
  // User-defined tokens are matched anywhere.
  EXPECT_EQ(tokenizer->Encode("<tool>"), (std::vector<TokenId>{*tokenizer->Find("<tool>")}));
}

TEST(Trust, MergesIntoControlTokensAreIgnored) {
  TokenizerSpec spec = SmallBpe();
  spec.tokens.emplace_back("ba");
  spec.types.push_back(TokenType::kControl);
  spec.merges.insert(spec.merges.begin(), "b a");
  const auto tokenizer = Make(std::move(spec));
  for (const TokenId token : tokenizer->Encode("baba bababa")) {
    EXPECT_FALSE(tokenizer->IsControl(token));
  }
}

TEST(Special, TurnMarkersAreControlWhateverTheFileSays) {
  TokenizerSpec spec = SmallBpe();
  spec.tokens.insert(spec.tokens.end(), {"<end_of_turn>", "<start_of_turn>", "</s>"});
  spec.types.insert(spec.types.end(),
                    {TokenType::kNormal, TokenType::kUserDefined, TokenType::kUserDefined});
  const auto tokenizer = Make(std::move(spec));
  EXPECT_TRUE(tokenizer->IsControl(*tokenizer->Find("<end_of_turn>")));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*tokenizer->Find("<end_of_turn>")));
  EXPECT_TRUE(tokenizer->IsControl(*tokenizer->Find("<start_of_turn>")));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(*tokenizer->Find("<start_of_turn>")));
  EXPECT_FALSE(tokenizer->IsControl(*tokenizer->Find("</s>")));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*tokenizer->eos()));
  EXPECT_FALSE(tokenizer->IsSpecial(*tokenizer->Find("ab")));
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(100'000), "");
}

TEST(Decode, SkipsControlTokensOnRequest) {
  const auto tokenizer = Make(SmallBpe());
  const std::vector<TokenId> tokens = {*tokenizer->Find("<|im_start|>"), *tokenizer->Find("ab"),
                                       *tokenizer->Find("<tool>"), -5, 1'000'000};
  EXPECT_EQ(tokenizer->Decode(tokens, SkipSpecial::kNo), "<|im_start|>ab<tool>");
  EXPECT_EQ(tokenizer->Decode(tokens, SkipSpecial::kYes), "ab<tool>");
}

TEST(Streaming, EmitsWholeCharactersAndEqualsDecodingAtOnce) {
  const auto tokenizer = Make(SmallBpe());
  std::mt19937 random(3);
  const std::string alphabet[] = {"\xF0", "\x9F", "\x98", "\x80", "\xC3", "\xA9", "a",
                                  "\xE0", "\xA0", "\xED", "\xFF", "\xF4", "\x90"};
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    std::vector<TokenId> tokens;
    for (size_t i = random() % 20; i > 0; --i) {
      const std::string& byte = alphabet[random() % std::size(alphabet)];
      bytes += byte;
      tokens.push_back(*tokenizer->Find(byte));
    }
    StreamingDetokenizer stream(*tokenizer);
    std::string streamed;
    for (const TokenId token : tokens) {
      const std::string part = stream.Push(token);
      EXPECT_TRUE(IsValidUtf8(part));
      streamed += part;
    }
    streamed += stream.Flush();
    EXPECT_EQ(streamed, ReplaceInvalidUtf8(bytes));
    EXPECT_EQ(streamed, tokenizer->Decode(tokens, SkipSpecial::kNo));
  }
}

TEST(Unicode, ReplacesMaximalSubpartsAsPythonDoes) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(ReplaceInvalidUtf8("a\xF0\x9F\x98z"), "a" + r + "z");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE0\x80\x80"), r + r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF"), r + r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82"), r);
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
}

TokenizerSpec SmallSentencePiece() {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  spec.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "▁ab", "▁▁", "\n"};
  spec.scores = {0, 0, 0, -10, -11, -12, -1, -2, -3, -1000, -13};
  spec.types = {TokenType::kUnknown,     TokenType::kControl,    TokenType::kControl,
                TokenType::kNormal,      TokenType::kNormal,     TokenType::kNormal,
                TokenType::kNormal,      TokenType::kNormal,     TokenType::kNormal,
                TokenType::kUserDefined, TokenType::kUserDefined};
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  return spec;
}

TEST(SentencePiece, MergesByScoreAndMatchesUserDefinedFirst) {
  const auto tokenizer = Make(SmallSentencePiece());
  EXPECT_EQ(Pieces(*tokenizer, tokenizer->Encode("ab ab")),
            (std::vector<std::string>{"ab", " ab"}));
  EXPECT_EQ(Pieces(*tokenizer, tokenizer->Encode("a   ab\nb")),
            (std::vector<std::string>{"a", "  ", " ab", "\n", "b"}));
  // U+2581 in a text is a space.
  EXPECT_EQ(tokenizer->Encode("a▁ab"), tokenizer->Encode("a ab"));
  // Unknown characters fuse; "</s>" from a user is not the end.
  EXPECT_EQ(tokenizer->Encode("éé"), (std::vector<TokenId>{0}));
  for (const TokenId token : tokenizer->Encode("</s>")) EXPECT_NE(token, 2);
}

TEST(SentencePiece, FallsBackToBytesAndPutsASpaceInFront) {
  TokenizerSpec spec = SmallSentencePiece();
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    spec.scores.push_back(0);
    spec.types.push_back(TokenType::kByte);
  }
  spec.add_space_prefix = true;
  const auto tokenizer = Make(std::move(spec));
  const std::vector<TokenId> tokens = tokenizer->Encode("abé");
  EXPECT_EQ(Pieces(*tokenizer, tokens), (std::vector<std::string>{" ab", "\xC3", "\xA9"}));
  EXPECT_EQ(tokenizer->Decode(tokens, SkipSpecial::kYes), "abé");
  StreamingDetokenizer stream(*tokenizer);
  std::string text;
  for (const TokenId token : tokens) text += stream.Push(token);
  EXPECT_EQ(text + stream.Flush(), "abé");
}

TEST(Create, RefusesWhatDoesNotFit) {
  const auto error_of = [](auto change) {
    TokenizerSpec spec = SmallBpe();
    change(&spec);
    auto result = Tokenizer::Create(std::move(spec));
    return result.has_value() ? std::string() : result.error().message;
  };
  EXPECT_EQ(error_of([](TokenizerSpec*) {}), "");
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->tokens.clear(); }).find("tokens"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->types.pop_back(); }).find("types"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->scores = {1}; }).find("scores"), std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->eos = 9999; }).find("eos token id 9999"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->bos = -2; }).find("bos"), std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->merges[3] = "zz a"; }).find("merge 3 (\"zz a\")"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->merges[0] = "ab"; }).find("merge 0"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->pre_tokenizer = "nosuch"; }).find("smollm"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->pre_tokenizer = "regex:(a"; }).find("compile"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->types[0] = static_cast<TokenType>(9); }).find("9"),
            std::string::npos);
  EXPECT_NE(error_of([](TokenizerSpec* s) { s->types[0] = TokenType::kByte; }).find("<0xNN>"),
            std::string::npos);
}

TEST(PreTokenizer, CutsLikeTheModelsPatterns) {
  const auto split = [](std::string_view name, std::string_view text) {
    auto pre = PreTokenizer::Create(name);
    EXPECT_TRUE(pre.has_value()) << name;
    std::vector<std::string_view> pieces;
    PreTokenizer::Scratch scratch;
    (*pre)->Split(text, &scratch, &pieces);
    return std::vector<std::string>(pieces.begin(), pieces.end());
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(split("gpt2", "I'm  12a"), (Strings{"I", "'m", " ", " 12", "a"}));
  EXPECT_EQ(split("smollm", "x  12"), (Strings{"x", "  ", "1", "2"}));
  EXPECT_EQ(split("llama-bpe", "1234 I'M\n\n"), (Strings{"123", "4", " I", "'M", "\n\n"}));
  EXPECT_EQ(split("qwen2", "12 .x"), (Strings{"1", "2", " .", "x"}));
  EXPECT_EQ(split("kimi-k2", "ab中文c"), (Strings{"ab", "中文", "c"}));
  EXPECT_EQ(split("deepseek-v3", "ab1234中"), (Strings{"ab", "123", "4", "中"}));
  EXPECT_EQ(split("gpt-4o", "camelCase"), (Strings{"camel", "Case"}));
  // A pattern that backtracks without end hits its limit; nothing is lost.
  EXPECT_EQ(split("regex:(a+)+$", std::string(5000, 'a') + "b"),
            (Strings{std::string(5000, 'a') + "b"}));
}

TEST(TokenizerJson, ReadsByteLevelBpe) {
  const auto spec = ParseTokenizerJson(
      R"({"added_tokens":[{"id":4,"content":"<|im_end|>","special":true},
                          {"id":5,"content":"<tool>","special":false}],
          "normalizer":{"type":"NFC"},
          "pre_tokenizer":{"type":"Sequence","pretokenizers":[
             {"type":"Digits","individual_digits":true},
             {"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]},
          "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ġ":3},
                   "merges":["a b",["a","b"]]}})",
      R"({"eos_token":{"content":"<|im_end|>"},"add_bos_token":false,"chat_template":"x"})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->kind, TokenizerKind::kBpe);
  EXPECT_TRUE(spec->nfc);
  EXPECT_EQ(spec->eos, 4);
  EXPECT_EQ(spec->chat_template, "x");
  EXPECT_EQ(spec->merges, (std::vector<std::string>{"a b", "a b"}));
  EXPECT_EQ(spec->types[4], TokenType::kControl);
  EXPECT_EQ(spec->types[5], TokenType::kUserDefined);
  const auto tokenizer = Make(*spec);
  EXPECT_EQ(tokenizer->Encode("ab ab<tool>"), (std::vector<TokenId>{2, 3, 2, 5}));
}

TEST(TokenizerJson, ReadsGemmaStyle) {
  const auto spec = ParseTokenizerJson(
      R"({"added_tokens":[{"id":0,"content":"<bos>","special":true},
                          {"id":1,"content":"<unk>","special":true}],
          "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
          "pre_tokenizer":{"type":"Split","pattern":{"String":" "},
                           "behavior":"MergedWithPrevious","invert":false},
          "post_processor":{"type":"TemplateProcessing",
             "single":[{"SpecialToken":{"id":"<bos>","type_id":0}},{"Sequence":{"id":"A"}}]},
          "model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>",
                   "vocab":{"<bos>":0,"<unk>":1,"▁":2,"a":3,"▁a":4,"<0xC3>":5,"<0xA9>":6},
                   "merges":[["▁","a"]]}})",
      "");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->kind, TokenizerKind::kSentencePiece);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->bos, 0);
  EXPECT_EQ(Make(*spec)->Encode("a aé"), (std::vector<TokenId>{3, 4, 5, 6}));
}

TEST(TokenizerJson, RefusesWhatItCannotHonour) {
  const auto error_of = [](std::string_view json) {
    auto spec = ParseTokenizerJson(json, "");
    return spec.has_value() ? std::string("none") : spec.error().message;
  };
  EXPECT_NE(error_of("{").find("tokenizer.json"), std::string::npos);
  EXPECT_NE(error_of("[]").find("not an object"), std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"type":"Unigram","vocab":[]}})").find("model.type \"Unigram\""),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"type":"BPE","vocab":{"a":-1}}})").find("id -1"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"type":"BPE","vocab":{"a":4000000}}})").find("4000000"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}})").find("two parts"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
                         "normalizer":{"type":"Lowercase"}})")
                .find("Lowercase"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
