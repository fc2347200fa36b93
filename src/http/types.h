// Role: plain values of HTTP: requests, replies and limits. No third-party types.
// Thread: values.
#ifndef BALLAST_HTTP_TYPES_H_
#define BALLAST_HTTP_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// What one client may cost. Times are in milliseconds.
struct HttpLimits {
  size_t header_bytes = 16 * 1024;              // request line and headers → 431
  size_t body_bytes = 8 * 1024 * 1024;          // one request body → 413
  size_t total_body_bytes = 128 * 1024 * 1024;  // request bodies being received, all clients → 503
  size_t pipeline_bytes = 64 * 1024;            // sent ahead while a request is answered → dropped
  size_t queue_bytes = 4 * 1024 * 1024;         // streamed bytes a client has not read → dropped
  size_t max_connections = 1024;                // → 503
  int64_t header_timeout_ms = 10'000;  // from the first byte (or connect) to the last header
  int64_t body_timeout_ms = 60'000;    // the whole body
  int64_t idle_timeout_ms = 75'000;    // between requests of one connection
  int64_t write_stall_ms = 30'000;     // a client that reads nothing for this long is dropped
  int64_t linger_ms = 2'000;           // reading on after an error reply, so that it arrives
};

struct HttpRequest {
  std::string method;  // upper case as sent
  std::string path;    // decoded, without the query
  std::string query;   // as sent, without '?'
  HttpHeaders headers;
  std::string body;
  std::string peer;  // address of the client

  /// The first value of a header (case-insensitive name), or an empty view.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // besides Content-Type, Content-Length, Date and Connection
};

/// True if both names are equal but for ASCII case.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

/// The standard phrase of a status code, e.g. "Not Found".
std::string_view ReasonPhrase(int status);

/// Decodes %XX; a malformed escape stays as it is. '+' is not a space (this is for paths).
std::string PercentDecode(std::string_view text);

}  // namespace ballast

#endif  // BALLAST_HTTP_TYPES_H_
