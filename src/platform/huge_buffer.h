// Role: large memory on 2 MiB pages. Weights and KV live here: decode reads them once a token and
// 4 KiB pages cost 1.2 to 1.45 times in bandwidth.
// Thread: one owner; the memory itself may be read by all.
#ifndef BALLAST_PLATFORM_HUGE_BUFFER_H_
#define BALLAST_PLATFORM_HUGE_BUFFER_H_

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace ballast {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// An anonymous mapping aligned to 2 MiB with MADV_HUGEPAGE, zero-filled, returned to the OS whole.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  ~HugeBuffer() { Reset(); }
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  /// Allocates at least `bytes`, rounded up to 2 MiB. Pages are touched on first use.
  /// Errors: kResourceExhausted when the OS refuses.
  static Result<HugeBuffer> Allocate(size_t bytes);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }

 private:
  void Reset();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_PLATFORM_HUGE_BUFFER_H_
