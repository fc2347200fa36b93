#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace ballast {

namespace {

constexpr size_t kBlock = 64;          // tokens that share one maximum
constexpr int64_t kFirstList = 256;    // most nuclei are smaller
constexpr float kGreedyBelow = 1e-5f;  // below this, logits / T may overflow
constexpr int32_t kMaxLogitBias = 4096;
constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// exp(x) for x <= 0, for probability masses only (top-p). Plain multiply and add: the compiler may
// vectorise it and every CPU gives the same bits.
inline float ExpNonPositive(float x) {
  x = x > -87.0f ? x : -87.0f;
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 · 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  float f = x - n * 0.693359375f;
  f = f - n * -2.12194440e-4f;
  float p = 1.0f / 720;
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f + 1.0f;
  p = p * f + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(12582912.0f);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

// Uniform from the top 40 bits: exact in double, and so is 1 - u.
inline double UniformOfHash(uint64_t hash) {
  return (static_cast<double>(hash >> 24) + 0.5) * 0x1p-40;
}

inline double GumbelOfHash(uint64_t hash) { return -NaturalLog(-NaturalLog(UniformOfHash(hash))); }

// For a wanted noise, the smallest hash that could reach it. A table in steps of 1/4, read one step
// too low, so that rounding in the logarithms can never exclude a winner.
class HashFloor {
 public:
  static constexpr double kLow = -4.0, kStep = 0.25;
  static constexpr int kEntries = 136;  // up to 30 > 41 · ln 2

  HashFloor() {
    for (int i = 0; i < kEntries; ++i) {
      const double wanted = kLow + kStep * (i - 1);
      uint64_t low = 0, high = uint64_t{1} << 40;  // first k with noise(k) >= wanted
      while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (GumbelOfHash(middle << 24) >= wanted) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      reachable_[static_cast<size_t>(i)] = low < (uint64_t{1} << 40);
      floor_[static_cast<size_t>(i)] = low << 24;
    }
  }

  /// False when no hash reaches `wanted`; else hashes below `*floor` do not.
  bool Find(double wanted, uint64_t* floor) const {
    const double index = (wanted - kLow) / kStep;
    if (!(index < kEntries)) return false;
    const size_t i = index <= 0 ? 0 : static_cast<size_t>(index);
    *floor = index <= 0 ? 0 : floor_[i];
    return index <= 0 || reachable_[i];
  }

 private:
  std::array<uint64_t, kEntries> floor_{};
  std::array<bool, kEntries> reachable_{};
};

const HashFloor& Floors() {
  static const HashFloor floors;
  return floors;
}

// The same value as CounterHash(seed, position, token) = Mix64(NoiseKey ^ token).
uint64_t NoiseKey(uint64_t seed, int64_t position) {
  return Mix64(Mix64(seed) ^ static_cast<uint64_t>(position));
}
uint64_t TokenHash(uint64_t key, TokenId token) {
  return Mix64(key ^ static_cast<uint32_t>(token));
}

// z = x / T with NaN as -infinity; returns the maximum. Written so that compilers vectorise it.
float ScaleBlock(const float* __restrict x, size_t n, float temperature, float* __restrict z) {
  for (size_t i = 0; i < n; ++i) {
    const float value = x[i] / temperature;
    z[i] = value == value ? value : kNegInf;
  }
  if (n < kBlock) return *std::max_element(z, z + n);
  float lanes[8];
  for (size_t l = 0; l < 8; ++l) lanes[l] = z[l];
  for (size_t i = 8; i < kBlock; i += 8) {
    for (size_t l = 0; l < 8; ++l) lanes[l] = z[i + l] > lanes[l] ? z[i + l] : lanes[l];
  }
  float best = lanes[0];
  for (size_t l = 1; l < 8; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}

float MassOfBlock(const float* __restrict z, size_t n, float max, float* __restrict mass) {
  for (size_t i = 0; i < n; ++i) mass[i] = ExpNonPositive(z[i] - max);
  float lanes[8] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % 8] += mass[i];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// What the mask does not allow becomes -infinity, which no bias and no noise brings back.
void ApplyMask(std::span<const uint64_t> mask, std::span<float> x) {
  for (size_t first = 0; first < x.size(); first += 64) {
    const uint64_t word = first / 64 < mask.size() ? mask[first / 64] : 0;
    if (word == ~uint64_t{0}) continue;
    const size_t end = std::min(first + 64, x.size());
    for (size_t i = first; i < end; ++i) x[i] = (word >> (i - first) & 1) != 0 ? x[i] : kNegInf;
  }
}

}  // namespace

bool NeedsTokenCounts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

Status ValidateSampling(const SamplingParams& params, int32_t vocab) {
  struct Range {
    const char* field;
    float value, low, high;
    bool low_open;
  };
  const Range ranges[] = {
      {"temperature", params.temperature, 0, 2, false},
      {"top_p", params.top_p, 0, 1, true},
      {"min_p", params.min_p, 0, 1, false},
      {"repetition_penalty", params.repetition_penalty, 0, 2, true},
      {"presence_penalty", params.presence_penalty, -2, 2, false},
      {"frequency_penalty", params.frequency_penalty, -2, 2, false},
  };
  for (const Range& r : ranges) {
    const bool above = r.low_open ? r.value > r.low : r.value >= r.low;
    if (above && r.value <= r.high) continue;  // NaN fails both
    return InvalidArgument("{}: {} is outside {}{}, {}]", r.field, r.value, r.low_open ? "(" : "[",
                           r.low, r.high);
  }
  if (params.top_k < 0) return InvalidArgument("top_k: {} is below 0 (0 is off)", params.top_k);
  if (params.logit_bias.size() > kMaxLogitBias) {
    return InvalidArgument("logit_bias: {} entries, at most {} are allowed",
                           params.logit_bias.size(), kMaxLogitBias);
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab) {
      return InvalidArgument("logit_bias: token {} is outside [0, {})", token, vocab);
    }
    if (!(bias >= -100.0f && bias <= 100.0f)) {
      return InvalidArgument("logit_bias: {} for token {} is outside [-100, 100]", bias, token);
    }
  }
  return OkStatus();
}

double NaturalLog(double x) {
  // x = m · 2^e, m in [sqrt 1/2, sqrt 2); log m = 2 atanh(s), s = (m - 1) / (m + 1).
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t e = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m >= 1.4142135623730951) {
    m = m * 0.5;
    e = e + 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 1.0 / 17;
  for (const double odd : {15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0}) p = p * s2 + 1.0 / odd;
  p = p * s2 + 1.0;
  return static_cast<double>(e) * 0.69314718055994531 + 2.0 * s * p;
}

double GumbelNoise(uint64_t seed, int64_t position, TokenId token) {
  return GumbelOfHash(TokenHash(NoiseKey(seed, position), token));
}

void Sampler::Prepare(std::span<const float> logits, const SamplingParams& params,
                      const TokenCounts& counts, std::span<const uint64_t> mask) {
  const size_t n = logits.size();
  z_.resize(n);
  block_max_.resize((n + kBlock - 1) / kBlock);
  const float* x = logits.data();
  const bool penalised = NeedsTokenCounts(params);
  if (penalised || !params.logit_bias.empty() || !mask.empty()) {
    scratch_.assign(logits.begin(), logits.end());
    x = scratch_.data();
    if (!mask.empty()) ApplyMask(mask, scratch_);
    for (const auto& [token, bias] : params.logit_bias) {
      scratch_[static_cast<size_t>(token)] += bias;
    }
  }
  if (penalised) {
    for (const auto& [token, count] : counts.output_counts()) {
      float& value = scratch_[static_cast<size_t>(token)];
      const float penalty = params.repetition_penalty;
      value = value > 0 ? value / penalty : value * penalty;
      const float times = static_cast<float>(count);
      value -= times * params.frequency_penalty;
      if (count > 0) value -= params.presence_penalty;
    }
  }
  const float temperature = params.temperature < kGreedyBelow ? 1.0f : params.temperature;
  for (size_t b = 0; b < block_max_.size(); ++b) {
    const size_t first = b * kBlock;
    block_max_[b] =
        ScaleBlock(x + first, std::min(kBlock, n - first), temperature, z_.data() + first);
  }
  max_ = Best().z;
}

Sampler::Candidate Sampler::Best() const {
  const size_t block = static_cast<size_t>(std::max_element(block_max_.begin(), block_max_.end()) -
                                           block_max_.begin());
  const size_t first = block * kBlock;
  const auto begin = z_.begin() + static_cast<ptrdiff_t>(first);
  const auto end = z_.begin() + static_cast<ptrdiff_t>(std::min(first + kBlock, z_.size()));
  const auto best = std::max_element(begin, end);
  return {*best, static_cast<TokenId>(best - z_.begin())};
}

// The k first candidates, in order. The k-th largest block maximum bounds the k-th largest value
// from below, so only the blocks that reach it are read.
void Sampler::SelectTop(int64_t k) {
  list_.clear();
  const size_t count = static_cast<size_t>(std::min<int64_t>(k, static_cast<int64_t>(z_.size())));
  float bound = kNegInf;
  if (block_max_.size() > count) {
    bounds_.assign(block_max_.begin(), block_max_.end());
    const auto nth = bounds_.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(bounds_.begin(), nth, bounds_.end(), std::greater<float>());
    bound = *nth;
  }
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (block_max_[b] < bound) continue;
    const size_t end = std::min((b + 1) * kBlock, z_.size());
    for (size_t i = b * kBlock; i < end; ++i) {
      if (z_[i] >= bound) list_.push_back({z_[i], static_cast<TokenId>(i)});
    }
  }
  if (list_.size() > count) {
    std::nth_element(list_.begin(), list_.begin() + static_cast<ptrdiff_t>(count - 1), list_.end(),
                     Before);
    list_.resize(count);
  }
  std::sort(list_.begin(), list_.end(), Before);
}

