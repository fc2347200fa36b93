// Clients that misbehave: they hang up at every stage, do not read, stall, or come all at once.
#include <atomic>

#include "server_fixture.h"

namespace ballast {
namespace {

using Hold = FakeEngine::Hold;
using CloseMode = HttpClient::CloseMode;

struct HangUpCase {
  Hold hold;
  bool stream;
  CloseMode mode;
};

class HangUp : public ServerFixture, public ::testing::WithParamInterface<HangUpCase> {};

TEST_P(HangUp, CancelsTheRequestAndNobodyElses) {
  Start();
  const HangUpCase param = GetParam();
  engine_->SetHold(param.hold);
  HttpClient leaver = Connect();
  HttpClient stayer = Connect();
  const std::string body = Chat(param.stream ? R"(,"stream":true)" : "");
  ASSERT_TRUE(leaver.SendRequest("POST", "/v1/chat/completions", body).has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  ASSERT_TRUE(stayer.SendRequest("POST", "/v1/chat/completions", Chat()).has_value());
  ASSERT_TRUE(engine_->AwaitActive(2));
  if (param.stream) {
    ASSERT_TRUE(leaver.ReadHead().has_value());
  }
  leaver.Close(param.mode);
  EXPECT_TRUE(engine_->AwaitCancelled(1));
  EXPECT_TRUE(engine_->AwaitActive(1));
  engine_->SetHold(Hold::kNothing);
  const auto reply = stayer.ReadReply();
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(engine_->Stats().cancelled_total, 1);
}

std::vector<HangUpCase> HangUpCases() {
  std::vector<HangUpCase> cases;
  for (const Hold hold : {Hold::kQueue, Hold::kPrefill, Hold::kDecode}) {
    for (const bool stream : {false, true}) {
      for (const CloseMode mode : {CloseMode::kOrderly, CloseMode::kReset}) {
        cases.push_back({hold, stream, mode});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AtEveryStage, HangUp, ::testing::ValuesIn(HangUpCases()),
                         [](const auto& info) {
                           const HangUpCase& c = info.param;
                           std::string name = c.hold == Hold::kQueue     ? "Queued"
                                              : c.hold == Hold::kPrefill ? "InPrefill"
                                                                         : "InDecode";
                           name += c.stream ? "Streamed" : "Whole";
                           return name + (c.mode == CloseMode::kOrderly ? "Orderly" : "Reset");
                         });

class ServerClients : public ServerFixture {};

TEST_F(ServerClients, HangUpCancelsAllPromptsOfACall) {
  Start();
  engine_->SetHold(Hold::kDecode);
  HttpClient client = Connect();
  ASSERT_TRUE(
      client.SendRequest("POST", "/v1/completions", R"({"prompt":["a","b","c"]})").has_value());
  ASSERT_TRUE(engine_->AwaitActive(3));
  client.Close();
  EXPECT_TRUE(engine_->AwaitCancelled(3));
}

TEST_F(ServerClients, DropsAndCancelsASlowReader) {
  FakeEngine::Options options;
  options.context = 1 << 20;
  ServerOptions server;
  server.limits.queue_bytes = 128 * 1024;
  Start(options, server);
  HttpClient slow = Connect();
  slow.ShrinkReceiveBuffer();
  ASSERT_TRUE(
      slow.SendRequest("POST", "/v1/chat/completions", Chat(R"(,"stream":true,"ignore_eos":true)"))
          .has_value());
  EXPECT_TRUE(engine_->AwaitCancelled(1, 30'000));
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat()).status, 200);
}

TEST_F(ServerClients, AnswersPipelinedCallsInOrder) {
  Start();
  HttpClient client = Connect();
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(client
                    .SendRequest("POST", "/v1/completions",
                                 fmt::format(R"({{"prompt":"a","max_tokens":{}}})", i))
                    .has_value());
  }
  for (int i = 1; i <= 5; ++i) {
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    EXPECT_EQ(Parse(reply->body)["usage"]["completion_tokens"], i);
  }
}

TEST_F(ServerClients, DrainLetsRunningCallsEndAndRefusesNewOnes) {
  FakeEngine::Options options;
  options.step_ms = 5;
  Start(options);
  HttpClient running = Connect();
  HttpClient late = Connect();
  ASSERT_TRUE(running.SendRequest("POST", "/v1/chat/completions", Chat()).has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  std::thread drain([&] { server_->Drain(10'000); });
  ASSERT_TRUE(Eventually([&] {
    auto reply = late.Do("GET", "/readyz");
    return reply && reply->status == 503;
  }));
  const auto refused = late.Do("POST", "/v1/chat/completions", Chat());
  ASSERT_TRUE(refused.has_value()) << refused.error().message;
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(Parse(refused->body)["error"]["code"], "draining");
  const auto reply = running.ReadReply();
  drain.join();
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(engine_->Stats().cancelled_total, 0);
}

TEST_F(ServerClients, DrainAnswersWhatItHasToCancel) {
  Start();
  engine_->SetHold(Hold::kDecode);
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/v1/chat/completions", Chat()).has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  server_->Drain(20);
  const auto reply = client.ReadReply();
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->status, 503);
}

TEST_F(ServerClients, StopCancelsOpenCalls) {
  Start();
  engine_->SetHold(Hold::kDecode);
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("POST", "/v1/chat/completions", Chat()).has_value());
  ASSERT_TRUE(engine_->AwaitActive(1));
  server_->Stop();
  EXPECT_TRUE(engine_->AwaitCancelled(1));
}

// 200 clients at once: a quarter each connect and stall, hang up in the middle, flood, or behave.
TEST_F(ServerClients, StaysHealthyUnderACrowd) {
  FakeEngine::Options options;
  options.queue_limit = 1000;
  options.context = 1 << 20;  // so long that no leaver's text ends before the leaver is scheduled
  ServerOptions server;
  server.limits.header_timeout_ms = 500;
  server.limits.body_timeout_ms = 500;
  Start(options, server);
  constexpr int kClients = 200;
  std::atomic<int> good{0};
  std::atomic<int> behaved{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kClients; ++t) {
    threads.emplace_back([&, t] {
      auto client = HttpClient::Connect("127.0.0.1", server_->port(), 20'000);
      if (!client) return;
      switch (t % 4) {
        case 0:
          (void)client->SendRaw(t % 8 == 0 ? "POST /v1/chat/completions HTTP/1.1\r\nHost: x"
                                           : "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost"
                                             "\r\nContent-Length: 99\r\n\r\n{");
          (void)client->AwaitClose();
          break;
        case 1:
          (void)client->SendRequest("POST", "/v1/chat/completions",
                                    Chat(R"(,"stream":true,"ignore_eos":true)"));
          (void)client->ReadHead();
          client->Close(t % 8 == 1 ? CloseMode::kOrderly : CloseMode::kReset);
          break;
        case 2:
          (void)client->SendRaw(std::string(300'000, static_cast<char>('a' + t % 26)));
          break;
        default: {
          ++behaved;
          const auto reply = client->Do("POST", "/v1/chat/completions", Chat());
          if (reply && reply->status == 200) ++good;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(behaved.load(), kClients / 4);
  EXPECT_EQ(good.load(), behaved.load());
  EXPECT_TRUE(engine_->AwaitActive(0, 20'000));
  EXPECT_TRUE(engine_->AwaitCancelled(kClients / 4, 20'000));
  EXPECT_EQ(Do("GET", "/healthz").status, 200);
  EXPECT_EQ(Do("POST", "/v1/chat/completions", Chat()).status, 200);
  // Nothing of the crowd is left: this client's is the only connection.
  EXPECT_TRUE(Eventually([&] {
    return Do("GET", "/metrics").body.find("ballast_http_connections 1\n") != std::string::npos;
  }));
}

}  // namespace
}  // namespace ballast
