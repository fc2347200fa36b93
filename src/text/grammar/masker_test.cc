// The mask against the definition: a token is allowed exactly if the matcher accepts it.
#include <gtest/gtest.h>

#include <set>
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
constexpr TokenId kControl = 1;

/// Every byte, and seeded strings of the pieces that JSON is made of, across all borders.
TokenTrie MakeTrie(uint64_t seed, int extra) {
  static constexpr std::string_view kPieces[] = {
      "\"",  "{",    "}",       "[",       "]",   ",",    ":",    "\\",    "\\n",
      "\\u", "00e9", "a",       "b",       "id",  "name", "true", "false", "null",
      "0",   "1",    "42",      "-",       ".",   "e",    " ",    "é",     "日",
      "😀",  "tags", "\\ud83d", "\\ude00", "<t>", "x",    "kind", "_",     "12"};
  Rng rng(seed);
  std::vector<TokenTrie::Entry> entries;
  entries.emplace_back("</s>", kEnd);
  entries.emplace_back(SpecialTokenBytes(kControl), kControl);
  TokenId next = 2;
  for (int b = 0; b < 256; ++b) entries.emplace_back(std::string(1, static_cast<char>(b)), next++);
  for (int i = 0; i < extra; ++i) {
    std::string text;
    const int parts = 1 + static_cast<int>(rng.Next() % 5);
    for (int p = 0; p < parts; ++p) text += kPieces[rng.Next() % std::size(kPieces)];
    if (rng.Next() % 8 == 0) text = text.substr(0, text.size() - 1);
    entries.emplace_back(text, next++);
  }
  return TokenTrie(std::move(entries), {kEnd}, next);
}

std::vector<TokenId> Allowed(const std::vector<uint64_t>& mask) {
  std::vector<TokenId> out;
  for (size_t t = 0; t < mask.size() * 64; ++t) {
    if ((mask[t / 64] >> (t % 64) & 1) != 0) out.push_back(static_cast<TokenId>(t));
  }
  return out;
}

std::vector<TokenId> BruteForce(const Matcher& matcher, const TokenTrie& trie) {
  std::vector<TokenId> out;
  for (TokenId t = 0; t < trie.vocab_size(); ++t) {
    Matcher copy = matcher;
    if (copy.AcceptToken(trie, t)) out.push_back(t);
  }
  return out;
}

/// A random text of the grammar, the mask checked at each step. Steers to the end after a while.
std::string Walk(const GrammarPtr& grammar, const TokenTrie& trie, TokenMasker* masker, Rng* rng,
                 bool check, int max_steps) {
  Matcher matcher(grammar);
  std::vector<uint64_t> mask(masker->mask_words());
  std::string text;
  for (int step = 0; step < max_steps; ++step) {
    masker->Fill(&matcher, mask);
    const std::vector<TokenId> allowed = Allowed(mask);
    if (check) {
      EXPECT_EQ(allowed, BruteForce(matcher, trie)) << "after '" << text << "'";
      if (testing::Test::HasFailure()) return text;
    }
    EXPECT_FALSE(allowed.empty()) << "stuck after '" << text << "'";
    if (allowed.empty()) return text;
    TokenId token = allowed[rng->Next() % allowed.size()];
    if (matcher.IsComplete() && (step > 30 || rng->Next() % 6 == 0)) token = kEnd;
    // A trigger now and then, or free text would never meet one.
    for (TokenId t = 0; t < trie.vocab_size() && rng->Below(3) == 0; ++t) {
      const bool set = (mask[static_cast<size_t>(t) / 64] >> (t % 64) & 1) != 0;
      if (trie.Bytes(t) == "<t>" && set) token = t;
    }
    // Toward the end of long strings: prefer what closes.
    if (step > 20 && !matcher.IsComplete()) {
      for (const char close : {'"', '}', ']', ':', ','}) {
        const auto id = static_cast<TokenId>(2 + static_cast<uint8_t>(close));
        if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0) {
          token = id;
          break;
        }
      }
    }
    EXPECT_TRUE(matcher.AcceptToken(trie, token));
    if (token == kEnd) return text;
    text += trie.Bytes(token);
  }
  return {};
}

