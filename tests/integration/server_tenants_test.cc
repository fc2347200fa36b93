// Keys, scopes, quotas, the audit log and the isolation of tenants over the wire.
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/crypto.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/private_file.h"
#include "server/access.h"
#include "server_fixture.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

class TenantsServerTest : public ServerFixture {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("keys-" + Hex(RandomBytes(6)));
    ASSERT_TRUE(MakePrivateFolder(folder_.string()).has_value());
  }
  void TearDown() override {
    server_.reset();
    engine_.reset();
    fs::remove_all(folder_);
  }

  std::string Key(const std::string& tenant, unsigned scopes = kScopeInference) {
    const NewKey key = MakeKey(tenant, scopes);
    file_.keys.push_back(key.record);
    return key.secret;
  }
  std::string KeysPath() const { return (folder_ / "keys.json").string(); }
  std::string AuditPath() const { return (folder_ / "audit.jsonl").string(); }

  void StartWithKeys(FakeEngine::Options engine = {}) {
    ASSERT_TRUE(SaveKeysFile(KeysPath(), file_).has_value());
    ServerOptions options;
    options.keys = *KeyRing::Load(KeysPath());
    options.salts = TenantSalt(std::string(32, 's'));
    options.audit = *AuditLog::Open(AuditPath());
    Start(std::move(engine), std::move(options));
  }

  static HttpHeaders Bearer(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }

  /// The log's lines, after everything so far has been written.
  std::vector<Json> Audit(const std::string& event) {
    server_.reset();
    std::ifstream file(AuditPath());
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) {
      Json json = Parse(line);
      if (json["event"] == event) lines.push_back(std::move(json));
    }
    return lines;
  }

  fs::path folder_;
  KeysFile file_;
};

TEST_F(TenantsServerTest, EveryRouteAsksForItsScope) {
  const std::string inference = Key("a");
  const std::string metrics = Key("a", kScopeMetrics);
  const std::string admin = Key("ops", kScopeAdmin);
  StartWithKeys();
  const struct {
    const char* method;
    const char* path;
    unsigned scope;
  } routes[] = {
      {"GET", "/healthz", kScopeNone},
      {"GET", "/health", kScopeNone},
      {"GET", "/readyz", kScopeNone},
      {"GET", "/", kScopeNone},
      {"OPTIONS", "/v1/models", kScopeNone},
      {"GET", "/metrics", kScopeMetrics},
      {"GET", "/v1/memory", kScopeMetrics},
      {"GET", "/v1/requests", kScopeInference},
      {"DELETE", "/v1/requests/x", kScopeInference},
      {"GET", "/v1/models", kScopeInference},
      {"GET", "/v1/models/x", kScopeInference},
      {"POST", "/v1/chat/completions", kScopeInference},
      {"POST", "/v1/completions", kScopeInference},
      {"POST", "/v1/responses", kScopeInference},
      {"POST", "/v1/messages", kScopeInference},
      {"POST", "/v1/messages/count_tokens", kScopeInference},
      {"POST", "/v1/embeddings", kScopeInference},
      {"POST", "/tokenize", kScopeInference},
      {"POST", "/detokenize", kScopeInference},
      {"POST", "/apply-template", kScopeInference},
  };
  for (const auto& route : routes) {
    const auto status = [&](const HttpHeaders& headers) {
      const std::string_view body = route.method == std::string_view("POST") ? "{" : "";
      return Do(route.method, route.path, body, headers).status;
    };
    const auto expect = [&](int got, bool in, int refused) {
      if (in) {
        EXPECT_TRUE(got != 401 && got != 403) << route.path << " " << got;
      } else {
        EXPECT_EQ(got, refused) << route.path;
      }
    };
    expect(status({}), route.scope == kScopeNone, 401);
    expect(status(Bearer("bal-wrong")), route.scope == kScopeNone, 401);
    expect(status(Bearer(inference)), (route.scope & ~kScopeInference) == 0, 403);
    expect(status(Bearer(metrics)), (route.scope & ~kScopeMetrics) == 0, 403);
    expect(status(Bearer(admin)), true, 403);
  }
}

