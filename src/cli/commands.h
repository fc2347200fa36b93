// Role: one function a command. Each prints its result and returns an error for main to report.
// Thread: main only.
#ifndef BALLAST_CLI_COMMANDS_H_
#define BALLAST_CLI_COMMANDS_H_

#include <string>

#include "base/result.h"
#include "cli/options.h"

namespace ballast {

Status CommandRun(const Options& options);
Status CommandServe(const Options& options);
Status CommandPull(const Options& options);
Status CommandList(const Options& options);
Status CommandRm(const Options& options);
Status CommandInspect(const Options& options);
Status CommandEval(const Options& options);
Status CommandConfig(const Options& options);
Status CommandDoctor(const Options& options);
Status CommandCompletion(const Options& options);
Status CommandManual(const Options& options);
Status CommandBenchSpeed(const Options& options);
Status CommandKeysNew(const Options& options);
Status CommandKeysList(const Options& options);
Status CommandKeysRevoke(const Options& options);

/// "ballast 0.1.0 (commit, compiler), isa amx on <CPU>".
std::string VersionText();
/// The version without decoration, e.g. "0.1.0".
std::string VersionNumber();

/// Parses the command line and runs the command. Returns the exit code.
int RunCli(int argc, char** argv);

}  // namespace ballast

#endif  // BALLAST_CLI_COMMANDS_H_
