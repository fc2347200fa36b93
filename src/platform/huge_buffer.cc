#include "platform/huge_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/units.h"

namespace ballast {

Result<HugeBuffer> HugeBuffer::Allocate(size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const size_t size = RoundUp(bytes, kHugePageBytes);
  // Map one huge page more than needed and give back what lies outside the alignment.
  void* raw = mmap(nullptr, size + kHugePageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return ResourceExhausted("cannot map {} of memory: {}", FormatBytes(size),
                             std::strerror(errno));
  }
  auto* base = static_cast<std::byte*>(raw);
  const size_t lead = RoundUp(reinterpret_cast<uintptr_t>(raw), uintptr_t{kHugePageBytes}) -
                      reinterpret_cast<uintptr_t>(raw);
  if (lead > 0) munmap(base, lead);
  if (lead < kHugePageBytes) munmap(base + lead + size, kHugePageBytes - lead);
  buffer.data_ = base + lead;
  buffer.size_ = size;
  // Advice only: where THP is off this fails and 4 KiB pages serve.
  (void)madvise(buffer.data_, size, MADV_HUGEPAGE);
  return buffer;
}

void HugeBuffer::Reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace ballast
