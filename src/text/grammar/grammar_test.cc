#include "text/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/limits.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema_loader.h"
#include "text/grammar/token_masker.h"
#include "text/grammar/token_trie.h"

namespace ballast::grammar {
namespace {

using testing::HasSubstr;

GrammarPtr Schema(std::string_view source) {
  auto grammar = CompileJsonSchema(ParseJson(source).value());
  EXPECT_TRUE(grammar.has_value()) << source << ": " << grammar.error().message;
  return grammar ? *grammar : CompileRegex("x").value();
}

Error SchemaError(std::string_view source) {
  auto grammar = CompileJsonSchema(ParseJson(source, 1000).value());
  EXPECT_FALSE(grammar.has_value()) << source;
  return grammar ? Error{} : grammar.error();
}

bool Fits(const GrammarPtr& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.Accept(text) && matcher.IsComplete();
}

TEST(JsonGrammar, MembersComeInAnyOrderWithoutSpace) {
  const auto g = Schema(R"({"type":"object","properties":{"a":{"type":"integer"},
      "b":{"type":"boolean"},"c":{"type":"null"}},"required":["a"],"additionalProperties":false})");
  for (const char* good : {R"({"a":1})", R"({"b":true,"a":1})", R"({"c":null,"a":-3,"b":false})"}) {
    EXPECT_TRUE(Fits(g, good)) << good;
  }
  for (const char* bad :
       {R"({})", R"({"b":true})", R"({"a":1,"a":2})", R"({"a": 1})", R"({"a":1 })", R"({"a":1,})",
        R"({"d":1,"a":1})", R"({"a":1.5})", R"( {"a":1})"}) {
    EXPECT_FALSE(Fits(g, bad)) << bad;
  }
}

TEST(JsonGrammar, NoDeadEnds) {
  // After the only two members no comma may come; a name that no member has may not begin.
  const auto g = Schema(R"({"type":"object","properties":{"ab":true,"ac":true},
      "additionalProperties":false})");
  Matcher m(g);
  ASSERT_TRUE(m.Accept(R"({"ab":1)"));
  EXPECT_FALSE(m.Accept(R"(,"ab)"));
  EXPECT_TRUE(m.Accept(R"(,"ac":null)"));
  EXPECT_FALSE(m.Accept(","));
  EXPECT_TRUE(m.Accept("}"));
  EXPECT_TRUE(m.IsComplete());
  EXPECT_TRUE(m.IsExhausted());
  // maxProperties keeps room for what is required.
  const auto tight = Schema(R"({"type":"object","required":["z"],"maxProperties":2})");
  Matcher n(tight);
  ASSERT_TRUE(n.Accept(R"({"q":1,)"));
  EXPECT_FALSE(n.Accept(R"("y)"));
  EXPECT_TRUE(n.Accept(R"("z":2})"));
}

TEST(JsonGrammar, StringsAreUnicodeAndCounted) {
  const auto g = Schema(R"({"type":"string","minLength":2,"maxLength":3})");
  for (const char* good :
       {"\"ab\"", "\"é日😀\"", R"("\u00e9\n")", R"("\ud83d\ude00a")", R"("\"\/")"}) {
    EXPECT_TRUE(Fits(g, good)) << good;
  }
  for (const char* bad :
       {"\"a\"", "\"abcd\"", R"("\ud83d\ude00")", R"("\ud83dxx")", R"("\ude00xx")", R"("\x41b")",
        "\"a\nb\"", "\"\xc3\"", "\"\xff\xff\"", "\"\xed\xa0\x80z\""}) {
    EXPECT_FALSE(Fits(g, bad)) << bad;
  }
  Matcher m(g);
  ASSERT_TRUE(m.Accept("\"ab\xf0\x9f"));  // inside the third character
  EXPECT_FALSE(m.Accept("\""));
  EXPECT_TRUE(m.Accept("\x98\x80"));
  EXPECT_FALSE(m.Accept("c"));
  EXPECT_EQ(m.ForcedBytes(8), "\"");
}

TEST(JsonGrammar, NamesAreNotRepeated) {
  const auto g = Schema(R"({"type":"object","additionalProperties":{"type":"integer"}})");
  EXPECT_TRUE(Fits(g, R"({"a":1,"ab":2,"b":3})"));
  EXPECT_FALSE(Fits(g, R"({"a":1,"ab":2,"a":3})"));
  EXPECT_FALSE(Fits(g, R"({"\n":1,"\n":3})"));
}

TEST(JsonGrammar, NestingIsBoundedWithoutDeadEnds) {
  const auto g = CompileJsonObject().value();
  std::string open, close;
  for (int i = 0; i < kMaxNesting; ++i) open += "{\"a\":", close += '}';
  Matcher m(g);
  ASSERT_TRUE(m.Accept(open));
  EXPECT_FALSE(m.Accept("{"));
  EXPECT_FALSE(m.Accept("["));
  EXPECT_TRUE(m.Accept("1" + close));
  EXPECT_TRUE(m.IsComplete());
  const auto list = Schema(R"({"$defs":{"n":{"type":"array","minItems":1,"items":{"anyOf":[
      {"$ref":"#/$defs/n"},{"type":"null"}]}}},"$ref":"#/$defs/n"})");
  EXPECT_TRUE(Fits(list, std::string(64, '[') + "null" + std::string(64, ']')));
  EXPECT_FALSE(Matcher(list).Accept(std::string(65, '[')));
}

