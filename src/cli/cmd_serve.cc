// Role: `ballast serve`: engine, HTTP server, signals. Thread: main waits for a signal.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/runtime.h"
#include "platform/cpu.h"
#include "server/access.h"
#include "server/server.h"

namespace ballast {

namespace {

// Large enough for prefill at full speed, small enough to bound activations and chunk times.
constexpr int32_t kServeStepRows = 1024;
constexpr uint64_t kMinBodyBytes = kKiB;
constexpr uint64_t kMaxBodyBytes = kGiB;

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and all that it starts; Wait then takes them one
// by one.
class SignalGate {
 public:
  SignalGate() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  int Wait() const {
    int number = 0;
    sigwait(&set_, &number);
    return number;
  }

 private:
  sigset_t set_{};
};

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

// Who may call. The secret behind cache salts is needed only where keys name tenants.
Status AddAccess(const Options& options, ServerOptions* server) {
  if (!options.keys_file.empty() && !options.api_key.empty()) {
    return InvalidArgument("--keys-file and --api-key (BALLAST_API_KEY) exclude each other");
  }
  if (!options.api_key.empty()) {
    auto keys = KeyRing::Single(options.api_key);
    if (!keys) return std::move(keys).error().WithContext("--api-key");
    server->keys = *std::move(keys);
  }
  RETURN_IF_ERROR(options.keys_file.empty() ? CheckExposure(*server) : OkStatus());
  if (!options.keys_file.empty()) {
    auto keys = KeyRing::Load(options.keys_file);
    if (!keys) return std::move(keys).error().WithContext("--keys-file");
    server->keys = *std::move(keys);
    const std::string folder = options.state_dir.empty() ? DefaultStateFolder() : options.state_dir;
    if (folder.empty()) return InvalidArgument("--state-dir is needed: HOME is not set");
    auto salts = TenantSalt::LoadOrCreate(folder);
    if (!salts) return std::move(salts).error().WithContext("--state-dir");
    server->salts = *std::move(salts);
  }
  if (options.audit_log.empty()) return OkStatus();
  auto audit = AuditLog::Open(options.audit_log);
  if (!audit) return std::move(audit).error().WithContext("--audit-log");
  server->audit = *std::move(audit);
  return OkStatus();
}

// Checked before the model is loaded: a wrong flag should not cost a minute.
Result<ServerOptions> ServerOptionsOf(const Options& options) {
  ServerOptions server;
  server.host = options.host;
  server.port = static_cast<uint16_t>(options.port);
  server.alias = options.alias;
  server.allowed_origins = SplitList(options.cors_origins);
  server.allowed_hosts = SplitList(options.allowed_hosts);
  server.request_deadline_ms = options.request_timeout_s * 1000;
  server.limits.max_connections = static_cast<size_t>(options.max_connections);
  auto body = ParseBytes(options.max_body);
  if (!body.has_value()) return std::move(body).error().WithContext("--max-body");
  if (*body < kMinBodyBytes || *body > kMaxBodyBytes) {
    return InvalidArgument("--max-body {} is outside [{}, {}]", options.max_body,
                           FormatBytes(kMinBodyBytes), FormatBytes(kMaxBodyBytes));
  }
  RETURN_IF_ERROR(AddAccess(options, &server));
  server.limits.body_bytes = *body;
  server.limits.total_body_bytes = std::max<size_t>(server.limits.total_body_bytes, 2 * *body);
  return server;
}

void PrintReady(const Options& options, const EngineInfo& info, int port) {
  if (options.json) {
    Json document{{"host", options.host},    {"port", port},    {"model", info.model_id},
                  {"context", info.context}, {"isa", info.isa}, {"threads", info.threads}};
    std::printf("%s\n", DumpJson(document).c_str());
  } else {
    std::printf("%s is ready at http://%s:%d (context %lld, kernels %s, %d threads)\n",
                info.model_id.c_str(), options.host.c_str(), port,
                static_cast<long long>(info.context), info.isa.c_str(), info.threads);
  }
  std::fflush(stdout);
}

}  // namespace

Status CommandServe(const Options& options) {
  // Before any thread (the audit log has one): threads inherit what is blocked.
  const SignalGate signals;
  ASSIGN_OR_RETURN(const ServerOptions server_options, ServerOptionsOf(options));
  ASSIGN_OR_RETURN(Runtime runtime,
                   LoadRuntime(options, kServeStepRows, KvBudget::kWholeBudget, 0));
  ASSIGN_OR_RETURN(const auto engine, StartEngine(options, std::move(runtime)));
  ASSIGN_OR_RETURN(const auto server, Server::Start(server_options, *engine));
  if (options.ctx_size > engine->info().context) {
    LOG_WARN("--ctx-size {} is cut to {}: the budget's KV cache holds no more (raise --memory)",
             options.ctx_size, engine->info().context);
  }
  PrintReady(options, engine->info(), server->port());
  while (signals.Wait() == SIGHUP) server->Reload();
  LOG_INFO("draining: running requests may finish for {} s; press Ctrl-C again to stop at once",
           options.drain_timeout_s);
  std::atomic<bool> done{false};
  std::thread second([&] {
    while (signals.Wait() == SIGHUP) {
    }
    if (!done.load()) engine->Drain(0);
  });
  server->Drain(options.drain_timeout_s * 1000);
  done.store(true);
  pthread_kill(second.native_handle(), SIGTERM);  // wakes its sigwait
  second.join();
  return OkStatus();
}

}  // namespace ballast
