// Role: a real server on a real socket over a fake engine, for the conformance tests.
#ifndef BALLAST_TESTS_INTEGRATION_SERVER_FIXTURE_H_
#define BALLAST_TESTS_INTEGRATION_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "http/client.h"
#include "server/server.h"
#include "server/testing/fake_engine.h"

namespace ballast {

class ServerFixture : public ::testing::Test {
 protected:
  void Start(FakeEngine::Options engine = {}, ServerOptions server = {}) {
    engine_ = std::make_unique<FakeEngine>(std::move(engine));
    server.port = 0;
    auto started = Server::Start(std::move(server), *engine_);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }

  HttpClient Connect() {
    auto client = HttpClient::Connect("127.0.0.1", server_->port());
    EXPECT_TRUE(client.has_value()) << client.error().message;
    return std::move(*client);
  }

  /// One request on a new connection.
  HttpReply Do(std::string_view method, std::string_view target, std::string_view body = "",
               const HttpHeaders& headers = {}) {
    HttpClient client = Connect();
    auto reply = client.Do(method, target, body, headers);
    EXPECT_TRUE(reply.has_value()) << target << ": " << reply.error().message;
    return reply.value_or(HttpReply());
  }

  Json DoJson(std::string_view method, std::string_view target, std::string_view body = "",
              int status = 200) {
    const HttpReply reply = Do(method, target, body);
    EXPECT_EQ(reply.status, status) << target << " " << body << " → " << reply.body;
    EXPECT_EQ(reply.Header("Content-Type"), "application/json");
    return Parse(reply.body);
  }

  static Json Parse(std::string_view text) {
    auto json = ParseJson(text);
    EXPECT_TRUE(json.has_value()) << text;
    return json.value_or(Json());
  }

  /// A chat body with `more` members, e.g. R"(,"stream":true)".
  static std::string Chat(const std::string& more = "", const std::string& content = "Hello") {
    return R"({"model":"fake-model","messages":[{"role":"user","content":")" + content + R"("}])" +
           more + "}";
  }

  struct SseResult {
    HttpReply head;
    std::vector<std::string> comments;
    std::vector<Json> chunks;
    bool done = false;
  };
  /// Sends a streaming request and reads it to its end.
  SseResult Stream(std::string_view target, std::string_view body) {
    HttpClient client = Connect();
    EXPECT_TRUE(client.SendRequest("POST", target, body).has_value());
    return ReadStream(client);
  }
  SseResult ReadStream(HttpClient& client) {
    SseResult result;
    auto head = client.ReadHead();
    EXPECT_TRUE(head.has_value());
    if (!head) return result;
    result.head = *head;
    while (true) {
      const auto block = client.ReadSse();
      if (!block) {
        EXPECT_EQ(block.error().code, Code::kOutOfRange) << block.error().message;
        return result;
      }
      EXPECT_FALSE(result.done) << "after [DONE]: " << *block;
      if (block->starts_with(":")) {
        result.comments.push_back(*block);
      } else if (*block == "data: [DONE]") {
        result.done = true;
      } else {
        EXPECT_TRUE(block->starts_with("data: ")) << *block;
        result.chunks.push_back(Parse(std::string_view(*block).substr(6)));
      }
    }
  }

  static bool Eventually(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<Server> server_;
};

}  // namespace ballast

#endif  // BALLAST_TESTS_INTEGRATION_SERVER_FIXTURE_H_
