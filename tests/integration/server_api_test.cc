// Conformance of every route with OpenAI's API as clients see it, over a real socket.
#include "memory/ledger.h"
#include "server/memory_owners.h"
#include "server_fixture.h"

namespace ballast {
namespace {

constexpr char kReply[] = "Grüße aus dem Testmodell.";

class ServerApi : public ServerFixture {};

TEST_F(ServerApi, ListsModels) {
  Start();
  const Json list = DoJson("GET", "/v1/models");
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "fake-model");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_TRUE(list["data"][0]["created"].is_number_integer());
  EXPECT_EQ(DoJson("GET", "/v1/models/fake-model")["id"], "fake-model");
  const Json error = DoJson("GET", "/v1/models/org%2Fother", "", 404)["error"];
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_EQ(error["param"], "model");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_NE(error["message"].get<std::string>().find("org/other"), std::string::npos);
}

TEST_F(ServerApi, AliasNamesTheModel) {
  ServerOptions options;
  options.alias = "my/alias";
  Start({}, options);
  EXPECT_EQ(DoJson("GET", "/v1/models")["data"][0]["id"], "my/alias");
  EXPECT_EQ(DoJson("GET", "/v1/models/my/alias")["id"], "my/alias");
  EXPECT_EQ(DoJson("POST", "/v1/chat/completions", Chat())["model"], "my/alias");
}

TEST_F(ServerApi, AnswersAChat) {
  Start();
  const Json reply = DoJson("POST", "/v1/chat/completions", Chat());
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_TRUE(reply["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(reply["model"], "fake-model");
  ASSERT_EQ(reply["choices"].size(), 1u);
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], kReply);
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  const Json& usage = reply["usage"];
  EXPECT_EQ(usage["total_tokens"].get<int64_t>(),
            usage["prompt_tokens"].get<int64_t>() + usage["completion_tokens"].get<int64_t>());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  for (const char* name :
       {"cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second",
        "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second", "queue_ms",
        "preemptions"}) {
    EXPECT_TRUE(reply["timings"][name].is_number()) << name;
  }
}

TEST_F(ServerApi, ReportsCachedTokens) {
  Start();
  const std::string body = Chat("", std::string(200, 'x'));
  DoJson("POST", "/v1/chat/completions", body);
  const Json second = DoJson("POST", "/v1/chat/completions", body);
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>(), 128);
  EXPECT_EQ(second["timings"]["cache_n"],
            second["usage"]["prompt_tokens_details"]["cached_tokens"]);
}

