// Role: what a reply must look like, put together from the request: a response format, tools and
// how they may be used, and whether the model thinks first. Thread: pure functions; a compile may
// take up to a second for the largest schemas, so it belongs on a thread that nothing waits for.
#ifndef BALLAST_TEXT_TOOLS_OUTPUT_GRAMMAR_H_
#define BALLAST_TEXT_TOOLS_OUTPUT_GRAMMAR_H_

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "text/grammar/grammar.h"
#include "text/tools/tool_format.h"

namespace ballast {

inline constexpr int kMaxParallelCalls = 8;

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kRegex, kChoice };
  Kind kind = Kind::kText;
  Json schema;                       ///< kJsonSchema
  std::string pattern;               ///< kRegex
  std::vector<std::string> choices;  ///< kChoice
  std::string path;                  ///< where it stands in the request, for errors
};

enum class ToolUse {
  kNone,      ///< no calls
  kAuto,      ///< free text, or the response format, or calls
  kRequired,  ///< nothing but calls
};

struct OutputRules {
  ResponseFormat format;
  ToolUse use = ToolUse::kNone;
  std::vector<ToolSpec> tools;  ///< that may be called
  bool parallel = false;        ///< more than one call
  const ToolFormat* tool_format = &kHermesFormat;
  std::optional<TokenId> control_opening;  ///< the vocabulary's token of that name
  bool not_blank = false;                  ///< free text without calls must say something
  bool thinking = false;  ///< the prompt has opened <think>: all this holds after </think>

  bool constrained() const {
    return use != ToolUse::kNone || format.kind != ResponseFormat::Kind::kText || not_blank;
  }
};

/// Equal keys give equal grammars.
std::string OutputKey(const OutputRules& rules);

/// REQUIRES: rules.constrained(). Errors: as CompileJsonSchema's; the message starts with the path
/// in the request ("tools[2].function.parameters").
Result<grammar::GrammarPtr> CompileOutput(const OutputRules& rules);

}  // namespace ballast

#endif  // BALLAST_TEXT_TOOLS_OUTPUT_GRAMMAR_H_
