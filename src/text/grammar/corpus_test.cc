// The schemas of tests/golden/schemas: each compiles, and random texts made through the mask are
// JSON, compact, and satisfy the schema by direct evaluation.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "text/grammar/grammar.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema_loader.h"
#include "text/grammar/token_masker.h"
#include "text/grammar/token_trie.h"

namespace ballast::grammar {
namespace {

constexpr TokenId kEnd = 0;

TokenTrie MakeTrie() {
  std::vector<TokenTrie::Entry> entries{{"", kEnd}};
  TokenId next = 1;
  for (int b = 0; b < 256; ++b) entries.emplace_back(std::string(1, static_cast<char>(b)), next++);
  for (const char* text : {"\":\"", "\",\"", "\":", "\"}", "},{", "]}", "the", "10", "20", "true",
                           "false", "null", "[[", "]]", "é", "名", "-", "\":[", "\":{\""}) {
    entries.emplace_back(text, next++);
  }
  return TokenTrie(std::move(entries), {kEnd}, next);
}

bool Has(const std::vector<uint64_t>& mask, TokenId t) {
  return (mask[static_cast<size_t>(t) / 64] >> (t % 64) & 1) != 0;
}

/// A random text; after `patience` tokens whatever closes is preferred.
std::string Sample(const GrammarPtr& grammar, const TokenTrie& trie, TokenMasker* masker, Rng* rng,
                   int patience) {
  Matcher matcher(grammar);
  std::vector<uint64_t> mask(masker->mask_words());
  std::string text;
  for (int step = 0; step < 20'000; ++step) {
    masker->Fill(&matcher, mask);
    TokenId token = -1;
    uint64_t seen = 0;
    for (TokenId t = 0; t < trie.vocab_size(); ++t) {
      if (Has(mask, t) && rng->Below(++seen) == 0) token = t;
    }
    // Not always: a pattern may take any number of braces.
    if (rng->Below(8) < (step > patience ? 6u : 1u)) {
      for (const char close : {'\0', '}', ']', '"'}) {
        const TokenId t = close == '\0' ? kEnd : 1 + static_cast<uint8_t>(close);
        if (!Has(mask, t)) continue;
        token = t;
        break;
      }
    }
    EXPECT_GE(token, 0) << "stuck after " << text;
    if (token < 0 || !matcher.AcceptToken(trie, token)) return {};
    if (token == kEnd) return text;
    text += trie.Bytes(token);
  }
  return {};
}

TEST(SchemaCorpus, EverySchemaCompilesAndItsTextsAreValid) {
  std::ifstream in(std::string(BALLAST_SOURCE_DIR) + "/tests/golden/schemas/schemas.jsonl");
  const TokenTrie trie = MakeTrie();
  TokenMasker masker(trie);
  Rng rng(3);
  int schemas = 0, texts = 0;
  for (std::string line; std::getline(in, line);) {
    const Json entry = ParseJson(line).value();
    const std::string name = entry.at("name").get<std::string>();
    const auto grammar = CompileJsonSchema(entry.at("schema"));
    ASSERT_TRUE(grammar.has_value()) << name << ": " << grammar.error().message;
    SchemaLoader loader(entry.at("schema"));
    const SchemaId root = loader.LoadRoot().value();
    ++schemas;
    for (const int patience : {0, 30, 200}) {
      const std::string text = Sample(*grammar, trie, &masker, &rng, patience);
      ASSERT_FALSE(text.empty()) << name;
      const auto value = ParseJson(text);
      ASSERT_TRUE(value.has_value()) << name << ": " << text;
      EXPECT_TRUE(loader.Validate(root, *value)) << name << ": " << text;
      ++texts;
    }
  }
  std::cout << schemas << " schemas, " << texts << " texts\n";
  EXPECT_GE(schemas, 150);
}

}  // namespace
}  // namespace ballast::grammar
