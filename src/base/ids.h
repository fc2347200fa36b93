// Role: strong integer ids. Two kinds of id never convert into each other.
#ifndef BALLAST_BASE_IDS_H_
#define BALLAST_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>

namespace ballast {

/// A value-typed id; `Tag` only distinguishes kinds.
template <class Tag, class Int>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Int value_ = 0;
};

using RequestId = StrongId<struct RequestIdTag, uint64_t>;
using SequenceId = StrongId<struct SequenceIdTag, uint64_t>;

/// A vocabulary index. Plain int32 because kernels, samplers and JSON index with it.
using TokenId = int32_t;

}  // namespace ballast

template <class Tag, class Int>
struct std::hash<ballast::StrongId<Tag, Int>> {
  size_t operator()(ballast::StrongId<Tag, Int> id) const { return std::hash<Int>()(id.value()); }
};

#endif  // BALLAST_BASE_IDS_H_
