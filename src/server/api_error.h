// Role: errors as OpenAI clients expect them, and the Result type of the API layer.
// Thread: values.
#ifndef BALLAST_SERVER_API_ERROR_H_
#define BALLAST_SERVER_API_ERROR_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "http/types.h"

namespace ballast {

/// The status that stands in logs and metrics for a request whose client has left (nginx's).
inline constexpr int kClientLeft = 499;

/// {"error": {"message", "type", "param", "code"}} with its HTTP status.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the field at fault; empty is null
  std::string code;   // a stable word; empty is null
  int retry_after_s = 0;
};

/// Either a T or an ApiError; works with RETURN_IF_ERROR and ASSIGN_OR_RETURN.
template <class T>
class [[nodiscard]] ApiResult : public tl::expected<T, ApiError> {
 public:
  using tl::expected<T, ApiError>::expected;
  ApiResult(ApiError error)  // NOLINT: implicit like Result's
      : tl::expected<T, ApiError>(tl::unexpect, std::move(error)) {}
};
using ApiStatus = ApiResult<void>;

/// A 400 about one field. `code` is "invalid_value", "unsupported_field", "unknown_field", …
template <class... Args>
ApiError FieldError(std::string_view param, std::string_view code,
                    fmt::format_string<Args...> format, Args&&... args) {
  ApiError error;
  error.message = fmt::format(format, std::forward<Args>(args)...);
  error.param = param;
  error.code = code;
  return error;
}

/// The API's face of a library error: status from the one table of base, `code` from its reason.
ApiError FromError(const Error& error);

/// The error object without the surrounding {"error": …}.
Json ErrorObject(const ApiError& error);
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace ballast

#endif  // BALLAST_SERVER_API_ERROR_H_
