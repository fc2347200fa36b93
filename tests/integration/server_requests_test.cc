// Listing and cancelling open requests over HTTP.
#include <filesystem>

#include "base/crypto.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/private_file.h"
#include "server/tenants.h"
#include "server_fixture.h"

namespace ballast {
namespace {

class RequestsTest : public ServerFixture {
 protected:
  Json List() { return DoJson("GET", "/v1/requests")["data"]; }
  /// Sends a request without waiting for its reply.
  HttpClient Send(std::string_view target, std::string_view body, const HttpHeaders& headers = {}) {
    HttpClient client = Connect();
    EXPECT_TRUE(client.SendRequest("POST", target, body, headers).has_value());
    return client;
  }
  /// The only open request once it is in `state`.
  Json AwaitState(std::string_view state) {
    Json request;
    EXPECT_TRUE(Eventually([&] {
      const Json listed = List();
      if (listed.size() != 1) return false;
      request = listed[0];
      return request["state"] == state;
    })) << state;
    return request;
  }
  bool Empties() {
    return Eventually([&] { return List().empty(); });
  }
};

TEST_F(RequestsTest, NothingIsListedWhenNothingRuns) {
  Start();
  EXPECT_EQ(DoJson("GET", "/v1/requests"), (Json{{"object", "list"}, {"data", Json::array()}}));
  DoJson("POST", "/v1/chat/completions", Chat());
  EXPECT_TRUE(Empties());
}

TEST_F(RequestsTest, StatesFollowTheRequestAndItsTextIsNeverShown) {
  Start({.prefill_tokens = 8});
  engine_->SetHold(FakeEngine::Hold::kQueue);
  HttpClient client =
      Send("/v1/chat/completions", Chat(R"(,"stream":true,"max_tokens":50)", "a secret word"),
           {{"x-request-id", "mine-1"}});
  const Json queued = AwaitState("queued");
  EXPECT_TRUE(queued["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(queued["object"], "request");
  EXPECT_EQ(queued["request_id"], "mine-1");
  EXPECT_EQ(queued["route"], "/v1/chat/completions");
  EXPECT_EQ(queued["model"], "fake-model");
  EXPECT_EQ(queued["tenant"], nullptr);
  EXPECT_EQ(queued["stream"], true);
  EXPECT_EQ(queued["choices"], 1);
  EXPECT_EQ(queued["max_tokens"], 50);
  EXPECT_EQ(queued["prompt_tokens_done"], 0);
  EXPECT_EQ(queued["generated_tokens"], 0);
  EXPECT_GT(queued["prompt_tokens"], 8);
  EXPECT_GE(queued["age_ms"], 0);
  EXPECT_EQ(Do("GET", "/v1/requests").body.find("secret"), std::string::npos);

  engine_->SetHold(FakeEngine::Hold::kDecode);
  const Json decoding = AwaitState("decode");
  EXPECT_EQ(decoding["id"], queued["id"]);
  EXPECT_EQ(decoding["prompt_tokens_done"], decoding["prompt_tokens"]);
  EXPECT_EQ(decoding["generated_tokens"], 1);
  EXPECT_GE(decoding["age_ms"], queued["age_ms"]);

  engine_->SetHold(FakeEngine::Hold::kNothing);
  const SseResult result = ReadStream(client);
  EXPECT_TRUE(result.done);
  EXPECT_EQ(result.chunks[0]["id"], queued["id"]);
  EXPECT_TRUE(Empties());
}

TEST_F(RequestsTest, PrefillIsShownForWholeRepliesToo) {
  Start({.prefill_tokens = 8, .step_ms = 20});
  const std::string text(400, 'x');
  HttpClient client = Send("/v1/completions", R"({"prompt":")" + text + R"("})");
  const Json prefill = AwaitState("prefill");
  EXPECT_EQ(prefill["prompt_tokens"], 400);
  EXPECT_EQ(prefill["stream"], false);
  DoJson("DELETE", "/v1/requests/" + prefill["id"].get<std::string>());
  EXPECT_TRUE(client.ReadReply().has_value());
}

TEST_F(RequestsTest, CancellingEndsAStreamWithAnErrorAndFreesTheEngine) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  HttpClient client = Send("/v1/chat/completions", Chat(R"(,"stream":true)"));
  const auto id = AwaitState("decode")["id"].get<std::string>();
  const Json reply = DoJson("DELETE", "/v1/requests/" + id);
  EXPECT_EQ(reply, (Json{{"id", id}, {"object", "request"}, {"cancelled", true}}));
  const SseResult result = ReadStream(client);
  EXPECT_FALSE(result.done);
  ASSERT_TRUE(result.chunks.back().contains("error"));
  EXPECT_EQ(result.chunks.back()["error"]["code"], "cancelled");
  EXPECT_TRUE(engine_->AwaitCancelled(1));
  EXPECT_TRUE(engine_->AwaitActive(0));
  EXPECT_TRUE(List().empty());
  EXPECT_EQ(DoJson("DELETE", "/v1/requests/" + id, "", 404)["error"]["code"], "request_not_found");
}

TEST_F(RequestsTest, CancellingAQueuedRequestAnswersItsClient) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kQueue);
  HttpClient client = Send("/v1/chat/completions", Chat(R"(,"n":2)"));
  const Json queued = AwaitState("queued");
  EXPECT_EQ(queued["choices"], 2);
  DoJson("DELETE", "/v1/requests/" + queued["id"].get<std::string>());
  const auto reply = client.ReadReply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 499);
  EXPECT_EQ(Parse(reply->body)["error"]["code"], "cancelled");
  EXPECT_TRUE(engine_->AwaitCancelled(2));
}