TEST(JsonGrammar, JsonObjectTakesAnyObjectAndNothingElse) {
  const auto g = CompileJsonObject().value();
  EXPECT_TRUE(Fits(g, R"({"a":[1,-2.5e3,"x\\",{"b":{}},[],true,null]})"));
  for (const char* bad : {"[]", "1", "{\"a\"}", "{'a':1}", "{\"a\":01}", "{\"a\":tru}", "{}x"}) {
    EXPECT_FALSE(Fits(g, bad)) << bad;
  }
}

TEST(JsonGrammar, ExclusiveChoices) {
  const auto g = Schema(R"({"type":"integer","oneOf":[{"minimum":0},{"maximum":5}]})");
  EXPECT_TRUE(Fits(g, "-1"));
  EXPECT_TRUE(Fits(g, "6"));
  EXPECT_FALSE(Fits(g, "3"));
  const auto tagged = Schema(R"({"oneOf":[
      {"type":"object","properties":{"t":{"const":"x"},"v":{"type":"integer"}},"required":["t"]},
      {"type":"object","properties":{"t":{"const":"y"},"v":{"type":"string"}},
      "required":["t"]}]})");
  EXPECT_TRUE(Fits(tagged, R"({"v":1,"t":"x"})"));
  EXPECT_FALSE(Fits(tagged, R"({"v":1,"t":"y"})"));
  const auto other =
      Schema(R"({"type":"object","if":{"properties":{"k":{"const":1}},"required":["k"]},
      "then":{"required":["a"]},"else":{"required":["b"]}})");
  EXPECT_TRUE(Fits(other, R"({"k":1,"a":0})"));
  EXPECT_FALSE(Fits(other, R"({"k":1,"b":0})"));
  EXPECT_TRUE(Fits(other, R"({"k":2,"b":0})"));
}

