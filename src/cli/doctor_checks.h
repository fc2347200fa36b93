// Role: the checks of `ballast doctor`, one function each. Those that read /proc and /sys do it
// below a root, so that tests can say what is there. Thread: main; blocking.
#ifndef BALLAST_CLI_DOCTOR_CHECKS_H_
#define BALLAST_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <string>

#include "cli/options.h"

namespace ballast {

enum class CheckResult { kOk, kWarn, kFail };

/// "ok", "warn" or "fail".
const char* CheckResultName(CheckResult result);

struct Check {
  std::string name;
  CheckResult result = CheckResult::kOk;
  std::string detail;
  std::string advice;  // what to do; empty when ok
};

/// Kernel bodies that this CPU runs. Fails where none does.
Check CheckCpu();
/// Transparent huge pages, below `root`.
Check CheckHugePages(const std::string& root);
/// Free memory and limits against the budget and the size of the model.
Check CheckMemory(const Options& options);
/// RLIMIT_MEMLOCK; `privileged`: root is not held to it.
Check CheckLockedMemory(uint64_t limit_bytes, bool privileged);
/// Limit of open files against the connections that serve takes.
Check CheckOpenFiles(uint64_t limit, int32_t max_connections);
/// Whether the folder of the models can be written and how much room there is.
Check CheckCacheFolder(const std::string& folder, bool model_present);
/// Whether the server's state (the secret behind cache salts) can be kept.
Check CheckStateFolder(const std::string& folder);
/// Whether the kernel (or the container's seccomp profile) lets us use io_uring.
Check CheckIoUring();
/// Whether the address can be listened on.
Check CheckPort(const std::string& host, uint16_t port);
/// Whether the model is on disk and intact; reads all of it.
Check CheckModelFile(const Options& options);
/// Whether the clock is plausible and synchronised.
Check CheckClock(int64_t unix_seconds, bool synchronised);

}  // namespace ballast

#endif  // BALLAST_CLI_DOCTOR_CHECKS_H_
