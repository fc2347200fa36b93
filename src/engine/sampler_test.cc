#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace ballast {
namespace {

SamplingParams Params(float temperature, int32_t top_k, float top_p, float min_p, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  params.seed = seed;
  return params;
}

std::vector<float> RandomLogits(size_t n, float spread, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(n);
  // Roughly bell-shaped, like a model's.
  for (float& x : logits) x = spread * (rng.Uniform() + rng.Uniform() + rng.Uniform() - 1.5f);
  return logits;
}

// The definition, without any shortcut: sort everything, cut, add noise to what is left.
TokenId SlowSample(const std::vector<float>& logits, const SamplingParams& params, int64_t position,
                   size_t* kept = nullptr) {
  std::vector<std::pair<float, TokenId>> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    all.push_back({logits[i] / params.temperature, static_cast<TokenId>(i)});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const double top = static_cast<double>(all[0].first);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < all.size()) {
    all.resize(static_cast<size_t>(params.top_k));
  }
  if (params.top_p < 1) {
    double total = 0, mass = 0;
    for (const auto& c : all) total += std::exp(static_cast<double>(c.first) - top);
    size_t n = 0;
    while (n < all.size() && mass < static_cast<double>(params.top_p) * total) {
      mass += std::exp(static_cast<double>(all[n++].first) - top);
    }
    all.resize(n);
  }
  while (all.size() > 1 && params.min_p > 0 &&
         static_cast<double>(all.back().first) <
             top + std::log(static_cast<double>(params.min_p))) {
    all.pop_back();
  }
  if (kept != nullptr) *kept = all.size();
  double best = 0;
  TokenId winner = -1;
  for (const auto& [z, id] : all) {
    const double score = static_cast<double>(z) + GumbelNoise(params.seed, position, id);
    if (winner < 0 || score > best || (score == best && id < winner)) {
      best = score;
      winner = id;
    }
  }
  return winner;
}

TEST(NaturalLogTest, AgreesWithTheLibrary) {
  Rng rng(5);
  for (int i = 0; i < 100000; ++i) {
    const double x =
        std::ldexp(0.5 + static_cast<double>(rng.Uniform()), static_cast<int>(rng.Below(80)) - 60);
    const double want = std::log(x);
    ASSERT_NEAR(NaturalLog(x), want, 1e-13 * std::max(1.0, std::abs(want))) << x;
  }
  // Near 1 the relative error counts, because its logarithm is taken once more.
  for (uint64_t k = 1; k < (uint64_t{1} << 38); k = k * 3 / 2 + 1) {
    const double d = static_cast<double>(k) * 0x1p-41;  // 1 - d is exact
    EXPECT_NEAR(NaturalLog(1 - d) / std::log1p(-d), 1.0, 1e-12) << d;
  }
}

TEST(GumbelNoiseTest, IsFrozen) {
  // These values are part of what "the same seed gives the same text" promises across versions.
  EXPECT_EQ(GumbelNoise(0, 0, 0), -0x1.5c8c496499d4ap-1);
  EXPECT_EQ(GumbelNoise(42, 7, 1234), 0x1.86620867d03d2p-2);
  EXPECT_EQ(GumbelNoise(~uint64_t{0}, 131071, 262143), 0x1.f6d6a66cf5bcap-1);
  const uint64_t hash = CounterHash(42, 7, 1234);
  const double u = (static_cast<double>(hash >> 24) + 0.5) * 0x1p-40;
  EXPECT_NEAR(GumbelNoise(42, 7, 1234), -std::log(-std::log(u)), 1e-12);
}

TEST(GumbelNoiseTest, HasTheGumbelMeanAndVariance) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 400000;
  for (int i = 0; i < kDraws; ++i) {
    const double g = GumbelNoise(9, i / 1000, i % 1000);
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.57722, 0.01);
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.64493, 0.02);
}

