// Role: who a request comes from and what that allows. Thread: values.
#ifndef BALLAST_SERVER_IDENTITY_H_
#define BALLAST_SERVER_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace ballast {

/// What a key allows; a bit mask. kAdmin goes with everything.
enum Scopes : unsigned {
  kScopeNone = 0,
  kScopeInference = 1,
  kScopeMetrics = 2,
  kScopeAdmin = 4,
  kScopeAll = 7,
};

/// Limits of one tenant, over all its keys. Absent: none.
struct Quotas {
  std::optional<int64_t> requests_per_minute;
  std::optional<int64_t> tokens_per_minute;
  std::optional<int64_t> concurrent_requests;
  bool operator==(const Quotas&) const = default;
};

/// The default is what everybody is while no keys are configured.
struct Identity {
  std::string tenant;  // empty: no tenants
  std::string key_id;  // empty: no key
  unsigned scopes = kScopeAll;
  Quotas quotas;

  bool may(unsigned scope) const { return (scopes & (scope | kScopeAdmin)) != 0 || scope == 0; }
  /// May see what belongs to `other`.
  bool sees(const std::string& other) const { return may(kScopeAdmin) || tenant == other; }
};

}  // namespace ballast

#endif  // BALLAST_SERVER_IDENTITY_H_
