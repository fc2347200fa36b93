// Role: from the hidden states of a prompt's tokens to its embedding. Thread: the engine thread.
// Invariant: sums run in ascending order of positions, one addition a token, so the result does not
// depend on chunks, neighbours or preemption.
#ifndef BALLAST_ENGINE_POOLER_H_
#define BALLAST_ENGINE_POOLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/client.h"

namespace ballast {

class Pooler {
 public:
  /// @param prompt_tokens at least 1.
  Pooler(Pooling pooling, int64_t prompt_tokens)
      : pooling_(pooling), prompt_tokens_(prompt_tokens) {}

  /// True if the hidden state at `position` is part of the embedding.
  bool Needs(int64_t position) const {
    return pooling_ == Pooling::kMean ||
           (pooling_ == Pooling::kLast && position == prompt_tokens_ - 1);
  }
  /// Takes the state of a needed position. Positions come in ascending order; the first needed one
  /// starts over, as after a preemption.
  void Add(int64_t position, std::span<const float> hidden);
  /// The embedding, scaled to length 1 (all zeros stay so); empty unless all states have come.
  std::vector<float> Take() const;

 private:
  Pooling pooling_;
  int64_t prompt_tokens_;
  int64_t added_ = 0;
  std::vector<double> sums_;  // [hidden]
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_POOLER_H_
