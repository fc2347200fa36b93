// Anthropic's Messages API, OpenAI's Responses API and /apply-template as clients see them, over a
// real socket.
#include "server_fixture.h"

namespace ballast {
namespace {

constexpr char kReply[] = "Grüße aus dem Testmodell.";
constexpr char kCall[] =
    "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\":\"Rom\"}}\n"
    "</tool_call>";
constexpr char kMessagesTools[] =
    R"(,"tools":[{"name":"get_weather","description":"d","input_schema":{"type":"object",
    "properties":{"city":{"type":"string"}},"required":["city"]}}])";

class ServerSurfaces : public ServerFixture {
 protected:
  struct Event {
    std::string name;
    Json data;
  };
  /// The named events of a stream; comments are left out.
  std::vector<Event> Events(std::string_view target, std::string_view body) {
    std::vector<Event> events;
    HttpClient client = Connect();
    EXPECT_TRUE(client.SendRequest("POST", target, body).has_value());
    auto head = client.ReadHead();
    EXPECT_TRUE(head.has_value() && head->status == 200);
    while (true) {
      const auto block = client.ReadSse();
      if (!block) return events;
      if (block->starts_with(":")) continue;
      const size_t line = block->find('\n');
      EXPECT_TRUE(block->starts_with("event: ") && line != std::string::npos) << *block;
      events.push_back({block->substr(7, line - 7), Parse(block->substr(line + 7))});
      EXPECT_EQ(events.back().data["type"], events.back().name);
    }
  }
  void Say(const std::string& reply) {
    FakeEngine::Options options;
    options.reply = reply;
    Start(options);
  }
  static std::string Names(const std::vector<Event>& events) {
    std::string names, last;
    for (const Event& event : events) {
      if (event.name != last) names += event.name + " ";
      last = event.name;
    }
    return names;
  }
  static std::string Messages(const std::string& more = "") {
    return R"({"model":"fake-model","max_tokens":100,"messages":[{"role":"user","content":"Hi"}])" +
           more + "}";
  }
  Json MessagesError(const std::string& body, int status = 400) {
    const Json reply = DoJson("POST", "/v1/messages", body, status);
    EXPECT_EQ(reply["type"], "error") << reply.dump();
    EXPECT_TRUE(reply["request_id"].is_string());
    return reply["error"];
  }
  std::string Prompt() {
    return engine_->tokenizer().Decode(engine_->last().prompt, SkipSpecial::kNo);
  }
};

