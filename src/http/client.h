// Role: a small blocking HTTP/1.1 client over a plain socket, for tests and load drivers on this
// machine. Thread: one owner.
#ifndef BALLAST_HTTP_CLIENT_H_
#define BALLAST_HTTP_CLIENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/types.h"

namespace ballast {

/// A reply as received.
struct HttpReply {
  int status = 0;
  HttpHeaders headers;
  std::string body;
  std::string_view Header(std::string_view name) const;
};

class HttpClient {
 public:
  /// Connects to an IPv4 address. Every wait ends after `timeout_ms` with kDeadlineExceeded.
  static Result<HttpClient> Connect(const std::string& host, int port, int64_t timeout_ms = 10'000);
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Sends bytes as they are.
  Status SendRaw(std::string_view bytes);
  /// Sends a request with Host and Content-Length.
  Status SendRequest(std::string_view method, std::string_view target, std::string_view body = "",
                     const HttpHeaders& headers = {});
  /// Reads one whole reply (Content-Length, chunked or until close). `head`: no body follows.
  Result<HttpReply> ReadReply(bool head = false);
  /// SendRequest and ReadReply.
  Result<HttpReply> Do(std::string_view method, std::string_view target, std::string_view body = "",
                       const HttpHeaders& headers = {});

  /// Reads the status and headers of a streamed reply; ReadSse then gives its events.
  Result<HttpReply> ReadHead();
  /// The next server-sent block without its blank line: "data: …" or ": comment". kOutOfRange at
  /// the end.
  Result<std::string> ReadSse();

  /// Closes; kReset makes the kernel send a reset instead of an orderly end.
  enum class CloseMode { kOrderly, kReset };
  void Close(CloseMode mode = CloseMode::kOrderly);
  /// Makes the kernel buffer as little as possible of what is received.
  void ShrinkReceiveBuffer();
  /// True if the peer closed within the timeout (bytes that come first are thrown away).
  bool AwaitClose();
  int fd() const { return fd_; }

 private:
  explicit HttpClient(int fd, int64_t timeout_ms) : fd_(fd), timeout_ms_(timeout_ms) {}
  /// Adds received bytes to buffer_. kOutOfRange: the peer closed.
  Status Receive();
  Result<std::string> ReadLine();
  Status ReadExactly(size_t size, std::string& out);
  /// The next chunk's payload, empty at the end.
  Result<std::string> ReadChunk();

  int fd_ = -1;
  int64_t timeout_ms_ = 0;
  std::string host_;
  std::string buffer_;
  std::string sse_;
  bool stream_ended_ = false;
};

}  // namespace ballast

#endif  // BALLAST_HTTP_CLIENT_H_
