#include "server/output_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

constexpr float kBan = -100.0f;

// A call as text, without the id that differs each time.
std::string CallsOf(const Json& message) {
  std::string text;
  for (const Json& call : message["tool_calls"]) text += DumpJson(call["function"]) + "\n";
  return text;
}

}  // namespace

std::string LoopedTool(const Json& messages) {
  std::string calls, name;
  int repeats = 0;
  for (size_t i = messages.size(); i-- > 0;) {
    const Json& message = messages[i];
    const Json& role = message["role"];
    if (role == "tool") continue;
    if (role != "assistant" || !message.contains("tool_calls")) break;
    const std::string these = CallsOf(message);
    if (repeats > 0 && these != calls) break;
    calls = these;
    name = message["tool_calls"][0]["function"]["name"].get<std::string>();
    ++repeats;
  }
  return repeats >= kMaxRepeatedCalls ? name : std::string();
}

OutputPlan PlanOutput(const GenerationBody& body, const EngineClient& engine) {
  OutputPlan plan;
  plan.rules.format = body.format;
  if (engine.chat_template() == nullptr || body.endpoint != kChat) return plan;
  const ToolFormat& format = FindToolFormat(*engine.chat_template());
  plan.tool_format = &format;
  plan.rules.tool_format = &format;
  if (!format.control_opening.empty()) {
    plan.rules.control_opening = engine.tokenizer().Find(format.control_opening);
  }
  const ToolSettings& tools = body.tools;
  plan.rules.use = tools.use;
  plan.rules.parallel = tools.parallel && tools.named.empty();
  for (const ToolSpec& spec : tools.specs) {
    if (tools.named.empty() || spec.name == tools.named) plan.rules.tools.push_back(spec);
  }
  const std::string looped = tools.use == ToolUse::kAuto ? LoopedTool(body.messages) : "";
  if (!looped.empty()) {
    plan.rules.use = ToolUse::kNone;
    plan.warnings.push_back(
        fmt::format("tool_loop: {:?} was called {} times running with the same arguments; this "
                    "reply was made without tools",
                    looped, kMaxRepeatedCalls));
  }
  plan.show_tools = plan.rules.use != ToolUse::kNone;
  if (!plan.show_tools) plan.rules.tools.clear();
  plan.forbid_calls = !plan.show_tools && !tools.specs.empty();
  return plan;
}

void ForbidCalls(const OutputPlan& plan, const Tokenizer& tokenizer, SamplingParams* sampling) {
  if (!plan.forbid_calls || plan.tool_format->opening_is_call) return;
  const auto token = tokenizer.Find(plan.tool_format->opening);
  if (token) sampling->logit_bias.emplace_back(*token, kBan);
}

}  // namespace ballast
