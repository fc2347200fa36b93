// Role: the secret behind cache salts, and a tenant's salt. Tenants must not find out by timing
// what others have cached, so each one's cache keys are salted with what nobody outside knows.
// Thread: immutable.
#ifndef BALLAST_SERVER_TENANT_SALT_H_
#define BALLAST_SERVER_TENANT_SALT_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace ballast {

class TenantSalt {
 public:
  /// Reads `folder`/tenant-secret, or makes folder and file; of two processes that do so at the
  /// same time both get the same secret. Errors, naming the path: kPermissionDenied (others may use
  /// the file), kInvalidArgument (not 32 bytes), kUnavailable.
  static Result<TenantSalt> LoadOrCreate(const std::string& folder);
  explicit TenantSalt(std::string secret) : secret_(std::move(secret)) {}

  /// HMAC-SHA256(secret, tenant), 32 raw bytes.
  std::string Of(std::string_view tenant) const;

 private:
  std::string secret_;
};

/// Where state is kept unless told otherwise: $XDG_STATE_HOME/ballast, else
/// ~/.local/state/ballast. Empty when neither variable is set.
std::string DefaultStateFolder();

}  // namespace ballast

#endif  // BALLAST_SERVER_TENANT_SALT_H_
