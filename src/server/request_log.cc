#include "server/request_log.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "base/log.h"
#include "http/forwarding_exchange.h"
#include "server/api_error.h"

namespace ballast {

namespace {

// Probes and the console's files come every few seconds and say nothing.
bool IsQuiet(std::string_view route) {
  return route == "/health" || route == "/healthz" || route == "/readyz" || route == "/metrics" ||
         route == "/" || route == "/assets/";
}

double Tenths(double milliseconds) { return std::round(milliseconds * 10) / 10; }

class LoggedExchange final : public ForwardingExchange {
 public:
  LoggedExchange(std::shared_ptr<Exchange> to, std::shared_ptr<RequestLog> log)
      : ForwardingExchange(std::move(to)), log_(std::move(log)) {}

  void Send(HttpResponse response) override {
    const int status = response.status;
    to().Send(std::move(response));
    log_->End(status);
  }
  void StartStream(HttpResponse response) override {
    status_.store(response.status);
    to().StartStream(std::move(response));
  }
  void Finish() override {
    const bool left = to().closed();
    to().Finish();
    log_->End(left ? kClientLeft : status_.load());
  }

 private:
  const std::shared_ptr<RequestLog> log_;
  std::atomic<int> status_{200};
};

}  // namespace

RequestLog::RequestLog(std::string id, std::string method, std::string peer)
    : id_(std::move(id)), method_(std::move(method)), peer_(std::move(peer)) {}

RequestLog::~RequestLog() { End(kClientLeft); }

void RequestLog::SetRoute(std::string_view route) {
  const std::lock_guard lock(mutex_);
  route_ = route;
}

void RequestLog::SetUsage(const Usage& usage, const Timings& timings) {
  const std::lock_guard lock(mutex_);
  usage_ = usage;
  timings_ = timings;
}

void RequestLog::SetError(std::string_view code) {
  const std::lock_guard lock(mutex_);
  error_ = code;
}

void RequestLog::End(int status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - arrived_;
  std::vector<LogField> fields{{"method", std::string_view(method_).substr(0, 16)},
                               {"route", route_},
                               {"status", int64_t{status}},
                               {"duration_ms", Tenths(took.count())},
                               {"peer", std::string_view(peer_)}};
  if (!error_.empty()) fields.push_back({"error", std::string_view(error_)});
  if (usage_) {
    fields.push_back({"prompt_tokens", usage_->prompt_tokens});
    fields.push_back({"cached_tokens", usage_->cached_tokens});
    fields.push_back({"completion_tokens", usage_->completion_tokens});
    fields.push_back({"queue_ms", Tenths(timings_.queue_ms)});
    fields.push_back({"prompt_ms", Tenths(timings_.prompt_ms)});
    fields.push_back({"predicted_ms", Tenths(timings_.predicted_ms)});
  }
  auto level = IsQuiet(route_) ? spdlog::level::debug : spdlog::level::info;
  if (status >= 500) level = spdlog::level::warn;
  const LogRequestScope scope(id_);
  LogEvent(level, "access", fields);
}

std::shared_ptr<Exchange> Logged(std::shared_ptr<Exchange> to, std::shared_ptr<RequestLog> log) {
  return std::make_shared<LoggedExchange>(std::move(to), std::move(log));
}

}  // namespace ballast
