// Role: turns received bytes into one HttpRequest within limits; wraps Beast's parser.
// Thread: one owner.
#ifndef BALLAST_HTTP_REQUEST_PARSER_H_
#define BALLAST_HTTP_REQUEST_PARSER_H_

#include <memory>
#include <string>
#include <string_view>

#include "http/types.h"

namespace ballast {

/// Parses one request; make a new one for the next.
class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Takes bytes from the front of `data`; the rest (too short, or of the next request) must be
  /// offered again. Returns how many were taken.
  size_t Feed(std::string_view data);

  bool header_done() const;
  bool done() const;
  /// 0, or the status to answer with: 400, 413 or 431.
  int error_status() const { return error_status_; }
  const std::string& error_message() const { return error_message_; }

  /// True if the client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;
  bool keep_alive() const;
  bool http_1_1() const;
  /// The decoded path as soon as the request line is there, else empty.
  std::string path() const;
  /// The finished request. Call once, when done().
  HttpRequest Take();

 private:
  struct State;
  void Fail(int status, std::string message);

  std::unique_ptr<State> state_;
  HttpLimits limits_;
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace ballast

#endif  // BALLAST_HTTP_REQUEST_PARSER_H_
