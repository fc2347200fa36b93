// Role: from a checked body to prompt tokens: chat template, trust spans, BOS. Thread: pure
// functions.
#ifndef BALLAST_SERVER_PROMPT_H_
#define BALLAST_SERVER_PROMPT_H_

#include <vector>

#include "base/ids.h"
#include "engine/client.h"
#include "server/api_error.h"
#include "server/parse_request.h"

namespace ballast {

/// One token list for a chat, one a prompt for completions. Errors: 400 when the model has no chat
/// template, the template refuses the messages, or a prompt is empty.
ApiResult<std::vector<std::vector<TokenId>>> BuildPrompts(const GenerationBody& body,
                                                          const EngineClient& engine);

}  // namespace ballast

#endif  // BALLAST_SERVER_PROMPT_H_
