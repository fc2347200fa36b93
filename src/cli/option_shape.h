// Role: the option table as generators of text see it: names apart, and whether a value follows.
// Thread: pure functions.
#ifndef BALLAST_CLI_OPTION_SHAPE_H_
#define BALLAST_CLI_OPTION_SHAPE_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_table.h"
#include "cli/options.h"

namespace ballast {

/// What a value is, for completion.
enum class ValueHint { kOther, kFile, kModel, kWords };

struct OptionShape {
  const OptionRow* row;
  std::vector<std::string> long_names;   // "--port"
  std::vector<std::string> short_names;  // "-p"
  std::string positional;                // "MODEL", or empty
  bool takes_value = true;
  ValueHint hint = ValueHint::kOther;
  std::vector<std::string> words;  // of kWords
  std::string default_text;        // empty: none
};

/// The options of a command, in the table's order.
std::vector<OptionShape> ShapesOf(const CommandRow& command);

/// Keys that value hints are kept for; for the test that none is stale.
std::vector<std::string_view> HintedKeys();

/// The text of `ballast completion SHELL`: "bash", "zsh" or "fish".
std::string CompletionScript(std::string_view shell);

/// The text of `ballast manual`.
std::string ManualPage();

}  // namespace ballast

#endif  // BALLAST_CLI_OPTION_SHAPE_H_
