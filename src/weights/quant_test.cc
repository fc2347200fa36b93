#include "weights/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tools/make_model_lib.h"

namespace ballast {
namespace {

std::string TypeName(const testing::TestParamInfo<int>& info) {
  return std::string(DTypeName(static_cast<DType>(info.param)));
}

class QuantTest : public testing::TestWithParam<int> {
 protected:
  DType type() const { return static_cast<DType>(GetParam()); }
};

// testdata/make_quant_golden.py says where the vectors come from.
TEST_P(QuantTest, AgreesWithTheReferencePackageBitForBit) {
  if (type() == DType::kF32) GTEST_SKIP() << "stored as it is";
  const std::string path =
      fmt::format("{}/src/weights/testdata/quant_{}.bin", BALLAST_SOURCE_DIR, DTypeName(type()));
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << path;
  uint32_t head[2];
  in.read(reinterpret_cast<char*>(head), sizeof(head));
  std::vector<std::byte> blocks(head[1]);
  std::vector<float> expected(head[0]), found(head[0]);
  in.read(reinterpret_cast<char*>(blocks.data()), head[1]);
  in.read(reinterpret_cast<char*>(expected.data()), 4 * std::streamsize{head[0]});
  ASSERT_TRUE(in) << path;
  DequantizeBlocks(type(), blocks.data(), head[0], found.data());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(found[i]))
        << DTypeName(type()) << " element " << i << ": " << expected[i] << " and " << found[i];
  }
}

// The seeded models' quantisers and the reading of blocks are inverse to each other up to the
// rounding.
TEST_P(QuantTest, QuantisersComeBackClose) {
  Rng rng(11);
  std::vector<float> values(1024), back(1024);
  for (float& value : values) value = 2 * rng.Uniform() - 1;
  const std::vector<std::byte> blocks = QuantizeBlocks(type(), values);
  DequantizeBlocks(type(), blocks.data(), 1024, back.data());
  double error = 0;
  for (size_t i = 0; i < 1024; ++i) {
    error += static_cast<double>((values[i] - back[i]) * (values[i] - back[i]));
  }
  const double rms = std::sqrt(error / 1024);
  // Uniform values in a range of 2: a step of 2 / levels has an error of step / sqrt(12).
  const bool four = type() == DType::kQ4_0 || type() == DType::kQ4_1 || type() == DType::kQ4_K;
  const bool five = type() == DType::kQ5_0 || type() == DType::kQ5_1 || type() == DType::kQ5_K;
  const double limit = type() == DType::kF32 ? 0 : four ? 0.045 : five ? 0.023 : 0.012;
  EXPECT_LE(rms, limit) << DTypeName(type());
}

INSTANTIATE_TEST_SUITE_P(AllTypes, QuantTest, testing::Range(0, kDTypeCount), TypeName);

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F16ToF32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
      continue;
    }
    ASSERT_EQ(F32ToF16(value), half) << bits;
    const float wide = BF16ToF32(half);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(F32ToBF16(wide), half) << bits;
  }
}

TEST(Half, RoundsToNearestEven) {
  struct Case {
    float value;
    uint16_t half;
  };
  const Case cases[] = {
      {1.0f, 0x3c00},
      {1.0f + 0x1p-11f, 0x3c00},
      {1.0f + 0x1.8p-11f, 0x3c01},
      {1.0f + 0x3p-11f, 0x3c02},
      {65504.0f, 0x7bff},
      {65519.0f, 0x7bff},
      {65520.0f, 0x7c00},
      {-65520.0f, 0xfc00},
      {0x1p-24f, 0x0001},
      {0x1p-25f, 0x0000},
      {0x1.8p-24f, 0x0002},
      {0x1p-14f, 0x0400},
      {-0.0f, 0x8000},
      {std::numeric_limits<float>::infinity(), 0x7c00},
  };
  for (const Case& c : cases) EXPECT_EQ(F32ToF16(c.value), c.half) << c.value;
  EXPECT_EQ(F32ToBF16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(F32ToBF16(1.0f + 0x3p-8f), 0x3f82);
}

}  // namespace
}  // namespace ballast