TEST_F(TenantsServerTest, BothHeadersCarryKeys) {
  const std::string key = Key("a");
  StartWithKeys();
  EXPECT_EQ(Do("GET", "/v1/models", "", {{"authorization", "bearer " + key}}).status, 200);
  EXPECT_EQ(Do("GET", "/v1/models", "", {{"X-Api-Key", key}}).status, 200);
  EXPECT_EQ(Do("GET", "/v1/models", "", {{"Authorization", key}}).status, 401);
  EXPECT_EQ(Do("GET", "/v1/models", "", {{"Authorization", "Bearer x"}, {"x-api-key", key}}).status,
            401);
}

TEST_F(TenantsServerTest, ErrorsHaveTheShapeOfTheirSurface) {
  ServerOptions options;
  options.keys = *KeyRing::Single("sk-the-only-key");
  options.limits.body_bytes = 100;
  Start({}, std::move(options));
  const HttpReply openai = Do("POST", "/v1/chat/completions", Chat());
  EXPECT_EQ(openai.status, 401);
  EXPECT_EQ(openai.Header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(Parse(openai.body)["error"]["code"], "invalid_api_key");
  const HttpHeaders good{{"x-api-key", "sk-the-only-key"}};
  const struct {
    const char* method;
    const char* path;
    std::string body;
    HttpHeaders headers;
    int status;
    const char* type;
  } cases[] = {
      {"POST", "/v1/messages", "{}", {}, 401, "authentication_error"},
      {"POST", "/v1/messages/count_tokens", "{}", {}, 401, "authentication_error"},
      {"POST", "/v1/messages", std::string(200, ' '), good, 413, "request_too_large"},
      {"GET", "/v1/messages", "", good, 405, "invalid_request_error"},
      {"POST", "/v1/messages/none", "{}", good, 404, "not_found_error"},
      {"POST", "/v1/messages", "{}", {{"Origin", "http://evil.example"}}, 403, "permission_error"},
      {"POST", "/v1/messages/count_tokens", "{}", good, 400, "invalid_request_error"},
  };
  for (const auto& test : cases) {
    const HttpReply reply = Do(test.method, test.path, test.body, test.headers);
    EXPECT_EQ(reply.status, test.status) << test.path;
    const Json json = Parse(reply.body);
    EXPECT_EQ(json["type"], "error") << reply.body;
    EXPECT_EQ(json["error"]["type"], test.type) << reply.body;
    EXPECT_EQ(json["request_id"], std::string(reply.Header("request-id"))) << test.path;
  }
  const HttpReply large = Do("POST", "/v1/chat/completions", std::string(200, ' '), good);
  EXPECT_EQ(Parse(large.body)["error"]["code"], "request_too_large");
}

TEST_F(TenantsServerTest, AnOpenAddressNeedsKeys) {
  engine_ = std::make_unique<FakeEngine>(FakeEngine::Options());
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1"}) {
    ServerOptions options;
    options.host = host;
    options.port = 0;
    const auto refused = Server::Start(options, *engine_);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    for (const char* word : {"--host", host, "--keys-file", "--api-key", "127.0.0.1"}) {
      EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
    }
  }
  ServerOptions options;
  options.host = "0.0.0.0";
  options.port = 0;
  options.keys = *KeyRing::Single("sk-the-only-key");
  EXPECT_TRUE(Server::Start(options, *engine_).has_value());
}

TEST_F(TenantsServerTest, TheEngineLearnsTheTenantFromTheKeyOnly) {
  const std::string acme = Key("acme");
  const std::string other = Key("other");
  StartWithKeys();
  const std::string forged = Chat(R"(,"user":"other","metadata":{"tenant":"other"})");
  EXPECT_EQ(Do("POST", "/v1/chat/completions", forged, Bearer(acme)).status, 200);
  EXPECT_EQ(engine_->last().tenant, "acme");
  EXPECT_EQ(Hex(engine_->last().cache_salt), Hex(HmacSha256(std::string(32, 's'), "acme")));
  EXPECT_EQ(Do("POST", "/v1/embeddings", R"({"input":"x"})", Bearer(other)).status, 200);
  EXPECT_EQ(engine_->last().tenant, "other");
  EXPECT_EQ(Hex(engine_->last().cache_salt), Hex(HmacSha256(std::string(32, 's'), "other")));
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(R"(,"tenant":"other")"), Bearer(acme)).status,
            400);
}

