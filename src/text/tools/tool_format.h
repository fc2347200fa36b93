// Role: how models write tool calls. One ToolFormat a family, each in its own file; the table picks
// one by the chat template. A format is data: from it come the grammar that a call must fit
// (output_grammar.h), the parser that reads calls back (call_parser.h) and the text by which a
// model whose template shows no tools learns of them (inject.h).
// Thread: immutable.
#ifndef BALLAST_TEXT_TOOLS_TOOL_FORMAT_H_
#define BALLAST_TEXT_TOOLS_TOOL_FORMAT_H_

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/chat_template.h"

namespace ballast {

/// A function that the model may call.
struct ToolSpec {
  std::string name;  ///< [A-Za-z0-9_.:/-]{1,128}, so it needs no escapes
  std::string description;
  Json parameters;  ///< JSON schema of the arguments, an object
};

/// A block is: opening, block_open, call, {separator, call}, closing. A call is: before_name, name,
/// before_arguments, arguments as compact JSON, after_arguments.
struct ToolFormat {
  std::string_view name;
  std::string_view opening;  ///< in free text this starts a call
  std::string_view block_open;
  std::string_view before_name;
  std::string_view before_arguments;
  std::string_view after_arguments;
  std::string_view separator;  ///< between calls of one block; empty: one call a block
  std::string_view closing;
  std::string_view block_separator;  ///< between blocks
  bool parallel = false;             ///< whether a reply may hold several calls
  bool opening_is_call = false;      ///< the opening is the beginning of the call's JSON
  std::string_view control_opening;  ///< control token that may precede a call; empty: none
  /// What models without tools in their template are told; the tools follow, one JSON a line.
  std::string_view instructions;
  std::string_view result_open, result_close;  ///< around a tool's result in the user's turn
};

extern const ToolFormat kHermesFormat;
extern const ToolFormat kLlama3Format;
extern const ToolFormat kSmolFormat;

std::span<const ToolFormat* const> ToolFormats();

/// The format that a model with this template was trained on, as far as the template tells; Hermes
/// otherwise.
const ToolFormat& FindToolFormat(const ChatTemplate& chat_template);

/// A call as the model would have written it.
std::string WriteToolCalls(const ToolFormat& format,
                           std::span<const std::pair<std::string, std::string>> calls);

}  // namespace ballast

#endif  // BALLAST_TEXT_TOOLS_TOOL_FORMAT_H_
