// Role: what the server tells about itself: models, health, metrics, the memory ledger, the
// console.
#include "server/console_assets.h"
#include "server/http_app.h"
#include "server/memory_owners.h"

namespace ballast {

Json HttpApp::ModelJson() const {
  const EngineInfo& info = engine_.info();
  Json json;
  json["id"] = ModelName();
  json["object"] = "model";
  json["created"] = info.created_unix;
  json["owned_by"] = "ballast";
  json["context_length"] = info.context;
  Json& meta = json["meta"];
  meta["architecture"] = info.architecture;
  meta["n_vocab"] = info.vocab;
  meta["n_ctx"] = info.context;
  meta["size"] = info.weight_bytes_logical;
  meta["n_ctx_train"] = info.trained_context;
  meta["n_params"] = info.parameters;
  meta["n_layer"] = info.layers;
  meta["n_embd"] = info.hidden;
  meta["resident_size"] = info.weight_bytes_resident;
  Json& types = meta["weight_types"] = Json::array();
  for (const WeightTypeInfo& type : info.weight_types) {
    types.push_back(Json{{"type", type.type}, {"tensors", type.tensors}, {"bytes", type.bytes}});
  }
  meta["level"] = "standard";  // all planes of every weight are read
  meta["decode_backend"] = "standard";
  meta["max_sequences"] = info.max_sequences;
  meta["isa"] = info.isa;
  meta["kv_dtype"] = info.kv_dtype;
  meta["activations"] = info.activations;
  meta["threads"] = info.threads;
  return json;
}

void HttpApp::Models(Call& call) {
  Json json;
  json["object"] = "list";
  json["data"] = Json::array({ModelJson()});
  ReplyJson(call, json);
}

void HttpApp::Model(Call& call) {
  if (const auto known = CheckModel(call.rest); !known) return ReplyError(call, known.error());
  ReplyJson(call, ModelJson());
}

void HttpApp::Health(Call& call) { ReplyJson(call, Json{{"status", "ok"}}); }

void HttpApp::Ready(Call& call) {
  const bool draining = draining_.load();
  if (!draining && engine_.ready()) return ReplyJson(call, Json{{"status", "ready"}});
  ApiError error = FromError(Unavailable("the server is {}", draining ? "stopping" : "starting"));
  error.code = draining ? "draining" : "starting";
  ReplyError(call, error);
}

void HttpApp::Metrics(Call& call) {
  const HttpServer* http = http_.load();
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  std::vector<TenantTotals> tenants = books_->quotas.Totals();
  std::erase_if(tenants, [&](const TenantTotals& totals) {
    return totals.tenant.empty() || !call.account->identity().sees(totals.tenant);
  });
  response.body = metrics_->Render(engine_, http == nullptr ? HttpStats() : http->Stats(), tenants);
  Reply(call, std::move(response));
}

void HttpApp::Memory(Call& call) {
  const EngineStats stats = engine_.Stats();
  const EngineInfo& info = engine_.info();
  Json json;
  json["budget_bytes"] = stats.budget_bytes;
  uint64_t total = 0;
  Json& owners = json["owners"];
  for (size_t i = 0; i < kMemoryOwnerLabels.size(); ++i) {
    owners[std::string(kMemoryOwnerLabels[i])] = stats.memory_by_owner[i];
    total += stats.memory_by_owner[i];
  }
  json["used_bytes"] = total;
  json["resident_bytes"] = ResidentBytes();
  json["kv"] =
      Json{{"used_bytes", stats.kv_used_bytes}, {"capacity_bytes", stats.kv_capacity_bytes}};
  json["weights"] = Json{{"resident_bytes", info.weight_bytes_resident},
                         {"logical_bytes", info.weight_bytes_logical}};
  json["requests"] = Json{{"running", stats.running}, {"queued", stats.queued}};
  json["decode_tokens_per_second"] = stats.decode_tokens_per_s;
  ReplyJson(call, json);
}

void HttpApp::Console(Call& call) {
  const ConsoleAsset* asset = FindConsoleAsset(call.request.path);
  if (asset == nullptr) {
    ApiError error;
    error.status = 404;
    error.message = fmt::format("there is no {:?} here", call.request.path.substr(0, 200));
    error.code = "not_found";
    return ReplyError(call, error);
  }
  HttpResponse response;
  const std::string etag = fmt::format("\"{}\"", asset->sha256.substr(0, 32));
  response.headers.emplace_back("ETag", etag);
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; script-src 'self'; style-src 'self'; "
                                "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'");
  if (call.request.Header("If-None-Match") == etag) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response.content_type = asset->content_type;
    response.body = asset->body;
  }
  Reply(call, std::move(response));
}

}  // namespace ballast
