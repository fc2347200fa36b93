// Role: test support: a deterministic model without weights. Its logits are a hash of the
// sequence's tokens as read back from the KV records, so lost, stale or mixed KV changes the text.
// Thread: Forward on the engine thread; settings are made before the engine starts; the history may
// be read when the engine is idle.
#ifndef BALLAST_ENGINE_TESTING_FAKE_MODEL_H_
#define BALLAST_ENGINE_TESTING_FAKE_MODEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "model/model.h"

namespace ballast::testing {

/// A clock that moves only when told to.
class FakeClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  int64_t UnixSeconds() const override { return 1'700'000'000; }
  void Advance(double ms) { now_ns_.fetch_add(static_cast<int64_t>(ms * 1e6)); }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
};

struct FakeModelOptions {
  int32_t vocab = 300;
  int64_t context = 4096;
  int32_t layers = 2;
  int32_t head_dim = 16;  // 4096: a record is 1 MiB, so that few pages fill an arena
  int32_t window = 0;     // of the last layer
  int32_t max_step_rows = 2048;
  FakeClock* clock = nullptr;  // advanced by every step
  double step_ms = 0;          // simulated cost of a step
  double row_ms = 0;           // and of each of its rows
  /// Called in Forward before the work, on the engine thread.
  std::function<void(const StepBatch&)> on_step;
};

class FakeModel final : public Model {
 public:
  struct SliceRecord {
    const KvSequence* kv;  // identity only
    int64_t position;
    int32_t rows;
  };
  using StepRecord = std::vector<SliceRecord>;

  explicit FakeModel(FakeModelOptions options);

  const ModelConfig& config() const override { return config_; }
  void Forward(const StepBatch& batch, float* logits) override;
  void Forward(const StepBatch& batch, LogitSink& sink) override;
  int32_t max_step_rows() const override { return options_.max_step_rows; }
  uint64_t resident_weight_bytes() const override { return 0; }
  uint64_t logical_weight_bytes() const override { return 0; }
  uint64_t decode_weight_bytes() const override { return 0; }
  uint64_t activation_bytes() const override { return 0; }
  KvLayers kv_layers() const override;

  std::vector<StepRecord> history() const;
  /// Broken promises of the engine: gaps in positions, missing reservations, rows over the limit,
  /// chunks that end off a border, layers that disagree.
  int64_t violations() const { return violations_.load(); }

  /// The final-norm hidden state of the last of `tokens`, [16].
  static std::vector<float> HiddenAfter(const std::vector<TokenId>& tokens);
  /// The logits after `tokens` (a window forgets nothing here: the window's layer is only written).
  static void LogitsAfter(const std::vector<TokenId>& tokens, std::vector<float>* logits);

 private:
  void Check(bool condition) {
    if (!condition) violations_.fetch_add(1);
  }
  void CollectHidden(const StepBatch& batch, const SequenceSlice& slice, std::vector<float>* out);
  void WriteRow(const SequenceSlice& slice, int64_t position, TokenId token);
  std::vector<TokenId> ReadBack(const SequenceSlice& slice, int64_t tokens);

  FakeModelOptions options_;
  ModelConfig config_;
  mutable std::mutex mutex_;
  std::vector<StepRecord> history_;
  std::atomic<int64_t> violations_{0};
};

}  // namespace ballast::testing

#endif  // BALLAST_ENGINE_TESTING_FAKE_MODEL_H_
