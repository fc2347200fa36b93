#include "cli/doctor_checks.h"

#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "catalog/catalog.h"
#include "catalog/download.h"
#include "cli/runtime.h"
#include "platform/cpu.h"
#include "weights/source.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLockedBytes = 8 * kMiB;    // buffers that fast reads from SSD register
constexpr uint64_t kRoomBytes = 2 * kGiB;      // of the larger models of the catalogue
constexpr uint64_t kLeastBudget = 256 * kMiB;  // runtime, the smallest model and some cache
constexpr uint64_t kSpareFiles = 64;           // beside connections
constexpr int64_t kEarliest = 1'767'225'600;   // 2026-01-01: no copy of this program is older

Check Ok(std::string name, std::string detail) {
  return {std::move(name), CheckResult::kOk, std::move(detail), ""};
}
Check Warn(std::string name, std::string detail, std::string advice) {
  return {std::move(name), CheckResult::kWarn, std::move(detail), std::move(advice)};
}
Check Fail(std::string name, std::string detail, std::string advice) {
  return {std::move(name), CheckResult::kFail, std::move(detail), std::move(advice)};
}

std::string ModelName(const Options& options) {
  return options.model.empty() ? Catalog::Embedded().default_model() : options.model;
}

// The size on disk, or what the catalogue promises; 0 if neither is known.
uint64_t ModelBytes(const Options& options) {
  const auto resolved = ResolveModel(Catalog::Embedded(), ModelName(options));
  if (!resolved.has_value()) return 0;
  std::error_code error;
  const uint64_t size = fs::is_regular_file(resolved->path, error)
                            ? static_cast<uint64_t>(fs::file_size(resolved->path, error))
                            : 0;
  return error || size == 0 ? resolved->model.size_bytes : size;
}

// The nearest folder that exists: a first start makes the rest.
fs::path ExistingParent(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

// By trying: rights alone say little about root, read-only mounts and sandboxes.
bool CanWrite(const fs::path& folder) {
  std::string name = (folder / ".ballast-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return false;
  close(descriptor);
  unlink(name.c_str());
  return true;
}

}  // namespace

const char* CheckResultName(CheckResult result) {
  switch (result) {
    case CheckResult::kOk:
      return "ok";
    case CheckResult::kWarn:
      return "warn";
    case CheckResult::kFail:
      return "fail";
  }
  return "";
}

Check CheckCpu() {
  const auto isa = BestIsa();
  if (!isa.has_value()) {
    return Fail("cpu", CpuName() + ": " + isa.error().message,
                "Use a machine (or a virtual CPU model) with FMA3 and F16C.");
  }
  const std::string detail =
      fmt::format("kernels {} on {}, {} cores", IsaName(*isa), CpuName(), UsableCores());
  if (*isa == Isa::kRef) {
    return Warn("cpu", detail,
                "Without AVX2 only the slow reference kernels run. In a virtual machine, pass the "
                "host's CPU model through.");
  }
  return Ok("cpu", detail);
}

Check CheckHugePages(const std::string& root) {
  const std::string path = root + "/sys/kernel/mm/transparent_hugepage/enabled";
  std::ifstream file(path);
  std::string modes;
  std::getline(file, modes);
  const size_t open = modes.find('[');
  const size_t close = modes.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return Warn("huge pages", "the kernel offers no transparent huge pages",
                "Expect 1.2 to 1.45 times less memory bandwidth.");
  }
  const std::string mode = modes.substr(open + 1, close - open - 1);
  if (mode == "never") {
    return Warn("huge pages", "transparent huge pages are off",
                "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled. Without them "
                "memory is 1.2 to 1.45 times slower.");
  }
  return Ok("huge pages", "transparent huge pages: " + mode);
}

Check CheckMemory(const Options& options) {
  const uint64_t available = AvailableMemoryBytes();
  uint64_t budget = DefaultBudget(available);
  if (!options.memory.empty()) {
    const auto parsed = ParseBytes(options.memory);
    if (!parsed.has_value()) {
      return Fail("memory", parsed.error().message, "Write --memory as 2GiB, for example.");
    }
    budget = *parsed;
  }
  const uint64_t model = ModelBytes(options);
  const std::string detail =
      fmt::format("{} free to this process, budget {}, model {}", FormatBytes(available),
                  FormatBytes(budget), model == 0 ? "unknown" : FormatBytes(model));
  if (budget < kLeastBudget || budget < model) {
    return Fail("memory", detail,
                "Free memory, raise --memory or the container's limit, or choose "
                "a smaller model.");
  }
  if (budget > available) {
    return Warn("memory", detail, "The budget is more than what is free: lower --memory.");
  }
  if (budget < model / 4 * 5) {
    return Warn("memory", detail, "Little is left for the KV cache: raise --memory.");
  }
  return Ok("memory", detail);
}

Check CheckLockedMemory(uint64_t limit_bytes, bool privileged) {
  if (privileged || limit_bytes == UINT64_MAX) return Ok("locked memory", "no limit");
  const std::string detail = "limit " + FormatBytes(limit_bytes);
  if (limit_bytes >= kLockedBytes) return Ok("locked memory", detail);
  return Warn("locked memory", detail,
              "Reads from SSD register buffers: set LimitMEMLOCK=64M in the unit, or ulimit -l.");
}

