// Role: from a checked body to prompt tokens: chat template, trust spans, BOS. Thread: pure
// functions.
#ifndef BALLAST_SERVER_PROMPT_H_
#define BALLAST_SERVER_PROMPT_H_

#include <vector>

#include "base/ids.h"
#include "engine/client.h"
#include "server/api_error.h"
#include "server/output_plan.h"
#include "server/parse_request.h"
#include "text/tokenizer.h"

namespace ballast {

struct BuiltPrompts {
  std::vector<std::vector<TokenId>> prompts;
  bool thinking = false;  ///< the template has opened <think>
};

/// A chat as its template spells it, with the beginning of the reply that it goes on from.
/// `*thinking`: see BuiltPrompts. Errors: 400 as below.
ApiResult<std::vector<TextSpan>> RenderChat(const GenerationBody& body, const OutputPlan& plan,
                                            const EngineClient& engine, bool* thinking);

/// One token list for a chat, one a prompt for completions. Errors: 400 when the model has no chat
/// template, the template refuses the messages, or a prompt is empty.
ApiResult<BuiltPrompts> BuildPrompts(const GenerationBody& body, const OutputPlan& plan,
                                     const EngineClient& engine);

}  // namespace ballast

#endif  // BALLAST_SERVER_PROMPT_H_
