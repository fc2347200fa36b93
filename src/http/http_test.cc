// Behaviour of the HTTP server over real sockets: limits, hang-ups, slow readers, keep-alive, stop.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "http/client.h"
#include "http/reply_queue.h"
#include "http/request_parser.h"
#include "http/server.h"

namespace ballast {
namespace {

using std::chrono::milliseconds;

/// Waits for a condition that another thread makes true.
bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + milliseconds(10'000);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

/// /echo answers with the body; /hold never answers; /flood streams until told that nobody reads.
class TestHandler final : public HttpHandler {
 public:
  void Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override {
    if (request.path == "/hold") {
      exchange->OnClosed([this] { ++closed; });
      const std::lock_guard lock(mutex);
      held.push_back(std::move(exchange));
      return;
    }
    if (request.path == "/stream") {
      HttpResponse head;
      head.content_type = "text/event-stream";
      exchange->StartStream(head);
      exchange->Write("data: 1\n\n");
      exchange->Write("data: 2\n\n");
      exchange->Finish();
      exchange->Write("data: never\n\n");
      return;
    }
    if (request.path == "/flood") {
      exchange->OnClosed([this] { ++closed; });
      exchange->StartStream({});
      while (exchange->Write(std::string(64 * 1024, 'x'))) ++floods;
      return;
    }
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.method + " " + request.path + " " + request.body;
    exchange->Send(std::move(response));
  }
  HttpResponse TransportError(int status, std::string_view message, std::string_view) override {
    HttpResponse response;
    response.status = status;
    response.body = message;
    return response;
  }

  std::atomic<int> closed{0};
  std::atomic<int> floods{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
};

class HttpTest : public ::testing::Test {
 protected:
  void Start(HttpLimits limits = {}) {
    HttpServerOptions options;
    options.limits = limits;
    auto started = HttpServer::Start(options, handler_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }
  HttpClient Connect() {
    auto client = HttpClient::Connect("127.0.0.1", server_->port());
    EXPECT_TRUE(client.has_value());
    return std::move(*client);
  }

  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTest, AnswersManyRequestsOnOneConnection) {
  Start();
  HttpClient client = Connect();
  for (int i = 0; i < 20; ++i) {
    const auto reply = client.Do("POST", "/a%20b?x=1", std::to_string(i));
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "POST /a b " + std::to_string(i));
    EXPECT_EQ(reply->Header("Connection"), "keep-alive");
  }
  EXPECT_EQ(server_->Stats().accepted_total, 1);
  EXPECT_EQ(server_->Stats().requests_total, 20);
}

TEST_F(HttpTest, AnswersPipelinedRequestsInOrder) {
  Start();
  HttpClient client = Connect();
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += fmt::format("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", i);
  }
  ASSERT_TRUE(client.SendRaw(all).has_value());
  for (int i = 0; i < 50; ++i) {
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    EXPECT_EQ(reply->body, fmt::format("GET /{} ", i));
  }
}

TEST_F(HttpTest, StreamsChunksAndEndsThem) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("GET", "/stream").has_value());
  const auto head = client.ReadHead();
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->Header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(client.ReadSse().value(), "data: 1");
  EXPECT_EQ(client.ReadSse().value(), "data: 2");
  EXPECT_EQ(client.ReadSse().error().code, Code::kOutOfRange);
  EXPECT_EQ(client.Do("GET", "/next")->body, "GET /next ");
}

TEST_F(HttpTest, StreamsToHttp10UntilClose) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRaw("GET /stream HTTP/1.0\r\n\r\n").has_value());
  const auto reply = client.ReadReply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(reply->Header("Connection"), "close");
}

TEST_F(HttpTest, HeadHasNoBody) {
  Start();
  HttpClient client = Connect();
  const auto reply = client.Do("HEAD", "/x");
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->Header("Content-Length"), "8");
  EXPECT_EQ(client.Do("GET", "/y")->body, "GET /y ");
}

TEST_F(HttpTest, ReadsChunkedBodies) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client
                  .SendRaw("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
                  .has_value());
  EXPECT_EQ(client.ReadReply()->body, "POST /c abcde");
}

TEST_F(HttpTest, SendsContinueWhenAsked) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client
                  .SendRaw("POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                           "Expect: 100-continue\r\n\r\n")
                  .has_value());
  std::this_thread::sleep_for(milliseconds(20));
  ASSERT_TRUE(client.SendRaw("hi").has_value());
  EXPECT_EQ(client.ReadReply()->body, "POST /c hi");
}