const char* const kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string"},"id":{"type":"integer"}},
        "required":["name","id"],"additionalProperties":false})",
    R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":2})",
    R"({"type":"object"})",
    R"({})",
    R"({"type":"string","minLength":2,"maxLength":5})",
    R"({"type":"array","items":{"type":"string","maxLength":3},"minItems":1,"maxItems":4})",
    R"({"enum":["a","ab","id",1,null,true,{"id":1,"name":[1,2]}]})",
    R"({"type":"number","minimum":-1.5,"exclusiveMaximum":42})",
    R"({"type":"integer","minimum":12,"maximum":421,"multipleOf":7})",
    R"({"type":"string","pattern":"^[a-b]{2,4}(id)?$"})",
    R"({"type":"string","pattern":"1"})",
    R"({"anyOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},
        "required":["kind","x"],"additionalProperties":false},
        {"type":"object","properties":{"kind":{"const":"b"},"name":{"type":"string"}},
        "required":["kind"],"additionalProperties":false}]})",
    R"({"$defs":{"n":{"type":"object","properties":{"id":{"type":"integer"},
        "x":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["id"],
        "additionalProperties":false}},"$ref":"#/$defs/n"})",
    R"({"type":"object","properties":{"name":true,"a":false},"patternProperties":{"^x":{"type":"null"}},
        "additionalProperties":{"type":"boolean"},"maxProperties":3})",
    R"({"type":"object","propertyNames":{"enum":["a","b","id"]},"additionalProperties":{"type":"null"},
        "minProperties":2})",
    R"({"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object",
        "additionalProperties":{"type":"integer"}})",
    R"({"type":"string","format":"date"})",
    R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"type":"array"})",
    R"({"type":"object","properties":{"é":{"const":"日\n"},"a\"b":{"type":"null"}},
        "additionalProperties":false,"minProperties":1})",
};

TEST(TokenMasker, EqualsBruteForceOnSeededVocabularies) {
  for (const uint64_t seed : {1u, 2u}) {
    const TokenTrie trie = MakeTrie(seed, 900);
    TokenMasker masker(trie);
    Rng rng(seed);
    for (const char* source : kSchemas) {
      const Json schema = ParseJson(source).value();
      const auto grammar = CompileJsonSchema(schema);
      ASSERT_TRUE(grammar.has_value()) << source << grammar.error().message;
      for (int round = 0; round < 3; ++round) {
        Walk(*grammar, trie, &masker, &rng, /*check=*/true, 40);
        ASSERT_FALSE(HasFailure()) << source;
      }
    }
    EXPECT_GT(masker.hits(), masker.misses());
  }
}

TEST(TokenMasker, WhatItAllowsIsValid) {
  const TokenTrie trie = MakeTrie(3, 2000);
  TokenMasker masker(trie);
  Rng rng(7);
  int finished = 0;
  for (const char* source : kSchemas) {
    const Json schema = ParseJson(source).value();
    SchemaLoader loader(schema);
    const SchemaId root = loader.LoadRoot().value();
    const auto grammar = CompileJsonSchema(schema).value();
    for (int round = 0; round < 40; ++round) {
      const std::string text = Walk(grammar, trie, &masker, &rng, /*check=*/false, 400);
      if (text.empty()) continue;
      ++finished;
      const auto value = ParseJson(text, 200);
      ASSERT_TRUE(value.has_value()) << text;
      EXPECT_TRUE(loader.Validate(root, *value)) << source << "\n" << text;
    }
  }
  EXPECT_GT(finished, static_cast<int>(std::size(kSchemas)) * 30);
}

TEST(TokenMasker, SmallCacheGivesTheSameMasks) {
  const TokenTrie trie = MakeTrie(4, 500);
  TokenMasker masker(trie, /*cache_bytes=*/1);
  Rng rng(1);
  for (const char* source : kSchemas) {
    const auto grammar = CompileJsonSchema(ParseJson(source).value()).value();
    Walk(grammar, trie, &masker, &rng, /*check=*/true, 25);
    ASSERT_FALSE(HasFailure()) << source;
  }
  EXPECT_LT(masker.cached_bytes(), 200'000u);
}

TEST(TokenMasker, RegexAndToolCallsEqualBruteForce) {
  const TokenTrie trie = MakeTrie(5, 900);
  TokenMasker masker(trie);
  Rng rng(11);
  GrammarBuilder builder;
  const auto schema = builder.JsonSchema(ParseJson(kSchemas[0]).value()).value();
  const auto call = builder.Sequence(
      {builder.Literal("{\"name\": \"id\", ").value(), schema, builder.Literal("}</t>").value()});
  const auto special = builder.SpecialToken(kControl).value();
  const auto root =
      builder.TextWithTriggers({{"<t>", -1, call}, {"", kControl, special}}, 2).value();
  const auto tools = builder.Build(root).value();
  const auto regex = CompileRegex("(a|b)*x[0-9]{1,3}(é|日)+").value();
  for (int round = 0; round < 12; ++round) {
    Walk(tools, trie, &masker, &rng, /*check=*/true, 40);
    ASSERT_FALSE(HasFailure());
    Walk(regex, trie, &masker, &rng, /*check=*/true, 30);
    ASSERT_FALSE(HasFailure());
  }
  GrammarBuilder sequence;
  const auto a = sequence.Regex("[ab]*").value();
  const auto b = sequence.Literal("id").value();
  const auto joined = sequence.Build(sequence.Sequence({a, b})).value();
  Walk(joined, trie, &masker, &rng, /*check=*/true, 30);
}

}  // namespace
}  // namespace ballast::grammar
