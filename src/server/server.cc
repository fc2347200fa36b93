#include "server/server.h"

#include "base/log.h"
#include "server/access.h"
#include "server/http_app.h"

namespace ballast {

namespace {

// What is already answered may take this long to reach its client.
constexpr int64_t kFlushMs = 2'000;
constexpr int64_t kStopFlushMs = 500;

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options_in, EngineClient& engine_in)
      : options(std::move(options_in)), engine(engine_in), app(options, engine_in) {}

  const ServerOptions options;
  EngineClient& engine;
  HttpApp app;
  std::unique_ptr<HttpServer> http;
};

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, EngineClient& engine) {
  RETURN_IF_ERROR(CheckExposure(options));
  HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.threads = options.threads;
  http.limits = options.limits;
  auto impl = std::make_unique<Impl>(std::move(options), engine);
  ASSIGN_OR_RETURN(impl->http, HttpServer::Start(std::move(http), impl->app));
  impl->app.SetHttpServer(impl->http.get());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { Stop(); }

int Server::port() const { return impl_->http->port(); }

std::string Server::url() const {
  const std::string& host = impl_->options.host;
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port());
}

void Server::Reload() {
  const auto& keys = impl_->options.keys;
  const auto& audit = impl_->options.audit;
  const auto report = [&](std::string_view what, const Status& done) {
    if (done) {
      LOG_INFO("{}: reloaded", what);
    } else {
      LOG_ERROR("{} stays as it was: {}", what, done.error().message);
    }
  };
  // The log first, so that the rest is told to the new file.
  if (audit != nullptr) report("the audit log", audit->Reopen());
  if (keys == nullptr) return;
  const Status done = keys->Reload();
  report("the keys file", done);
  if (audit == nullptr) return;
  Json line{{"ok", done.has_value()}, {"keys", keys->size()}};
  if (!done) line["error"] = done.error().message;
  audit->Write("keys_reload", line);
}

void Server::Drain(int64_t timeout_ms) {
  impl_->app.SetDraining();
  impl_->engine.Drain(timeout_ms);
  impl_->http->Stop(kFlushMs);
}

void Server::Stop() {
  impl_->app.SetDraining();
  impl_->http->Stop(kStopFlushMs);
}

}  // namespace ballast