// Masses relative to the best token, into scratch_, and their sum.
double Sampler::TotalMass() {
  scratch_.resize(z_.size());
  double total = 0;
  for (size_t first = 0; first < z_.size(); first += kBlock) {
    const size_t n = std::min(kBlock, z_.size() - first);
    total += static_cast<double>(MassOfBlock(z_.data() + first, n, max_, scratch_.data() + first));
  }
  return total;
}

// Shortens the sorted list to the shortest prefix whose mass reaches `limit`; false if none does.
bool Sampler::CutListByMass(double limit) {
  double mass = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    mass += static_cast<double>(ExpNonPositive(list_[i].z - max_));
    if (mass >= limit) {
      list_.resize(i + 1);
      return true;
    }
  }
  return false;
}

// The nucleus of a flat distribution: a histogram of masses finds the narrow band in which the
// border lies; only that band is sorted. REQUIRES: scratch_ holds the masses.
Sampler::Cut Sampler::CutAllByMass(double limit) {
  constexpr size_t kBins = 4096;
  constexpr float kPerUnit = 128;
  histogram_.assign(kBins, 0.0);
  const auto bin_of = [&](float z) {
    const float offset = (max_ - z) * kPerUnit;
    return offset < static_cast<float>(kBins - 1) ? static_cast<size_t>(offset) : kBins - 1;
  };
  for (size_t i = 0; i < z_.size(); ++i) {
    histogram_[bin_of(z_[i])] += static_cast<double>(scratch_[i]);
  }
  double above = 0;
  size_t bin = 0;
  while (bin + 1 < kBins && above + histogram_[bin] < limit) above += histogram_[bin++];
  list_.clear();
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (bin_of(block_max_[b]) > bin) continue;
    const size_t end = std::min((b + 1) * kBlock, z_.size());
    for (size_t i = b * kBlock; i < end; ++i) {
      if (bin_of(z_[i]) == bin) list_.push_back({z_[i], static_cast<TokenId>(i)});
    }
  }
  std::sort(list_.begin(), list_.end(), Before);
  CutListByMass(limit - above);  // rounding may leave it whole
  if (list_.empty()) return {kNegInf, std::numeric_limits<TokenId>::max()};
  return {list_.back().z, list_.back().id};
}

