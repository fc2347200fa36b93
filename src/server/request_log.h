// Role: the access line of a request: who asked what, the status, how long it took and how many
// tokens, never a word of it. Its exchange is wrapped, so no way of ending is forgotten.
// Thread: any. Invariant: one line a request, written when the reply is complete; one that is
// dropped before (its client left) is logged as 499 when nobody holds it any more.
#ifndef BALLAST_SERVER_REQUEST_LOG_H_
#define BALLAST_SERVER_REQUEST_LOG_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/client.h"
#include "http/server.h"

namespace ballast {

class RequestLog {
 public:
  RequestLog(std::string id, std::string method, std::string peer);
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  const std::string& id() const { return id_; }
  /// The fixed name of the route; static storage. A path may hold what should not be logged.
  void SetRoute(std::string_view route);
  /// Tokens and times so far; the last call counts.
  void SetUsage(const Usage& usage, const Timings& timings);
  /// The code of the error that the reply carries, such as "queue_full".
  void SetError(std::string_view code);
  /// Writes the line. Only the first call counts.
  void End(int status);

 private:
  const std::string id_;
  const std::string method_;
  const std::string peer_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::string_view route_ = "none";
  std::optional<Usage> usage_;
  Timings timings_;
  std::string error_;
  bool ended_ = false;
};

/// Passes everything on to `to` and ends `log` with the reply.
std::shared_ptr<Exchange> Logged(std::shared_ptr<Exchange> to, std::shared_ptr<RequestLog> log);

}  // namespace ballast

#endif  // BALLAST_SERVER_REQUEST_LOG_H_
