// Role: request bodies of the generating and the tokenizing endpoints, from JSON to checked values.
// Thread: pure functions.
// Invariants: whatever the bytes are, the result is values within their limits or a 4xx naming the
// field.
#ifndef BALLAST_SERVER_PARSE_REQUEST_H_
#define BALLAST_SERVER_PARSE_REQUEST_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "engine/client.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/parse_output.h"

namespace ballast {

inline constexpr size_t kMaxPrompts = 8;
inline constexpr int64_t kMaxChoices = 16;  // of one prompt
inline constexpr size_t kMaxLogitBias = 1024;
inline constexpr int kMaxObjectMembers = 1024;  // of any one object in a body
inline constexpr size_t kMaxMessages = 16 * 1024;
inline constexpr int64_t kDefaultCompletionTokens = 16;  // the OpenAI API's default

/// What the parser must know of the model.
struct ModelLimits {
  int32_t vocab = 0;
  int64_t context = 0;
};

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

/// A body of /v1/chat/completions or /v1/completions.
struct GenerationBody {
  Endpoints endpoint = kChat;
  std::string model;  // empty: not given
  bool stream = false;
  bool include_usage = false;
  int64_t n = 1;                  // choices of each prompt
  Json messages = Json::array();  // chat: role, content (a string), tool calls, …
  ToolSettings tools;             // chat
  ResponseFormat format;
  bool add_generation_prompt = true;      // chat
  bool continue_final_message = false;    // chat: the reply goes on where the last message ends
  Json template_kwargs = Json::object();  // chat
  std::vector<PromptInput> prompts;       // completions
  GenerationRequest generation;           // all but the prompt
};

/// The object in `body` with its fields checked against the endpoint's lists.
ApiResult<Json> ParseBody(std::string_view body, Endpoints endpoint);

/// The values of `json`, whose fields are known to the endpoint: what ParseBody gave, or the chat
/// that another API's body was translated to.
ApiResult<GenerationBody> ReadGeneration(const Json& json, Endpoints endpoint,
                                         const ModelLimits& limits);
ApiResult<GenerationBody> ParseGeneration(std::string_view body, Endpoints endpoint,
                                          const ModelLimits& limits);

struct TokenizeBody {
  std::string model;
  std::string content;
  bool add_special = false;
  bool with_pieces = false;
};
ApiResult<TokenizeBody> ParseTokenize(std::string_view body);

struct DetokenizeBody {
  std::string model;
  std::vector<TokenId> tokens;
};
ApiResult<DetokenizeBody> ParseDetokenize(std::string_view body, const ModelLimits& limits);

}  // namespace ballast

#endif  // BALLAST_SERVER_PARSE_REQUEST_H_
