// Seeded float models of every architecture against transformers' fp32 logits of the same weights
// (seeded/*.gold, make_seeded_golden.py). Nothing is rounded but the KV (f16), so only a wrong
// computation can exceed the bound.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "golden_support.h"
#include "tools/make_model_lib.h"

namespace ballast::golden {
namespace {

constexpr double kMaxMeanKl = 1e-5;
constexpr int32_t kContext = 512;  // as in make_seeded_golden.py

class SeededGolden : public ::testing::TestWithParam<std::tuple<std::string_view, const char*>> {};

TEST_P(SeededGolden, BothFormatsStayWithinTheBound) {
  const std::string architecture(std::get<0>(GetParam())), type = std::get<1>(GetParam());
  const auto gold = ReadGolden(GoldenDir() + "/seeded/" + architecture + "-" + type + ".gold");
  ASSERT_TRUE(gold.has_value()) << gold.error().message;
  std::string dir = (std::filesystem::temp_directory_path() / "ballast-seeded-XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  for (ModelFileFormat format : {ModelFileFormat::kGguf, ModelFileFormat::kSafetensors}) {
    ModelRecipe recipe;
    recipe.architecture = architecture;
    recipe.type = type;
    recipe.context = kContext;
    recipe.format = format;
    const std::string path = dir + (format == ModelFileFormat::kGguf ? "/model.gguf" : "/model");
    const Status made = MakeModel(recipe, path);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    ModelOptions options;
    options.max_step_rows = kContext;
    auto loaded = Load(path, TestIsa(), 2, options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    ASSERT_EQ(loaded->model->config().vocab, gold->vocab);
    const auto close = CompareWithGolden(*loaded, *gold, 0, gold->positions - 1);
    ASSERT_TRUE(close.has_value()) << close.error().message;
    std::printf("%s %s %s: mean KL %.2e\n", architecture.c_str(), type.c_str(),
                format == ModelFileFormat::kGguf ? "gguf" : "safetensors", close->kl_mean);
    EXPECT_LE(close->kl_mean, kMaxMeanKl) << path;
    EXPECT_NEAR(close->perplexity / close->reference_perplexity, 1.0, 1e-3) << path;
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}

INSTANTIATE_TEST_SUITE_P(All, SeededGolden,
                         ::testing::Combine(::testing::ValuesIn(SeededArchitectures()),
                                            ::testing::Values("F32", "F16", "BF16")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param);
                         });

TEST(SeededModels, CoverEveryArchitecture) {
  std::vector<std::string_view> seeded = SeededArchitectures();
  std::sort(seeded.begin(), seeded.end());
  EXPECT_EQ(seeded, Architectures());
}

}  // namespace
}  // namespace ballast::golden
