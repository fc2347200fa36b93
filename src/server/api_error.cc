#include "server/api_error.h"

namespace ballast {

namespace {

std::string_view TypeOf(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

}  // namespace

ApiError FromError(const Error& error) {
  ApiError api;
  api.status = HttpStatus(error.code);
  api.message = error.message;
  api.type = TypeOf(api.status);
  api.code = error.reason.empty() ? std::string(CodeName(error.code)) : error.reason;
  if (api.status == 429) api.retry_after_s = 1;
  if (api.status == 503) api.retry_after_s = 5;
  return api;
}

Json ErrorObject(const ApiError& error) {
  Json object;
  object["message"] = error.message;
  object["type"] = error.type;
  object["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  object["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
  return object;
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  Json body;
  body["error"] = ErrorObject(error);
  response.body = DumpJson(body);
  if (error.retry_after_s > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
  return response;
}

}  // namespace ballast
