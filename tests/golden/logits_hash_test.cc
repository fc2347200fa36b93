// logits_hashes.json: one hash over the logits of the first tokens of a golden text, per model and
// declared setting. Every body must give it, on every machine: caches and replays move between
// them. $BALLAST_WRITE_HASHES=<file> writes the hashes of the default test body instead of
// checking.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "golden_support.h"

namespace ballast::golden {
namespace {

constexpr int64_t kTokens = 128;  // two pages: kv8 is sealed and read

struct Setting {
  const char* name;
  Activations activations;
  KvDType kv_dtype;
};
constexpr Setting kSettings[] = {
    {"default-f16", Activations::kDefault, KvDType::kF16},
    {"default-kv8", Activations::kDefault, KvDType::kKv8},
    {"precise-f16", Activations::kPrecise, KvDType::kF16},
    {"precise-kv8", Activations::kPrecise, KvDType::kKv8},
};
constexpr const char* kModels[] = {"smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct",
                                   "gemma-3-270m", "qwen2.5-coder-1.5b-instruct"};

Result<std::string> HashOf(const std::string& model, const std::string& path,
                           const Setting& setting, Isa isa) {
  ASSIGN_OR_RETURN(const Golden gold, ReadGolden(GoldenDir() + "/logits/" + model + "-prose.gold"));
  ModelOptions options;
  options.activations = setting.activations;
  options.kv_dtype = setting.kv_dtype;
  options.max_step_rows = 512;
  ASSIGN_OR_RETURN(LoadedModel loaded, Load(path, isa, UsableCores(), options));
  EvalOptions eval;
  eval.context = kTokens;
  eval.chunks = 1;
  ASSIGN_OR_RETURN(EvalResult result, loaded.Eval(gold.tokens, eval));
  return result.logits_sha256;
}

void WriteHashes(const char* target) {
  Json hashes = Json::object();
  for (const char* model : kModels) {
    const auto path = FindModel(model);
    if (!path.has_value()) continue;
    for (const Setting& setting : kSettings) {
      const auto hash = HashOf(model, *path, setting, TestIsa());
      ASSERT_TRUE(hash.has_value()) << hash.error().message;
      hashes[model][setting.name] = *hash;
    }
  }
  std::ofstream(target) << DumpJson(hashes, 2) << "\n";
}

class LogitsHashes : public ::testing::TestWithParam<const char*> {};

TEST_P(LogitsHashes, EveryBodyGivesTheRecordedHash) {
  const std::string model = GetParam();
  std::ifstream file(GoldenDir() + "/logits_hashes.json");
  ASSERT_TRUE(file) << "logits_hashes.json is missing";
  const auto hashes = ParseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_TRUE(hashes.has_value()) << hashes.error().message;
  const auto path = FindModel(model);
  if (!path.has_value()) {
    ASSERT_NE(model, kModels[0]) << "run `ballast pull` first";
    SKIP_OR_FAIL() << model << " is not in the local cache";
  }
  ASSERT_TRUE(hashes->contains(model));
  for (Isa isa : SupportedIsas()) {
    // The scalar body takes minutes on anything larger than the default model.
    if (isa == Isa::kRef && model != kModels[0]) continue;
    for (const Setting& setting : kSettings) {
      const auto hash = HashOf(model, *path, setting, isa);
      ASSERT_TRUE(hash.has_value()) << hash.error().message;
      EXPECT_EQ(*hash, (*hashes)[model][setting.name].get<std::string>())
          << IsaName(isa) << ", " << setting.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LogitsHashes, ::testing::ValuesIn(kModels), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

TEST(WriteLogitsHashes, WhenAskedTo) {
  const char* target = std::getenv("BALLAST_WRITE_HASHES");
  if (target == nullptr) GTEST_SKIP() << "BALLAST_WRITE_HASHES is not set";
  WriteHashes(target);
}

}  // namespace
}  // namespace ballast::golden
