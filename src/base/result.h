// Role: the one error type and Result<T>, used by every library instead of exceptions.
// Libraries return errors for bad input and failing systems; CHECK (check.h) is for bugs only.
// Thread: values, no shared state.
#ifndef BALLAST_BASE_RESULT_H_
#define BALLAST_BASE_RESULT_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace ballast {

/// Canonical codes. Values are frozen: they appear in logs and in --json output.
enum class Code : int {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The stable lower-case name, e.g. "invalid_argument".
std::string_view CodeName(Code code);

/// HTTP status for an error that reaches a client (one table maps codes).
int HttpStatus(Code code);

/// Process exit code: 1 failed, 2 usage, 3 unsupported here.
int ExitCode(Code code);

/// What went wrong. `message` names the field, file or flag, the offending value and the limit.
/// `reason` is an optional machine-readable word such as "context_length_exceeded".
struct Error {
  Code code = Code::kUnknown;
  std::string message;
  std::string reason;

  /// Returns this error with `context` put in front of the message.
  Error WithContext(std::string_view context) && {
    message = fmt::format("{}: {}", context, message);
    return std::move(*this);
  }
};

/// Either a T or an Error. Discarding one is a compile error.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}  // NOLINT
};

using Status = Result<void>;

inline Status OkStatus() { return {}; }

/// Builds an Error with a formatted message.
template <class... Args>
Error MakeError(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

template <class... Args>
Error InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <class... Args>
Error NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kNotFound, format, std::forward<Args>(args)...);
}
template <class... Args>
Error Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kUnimplemented, format, std::forward<Args>(args)...);
}
template <class... Args>
Error DataLoss(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kDataLoss, format, std::forward<Args>(args)...);
}
template <class... Args>
Error Internal(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kInternal, format, std::forward<Args>(args)...);
}
template <class... Args>
Error ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kResourceExhausted, format, std::forward<Args>(args)...);
}
template <class... Args>
Error Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(Code::kUnavailable, format, std::forward<Args>(args)...);
}

}  // namespace ballast

#define BALLAST_CONCAT_INNER(a, b) a##b
#define BALLAST_CONCAT(a, b) BALLAST_CONCAT_INNER(a, b)

/// Returns the error of a Status or Result expression from the enclosing function.
#define RETURN_IF_ERROR(expr)                                        \
  do {                                                               \
    if (auto ballast_status = (expr); !ballast_status.has_value()) { \
      return std::move(ballast_status).error();                      \
    }                                                                \
  } while (false)

/// ASSIGN_OR_RETURN(auto x, F()); assigns F()'s value or returns its error.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(BALLAST_CONCAT(ballast_result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)          \
  auto tmp = (expr);                                   \
  if (!tmp.has_value()) return std::move(tmp).error(); \
  lhs = std::move(*tmp)

#endif  // BALLAST_BASE_RESULT_H_
