// Role: what all connections of one server share. Private to src/http.
// Thread: counters are atomic; the set of connections is behind a mutex.
#ifndef BALLAST_HTTP_CORE_H_
#define BALLAST_HTTP_CORE_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "http/server.h"

namespace ballast {

class Connection;

struct Core {
  Core(const HttpLimits& limits_in, HttpHandler& handler_in)
      : limits(limits_in), handler(&handler_in) {}

  boost::asio::io_context io;
  const HttpLimits limits;
  HttpHandler* const handler;

  std::mutex mutex;
  std::unordered_set<std::shared_ptr<Connection>> connections;  // guarded by mutex

  std::atomic<bool> stopping{false};
  std::atomic<size_t> served{0};      // connections that count against max_connections
  std::atomic<size_t> body_bytes{0};  // of requests still being received
  std::atomic<int64_t> accepted{0}, refused{0}, requests{0}, hangups{0}, slow_dropped{0},
      timeouts{0};
};

}  // namespace ballast

#endif  // BALLAST_HTTP_CORE_H_
