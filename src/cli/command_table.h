// Role: the one table of commands. Parsing, completion and the manual come from it.
// Thread: immutable.
#ifndef BALLAST_CLI_COMMAND_TABLE_H_
#define BALLAST_CLI_COMMAND_TABLE_H_

#include <span>
#include <string>

#include "base/result.h"
#include "cli/options.h"

namespace ballast {

struct CommandRow {
  const char* group;  // "bench" for `ballast bench speed`; empty for the others
  const char* name;
  const char* help;
  uint32_t options;  // rows of the option table: those of any of these commands
  Status (*run)(const Options&);

  /// "bench speed" or "serve".
  std::string full_name() const { return *group == '\0' ? name : std::string(group) + ' ' + name; }
};

std::span<const CommandRow> CommandRows();

struct CommandGroup {
  const char* name;
  const char* help;
};
std::span<const CommandGroup> CommandGroups();

}  // namespace ballast

#endif  // BALLAST_CLI_COMMAND_TABLE_H_
