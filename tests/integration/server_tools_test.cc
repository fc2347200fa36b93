// Tools, response formats, choices, prefilled turns and reasoning as clients see them, over a fake
// engine that says what the test wants.
#include "server_fixture.h"
#include "text/grammar/matcher.h"

namespace ballast {
namespace {

constexpr char kTools[] =
    R"(,"tools":[{"type":"function","function":{"name":"get_weather","description":"d",
        "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],
        "additionalProperties":false}}},{"type":"function","function":{"name":"clock"}}])";
constexpr char kCall[] =
    "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\":\"Köln\"}}\n"
    "</tool_call>";

class ServerTools : public ServerFixture {
 protected:
  void Say(const std::string& reply) {
    FakeEngine::Options options;
    options.reply = reply;
    Start(options);
  }
  bool Allows(const std::string& text) {
    const GenerationRequest last = engine_->last();
    if (last.grammar == nullptr) return true;
    grammar::Matcher matcher(last.grammar);
    return matcher.Accept(text) && matcher.IsComplete();
  }
  std::string Prompt() {
    return engine_->tokenizer().Decode(engine_->last().prompt, SkipSpecial::kNo);
  }
};

TEST_F(ServerTools, CallsComeWhole) {
  Say(kCall);
  const Json reply = DoJson("POST", "/v1/chat/completions", Chat(kTools));
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\":\"Köln\"}");
  EXPECT_NE(Prompt().find("get_weather"), std::string::npos);
}

TEST_F(ServerTools, ABareCallCountsInAuto) {
  Say("{\"name\": \"clock\", \"arguments\": {}}");
  const Json call = DoJson("POST", "/v1/chat/completions", Chat(kTools))["choices"][0];
  EXPECT_EQ(call["finish_reason"], "tool_calls");
  EXPECT_EQ(call["message"]["tool_calls"][0]["function"]["name"], "clock");
  const Json text = DoJson("POST", "/v1/chat/completions", Chat())["choices"][0];
  EXPECT_EQ(text["finish_reason"], "stop");
  EXPECT_FALSE(text["message"].contains("tool_calls"));
}

TEST_F(ServerTools, CallsComeInFragments) {
  Say(kCall);
  const auto stream =
      Stream("/v1/chat/completions", Chat(std::string(kTools) + R"(,"stream":true)"));
  EXPECT_TRUE(stream.done);
  std::string arguments, content;
  int begun = 0;
  for (const Json& chunk : stream.chunks) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains("content")) content += delta["content"];
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    if (call.contains("id")) {
      ++begun;
      EXPECT_EQ(call["function"]["name"], "get_weather");
      EXPECT_EQ(arguments, "");
    }
    arguments += call["function"]["arguments"];
  }
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(arguments, "{\"city\":\"Köln\"}");
  EXPECT_EQ(content, "Let me see.");
  EXPECT_EQ(stream.chunks.back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(ServerTools, TheGrammarFollowsToolChoice) {
  Say("x");
  const std::string weather = std::string(kCall).substr(12);
  const std::string clock = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";
  const std::string unknown = "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>";
  const std::string wrong =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"town\":\"x\"}}\n</tool_call>";
  const auto ask = [&](const std::string& more) {
    DoJson("POST", "/v1/chat/completions", Chat(kTools + more));
  };
  ask("");
  EXPECT_TRUE(Allows("free text"));
  EXPECT_TRUE(Allows(kCall));
  EXPECT_FALSE(Allows(unknown));
  EXPECT_FALSE(Allows(wrong));
  EXPECT_FALSE(Allows(clock + "\n" + clock));  // one call unless parallel_tool_calls
  ask(R"(,"parallel_tool_calls":true)");
  EXPECT_TRUE(Allows(clock + "\n" + weather));
  ask(R"(,"tool_choice":"required")");
  EXPECT_TRUE(Allows(weather));
  EXPECT_TRUE(Allows(clock));
  EXPECT_FALSE(Allows("free text"));
  EXPECT_FALSE(Allows(clock + "\n" + clock));
  ask(R"(,"tool_choice":"required","parallel_tool_calls":true)");
  EXPECT_TRUE(Allows(clock + "\n" + weather + "\n" + clock));
  ask(R"(,"tool_choice":{"type":"function","function":{"name":"clock"}})");
  EXPECT_TRUE(Allows(clock));
  EXPECT_FALSE(Allows(weather));
  ask(R"(,"tool_choice":"none")");
  EXPECT_EQ(engine_->last().grammar, nullptr);
  EXPECT_EQ(Prompt().find("get_weather"), std::string::npos);
  ask(R"(,"response_format":{"type":"json_schema","schema":{"enum":["yes",7]}})");
  EXPECT_TRUE(Allows("7"));
  EXPECT_TRUE(Allows(weather));
  EXPECT_FALSE(Allows("free text"));
}

TEST_F(ServerTools, HistoryIsShownToTheModel) {
  Say("It rains.");
  DoJson("POST", "/v1/chat/completions",
         std::string(R"({"messages":[{"role":"user","content":"w?"},
          {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",
           "function":{"name":"get_weather","arguments":"{\"city\": \"Rome\"}"}}]},
          {"role":"tool","tool_call_id":"a","content":"rain"}])") +
             kTools + "}");
  const std::string prompt = Prompt();
  EXPECT_NE(prompt.find("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                        "{\"city\":\"Rome\"}}\n</tool_call><|im_end|>"),
            std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("user\n<tool_response>\nrain\n</tool_response>"), std::string::npos);
}

