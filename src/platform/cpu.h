// Role: what the CPU can do, and its name. Probed once; chooses the kernel bodies.
// Thread: pure after the first call.
#ifndef BALLAST_PLATFORM_CPU_H_
#define BALLAST_PLATFORM_CPU_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace ballast {

/// Kernel bodies in ascending order of preference. Values are frozen: they appear in evidence
/// files.
enum class Isa : int { kRef = 0, kAvx2 = 1, kAvx512 = 2, kAmx = 3 };

std::string_view IsaName(Isa isa);
/// Errors: kInvalidArgument naming the word and the four allowed ones.
Result<Isa> ParseIsa(std::string_view name);

/// True if this CPU and kernel can run `isa` (for kAmx also asks Linux for tile permission, which
/// must happen before threads start).
///   kRef: FMA3 + F16C. kAvx2: AVX2 + FMA + F16C. kAvx512: F, BW, VL, DQ, VNNI, VBMI.
///   kAmx: kAvx512 + AMX-TILE + AMX-INT8.
bool IsaSupported(Isa isa);

/// The best supported body. Errors: kUnimplemented when even kRef cannot run (no FMA3).
Result<Isa> BestIsa();

/// "Intel(R) Xeon(R) Processor (family 6 model 167)" style text for reports.
std::string CpuName();

/// Cores this process may run on, honouring affinity and the cgroup's CPU quota; at least 1.
int UsableCores();

/// Bytes this process may use: the smaller of the cgroup's limit and MemAvailable.
uint64_t AvailableMemoryBytes();

/// Current and peak resident set size in bytes, from /proc/self/status.
struct ResidentBytes {
  uint64_t current = 0;
  uint64_t peak = 0;
};
ResidentBytes ReadResidentBytes();

}  // namespace ballast

#endif  // BALLAST_PLATFORM_CPU_H_