TEST(JsonGrammar, ErrorsNamePointerKeywordValueAndLimit) {
  const Error unique = SchemaError(R"({"properties":{"a/b":{"type":"array","uniqueItems":true}}})");
  EXPECT_EQ(unique.code, Code::kUnimplemented);
  EXPECT_EQ(unique.reason, "uniqueItems");
  EXPECT_THAT(unique.message, HasSubstr("'/properties/a~1b'"));
  const Error unknown = SchemaError(R"({"items":{"nullable":true}})");
  EXPECT_EQ(unknown.reason, "nullable");
  EXPECT_THAT(unknown.message, HasSubstr("'/items'"));
  const Error type = SchemaError(R"({"properties":{"x":{"type":"strin"}}})");
  EXPECT_EQ(type.code, Code::kInvalidArgument);
  EXPECT_THAT(type.message, HasSubstr("\"strin\""));
  const Error large = SchemaError(R"({"maxLength":1000001})");
  EXPECT_EQ(large.code, Code::kResourceExhausted);
  EXPECT_THAT(large.message, testing::AllOf(HasSubstr("1000001"), HasSubstr("1000000")));
  EXPECT_EQ(SchemaError(R"({"minimum":"1"})").code, Code::kInvalidArgument);
  EXPECT_EQ(SchemaError(R"({"pattern":"("})").code, Code::kInvalidArgument);
  EXPECT_EQ(SchemaError(R"({"format":"hostname"})").reason, "format");
  EXPECT_EQ(SchemaError(R"({"$ref":"other.json"})").reason, "$ref");
  EXPECT_EQ(SchemaError(R"({"$ref":"#/$defs/missing"})").code, Code::kInvalidArgument);
  EXPECT_EQ(SchemaError("3").code, Code::kInvalidArgument);
}

TEST(JsonGrammar, UnsatisfiableSchemasAreRefused) {
  for (const char* source :
       {"false", R"({"enum":[]})", R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
        R"({"type":"integer","minimum":1.2,"maximum":1.8})",
        R"({"allOf":[{"const":1},{"const":2}]})",
        R"({"type":"string","pattern":"^a$","minLength":2})",
        R"({"type":"array","items":false,"minItems":1})"}) {
    EXPECT_EQ(SchemaError(source).reason, "unsatisfiable") << source;
  }
}

TEST(JsonGrammar, HostileSchemasEndWithAnError) {
  std::string deep = "{}";
  for (int i = 0; i < 400; ++i) deep = "{\"items\":" + deep + "}";
  EXPECT_EQ(SchemaError(deep).code, Code::kResourceExhausted);
  std::string chain = "{\"$defs\":{";
  for (int i = 0; i < 4000; ++i) {
    chain +=
        "\"d" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"},";
  }
  chain += "\"d4000\":{}},\"$ref\":\"#/$defs/d0\"}";
  EXPECT_EQ(SchemaError(chain).code, Code::kResourceExhausted);
  std::string product = "{\"allOf\":[";
  for (int i = 0; i < 12; ++i) {
    product += R"({"anyOf":[{"minimum":)" + std::to_string(i) + R"(},{"maximum":-)" +
               std::to_string(i) + R"(},{"type":"string"}]},)";
  }
  product += "{}]}";
  EXPECT_EQ(SchemaError(product).code, Code::kResourceExhausted);
  EXPECT_EQ(SchemaError(R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})").code,
            Code::kResourceExhausted);
  EXPECT_EQ(SchemaError(R"({"pattern":"^[a-z]+$","maxLength":100000})").code,
            Code::kResourceExhausted);
}

TEST(Matcher, CopiesAreIndependentAndLongTextsStaySmall) {
  const auto g = Schema(R"({"type":"array","items":{"type":"object"}})");
  Matcher m(g);
  ASSERT_TRUE(m.Accept("["));
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(m.Accept(R"({"k":[1,{"x":2}],"l":3},)"));
  Matcher copy = m;
  EXPECT_TRUE(copy.Accept("{}]"));
  EXPECT_TRUE(copy.IsComplete());
  EXPECT_FALSE(m.IsComplete());
  EXPECT_TRUE(m.Accept("{\"y"));
  EXPECT_FALSE(copy.Accept("x"));
}

TEST(Matcher, ForcedBytesStopAtChoices) {
  const auto g = Schema(R"({"type":"object","properties":{"location":{"enum":["north","south"]}},
      "required":["location"],"additionalProperties":false})");
  Matcher m(g);
  EXPECT_EQ(m.ForcedBytes(100), R"({"location":")");
  EXPECT_EQ(m.ForcedBytes(5), R"({"loc)");
  ASSERT_TRUE(m.Accept(R"({"location":"s)"));
  EXPECT_EQ(m.ForcedBytes(100), R"(outh"})");
}

TokenTrie SmallTrie() {
  std::vector<TokenTrie::Entry> entries{{SpecialTokenBytes(301), 301},
                                        {SpecialTokenBytes(302), 302}};
  for (int b = 0; b < 256; ++b) entries.emplace_back(std::string(1, static_cast<char>(b)), b);
  entries.emplace_back("<tool_call>", 303);
  return TokenTrie(std::move(entries), {300}, 304);
}

TEST(ToolCalls, TextUntilACallThenConstrained) {
  const TokenTrie trie = SmallTrie();
  GrammarBuilder b;
  const auto weather = b.Sequence(
      {b.Literal("{\"name\": \"weather\", \"arguments\": ").value(),
       b.JsonSchema(ParseJson(R"({"type":"object","properties":{"city":{"type":"string"}},
           "required":["city"],"additionalProperties":false})")
                        .value())
           .value(),
       b.Literal("}").value()});
  const auto clock = b.Literal("{\"name\": \"clock\", \"arguments\": {}}").value();
  const auto call = b.Sequence(
      {b.Literal("\n").value(), b.Choice({weather, clock}), b.Literal("\n</tool_call>").value()});
  const auto g = b.Build(b.TextWithTriggers({{"<tool_call>", -1, call}}, 2).value()).value();
  const std::string one = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(Fits(g, ""));
  EXPECT_TRUE(Fits(g, "I cannot < do <tool that é"));
  EXPECT_TRUE(Fits(g, "Let me see. " + one));
  EXPECT_TRUE(Fits(g, one + "\n" + one));
  EXPECT_FALSE(Fits(g, one + one + "x"));
  EXPECT_FALSE(Fits(g, "<tool_call>\nhello"));
  EXPECT_FALSE(Fits(g, "<tool_call>"));
  EXPECT_FALSE(Fits(g, "\xff"));
  Matcher m(g);
  ASSERT_TRUE(m.AcceptToken(trie, 303));
  EXPECT_EQ(m.ForcedBytes(100), "\n{\"name\": \"");
  EXPECT_FALSE(m.AcceptToken(trie, 300));
  ASSERT_TRUE(
      m.Accept("\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Bern\"}}\n</tool_call>"));
  EXPECT_TRUE(m.AcceptToken(trie, 300));
  EXPECT_TRUE(m.ended());
  EXPECT_FALSE(m.Accept("x"));
}