Check CheckOpenFiles(uint64_t limit, int32_t max_connections) {
  const std::string detail = fmt::format("limit {}, --max-connections {}", limit, max_connections);
  if (limit >= static_cast<uint64_t>(max_connections) + kSpareFiles)
    return Ok("open files", detail);
  return Warn("open files", detail, "Raise LimitNOFILE (ulimit -n) or lower --max-connections.");
}

Check CheckCacheFolder(const std::string& folder, bool model_present) {
  const fs::path existing = ExistingParent(folder);
  struct statvfs space{};
  if (statvfs(existing.c_str(), &space) != 0) {
    return Fail("model folder", fmt::format("{}: {}", existing.string(), std::strerror(errno)),
                "Set BALLAST_HOME to a folder that exists.");
  }
  const uint64_t room = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  const std::string detail = fmt::format("{}, {} free", folder, FormatBytes(room));
  const bool writable = CanWrite(existing);
  if (!writable) {
    const std::string advice = "Make it writable or set BALLAST_HOME; pulling models needs it.";
    return model_present ? Warn("model folder", detail + ", not writable", advice)
                         : Fail("model folder", detail + ", not writable", advice);
  }
  if (!model_present && room < kRoomBytes) {
    return Warn("model folder", detail, "Free some room before pulling a model.");
  }
  return Ok("model folder", detail);
}

Check CheckStateFolder(const std::string& folder) {
  const fs::path existing = ExistingParent(folder);
  if (CanWrite(existing)) return Ok("state folder", folder);
  return Warn("state folder", folder + ", not writable",
              "Tenants need it: make it writable or set --state-dir.");
}

Check CheckIoUring() {
  io_uring_params params{};
  const long descriptor = syscall(__NR_io_uring_setup, 4, &params);
  if (descriptor >= 0) {
    close(static_cast<int>(descriptor));
    return Ok("io_uring", "available");
  }
  return Warn("io_uring", fmt::format("not available: {}", std::strerror(errno)),
              "Reads from SSD go through threads instead. A container's seccomp profile or the "
              "sysctl kernel.io_uring_disabled may forbid it.");
}

Check CheckPort(const std::string& host, uint16_t port) {
  const std::string address = fmt::format("{}:{}", host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0 || found == nullptr) {
    return Fail("port", fmt::format("{}: {}", address, gai_strerror(code)),
                "Give --host an address of this machine.");
  }
  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = 0;
  if (descriptor < 0 || bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(descriptor, 1) != 0) {
    error = errno;
  }
  if (descriptor >= 0) close(descriptor);
  freeaddrinfo(found);
  if (error == 0) return Ok("port", address + " is free");
  const std::string detail = fmt::format("{}: {}", address, std::strerror(error));
  if (error == EADDRINUSE) {
    return Warn("port", detail,
                "Fine if ballast is running already. Otherwise choose another --port.");
  }
  return Fail("port", detail, "Choose another --port or --host; ports below 1024 need a right.");
}

Check CheckModelFile(const Options& options) {
  const std::string name = ModelName(options);
  const auto resolved = ResolveModel(Catalog::Embedded(), name);
  if (!resolved.has_value()) {
    return Fail("model", resolved.error().message, "`ballast list` shows what there is.");
  }
  if (!resolved->present) {
    if (resolved->model.sources.empty()) {
      return Fail("model", fmt::format("{} does not exist", resolved->path), "Check the path.");
    }
    return Warn("model", fmt::format("{} is not on disk", name),
                fmt::format("`ballast pull {}` fetches it; serve does so by itself.", name));
  }
  const std::string again = fmt::format("`ballast rm {0}`, then `ballast pull {0}`.", name);
  const auto source = OpenWeights(resolved->path);
  if (!source.has_value()) return Fail("model", source.error().message, again);
  const Status intact = (*source)->CheckIntact();
  if (!intact.has_value()) return Fail("model", intact.error().message, again);
  if (resolved->model.sha256.empty()) {
    return Ok("model", fmt::format("{} can be read (no hash is known)", resolved->path));
  }
  const auto hash = HashFile(resolved->path);
  if (!hash.has_value()) return Fail("model", hash.error().message, again);
  if (*hash != resolved->model.sha256) {
    return Fail("model",
                fmt::format("{} has SHA-256 {}, the catalogue says {}", resolved->path, *hash,
                            resolved->model.sha256),
                again);
  }
  return Ok("model", fmt::format("{} is intact", resolved->path));
}

Check CheckClock(int64_t unix_seconds, bool synchronised) {
  if (unix_seconds < kEarliest) {
    return Fail("clock", fmt::format("{} seconds since 1970 is in the past", unix_seconds),
                "Set the time: certificates and logs depend on it.");
  }
  if (!synchronised) {
    return Warn("clock", "not synchronised", "Run a time service (systemd-timesyncd, chrony).");
  }
  return Ok("clock", "synchronised");
}

}  // namespace ballast
