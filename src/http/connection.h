// Role: one client's connection: reads requests one after another, hands each to the handler,
// writes the reply, notices hang-ups and stalls. Private to src/http. Thread: everything runs on
// the connection's strand; Stop only posts. Invariants: exactly one read is pending as long as the
// socket is open, also while a request is being answered, so that a hang-up is seen at once; at
// most one write is pending; one timer watches both.
#ifndef BALLAST_HTTP_CONNECTION_H_
#define BALLAST_HTTP_CONNECTION_H_

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "http/core.h"
#include "http/reply_queue.h"
#include "http/request_parser.h"

namespace ballast {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Admission { kServe, kRefuse };  // kRefuse: too many connections, answer 503

  Connection(std::shared_ptr<Core> core, boost::asio::ip::tcp::socket socket, Admission admission);
  ~Connection();

  void Start();
  /// Closes after the reply in progress, if there is one and `wait_for_reply`; else at once.
  void Stop(bool wait_for_reply);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Link;
  enum class Phase { kReading, kAnswering, kLingering, kClosed };

  void Read();
  void OnRead(boost::system::error_code error, size_t size);
  void ParseInput();
  void Dispatch();
  void ReplyError(int status, const std::string& message);
  void Pump();
  void WriteSome();
  void OnWritten(boost::system::error_code error, size_t size);
  void DropSlow();
  void EndReply();
  void Linger();
  void Close();

  void ChargeBody(size_t bytes);
  void ReleaseBody();
  void SetDeadline(int64_t ms);
  void ArmTimer();
  void OnDeadline();
  void StartTicks(int64_t interval_ms);
  void ArmTicks();

  const std::shared_ptr<Core> core_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer ticks_;
  const Admission admission_;
  std::string peer_;

  Phase phase_ = Phase::kReading;
  bool stop_after_reply_ = false;
  bool close_after_reply_ = false;
  bool input_ended_ = false;
  bool request_started_ = false;
  bool in_body_ = false;
  std::array<char, 16 * 1024> read_buffer_;
  std::string input_;
  std::unique_ptr<RequestParser> parser_;
  size_t charged_body_bytes_ = 0;

  std::shared_ptr<ReplyQueue> reply_;
  bool reply_ended_ = false;
  std::string output_;
  size_t output_sent_ = 0;
  bool writing_ = false;

  Time deadline_ = Time::max();
  Time armed_ = Time::max();
  std::chrono::milliseconds tick_interval_{0};
};

}  // namespace ballast

#endif  // BALLAST_HTTP_CONNECTION_H_
