// The exactness contract (docs/arithmetic.md) on seeded models: the hash over all logits does not
// depend on the kernel body, threads, batch, chunking, mode, neighbours; it does depend on declared
// settings.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "golden_support.h"
#include "tools/make_model_lib.h"

namespace ballast::golden {
namespace {

constexpr int64_t kTokens = 200;  // four pages, the last one partly filled; more than every window

std::vector<TokenId> SeededTokens(uint64_t seed, int64_t count, int32_t vocab) {
  Rng rng(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(rng.Below(static_cast<uint64_t>(vocab))));
  }
  return tokens;
}

/// A seeded model on disk for the length of the test program.
class SeededModels {
 public:
  SeededModels() : dir_(std::filesystem::temp_directory_path() / "ballast-exactness-XXXXXX") {
    std::string pattern = dir_.string();
    if (mkdtemp(pattern.data()) != nullptr) dir_ = pattern;
  }
  ~SeededModels() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::string Make(const std::string& architecture, const std::string& type) {
    const std::string path = (dir_ / (architecture + "-" + type + ".gguf")).string();
    if (std::filesystem::exists(path)) return path;
    ModelRecipe recipe;
    recipe.architecture = architecture;
    recipe.type = type;
    recipe.context = 1024;
    if (architecture == "gemma3") recipe.sliding_window = 70;
    const Status status = MakeModel(recipe, path);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    return path;
  }

