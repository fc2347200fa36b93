#include "server/http_app.h"

#include <algorithm>

#include "base/log.h"
#include "server/access.h"
#include "server/messages_reply.h"
#include "server/openapi.h"
#include "server/origin.h"
#include "server/request_id.h"

namespace ballast {

const HttpApp::Route HttpApp::kRoutes[] = {
    {"GET", "/v1/models", &HttpApp::Models, kScopeInference},
    {"GET", "/v1/models/", &HttpApp::Model, kScopeInference},
    {"POST", "/v1/chat/completions", &HttpApp::ChatCompletions, kScopeInference},
    {"POST", "/v1/completions", &HttpApp::Completions, kScopeInference},
    {"POST", "/v1/responses", &HttpApp::Responses, kScopeInference},
    {"POST", "/v1/messages", &HttpApp::Messages, kScopeInference},
    {"POST", "/v1/messages/count_tokens", &HttpApp::CountTokens, kScopeInference},
    {"POST", "/v1/embeddings", &HttpApp::Embeddings, kScopeInference},
    {"POST", "/tokenize", &HttpApp::Tokenize, kScopeInference},
    {"POST", "/detokenize", &HttpApp::Detokenize, kScopeInference},
    {"POST", "/apply-template", &HttpApp::ApplyTemplate, kScopeInference},
    {"GET", "/health", &HttpApp::Health, kScopeNone},
    {"GET", "/healthz", &HttpApp::Health, kScopeNone},
    {"GET", "/readyz", &HttpApp::Ready, kScopeNone},
    {"GET", "/metrics", &HttpApp::Metrics, kScopeMetrics},
    {"GET", "/v1/memory", &HttpApp::Memory, kScopeMetrics},
    {"GET", "/openapi.json", &HttpApp::OpenApi, kScopeNone},
    {"GET", "/v1/requests", &HttpApp::Requests, kScopeInference},
    {"DELETE", "/v1/requests/", &HttpApp::CancelRequest, kScopeInference},
    {"GET", "/", &HttpApp::Console, kScopeNone},
    {"GET", "/assets/", &HttpApp::Console, kScopeNone},
};

namespace {

bool SpeaksMessages(std::string_view path) {
  return path == "/v1/messages" || path.starts_with("/v1/messages/");
}

}  // namespace

HttpApp::HttpApp(const ServerOptions& options, EngineClient& engine)
    : options_(options), engine_(engine), on_loopback_(IsLoopbackHost(options.host)) {
  books_->audit = options_.audit;
}

void HttpApp::Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  Call call;
  call.id = RequestIdFrom(request.Header("x-request-id"));
  const LogRequestScope scope(call.id);
  call.log = std::make_shared<RequestLog>(call.id, request.method, request.peer);
  call.request = std::move(request);
  call.exchange = Logged(std::move(exchange), call.log);
  call.route = "none";
  call.headers.emplace_back("x-request-id", call.id);
  if (SpeaksMessages(call.request.path)) call.headers.emplace_back("request-id", call.id);
  if (const ApiStatus allowed = CheckCaller(call.request); !allowed) {
    ReplyError(call, allowed.error());
    return;
  }
  AddCorsHeaders(call);
  Dispatch(call);
}

void HttpApp::OpenApi(Call& call) {
  std::vector<ApiRoute> routes;
  for (const Route& route : kRoutes) {
    routes.push_back({route.method, route.path, route.scope != kScopeNone});
  }
  ReplyJson(call, OpenApiDocument(routes));
}