TEST(SamplerTest, GreedyTakesTheBestAndTheLowerIdOfEquals) {
  Sampler sampler;
  std::vector<float> logits(1000, 0.0f);
  logits[700] = logits[130] = 3.0f;
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(sampler.Sample(logits, params, {}, 5), 130);
  logits[999] = 3.5f;
  EXPECT_EQ(sampler.Sample(logits, params, {}, 5), 999);
  params.temperature = 1;
  params.top_k = 1;
  EXPECT_EQ(sampler.Sample(logits, params, {}, 5), 999);
}

TEST(SamplerTest, EveryShortcutEqualsTheDefinition) {
  Sampler sampler;
  Rng rng(77);
  int64_t flat_nuclei = 0;
  for (int round = 0; round < 400; ++round) {
    const size_t vocab = 1 + rng.Below(round % 4 == 0 ? 20000 : 700);
    const float spread = round % 5 == 0 ? 1.0f : 12.0f;
    const std::vector<float> logits = RandomLogits(vocab, spread, static_cast<uint64_t>(round));
    const float temperatures[] = {0.3f, 0.8f, 1.0f, 1.7f, 2.0f};
    SamplingParams params = Params(temperatures[rng.Below(5)], 0, 1, 0, rng.Next());
    if (rng.Below(3) == 0) params.top_k = static_cast<int32_t>(1 + rng.Below(vocab + 10));
    if (rng.Below(2) == 0) params.top_p = 0.05f + 0.94f * rng.Uniform();
    if (rng.Below(3) == 0) params.min_p = 0.2f * rng.Uniform();
    const int64_t position = static_cast<int64_t>(rng.Below(5000));
    size_t kept = 0;
    const TokenId want = SlowSample(logits, params, position, &kept);
    ASSERT_EQ(sampler.Sample(logits, params, {}, position), want)
        << "round " << round << " vocab " << vocab << " T " << params.temperature << " k "
        << params.top_k << " p " << params.top_p << " m " << params.min_p;
    if (params.top_p < 1 && params.top_k == 0 && kept > 256) ++flat_nuclei;
  }
  EXPECT_GT(flat_nuclei, 5);  // the histogram path was taken
}

TEST(SamplerTest, FrequenciesFollowTheSoftmax) {
  Sampler sampler;
  std::vector<float> logits(300, -20.0f);
  logits[3] = std::log(0.5f);
  logits[77] = std::log(0.3f);
  logits[299] = std::log(0.2f);
  int counts[3] = {};
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    const TokenId token = sampler.Sample(logits, Params(1, 0, 1, 0, 11), {}, i);
    ASSERT_TRUE(token == 3 || token == 77 || token == 299);
    ++counts[token == 3 ? 0 : token == 77 ? 1 : 2];
  }
  EXPECT_NEAR(counts[0] / static_cast<double>(kDraws), 0.5, 0.012);
  EXPECT_NEAR(counts[1] / static_cast<double>(kDraws), 0.3, 0.012);
  EXPECT_NEAR(counts[2] / static_cast<double>(kDraws), 0.2, 0.012);
}

TEST(SamplerTest, DoesNotDependOnItsPast) {
  const std::vector<float> logits = RandomLogits(5000, 10, 3);
  Sampler used, fresh;
  used.Sample(RandomLogits(9000, 3, 4), Params(1, 40, 0.9f, 0.1f, 1), {}, 3);
  const SamplingParams params = Params(1.2f, 0, 0.97f, 0, 99);
  EXPECT_EQ(used.Sample(logits, params, {}, 12), fresh.Sample(logits, params, {}, 12));
}

