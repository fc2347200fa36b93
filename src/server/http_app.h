// Role: the API behind the HTTP server: finds the route, guards against foreign web pages, names
// requests, and answers. One method a route; routes_*.cc hold them by subject. Thread: handlers run
// on I/O threads at the same time; members are immutable or atomic.
#ifndef BALLAST_SERVER_HTTP_APP_H_
#define BALLAST_SERVER_HTTP_APP_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "engine/client.h"
#include "http/server.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/grammar_service.h"
#include "server/metrics.h"
#include "server/parse_request.h"
#include "server/request_account.h"
#include "server/request_log.h"
#include "server/request_registry.h"
#include "server/server.h"

namespace ballast {

class ChatTranslator;

class HttpApp final : public HttpHandler {
 public:
  /// `options` and `engine` must outlive the app.
  HttpApp(const ServerOptions& options, EngineClient& engine);

  void Handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override;
  HttpResponse TransportError(int status, std::string_view message, std::string_view path) override;

  /// For its statistics; may be null.
  void SetHttpServer(const HttpServer* http) { http_.store(http); }
  void SetDraining() { draining_.store(true); }

 private:
  /// One request on its way through a route.
  struct Call {
    HttpRequest request;
    std::shared_ptr<Exchange> exchange;
    std::string id;  // x-request-id
    std::shared_ptr<RequestLog> log;
    std::string_view route;  // the fixed name, for metrics
    std::string rest;        // what a route ending in '/' leaves
    HttpHeaders headers;     // of every reply: x-request-id, quotas, CORS for allowed origins
    std::shared_ptr<RequestAccount> account;  // set once the route is known
    /// Also the exchange, where the chat answers for another API. Null: it answers itself.
    std::shared_ptr<ChatTranslator> translator;
  };
  using RouteMethod = void (HttpApp::*)(Call&);
  struct Route {
    std::string_view method;
    std::string_view path;  // with a final '/': a prefix
    RouteMethod handler;
    unsigned scope;  // that a key needs; kScopeNone: no key
  };
  static const Route kRoutes[];

  // routes_generate.cc
  void ChatCompletions(Call& call);
  void Completions(Call& call);
  void Generate(Call& call, ApiResult<GenerationBody> body);
  void ApplyTemplate(Call& call);
  // routes_tokens.cc
  void Tokenize(Call& call);
  void Detokenize(Call& call);
  // routes_messages.cc
  void Messages(Call& call);
  void CountTokens(Call& call);
  // routes_responses.cc
  void Responses(Call& call);
  // routes_embeddings.cc
  void Embeddings(Call& call);
  // routes_info.cc
  void Models(Call& call);
  void Model(Call& call);
  void Health(Call& call);
  void Ready(Call& call);
  void Metrics(Call& call);
  void Memory(Call& call);
  void Console(Call& call);
  void OpenApi(Call& call);  // http_app.cc, beside the routes
  // routes_requests.cc
  void Requests(Call& call);
  void CancelRequest(Call& call);

  /// The prompt of a chat body. Errors: as the chat's.
  ApiResult<std::vector<TokenId>> ChatTokens(const Json& chat) const;
  ModelLimits Limits() const;
  /// Whose requests the caller may see.
  static RequestRegistry::Sees SeesOf(const Call& call);
  ApiStatus CheckCaller(const HttpRequest& request) const;
  void AddCorsHeaders(Call& call) const;
  /// 404 unless `model` is empty or the loaded one.
  ApiStatus CheckModel(std::string_view model) const;
  const std::string& ModelName() const;
  Json ModelJson() const;
  void Dispatch(Call& call);
  /// Authenticates the call, checks its scope and counts it; opens its account.
  ApiStatus Admit(Call& call, const Route& route);
  static void AddRateHeaders(Call& call);
  /// Sets tokens aside for the call and renews its x-ratelimit headers. Errors: 429, 400.
  static ApiStatus Reserve(Call& call, int64_t tokens);
  /// The engine's request of this caller, still without a prompt.
  void SetTenant(const Call& call, GenerationRequest* request) const;
  void Reply(Call& call, HttpResponse response);
  void ReplyJson(Call& call, const Json& json, int status = 200);
  /// In the shape of the API that the path belongs to.
  static HttpResponse ErrorReply(const Call& call, const ApiError& error);
  void ReplyError(Call& call, const ApiError& error);

  const ServerOptions& options_;
  EngineClient& engine_;
  const bool on_loopback_;
  GrammarService grammars_;
  const std::shared_ptr<ServerMetrics> metrics_ = std::make_shared<ServerMetrics>();
  const std::shared_ptr<AccountBooks> books_ = std::make_shared<AccountBooks>();
  const std::shared_ptr<RequestRegistry> requests_ = std::make_shared<RequestRegistry>();
  std::atomic<const HttpServer*> http_{nullptr};
  std::atomic<bool> draining_{false};
};

}  // namespace ballast

#endif  // BALLAST_SERVER_HTTP_APP_H_
