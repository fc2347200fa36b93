// Role: log probabilities of tokens, from the model's own logits (before bias, penalties and
// temperature). Thread: the engine thread.
#ifndef BALLAST_ENGINE_LOGPROBS_H_
#define BALLAST_ENGINE_LOGPROBS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/client.h"
#include "kernels/kernels.h"
#include "text/tokenizer.h"

namespace ballast {

inline constexpr int32_t kMaxTopLogprobs = 20;

struct LogprobRow {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, ties to the lower id
};

/// @param top how many alternatives, in [0, kMaxTopLogprobs]. Cost: one or two passes over logits.
LogprobRow ComputeLogprobs(const Kernels& kernels, const Tokenizer& tokenizer,
                           std::span<const float> logits, TokenId chosen, int32_t top);

}  // namespace ballast

#endif  // BALLAST_ENGINE_LOGPROBS_H_