void HttpApp::Dispatch(Call& call) {
  const std::string& path = call.request.path;
  std::string_view method = call.request.method;
  if (method == "HEAD") method = "GET";
  std::string allow;
  for (const Route& route : kRoutes) {
    const bool prefix = route.path.size() > 1 && route.path.ends_with('/');
    if (prefix ? !path.starts_with(route.path) || path == route.path : path != route.path) continue;
    call.route = route.path;
    call.log->SetRoute(route.path);
    if (method == route.method) {
      if (prefix) call.rest = path.substr(route.path.size());
      if (const ApiStatus admitted = Admit(call, route); !admitted) {
        return ReplyError(call, admitted.error());
      }
      (this->*route.handler)(call);
      return;
    }
    allow +=
        route.method == "GET" ? "GET, HEAD, OPTIONS" : fmt::format("{}, OPTIONS", route.method);
  }
  if (allow.empty()) {
    ApiError error;
    error.status = 404;
    error.message = fmt::format("there is no {:?} here", path.substr(0, 200));
    error.code = "not_found";
    ReplyError(call, error);
    return;
  }
  HttpResponse response;
  if (method == "OPTIONS") {
    response.status = 204;
    response.content_type.clear();
  } else {
    ApiError error;
    error.status = 405;
    error.message = fmt::format("{} does not take the method {:?}; it takes {}", call.route,
                                method.substr(0, 32), allow);
    error.code = "method_not_allowed";
    response = ErrorReply(call, error);
  }
  response.headers.emplace_back("Allow", allow);
  Reply(call, std::move(response));
}

ApiStatus HttpApp::Admit(Call& call, const Route& route) {
  if (route.scope == kScopeNone) return {};
  const auto denied = [&](const Identity& identity, const ApiError& error) {
    if (options_.audit != nullptr) {
      options_.audit->Write("denied", Json{{"request_id", call.id},
                                           {"tenant", NameOrNull(identity.tenant)},
                                           {"key", NameOrNull(identity.key_id)},
                                           {"method", call.request.method},
                                           {"route", call.route},
                                           {"status", error.status},
                                           {"reason", error.code},
                                           {"peer", call.request.peer}});
    }
    return error;
  };
  const auto identity = Authenticate(call.request, options_.keys.get());
  if (!identity) {
    call.headers.emplace_back("WWW-Authenticate", "Bearer");
    return denied({}, identity.error());
  }
  if (const auto allowed = CheckScope(*identity, route.scope, call.route); !allowed) {
    return denied(*identity, allowed.error());
  }
  call.account = std::make_shared<RequestAccount>(
      books_, *identity,
      RequestAccount::Request{call.id, call.request.method, std::string(call.route),
                              call.request.peer});
  call.exchange = Accounted(std::move(call.exchange), call.account);
  if (route.method != "POST" || route.scope != kScopeInference) return {};
  const ApiStatus entered = call.account->Enter();
  AddRateHeaders(call);
  return entered;
}

void HttpApp::AddRateHeaders(Call& call) {
  std::erase_if(call.headers,
                [](const auto& header) { return header.first.starts_with("x-ratelimit-"); });
  const HttpHeaders rates = call.account->RateHeaders();
  call.headers.insert(call.headers.end(), rates.begin(), rates.end());
}

ApiStatus HttpApp::Reserve(Call& call, int64_t tokens) {
  const ApiStatus reserved = call.account->Reserve(tokens);
  AddRateHeaders(call);
  return reserved;
}

// Never from the body: a tenant is who holds the key.
void HttpApp::SetTenant(const Call& call, GenerationRequest* request) const {
  request->tenant = call.account->identity().tenant;
  if (!request->tenant.empty() && options_.salts) {
    request->cache_salt = options_.salts->Of(request->tenant);
  }
}

HttpResponse HttpApp::TransportError(int status, std::string_view message, std::string_view path) {
  ApiError error;
  error.status = status;
  error.message = message;
  switch (status) {
    case 408:
      error.code = "request_timeout";
      break;
    case 413:
      error.code = "request_too_large";
      break;
    case 431:
      error.code = "headers_too_large";
      break;
    case 503:
      error.code = "overloaded";
      break;
    default:
      error.code = "bad_request";
      break;
  }
  if (status >= 500) {
    error.type = "service_unavailable_error";
    error.retry_after_s = 1;
  }
  metrics_->CountReply("transport", status);
  Call call;
  call.id = RequestIdFrom("");
  call.request.path = path;
  HttpResponse response = ErrorReply(call, error);
  response.headers.emplace_back("x-request-id", call.id);
  if (SpeaksMessages(path)) response.headers.emplace_back("request-id", call.id);
  return response;
}

