// Role: what the engine measures about itself, for /metrics.
// Thread: the engine thread observes; any thread reads. Counts are monotone; a reader may see one
// observation's count before its sum.
#ifndef BALLAST_ENGINE_HISTOGRAMS_H_
#define BALLAST_ENGINE_HISTOGRAMS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast {

/// A histogram with fixed upper bounds. Cost of Observe: a short scan and two relaxed atomics.
class FixedHistogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  /// @param bounds ascending upper bounds (inclusive); static storage; at most kMaxBounds.
  explicit constexpr FixedHistogram(std::span<const double> bounds) : bounds_(bounds) {}

  void Observe(double value) {
    size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  std::span<const double> bounds() const { return bounds_; }
  /// Observations in bucket i: values in (bounds[i - 1], bounds[i]]; i == bounds().size(): above
  /// all.
  int64_t bucket_count(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  int64_t count() const {
    int64_t total = 0;
    for (size_t i = 0; i <= bounds_.size(); ++i) total += bucket_count(i);
    return total;
  }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

inline constexpr double kMillisecondBounds[] = {
    1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000};
inline constexpr double kRowBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};

struct EngineHistograms {
  FixedHistogram queue_ms{kMillisecondBounds};        // Submit to first admission
  FixedHistogram ttft_ms{kMillisecondBounds};         // Submit to first token
  FixedHistogram inter_token_ms{kMillisecondBounds};  // between tokens of one sequence
  FixedHistogram step_ms{kMillisecondBounds};         // one step, sampling included
  FixedHistogram decode_rows{kRowBounds};             // batch size of steps that decode
  FixedHistogram prefill_rows{kRowBounds};            // prompt rows of steps that prefill
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_HISTOGRAMS_H_
