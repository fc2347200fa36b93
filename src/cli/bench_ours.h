// Role: measures our own prefill and decode on a loaded model, the way llama-bench measures its
// own: no sampling, logits of the last row of a prompt and of every decoded token. Thread: main
// only (it plays the engine thread).
#ifndef BALLAST_CLI_BENCH_OURS_H_
#define BALLAST_CLI_BENCH_OURS_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "cli/bench_peer.h"
#include "cli/runtime.h"
#include "kv/kv_cache.h"

namespace ballast {

class SpeedBench {
 public:
  static Result<std::unique_ptr<SpeedBench>> Create(Runtime* runtime);

  /// Fills the caches of a decode case to its depth (not timed). Frees those of the last case.
  Status Prepare(const SpeedCase& speed_case);
  /// One measurement in tokens per second. A decode case goes on where the last repeat stopped, so
  /// later repeats stand a little deeper than the case says.
  Result<double> Measure(const SpeedCase& speed_case);

  /// Share of the machine's limit: read bandwidth for decode, int8 peak for prefill.
  double RooflineShare(const SpeedCase& speed_case, double tokens_per_s) const;

  double read_bytes_per_s() const { return read_bytes_per_s_; }
  double int8_ops_per_s() const { return int8_ops_per_s_; }

 private:
  explicit SpeedBench(Runtime* runtime) : runtime_(runtime) {}

  Status Prefill(KvSequence* sequence, int64_t tokens);
  TokenId NextToken();

  Runtime* runtime_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::unique_ptr<KvSequence>> sequences_;
  std::vector<float> logits_;
  uint64_t token_state_ = 1;
  double read_bytes_per_s_ = 0;
  double int8_ops_per_s_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_CLI_BENCH_OURS_H_