TEST(ToolCalls, ControlTokensFitOnlyWhereNamed) {
  const TokenTrie trie = SmallTrie();
  GrammarBuilder b;
  const auto json = b.JsonObject().value();
  const auto g = b.Build(b.Sequence({b.SpecialToken(301).value(), json})).value();
  Matcher m(g);
  EXPECT_FALSE(m.AcceptToken(trie, 302));
  EXPECT_FALSE(m.AcceptToken(trie, '{'));
  ASSERT_TRUE(m.AcceptToken(trie, 301));
  EXPECT_FALSE(m.AcceptToken(trie, 301));
  TokenMasker masker(trie);
  std::vector<uint64_t> mask(masker.mask_words());
  masker.Fill(&m, mask);
  EXPECT_EQ(TokenMasker::OnlyToken(mask), '{');
  ASSERT_TRUE(m.Accept("{\"a\":\"<"));
  masker.Fill(&m, mask);
  EXPECT_FALSE(TokenMasker::OnlyToken(mask).has_value());
  EXPECT_EQ(mask[301 / 64] >> (301 % 64) & 1, 0u);
  EXPECT_EQ(mask[303 / 64] >> (303 % 64) & 1, 1u);  // user-defined: just text here
}

TEST(ToolCalls, FreeTextMayHaveToSaySomething) {
  GrammarBuilder b;
  const auto call = b.Literal("f</t>").value();
  const auto text = b.TextWithTriggers({{"<t>", -1, call}}, 2, GrammarBuilder::FreeText::kNotBlank);
  const auto g = b.Build(text.value()).value();
  for (const char* good : {"x", " \n x", "<", "<t", "<u", "<t>f</t>", "\n<t>f</t>", "<t>f</t> ",
                           "<t>f</t>\n<t>f</t>", "a<t>f</t>", "é"}) {
    EXPECT_TRUE(Fits(g, good)) << good;
  }
  for (const char* bad :
       {"", " ", "\n\t ", "<t>", "<t>g</t>", "x<t>", "<t>f</t><t>f</t><t>f</t>"}) {
    EXPECT_FALSE(Fits(g, bad)) << bad;
  }
}

TEST(ToolCalls, FreeTextMustBeLast) {
  GrammarBuilder b;
  const auto text = b.TextWithTriggers({}, 1).value();
  const auto tail = b.Literal("x").value();
  EXPECT_EQ(b.Build(b.Sequence({text, tail})).error().code, Code::kInvalidArgument);
  GrammarBuilder c;
  const auto plain = c.TextWithTriggers({}, 1).value();
  const auto g = c.Build(plain).value();
  EXPECT_TRUE(Fits(g, "anything é"));
  EXPECT_FALSE(Fits(g, "\xc3"));
}

}  // namespace
}  // namespace ballast::grammar
