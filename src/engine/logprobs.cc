#include "engine/logprobs.h"

#include <algorithm>
#include <array>

namespace ballast {

LogprobRow ComputeLogprobs(const Kernels& kernels, const Tokenizer& tokenizer,
                           std::span<const float> logits, TokenId chosen, int32_t top) {
  const int64_t vocab = static_cast<int64_t>(logits.size());
  const Kernels::LogSumExp norm = kernels.LogSum(logits.data(), vocab);
  const auto row = [&](TokenId token) {
    const float logprob = (logits[static_cast<size_t>(token)] - norm.max) - norm.log_sum;
    return TokenLogprob{token, tokenizer.TokenBytes(token), logprob};
  };
  LogprobRow result{row(chosen), {}};
  const int32_t count = std::min({top, kMaxTopLogprobs, static_cast<int32_t>(vocab)});
  if (count <= 0) return result;
  std::array<int32_t, kMaxTopLogprobs> ids{};
  std::array<float, kMaxTopLogprobs> values{};
  kernels.TopK(logits.data(), vocab, count, ids.data(), values.data());
  for (int32_t i = 0; i < count; ++i) result.top.push_back(row(ids[static_cast<size_t>(i)]));
  return result;
}

}  // namespace ballast
