// What replies may look like, for every format; and tools for templates that know none.
#include "text/tools/output_grammar.h"

#include <gtest/gtest.h>

#include "text/grammar/matcher.h"
#include "text/tools/inject.h"

namespace ballast {
namespace {

OutputRules Rules(const ToolFormat& format, ToolUse use) {
  OutputRules rules;
  rules.tool_format = &format;
  rules.use = use;
  rules.tools = {{"add", "",
                  ParseJson(R"({"type":"object","properties":{"a":{"type":"integer"}},
                    "required":["a"],"additionalProperties":false})")
                      .value()},
                 {"now", "",
                  ParseJson(R"({"type":"object","properties":{},
                    "additionalProperties":false})")
                      .value()}};
  return rules;
}

bool Allows(const OutputRules& rules, const std::string& text) {
  const auto compiled = CompileOutput(rules);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  if (!compiled) return false;
  grammar::Matcher matcher(*compiled);
  return matcher.Accept(text) && matcher.IsComplete();
}

std::string Calls(const ToolFormat& format,
                  const std::vector<std::pair<std::string, std::string>>& calls) {
  return WriteToolCalls(format, calls);
}

TEST(OutputGrammarTest, CallsOfEveryFormat) {
  for (const ToolFormat* format : ToolFormats()) {
    SCOPED_TRACE(format->name);
    const std::string good = Calls(*format, {{"add", R"({"a":-3})"}});
    const std::string two = Calls(*format, {{"add", R"({"a":1})"}, {"now", "{}"}});
    for (const ToolUse use : {ToolUse::kAuto, ToolUse::kRequired}) {
      OutputRules rules = Rules(*format, use);
      EXPECT_TRUE(Allows(rules, good));
      EXPECT_TRUE(Allows(rules, Calls(*format, {{"now", "{}"}})));
      EXPECT_FALSE(Allows(rules, Calls(*format, {{"sub", R"({"a":1})"}})));
      EXPECT_FALSE(Allows(rules, Calls(*format, {{"add", R"({"a":"1"})"}})));
      EXPECT_FALSE(Allows(rules, Calls(*format, {{"add", "{}"}})));
      EXPECT_EQ(Allows(rules, "Some text."), use == ToolUse::kAuto);
      EXPECT_EQ(Allows(rules, "Look: " + good), use == ToolUse::kAuto);
      EXPECT_FALSE(Allows(rules, good.substr(0, good.size() - 2)));
      EXPECT_FALSE(Allows(rules, two));
      rules.parallel = true;
      EXPECT_EQ(Allows(rules, two), format->parallel);
      EXPECT_TRUE(Allows(rules, good));
    }
  }
}

TEST(OutputGrammarTest, AControlTokenMayOpenACall) {
  OutputRules rules = Rules(kLlama3Format, ToolUse::kAuto);
  rules.control_opening = 77;
  const std::string call = Calls(kLlama3Format, {{"now", "{}"}});
  EXPECT_TRUE(Allows(rules, grammar::SpecialTokenBytes(77) + call));
  EXPECT_FALSE(Allows(rules, grammar::SpecialTokenBytes(77) + "text"));
}

TEST(OutputGrammarTest, TheFormatHoldsAfterThinking) {
  OutputRules rules;
  rules.format.kind = ResponseFormat::Kind::kChoice;
  rules.format.choices = {"yes", "no"};
  EXPECT_TRUE(Allows(rules, "yes"));
  rules.thinking = true;
  EXPECT_TRUE(Allows(rules, "hm, \"maybe\"?\n</think>\n\nno"));
  EXPECT_TRUE(Allows(rules, "hm</think>yes"));
  EXPECT_FALSE(Allows(rules, "hm</think>maybe"));
  OutputRules tools = Rules(kHermesFormat, ToolUse::kAuto);
  tools.thinking = true;
  const std::string call = Calls(kHermesFormat, {{"now", "{}"}});
  EXPECT_TRUE(Allows(tools, "a <b> </think>\n\nText.\n" + call));
  EXPECT_FALSE(Allows(tools, "a </think>\n" + Calls(kHermesFormat, {{"no", "{}"}})));
}

TEST(OutputGrammarTest, ManyNamesThatBeginAlike) {
  OutputRules rules = Rules(kHermesFormat, ToolUse::kRequired);
  const Json none = rules.tools[1].parameters;
  rules.tools.clear();
  for (int i = 0; i < 200; ++i) rules.tools.push_back({"tool_" + std::to_string(i), "", none});
  rules.tools.push_back({"tool", "", none});
  for (const char* name : {"tool", "tool_1", "tool_19", "tool_199", "tool_0"}) {
    EXPECT_TRUE(Allows(rules, Calls(kHermesFormat, {{name, "{}"}}))) << name;
  }
  EXPECT_FALSE(Allows(rules, Calls(kHermesFormat, {{"tool_200", "{}"}})));
  rules = {};
  rules.format.kind = ResponseFormat::Kind::kChoice;
  for (int i = 0; i < 300; ++i) rules.format.choices.push_back("a" + std::to_string(i));
  rules.format.choices.push_back("(x)|[y]{2}\\d+?.*-/^$");
  for (const std::string& choice : rules.format.choices) EXPECT_TRUE(Allows(rules, choice));
  EXPECT_FALSE(Allows(rules, "a300"));
}

TEST(OutputGrammarTest, KeysTellGrammarsApart) {
  const OutputRules rules = Rules(kHermesFormat, ToolUse::kAuto);
  OutputRules other = rules;
  EXPECT_EQ(OutputKey(rules), OutputKey(other));
  other.parallel = true;
  EXPECT_NE(OutputKey(rules), OutputKey(other));
  other = rules;
  other.tools[0].parameters["title"] = "t";
  EXPECT_NE(OutputKey(rules), OutputKey(other));
}

TEST(InjectTest, RewritesWhatTheTemplateDoesNotKnow) {
  const Json messages = ParseJson(R"([{"role":"user","content":"q"},
      {"role":"assistant","content":"Hm.","tool_calls":[
       {"function":{"name":"f","arguments":{"x":1}}},
       {"function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"r1"},{"role":"tool","content":"r2"},
      {"role":"user","content":"and?"}])")
                            .value();
  const Json tools = ParseJson(R"([{"type":"function","function":{"name":"f"}}])").value();
  const Json out = InjectTools(kSmolFormat, messages, tools);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0]["role"], "system");
  EXPECT_NE(out[0]["content"].get<std::string>().find(R"({"name":"f"})"), std::string::npos);
  EXPECT_EQ(out[2]["content"],
            "Hm.\n<tool_call>[{\"name\": \"f\", \"arguments\": {\"x\":1}}, {\"name\": \"g\", "
            "\"arguments\": {}}]</tool_call>");
  EXPECT_EQ(out[3]["role"], "user");
  EXPECT_EQ(out[3]["content"],
            "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\nand?");
  EXPECT_EQ(InjectTools(kSmolFormat, messages, Json::array())[0]["role"], "user");
}

}  // namespace
}  // namespace ballast