 private:
  std::filesystem::path dir_;
};

SeededModels& Models() {
  static SeededModels models;
  return models;
}

/// A schedule under which the same text is evaluated.
struct Schedule {
  const char* name;
  EvalMode mode = EvalMode::kPrefill;
  int64_t chunk = kTokens;
  int32_t batch = 1;
  int neighbours = 0;
  bool every_thread_count = false;
};
constexpr Schedule kSchedules[] = {
    {"whole", EvalMode::kPrefill, kTokens, 1, 0, true},
    {"chunks of 16", EvalMode::kPrefill, 16},
    {"chunks of 17", EvalMode::kPrefill, 17, 1, 0, true},
    {"chunks of 64", EvalMode::kPrefill, 64},
    {"chunks of 100", EvalMode::kPrefill, 100},
    {"decode", EvalMode::kDecode, 1, 1, 0, true},
    {"batch of 2", EvalMode::kPrefill, 50, 2},
    {"batch of 7, decode", EvalMode::kDecode, 1, 7},
    {"beside neighbours", EvalMode::kPrefill, 48, 1, 4, true},
    {"decode beside neighbours", EvalMode::kDecode, 1, 2, 3},
};

Result<EvalResult> RunSchedule(LoadedModel& loaded, const Schedule& schedule,
                               int64_t tokens = kTokens) {
  const int32_t vocab = loaded.model->config().vocab;
  EvalOptions eval;
  eval.context = tokens;
  eval.mode = schedule.mode;
  eval.prefill_chunk = schedule.chunk;
  eval.batch = schedule.batch;
  for (int i = 0; i < schedule.neighbours; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    eval.neighbours.push_back(SeededTokens(1000 + seed, 90 + 37 * i, vocab));
  }
  return loaded.Eval(SeededTokens(7, tokens, vocab), eval);
}

Result<std::string> Hash(const std::string& path, Isa isa, int threads, const ModelOptions& options,
                         const Schedule& schedule) {
  ASSIGN_OR_RETURN(LoadedModel loaded, Load(path, isa, threads, options));
  ASSIGN_OR_RETURN(EvalResult result, RunSchedule(loaded, schedule));
  return result.logits_sha256;
}

class Exactness : public ::testing::TestWithParam<std::tuple<std::string_view, KvDType>> {};

TEST_P(Exactness, NoScheduleChangesABit) {
  const auto& [architecture, kv_dtype] = GetParam();
  const std::string path = Models().Make(std::string(architecture), "mixed");
  ModelOptions options;
  options.kv_dtype = kv_dtype;
  options.max_step_rows = 512;
  std::string expected;
  for (Isa isa : SupportedIsas()) {
    for (int threads : {1, 2, 3}) {
      auto loaded = Load(path, isa, threads, options);
      ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
      for (const Schedule& schedule : kSchedules) {
        // Batching and threads are independent: more threads repeat the basic shapes only.
        if (threads > 1 && !schedule.every_thread_count) continue;
        auto result = RunSchedule(*loaded, schedule);
        ASSERT_TRUE(result.has_value()) << result.error().message;
        if (expected.empty()) expected = result->logits_sha256;
        EXPECT_EQ(result->logits_sha256, expected)
            << IsaName(isa) << ", " << threads << " threads, " << schedule.name;
        EXPECT_TRUE(result->batch_identical) << IsaName(isa) << ", " << schedule.name;
        EXPECT_EQ(result->positions, kTokens);
        EXPECT_EQ(result->predicted_tokens, kTokens - 1);
      }
    }
  }
}

std::string ExactnessName(const ::testing::TestParamInfo<Exactness::ParamType>& info) {
  return std::string(std::get<0>(info.param)) +
         (std::get<1>(info.param) == KvDType::kF16 ? "_f16" : "_kv8");
}

INSTANTIATE_TEST_SUITE_P(All, Exactness,
                         ::testing::Combine(::testing::ValuesIn(SeededArchitectures()),
                                            ::testing::Values(KvDType::kF16, KvDType::kKv8)),
                         ExactnessName);

TEST_P(Exactness, LongContextsMergeSegmentsAlike) {
  constexpr int64_t kLong = 2 * kSegmentTokens + 40;  // two whole attention segments and a part
  constexpr Schedule kLongSchedules[] = {
      {"whole", EvalMode::kPrefill, kLong},
      {"chunks of 100", EvalMode::kPrefill, 100},
      {"decode", EvalMode::kDecode},
  };
  const auto& [architecture, kv_dtype] = GetParam();
  const std::string path = Models().Make(std::string(architecture), "mixed");
  ModelOptions options;
  options.kv_dtype = kv_dtype;
  options.max_step_rows = 600;
  std::string expected;
  for (Isa isa : SupportedIsas()) {
    auto loaded = Load(path, isa, 2, options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    for (const Schedule& schedule : kLongSchedules) {
      if (isa == Isa::kRef && schedule.chunk != kLong) continue;  // the scalar body is slow
      auto result = RunSchedule(*loaded, schedule, kLong);
      ASSERT_TRUE(result.has_value()) << result.error().message;
      if (expected.empty()) expected = result->logits_sha256;
      EXPECT_EQ(result->logits_sha256, expected) << IsaName(isa) << ", " << schedule.name;
      EXPECT_EQ(result->positions, kLong);
    }
  }
}

class ExactTypes : public ::testing::TestWithParam<const char*> {};

TEST_P(ExactTypes, EveryWeightTypeIsTheSameOnEveryBody) {
  const std::string path = Models().Make("llama", GetParam());
  for (Activations activations : {Activations::kDefault, Activations::kPrecise}) {
    ModelOptions options;
    options.activations = activations;
    options.max_step_rows = 512;
    std::string expected;
    for (Isa isa : SupportedIsas()) {
      for (const Schedule& schedule : {kSchedules[0], kSchedules[5]}) {
        auto hash = Hash(path, isa, 2, options, schedule);
        ASSERT_TRUE(hash.has_value()) << hash.error().message;
        if (expected.empty()) expected = *hash;
        EXPECT_EQ(*hash, expected) << IsaName(isa) << ", " << schedule.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExactTypes,
                         ::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0",
                                           "Q5_1", "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ExactSettings, DeclaredSettingsDoChangeTheHash) {
  const std::string path = Models().Make("llama", "Q8_0");
  ModelOptions plain, precise, kv8;
  plain.max_step_rows = precise.max_step_rows = kv8.max_step_rows = 512;
  precise.activations = Activations::kPrecise;
  kv8.kv_dtype = KvDType::kKv8;
  const auto a = Hash(path, TestIsa(), 1, plain, kSchedules[0]);
  const auto b = Hash(path, TestIsa(), 1, precise, kSchedules[0]);
  const auto c = Hash(path, TestIsa(), 1, kv8, kSchedules[0]);
  ASSERT_TRUE(a.has_value() && b.has_value() && c.has_value());
  EXPECT_NE(*a, *b);
  EXPECT_NE(*a, *c);
  EXPECT_NE(*b, *c);
}

/// Only the rows whose logits are wanted go through the last layer; the others must not matter.
TEST(ExactSettings, LogitsOfOneRowEqualThoseOfAllRows) {
  const std::string path = Models().Make("gemma3", "mixed");
  for (KvDType kv_dtype : {KvDType::kF16, KvDType::kKv8}) {
    ModelOptions options;
    options.kv_dtype = kv_dtype;
    options.max_step_rows = 512;
    auto loaded = Load(path, TestIsa(), 2, options);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    Model& model = *loaded->model;
    const int32_t vocab = model.config().vocab;
    const auto tokens = SeededTokens(3, kTokens, vocab);
    auto arena = *FrameArena::Create(256 * kFrameBytes, loaded->ledger.get());
    auto cache = *KvCache::Create(model.kv_layers(), kv_dtype, arena.get());
    const auto forward = [&](const std::vector<int32_t>& wanted) {
      auto kv = cache->NewSequence();
      EXPECT_TRUE(kv->Reserve(kTokens).has_value());
      const SequenceSlice slice{kv.get(), 0, 0, kTokens};
      std::vector<float> logits(wanted.size() * static_cast<size_t>(vocab));
      model.Forward({tokens, {&slice, 1}, wanted}, logits.data());
      return logits;
    };
    std::vector<int32_t> all;
    for (int32_t i = 0; i < kTokens; ++i) all.push_back(i);
    const std::vector<float> full = forward(all);
    for (const std::vector<int32_t>& wanted :
         {std::vector<int32_t>{199}, {0}, {63, 64, 65, 190}, {5, 6, 7, 130, 199}}) {
      const std::vector<float> some = forward(wanted);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto width = static_cast<size_t>(vocab);
        const auto* a = full.data() + static_cast<size_t>(wanted[i]) * width;
        EXPECT_TRUE(std::equal(a, a + width, some.data() + i * width)) << "row " << wanted[i];
      }
    }
    EXPECT_TRUE(forward({}).empty());
  }
}

/// A chunk of several pages, fed while others decode, with a scratch that holds only one slice.
TEST(ExactSettings, Kv8ManyMultiPageSlicesInOneStep) {
  const std::string path = Models().Make("qwen2", "mixed");
  ModelOptions options;
  options.kv_dtype = KvDType::kKv8;
  options.max_step_rows = 700;
  auto loaded = Load(path, TestIsa(), 2, options);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const auto alone = RunSchedule(*loaded, {"alone", EvalMode::kPrefill, kTokens, 1, 0});
  const auto together = RunSchedule(*loaded, {"together", EvalMode::kPrefill, 95, 7, 0});
  ASSERT_TRUE(alone.has_value() && together.has_value());
  EXPECT_EQ(alone->logits_sha256, together->logits_sha256);
  EXPECT_TRUE(together->batch_identical);
}

}  // namespace
}  // namespace ballast::golden
