// Role: one reply on its way to the client: the Exchange that handlers hold, and the bounded queue
// that the connection drains. Private to src/http. Thread: Exchange methods from any thread; Take,
// Close and Tick from the connection's strand. Invariants: after Close or the end nothing is queued
// and nothing is posted; the closed callback runs at most once, never under the mutex.
#ifndef BALLAST_HTTP_REPLY_QUEUE_H_
#define BALLAST_HTTP_REPLY_QUEUE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/server.h"

namespace ballast {

/// How the request shapes its reply.
struct ReplyShape {
  bool keep_alive = true;
  bool http_1_1 = true;
  bool head = false;  // headers only
};

class ReplyQueue final : public Exchange, public std::enable_shared_from_this<ReplyQueue> {
 public:
  /// `wake` asks the connection to call Take; `start_ticks` to call Tick at an interval. Both only
  /// post.
  ReplyQueue(ReplyShape shape, size_t limit_bytes, std::function<void()> wake,
             std::function<void(int64_t)> start_ticks)
      : shape_(shape),
        limit_bytes_(limit_bytes),
        wake_(std::move(wake)),
        start_ticks_(std::move(start_ticks)) {}

  void Send(HttpResponse response) override;
  void StartStream(HttpResponse response) override;
  bool Write(std::string_view bytes) override;
  void Finish() override;
  void OnClosed(std::function<void()> fn) override;
  void Every(int64_t interval_ms, std::function<void()> fn) override;
  bool closed() const override;

  struct Output {
    std::string bytes;
    bool ended = false;
    bool overflow = false;  // the client did not read; drop it
  };
  /// Hands over all that waits. It counts against the limit until Sent tells otherwise.
  Output Take();
  /// Of what was handed over, `unsent_bytes` are still with the connection. True if the reply has
  /// outgrown its limit meanwhile.
  bool Sent(size_t unsent_bytes);
  /// The client has gone: nothing more will be sent.
  void Close();
  /// Runs the handler's periodic function.
  void Tick();
  bool keep_alive() const { return shape_.keep_alive; }

 private:
  enum class State { kNew, kStreaming, kEnded, kClosed };
  void Append(std::string_view bytes);  // under mutex_; frames if chunked
  void Wake();                          // under mutex_

  const ReplyShape shape_;
  const size_t limit_bytes_;
  const std::function<void()> wake_;
  const std::function<void(int64_t)> start_ticks_;

  mutable std::mutex mutex_;
  State state_ = State::kNew;
  std::string pending_;
  size_t unsent_bytes_ = 0;
  bool overflow_ = false;
  bool woken_ = false;
  std::function<void()> on_closed_;
  std::function<void()> on_tick_;
};

/// Status line and headers. Header values are stripped of CR and LF. Without `length`, chunked or
/// until-close framing follows.
std::string FormatHead(const HttpResponse& response, const ReplyShape& shape, bool streamed);

}  // namespace ballast

#endif  // BALLAST_HTTP_REPLY_QUEUE_H_
