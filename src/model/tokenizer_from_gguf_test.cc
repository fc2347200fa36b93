#include "model/tokenizer_from_gguf.h"

#include <gtest/gtest.h>

#include "tools/make_model_lib.h"
#include "weights/gguf.h"
#include "weights/test_files.h"

namespace ballast {
namespace {

using Texts = std::vector<std::string>;

// A GGUF file of metadata only.
class GgufKeys {
 public:
  GgufKeys& Text(std::string_view key, std::string_view value) {
    Key(key, 8).Text(value);
    return *this;
  }
  GgufKeys& U32(std::string_view key, uint32_t value) {
    Key(key, 4).U32(value);
    return *this;
  }
  GgufKeys& Strings(std::string_view key, const Texts& values) {
    Key(key, 9).U32(8).U64(values.size());
    for (const std::string& value : values) bytes_.Text(value);
    return *this;
  }
  GgufKeys& Ints(std::string_view key, const std::vector<int32_t>& values) {
    Key(key, 9).U32(5).U64(values.size());
    for (const int32_t value : values) bytes_.Raw(value);
    return *this;
  }
  std::string Build() const {
    ByteWriter file;
    return file.U32(0x46554747).U32(3).U64(0).U64(count_).Bytes(bytes_.bytes()).bytes();
  }

