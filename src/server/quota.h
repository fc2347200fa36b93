// Role: counts what tenants use and refuses what is over their quotas. Thread: any; one mutex, held
// for a few additions. Invariant: in any 60 seconds no more is accepted than the quota says,
// however many clients ask at once.
#ifndef BALLAST_SERVER_QUOTA_H_
#define BALLAST_SERVER_QUOTA_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/types.h"
#include "server/api_error.h"
#include "server/identity.h"

namespace ballast {

/// A sum over the last 60 seconds, kept by the second: what was added in second s counts until
/// second s + 60 is over.
class MinuteWindow {
 public:
  /// Adds to `second`, which may lie in the past (an old one that has left does nothing). Negative
  /// amounts give back.
  void Add(int64_t now_s, int64_t second, int64_t amount);
  int64_t Sum(int64_t now_s);
  /// Seconds until the sum is at most `limit`, if nothing is added; 0: it is.
  int64_t SecondsUntil(int64_t now_s, int64_t limit);

 private:
  static constexpr int64_t kSeconds = 61;
  void Advance(int64_t now_s);
  std::array<int64_t, kSeconds> amounts_{};  // index: second modulo kSeconds
  int64_t last_s_ = 0;                       // the newest second in the window
  int64_t sum_ = 0;
};

/// What one tenant has used since the start; `running` is the present number.
struct TenantTotals {
  std::string tenant;
  int64_t requests = 0;
  int64_t refused = 0;  // over a quota
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t running = 0;
};

class QuotaBook {
 public:
  /// @param clock outlives the book.
  explicit QuotaBook(const Clock& clock = SystemClock()) : clock_(clock) {}

  /// Counts one request in; Leave must follow. Refused: 429 "rate_limit_exceeded" naming the quota
  /// and its limit; then nothing is counted.
  ApiStatus Enter(const Identity& identity);
  void Leave(const std::string& tenant);

  /// Tokens set aside for a request that may still give some back.
  struct Reservation {
    int64_t second = 0;
    int64_t tokens = 0;
  };
  /// Refused: 429 as above; 400 "tokens_over_quota" for what no minute could hold.
  ApiResult<Reservation> Reserve(const Identity& identity, int64_t tokens);
  /// Replaces the reservation by what was used in the end.
  void Settle(const std::string& tenant, Reservation reservation, int64_t prompt_tokens,
              int64_t completion_tokens);

  /// x-ratelimit-* as OpenAI's clients know them, for the quotas that the tenant has.
  HttpHeaders RateHeaders(const Identity& identity);
  /// Of all tenants seen so far, ascending by name.
  std::vector<TenantTotals> Totals() const;

 private:
  struct Tenant {
    MinuteWindow requests;
    MinuteWindow tokens;
    TenantTotals totals;
  };
  int64_t NowSeconds() const { return clock_.NowNs() / 1'000'000'000; }
  ApiError Refuse(Tenant& tenant, const char* quota, int64_t limit, std::string_view what,
                  int64_t retry_s);

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Tenant> tenants_;  // as many as the keys file has named
};

}  // namespace ballast

#endif  // BALLAST_SERVER_QUOTA_H_
