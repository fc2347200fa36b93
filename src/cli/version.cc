#include <fmt/format.h>

#include "cli/commands.h"
#include "platform/cpu.h"

namespace ballast {

std::string VersionNumber() { return BALLAST_VERSION; }

std::string VersionText() {
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
  const auto isa = BestIsa();
  return fmt::format("ballast {} ({}, {}), kernels {} on {}", BALLAST_VERSION, BALLAST_COMMIT,
                     compiler, isa.has_value() ? IsaName(*isa) : "unsupported", CpuName());
}

}  // namespace ballast