TEST(SamplerTest, BiasAndPenaltiesActInTheDocumentedOrder) {
  Sampler sampler;
  std::vector<float> logits = {2.0f, 1.9f, -1.0f, 0.5f};
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(sampler.Sample(logits, params, {}, 0), 0);
  params.logit_bias = {{0, -100.0f}};
  EXPECT_EQ(sampler.Sample(logits, params, {}, 0), 1);
  params.logit_bias.clear();
  TokenCounts counts;
  counts.AddPrompt(0);
  params.presence_penalty = 2;  // over the output only
  EXPECT_EQ(sampler.Sample(logits, params, counts, 0), 0);
  params.repetition_penalty = 1.5f;  // 2 / 1.5 < 1.9: over the prompt as well
  EXPECT_EQ(sampler.Sample(logits, params, counts, 0), 1);
  params.repetition_penalty = 1;
  counts.AddOutput(0);
  EXPECT_EQ(sampler.Sample(logits, params, counts, 0), 1);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.08f;  // once: 1.92, twice: 1.84
  EXPECT_EQ(sampler.Sample(logits, params, counts, 0), 0);
  counts.AddOutput(0);
  EXPECT_EQ(sampler.Sample(logits, params, counts, 0), 1);
  // A repeated token with a negative logit is pushed further down, not up.
  TokenCounts low;
  low.AddPrompt(2);
  SamplingParams only;
  only.temperature = 0;
  only.repetition_penalty = 2;
  const std::vector<float> negative = {-5.0f, -5.0f, -3.0f};
  EXPECT_EQ(sampler.Sample(negative, only, low, 0), 0);
}

TEST(SamplerTest, SurvivesBrokenLogits) {
  Sampler sampler;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits(200, nan);
  for (const float top_p : {1.0f, 0.5f}) {
    for (const int32_t top_k : {0, 10}) {
      const TokenId token = sampler.Sample(logits, Params(1, top_k, top_p, 0.1f, 1), {}, 0);
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 200);
    }
  }
  logits[150] = 1;
  EXPECT_EQ(sampler.Sample(logits, Params(1, 0, 1, 0.5f, 1), {}, 0), 150);
}

TEST(ValidateSamplingTest, NamesFieldValueAndLimits) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = ValidateSampling(params, 100);
    return status.has_value() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](SamplingParams&) {}), "");
  EXPECT_EQ(message([](SamplingParams& p) { p.temperature = 2.5f; }),
            "temperature: 2.5 is outside [0, 2]");
  EXPECT_EQ(message([](SamplingParams& p) { p.top_p = 0; }), "top_p: 0 is outside (0, 1]");
  EXPECT_NE(message([](SamplingParams& p) { p.min_p = std::nanf(""); }), "");
  EXPECT_NE(message([](SamplingParams& p) { p.top_k = -1; }), "");
  EXPECT_NE(message([](SamplingParams& p) { p.repetition_penalty = 0; }), "");
  EXPECT_NE(message([](SamplingParams& p) { p.presence_penalty = -2.1f; }), "");
  EXPECT_EQ(message([](SamplingParams& p) { p.logit_bias = {{100, 1.0f}}; }),
            "logit_bias: token 100 is outside [0, 100)");
  EXPECT_NE(message([](SamplingParams& p) { p.logit_bias = {{1, 101.0f}}; }), "");
}

TEST(SamplerTest, AMaskEqualsAVocabularyWithoutTheRest) {
  Rng rng(9);
  Sampler sampler;
  for (uint64_t round = 0; round < 300; ++round) {
    const std::vector<float> logits = RandomLogits(1000, 8, round);
    std::vector<uint64_t> mask((1000 + 63) / 64);
    const uint64_t kept = round % 3 == 0 ? 2 : 500;
    for (uint64_t i = 0; i < kept; ++i) {
      const uint64_t token = rng.Below(1000);
      mask[token / 64] |= uint64_t{1} << (token % 64);
    }
    SamplingParams params =
        Params(round % 4 == 0 ? 0.0f : 1.0f, round % 5 == 1 ? 40 : 0, round % 5 == 2 ? 0.9f : 1.0f,
               round % 5 == 3 ? 0.1f : 0.0f, round);
    params.logit_bias = {{7, 3.0f}};
    // The definition: what is not allowed has no weight at all.
    std::vector<float> masked = logits;
    for (size_t i = 0; i < masked.size(); ++i) {
      if ((mask[i / 64] >> (i % 64) & 1) == 0) masked[i] = -1e30f;
    }
    const TokenId token = sampler.Sample(logits, params, {}, 5, mask);
    EXPECT_EQ(token, sampler.Sample(masked, params, {}, 5));
    EXPECT_TRUE((mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0);
  }
}

}  // namespace
}  // namespace ballast
