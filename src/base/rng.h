// Role: counter-based random numbers: a value depends on (seed, counters) only, so a token's noise
// is the same whichever batch, chunk or restart computes it (docs/arithmetic.md).
#ifndef BALLAST_BASE_RNG_H_
#define BALLAST_BASE_RNG_H_

#include <cstdint>

namespace ballast {

/// SplitMix64's finaliser: a bijective mix of 64 bits. Source: Steele, Lea, Flood 2014.
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// A hash of (seed, a, b) for counter-based sampling.
constexpr uint64_t CounterHash(uint64_t seed, uint64_t a, uint64_t b) {
  return Mix64(Mix64(Mix64(seed) ^ a) ^ b);
}

/// Uniform in the open interval (0, 1) with 24 bits, never 0 or 1.
constexpr float UniformOpen(uint64_t hash) {
  const float value = (static_cast<float>(hash >> 40) + 0.5f) * (1.0f / 16777216.0f);
  // From 2^23 on the half is rounded away, for the last of the 2^24 values upwards to 1.
  return value < 1.0f ? value : 0x1.fffffep-1f;
}

/// A sequential generator for tests and seeded models.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mix64(state_++); }
  /// Uniform in [0, n); n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  float Uniform() { return UniformOpen(Next()); }

 private:
  uint64_t state_;
};

}  // namespace ballast

#endif  // BALLAST_BASE_RNG_H_
