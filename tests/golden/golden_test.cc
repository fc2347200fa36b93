// Golden tests of real models: how close the logits come to the fp32 reference of the same weights
// (.gold files). Models that are not in the local cache are skipped, except SmolLM2, which every
// test run fetches first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "golden_support.h"

namespace ballast::golden {
namespace {

constexpr char kDefaultModel[] = "smollm2-135m-instruct";
// The positions of the published comparisons: with at least 256 tokens of context.
constexpr int64_t kFirst = 256, kLast = 510;

/// Loads once a model and setting; golden tests run on the best body (the others are bit-identical,
/// which the hash tests check).
class GoldenTest : public ::testing::Test {
 protected:
  static LoadedModel* Get(const std::string& name, const ModelOptions& options) {
    const auto path = FindModel(name);
    if (!path.has_value()) return nullptr;
    current_.reset();
    auto loaded = Load(*path, TestIsa(), UsableCores(), options);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
    if (!loaded.has_value()) return nullptr;
    current_ = std::make_unique<LoadedModel>(std::move(*loaded));
    return current_.get();
  }
  static void TearDownTestSuite() { current_.reset(); }

  static std::unique_ptr<LoadedModel> current_;
};
std::unique_ptr<LoadedModel> GoldenTest::current_;

#define REQUIRE_MODEL(loaded, name)                                              \
  do {                                                                           \
    if ((loaded) == nullptr) {                                                   \
      ASSERT_NE(std::string(name), kDefaultModel) << "run `ballast pull` first"; \
      SKIP_OR_FAIL() << (name) << " is not in the local cache";                  \
    }                                                                            \
  } while (false)

class LastLogits final : public EvalObserver {
 public:
  void OnLogits(int64_t, std::span<const float> logits) override {
    logits_.assign(logits.begin(), logits.end());
  }
  std::vector<float> logits_;
};

void CheckSanity(LoadedModel& loaded, const std::vector<TokenId>& prompt, float best_logit) {
  LastLogits last;
  auto result = loaded.Eval(prompt, {}, &last);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_NEAR(*std::max_element(last.logits_.begin(), last.logits_.end()), best_logit, 0.15);
}

TEST_F(GoldenTest, CapitalOfFranceSmolLm2) {
  LoadedModel* loaded = Get(kDefaultModel, {});
  REQUIRE_MODEL(loaded, kDefaultModel);
  CheckSanity(*loaded, {504, 3575, 282, 4649, 314}, 17.371f);
}

TEST_F(GoldenTest, CapitalOfFranceQwen) {
  LoadedModel* loaded = Get("qwen2.5-coder-0.5b-instruct", {});
  REQUIRE_MODEL(loaded, "qwen2.5-coder-0.5b-instruct");
  CheckSanity(*loaded, {785, 6722, 315, 9625, 374}, 14.591f);
}

TEST_F(GoldenTest, CapitalOfFranceGemma) {
  LoadedModel* loaded = Get("gemma-3-270m", {});
  REQUIRE_MODEL(loaded, "gemma-3-270m");
  CheckSanity(*loaded, {2, 818, 5279, 529, 7001, 563}, 19.091f);
}

/// Bounds with room for the last bits of the reference; each is far inside what 8-bit activations
/// everywhere would cost (docs/arithmetic.md).
struct Bound {
  const char* file;
  double kl_default;  // mean KL, default activations, f16 KV
  double kl_precise;  // mean KL, precise activations, f16 KV
  double kl_kv8;      // mean KL, precise activations, kv8
};
constexpr Bound kBounds[] = {
    {"smollm2-135m-instruct-prose", 1e-4, 3e-6, 1e-4},
    {"smollm2-135m-instruct-code", 1e-4, 3e-6, 1e-4},
    {"qwen2.5-coder-0.5b-instruct-prose", 5e-4, 3e-6, 1e-4},
    {"qwen2.5-coder-0.5b-instruct-code", 5e-4, 3e-6, 1e-4},
    {"gemma-3-270m-prose", 2.5e-3, 3e-6, 1.5e-4},
    {"gemma-3-270m-code", 2.5e-3, 3e-6, 1.5e-4},
    {"qwen2.5-coder-1.5b-instruct-prose", 5e-4, 3e-6, 1e-4},
    {"qwen2.5-coder-1.5b-instruct-code", 5e-4, 3e-6, 1e-4},
};

enum class Setting { kDefault, kPrecise, kPreciseKv8 };

class GoldenTexts : public GoldenTest,
                    public ::testing::WithParamInterface<std::tuple<Bound, Setting>> {};

TEST_P(GoldenTexts, StaysCloseToTheReference) {
  const auto& [bound, setting] = GetParam();
  auto gold = ReadGolden(GoldenDir() + "/logits/" + bound.file + ".gold");
  ASSERT_TRUE(gold.has_value()) << gold.error().message;
  ModelOptions options;
  options.activations =
      setting == Setting::kDefault ? Activations::kDefault : Activations::kPrecise;
  options.kv_dtype = setting == Setting::kPreciseKv8 ? KvDType::kKv8 : KvDType::kF16;
  LoadedModel* loaded = Get(gold->model, options);
  REQUIRE_MODEL(loaded, gold->model);
  auto close =
      CompareWithGolden(*loaded, *gold, kFirst, std::min<int64_t>(kLast, gold->positions - 1));
  ASSERT_TRUE(close.has_value()) << close.error().message;
  std::printf("%s setting %d: mean KL %.2e, p99 %.2e, top-1 %.2f %%, perplexity %.3f (%.3f)\n",
              bound.file, static_cast<int>(setting), close->kl_mean, close->kl_p99,
              100 * close->top1, close->perplexity, close->reference_perplexity);
  const double limit = setting == Setting::kDefault   ? bound.kl_default
                       : setting == Setting::kPrecise ? bound.kl_precise
                                                      : bound.kl_kv8;
  EXPECT_LE(close->kl_mean, limit);
  EXPECT_GE(close->kl_mean, 0);
  EXPECT_GE(close->top1, setting == Setting::kDefault ? 0.96 : 0.985);
  EXPECT_NEAR(close->perplexity / close->reference_perplexity, 1.0,
              setting == Setting::kDefault ? 0.02 : 0.005);
}

std::string BoundName(const ::testing::TestParamInfo<std::tuple<Bound, Setting>>& info) {
  constexpr const char* kSettings[] = {"default", "precise", "kv8"};
  std::string name = std::get<0>(info.param).file;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + "_" + kSettings[static_cast<int>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTexts,
                         ::testing::Combine(::testing::ValuesIn(kBounds),
                                            ::testing::Values(Setting::kDefault, Setting::kPrecise,
                                                              Setting::kPreciseKv8)),
                         BoundName);

}  // namespace
}  // namespace ballast::golden
