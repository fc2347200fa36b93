#include "http/server.h"

#include <sys/resource.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "base/log.h"
#include "http/connection.h"
#include "http/core.h"

namespace ballast {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Refused clients still cost a socket while they read their 503.
constexpr size_t kRefusedConnections = 128;

// The soft limit of open files is often 1,024: raised so that max_connections is what counts.
void RaiseFileLimit(size_t files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files) return;
  limit.rlim_cur = std::min<rlim_t>(files, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LOG_WARN("cannot raise the limit of open files to {}", files);
  }
}

}  // namespace

struct HttpServer::Impl {
  Impl(HttpServerOptions options_in, HttpHandler& handler)
      : options(std::move(options_in)),
        core(std::make_shared<Core>(options.limits, handler)),
        strand(asio::make_strand(core->io)),
        acceptor(strand),
        retry(strand),
        work(asio::make_work_guard(core->io)) {}

  Status Listen();
  void Accept();
  void OnAccept(boost::system::error_code error, tcp::socket socket);
  void Stop(int64_t grace_ms);
  size_t Connections() {
    const std::lock_guard lock(core->mutex);
    return core->connections.size();
  }
  void StopConnections(bool wait_for_replies);
  void AwaitNoConnections(int64_t ms);

  const HttpServerOptions options;
  const std::shared_ptr<Core> core;
  asio::strand<asio::io_context::executor_type> strand;
  tcp::acceptor acceptor;  // used on `strand` only, once listening
  asio::steady_timer retry;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  int port = 0;
  std::vector<std::thread> threads;
  std::mutex stop_mutex;
  bool stopped = false;  // guarded by stop_mutex
};

Status HttpServer::Impl::Listen() {
  boost::system::error_code error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    return InvalidArgument("host {:?} is neither an IP address nor \"localhost\"", options.host);
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  if (error) {
    return Unavailable("cannot listen on {} port {}: {}", options.host, options.port,
                       error.message());
  }
  port = acceptor.local_endpoint(error).port();
  return OkStatus();
}

void HttpServer::Impl::Accept() {
  acceptor.async_accept(asio::make_strand(core->io),
                        [this](boost::system::error_code error, tcp::socket socket) {
                          OnAccept(error, std::move(socket));
                        });
}

void HttpServer::Impl::OnAccept(boost::system::error_code error, tcp::socket socket) {
  if (core->stopping.load() || error == asio::error::operation_aborted) return;
  if (error) {
    // Out of file descriptors or memory: try again when some connections have gone.
    LOG_WARN("cannot accept a connection: {}", error.message());
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([this](boost::system::error_code cancelled) {
      if (!cancelled) Accept();
    });
    return;
  }
  core->accepted.fetch_add(1);
  const bool full = core->served.load() >= core->limits.max_connections;
  if (full) core->refused.fetch_add(1);
  if (!full || Connections() < core->limits.max_connections + kRefusedConnections) {
    const auto connection = std::make_shared<Connection>(
        core, std::move(socket),
        full ? Connection::Admission::kRefuse : Connection::Admission::kServe);
    {
      const std::lock_guard lock(core->mutex);
      core->connections.insert(connection);
    }
    connection->Start();
  }
  Accept();
}

void HttpServer::Impl::StopConnections(bool wait_for_replies) {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard lock(core->mutex);
    all.assign(core->connections.begin(), core->connections.end());
  }
  for (const auto& connection : all) connection->Stop(wait_for_replies);
}

void HttpServer::Impl::AwaitNoConnections(int64_t ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (Connections() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void HttpServer::Impl::Stop(int64_t grace_ms) {
  const std::lock_guard lock(stop_mutex);
  if (stopped) return;
  stopped = true;
  core->stopping.store(true);
  asio::post(strand, [this] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    retry.cancel();
  });
  StopConnections(/*wait_for_replies=*/true);
  AwaitNoConnections(grace_ms);
  // Repeated, because a connection accepted just before may have missed the first round.
  while (Connections() > 0) {
    StopConnections(/*wait_for_replies=*/false);
    AwaitNoConnections(100);
  }
  work.reset();
  for (std::thread& thread : threads) thread.join();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                      HttpHandler& handler) {
  if (options.threads < 1 || options.threads > 64) {
    return InvalidArgument("threads is {}; the limits are 1 and 64", options.threads);
  }
  RaiseFileLimit(options.limits.max_connections + kRefusedConnections + 256);
  auto impl = std::make_unique<Impl>(std::move(options), handler);
  RETURN_IF_ERROR(impl->Listen());
  impl->Accept();
  for (int i = 0; i < impl->options.threads; ++i) {
    impl->threads.emplace_back([core = impl->core] { core->io.run(); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { Stop(0); }

int HttpServer::port() const { return impl_->port; }

HttpStats HttpServer::Stats() const {
  const Core& core = *impl_->core;
  HttpStats stats;
  stats.connections = static_cast<int64_t>(impl_->Connections());
  stats.accepted_total = core.accepted.load();
  stats.refused_total = core.refused.load();
  stats.requests_total = core.requests.load();
  stats.hangups_total = core.hangups.load();
  stats.slow_dropped_total = core.slow_dropped.load();
  stats.timeouts_total = core.timeouts.load();
  return stats;
}

void HttpServer::Stop(int64_t grace_ms) { impl_->Stop(grace_ms); }

}  // namespace ballast
