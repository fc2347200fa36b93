// Role: what a request says about the shape of its reply: `tools` and how to use them, and
// `response_format` with its other names. Thread: pure functions.
#ifndef BALLAST_SERVER_PARSE_OUTPUT_H_
#define BALLAST_SERVER_PARSE_OUTPUT_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "server/api_error.h"
#include "text/tools/output_grammar.h"

namespace ballast {

inline constexpr size_t kMaxTools = 256;
inline constexpr size_t kMaxToolNameBytes = 128;

struct ToolSettings {
  Json tools = Json::array();  ///< [{"type": "function", "function": {…}}], as templates want them
  std::vector<ToolSpec> specs;
  ToolUse use = ToolUse::kNone;
  std::string named;  ///< tool_choice names this one; empty: any
  bool parallel = false;
};

/// `tools`, `tool_choice`, `parallel_tool_calls` of a chat body.
ApiResult<ToolSettings> ParseTools(const Json& body);
/// One tool in OpenAI's chat shape, {"type": "function", "function": {…}}; `path` names it.
ApiResult<ToolSpec> ParseTool(const Json& tool, const std::string& path);

/// `response_format`, or one of `json_schema`, `guided_json`, `guided_regex`, `guided_choice`.
ApiResult<ResponseFormat> ParseResponseFormat(const Json& body);

}  // namespace ballast

#endif  // BALLAST_SERVER_PARSE_OUTPUT_H_
