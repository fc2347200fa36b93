// Embeddings of a real model against transformers' (embeddings/*.json), and the same bits for every
// chunking and company.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/pooler.h"
#include "golden_support.h"
#include "memory/frame_arena.h"

namespace ballast::golden {
namespace {

constexpr char kModel[] = "smollm2-135m-instruct";

/// Feeds the pooler of one sequence from the first rows of a step.
class ToPooler final : public HiddenSink {
 public:
  ToPooler(Pooler& pooler, size_t cols) : pooler_(pooler), cols_(cols) {}
  void StartStep(std::vector<int64_t> positions) { positions_ = std::move(positions); }
  void Consume(const float* hidden) override {
    for (size_t i = 0; i < positions_.size(); ++i) {
      pooler_.Add(positions_[i], {hidden + i * cols_, cols_});
    }
  }

 private:
  Pooler& pooler_;
  size_t cols_;
  std::vector<int64_t> positions_;
};

/// Runs `tokens` in chunks, with `neighbour` rows of another sequence behind each of them.
std::vector<float> Embed(LoadedModel& loaded, const std::vector<TokenId>& tokens, Pooling pooling,
                         int64_t chunk, const std::vector<TokenId>& neighbour = {}) {
  Model& model = *loaded.model;
  const auto total = static_cast<int64_t>(tokens.size());
  auto arena = FrameArena::Create(uint64_t{256} << 20, loaded.ledger.get());
  EXPECT_TRUE(arena.has_value());
  auto cache = KvCache::Create(model.kv_layers(), KvDType::kF16, arena->get());
  EXPECT_TRUE(cache.has_value());
  const auto kv = (*cache)->NewSequence();
  Pooler pooler(pooling, total);
  ToPooler sink(pooler, static_cast<size_t>(model.config().hidden));
  std::vector<float> logits(static_cast<size_t>(model.config().vocab));
  for (int64_t done = 0; done < total; done += chunk) {
    const int64_t rows = std::min(chunk, total - done);
    const auto other = (*cache)->NewSequence();
    EXPECT_TRUE(kv->Reserve(done + rows).has_value());
    std::vector<TokenId> step(tokens.begin() + done, tokens.begin() + done + rows);
    std::vector<SequenceSlice> slices = {{kv.get(), done, 0, static_cast<int32_t>(rows)}};
    std::vector<int32_t> hidden_rows, logit_rows;
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < rows; ++i) {
      if (!pooler.Needs(done + i)) continue;
      hidden_rows.push_back(static_cast<int32_t>(i));
      positions.push_back(done + i);
    }
    if (!neighbour.empty()) {
      const auto extra = static_cast<int32_t>(neighbour.size());
      EXPECT_TRUE(other->Reserve(extra).has_value());
      slices.push_back({other.get(), 0, static_cast<int32_t>(rows), extra});
      step.insert(step.end(), neighbour.begin(), neighbour.end());
      logit_rows.push_back(static_cast<int32_t>(rows) + extra - 1);
    }
    sink.StartStep(std::move(positions));
    model.Forward({step, slices, logit_rows, nullptr, hidden_rows, &sink}, logits.data());
    for (const SequenceSlice& slice : slices) slice.kv->Commit(slice.position + slice.rows);
  }
  return pooler.Take();
}

double Cosine(const std::vector<float>& a, const Json& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = b[i].get<double>();
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return dot / std::sqrt(aa * bb);
}

Json ReadCases() {
  std::ifstream file(GoldenDir() + "/embeddings/" + kModel + ".json");
  std::stringstream text;
  text << file.rdbuf();
  auto json = ParseJson(text.str());
  EXPECT_TRUE(json.has_value());
  return json.value_or(Json())["cases"];
}

class EmbeddingGolden : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto path = FindModel(kModel);
    ASSERT_TRUE(path.has_value()) << "run `ballast pull " << kModel << "` first";
    auto loaded = Load(*path, TestIsa(), UsableCores(), {});
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    loaded_ = std::make_unique<LoadedModel>(std::move(*loaded));
  }
  static void TearDownTestSuite() { loaded_.reset(); }
  static std::unique_ptr<LoadedModel> loaded_;
};
std::unique_ptr<LoadedModel> EmbeddingGolden::loaded_;

TEST_F(EmbeddingGolden, AgreesWithTransformers) {
  const Json cases = ReadCases();
  ASSERT_GE(cases.size(), 3u);
  for (const Json& item : cases) {
    const auto tokens = item["tokens"].get<std::vector<TokenId>>();
    const double mean = Cosine(Embed(*loaded_, tokens, Pooling::kMean, 512), item["mean"]);
    const double last = Cosine(Embed(*loaded_, tokens, Pooling::kLast, 512), item["last"]);
    std::printf("%zu tokens: 1 - cosine %.1e (mean), %.1e (last)\n", tokens.size(), 1 - mean,
                1 - last);
    // Activations are rounded to few bits by default; the wrong rows or a missing norm are far off.
    EXPECT_GE(mean, 0.9999);
    EXPECT_GE(last, 0.9999);
  }
}

TEST_F(EmbeddingGolden, TheBitsDoNotDependOnTheSchedule) {
  const auto tokens = ReadCases()[2]["tokens"].get<std::vector<TokenId>>();
  const std::vector<TokenId> neighbour(37, 28);
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    const std::vector<float> whole = Embed(*loaded_, tokens, pooling, 512);
    ASSERT_EQ(whole.size(), static_cast<size_t>(loaded_->model->config().hidden));
    double squares = 0;
    for (const float v : whole) squares += static_cast<double>(v) * static_cast<double>(v);
    EXPECT_NEAR(squares, 1, 1e-5);
    EXPECT_EQ(whole, Embed(*loaded_, tokens, pooling, 16));
    EXPECT_EQ(whole, Embed(*loaded_, tokens, pooling, 80, neighbour));
  }
}

}  // namespace
}  // namespace ballast::golden