 private:
  ByteWriter& Key(std::string_view key, uint32_t type) {
    ++count_;
    return bytes_.Text(key).U32(type);
  }
  ByteWriter bytes_;
  uint64_t count_ = 0;
};

class TokenizerFromGgufTest : public testing::Test {
 protected:
  Result<TokenizerSpec> Read(const GgufKeys& keys) {
    WriteAll(path_, keys.Build());
    auto file = GgufFile::Open(path_);
    if (!file) return std::move(file).error();
    return TokenizerSpecFromGguf(**file);
  }
  static GgufKeys Bpe() {
    GgufKeys keys;
    keys.Text("general.architecture", "llama").Text("tokenizer.ggml.model", "gpt2");
    return keys;
  }
  TempDir dir_;
  std::string path_ = dir_ / "t.gguf";
};

TEST_F(TokenizerFromGgufTest, ReadsEveryKey) {
  const auto spec = Read(Bpe()
                             .Text("tokenizer.ggml.pre", "llama-bpe")
                             .Strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<e>"})
                             .Ints("tokenizer.ggml.token_type", {1, 1, 4, 3})
                             .Strings("tokenizer.ggml.merges", {"a b"})
                             .U32("tokenizer.ggml.bos_token_id", 3)
                             .U32("tokenizer.ggml.eot_token_id", 2)
                             .U32("tokenizer.ggml.padding_token_id", UINT32_MAX)
                             .Text("tokenizer.chat_template", "{{ x }}"));
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->kind, TokenizerKind::kBpe);
  EXPECT_EQ(spec->tokens, (Texts{"a", "b", "ab", "<e>"}));
  EXPECT_EQ(spec->types[2], TokenType::kUserDefined);
  EXPECT_EQ(spec->merges, Texts{"a b"});
  EXPECT_EQ(spec->bos, 3);
  EXPECT_EQ(spec->eot, 2);
  EXPECT_FALSE(spec->eos || spec->pad || spec->unk);
  EXPECT_TRUE(spec->add_bos && spec->ignore_merges);
  EXPECT_FALSE(spec->add_eos || spec->add_space_prefix);
  EXPECT_EQ(spec->chat_template, "{{ x }}");
}

TEST_F(TokenizerFromGgufTest, DefaultsDependOnTheKind) {
  const Texts tokens = {"<unk>", "<s>", "</s>", "a"};
  const auto bpe = Read(Bpe().Strings("tokenizer.ggml.tokens", tokens));
  ASSERT_TRUE(bpe.has_value()) << bpe.error().message;
  EXPECT_EQ(bpe->pre_tokenizer, "default");
  EXPECT_FALSE(bpe->bos || bpe->add_bos || bpe->ignore_merges);
  GgufKeys keys;
  keys.Text("general.architecture", "llama").Text("tokenizer.ggml.model", "llama");
  const auto spm = Read(keys.Strings("tokenizer.ggml.tokens", tokens));
  ASSERT_TRUE(spm.has_value()) << spm.error().message;
  EXPECT_EQ(spm->kind, TokenizerKind::kSentencePiece);
  EXPECT_EQ(spm->unk, 0);
  EXPECT_EQ(spm->bos, 1);
  EXPECT_EQ(spm->eos, 2);
  EXPECT_TRUE(spm->add_bos && spm->add_space_prefix);
}

TEST_F(TokenizerFromGgufTest, RefusesWrongFields) {
  const Texts two = {"a", "b"};
  struct Case {
    std::string_view message;
    GgufKeys keys;
  };
  const Case cases[] = {
      {"'tokenizer.ggml.model' is missing", GgufKeys().Text("general.architecture", "llama")},
      {"tokenizer.ggml.model 'bert' is not supported",
       GgufKeys().Text("general.architecture", "llama").Text("tokenizer.ggml.model", "bert")},
      {"'tokenizer.ggml.tokens' is missing", Bpe()},
      {"'tokenizer.ggml.tokens' is empty", Bpe().Strings("tokenizer.ggml.tokens", {})},
      {"'tokenizer.ggml.token_type' has 1 entries for a vocabulary of 2",
       Bpe().Strings("tokenizer.ggml.tokens", two).Ints("tokenizer.ggml.token_type", {1})},
      {"'tokenizer.ggml.token_type'[1] is 7, must be in [0, 6]",
       Bpe().Strings("tokenizer.ggml.tokens", two).Ints("tokenizer.ggml.token_type", {1, 7})},
      {"'tokenizer.ggml.eos_token_id' is 2, outside the vocabulary of 2",
       Bpe().Strings("tokenizer.ggml.tokens", two).U32("tokenizer.ggml.eos_token_id", 2)},
      {"'tokenizer.ggml.scores' is an array of i32, expected floats",
       Bpe().Strings("tokenizer.ggml.tokens", two).Ints("tokenizer.ggml.scores", {1, 2})},
      {"'tokenizer.ggml.add_bos_token' has type u32, expected a bool",
       Bpe().Strings("tokenizer.ggml.tokens", two).U32("tokenizer.ggml.add_bos_token", 1)},
  };
  for (const Case& c : cases) {
    const auto spec = Read(c.keys);
    ASSERT_FALSE(spec.has_value()) << "accepted: " << c.message;
    EXPECT_NE(spec.error().message.find(c.message), std::string::npos) << spec.error().message;
    EXPECT_NE(spec.error().message.find(path_), std::string::npos) << spec.error().message;
  }
}

// The vocabulary of a seeded model encodes alike from both formats, and comes back as it went in.
TEST(TokenizerFromSource, BothFormatsEncodeAlike) {
  const std::string text = " the world is hello\n  caf\u00e9 123 return\t{}";
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    TempDir dir;
    ModelRecipe recipe{.architecture = architecture, .layers = 1, .hidden = 32, .vocab = 700};
    ASSERT_TRUE(MakeModel(recipe, dir / "m.gguf").has_value());
    recipe.format = ModelFileFormat::kSafetensors;
    ASSERT_TRUE(MakeModel(recipe, dir / "m").has_value());
    std::vector<TokenId> tokens[2];
    for (const int i : {0, 1}) {
      const auto source = OpenWeights(dir / (i == 0 ? "m.gguf" : "m"));
      ASSERT_TRUE(source.has_value()) << source.error().message;
      auto spec = TokenizerSpecFromSource(**source);
      ASSERT_TRUE(spec.has_value()) << architecture << ": " << spec.error().message;
      EXPECT_NE(spec->chat_template.find("<|im_start|>"), std::string::npos);
      const auto tokenizer = Tokenizer::Create(*std::move(spec));
      ASSERT_TRUE(tokenizer.has_value()) << architecture << ": " << tokenizer.error().message;
      EXPECT_EQ((*tokenizer)->vocab_size(), 700);
      tokens[i] = (*tokenizer)->Encode(text);
      EXPECT_EQ((*tokenizer)->Decode(tokens[i], SkipSpecial::kNo), text) << architecture;
      EXPECT_TRUE((*tokenizer)->Find("<|im_end|>").has_value());
    }
    EXPECT_EQ(tokens[0], tokens[1]) << architecture;
  }
}

}  // namespace
}  // namespace ballast
