// Role: runs a program and collects what it prints. Used for pip and for benchmark peers.
// Thread: blocking; any thread.
#ifndef BALLAST_PLATFORM_SUBPROCESS_H_
#define BALLAST_PLATFORM_SUBPROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ballast {

struct SubprocessResult {
  int exit_code = 0;   // 128 + signal when killed
  std::string output;  // stdout, then stderr when merged; at most max_output_bytes
};

struct SubprocessOptions {
  int64_t timeout_ms = 0;  // 0: none; on expiry the process group is killed: kDeadlineExceeded
  size_t max_output_bytes = size_t{16} << 20;
  enum class Stderr { kMerge, kInherit, kDiscard } stderr_mode = Stderr::kMerge;
};

/// Runs argv[0] found through PATH, without a shell and without standard input.
/// Errors: kNotFound when the program does not exist; kUnavailable when it cannot be started.
Result<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv,
                                       const SubprocessOptions& options = {});

/// Splits a command line as a POSIX shell splits words (quotes and backslashes, no expansion).
/// Errors: kInvalidArgument for an unclosed quote.
Result<std::vector<std::string>> SplitCommandLine(const std::string& line);

}  // namespace ballast

#endif  // BALLAST_PLATFORM_SUBPROCESS_H_