TEST_F(ServerApi, StreamsAChat) {
  Start();
  const SseResult result = Stream("/v1/chat/completions", Chat(R"(,"stream":true)"));
  EXPECT_EQ(result.head.status, 200);
  EXPECT_EQ(result.head.Header("Content-Type"), "text/event-stream");
  EXPECT_TRUE(result.done);
  ASSERT_GE(result.chunks.size(), 3u);
  std::string text;
  for (const Json& chunk : result.chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], result.chunks[0]["id"]);
    EXPECT_FALSE(chunk.contains("usage"));
    const Json& choice = chunk["choices"][0];
    if (choice["delta"].contains("content")) text += choice["delta"]["content"];
    const bool last = &chunk == &result.chunks.back();
    EXPECT_EQ(choice["finish_reason"].is_null(), !last);
    EXPECT_EQ(chunk.contains("timings"), last);
  }
  EXPECT_EQ(result.chunks[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(text, kReply);
  EXPECT_EQ(result.chunks.back()["choices"][0]["finish_reason"], "stop");
}

TEST_F(ServerApi, StreamsUsageWhenAsked) {
  Start();
  const SseResult result = Stream(
      "/v1/chat/completions", Chat(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_TRUE(result.done);
  const Json& last = result.chunks.back();
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_GT(last["usage"]["completion_tokens"].get<int64_t>(), 0);
  EXPECT_TRUE(last["timings"].is_object());
  for (size_t i = 0; i + 1 < result.chunks.size(); ++i) {
    EXPECT_TRUE(result.chunks[i].at("usage").is_null());
  }
}

TEST_F(ServerApi, CompletesPromptsInEveryShape) {
  Start();
  const Json one = DoJson("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":-1})");
  EXPECT_EQ(one["object"], "text_completion");
  EXPECT_EQ(one["choices"][0]["text"], kReply);
  EXPECT_EQ(one["usage"]["prompt_tokens"], 3);
  const Json many = DoJson("POST", "/v1/completions", R"({"prompt":["a","bc"],"max_tokens":2})");
  ASSERT_EQ(many["choices"].size(), 2u);
  EXPECT_EQ(many["choices"][1]["index"], 1);
  EXPECT_EQ(many["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(many["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(many["usage"]["completion_tokens"], 4);
  const Json tokens = DoJson("POST", "/v1/completions", R"({"prompt":[65,66],"max_tokens":1})");
  EXPECT_EQ(tokens["usage"]["prompt_tokens"], 2);
  const Json lists =
      DoJson("POST", "/v1/completions", R"({"prompt":[[65],[66,67]],"max_tokens":1})");
  EXPECT_EQ(lists["choices"].size(), 2u);
  const Json by_default = DoJson("POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(by_default["usage"]["completion_tokens"], 16);
}

TEST_F(ServerApi, StreamsSeveralPromptsAtOnce) {
  Start();
  const SseResult result =
      Stream("/v1/completions", R"({"prompt":["a","b","c"],"max_tokens":-1,"stream":true})");
  EXPECT_TRUE(result.done);
  std::string text[3];
  int finished = 0;
  for (const Json& chunk : result.chunks) {
    const Json& choice = chunk["choices"][0];
    text[choice["index"].get<size_t>()] += choice["text"];
    if (!choice["finish_reason"].is_null()) ++finished;
  }
  for (const std::string& each : text) EXPECT_EQ(each, kReply);
  EXPECT_EQ(finished, 3);
}

TEST_F(ServerApi, GivesLogprobsInBothShapes) {
  Start();
  const Json chat = DoJson("POST", "/v1/chat/completions",
                           Chat(R"(,"logprobs":true,"top_logprobs":2,"max_tokens":4)"));
  const Json& content = chat["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0]["token"], "G");
  EXPECT_EQ(content[0]["bytes"], Json::array({71}));
  EXPECT_FLOAT_EQ(content[0]["logprob"].get<float>(), -0.25f);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  // "ü" is two tokens, neither of which is a character.
  EXPECT_EQ(content[2]["bytes"], Json::array({0xC3}));
  const Json text =
      DoJson("POST", "/v1/completions", R"({"prompt":"a","logprobs":1,"max_tokens":5})");
  const Json& old = text["choices"][0]["logprobs"];
  ASSERT_EQ(old["tokens"].size(), 5u);
  EXPECT_EQ(old["tokens"][2], "bytes:\\xc3");
  EXPECT_EQ(old["token_logprobs"].size(), 5u);
  EXPECT_EQ(old["top_logprobs"][0].size(), 1u);
  EXPECT_EQ(old["text_offset"], Json::array({0, 1, 2, 3, 3}));
  const SseResult stream =
      Stream("/v1/chat/completions", Chat(R"(,"logprobs":true,"max_tokens":4,"stream":true)"));
  size_t tokens = 0;
  for (const Json& chunk : stream.chunks) {
    const Json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_object()) tokens += logprobs["content"].size();
  }
  EXPECT_EQ(tokens, 4u);
}

TEST_F(ServerApi, StopsAtStopStrings) {
  Start();
  for (const char* stop : {R"(" aus")", R"(["nie"," aus"])"}) {
    const Json reply =
        DoJson("POST", "/v1/chat/completions", Chat(fmt::format(R"(,"stop":{})", stop)));
    EXPECT_EQ(reply["choices"][0]["message"]["content"], "Grüße");
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  }
}

TEST_F(ServerApi, HandsSamplingToTheEngine) {
  Start();
  DoJson("POST", "/v1/chat/completions",
         Chat(R"(,"temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"repeat_penalty":1.1,)"
              R"("presence_penalty":-1,"frequency_penalty":2,"seed":42,"logit_bias":{"65":-100},)"
              R"("max_completion_tokens":3,"ignore_eos":true,"stop":["zz"])"));
  const GenerationRequest got = engine_->last();
  EXPECT_FLOAT_EQ(got.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(got.sampling.top_p, 0.9f);
  EXPECT_EQ(got.sampling.top_k, 7);
  EXPECT_FLOAT_EQ(got.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(got.sampling.repetition_penalty, 1.1f);
  EXPECT_FLOAT_EQ(got.sampling.presence_penalty, -1);
  EXPECT_FLOAT_EQ(got.sampling.frequency_penalty, 2);
  EXPECT_EQ(got.sampling.seed, 42u);
  ASSERT_EQ(got.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(got.sampling.logit_bias[0].first, 65);
  EXPECT_EQ(got.max_tokens, 3);
  EXPECT_TRUE(got.ignore_eos);
  EXPECT_EQ(got.stop, std::vector<std::string>{"zz"});
  DoJson("POST", "/v1/chat/completions", Chat());
  EXPECT_EQ(engine_->last().max_tokens, 0);
  EXPECT_FLOAT_EQ(engine_->last().sampling.temperature, 1.0f);
}

TEST_F(ServerApi, ReadsRolesAndContentParts) {
  Start();
  DoJson("POST", "/v1/chat/completions",
         R"({"messages":[{"role":"developer","content":"S"},
             {"role":"user","name":"x",
              "content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
             {"role":"assistant","content":"c","refusal":null,"tool_calls":[],"audio":null},
             {"role":"tool","tool_call_id":"1","content":"d"}]})");
  const std::string prompt = engine_->tokenizer().Decode(engine_->last().prompt, SkipSpecial::kNo);
  EXPECT_EQ(prompt,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"
            "<|im_start|>assistant\nc<|im_end|>\n"
            "<|im_start|>user\n<tool_response>\nd\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST_F(ServerApi, UserTextNeverBecomesAControlToken) {
  Start();
  const TokenId control = engine_->tokenizer().Find("<|im_end|>").value();
  const auto count = [&](const std::vector<TokenId>& tokens) {
    return std::count(tokens.begin(), tokens.end(), control);
  };
  DoJson("POST", "/v1/chat/completions", Chat("", "x<|im_end|>y"));
  EXPECT_EQ(count(engine_->last().prompt), 1);
  DoJson("POST", "/v1/completions", R"({"prompt":"x<|im_end|>y"})");
  EXPECT_EQ(count(engine_->last().prompt), 0);
  const Json tokens = DoJson("POST", "/tokenize", R"({"content":"x<|im_end|>y"})")["tokens"];
  EXPECT_EQ(count(tokens.get<std::vector<TokenId>>()), 0);
}

TEST_F(ServerApi, TokenizesAndBack) {
  Start();
  const Json tokens = DoJson("POST", "/tokenize", R"({"content":"heß","add_special":true})");
  EXPECT_EQ(tokens["tokens"].size(), 3u);
  const Json pieces = DoJson("POST", "/tokenize", R"({"content":"heß","with_pieces":true})");
  EXPECT_EQ(pieces["tokens"][0]["piece"], "he");
  EXPECT_EQ(pieces["tokens"][1]["piece"], Json::array({0xC3}));
  const Json back = DoJson("POST", "/detokenize", DumpJson(tokens));
  EXPECT_EQ(back["content"], "heß");
  EXPECT_EQ(DoJson("POST", "/detokenize", R"({"tokens":[999999]})", 400)["error"]["param"],
            "tokens");
  EXPECT_EQ(DoJson("POST", "/tokenize", "{}", 400)["error"]["param"], "content");
}

TEST_F(ServerApi, RefusesFieldsByName) {
  Start();
  const std::pair<const char*, const char*> cases[] = {
      {R"("functions":[{}])", "functions"},
      {R"("audio":{})", "audio"},
      {R"("n":17)", "n"},
      {R"("n":0)", "n"},
      {R"("store":true)", "store"},
      {R"("temprature":1)", "temprature"},
      {R"("temperature":3)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_k":1.5)", "top_k"},
      {R"("min_p":-1)", "min_p"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":1,"repeat_penalty":1)", "repeat_penalty"},
      {R"("presence_penalty":3)", "presence_penalty"},
      {R"("frequency_penalty":-3)", "frequency_penalty"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"5":101})", "logit_bias"},
      {R"("logit_bias":{"999999":1})", "logit_bias"},
      {R"("seed":1e30)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens"},
      {R"("stop":"")", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop"},
      {R"("logprobs":1)", "logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("stream":1)", "stream"},
      {R"("stream_options":{})", "stream_options"},
      {R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("messages":[])", "messages"},
      {R"("messages":[{"role":"user"}])", "messages[0].content"},
      {R"("messages":[{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])",
       "messages[0].content[0].type"},
      {R"("messages":[{"role":"user","content":"x","mood":1}])", "messages[0].mood"},
      {R"("messages":[{"role":"user","content":5}])", "messages[0].content"},
      {R"("messages":"x")", "messages"},
  };
  for (const auto& [members, param] : cases) {
    const std::string messages = std::string(members).starts_with("\"messages\"")
                                     ? ""
                                     : R"("messages":[{"role":"user","content":"x"}],)";
    const Json error =
        DoJson("POST", "/v1/chat/completions", "{" + messages + members + "}", 400)["error"];
    EXPECT_EQ(error["param"], param) << members;
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error["code"].is_string());
  }
  for (const char* body :
       {R"({"prompt":"x","echo":true})", R"({"prompt":"x","best_of":2})",
        R"({"prompt":"x","suffix":"y"})", R"({"prompt":"x","messages":[]})", R"({"prompt":[1.5]})",
        R"({"prompt":[]})", R"({"prompt":[999999]})", R"({"prompt":""})", R"({})",
        R"({"prompt":["a","a","a","a","a","a","a","a","a"]})"}) {
    const Json error = DoJson("POST", "/v1/completions", body, 400)["error"];
    EXPECT_TRUE(error["param"].is_string()) << body;
  }
}

TEST_F(ServerApi, AcceptsFieldsThatLoseNothing) {
  Start();
  DoJson(
      "POST", "/v1/chat/completions",
      Chat(
          R"(,"user":"u","metadata":{"a":"b"},"store":false,"n":1,"tools":[],"tool_choice":"none",)"
          R"("parallel_tool_calls":true,"service_tier":"auto","response_format":{"type":"text"},)"
          R"("stop":null,"seed":null,"anything":null,"modalities":["text"],"logprobs":false,)"
          R"("prompt_cache_key":"k","safety_identifier":"s","cache_prompt":true)"));
}

TEST_F(ServerApi, RefusesBadJson) {
  Start();
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("\"x\""), std::string("{\"a\":\"\xFF\"}"),
        std::string(100, '[') + std::string(100, ']'), std::string("nul")}) {
    const Json error = DoJson("POST", "/v1/chat/completions", body, 400)["error"];
    EXPECT_EQ(error["code"], "invalid_json") << body;
  }
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += fmt::format("\"k{}\":null,", i);
  wide += "\"z\":null}";
  EXPECT_EQ(DoJson("POST", "/v1/chat/completions", wide, 400)["error"]["code"], "invalid_json");
  EXPECT_EQ(Do("POST", "/v1/chat/completions").status, 400);
}

TEST_F(ServerApi, NamesUnknownModels) {
  Start();
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    const std::string body =
        std::string(path) == "/v1/completions"
            ? R"({"model":"gpt-x","prompt":"x"})"
            : R"({"model":"gpt-x","messages":[{"role":"user","content":"x"}]})";
    EXPECT_EQ(DoJson("POST", path, body, 404)["error"]["code"], "model_not_found");
  }
  EXPECT_EQ(DoJson("POST", "/tokenize", R"({"model":"y","content":"x"})", 404)["error"]["code"],
            "model_not_found");
}

TEST_F(ServerApi, MapsEngineErrors) {
  FakeEngine::Options options;
  options.context = 64;
  options.queue_limit = 1;
  Start(options);
  const Json error =
      DoJson("POST", "/v1/chat/completions", Chat("", std::string(100, 'x')), 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "messages");
  EXPECT_NE(error["message"].get<std::string>().find("64"), std::string::npos);

  engine_->SetHold(FakeEngine::Hold::kQueue);
  HttpClient waiting = Connect();
  ASSERT_TRUE(waiting.SendRequest("POST", "/v1/chat/completions", Chat()).has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  const HttpReply full = Do("POST", "/v1/chat/completions", Chat());
  EXPECT_EQ(full.status, 429);
  EXPECT_FALSE(full.Header("Retry-After").empty());
  EXPECT_EQ(Parse(full.body)["error"]["code"], "queue_full");
  EXPECT_EQ(Parse(full.body)["error"]["type"], "rate_limit_error");
  engine_->SetHold(FakeEngine::Hold::kNothing);
  EXPECT_EQ(waiting.ReadReply()->status, 200);
}

TEST_F(ServerApi, CancelsTheOtherPromptsOfARefusedCall) {
  FakeEngine::Options options;
  options.queue_limit = 2;
  Start(options);
  engine_->SetHold(FakeEngine::Hold::kQueue);
  EXPECT_EQ(Do("POST", "/v1/completions", R"({"prompt":["a","b","c"]})").status, 429);
  EXPECT_TRUE(engine_->AwaitCancelled(2));
}

TEST_F(ServerApi, NeedsAChatTemplate) {
  FakeEngine::Options options;
  options.chat_template = false;
  Start(options);
  const Json error = DoJson("POST", "/v1/chat/completions", Chat(), 400)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("--chat-template"), std::string::npos);
  EXPECT_EQ(DoJson("POST", "/v1/completions", R"({"prompt":"x"})")["object"], "text_completion");
}

TEST_F(ServerApi, TellsOfAFailureInsideAStream) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  HttpClient client = Connect();
  ASSERT_TRUE(
      client.SendRequest("POST", "/v1/chat/completions", Chat(R"(,"stream":true)")).has_value());
  ASSERT_TRUE(client.ReadHead().has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  engine_->FailAll(Internal("the step failed"));
  std::string last;
  while (true) {
    const auto block = client.ReadSse();
    if (!block) break;
    last = *block;
  }
  ASSERT_TRUE(last.starts_with("data: {\"error\""));
  EXPECT_EQ(Parse(last.substr(6))["error"]["message"], "the step failed");
}

TEST_F(ServerApi, ShowsPrefillProgressAsComments) {
  FakeEngine::Options options;
  options.prefill_tokens = 16;
  Start(options);
  engine_->SetHold(FakeEngine::Hold::kPrefill);
  HttpClient client = Connect();
  ASSERT_TRUE(
      client.SendRequest("POST", "/v1/chat/completions", Chat(R"(,"stream":true)")).has_value());
  ASSERT_TRUE(client.ReadHead().has_value());
  const auto first = client.ReadSse();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->starts_with("data: ")) << *first;
  for (int i = 0; i < 2; ++i) {
    const auto comment = client.ReadSse();
    ASSERT_TRUE(comment.has_value());
    EXPECT_TRUE(comment->starts_with(": prefill 0/")) << *comment;
  }
  engine_->SetHold(FakeEngine::Hold::kNothing);
  std::string last;
  while (const auto block = client.ReadSse()) last = *block;
  EXPECT_EQ(last, "data: [DONE]");
}

TEST_F(ServerApi, NamesMemoryOwnersAsTheLedgerDoes) {
  ASSERT_EQ(kMemoryOwnerLabels.size(), static_cast<size_t>(kMemoryOwners));
  for (int i = 0; i < kMemoryOwners; ++i) {
    EXPECT_EQ(kMemoryOwnerLabels[static_cast<size_t>(i)],
              MemoryOwnerName(static_cast<MemoryOwner>(i)));
  }
}

TEST_F(ServerApi, TellsAboutItself) {
  Start();
  EXPECT_EQ(DoJson("GET", "/healthz")["status"], "ok");
  EXPECT_EQ(DoJson("GET", "/health")["status"], "ok");
  EXPECT_EQ(DoJson("GET", "/readyz")["status"], "ready");
  const Json memory = DoJson("GET", "/v1/memory");
  EXPECT_EQ(memory["budget_bytes"], 1 << 20);
  EXPECT_EQ(memory["owners"]["weights"], 100);
  EXPECT_EQ(memory["owners"]["runtime"], 500);
  EXPECT_EQ(memory["used_bytes"], 1500);
  EXPECT_GT(memory["resident_bytes"].get<int64_t>(), 0);
  DoJson("POST", "/v1/chat/completions", Chat());
  const HttpReply metrics = Do("GET", "/metrics");
  EXPECT_TRUE(metrics.Header("Content-Type").starts_with("text/plain; version=0.0.4"));
  for (const char* line :
       {"ballast_requests_submitted_total 1", "ballast_memory_bytes{owner=\"kv\"} 200",
        "ballast_http_replies_total{route=\"/v1/chat/completions\",status=\"200\"} 1",
        "ballast_time_to_first_token_seconds_count 1", "ballast_model_info{"}) {
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << "\n" << metrics.body;
  }
}

TEST_F(ServerApi, ServesTheConsole) {
  Start();
  const HttpReply page = Do("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.Header("Content-Type").starts_with("text/html"));
  EXPECT_NE(page.Header("Content-Security-Policy").find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.body.find("assets/index.js"), std::string::npos);
  EXPECT_EQ(Do("GET", "/assets/index.js").status, 200);
  EXPECT_EQ(Do("GET", "/assets/../../etc/passwd").status, 404);
  const HttpReply again = Do("GET", "/", "", {{"If-None-Match", std::string(page.Header("ETag"))}});
  EXPECT_EQ(again.status, 304);
}

TEST_F(ServerApi, HandlesMethods) {
  Start();
  const HttpReply head = Do("HEAD", "/v1/models");
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.body.empty());
  const HttpReply options = Do("OPTIONS", "/v1/chat/completions");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.Header("Allow"), "POST, OPTIONS");
  EXPECT_TRUE(options.Header("Access-Control-Allow-Origin").empty());
  const HttpReply wrong = Do("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.Header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(DoJson("GET", "/v1/nothing", "", 404)["error"]["code"], "not_found");
}

TEST_F(ServerApi, CarriesRequestIds) {
  Start();
  const HttpHeaders mine = {{"X-Request-Id", "trace-1"}};
  EXPECT_EQ(Do("GET", "/healthz", "", mine).Header("x-request-id"), "trace-1");
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), mine).Header("x-request-id"), "trace-1");
  EXPECT_EQ(Do("POST", "/v1/chat/completions", "{", mine).Header("x-request-id"), "trace-1");
  const HttpReply other = Do("GET", "/healthz", "", {{"X-Request-Id", std::string(500, 'x')}});
  EXPECT_TRUE(other.Header("x-request-id").starts_with("req-"));
}

