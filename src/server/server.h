// Role: the HTTP server as commands start it: one engine behind OpenAI's API, tools and the
// console. Thread: methods may be called from any thread but the server's own.
#ifndef BALLAST_SERVER_SERVER_H_
#define BALLAST_SERVER_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/client.h"
#include "http/types.h"
#include "server/audit_log.h"
#include "server/tenant_salt.h"
#include "server/tenants.h"

namespace ballast {

struct ServerOptions {
  std::string host = "127.0.0.1";   // an IP literal or "localhost"
  uint16_t port = 8420;             // 0: any free port
  int threads = 2;                  // I/O threads: parse, tokenize, stream
  std::string alias;                // the model's name in the API; empty: the engine's
  int64_t request_deadline_ms = 0;  // of one generating request; 0: none
  HttpLimits limits;
  /// Host names besides loopback and IP literals under which browsers may reach a server that
  /// listens on loopback (others could be an attacker's name that resolves to 127.0.0.1).
  std::vector<std::string> allowed_hosts;
  /// Origins ("https://chat.example") whose pages may call the API, besides the server's own.
  std::vector<std::string> allowed_origins;
  /// Who may call; null: everybody who can connect, which is allowed on loopback only.
  std::shared_ptr<KeyRing> keys;
  /// Makes the cache salts of tenants; needed as soon as keys name tenants.
  std::optional<TenantSalt> salts;
  std::shared_ptr<AuditLog> audit;  // null: none
};

class Server {
 public:
  /// Starts listening. `engine` must outlive the server.
  /// Errors: kInvalidArgument (host, also one that others can reach while there are no keys;
  /// threads), kUnavailable (port taken).
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, EngineClient& engine);
  /// Stops at once.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  /// "http://127.0.0.1:8420"
  std::string url() const;

  /// Reads the keys file again and reopens the audit log. What cannot be read stays as it was; that
  /// is logged.
  void Reload();

  /// The orderly end: /readyz turns 503, new generating requests get 503, running ones finish for
  /// up to `timeout_ms`, then the rest is cancelled and everything stops.
  void Drain(int64_t timeout_ms);
  /// Stops now: what is already answered may still leave (half a second), open requests are
  /// cancelled.
  void Stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_SERVER_H_
