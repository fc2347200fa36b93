// Role: one request's account: who sent it, what it uses, and its line in the audit log. The
// exchange of every request is wrapped so that no way of ending is forgotten. Thread: any.
// Invariants: the account ends once, before the client can see the end of its reply, so a client
// that sends one request after another never meets its own last one; without an end by then, it
// ends when nobody holds it any more.
#ifndef BALLAST_SERVER_REQUEST_ACCOUNT_H_
#define BALLAST_SERVER_REQUEST_ACCOUNT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/client.h"
#include "http/server.h"
#include "server/audit_log.h"
#include "server/quota.h"

namespace ballast {

/// How the name of a tenant or key is shown: null where there is none.
Json NameOrNull(const std::string& name);

/// What accounts write to; outlives them.
struct AccountBooks {
  QuotaBook quotas;
  std::shared_ptr<AuditLog> audit;  // null: none
};

class RequestAccount {
 public:
  struct Request {
    std::string id;
    std::string method;
    std::string route;
    std::string peer;
  };
  RequestAccount(std::shared_ptr<AccountBooks> books, Identity identity, Request request);
  /// Ends with 499, the client has left, unless it has ended.
  ~RequestAccount();
  RequestAccount(const RequestAccount&) = delete;
  RequestAccount& operator=(const RequestAccount&) = delete;

  const Identity& identity() const { return identity_; }
  const Request& request() const { return request_; }

  /// Counts the request against its tenant's quotas. Errors: QuotaBook::Enter's.
  ApiStatus Enter();
  /// Sets tokens aside. Errors: QuotaBook::Reserve's.
  ApiStatus Reserve(int64_t tokens);
  /// x-ratelimit-* of the tenant.
  HttpHeaders RateHeaders();
  /// Tokens of one finished part of the request; also after the end.
  void AddUsage(int64_t prompt_tokens, int64_t completion_tokens);
  /// Gives back what is held and writes the line. Only the first call counts.
  void End(int status);

 private:
  const std::shared_ptr<AccountBooks> books_;
  const Identity identity_;
  const Request request_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  bool entered_ = false;
  bool ended_ = false;
  std::optional<QuotaBook::Reservation> reservation_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
};

/// Passes everything on to `to` and ends the account with the reply.
std::shared_ptr<Exchange> Accounted(std::shared_ptr<Exchange> to,
                                    std::shared_ptr<RequestAccount> account);

}  // namespace ballast

#endif  // BALLAST_SERVER_REQUEST_ACCOUNT_H_
