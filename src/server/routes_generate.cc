// Role: /v1/chat/completions and /v1/completions.
#include "base/clock.h"
#include "server/generation_call.h"
#include "server/http_app.h"
#include "server/parse_request.h"
#include "server/prompt.h"
#include "server/request_id.h"

namespace ballast {

namespace {

// The settings that can change a result, in one word, so that clients notice a change.
std::string Fingerprint(const EngineInfo& info) {
  return fmt::format("ballast-{}-{}-{}", info.architecture, info.kv_dtype, info.activations);
}

}  // namespace

void HttpApp::ChatCompletions(Call& call) { Generate(call, kChat); }
void HttpApp::Completions(Call& call) { Generate(call, kCompletions); }

void HttpApp::Generate(Call& call, Endpoints endpoint) {
  const EngineInfo& info = engine_.info();
  auto body = ParseGeneration(call.request.body, endpoint, {info.vocab, info.context});
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  auto prompts = BuildPrompts(*body, engine_);
  if (!prompts) return ReplyError(call, prompts.error());
  body->generation.deadline_ms = options_.request_deadline_ms;

  GenerationCall::Setup setup;
  setup.engine = &engine_;
  setup.metrics = metrics_;
  setup.exchange = call.exchange;
  setup.route = std::string(call.route);
  setup.headers = call.headers;
  setup.reply.endpoint = endpoint;
  setup.reply.id = RandomId(endpoint == kChat ? "chatcmpl-" : "cmpl-");
  setup.reply.model = ModelName();
  setup.reply.fingerprint = Fingerprint(info);
  setup.reply.created = SystemClock().UnixSeconds();
  setup.body = std::move(*body);
  setup.prompts = std::move(*prompts);
  GenerationCall::Run(std::move(setup));
}

}  // namespace ballast
