// Role: settles every option of a command: flags over BALLAST_* variables over the configuration
// file over defaults, with one set of checks. Thread: main only.
#ifndef BALLAST_CLI_SETTINGS_H_
#define BALLAST_CLI_SETTINGS_H_

#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace ballast {

/// Fills what no flag has set, and `options->effective`. Call after the command line is parsed,
/// with the bound options of the chosen command. Errors: kInvalidArgument naming the variable, or
/// file, line and key, with the value and the limits.
Status SettleOptions(const std::vector<BoundOption>& bound, Options* options);

}  // namespace ballast

#endif  // BALLAST_CLI_SETTINGS_H_