TEST_F(ServerSurfaces, AppliesTheTemplate) {
  Start();
  const Json reply = DoJson("POST", "/apply-template", Chat());
  EXPECT_EQ(reply["prompt"], "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(DoJson("POST", "/apply-template", "{}", 400)["error"]["param"], "messages");
}

TEST_F(ServerSurfaces, MessagesAnswerWhole) {
  Start();
  const HttpReply reply = Do("POST", "/v1/messages", Messages(R"(,"system":"Be brief")"),
                             {{"x-api-key", "any"}, {"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_FALSE(reply.Header("request-id").empty());
  const Json json = Parse(reply.body);
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["role"], "assistant");
  EXPECT_EQ(json["model"], "fake-model");
  EXPECT_EQ(json["content"], Json::array({Json{{"type", "text"}, {"text", kReply}}}));
  EXPECT_EQ(json["stop_reason"], "end_turn");
  EXPECT_TRUE(json["stop_sequence"].is_null());
  EXPECT_GT(json["usage"]["input_tokens"], 0);
  EXPECT_GT(json["usage"]["output_tokens"], 0);
  EXPECT_EQ(Prompt(),
            "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(ServerSurfaces, MessagesStreamInOrder) {
  Start();
  const auto events = Events("/v1/messages", Messages(R"(,"stream":true)"));
  EXPECT_EQ(Names(events),
            "message_start ping content_block_start content_block_delta content_block_stop "
            "message_delta message_stop ");
  EXPECT_GT(events[0].data["message"]["usage"]["input_tokens"], 0);
  std::string text;
  for (const Event& event : events) {
    if (event.name != "content_block_delta") continue;
    EXPECT_EQ(event.data["index"], 0);
    EXPECT_EQ(event.data["delta"]["type"], "text_delta");
    text += event.data["delta"]["text"];
  }
  EXPECT_EQ(text, kReply);
  const Json& end = events[events.size() - 2].data;
  EXPECT_EQ(end["delta"]["stop_reason"], "end_turn");
  EXPECT_GT(end["usage"]["output_tokens"], 0);
}

TEST_F(ServerSurfaces, MessagesTellWhyTheyStop) {
  Start();
  const Json cut = DoJson("POST", "/v1/messages", Messages(R"(,"stop_sequences":[" dem"])"));
  EXPECT_EQ(cut["stop_reason"], "stop_sequence");
  EXPECT_EQ(cut["stop_sequence"], " dem");
  std::string body = Messages();
  body.replace(body.find("100"), 3, "2");
  EXPECT_EQ(DoJson("POST", "/v1/messages", body)["stop_reason"], "max_tokens");
}

TEST_F(ServerSurfaces, MessagesTakeBlocksAndTurns) {
  Start();
  const std::string body =
      R"({"model":"fake-model","max_tokens":9,"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":"c"},{"role":"user","content":"d"}],
      "temperature":0.5,"top_p":0.9,"top_k":7,"metadata":{"user_id":"u"}})";
  DoJson("POST", "/v1/messages", body);
  EXPECT_EQ(Prompt(),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"
            "<|im_start|>assistant\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_FLOAT_EQ(engine_->last().sampling.temperature, 0.5f);
  EXPECT_EQ(engine_->last().sampling.top_k, 7);
  EXPECT_EQ(engine_->last().max_tokens, 9);
}

TEST_F(ServerSurfaces, MessagesGoOnFromAnAssistantsBeginning) {
  Start();
  DoJson("POST", "/v1/messages",
         R"({"model":"fake-model","max_tokens":9,"messages":[{"role":"user","content":"Hi"},
         {"role":"assistant","content":"Well"}]})");
  EXPECT_TRUE(Prompt().ends_with("<|im_start|>assistant\nWell")) << Prompt();
}

TEST_F(ServerSurfaces, MessagesErrorsHaveAnthropicsShape) {
  Start();
  const auto expect = [&](const std::string& body, const char* word) {
    const Json error = MessagesError(body);
    EXPECT_EQ(error["type"], "invalid_request_error") << body;
    EXPECT_NE(error["message"].get<std::string>().find(word), std::string::npos) << error.dump();
  };
  expect(R"({"model":"fake-model","messages":[{"role":"user","content":"Hi"}]})", "max_tokens");
  expect(R"({"model":"fake-model","max_tokens":1})", "messages");
  expect(R"({"max_tokens":1,"messages":[]})", "model");
  expect(Messages(R"(,"container":"x")"), "container");
  expect(Messages(R"(,"bogus":1)"), "bogus");
  expect(Messages(R"(,"temperature":3)"), "temperature");
  expect(Messages(R"(,"stop_sequences":[""])"), "stop_sequences");
  expect(Messages(R"(,"tools":[{"type":"web_search_20250305","name":"w"}])"), "tools[0].type");
  expect(
      R"({"model":"fake-model","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})",
      "messages[0].content[0].type");
  expect("[", "JSON");
  std::string body = Messages();
  body.replace(body.find("fake-model"), 10, "other");
  EXPECT_EQ(MessagesError(body, 404)["type"], "not_found_error");
}

TEST_F(ServerSurfaces, MessagesFailInTheMiddleOfAStream) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  HttpClient client = Connect();
  ASSERT_TRUE(
      client.SendRequest("POST", "/v1/messages", Messages(R"(,"stream":true)")).has_value());
  ASSERT_TRUE(client.ReadHead().has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  engine_->FailAll(Internal("broken"));
  std::string last;
  while (const auto block = client.ReadSse()) last = *block;
  EXPECT_TRUE(last.starts_with("event: error\n")) << last;
  EXPECT_NE(last.find("api_error"), std::string::npos) << last;
}

TEST_F(ServerSurfaces, CountsTokens) {
  Start();
  const std::string body = R"({"model":"fake-model","messages":[{"role":"user","content":"Hi"}]})";
  const Json count = DoJson("POST", "/v1/messages/count_tokens", body);
  const Json reply = DoJson("POST", "/v1/messages", Messages());
  EXPECT_EQ(count["input_tokens"], reply["usage"]["input_tokens"]);
  const Json error = DoJson("POST", "/v1/messages/count_tokens", Messages(), 400);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
}

