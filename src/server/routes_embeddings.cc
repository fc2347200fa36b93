// Role: /v1/embeddings.
#include "server/embedding_call.h"
#include "server/http_app.h"

namespace ballast {

void HttpApp::Embeddings(Call& call) {
  auto body = ParseEmbeddings(call.request.body, engine_);
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  int64_t tokens = 0;
  for (const auto& input : body->inputs) tokens += static_cast<int64_t>(input.size());
  if (const auto allowed = Reserve(call, tokens); !allowed) {
    return ReplyError(call, allowed.error());
  }
  EmbeddingCall::Setup setup;
  setup.engine = &engine_;
  setup.metrics = metrics_;
  setup.registry = requests_;
  setup.exchange = call.exchange;
  setup.log = call.log;
  setup.account = call.account;
  setup.route = std::string(call.route);
  setup.headers = call.headers;
  setup.model = ModelName();
  setup.request.deadline_ms = options_.request_deadline_ms;
  SetTenant(call, &setup.request);
  setup.body = *std::move(body);
  EmbeddingCall::Run(std::move(setup));
}

}  // namespace ballast
