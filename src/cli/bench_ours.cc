#include "cli/bench_ours.h"

#include <algorithm>

#include "base/clock.h"
#include "base/rng.h"
#include "kernels/linear_peak.h"

namespace ballast {

namespace {

double Seconds(int64_t start_ns) {
  return static_cast<double>(SystemClock().NowNs() - start_ns) * 1e-9;
}

// Multiply-adds times two of the layers' linear maps for one token; the head is left out, since
// prefill runs it once a prompt.
double LinearOpsPerToken(const ModelConfig& config) {
  const double hidden = config.hidden;
  const double q = static_cast<double>(config.heads) * config.head_dim;
  const double kv = static_cast<double>(config.kv_heads) * config.head_dim;
  return 2.0 * config.layers *
         (hidden * (q + 2 * kv) + q * hidden + 3.0 * hidden * static_cast<double>(config.ffn));
}

}  // namespace

Result<std::unique_ptr<SpeedBench>> SpeedBench::Create(Runtime* runtime) {
  std::unique_ptr<SpeedBench> bench(new SpeedBench(runtime));
  ASSIGN_OR_RETURN(bench->cache_,
                   KvCache::Create(runtime->model->kv_layers(), runtime->model_options.kv_dtype,
                                   runtime->arena.get()));
  ASSIGN_OR_RETURN(bench->read_bytes_per_s_, MeasureReadBandwidth(*runtime->pool));
  bench->int8_ops_per_s_ = MeasureInt8Peak(runtime->kernels->isa(), *runtime->pool);
  return bench;
}

TokenId SpeedBench::NextToken() {
  return static_cast<TokenId>(Mix64(token_state_++) %
                              static_cast<uint64_t>(runtime_->model->config().vocab));
}

Status SpeedBench::Prefill(KvSequence* sequence, int64_t tokens) {
  logits_.resize(static_cast<size_t>(runtime_->model->config().vocab));
  std::vector<TokenId> ids;
  for (int64_t done = 0; done < tokens;) {
    const int64_t rows = std::min<int64_t>(tokens - done, runtime_->model->max_step_rows());
    ids.clear();
    for (int64_t i = 0; i < rows; ++i) ids.push_back(NextToken());
    RETURN_IF_ERROR(sequence->Reserve(done + rows));
    const SequenceSlice slice{sequence, done, 0, static_cast<int32_t>(rows)};
    const int32_t last = static_cast<int32_t>(rows - 1);
    const bool final_chunk = done + rows == tokens;
    runtime_->model->Forward(
        StepBatch{ids, std::span(&slice, 1), std::span(&last, final_chunk ? 1u : 0u)},
        logits_.data());
    sequence->Commit(done + rows);
    done += rows;
  }
  return OkStatus();
}

Status SpeedBench::Prepare(const SpeedCase& speed_case) {
  sequences_.clear();
  if (speed_case.kind == SpeedCase::Kind::kPrefill) return OkStatus();
  for (int32_t i = 0; i < speed_case.batch; ++i) {
    sequences_.push_back(cache_->NewSequence());
    RETURN_IF_ERROR(Prefill(sequences_.back().get(), speed_case.depth));
  }
  return OkStatus();
}

Result<double> SpeedBench::Measure(const SpeedCase& speed_case) {
  if (speed_case.kind == SpeedCase::Kind::kPrefill) {
    const auto sequence = cache_->NewSequence();
    const int64_t start_ns = SystemClock().NowNs();
    RETURN_IF_ERROR(Prefill(sequence.get(), speed_case.tokens));
    return static_cast<double>(speed_case.tokens) / Seconds(start_ns);
  }
  const size_t batch = static_cast<size_t>(speed_case.batch);
  logits_.resize(batch * static_cast<size_t>(runtime_->model->config().vocab));
  std::vector<TokenId> ids(batch);
  std::vector<SequenceSlice> slices(batch);
  std::vector<int32_t> rows(batch);
  const int64_t start_ns = SystemClock().NowNs();
  for (int64_t step = 0; step < speed_case.tokens; ++step) {
    for (size_t i = 0; i < batch; ++i) {
      KvSequence* sequence = sequences_[i].get();
      const int64_t position = sequence->committed_tokens();
      RETURN_IF_ERROR(sequence->Reserve(position + 1));
      ids[i] = NextToken();
      rows[i] = static_cast<int32_t>(i);
      slices[i] = SequenceSlice{sequence, position, rows[i], 1};
    }
    runtime_->model->Forward(StepBatch{ids, slices, rows}, logits_.data());
    for (auto& sequence : sequences_) sequence->Commit(sequence->committed_tokens() + 1);
  }
  return static_cast<double>(speed_case.tokens) * static_cast<double>(batch) / Seconds(start_ns);
}

double SpeedBench::RooflineShare(const SpeedCase& speed_case, double tokens_per_s) const {
  if (speed_case.kind == SpeedCase::Kind::kPrefill) {
    return tokens_per_s * LinearOpsPerToken(runtime_->model->config()) / int8_ops_per_s_;
  }
  const double kv_bytes = static_cast<double>(cache_->bytes_per_token()) *
                          static_cast<double>(speed_case.depth) * speed_case.batch;
  const double step_bytes = static_cast<double>(runtime_->model->decode_weight_bytes()) + kv_bytes;
  return tokens_per_s / speed_case.batch * step_bytes / read_bytes_per_s_;
}

}  // namespace ballast