TokenId Sampler::DrawFromList(uint64_t seed, int64_t position) const {
  const uint64_t key = NoiseKey(seed, position);
  double best = 0;
  TokenId winner = -1;
  for (const Candidate& c : list_) {
    const double score = static_cast<double>(c.z) + GumbelOfHash(TokenHash(key, c.id));
    if (winner < 0 || score > best || (score == best && c.id < winner)) {
      best = score;
      winner = c.id;
    }
  }
  return winner;
}

// Exact argmax over all candidates. A token of a block can win only if its noise exceeds the best
// score so far minus the block's maximum; that is one integer comparison on its hash, so almost no
// logarithm is computed.
TokenId Sampler::DrawFromAll(uint64_t seed, int64_t position, Cut cut) const {
  const uint64_t key = NoiseKey(seed, position);
  const HashFloor& floors = Floors();
  TokenId winner = Best().id;
  double best = static_cast<double>(max_) + GumbelOfHash(TokenHash(key, winner));
  for (size_t b = 0; b < block_max_.size(); ++b) {
    if (block_max_[b] < cut.z) continue;
    uint64_t floor = 0;
    if (!floors.Find(best - static_cast<double>(block_max_[b]), &floor)) continue;
    const size_t end = std::min((b + 1) * kBlock, z_.size());
    for (size_t i = b * kBlock; i < end; ++i) {
      const TokenId id = static_cast<TokenId>(i);
      const uint64_t hash = TokenHash(key, id);
      if (hash < floor) continue;
      if (z_[i] < cut.z || (z_[i] == cut.z && id > cut.id)) continue;
      const double score = static_cast<double>(z_[i]) + GumbelOfHash(hash);
      if (score > best || (score == best && id < winner)) {
        best = score;
        winner = id;
      }
    }
  }
  return winner;
}