// A web page must not drive a model on the reader's machine: its Origin has to be this server's,
// and a server on loopback answers to no name that somebody else may point at 127.0.0.1.
ApiStatus HttpApp::CheckCaller(const HttpRequest& request) const {
  const std::string_view host = request.Header("Host");
  ApiError error;
  const auto hosts =
      std::count_if(request.headers.begin(), request.headers.end(),
                    [](const auto& header) { return EqualsIgnoreCase(header.first, "Host"); });
  if (hosts > 1) {  // a proxy and this server could each believe another one (RFC 9112 §3.2)
    error.message = fmt::format("the request has {} Host headers, one is allowed", hosts);
    error.code = "duplicate_host";
    return error;
  }
  error.status = 403;
  error.type = "permission_error";
  if (on_loopback_ && !host.empty() && !HostIsLocal(host) &&
      !Contains(options_.allowed_hosts, HostName(host))) {
    error.message =
        fmt::format("the host {:?} is not one of this server's names", host.substr(0, 200));
    error.code = "host_not_allowed";
    return error;
  }
  const std::string_view origin = request.Header("Origin");
  if (!origin.empty() && !OriginIsHost(origin, host) &&
      !Contains(options_.allowed_origins, origin)) {
    error.message =
        fmt::format("pages of the origin {:?} may not call this server", origin.substr(0, 200));
    error.code = "origin_not_allowed";
    return error;
  }
  return {};
}

// Only for origins that the operator named; without any, CORS is off.
void HttpApp::AddCorsHeaders(Call& call) const {
  const std::string_view origin = call.request.Header("Origin");
  if (origin.empty() || !Contains(options_.allowed_origins, origin)) return;
  call.headers.emplace_back("Access-Control-Allow-Origin", origin);
  call.headers.emplace_back("Vary", "Origin");
  call.headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, Retry-After");
  if (call.request.method != "OPTIONS") return;
  call.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  // Clients send headers of their own (x-stainless-…), so what is asked for is allowed.
  const std::string_view asked = call.request.Header("Access-Control-Request-Headers");
  if (!asked.empty()) call.headers.emplace_back("Access-Control-Allow-Headers", asked);
  call.headers.emplace_back("Access-Control-Max-Age", "600");
}

const std::string& HttpApp::ModelName() const {
  return options_.alias.empty() ? engine_.info().model_id : options_.alias;
}

ApiStatus HttpApp::CheckModel(std::string_view model) const {
  if (model.empty() || model == ModelName() || model == engine_.info().model_id) return {};
  ApiError error;
  error.status = 404;
  error.message = fmt::format("the model {:?} is not loaded; this server has {:?}",
                              model.substr(0, 200), ModelName());
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

void HttpApp::Reply(Call& call, HttpResponse response) {
  metrics_->CountReply(call.route, response.status);
  response.headers.insert(response.headers.end(), call.headers.begin(), call.headers.end());
  call.exchange->Send(std::move(response));
}

void HttpApp::ReplyJson(Call& call, const Json& json, int status) {
  HttpResponse response;
  response.status = status;
  response.body = DumpJson(json);
  Reply(call, std::move(response));
}

// A translator gives errors its shape itself.
HttpResponse HttpApp::ErrorReply(const Call& call, const ApiError& error) {
  HttpResponse response = ErrorResponse(error);
  if (call.translator == nullptr && SpeaksMessages(call.request.path)) {
    response.body = DumpJson(MessagesErrorBody(ErrorObject(error), error.status, call.id));
  }
  return response;
}

void HttpApp::ReplyError(Call& call, const ApiError& error) {
  call.log->SetError(error.code);
  Reply(call, ErrorReply(call, error));
}

}  // namespace ballast
