#include "text/grammar/regex.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/rng.h"

namespace ballast::grammar {
namespace {

bool Matches(std::string_view pattern, std::string_view text, Anchor anchor = Anchor::kWhole) {
  const auto dfa = CompileRegexDfa(pattern, anchor, Spelling::kUtf8);
  EXPECT_TRUE(dfa.has_value()) << pattern << ": " << dfa.error().message;
  return dfa && dfa->Accepts(text);
}

TEST(Regex, WholeTextSemantics) {
  EXPECT_TRUE(Matches("a|bc*", "bccc"));
  EXPECT_FALSE(Matches("a|bc*", "xbccc"));
  EXPECT_TRUE(Matches("(foo|bar){2}", "foobar"));
  EXPECT_TRUE(Matches("[^a-c\\d]", "é"));
  EXPECT_FALSE(Matches("[^a-c\\d]", "7"));
  EXPECT_TRUE(Matches(".", "😀"));
  EXPECT_FALSE(Matches(".", "\n"));
  EXPECT_TRUE(Matches("[à-ÿ😀-😂]+", "éü😁"));
  EXPECT_TRUE(Matches("\\p{Lu}\\p{Ll}+", "Élan"));
  EXPECT_TRUE(Matches("\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00", "Aé😀😀"));
  EXPECT_TRUE(Matches("a{2,3}?", "aaa"));
  EXPECT_TRUE(Matches("", ""));
  EXPECT_TRUE(Matches("(?:a|)b", "b"));
  EXPECT_TRUE(Matches("(?P<year>\\d{4})-(?<m>\\d\\d)", "2024-05"));
}

TEST(Regex, AnchorsAnywhere) {
  EXPECT_TRUE(Matches("b", "abc", Anchor::kSearch));
  EXPECT_FALSE(Matches("^b", "abc", Anchor::kSearch));
  EXPECT_TRUE(Matches("^(a|b$)", "ab", Anchor::kSearch));
  EXPECT_FALSE(Matches("^$", "x", Anchor::kSearch));
  EXPECT_TRUE(Matches("^$|^x$", "", Anchor::kSearch));
  EXPECT_TRUE(Matches("(^a|c$)", "xxc", Anchor::kSearch));
  EXPECT_FALSE(Matches("a^b", "ab", Anchor::kSearch));
  EXPECT_FALSE(Matches("(x|^)a", "ba", Anchor::kSearch));
}

TEST(Regex, JsonSpellingEscapesExactlyWhatItMust) {
  const auto dfa = CompileRegexDfa("[\\s\\S]", Anchor::kWhole, Spelling::kJson).value();
  for (const char* one : {"a", "\\n", "\\\"", "\\\\", "\\u0000", "\\u001f", "/", "\x7f", "é"}) {
    EXPECT_TRUE(dfa.Accepts(one)) << one;
  }
  for (const char* none : {"\n", "\"", "\\", "\\u000a", "\\u0041", "\\/", "\xff", "\xed\xa0\x80"}) {
    EXPECT_FALSE(dfa.Accepts(none)) << none;
  }
  EXPECT_EQ(JsonBody("a\"\\\n\x01é"), "a\\\"\\\\\\n\\u0001é");
}

TEST(Regex, RefusesWhatHasNoAutomatonByName) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"(?=a)", "look-around"},          {"(?<!a)", "look-around"}, {"\\ba", "word boundary"},
      {"(a)\\1", "back reference"},      {"(?i)a", "group flag"},   {"[[:alpha:]]", "POSIX"},
      {"\\p{Script=Greek}", "property"}, {"a**", "quantifier"}};
  for (const auto& [pattern, what] : kRefused) {
    const auto dfa = CompileRegexDfa(pattern, Anchor::kWhole, Spelling::kUtf8);
    ASSERT_FALSE(dfa.has_value()) << pattern;
    EXPECT_EQ(dfa.error().code, Code::kUnimplemented) << pattern;
    EXPECT_NE(dfa.error().message.find(what), std::string::npos) << dfa.error().message;
  }
  for (const char* bad : {"(", ")", "[a", "*", "a{3,1}", "[z-a]", "\\", "\\q", "[\\d-z]"}) {
    const auto dfa = CompileRegexDfa(bad, Anchor::kWhole, Spelling::kUtf8);
    ASSERT_FALSE(dfa.has_value()) << bad;
    EXPECT_EQ(dfa.error().code, Code::kInvalidArgument) << bad;
    EXPECT_NE(dfa.error().message.find("byte"), std::string::npos) << dfa.error().message;
  }
}

TEST(Regex, LimitsHold) {
  for (const std::string& big :
       {std::string("a{1001}"), std::string("((a{1000}){1000})"), std::string(70'000, 'a'),
        std::string(50, '(') + std::string(50, ')'), std::string("(a|b)*a(a|b){16}c{0,900}")}) {
    const auto dfa = CompileRegexDfa(big, Anchor::kWhole, Spelling::kUtf8);
    ASSERT_FALSE(dfa.has_value()) << big.substr(0, 40);
    EXPECT_EQ(dfa.error().code, Code::kResourceExhausted);
  }
}

/// A random expression over a and b that std::regex reads alike.
std::string RandomPattern(Rng* rng, int depth) {
  switch (depth == 0 ? rng->Below(2) : rng->Below(7)) {
    case 0:
      return "a";
    case 1:
      return "[ab]";
    case 2:
      return RandomPattern(rng, depth - 1) + RandomPattern(rng, depth - 1);
    case 3:
      return "(" + RandomPattern(rng, depth - 1) + "|" + RandomPattern(rng, depth - 1) + ")";
    case 4:
      return "(" + RandomPattern(rng, depth - 1) + ")*";
    case 5:
      return "(" + RandomPattern(rng, depth - 1) + "){1,2}";
    default:
      return "(" + RandomPattern(rng, depth - 1) + ")?";
  }
}

TEST(Regex, AgreesWithAnotherEngine) {
  Rng rng(5);
  for (int round = 0; round < 60; ++round) {
    const std::string pattern = RandomPattern(&rng, 4);
    const std::regex reference(pattern);
    const auto dfa = CompileRegexDfa(pattern, Anchor::kWhole, Spelling::kUtf8).value();
    const auto search = CompileRegexDfa(pattern, Anchor::kSearch, Spelling::kUtf8).value();
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (uint64_t n = rng.Below(7); n > 0; --n) text += static_cast<char>('a' + rng.Below(3));
      EXPECT_EQ(dfa.Accepts(text), std::regex_match(text, reference)) << pattern << " " << text;
      EXPECT_EQ(search.Accepts(text), std::regex_search(text, reference)) << pattern << " " << text;
    }
  }
}

TEST(Dfa, AlgebraAndEnumeration) {
  const auto compile = [](const char* p) {
    return CompileRegexDfa(p, Anchor::kWhole, Spelling::kUtf8).value();
  };
  const Dfa both = Intersect(compile("[a-f]{2}"), compile("a.|.b"), 1000).value();
  EXPECT_EQ(Enumerate(both, 100).value().size(), 11u);
  EXPECT_FALSE(Enumerate(both, 5).has_value());
  EXPECT_FALSE(Enumerate(compile("a*"), 5).has_value());
  EXPECT_TRUE(Subtract(compile("ab?"), compile("a|ab|c"), 1000).value().empty());
  EXPECT_EQ(Union(compile("a|b"), compile("c"), 1000)->fingerprint, compile("[a-c]").fingerprint);
}

}  // namespace
}  // namespace ballast::grammar