TEST_F(RequestsTest, OtherSurfacesAndEmbeddingsAreListedAndCancelled) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kPrefill);
  const struct {
    std::string target;
    std::string body;
    std::string error_member;
  } calls[] = {
      {"/v1/embeddings", R"({"model":"fake-model","input":["one","two"]})", "code"},
      {"/v1/messages",
       R"({"model":"fake-model","max_tokens":9,"messages":[{"role":"user","content":"x"}]})",
       "message"},
      {"/v1/responses", R"({"model":"fake-model","input":"x"})", "code"},
  };
  int64_t cancelled = 0;
  for (const auto& call : calls) {
    HttpClient client = Send(call.target, call.body);
    Json listed;
    ASSERT_TRUE(Eventually([&] {
      listed = List();
      return listed.size() == 1;
    })) << call.target;
    EXPECT_EQ(listed[0]["route"], call.target);
    DoJson("DELETE", "/v1/requests/" + listed[0]["id"].get<std::string>());
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.has_value()) << call.target;
    EXPECT_NE(Parse(reply->body)["error"][call.error_member].get<std::string>().find("cancelled"),
              std::string::npos)
        << reply->body;
    cancelled += call.target == "/v1/embeddings" ? 2 : 1;
    EXPECT_TRUE(engine_->AwaitCancelled(cancelled));
  }
}

TEST_F(RequestsTest, AClientThatLeftIsNotListed) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  {
    HttpClient client = Send("/v1/chat/completions", Chat(R"(,"stream":true)"));
    AwaitState("decode");
  }
  EXPECT_TRUE(Empties());
  EXPECT_TRUE(engine_->AwaitCancelled(1));
}

TEST_F(RequestsTest, ManyAreListedInOrderOfArrival) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kQueue);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(
        Send("/v1/chat/completions", Chat(), {{"x-request-id", "r" + std::to_string(i)}}));
    ASSERT_TRUE(Eventually([&] { return List().size() == static_cast<size_t>(i) + 1; }));
  }
  const Json listed = List();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(listed[i]["request_id"], "r" + std::to_string(i));
  engine_->SetHold(FakeEngine::Hold::kNothing);
  for (HttpClient& client : clients) EXPECT_TRUE(client.ReadReply().has_value());
  EXPECT_TRUE(Empties());
}