TEST_F(HttpTest, RefusesABodyOverTheLimitWithoutReadingIt) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  Start(limits);
  for (const char* framing :
       {"Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n186A0\r\n"}) {
    HttpClient client = Connect();
    ASSERT_TRUE(
        client.SendRaw(std::string("POST /c HTTP/1.1\r\nHost: a\r\n") + framing).has_value());
    (void)client.SendRaw(std::string(5000, 'x'));
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.has_value()) << reply.error().message;
    EXPECT_EQ(reply->status, 413);
    EXPECT_NE(reply->body.find("1000 bytes"), std::string::npos) << reply->body;
  }
}

TEST_F(HttpTest, RefusesHeadersOverTheLimit) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRaw("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x')).has_value());
  const auto reply = client.ReadReply();
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->status, 431);
}

TEST_F(HttpTest, RefusesMalformedRequests) {
  Start();
  for (const char* bad :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nA\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n"}) {
    HttpClient client = Connect();
    ASSERT_TRUE(client.SendRaw(bad).has_value());
    const auto reply = client.ReadReply();
    ASSERT_TRUE(reply.has_value()) << bad << reply.error().message;
    EXPECT_EQ(reply->status, 400) << bad;
    EXPECT_TRUE(client.AwaitClose());
  }
}

TEST_F(HttpTest, TimesOutSlowHeadersAndBodiesButNotOthers) {
  HttpLimits limits;
  limits.header_timeout_ms = 100;
  limits.body_timeout_ms = 100;
  Start(limits);
  HttpClient silent = Connect();
  HttpClient slow = Connect();
  HttpClient body = Connect();
  ASSERT_TRUE(slow.SendRaw("GET / HT").has_value());
  ASSERT_TRUE(body.SendRaw("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc").has_value());
  EXPECT_EQ(slow.ReadReply()->status, 408);
  EXPECT_EQ(body.ReadReply()->status, 408);
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_EQ(Connect().Do("GET", "/")->status, 200);
}

TEST_F(HttpTest, ClosesIdleConnections) {
  HttpLimits limits;
  limits.idle_timeout_ms = 50;
  Start(limits);
  HttpClient client = Connect();
  ASSERT_EQ(client.Do("GET", "/")->status, 200);
  EXPECT_TRUE(client.AwaitClose());
}

TEST_F(HttpTest, TellsTheHandlerOfAHangUpWhileItWaits) {
  Start();
  for (const auto mode : {HttpClient::CloseMode::kOrderly, HttpClient::CloseMode::kReset}) {
    HttpClient client = Connect();
    const int before = handler_.closed.load();
    ASSERT_TRUE(client.SendRequest("GET", "/hold").has_value());
    ASSERT_TRUE(Eventually([&] { return server_->Stats().connections == 1; }));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(handler_.closed.load(), before);
    client.Close(mode);
    EXPECT_TRUE(Eventually([&] { return handler_.closed.load() == before + 1; }));
    EXPECT_TRUE(Eventually([&] { return server_->Stats().connections == 0; }));
  }
  EXPECT_EQ(server_->Stats().hangups_total, 2);
}

TEST_F(HttpTest, DropsAClientThatDoesNotReadAStream) {
  HttpLimits limits;
  limits.queue_bytes = 256 * 1024;
  Start(limits);
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("GET", "/flood").has_value());
  EXPECT_TRUE(Eventually([&] { return handler_.closed.load() == 1; }));
  EXPECT_EQ(server_->Stats().slow_dropped_total, 1);
  EXPECT_GT(handler_.floods.load(), 0);
}

TEST_F(HttpTest, DropsAClientWhoseWritesStall) {
  HttpLimits limits;
  limits.write_stall_ms = 100;
  limits.queue_bytes = 64 * 1024 * 1024;
  Start(limits);
  HttpClient client = Connect();
  client.ShrinkReceiveBuffer();
  ASSERT_TRUE(client.SendRequest("GET", "/hold").has_value());
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(handler_.mutex);
    return handler_.held.size() == 1;
  }));
  handler_.held[0]->StartStream({});
  handler_.held[0]->Write(std::string(32 * 1024 * 1024, 'x'));
  EXPECT_TRUE(Eventually([&] { return handler_.closed.load() == 1; }));
  EXPECT_EQ(server_->Stats().slow_dropped_total, 1);
  EXPECT_FALSE(handler_.held[0]->Write("more"));
}

