// Role: one call of /v1/embeddings: submits its inputs a few at a time, collects the embeddings and
// answers; cancels as soon as the client has gone. Thread: created on an I/O thread; events come
// from the engine thread, hang-ups from I/O threads. Invariants: the engine is never called with
// mutex_ held; the client gets exactly one reply.
#ifndef BALLAST_SERVER_EMBEDDING_CALL_H_
#define BALLAST_SERVER_EMBEDDING_CALL_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/client.h"
#include "http/server.h"
#include "server/api_error.h"
#include "server/metrics.h"
#include "server/parse_embeddings.h"
#include "server/request_account.h"
#include "server/request_log.h"
#include "server/request_registry.h"
#include "server/sent_requests.h"

namespace ballast {

class EmbeddingCall final : public LiveCall, public std::enable_shared_from_this<EmbeddingCall> {
 public:
  struct Setup {
    EngineClient* engine = nullptr;  // outlives all its requests
    std::shared_ptr<ServerMetrics> metrics;
    std::shared_ptr<Exchange> exchange;
    std::shared_ptr<RequestAccount> account;
    std::shared_ptr<RequestLog> log;
    std::shared_ptr<RequestRegistry> registry;
    std::string route;          // for the metrics
    HttpHeaders headers;        // of the reply
    std::string model;          // its name in the reply
    GenerationRequest request;  // what all inputs have in common
    EmbeddingsBody body;
  };
  /// Submits the first inputs and returns; the reply follows through the exchange.
  static void Run(Setup setup);

  explicit EmbeddingCall(Setup setup);

  LiveProgress Progress() override;
  bool Cancel(const ApiError& why) override;

 private:
  class Sink;
  struct Input : SentRequest {
    std::vector<float> embedding;
    int64_t prompt_done = 0;
  };

  void Start();
  void SubmitNext();
  void ClientLeft();
  void OnProgress(size_t index, int64_t done);
  void OnFinish(size_t index, FinishEvent event);
  void OnError(size_t index, const Error& error);
  /// Under mutex_: the ids to cancel.
  std::vector<RequestId> Fail(const ApiError& error);
  void SendReply();

  const Setup setup_;
  RequestRegistry::Registration registration_;

  std::mutex mutex_;
  std::vector<Input> inputs_;
  size_t next_ = 0;  // input to submit
  size_t finished_ = 0;
  int64_t prompt_tokens_ = 0;
  bool over_ = false;  // answered, failed, or the client left
};

}  // namespace ballast

#endif  // BALLAST_SERVER_EMBEDDING_CALL_H_