TEST_F(ServerSurfaces, ResponsesAnswerWhole) {
  Start();
  const Json reply = DoJson("POST", "/v1/responses",
                            R"({"model":"fake-model","input":"Hi","instructions":"S","store":false,
                            "max_output_tokens":100,"temperature":0.5,"metadata":{"a":"b"}})");
  EXPECT_TRUE(reply["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(reply["object"], "response");
  EXPECT_EQ(reply["status"], "completed");
  EXPECT_EQ(reply["store"], false);
  EXPECT_EQ(reply["instructions"], "S");
  EXPECT_EQ(reply["metadata"]["a"], "b");
  ASSERT_EQ(reply["output"].size(), 1u);
  const Json& item = reply["output"][0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["status"], "completed");
  EXPECT_EQ(item["content"][0]["type"], "output_text");
  EXPECT_EQ(item["content"][0]["text"], kReply);
  EXPECT_EQ(reply["usage"]["total_tokens"].get<int64_t>(),
            reply["usage"]["input_tokens"].get<int64_t>() +
                reply["usage"]["output_tokens"].get<int64_t>());
  EXPECT_EQ(Prompt(),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(ServerSurfaces, ResponsesStreamInOrder) {
  Start();
  const auto events = Events("/v1/responses", R"({"input":"Hi","stream":true})");
  EXPECT_EQ(Names(events),
            "response.created response.in_progress response.output_item.added "
            "response.content_part.added response.output_text.delta response.output_text.done "
            "response.content_part.done response.output_item.done response.completed ");
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].data["sequence_number"], i);
    if (events[i].name == "response.output_text.delta") text += events[i].data["delta"];
    if (events[i].name == "response.output_text.done") {
      EXPECT_EQ(events[i].data["text"], text);
    }
  }
  EXPECT_EQ(text, kReply);
  const Json& response = events.back().data["response"];
  EXPECT_EQ(response["output"][0]["content"][0]["text"], kReply);
  EXPECT_GT(response["usage"]["output_tokens"], 0);
  EXPECT_EQ(events[2].data["item"]["id"], response["output"][0]["id"]);
}

TEST_F(ServerSurfaces, ResponsesEndIncompleteAtTheLimit) {
  Start();
  const Json reply = DoJson("POST", "/v1/responses", R"({"input":"Hi","max_output_tokens":2})");
  EXPECT_EQ(reply["status"], "incomplete");
  EXPECT_EQ(reply["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(ServerSurfaces, ResponsesTakeItems) {
  Start();
  DoJson("POST", "/v1/responses",
         R"({"instructions":"S","input":[{"role":"developer","content":"T"},
         {"role":"user","content":[{"type":"input_text","text":"a"}]},
         {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[
           {"type":"output_text","text":"b","annotations":[],"logprobs":[]}]},
         {"type":"reasoning","id":"rs_1","summary":[]},
         {"role":"user","content":"c"}]})");
  EXPECT_EQ(Prompt(),
            "<|im_start|>system\nS\nT<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(ServerSurfaces, ResponsesNameTheFieldAtFault) {
  Start();
  const auto expect = [&](const std::string& body, const char* param, const char* code) {
    const Json error = DoJson("POST", "/v1/responses", body, 400)["error"];
    EXPECT_EQ(error["param"], param) << body;
    EXPECT_EQ(error["code"], code) << body;
  };
  expect("{}", "input", "missing_field");
  expect(R"({"input":[]})", "input", "invalid_value");
  expect(R"({"input":"a","previous_response_id":"resp_1"})", "previous_response_id",
         "unsupported_field");
  expect(R"({"input":"a","store":true})", "store", "unsupported_field");
  expect(R"({"input":"a","include":["message.output_text.logprobs"]})", "include",
         "unsupported_field");
  expect(R"({"input":"a","reasoning":{"effort":"high"}})", "reasoning.effort", "unsupported_field");
  expect(R"({"input":"a","tools":[{"type":"web_search"}]})", "tools[0].type", "unsupported_field");
  expect(R"({"input":[{"type":"item_reference","id":"x"}]})", "input[0].type", "unsupported_field");
  expect(R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
         "input[0].content[0].type", "unsupported_field");
  expect(R"({"input":"a","max_output_tokens":0})", "max_output_tokens", "invalid_value");
  expect(R"({"input":"a","messages":[]})", "messages", "unknown_field");
}

TEST_F(ServerSurfaces, MessagesCallToolsAndTakeResults) {
  Say(kCall);
  const Json reply = DoJson("POST", "/v1/messages", Messages(kMessagesTools));
  EXPECT_EQ(reply["stop_reason"], "tool_use");
  ASSERT_EQ(reply["content"].size(), 2u) << reply.dump();
  EXPECT_EQ(reply["content"][0]["text"], "Let me see.");
  const Json& use = reply["content"][1];
  EXPECT_EQ(use["type"], "tool_use");
  EXPECT_EQ(use["name"], "get_weather");
  EXPECT_EQ(use["input"], Parse(R"({"city":"Rom"})"));
  const std::string back =
      R"({"model":"fake-model","max_tokens":9,"messages":[{"role":"user","content":"Hi"},
      {"role":"assistant","content":)" +
      reply["content"].dump() +
      R"(},{"role":"user","content":[{"type":"tool_result","tool_use_id":)" + use["id"].dump() +
      R"(,"content":[{"type":"text","text":"22 degrees"}]},
      {"type":"text","text":"Well?"}]}])" +
      kMessagesTools + "}";
  DoJson("POST", "/v1/messages", back);
  EXPECT_NE(Prompt().find("22 degrees"), std::string::npos) << Prompt();
  EXPECT_NE(Prompt().find("Well?"), std::string::npos);
}