TEST_F(ServerTools, CallsThatBringNothingNewEndTheLoop) {
  Say("Enough.");
  const std::string turn =
      R"({"role":"assistant","tool_calls":[{"id":"X","type":"function",
        "function":{"name":"clock","arguments":"{}"}}]},
       {"role":"tool","tool_call_id":"X","content":"12"})";
  const std::string later = turn.substr(0, turn.rfind("12")) + R"(13"})";
  const auto body = [&](int times, const std::string& more) {
    std::string text = R"({"messages":[{"role":"user","content":"t?"})";
    for (int i = 0; i < times; ++i) text += "," + turn;
    return text + "]" + kTools + more + "}";
  };
  EXPECT_FALSE(DoJson("POST", "/v1/chat/completions", body(2, "")).contains("warnings"));
  EXPECT_NE(engine_->last().grammar, nullptr);
  const Json stopped = DoJson("POST", "/v1/chat/completions", body(3, ""));
  ASSERT_EQ(stopped["warnings"].size(), 1u);
  EXPECT_TRUE(stopped["warnings"][0].get<std::string>().starts_with("tool_loop"));
  EXPECT_NE(engine_->last().grammar, nullptr);  // no calls, but not nothing
  // A result that changes is news.
  std::string polled = body(2, "");
  polled.insert(polled.rfind(turn), later + ",");
  EXPECT_FALSE(DoJson("POST", "/v1/chat/completions", polled).contains("warnings"));
  DoJson("POST", "/v1/chat/completions", body(3, R"(,"tool_choice":"required")"));
  EXPECT_NE(engine_->last().grammar, nullptr);
}

TEST_F(ServerTools, ResponseFormatsInEverySpelling) {
  Say("x");
  const char* const schemas[] = {
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"integer","minimum":5,"maximum":6}}})",
      R"("response_format":{"type":"json_schema","schema":{"type":"integer","minimum":5,"maximum":6}})",
      R"("response_format":{"type":"json_object","schema":{"type":"integer","minimum":5,"maximum":6}})",
      R"("json_schema":{"type":"integer","minimum":5,"maximum":6})",
      R"("guided_json":{"type":"integer","minimum":5,"maximum":6})",
      R"("guided_regex":"[56]")",
      R"("response_format":{"type":"regex","pattern":"5|6"})",
      R"("guided_choice":["5","6"])"};
  for (const char* schema : schemas) {
    DoJson("POST", "/v1/chat/completions", Chat(std::string(",") + schema));
    EXPECT_TRUE(Allows("5")) << schema;
    EXPECT_FALSE(Allows("7")) << schema;
    EXPECT_FALSE(Allows("56")) << schema;
    DoJson("POST", "/v1/completions", std::string(R"({"prompt":"p",)") + schema + "}");
    EXPECT_FALSE(Allows("7")) << schema;
  }
  DoJson("POST", "/v1/chat/completions", Chat(R"(,"response_format":{"type":"json_object"})"));
  EXPECT_TRUE(Allows(R"({"a":[1,null]})"));
  EXPECT_FALSE(Allows("[1]"));
}

TEST_F(ServerTools, RefusedKeywordsAreNamed) {
  Start();
  const Json error =
      DoJson("POST", "/v1/chat/completions",
             Chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
                {"type":"object","properties":{"a":{"contains":{}}}}}})"),
             400)["error"];
  const std::string message = error["message"];
  EXPECT_NE(message.find("contains"), std::string::npos) << message;
  EXPECT_NE(message.find("/properties/a"), std::string::npos) << message;
  EXPECT_EQ(error["param"], "response_format.json_schema.schema");
  const Json tool = DoJson("POST", "/v1/chat/completions",
                           Chat(R"(,"tools":[{"type":"function","function":{"name":"f","parameters":
                {"type":"object","properties":{"b":{"uniqueItems":true}}}}}])"),
                           400)["error"];
  const std::string told = tool["message"];
  for (const char* part : {"\"f\"", "uniqueItems", "/properties/b"}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  EXPECT_EQ(tool["param"], "tools");
}

