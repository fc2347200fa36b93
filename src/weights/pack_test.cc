#include "weights/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "platform/huge_buffer.h"
#include "weights/quant.h"

namespace ballast {
namespace {

std::vector<std::byte> RandomBytes(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next());
  return bytes;
}

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

bool SameFloat(float a, float b) { return Bits(a) == Bits(b) || (a != a && b != b); }

class PackTest : public testing::TestWithParam<int> {};

// Random bytes are valid blocks of every type, scales that are infinite or NaN included.
TEST_P(PackTest, EveryElementSurvives) {
  const DType type = static_cast<DType>(GetParam());
  const int32_t block = Info(type).block_elements;
  for (const auto& [rows, blocks] : {std::pair{1, 1}, {16, 2}, {17, 3}, {40, 5}, {31, 8}}) {
    const int32_t cols = block == 1 ? 9 * blocks : block * blocks;
    const size_t row_bytes = FileRowBytes(type, cols).value();
    const auto file = RandomBytes(row_bytes * static_cast<size_t>(rows),
                                  static_cast<uint64_t>(rows * 100 + blocks));
    PackedMatrix shape{.type = type, .rows = rows, .cols = cols};
    auto memory = HugeBuffer::Allocate(shape.bytes());
    ASSERT_TRUE(memory.has_value());
    std::memset(memory->data(), 0x5a, memory->size());
    const auto packed = PackMatrix(type, rows, cols, file, memory->data());
    ASSERT_TRUE(packed.has_value()) << packed.error().message;
    std::vector<float> expected(static_cast<size_t>(cols));
    for (int32_t row = 0; row < packed->panels() * kPanelRows; ++row) {
      if (row < rows) {
        DequantizeBlocks(type, file.data() + static_cast<size_t>(row) * row_bytes, cols,
                         expected.data());
      }
      for (int32_t col = 0; col < packed->padded_cols(); ++col) {
        const bool inside = row < rows && col < cols;
        const float want = inside ? expected[static_cast<size_t>(col)] : 0.0f;
        const float got = PackedValue(*packed, row, col);
        ASSERT_TRUE(inside ? SameFloat(want, got) : got == 0.0f)
            << DTypeName(type) << " [" << rows << ", " << cols << "] at " << row << ", " << col
            << ": " << want << " became " << got;
      }
    }
    // Nothing is written behind the matrix.
    EXPECT_EQ(memory->data()[shape.bytes()], std::byte{0x5a});
  }
}

TEST_P(PackTest, PanelRangesMakeTheSameBytes) {
  const DType type = static_cast<DType>(GetParam());
  const int32_t rows = 50, cols = Info(type).block_elements == 1 ? 33 : 768;
  const auto file = RandomBytes(FileRowBytes(type, cols).value() * static_cast<size_t>(rows), 7);
  const PackedMatrix shape{.type = type, .rows = rows, .cols = cols};
  std::vector<std::byte> whole(shape.bytes()), parts(shape.bytes(), std::byte{1});
  PackPanels(shape, file, 0, 4, whole.data());
  for (const int32_t panel : {2, 0, 3, 1}) PackPanels(shape, file, panel, panel + 1, parts.data());
  EXPECT_EQ(whole, parts);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, PackTest, testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(DTypeName(static_cast<DType>(info.param)));
});

TEST(Pack, RefusesWrongSizes) {
  std::vector<std::byte> file(18), dst(4096);
  const auto short_file = PackMatrix(DType::kQ4_0, 2, 32, file, dst.data());
  ASSERT_FALSE(short_file.has_value());
  EXPECT_NE(short_file.error().message.find("expected 36"), std::string::npos);
  const auto odd = PackMatrix(DType::kQ4_K, 1, 128, file, dst.data());
  ASSERT_FALSE(odd.has_value());
  EXPECT_NE(odd.error().message.find("multiple of 256"), std::string::npos);
  EXPECT_FALSE(PackMatrix(DType::kF32, 0, 4, {}, dst.data()).has_value());
}

}  // namespace
}  // namespace ballast
