// Token ids of tokenizers/lines.jsonl: every line must equal the reference, for each model whose
// vocabulary is in the local cache; and prompts as spans must equal the same text in one piece.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "golden_support.h"
#include "model/tokenizer_from_gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/gguf.h"

namespace ballast::golden {
namespace {

struct Vocabulary {
  const char* column;
  const char* model;
};

class TokenizerGolden : public ::testing::TestWithParam<Vocabulary> {
 protected:
  /// Null (and the test skipped or failed) if the model is not in the cache.
  std::unique_ptr<const Tokenizer> Load(bool nfc) {
    const std::string model = GetParam().model;
    const auto path = FindModel(model);
    if (!path.has_value()) {
      EXPECT_NE(model, "smollm2-135m-instruct") << "run `ballast pull " << model << "` first";
      return nullptr;
    }
    auto file = GgufFile::Open(*path);
    EXPECT_TRUE(file.has_value()) << file.error().message;
    auto spec = TokenizerSpecFromGguf(**file);
    EXPECT_TRUE(spec.has_value()) << spec.error().message;
    spec->nfc = nfc;
    auto tokenizer = Tokenizer::Create(std::move(*spec));
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    return std::move(*tokenizer);
  }
};

#define SKIP_IF_ABSENT(tokenizer)                                                      \
  if ((tokenizer) == nullptr) {                                                        \
    SKIP_OR_FAIL() << GetParam().model << " is not in the local cache; `ballast pull " \
                   << GetParam().model << "` fetches it";                              \
  }

std::vector<Json> ReadLines() {
  std::vector<Json> lines;
  std::ifstream in(GoldenDir() + "/tokenizers/lines.jsonl");
  for (std::string line; std::getline(in, line);) {
    auto parsed = ParseJson(line);
    if (parsed.has_value()) lines.push_back(std::move(*parsed));
  }
  return lines;
}

TEST_P(TokenizerGolden, EveryLineEqualsTheReference) {
  const auto tokenizer = Load(/*nfc=*/false);
  SKIP_IF_ABSENT(tokenizer);
  const std::vector<Json> lines = ReadLines();
  ASSERT_GE(lines.size(), 2000u);
  int different = 0;
  for (const Json& line : lines) {
    const std::string text = line["text"];
    const std::vector<TokenId> got = tokenizer->Encode(text);
    if (got != line[GetParam().column].get<std::vector<TokenId>>() && ++different <= 10) {
      ADD_FAILURE() << DumpJson(line["text"]) << "\n got " << DumpJson(Json(got)) << "\nwant "
                    << DumpJson(line[GetParam().column]);
    }
    for (const TokenId token : got) ASSERT_FALSE(tokenizer->IsControl(token)) << text;
    StreamingDetokenizer stream(*tokenizer);
    std::string streamed;
    for (const TokenId token : got) streamed += stream.Push(token);
    streamed += stream.Flush();
    EXPECT_EQ(streamed, tokenizer->Decode(got, SkipSpecial::kYes)) << DumpJson(line["text"]);
  }
  EXPECT_EQ(different, 0);
}

TEST_P(TokenizerGolden, NormalizedTextEqualsTheReference) {
  if (std::string(GetParam().column) != "qwen") GTEST_SKIP() << "only Qwen's maker normalizes";
  const auto tokenizer = Load(/*nfc=*/true);
  SKIP_IF_ABSENT(tokenizer);
  int checked = 0;
  for (const Json& line : ReadLines()) {
    const char* column = line.contains("qwen_nfc") ? "qwen_nfc" : "qwen";
    checked += line.contains("qwen_nfc");
    EXPECT_EQ(tokenizer->Encode(line["text"].get<std::string>()),
              line[column].get<std::vector<TokenId>>())
        << DumpJson(line["text"]);
  }
  EXPECT_GT(checked, 0);
}

TEST_P(TokenizerGolden, SpansEqualTheJoinedPrompt) {
  const auto tokenizer = Load(/*nfc=*/false);
  SKIP_IF_ABSENT(tokenizer);
  const auto chat = ChatTemplate::Parse(std::string(
      *FindBuiltinChatTemplate(std::string(GetParam().column) == "gemma" ? "gemma" : "chatml")));
  ASSERT_TRUE(chat.has_value());
  for (const Json& line : ReadLines()) {
    const std::string text = line["text"];
    // Where a message spells a control token, the joined text would mean something else.
    if (text.find("<") != std::string::npos) continue;
    const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
    const auto spans = chat->Render(messages, Json(), true, Json(), "", "");
    ASSERT_TRUE(spans.has_value()) << spans.error().message;
    std::string joined;
    for (const TextSpan& span : *spans) joined += span.text;
    const std::vector<TextSpan> whole = {{joined, true}};
    EXPECT_EQ(tokenizer->EncodeSpans(*spans), tokenizer->EncodeSpans(whole)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerGolden,
                         ::testing::Values(Vocabulary{"smollm2", "smollm2-135m-instruct"},
                                           Vocabulary{"qwen", "qwen2.5-coder-0.5b-instruct"},
                                           Vocabulary{"gemma", "gemma-3-270m"}),
                         [](const auto& parameter) { return std::string(parameter.param.column); });

}  // namespace
}  // namespace ballast::golden