TEST_F(RequestsTest, MethodsAreNamed) {
  Start();
  const HttpReply list = Do("OPTIONS", "/v1/requests");
  EXPECT_EQ(list.Header("Allow"), "GET, HEAD, OPTIONS");
  const HttpReply one = Do("GET", "/v1/requests/x");
  EXPECT_EQ(one.status, 405);
  EXPECT_EQ(one.Header("Allow"), "DELETE, OPTIONS");
}

TEST_F(RequestsTest, ForeignPagesMayNotCancel) {
  Start();
  EXPECT_EQ(Do("DELETE", "/v1/requests/x", "", {{"Origin", "http://evil.example"}}).status, 403);
}

TEST_F(RequestsTest, TenantsSeeAndCancelOnlyTheirOwn) {
  const NewKey a = MakeKey("a", kScopeInference);
  const NewKey b = MakeKey("b", kScopeInference);
  const NewKey ops = MakeKey("ops", kScopeAdmin);
  const std::string path = ::testing::TempDir() + "/requests-" + Hex(RandomBytes(6)) + "/keys.json";
  ASSERT_TRUE(MakePrivateFolder(std::filesystem::path(path).parent_path().string()).has_value());
  KeysFile file;
  file.keys = {a.record, b.record, ops.record};
  ASSERT_TRUE(SaveKeysFile(path, file).has_value());
  ServerOptions options;
  options.keys = *KeyRing::Load(path);
  Start({}, std::move(options));
  const auto bearer = [](const NewKey& key) -> HttpHeaders {
    return {{"Authorization", "Bearer " + key.secret}};
  };
  const auto list = [&](const NewKey& key) {
    return Parse(Do("GET", "/v1/requests", "", bearer(key)).body)["data"];
  };
  engine_->SetHold(FakeEngine::Hold::kQueue);
  HttpClient chat = Send("/v1/chat/completions", Chat(), bearer(a));
  ASSERT_TRUE(Eventually([&] { return list(a).size() == 1; }));
  HttpClient embed = Send("/v1/embeddings", R"({"model":"fake-model","input":"x"})", bearer(b));
  ASSERT_TRUE(Eventually([&] { return list(b).size() == 1; }));
  EXPECT_EQ(list(a)[0]["tenant"], "a");
  EXPECT_EQ(list(b)[0]["tenant"], "b");
  EXPECT_EQ(list(ops).size(), 2);
  const std::string of_a = "/v1/requests/" + list(a)[0]["id"].get<std::string>();
  const std::string of_b = "/v1/requests/" + list(b)[0]["id"].get<std::string>();
  EXPECT_EQ(Do("DELETE", of_a, "", bearer(b)).status, 404);
  EXPECT_EQ(list(a).size(), 1);
  EXPECT_EQ(Do("DELETE", of_a, "", bearer(a)).status, 200);
  EXPECT_EQ(Do("DELETE", of_b, "", bearer(ops)).status, 200);
  EXPECT_TRUE(chat.ReadReply().has_value());
  EXPECT_TRUE(embed.ReadReply().has_value());
  EXPECT_TRUE(list(ops).empty());
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST_F(RequestsTest, ModelsTellWhatIsLoaded) {
  Start();
  const Json meta = DoJson("GET", "/v1/models")["data"][0]["meta"];
  EXPECT_EQ(meta["resident_size"], 1000);
  EXPECT_EQ(meta["size"], 2000);
  EXPECT_EQ(meta["n_params"], 1744);
  EXPECT_EQ(meta["n_layer"], 2);
  EXPECT_EQ(meta["level"], "standard");
  EXPECT_EQ(meta["decode_backend"], "standard");
  EXPECT_EQ(meta["weight_types"][0], (Json{{"type", "Q8_0"}, {"tensors", 3}, {"bytes", 1800}}));
}

}  // namespace
}  // namespace ballast
