#include "platform/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace ballast {

namespace {

struct Features {
  bool ref = false, avx2 = false, avx512 = false, amx = false;
};

uint64_t ReadXcr0() {
  uint32_t eax = 0, edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (static_cast<uint64_t>(edx) << 32) | eax;
}

bool RequestAmxPermission() {
  // arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA); Linux Documentation/arch/x86/xstate.rst.
  constexpr int kReqXcompPerm = 0x1023;
  constexpr int kXTileData = 18;
  return syscall(SYS_arch_prctl, kReqXcompPerm, kXTileData) == 0;
}

bool Bit(uint32_t word, int bit) { return (word >> bit) & 1; }

Features Probe() {
  Features f;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = Bit(c, 27);
  const bool fma = Bit(c, 12), f16c = Bit(c, 29), avx = Bit(c, 28);
  const uint64_t xcr0 = osxsave ? ReadXcr0() : 0;
  const bool ymm = avx && (xcr0 & 0x6) == 0x6;
  f.ref = ymm && fma && f16c;
  uint32_t a7 = 0, b7 = 0, c7 = 0, d7 = 0;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return f;
  f.avx2 = f.ref && Bit(b7, 5);
  const bool zmm = ymm && (xcr0 & 0xE0) == 0xE0;
  f.avx512 = f.avx2 && zmm && Bit(b7, 16) && Bit(b7, 17) && Bit(b7, 30) && Bit(b7, 31) &&
             Bit(c7, 1) && Bit(c7, 11);
  const bool tiles = (xcr0 & 0x60000) == 0x60000;
  f.amx = f.avx512 && tiles && Bit(d7, 24) && Bit(d7, 25) && RequestAmxPermission();
  return f;
}

const Features& Cpu() {
  static const Features features = Probe();
  return features;
}

constexpr std::string_view kIsaNames[] = {"ref", "avx2", "avx512", "amx"};

// Reads the first number of a small file; returns `fallback` if it has none ("max").
uint64_t ReadNumber(const char* path, uint64_t fallback) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : fallback;
}

}  // namespace

std::string_view IsaName(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

Result<Isa> ParseIsa(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (kIsaNames[i] == name) return static_cast<Isa>(i);
  }
  return InvalidArgument("--isa '{}' is unknown (ref, avx2, avx512 or amx)", name);
}

bool IsaSupported(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return Cpu().ref;
    case Isa::kAvx2:
      return Cpu().avx2;
    case Isa::kAvx512:
      return Cpu().avx512;
    case Isa::kAmx:
      return Cpu().amx;
  }
  return false;
}

Result<Isa> BestIsa() {
  for (const Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2, Isa::kRef}) {
    if (IsaSupported(isa)) return isa;
  }
  return Unimplemented("this CPU ({}) lacks FMA3 and F16C, which every kernel body needs",
                       CpuName());
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name = "unknown CPU", family, model;
  while (std::getline(file, line) && (family.empty() || model.empty() || name == "unknown CPU")) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) name = value;
    if (line.starts_with("cpu family")) family = value;
    if (line.starts_with("model\t")) model = value;
  }
  return fmt::format("{} (family {} model {})", name, family, model);
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && period > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(quota / period + 0.5)));
  }
  return cores;
}

uint64_t AvailableMemoryBytes() {
  uint64_t available = UINT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  std::string line;
  while (std::getline(meminfo, line)) {
    if (!line.starts_with("MemAvailable:")) continue;
    std::istringstream fields(line.substr(13));
    uint64_t kib = 0;
    if (fields >> kib) available = kib * 1024;
  }
  const uint64_t v2 = ReadNumber("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const uint64_t v1 = ReadNumber("/sys/fs/cgroup/memory/memory.limit_in_bytes", UINT64_MAX);
  return std::min({available, v2, v1});
}

ResidentBytes ReadResidentBytes() {
  ResidentBytes bytes;
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    uint64_t* target = nullptr;
    if (line.starts_with("VmRSS:")) target = &bytes.current;
    if (line.starts_with("VmHWM:")) target = &bytes.peak;
    if (target == nullptr) continue;
    std::istringstream fields(line.substr(6));
    uint64_t kib = 0;
    if (fields >> kib) *target = kib * 1024;
  }
  return bytes;
}

}  // namespace ballast
