// /v1/embeddings as clients see it, over a real socket.
#include "server_fixture.h"

namespace ballast {
namespace {

class ServerEmbeddings : public ServerFixture {
 protected:
  Json Embed(const std::string& more, int status = 200) {
    return DoJson("POST", "/v1/embeddings", R"({"model":"fake-model",)" + more + "}", status);
  }
};

TEST_F(ServerEmbeddings, TakesEveryShapeOfInput) {
  Start();
  const Json one = Embed(R"("input":"abc")");
  EXPECT_EQ(one["object"], "list");
  EXPECT_EQ(one["model"], "fake-model");
  ASSERT_EQ(one["data"].size(), 1u);
  EXPECT_EQ(one["data"][0]["object"], "embedding");
  EXPECT_EQ(one["data"][0]["index"], 0);
  EXPECT_EQ(one["data"][0]["embedding"], Parse("[0.5,0.5,0.5,0.5]"));
  EXPECT_EQ(one["usage"], Parse(R"({"prompt_tokens":3,"total_tokens":3})"));
  const Json many = Embed(R"("input":["abc","b",[1,2]])");
  ASSERT_EQ(many["data"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(many["data"][i]["index"], i);
  EXPECT_NE(many["data"][0]["embedding"], many["data"][1]["embedding"]);
  EXPECT_EQ(many["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(Embed(R"("input":[1,2,3])")["usage"]["prompt_tokens"], 3);
}

TEST_F(ServerEmbeddings, ManyInputsStayWithinTheQueue) {
  FakeEngine::Options engine;
  engine.queue_limit = 8;
  engine.max_running = 2;
  Start(engine);
  std::string inputs = R"("x0")";
  for (int i = 1; i < 100; ++i) inputs += fmt::format(R"(,"x{}")", i);
  const Json reply = Embed(R"("input":[)" + inputs + "]");
  ASSERT_EQ(reply["data"].size(), 100u);
  EXPECT_EQ(reply["data"][99]["index"], 99);
}

TEST_F(ServerEmbeddings, EncodesBase64) {
  Start();
  // Four floats of 0.5, little endian.
  EXPECT_EQ(Embed(R"("input":"abc","encoding_format":"base64")")["data"][0]["embedding"],
            "AAAAPwAAAD8AAAA/AAAAPw==");
  EXPECT_TRUE(
      Embed(R"("input":"abc","encoding_format":"float")")["data"][0]["embedding"].is_array());
}

TEST_F(ServerEmbeddings, DimensionsShortenAndRescale) {
  Start();
  const Json vector = Embed(R"("input":"abc","dimensions":1)")["data"][0]["embedding"];
  EXPECT_EQ(vector, Parse("[1.0]"));
  const Json two = Embed(R"("input":"abc","dimensions":2)")["data"][0]["embedding"];
  EXPECT_NEAR(two[0].get<double>(), 0.70710678, 1e-7);
}

TEST_F(ServerEmbeddings, PoolingIsTheModelsUnlessGiven) {
  Start();
  Embed(R"("input":"abc")");
  EXPECT_EQ(engine_->last().pooling, Pooling::kMean);
  EXPECT_EQ(Embed(R"("input":"abc","pooling":"last","user":"me")")["data"][0]["embedding"][0],
            -0.5);
  EXPECT_EQ(engine_->last().pooling, Pooling::kLast);
}

TEST_F(ServerEmbeddings, NamesTheFieldAtFault) {
  Start();
  const auto expect = [&](const std::string& body, const char* param, const char* code) {
    const Json error = Embed(body, 400)["error"];
    EXPECT_EQ(error["param"], param) << body;
    EXPECT_EQ(error["code"], code) << body;
    EXPECT_EQ(error["type"], "invalid_request_error");
  };
  expect(R"("user":"x")", "input", "missing_field");
  expect(R"("input":[])", "input", "invalid_type");
  expect(R"("input":7)", "input", "invalid_type");
  expect(R"("input":"")", "input", "empty_prompt");
  expect(R"("input":["a",""])", "input[1]", "empty_prompt");
  expect(R"("input":["a",7])", "input[1]", "invalid_type");
  expect(R"("input":[1,999999])", "input", "invalid_value");
  expect(R"("input":"a","dimensions":5)", "dimensions", "invalid_value");
  expect(R"("input":"a","dimensions":0)", "dimensions", "invalid_value");
  expect(R"("input":"a","encoding_format":"int8")", "encoding_format", "invalid_value");
  expect(R"("input":"a","pooling":"cls")", "pooling", "invalid_value");
  expect(R"("input":"a","temperature":1)", "temperature", "unknown_field");
  expect(R"("input":")" + std::string(5000, 'x') + '"', "input", "context_length_exceeded");
  EXPECT_EQ(
      DoJson("POST", "/v1/embeddings", R"({"model":"other","input":"a"})", 404)["error"]["code"],
      "model_not_found");
}

TEST_F(ServerEmbeddings, AFailureFailsTheCallOnce) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kQueue);
  HttpClient client = Connect();
  ASSERT_TRUE(
      client.SendRequest("POST", "/v1/embeddings", R"({"input":["a","b","c"]})").has_value());
  ASSERT_TRUE(engine_->AwaitActive(3));
  engine_->FailAll(Internal("broken"));
  const auto reply = client.ReadReply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 500);
  EXPECT_TRUE(engine_->AwaitActive(0));
}

TEST_F(ServerEmbeddings, AHangUpCancels) {
  Start();
  engine_->SetHold(FakeEngine::Hold::kQueue);
  {
    HttpClient client = Connect();
    ASSERT_TRUE(client.SendRequest("POST", "/v1/embeddings", R"({"input":["a","b"]})").has_value());
    ASSERT_TRUE(engine_->AwaitActive(2));
  }
  EXPECT_TRUE(engine_->AwaitCancelled(2));
}

}  // namespace
}  // namespace ballast
