// Every format's calls, whole and cut at every byte: what is read does not depend on the pieces.
#include "text/tools/call_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/tools/output_grammar.h"

namespace ballast {
namespace {

using Kind = ReplyPiece::Kind;

ReplyPieces Joined(const ReplyPieces& pieces) {
  ReplyPieces out;
  for (const ReplyPiece& piece : pieces) AddPiece(piece.kind, piece.text, &out);
  return out;
}

ReplyPieces Read(const ToolFormat* format, std::string_view text, std::vector<size_t> cuts = {},
                 bool thinking = false) {
  ReplyParser parser(format, thinking);
  ReplyPieces all;
  size_t begin = 0;
  cuts.push_back(text.size());
  for (const size_t cut : cuts) {
    ReplyPieces pieces;
    parser.Push(text.substr(begin, cut - begin), &pieces);
    all.insert(all.end(), pieces.begin(), pieces.end());
    begin = cut;
  }
  parser.Finish(&all);
  return Joined(all);
}

void Expect(const ToolFormat* format, std::string_view text, const ReplyPieces& want,
            bool thinking = false) {
  EXPECT_EQ(Read(format, text, {}, thinking), want) << text;
  std::vector<size_t> bytes;
  for (size_t i = 1; i < text.size(); ++i) {
    bytes.push_back(i);
    EXPECT_EQ(Read(format, text, {i}, thinking), want) << "cut at " << i << ": " << text;
  }
  EXPECT_EQ(Read(format, text, bytes, thinking), want) << "byte by byte: " << text;
}

TEST(CallParserTest, Hermes) {
  Expect(&kHermesFormat, "plain text, 1 < 2 and <tool",
         {{Kind::kContent, "plain text, 1 < 2 and <tool"}});
  Expect(&kHermesFormat,
         "<tool_call>\n{\"name\": \"f\", \"arguments\": "
         "{\"a\":\"}\\\"{\",\"b\":[1,{}]}}\n</tool_call>",
         {{Kind::kCall, "f"}, {Kind::kArguments, R"({"a":"}\"{","b":[1,{}]})"}});
  Expect(&kHermesFormat,
         "Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
         "{}}\n</tool_call>\n<tool_call>\n"
         "{\"name\":\"g\",\"arguments\":{\"x\": null}}\n</tool_call>\n",
         {{Kind::kContent, "Let me see."},
          {Kind::kCall, "f"},
          {Kind::kArguments, "{}"},
          {Kind::kCall, "g"},
          {Kind::kArguments, "{\"x\": null}"}});
  // Arguments before the name, other members, text after the call.
  Expect(
      &kHermesFormat,
      "<tool_call>{\"arguments\": {\"q\": 1.5e3}, \"id\": [\"}\"], \"name\": \"h\"}</tool_call> ok",
      {{Kind::kCall, "h"}, {Kind::kArguments, "{\"q\": 1.5e3}"}, {Kind::kContent, " ok"}});
}

TEST(CallParserTest, SmolLm2) {
  Expect(&kSmolFormat, "<tool_call>[{\"name\": \"f\", \"arguments\": {\"a\":[]}}]</tool_call>",
         {{Kind::kCall, "f"}, {Kind::kArguments, "{\"a\":[]}"}});
  Expect(&kSmolFormat,
         "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": "
         "{\"]\":\"</tool_call>\"}}]</tool_call>",
         {{Kind::kCall, "f"},
          {Kind::kArguments, "{}"},
          {Kind::kCall, "g"},
          {Kind::kArguments, "{\"]\":\"</tool_call>\"}"}});
}

TEST(CallParserTest, Llama3) {
  Expect(&kLlama3Format, "{\"name\": \"f\", \"parameters\": {\"city\":\"Köln\"}}",
         {{Kind::kCall, "f"}, {Kind::kArguments, "{\"city\":\"Köln\"}"}});
  Expect(&kLlama3Format, "{\"name\":\"no call\"} {\"nam",
         {{Kind::kContent, "{\"name\":\"no call\"} {\"nam"}});
}

TEST(CallParserTest, WhatIsNoCallIsText) {
  Expect(&kHermesFormat, "<tool_call>\nnonsense", {{Kind::kContent, "<tool_call>\nnonsense"}});
  Expect(&kHermesFormat, "<tool_call>{\"name\": 3}</tool_call>",
         {{Kind::kContent, "<tool_call>{\"name\": 3}</tool_call>"}});
  Expect(&kHermesFormat, "a <tool_call>{\"na", {{Kind::kContent, "a <tool_call>{\"na"}});
  // Cut in the arguments: what came stands.
  Expect(&kHermesFormat, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":\"x",
         {{Kind::kCall, "f"}, {Kind::kArguments, "{\"a\":\"x"}});
}

TEST(CallParserTest, Reasoning) {
  Expect(nullptr, "<think>\nOne < two.\n\nSo.\n</think>\n\nYes.",
         {{Kind::kReasoning, "One < two.\n\nSo."}, {Kind::kContent, "Yes."}});
  Expect(nullptr, "Hmm</think>\nYes", {{Kind::kReasoning, "Hmm"}, {Kind::kContent, "Yes"}}, true);
  Expect(nullptr, "<think></think>Yes", {{Kind::kContent, "Yes"}});
  Expect(nullptr, "<thin air", {{Kind::kContent, "<thin air"}});
  Expect(nullptr, " \n text <think>", {{Kind::kContent, " \n text <think>"}});
  Expect(&kHermesFormat, "<think>call</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}",
         {{Kind::kReasoning, "call"}, {Kind::kCall, "f"}, {Kind::kArguments, "{}"}});
  Expect(nullptr, "<think>unfinished </thi", {{Kind::kReasoning, "unfinished </thi"}});
}

TEST(CallParserTest, WhatIsWrittenIsRead) {
  const std::vector<std::pair<std::string, std::string>> calls = {{"f", "{\"a\":1}"},
                                                                  {"g.h", "{}"}};
  for (const ToolFormat* format : ToolFormats()) {
    const auto some = std::span(calls).subspan(0, format->parallel ? 2 : 1);
    ReplyPieces want;
    for (const auto& [name, arguments] : some) {
      AddPiece(Kind::kCall, name, &want);
      AddPiece(Kind::kArguments, arguments, &want);
    }
    Expect(format, WriteToolCalls(*format, some), want);
  }
}

TEST(CallParserTest, LooseCallsCountWhenTheyAreValid) {
  OutputRules rules;
  rules.use = ToolUse::kAuto;
  rules.parallel = true;
  rules.tools = {{"f", "",
                  ParseJson(R"({"type":"object","properties":{"a":{"type":"string"}},
                    "required":["a"],"additionalProperties":false})")
                      .value()}};
  const grammar::GrammarPtr grammar = CompileOutput(rules).value();
  const auto expect = [&](std::string_view text, const ReplyPieces& want) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ReplyParser parser(&kHermesFormat, false, grammar);
      ReplyPieces pieces;
      parser.Push(text.substr(0, cut), &pieces);
      parser.Push(text.substr(cut), &pieces);
      parser.Finish(&pieces);
      EXPECT_EQ(pieces, want) << "cut at " << cut << ": " << text;
    }
  };
  const ReplyPieces call = {{Kind::kCall, "f"}, {Kind::kArguments, R"({"a":"}\n"})"}};
  expect(R"({"name": "f", "arguments": {"a": "}\n"}})", call);
  expect("\n```json\n{\n  \"name\": \"f\",\n  \"arguments\": {\n \"a\": \"}\\n\"\n }\n}\n```\n",
         call);
  expect("```\n{\"name\":\"f\",\"parameters\":{\"a\":\"}\\n\"}}", call);
  expect("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":\"}\\n\"}}\n</tool_call>", call);
  expect("So:\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": \"\"}}\n```\nDone.",
         {{Kind::kContent, "So:"},
          {Kind::kCall, "f"},
          {Kind::kArguments, "{\"a\":\"\"}"},
          {Kind::kContent, "\nDone."}});
  const std::string one = R"({"name":"f","arguments":{"a":""}})";
  expect("I ask f:\n" + one + "\nDone.", {{Kind::kContent, "I ask f:"},
                                          {Kind::kCall, "f"},
                                          {Kind::kArguments, "{\"a\":\"\"}"},
                                          {Kind::kContent, "\nDone."}});
  const ReplyPieces two = {{Kind::kCall, "f"},
                           {Kind::kArguments, R"({"a":""})"},
                           {Kind::kCall, "f"},
                           {Kind::kArguments, R"({"a":""})"}};
  expect(one + "\n" + one, two);
  // An unknown name, wrong arguments, other JSON, not on its own, not complete: text.
  for (const char* text :
       {R"({"name": "g", "arguments": {"a": "x"}})", R"({"name": "f", "arguments": {"a": 1}})",
        R"({"name": "f", "version": "1.0"})", R"({"names": []})", R"(See {"name": "f"})",
        "```json\n{\n  \"name\": \"my-app\",\n  \"version\": \"1\"\n}\n```", "```cpp\nint a;\n```",
        R"({"name": "f", "arguments": {"a": "x)", "``", "{", "```json\n{}\n```", "{\"n ame\""}) {
    expect(text, {{Kind::kContent, text}});
  }
}

TEST(CallParserTest, RandomTextCutAnywhere) {
  static constexpr std::string_view kParts[] = {"<tool_call>",
                                                "</tool_call>",
                                                "{\"name\": \"f\"",
                                                ", \"arguments\": ",
                                                "{}",
                                                "}",
                                                "\n",
                                                " ",
                                                "<think>",
                                                "</think>",
                                                "[",
                                                "]",
                                                "\"",
                                                "x",
                                                "<",
                                                "{\"name\": \"",
                                                "\\"};
  Rng rng(4);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (uint64_t i = rng.Below(14); i > 0; --i) text += kParts[rng.Below(std::size(kParts))];
    for (const ToolFormat* format : ToolFormats()) {
      Expect(format, text, Read(format, text));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ballast