TEST_F(ServerTools, RefusesBadShapes) {
  Start();
  const std::pair<const char*, const char*> cases[] = {
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"custom"}])", "tools[0].type"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice.function.name"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "guided_regex"},
      {R"("response_format":{"type":"regex","pattern":"("})", "response_format.pattern"},
      {R"("response_format":{"type":"json_object"},"ignore_eos":true)", "ignore_eos"},
      {R"("json_schema":{"type":"array","uniqueItems":true})", "json_schema"},
      {R"("guided_choice":[])", "guided_choice"},
      {R"("continue_final_message":true)", "continue_final_message"},
      {R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"("model":5)", "model"},
  };
  for (const auto& [members, param] : cases) {
    const std::string messages = std::string(members).starts_with("\"messages\"")
                                     ? ""
                                     : R"("messages":[{"role":"user","content":"x"}],)";
    const Json error =
        DoJson("POST", "/v1/chat/completions", "{" + messages + members + "}", 400)["error"];
    EXPECT_EQ(error["param"], param) << members;
  }
}

TEST_F(ServerTools, SeveralChoices) {
  Start();
  const Json reply = DoJson("POST", "/v1/chat/completions", Chat(R"(,"n":3,"seed":5)"));
  ASSERT_EQ(reply["choices"].size(), 3u);
  EXPECT_EQ(reply["choices"][2]["index"], 2);
  EXPECT_NE(engine_->last().sampling.seed, 5u);
  const Json one = DoJson("POST", "/v1/chat/completions", Chat(R"(,"n":1,"seed":5)"));
  EXPECT_EQ(engine_->last().sampling.seed, 5u);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]);
  EXPECT_EQ(reply["usage"]["completion_tokens"].get<int64_t>(),
            3 * one["usage"]["completion_tokens"].get<int64_t>());
  const Json lists =
      DoJson("POST", "/v1/completions", R"({"prompt":["a","b"],"n":2,"max_tokens":1})");
  EXPECT_EQ(lists["choices"].size(), 4u);
  EXPECT_EQ(lists["usage"]["prompt_tokens"], 2);
}

TEST_F(ServerTools, APrefilledTurnGoesOn) {
  Start();
  const std::string body =
      R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"The sky"}])";
  DoJson("POST", "/v1/chat/completions", body + "}");
  EXPECT_TRUE(Prompt().ends_with("<|im_start|>assistant\nThe sky"));
  DoJson("POST", "/v1/chat/completions", body + R"(,"continue_final_message":false})");
  EXPECT_TRUE(Prompt().ends_with("The sky<|im_end|>\n<|im_start|>assistant\n"));
  DoJson("POST", "/v1/chat/completions", body + R"(,"add_generation_prompt":false})");
  EXPECT_TRUE(Prompt().ends_with("The sky<|im_end|>\n"));
}

TEST_F(ServerTools, ReasoningIsApart) {
  Say("<think>\nhm\n</think>\n\nYes.");
  const Json message = DoJson("POST", "/v1/chat/completions", Chat())["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "hm");
  EXPECT_EQ(message["content"], "Yes.");
  const auto stream = Stream("/v1/chat/completions", Chat(R"(,"stream":true)"));
  std::string reasoning, content;
  for (const Json& chunk : stream.chunks) {
    const Json& delta = chunk["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(reasoning, "hm");
  EXPECT_EQ(content, "Yes.");
}

TEST_F(ServerTools, ManyToolsCompile) {
  std::string tools = R"(,"tools":[)";
  for (int i = 0; i < 128; ++i) {
    tools += fmt::format(R"({}{{"type":"function","function":{{"name":"tool_{}","parameters":
        {{"type":"object","properties":{{"path":{{"type":"string","description":"{}"}},
        "n":{{"type":"integer","minimum":0}}}},"required":["path"]}}}}}})",
                         i > 0 ? "," : "", i, std::string(1500, 'd'));
  }
  FakeEngine::Options options;
  options.context = 1 << 20;
  Start(options);
  DoJson("POST", "/v1/chat/completions", Chat(tools + "]"));
  EXPECT_TRUE(
      Allows("<tool_call>\n{\"name\": \"tool_127\", \"arguments\": {\"path\":\"x\"}}\n"
             "</tool_call>"));
}

}  // namespace
}  // namespace ballast
