// Role: /v1/chat/completions and /v1/completions.
#include "base/clock.h"
#include "server/chat_translator.h"
#include "server/generation_call.h"
#include "server/http_app.h"
#include "server/output_plan.h"
#include "server/parse_request.h"
#include "server/prompt.h"
#include "server/request_id.h"

namespace ballast {

namespace {

// The settings that can change a result, in one word, so that clients notice a change.
std::string Fingerprint(const EngineInfo& info) {
  return fmt::format("ballast-{}-{}-{}", info.architecture, info.kv_dtype, info.activations);
}

// What the request may use: its prompts, and of the output what max_tokens says. Without max_tokens
// the output counts when it is there.
int64_t TokensOf(const GenerationBody& body, const std::vector<std::vector<TokenId>>& prompts) {
  int64_t tokens = 0;
  for (const auto& prompt : prompts) tokens += static_cast<int64_t>(prompt.size());
  const int64_t choices = static_cast<int64_t>(prompts.size()) * body.n;
  return tokens + choices * std::min<int64_t>(body.generation.max_tokens, int64_t{1} << 32);
}

// A schema that does not compile is the request's fault, whatever the reason.
ApiError SchemaError(const Error& error, const std::string& field) {
  ApiError api = FromError(error);
  if (error.reason == "queue_full") return api;
  api.status = 400;
  api.type = "invalid_request_error";
  api.param = field;
  api.retry_after_s = 0;
  api.code = error.code == Code::kUnimplemented ? "unsupported_schema" : "invalid_schema";
  return api;
}

}  // namespace

ModelLimits HttpApp::Limits() const { return {engine_.info().vocab, engine_.info().context}; }

void HttpApp::ChatCompletions(Call& call) {
  Generate(call, ParseGeneration(call.request.body, kChat, Limits()));
}
void HttpApp::Completions(Call& call) {
  Generate(call, ParseGeneration(call.request.body, kCompletions, Limits()));
}

void HttpApp::Generate(Call& call, ApiResult<GenerationBody> body) {
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  OutputPlan plan = PlanOutput(*body, engine_);
  auto built = BuildPrompts(*body, plan, engine_);
  if (!built) return ReplyError(call, built.error());
  if (call.translator) {
    call.translator->SetPromptTokens(static_cast<int64_t>(built->prompts.front().size()));
  }
  plan.rules.thinking = built->thinking;
  ForbidCalls(plan, engine_.tokenizer(), &body->generation.sampling);
  body->generation.deadline_ms = options_.request_deadline_ms;
  SetTenant(call, &body->generation);
  if (const auto allowed = Reserve(call, TokensOf(*body, built->prompts)); !allowed) {
    return ReplyError(call, allowed.error());
  }

  GenerationCall::Setup setup;
  setup.engine = &engine_;
  setup.metrics = metrics_;
  setup.registry = requests_;
  setup.exchange = call.exchange;
  setup.log = call.log;
  setup.account = call.account;
  setup.route = std::string(call.route);
  setup.headers = call.headers;
  setup.reply.endpoint = body->endpoint;
  setup.reply.id = RandomId(body->endpoint == kChat ? "chatcmpl-" : "cmpl-");
  setup.reply.model = ModelName();
  setup.reply.fingerprint = Fingerprint(engine_.info());
  setup.reply.created = SystemClock().UnixSeconds();
  setup.tool_format = plan.rules.use == ToolUse::kNone ? nullptr : plan.tool_format;
  setup.loose_calls = plan.rules.use == ToolUse::kAuto && !plan.tool_format->opening_is_call &&
                      plan.rules.format.kind == ResponseFormat::Kind::kText;
  setup.thinking = built->thinking;
  setup.warnings = std::move(plan.warnings);
  setup.body = std::move(*body);
  setup.prompts = std::move(built->prompts);
  if (!plan.rules.constrained()) return GenerationCall::Run(std::move(setup));
  // The schema may be large: it is compiled elsewhere, and the call goes on from there.
  const auto waiting = std::make_shared<GenerationCall::Setup>(std::move(setup));
  const auto context = std::make_shared<Call>(std::move(call));
  std::string field = plan.rules.format.path;
  if (field.empty()) field = "tools";
  grammars_.Compile(std::move(plan.rules), [this, waiting, context, field](auto grammar) {
    if (!grammar) {
      return ReplyError(*context, SchemaError(grammar.error(), field));
    }
    waiting->body.generation.grammar = *std::move(grammar);
    GenerationCall::Run(std::move(*waiting));
  });
}

ApiResult<std::vector<TokenId>> HttpApp::ChatTokens(const Json& chat) const {
  ASSIGN_OR_RETURN(const GenerationBody body, ReadGeneration(chat, kChat, Limits()));
  RETURN_IF_ERROR(CheckModel(body.model));
  ASSIGN_OR_RETURN(BuiltPrompts built, BuildPrompts(body, PlanOutput(body, engine_), engine_));
  return std::move(built.prompts.front());
}

void HttpApp::ApplyTemplate(Call& call) {
  const auto body = ParseGeneration(call.request.body, kChat, Limits());
  if (!body) return ReplyError(call, body.error());
  if (const auto known = CheckModel(body->model); !known) return ReplyError(call, known.error());
  bool thinking = false;
  const auto spans = RenderChat(*body, PlanOutput(*body, engine_), engine_, &thinking);
  if (!spans) return ReplyError(call, spans.error());
  Json reply;
  std::string prompt;
  for (const TextSpan& span : *spans) prompt += span.text;
  reply["prompt"] = std::move(prompt);
  ReplyJson(call, reply);
}

}  // namespace ballast
