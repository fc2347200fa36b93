#include "base/result.h"

namespace ballast {

namespace {

struct CodeRow {
  Code code;
  std::string_view name;
  int http_status;
  int exit_code;
};

// The one table that maps codes to surfaces.
constexpr CodeRow kRows[] = {
    {Code::kCancelled, "cancelled", 499, 1},
    {Code::kUnknown, "unknown", 500, 1},
    {Code::kInvalidArgument, "invalid_argument", 400, 2},
    {Code::kDeadlineExceeded, "deadline_exceeded", 504, 1},
    {Code::kNotFound, "not_found", 404, 1},
    {Code::kAlreadyExists, "already_exists", 409, 1},
    {Code::kPermissionDenied, "permission_denied", 403, 1},
    {Code::kResourceExhausted, "resource_exhausted", 429, 1},
    {Code::kFailedPrecondition, "failed_precondition", 400, 1},
    {Code::kAborted, "aborted", 409, 1},
    {Code::kOutOfRange, "out_of_range", 400, 1},
    {Code::kUnimplemented, "unimplemented", 501, 3},
    {Code::kInternal, "internal", 500, 1},
    {Code::kUnavailable, "unavailable", 503, 1},
    {Code::kDataLoss, "data_loss", 500, 1},
    {Code::kUnauthenticated, "unauthenticated", 401, 1},
};

const CodeRow& Row(Code code) {
  for (const CodeRow& row : kRows) {
    if (row.code == code) return row;
  }
  return kRows[1];
}

}  // namespace

std::string_view CodeName(Code code) { return Row(code).name; }
int HttpStatus(Code code) { return Row(code).http_status; }
int ExitCode(Code code) { return Row(code).exit_code; }

}  // namespace ballast
