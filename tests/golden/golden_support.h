// Role: what the golden tests share: .gold files, the cache of real models, a model on one ISA.
#ifndef BALLAST_TESTS_GOLDEN_GOLDEN_SUPPORT_H_
#define BALLAST_TESTS_GOLDEN_GOLDEN_SUPPORT_H_

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/ledger.h"
#include "model/evaluate.h"
#include "model/registry.h"

/// Ends a test that needs what is not here: skipped in the short tier, failed when the long tier
/// ($BALLAST_TEST_FULL) promised to have it.
#define SKIP_OR_FAIL()                                        \
  if (std::getenv("BALLAST_TEST_FULL") != nullptr) {          \
    ADD_FAILURE() << "the long tier must not skip this test"; \
  }                                                           \
  GTEST_SKIP()

namespace ballast::golden {

/// A BLGOLD01 file: the reference results for one model and one text (README.md).
struct Golden {
  std::string model;
  std::string text;
  int32_t vocab = 0;
  int32_t positions = 0;
  int32_t top = 0;
  std::vector<TokenId> tokens;      // [positions + 1]; the last one is a target only
  std::vector<int32_t> top_ids;     // [positions, top]
  std::vector<float> top_logprobs;  // [positions, top]
  std::vector<float> nll;           // [positions]
  std::vector<float> tail;          // [positions], probability outside the top
};
Result<Golden> ReadGolden(const std::string& path);

/// tests/golden, in the source tree.
std::string GoldenDir();
/// The .gguf of a catalogue name in the local cache ($BALLAST_HOME/models), if it is there.
std::optional<std::string> FindModel(const std::string& name);
/// The body that tests of real models run on: the best one, or $BALLAST_TEST_ISA.
Isa TestIsa();
/// Supported bodies, ref first.
std::vector<Isa> SupportedIsas();

/// A loaded model with all it stands on.
struct LoadedModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<Kernels> kernels;
  ModelOptions options;
  std::unique_ptr<Model> model;

  Result<EvalResult> Eval(std::span<const TokenId> tokens, EvalOptions eval,
                          EvalObserver* observer = nullptr);
};
Result<LoadedModel> Load(const std::string& path, Isa isa, int threads,
                         const ModelOptions& options = {});

/// How close a model came to a .gold file, over a range of positions.
struct Closeness {
  double kl_mean = 0;  // over the stored tokens and one bucket for all others
  double kl_p99 = 0;
  double top1 = 0;
  double perplexity = 0;
  double reference_perplexity = 0;
};
/// Evaluates gold.tokens[0, positions) in one context; figures over positions [first, last].
Result<Closeness> CompareWithGolden(LoadedModel& loaded, const Golden& gold, int64_t first,
                                    int64_t last);

}  // namespace ballast::golden

#endif  // BALLAST_TESTS_GOLDEN_GOLDEN_SUPPORT_H_
