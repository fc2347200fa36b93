#include "server/access.h"

#include "server/origin.h"

namespace ballast {

namespace {

// The key that the request carries, or nothing.
std::string_view SentKey(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view authorization = request.Header("Authorization");
  if (authorization.size() > kScheme.size() &&
      EqualsIgnoreCase(authorization.substr(0, kScheme.size()), kScheme)) {
    std::string_view key = authorization.substr(kScheme.size());
    key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));
    return key;
  }
  return authorization.empty() ? request.Header("x-api-key") : std::string_view();
}

}  // namespace

ApiResult<Identity> Authenticate(const HttpRequest& request, const KeyRing* keys) {
  if (keys == nullptr) return Identity();
  const std::string_view sent = SentKey(request);
  if (!sent.empty()) {
    if (auto identity = keys->Find(sent)) return *std::move(identity);
  }
  ApiError error;
  error.status = 401;
  error.type = "authentication_error";
  error.code = "invalid_api_key";
  error.message = sent.empty()
                      ? "no API key: send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
                      : "the API key is not known here";
  return error;
}

ApiStatus CheckScope(const Identity& identity, unsigned scope, std::string_view route) {
  if (identity.may(scope)) return {};
  ApiError error;
  error.status = 403;
  error.type = "permission_error";
  error.code = "insufficient_scope";
  error.message =
      fmt::format("{} needs a key with the scope {:?}", route, ScopeNames(scope).front());
  return error;
}

Status CheckExposure(const ServerOptions& options) {
  if (IsLoopbackHost(options.host) || options.keys != nullptr) return OkStatus();
  return InvalidArgument(
      "--host {} lets other machines in, but no key is asked for: give --keys-file FILE (see "
      "`ballast keys new`) or --api-key KEY, or listen on 127.0.0.1",
      options.host);
}

}  // namespace ballast
