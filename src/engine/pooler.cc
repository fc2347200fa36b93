#include "engine/pooler.h"

#include <cmath>

namespace ballast {

namespace {

void Normalise(std::span<float> values) {
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  if (squares <= 0) return;
  const double length = std::sqrt(squares);
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) / length);
}

}  // namespace

void Pooler::Add(int64_t position, std::span<const float> hidden) {
  const int64_t first = pooling_ == Pooling::kLast ? prompt_tokens_ - 1 : 0;
  if (position == first) {
    sums_.assign(hidden.size(), 0.0);
    added_ = 0;
  }
  for (size_t i = 0; i < hidden.size(); ++i) sums_[i] += static_cast<double>(hidden[i]);
  ++added_;
}

std::vector<float> Pooler::Take() const {
  const int64_t wanted = pooling_ == Pooling::kLast ? 1 : prompt_tokens_;
  if (pooling_ == Pooling::kNone || added_ != wanted) return {};
  std::vector<float> embedding(sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    embedding[i] = static_cast<float>(sums_[i] / static_cast<double>(wanted));
  }
  Normalise(embedding);
  return embedding;
}

}  // namespace ballast
