// Role: /metrics: counts what the server sees and renders it, with the engine's snapshot, as
// Prometheus text. Adapts prometheus-cpp. Thread: any.
#ifndef BALLAST_SERVER_METRICS_H_
#define BALLAST_SERVER_METRICS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/client.h"
#include "http/server.h"
#include "server/quota.h"

namespace ballast {

class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  /// One answered request. `route` must be one of the fixed route names (labels must stay few).
  void CountReply(std::string_view route, int status);
  /// From the arrival of a request to its first token.
  void ObserveFirstToken(double seconds);
  /// Between tokens of one request, on average.
  void ObserveTokenInterval(double seconds);
  /// From the arrival of a request to its last token.
  void ObserveGeneration(double seconds);
  /// What an answered request used.
  void CountTokens(const Usage& usage);
  /// Requests cancelled because their client left.
  void CountAbandoned();

  /// The text exposition format, version 0.0.4.
  /// `tenants`: those whose figures the reader may see.
  std::string Render(const EngineClient& client, const HttpStats& http,
                     std::span<const TenantTotals> tenants) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The resident set of this process in bytes, 0 if it cannot be read.
uint64_t ResidentBytes();

}  // namespace ballast

#endif  // BALLAST_SERVER_METRICS_H_
