// Role: element types of tensors as model files store them, with their block geometry.
// Source of the block formats: the GGUF specification (ggml-org/ggml, docs/gguf.md).
#ifndef BALLAST_TENSOR_DTYPE_H_
#define BALLAST_TENSOR_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace ballast {

/// Values are ours and frozen (fingerprints contain them); GGUF's own numbers are mapped on
/// reading.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kQ8_0 = 3,
  kQ4_0 = 4,
  kQ4_1 = 5,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ4_K = 8,
  kQ5_K = 9,
  kQ6_K = 10,
};
inline constexpr int kDTypeCount = 11;

/// Elements and bytes of one block as the file stores it.
struct DTypeInfo {
  std::string_view name;
  int32_t block_elements;
  int32_t block_bytes;
};

inline constexpr DTypeInfo kDTypeInfo[kDTypeCount] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
    {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
};

constexpr const DTypeInfo& Info(DType type) { return kDTypeInfo[static_cast<int>(type)]; }
constexpr std::string_view DTypeName(DType type) { return Info(type).name; }
constexpr bool IsFloat(DType type) { return type <= DType::kBF16; }

}  // namespace ballast

#endif  // BALLAST_TENSOR_DTYPE_H_
