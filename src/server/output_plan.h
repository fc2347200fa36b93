// Role: from a checked chat body to what the model is shown and what it may say: which tools, in
// which format, and the loop stop. Thread: pure functions.
#ifndef BALLAST_SERVER_OUTPUT_PLAN_H_
#define BALLAST_SERVER_OUTPUT_PLAN_H_

#include <string>
#include <vector>

#include "engine/client.h"
#include "server/parse_request.h"
#include "text/tools/output_grammar.h"

namespace ballast {

/// This many calls that only repeated an earlier one and brought its result again: the turn goes on
/// without tools. Asking again is fine as long as the answers change.
inline constexpr int kMaxRepeatedCalls = 2;

struct OutputPlan {
  OutputRules rules;
  const ToolFormat* tool_format = nullptr;  ///< of the model; null without a chat template
  bool show_tools = false;                  ///< the prompt describes the tools
  bool forbid_calls = false;                ///< there are tools, but none may be called now
  std::vector<std::string> warnings;        ///< for the reply
};

/// What `body` asks of this model; `rules.thinking` is left to the prompt.
OutputPlan PlanOutput(const GenerationBody& body, const EngineClient& engine);

/// Makes calls unlikely where none is allowed: bans the token that opens one, if it is one token.
void ForbidCalls(const OutputPlan& plan, const Tokenizer& tokenizer, SamplingParams* sampling);

/// The function called last, if kMaxRepeatedCalls calls since the user last spoke had the function,
/// arguments and result of an earlier one; empty otherwise.
std::string LoopedTool(const Json& messages);

}  // namespace ballast

#endif  // BALLAST_SERVER_OUTPUT_PLAN_H_
