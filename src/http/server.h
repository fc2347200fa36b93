// Role: an asynchronous HTTP/1.1 server: keep-alive, limits, streamed replies with backpressure,
// and notice of clients that hang up. Knows nothing of the API behind it. Thread: handlers run on
// the server's I/O threads; an Exchange may be used from any thread. Invariants: a stalled,
// flooding or vanished client costs one bounded buffer and no thread; a handler learns at once when
// nobody waits for its reply any more.
#ifndef BALLAST_HTTP_SERVER_H_
#define BALLAST_HTTP_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/types.h"

namespace ballast {

/// One request's way back to its client. Every call after the end of the reply, or after the client
/// left, does nothing. Thread: any.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Answers with a whole reply and ends the exchange.
  virtual void Send(HttpResponse response) = 0;

  /// Starts a streamed reply (chunked; until close for HTTP/1.0). `response.body` goes first.
  virtual void StartStream(HttpResponse response) = 0;
  /// Adds bytes to a streamed reply. Returns false when the client has gone or was dropped because
  /// it had HttpLimits::queue_bytes waiting.
  virtual bool Write(std::string_view bytes) = 0;
  /// Ends a streamed reply.
  virtual void Finish() = 0;

  /// `fn` runs once if the client leaves (or is dropped) before the reply has ended; at once if it
  /// already has. It runs on an I/O thread or the caller's, and must not block.
  virtual void OnClosed(std::function<void()> fn) = 0;
  /// Runs `fn` every `interval_ms` on an I/O thread until the reply has ended or the client left.
  virtual void Every(int64_t interval_ms, std::function<void()> fn) = 0;

  virtual bool closed() const = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Must answer through `exchange`, now or later, from any thread. Must not block for long.
  virtual void Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) = 0;
  /// The body for an error that the transport itself found (400, 408, 413, 431, 503). `path`: of
  /// the request, empty when it has not arrived.
  virtual HttpResponse TransportError(int status, std::string_view message,
                                      std::string_view path) = 0;
};

/// Counters since the start; `connections` is the present number.
struct HttpStats {
  int64_t connections = 0;
  int64_t accepted_total = 0;
  int64_t refused_total = 0;  // over max_connections
  int64_t requests_total = 0;
  int64_t hangups_total = 0;       // clients that left before their reply had ended
  int64_t slow_dropped_total = 0;  // clients dropped for not reading
  int64_t timeouts_total = 0;      // headers or bodies that did not arrive in time
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an IP literal or "localhost"
  uint16_t port = 0;               // 0: any free port
  int threads = 2;
  HttpLimits limits;
};

class HttpServer {
 public:
  /// Binds, listens and starts the threads. `handler` must outlive the server.
  /// Errors: kInvalidArgument (host), kUnavailable (the address is taken), naming host and port.
  static Result<std::unique_ptr<HttpServer>> Start(HttpServerOptions options, HttpHandler& handler);
  /// Stops at once.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  HttpStats Stats() const;

  /// Stops listening, lets replies in progress end for up to `grace_ms`, closes all connections and
  /// joins the threads. Idempotent. Not to be called from a handler.
  void Stop(int64_t grace_ms);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ballast

#endif  // BALLAST_HTTP_SERVER_H_