TokenId Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                        const TokenCounts& counts, int64_t position,
                        std::span<const uint64_t> mask) {
  Prepare(logits, params, counts, mask);
  if (params.temperature < kGreedyBelow || params.top_k == 1) return Best().id;
  const double floor =
      params.min_p > 0 ? static_cast<double>(max_) + NaturalLog(static_cast<double>(params.min_p))
                       : -std::numeric_limits<double>::infinity();
  Cut cut{kNegInf, std::numeric_limits<TokenId>::max()};
  bool listed = false;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < z_.size()) {
    SelectTop(params.top_k);
    listed = true;
    if (params.top_p < 1.0f) {
      double total = 0;
      for (const Candidate& c : list_) total += static_cast<double>(ExpNonPositive(c.z - max_));
      CutListByMass(static_cast<double>(params.top_p) * total);
    }
  } else if (params.top_p < 1.0f) {
    const double limit = static_cast<double>(params.top_p) * TotalMass();
    SelectTop(kFirstList);
    listed = CutListByMass(limit);
    if (!listed) cut = CutAllByMass(limit);
  }
  if (listed) {
    while (list_.size() > 1 && static_cast<double>(list_.back().z) < floor) list_.pop_back();
    return DrawFromList(params.seed, position);
  }
  if (floor > static_cast<double>(cut.z)) {
    // The float just at or above the floor; the best token always stays.
    float z = static_cast<float>(floor);
    if (static_cast<double>(z) < floor) z = std::nextafter(z, std::numeric_limits<float>::max());
    cut = {std::min(z, max_), std::numeric_limits<TokenId>::max()};
  }
  return DrawFromAll(params.seed, position, cut);
}

}  // namespace ballast