TEST_F(HttpTest, DropsAClientThatPipelinesWithoutEnd) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("GET", "/hold").has_value());
  (void)client.SendRaw(std::string(1024 * 1024, 'x'));
  EXPECT_TRUE(Eventually([&] { return handler_.closed.load() == 1; }));
}

TEST_F(HttpTest, RefusesConnectionsOverTheLimit) {
  HttpLimits limits;
  limits.max_connections = 2;
  Start(limits);
  HttpClient a = Connect();
  HttpClient b = Connect();
  ASSERT_EQ(a.Do("GET", "/")->status, 200);
  ASSERT_EQ(b.Do("GET", "/")->status, 200);
  HttpClient c = Connect();
  const auto refused = c.Do("GET", "/");
  ASSERT_TRUE(refused.has_value()) << refused.error().message;
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(server_->Stats().refused_total, 1);
  a.Close();
  EXPECT_TRUE(Eventually([&] { return Connect().Do("GET", "/")->status == 200; }));
}

TEST_F(HttpTest, LimitsTheBodiesOfAllClientsTogether) {
  HttpLimits limits;
  limits.total_body_bytes = 100'000;
  Start(limits);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(
        clients.back()
            .SendRaw("POST / HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + std::string(40'000, 'x'))
            .has_value());
  }
  // Refused once the server has received the two halves above, whenever that is.
  EXPECT_TRUE(Eventually(
      [&] { return Connect().Do("POST", "/", std::string(40'000, 'y'))->status == 503; }));
  for (HttpClient& client : clients) {
    (void)client.SendRaw(std::string(10'000, 'x'));
    EXPECT_EQ(client.ReadReply()->status, 200);
  }
  EXPECT_EQ(Connect().Do("POST", "/", std::string(90'000, 'z'))->status, 200);
}

TEST_F(HttpTest, StopLetsAReplyInProgressEnd) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("GET", "/hold").has_value());
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(handler_.mutex);
    return handler_.held.size() == 1;
  }));
  std::thread stopper([&] { server_->Stop(10'000); });
  std::this_thread::sleep_for(milliseconds(30));
  HttpResponse late;
  late.body = "late";
  handler_.held[0]->Send(late);
  const auto reply = client.ReadReply();
  stopper.join();
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->body, "late");
  EXPECT_EQ(handler_.closed.load(), 0);
}

TEST_F(HttpTest, StopCutsWhatDoesNotEnd) {
  Start();
  HttpClient client = Connect();
  ASSERT_TRUE(client.SendRequest("GET", "/hold").has_value());
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(handler_.mutex);
    return handler_.held.size() == 1;
  }));
  server_->Stop(50);
  EXPECT_EQ(handler_.closed.load(), 1);
  EXPECT_FALSE(handler_.held[0]->Write("x"));
  EXPECT_FALSE(HttpClient::Connect("127.0.0.1", server_->port()).has_value());
}

TEST_F(HttpTest, NamesATakenPortAndABadHost) {
  Start();
  HttpServerOptions options;
  options.port = static_cast<uint16_t>(server_->port());
  const auto taken = HttpServer::Start(options, handler_);
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, Code::kUnavailable);
  EXPECT_NE(taken.error().message.find(std::to_string(server_->port())), std::string::npos);
  options.host = "not-an-address";
  const auto bad = HttpServer::Start(options, handler_);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
}

TEST(RequestParserTest, ParsesWhateverTheBytesAreCutInto) {
  const std::string text =
      "POST /p?q HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhelloGET /";
  for (size_t step = 1; step < text.size(); ++step) {
    RequestParser parser({});
    std::string waiting;
    size_t taken = 0;
    for (size_t at = 0; at < text.size() && !parser.done(); at += step) {
      waiting += text.substr(at, step);
      const size_t used = parser.Feed(waiting);
      waiting.erase(0, used);
      taken += used;
    }
    ASSERT_TRUE(parser.done()) << step;
    EXPECT_EQ(taken, text.size() - 5);
    const HttpRequest request = parser.Take();
    EXPECT_EQ(request.path, "/p");
    EXPECT_EQ(request.query, "q");
    EXPECT_EQ(request.Header("x-a"), "1");
    EXPECT_EQ(request.body, "hello");
  }
}

TEST(FormatHeadTest, StripsLineEndsFromHeaderValues) {
  HttpResponse response;
  response.headers.emplace_back("X", "a\r\nEvil: 1");
  const std::string head = FormatHead(response, {}, false);
  EXPECT_NE(head.find("X: aEvil: 1\r\n"), std::string::npos);
}

}  // namespace
}  // namespace ballast
