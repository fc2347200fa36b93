// Role: /v1/requests: which generating requests are open, and how to end one.
#include "server/http_app.h"
#include "server/request_registry.h"

namespace ballast {

namespace {

Json RequestJson(const RequestRegistry::Listed& listed) {
  const LiveRequest& request = listed.request;
  const LiveProgress& progress = listed.progress;
  const auto age = std::chrono::steady_clock::now() - request.arrived;
  Json json;
  json["id"] = request.id;
  json["object"] = "request";
  json["request_id"] = request.request_id;
  json["route"] = request.route;
  json["model"] = request.model;
  json["tenant"] = NameOrNull(request.tenant);
  json["state"] = LiveStateName(progress.state);
  json["stream"] = request.stream;
  json["choices"] = request.choices;
  json["prompt_tokens"] = progress.prompt_tokens;
  json["prompt_tokens_done"] = progress.prompt_done;
  json["generated_tokens"] = progress.generated_tokens;
  json["max_tokens"] = request.max_tokens == 0 ? Json(nullptr) : Json(request.max_tokens);
  json["age_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
  return json;
}

}  // namespace

// Without keys everybody is the operator; with keys only admins see other tenants' requests.
RequestRegistry::Sees HttpApp::SeesOf(const Call& call) {
  return [account = call.account](const std::string& tenant) {
    return account->identity().sees(tenant);
  };
}

void HttpApp::Requests(Call& call) {
  Json json;
  json["object"] = "list";
  json["data"] = Json::array();
  for (const auto& listed : requests_->List(SeesOf(call))) {
    json["data"].push_back(RequestJson(listed));
  }
  ReplyJson(call, json);
}

void HttpApp::CancelRequest(Call& call) {
  if (requests_->Cancel(call.rest, SeesOf(call))) {
    return ReplyJson(call, Json{{"id", call.rest}, {"object", "request"}, {"cancelled", true}});
  }
  ApiError error;
  error.status = 404;
  error.message = fmt::format("no request {:?} is open", call.rest.substr(0, 200));
  error.code = "request_not_found";
  ReplyError(call, error);
}

}  // namespace ballast
