// Role: picks the next token from a row of logits.
// Order: the grammar's mask, logit bias, repetition penalty, frequency and presence penalties,
// temperature, top-k, top-p, min-p; then argmax(logits / T + Gumbel noise), which draws from the
// softmax of what is left. The cuts act on the tempered distribution (as OpenAI, vLLM and
// Transformers do), one after the other; top-p counts the mass that top-k left. Temperature 0 is
// the argmax of the penalised logits. Invariant: the noise of a token depends on (seed, absolute
// position, token id) only, through our own logarithm in plain IEEE double operations, so text does
// not depend on batch, chunk or restart. Thread: a Sampler is scratch memory for one thread at a
// time; results do not depend on its past.
#ifndef BALLAST_ENGINE_SAMPLER_H_
#define BALLAST_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/client.h"

namespace ballast {

/// Which tokens a sequence already holds, for the penalties.
class TokenCounts {
 public:
  void AddPrompt(TokenId token) { output_counts_.try_emplace(token, 0); }
  void AddOutput(TokenId token) { ++output_counts_[token]; }
  /// Token → how often the output holds it (0: prompt only).
  const std::unordered_map<TokenId, int32_t>& output_counts() const { return output_counts_; }

 private:
  std::unordered_map<TokenId, int32_t> output_counts_;
};

/// True when `params` needs TokenCounts.
bool NeedsTokenCounts(const SamplingParams& params);

/// Natural logarithm of a positive normal double by our own series; relative error below 1e-13.
double NaturalLog(double x);

/// The Gumbel noise of a token: -log(-log u), u = (top 40 bits of the hash + 1/2) / 2^40.
/// Within [-3.4, 28.5].
double GumbelNoise(uint64_t seed, int64_t position, TokenId token);

class Sampler {
 public:
  /// @param logits [vocab], finite (NaN counts as -infinity).
  /// @param position absolute index of the token to choose (prompt tokens count).
  /// @param mask bit t % 64 of word t / 64 allows token t, those beyond it are not allowed; empty
  ///     allows all. At least one token must be allowed.
  /// Cost: O(vocab), about 0.3 ms for 152,000 tokens in the worst case that is not degenerate.
  TokenId Sample(std::span<const float> logits, const SamplingParams& params,
                 const TokenCounts& counts, int64_t position, std::span<const uint64_t> mask = {});

 private:
  struct Candidate {
    float z;
    TokenId id;
  };
  // The candidates are all tokens at or above the cut in the order (z descending, id ascending).
  struct Cut {
    float z;
    TokenId id;
  };

  static bool Before(const Candidate& a, const Candidate& b) {
    return a.z != b.z ? a.z > b.z : a.id < b.id;
  }

  void Prepare(std::span<const float> logits, const SamplingParams& params,
               const TokenCounts& counts, std::span<const uint64_t> mask);
  Candidate Best() const;
  void SelectTop(int64_t k);
  bool CutListByMass(double limit);
  Cut CutAllByMass(double limit);
  double TotalMass();
  TokenId DrawFromList(uint64_t seed, int64_t position) const;
  TokenId DrawFromAll(uint64_t seed, int64_t position, Cut cut) const;

  std::vector<float> z_;          // [vocab]
  std::vector<float> block_max_;  // [blocks]
  std::vector<float> scratch_;    // [vocab] penalised logits, then masses
  std::vector<float> bounds_;     // [blocks]
  std::vector<double> histogram_;
  std::vector<Candidate> list_;
  float max_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_SAMPLER_H_