TEST_F(TenantsServerTest, WithoutKeysThereIsNoTenant) {
  Start();
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), Bearer("whatever")).status, 200);
  EXPECT_EQ(engine_->last().tenant, "");
  EXPECT_EQ(engine_->last().cache_salt, "");
  EXPECT_EQ(Do("GET", "/metrics").body.find("ballast_tenant_"), std::string::npos);
}

TEST_F(TenantsServerTest, RequestsPerMinuteHoldUnder64Clients) {
  const std::string flood = Key("flood");
  const std::string calm = Key("calm");
  file_.tenants["flood"].requests_per_minute = 20;
  StartWithKeys();
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  std::atomic<int> other{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      HttpClient client = Connect();
      for (int j = 0; j < 2; ++j) {
        const auto reply = client.Do("POST", "/v1/chat/completions", Chat(), Bearer(flood));
        const int status = reply ? reply->status : 0;
        (status == 200 ? served : status == 429 ? refused : other) += 1;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served.load(), 20);
  EXPECT_EQ(refused.load(), 108);
  EXPECT_EQ(other.load(), 0);
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), Bearer(calm)).status, 200);
  const HttpReply reply = Do("POST", "/v1/chat/completions", Chat(), Bearer(flood));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(Parse(reply.body)["error"]["code"], "rate_limit_exceeded");
  const int wait = std::stoi(std::string(reply.Header("Retry-After")));
  EXPECT_TRUE(wait >= 1 && wait <= 61) << wait;
  EXPECT_EQ(reply.Header("x-ratelimit-limit-requests"), "20");
  EXPECT_EQ(reply.Header("x-ratelimit-remaining-requests"), "0");
  const Json anthropic =
      Parse(Do("POST", "/v1/messages", "{}", {{"x-api-key", flood}}).body)["error"];
  EXPECT_EQ(anthropic["type"], "rate_limit_error");
}

TEST_F(TenantsServerTest, ConcurrentRequestsHoldUnder64Clients) {
  const std::string flood = Key("flood");
  const std::string calm = Key("calm");
  file_.tenants["flood"].concurrent_requests = 5;
  StartWithKeys();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      HttpClient client = Connect();
      const auto reply = client.Do("POST", "/v1/chat/completions", Chat(), Bearer(flood));
      (reply && reply->status == 200 ? served : refused) += 1;
    });
  }
  EXPECT_TRUE(Eventually([&] { return refused.load() == 59; })) << refused.load();
  EXPECT_TRUE(engine_->AwaitActive(5));
  engine_->SetHold(FakeEngine::Hold::kNothing);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(served.load(), 5);
  EXPECT_EQ(refused.load(), 59);
  // A client with one request at a time never meets its own last one, streamed or not.
  file_.tenants["calm"].concurrent_requests = 1;
  ASSERT_TRUE(SaveKeysFile(KeysPath(), file_).has_value());
  server_->Reload();
  for (int i = 0; i < 50; ++i) {
    const std::string more = i % 2 == 0 ? "" : R"(,"stream":true)";
    EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(more), Bearer(calm)).status, 200) << i;
  }
}