TEST_F(ServerSurfaces, MessagesStreamToolUse) {
  Say(kCall);
  const auto events =
      Events("/v1/messages", Messages(std::string(kMessagesTools) + R"(,"stream":true)"));
  std::string json;
  int64_t started = -1;
  for (const Event& event : events) {
    if (event.name == "content_block_start") started = event.data["index"];
    if (event.name != "content_block_delta") continue;
    EXPECT_EQ(event.data["index"], started);
    if (event.data["delta"]["type"] == "input_json_delta") {
      json += event.data["delta"]["partial_json"];
    }
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(Parse(json), Parse(R"({"city":"Rom"})"));
  EXPECT_EQ(events[events.size() - 2].data["delta"]["stop_reason"], "tool_use");
}

TEST_F(ServerSurfaces, MessagesToolChoiceConstrains) {
  Say("x");
  DoJson("POST", "/v1/messages",
         Messages(std::string(kMessagesTools) +
                  R"(,"tool_choice":{"type":"tool","name":"get_weather"})"));
  EXPECT_NE(engine_->last().grammar, nullptr);
}

TEST_F(ServerSurfaces, ResponsesCallFunctionsAndTakeOutputs) {
  Say(kCall);
  const std::string tools =
      R"(,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object",
      "properties":{"city":{"type":"string"}}},"strict":true}])";
  const auto events = Events("/v1/responses", R"({"input":"Hi","stream":true)" + tools + "}");
  const Json& response = events.back().data["response"];
  ASSERT_EQ(response["output"].size(), 2u) << response.dump();
  const Json& call = response["output"][1];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "get_weather");
  EXPECT_EQ(Parse(call["arguments"].get<std::string>()), Parse(R"({"city":"Rom"})"));
  std::string arguments;
  for (const Event& event : events) {
    if (event.name == "response.function_call_arguments.delta") arguments += event.data["delta"];
    if (event.name == "response.function_call_arguments.done") {
      EXPECT_EQ(event.data["arguments"], arguments);
      EXPECT_EQ(event.data["output_index"], 1);
    }
  }
  EXPECT_EQ(call["arguments"], arguments);
  const Json output = Json{
      {"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "22 degrees"}};
  DoJson("POST", "/v1/responses",
         R"({"input":[{"role":"user","content":"Hi"},)" + response["output"][0].dump() + "," +
             call.dump() + "," + output.dump() + "]" + tools + "}");
  EXPECT_NE(Prompt().find("22 degrees"), std::string::npos) << Prompt();
}

TEST_F(ServerSurfaces, ResponsesConstrainText) {
  Say("x");
  DoJson("POST", "/v1/responses",
         R"({"input":"Hi","text":{"format":{"type":"json_schema","name":"n","strict":true,
         "schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
         "additionalProperties":false}}}})");
  EXPECT_NE(engine_->last().grammar, nullptr);
}

TEST_F(ServerSurfaces, AHangUpCancelsThroughTheTranslation) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  for (const auto& [target, body] : {std::pair("/v1/messages", Messages(R"(,"stream":true)")),
                                     std::pair("/v1/responses", std::string(R"({"input":"a"})"))}) {
    HttpClient client = Connect();
    ASSERT_TRUE(client.SendRequest("POST", target, body).has_value());
    ASSERT_TRUE(engine_->AwaitActive(1));
    client.Close();
    ASSERT_TRUE(engine_->AwaitActive(0));
  }
  EXPECT_TRUE(engine_->AwaitCancelled(2));
}

}  // namespace
}  // namespace ballast
