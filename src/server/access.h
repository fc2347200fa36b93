// Role: decides who may come in: which key a request carries, whether its scopes suffice, and
// whether a server may listen where it is told to. Thread: pure functions.
#ifndef BALLAST_SERVER_ACCESS_H_
#define BALLAST_SERVER_ACCESS_H_

#include <string_view>

#include "http/types.h"
#include "server/api_error.h"
#include "server/identity.h"
#include "server/server.h"
#include "server/tenants.h"

namespace ballast {

/// Who sent the request: by `Authorization: Bearer KEY`, else by `x-api-key: KEY`. Without `keys`
/// everybody is the default identity. Errors: 401 "invalid_api_key".
ApiResult<Identity> Authenticate(const HttpRequest& request, const KeyRing* keys);

/// Errors: 403 "insufficient_scope" naming the scope.
ApiStatus CheckScope(const Identity& identity, unsigned scope, std::string_view route);

/// A server that other machines can reach needs keys. Errors: kInvalidArgument naming the flag, its
/// value and what to do.
Status CheckExposure(const ServerOptions& options);

}  // namespace ballast

#endif  // BALLAST_SERVER_ACCESS_H_