TEST_F(TenantsServerTest, ALeavingClientGivesItsPlaceBack) {
  const std::string key = Key("a");
  file_.tenants["a"].concurrent_requests = 1;
  StartWithKeys();
  engine_->SetHold(FakeEngine::Hold::kDecode);
  {
    HttpClient client = Connect();
    ASSERT_TRUE(
        client.SendRequest("POST", "/v1/chat/completions", Chat(), Bearer(key)).has_value());
    ASSERT_TRUE(engine_->AwaitActive(1));
    EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), Bearer(key)).status, 429);
  }
  ASSERT_TRUE(engine_->AwaitCancelled(1));
  engine_->SetHold(FakeEngine::Hold::kNothing);
  EXPECT_TRUE(Eventually(
      [&] { return Do("POST", "/v1/chat/completions", Chat(), Bearer(key)).status == 200; }));
  const auto lines = Audit("request");
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const Json& line) { return line["status"] == 499; }),
            1);
}

TEST_F(TenantsServerTest, TokensPerMinuteAreSetAsideAndSettled) {
  const std::string key = Key("a");
  file_.tenants["a"].tokens_per_minute = 300;
  StartWithKeys();
  const auto complete = [&](int64_t prompt, int64_t max_tokens) {
    Json body{{"prompt", std::vector<int>(static_cast<size_t>(prompt), 1)},
              {"max_tokens", max_tokens}};
    return Do("POST", "/v1/completions", DumpJson(body), Bearer(key));
  };
  const HttpReply never = complete(100, 201);
  EXPECT_EQ(never.status, 400);
  EXPECT_EQ(Parse(never.body)["error"]["code"], "tokens_over_quota");
  const HttpReply first = complete(100, 200);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.Header("x-ratelimit-remaining-tokens"), "0");  // while it runs
  const int64_t used = Parse(first.body)["usage"]["total_tokens"].get<int64_t>();
  ASSERT_LT(used, 200);
  EXPECT_EQ(complete(1, 299 - used + 1).status, 429);
  EXPECT_EQ(complete(1, 299 - used).status, 200);
  EXPECT_EQ(complete(300, 1).status, 400);
  const Json error = Parse(complete(200, 10).body)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("tokens_per_minute of 300"),
            std::string::npos);
}

TEST_F(TenantsServerTest, MetricsShowATenantItselfOnly) {
  const std::string a = Key("tenant-a", kScopeInference | kScopeMetrics);
  const std::string b = Key("tenant-b", kScopeInference | kScopeMetrics);
  const std::string admin = Key("ops", kScopeAdmin);
  StartWithKeys();
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), Bearer(a)).status, 200);
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat(), Bearer(b)).status, 200);
  const std::string of_a = Do("GET", "/metrics", "", Bearer(a)).body;
  EXPECT_NE(of_a.find("ballast_tenant_requests_total{tenant=\"tenant-a\"} 1"), std::string::npos);
  EXPECT_EQ(of_a.find("tenant-b"), std::string::npos);
  const std::string all = Do("GET", "/metrics", "", Bearer(admin)).body;
  EXPECT_NE(all.find("tenant=\"tenant-a\""), std::string::npos);
  EXPECT_NE(all.find("tenant=\"tenant-b\""), std::string::npos);
}

TEST_F(TenantsServerTest, NothingOfOneTenantShowsInWhatAnotherGets) {
  const std::string victim = Key("victim-tenant");
  const std::string spy = Key("spy");
  file_.tenants["spy"].concurrent_requests = 1;
  FakeEngine::Options engine;
  engine.queue_limit = 1;
  engine.max_running = 1;
  StartWithKeys(engine);
  engine_->SetHold(FakeEngine::Hold::kDecode);
  std::vector<HttpClient> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(Connect());
    HttpHeaders headers = Bearer(victim);
    headers.emplace_back("x-request-id", "id-77");
    ASSERT_TRUE(held.back()
                    .SendRequest("POST", "/v1/chat/completions", Chat("", "the secret"), headers)
                    .has_value());
    ASSERT_TRUE(engine_->AwaitActive(i + 1));
    ASSERT_TRUE(Eventually([&] { return engine_->Stats().running == 1; }));  // one runs, one waits
  }
  std::string seen;
  for (const auto& [method, path, body] :
       std::vector<std::array<std::string, 3>>{{"POST", "/v1/chat/completions", Chat()},
                                               {"POST", "/v1/messages", "{}"},
                                               {"GET", "/v1/models", ""},
                                               {"GET", "/v1/memory", ""},
                                               {"GET", "/metrics", ""},
                                               {"GET", "/v1/requests", ""},
                                               {"DELETE", "/v1/requests/id-77", ""}}) {
    const HttpReply reply = Do(method, path, body, Bearer(spy));
    EXPECT_TRUE(reply.status >= 400 || path == "/v1/models" || path == "/v1/requests") << path;
    seen += reply.body;
    for (const auto& [name, value] : reply.headers) seen += name + ": " + value + "\n";
  }
  for (const char* word : {"victim", "the secret", victim.c_str()}) {
    EXPECT_EQ(seen.find(word), std::string::npos) << word << " in " << seen;
  }
  EXPECT_TRUE(engine_->AwaitActive(2));  // nothing was cancelled
  engine_->SetHold(FakeEngine::Hold::kNothing);
  for (HttpClient& client : held) EXPECT_EQ(client.ReadReply()->status, 200);
}