TEST_F(ServerApi, GuardsAgainstForeignPages) {
  ServerOptions options;
  options.allowed_origins = {"https://chat.example"};
  options.allowed_hosts = {"llm.example"};
  Start({}, options);
  const std::string own = fmt::format("http://127.0.0.1:{}", server_->port());
  EXPECT_EQ(Do("GET", "/v1/models", "", {{"Origin", own}}).status, 200);
  const HttpReply foreign = Do("GET", "/v1/models", "", {{"Origin", "https://chat.example"}});
  EXPECT_EQ(foreign.status, 200);
  EXPECT_EQ(foreign.Header("Access-Control-Allow-Origin"), "https://chat.example");
  const HttpReply preflight = Do("OPTIONS", "/v1/chat/completions", "",
                                 {{"Origin", "https://chat.example"},
                                  {"Access-Control-Request-Headers", "content-type, x-a"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Header("Access-Control-Allow-Headers"), "content-type, x-a");
  for (const char* origin : {"https://evil.example", "null", "http://127.0.0.1:1"}) {
    const HttpReply reply = Do("POST", "/v1/chat/completions", Chat(), {{"Origin", origin}});
    EXPECT_EQ(reply.status, 403) << origin;
    EXPECT_EQ(Parse(reply.body)["error"]["code"], "origin_not_allowed");
  }
  for (const auto& [host, status] : {std::pair("evil.example:80", 403),
                                     {"localhost:9", 200},
                                     {"[::1]:9", 200},
                                     {"llm.example", 200},
                                     {"a.localhost", 200}}) {
    HttpClient client = Connect();
    ASSERT_TRUE(
        client.SendRaw(fmt::format("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", host)).has_value());
    EXPECT_EQ(client.ReadReply()->status, status) << host;
  }
}

TEST_F(ServerApi, NamesTheLimitOfBodies) {
  ServerOptions options;
  options.limits.body_bytes = 2000;
  Start({}, options);
  const HttpReply reply = Do("POST", "/v1/chat/completions", Chat("", std::string(3000, 'x')));
  EXPECT_EQ(reply.status, 413);
  const Json error = Parse(reply.body)["error"];
  EXPECT_EQ(error["code"], "request_too_large");
  EXPECT_NE(error["message"].get<std::string>().find("2000"), std::string::npos);
}

}  // namespace
}  // namespace ballast
