#include "server/output_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

constexpr float kBan = -100.0f;

}  // namespace

std::string LoopedTool(const Json& messages) {
  size_t begin = messages.size();
  while (begin > 0 &&
         (messages[begin - 1]["role"] == "tool" || (messages[begin - 1]["role"] == "assistant" &&
                                                    messages[begin - 1].contains("tool_calls")))) {
    --begin;
  }
  std::map<std::string, std::string> calls;  // by id, which differs each time: the call
  std::set<std::string> seen;                // call and result
  std::string name;
  int repeats = 0;
  for (size_t i = begin; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (message["role"] == "assistant") {
      for (const Json& call : message["tool_calls"]) {
        calls[call.value("id", "")] = DumpJson(call["function"]);
        name = call["function"]["name"].get<std::string>();
      }
    } else {
      const std::string& call = calls[message.value("tool_call_id", "")];
      if (!seen.insert(call + "\n" + DumpJson(message.value("content", Json()))).second) ++repeats;
    }
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
    plan.warnings.push_back(fmt::format(
        "tool_loop: {} calls since the user spoke, the last of {:?}, repeated an earlier "
        "one and its result; this reply was made without tools",
        kMaxRepeatedCalls, looped));
    plan.rules.not_blank = plan.rules.format.kind == ResponseFormat::Kind::kText;
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