TEST_F(TenantsServerTest, TheAuditLogHasALineARequestAndNoText) {
  const std::string key = Key("acme");
  StartWithKeys();
  HttpHeaders headers = Bearer(key);
  headers.emplace_back("x-request-id", "req-1");
  const Json usage =
      Parse(Do("POST", "/v1/chat/completions", Chat("", "confidential"), headers).body)["usage"];
  Do("POST", "/v1/chat/completions", Chat(R"(,"stream":true)", "confidential"), Bearer(key));
  Do("GET", "/v1/models", "", Bearer("bal-wrong"));
  Do("GET", "/metrics", "", Bearer(key));
  ASSERT_TRUE(WritePrivateFile(KeysPath(), "{", IfPresent::kReplace).has_value());
  server_->Reload();
  ASSERT_TRUE(SaveKeysFile(KeysPath(), file_).has_value());
  server_->Reload();
  struct stat info{};
  ASSERT_EQ(stat(AuditPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const auto requests = Audit("request");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0]["request_id"], "req-1");
  EXPECT_EQ(requests[0]["tenant"], "acme");
  EXPECT_EQ(requests[0]["key"], file_.keys[0].id);
  EXPECT_EQ(requests[0]["route"], "/v1/chat/completions");
  EXPECT_EQ(requests[0]["status"], 200);
  EXPECT_EQ(requests[0]["prompt_tokens"], usage["prompt_tokens"]);
  EXPECT_EQ(requests[0]["completion_tokens"], usage["completion_tokens"]);
  EXPECT_GE(requests[0]["duration_ms"].get<double>(), 0);
  EXPECT_EQ(requests[1]["completion_tokens"], usage["completion_tokens"]);
  const auto denied = Audit("denied");
  ASSERT_EQ(denied.size(), 2u);
  EXPECT_EQ(denied[0]["reason"], "invalid_api_key");
  EXPECT_EQ(denied[1]["reason"], "insufficient_scope");
  EXPECT_EQ(denied[1]["tenant"], "acme");
  const auto reloads = Audit("keys_reload");
  ASSERT_EQ(reloads.size(), 2u);
  EXPECT_EQ(reloads[0]["ok"], false);
  EXPECT_EQ(reloads[1]["ok"], true);
  std::stringstream text;
  text << std::ifstream(AuditPath()).rdbuf();
  EXPECT_EQ(text.str().find("confidential"), std::string::npos);
  EXPECT_EQ(text.str().find(key), std::string::npos);
  EXPECT_EQ(text.str().find("Grüße"), std::string::npos);
}

TEST_F(TenantsServerTest, ARotatedAuditLogStartsAnew) {
  const std::string key = Key("acme");
  StartWithKeys();
  Do("GET", "/v1/models", "", Bearer(key));
  fs::rename(AuditPath(), AuditPath() + ".1");
  server_->Reload();
  Do("GET", "/v1/models", "", Bearer(key));
  EXPECT_EQ(Audit("request").size(), 1u);
  EXPECT_TRUE(fs::exists(AuditPath() + ".1"));
}

}  // namespace
}  // namespace ballast
