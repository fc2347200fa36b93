// Role: one API call that generates: submits its prompts, turns engine events into a reply or a
// stream of server-sent events, and cancels as soon as the client has gone. Thread: created on an
// I/O thread; events come from the engine thread, hang-ups and ticks from I/O threads. Invariants:
// the engine is never called with mutex_ held; every submitted request either ends by itself or is
// cancelled; the client gets exactly one ending.
#ifndef BALLAST_SERVER_GENERATION_CALL_H_
#define BALLAST_SERVER_GENERATION_CALL_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/client.h"
#include "http/server.h"
#include "server/api_error.h"
#include "server/metrics.h"
#include "server/parse_request.h"
#include "server/reply_json.h"
#include "server/request_account.h"
#include "server/request_log.h"
#include "server/request_registry.h"
#include "server/sent_requests.h"
#include "text/tools/call_parser.h"

namespace ballast {

class GenerationCall final : public LiveCall, public std::enable_shared_from_this<GenerationCall> {
 public:
  struct Setup {
    EngineClient* engine = nullptr;  // outlives all its requests
    std::shared_ptr<ServerMetrics> metrics;
    std::shared_ptr<Exchange> exchange;
    std::shared_ptr<RequestLog> log;
    std::shared_ptr<RequestAccount> account;
    std::shared_ptr<RequestRegistry> registry;
    std::string route;    // for the metrics
    HttpHeaders headers;  // of every reply
    ReplyHeader reply;
    GenerationBody body;
    std::vector<std::vector<TokenId>> prompts;
    const ToolFormat* tool_format = nullptr;  // of calls in the reply; null: there are none
    bool loose_calls = false;  // calls without the format's tags count when they are valid
    bool thinking = false;     // the prompt has opened <think>
    std::vector<std::string> warnings;
  };

  /// Submits everything and returns; the reply follows through the exchange.
  static void Run(Setup setup);

  explicit GenerationCall(Setup setup);

  LiveProgress Progress() override;
  bool Cancel(const ApiError& why) override;

 private:
  class Sink;
  using Time = std::chrono::steady_clock::time_point;

  struct Choice : SentRequest {
    FinishReason reason = FinishReason::kStop;
    std::string stop;                   // the stop string that matched, if one did
    std::optional<ReplyParser> parser;  // chats
    std::string text;
    std::string reasoning;
    Json tool_calls = Json::array();
    Json logprobs;
    int64_t text_offset = 0;
    bool first_token_seen = false;
    int64_t prompt_done = 0;
    int64_t prompt_total = 0;
    int64_t generated = 0;  // tokens
    Usage usage;
    Timings timings;
  };

  void Start();
  const std::vector<TokenId>& PromptOf(size_t choice) const {
    return setup_.prompts[choice / static_cast<size_t>(setup_.body.n)];
  }
  void ClientLeft();
  void Tick();
  void OnProgress(size_t index, int64_t done, int64_t total);
  void OnTokens(size_t index, TokenEvent event);
  void OnFinish(size_t index, FinishEvent event);
  void OnError(size_t index, const Error& error);

  // Under mutex_:
  void EnsureStreaming();
  void WriteData(const Json& json);
  void TakeText(size_t index, std::string_view text, bool last, Json logprobs);
  /// A piece as a delta of the stream; the whole reply's parts grow as well.
  Json TakePiece(Choice& choice, const ReplyPiece& piece) const;
  std::string_view Ending(const Choice& choice) const;
  void WriteChoice(size_t index, const Json& delta, const Json& logprobs, const Json& finish);
  void Fail(const ApiError& error);
  void Complete();
  void SendWhole();
  void EndStream();
  Json ChoiceJson(size_t index) const;
  Usage TotalUsage() const;
  Timings TotalTimings() const;
  void Observe() const;

  const Setup setup_;
  const Time arrived_ = std::chrono::steady_clock::now();

  RequestRegistry::Registration registration_;

  std::mutex mutex_;
  std::vector<Choice> choices_;
  bool streaming_ = false;
  bool over_ = false;  // answered, failed, or the client left
  Time first_token_ = Time::max();
  Time last_write_{};
};

}  // namespace ballast

#endif  // BALLAST_SERVER_GENERATION_CALL_H_
