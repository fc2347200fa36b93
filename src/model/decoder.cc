// Role: one step of the decoder (decoder.h), layer by layer.
#include "model/decoder.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ballast {
namespace {

constexpr int64_t kEmbedRowsPerTask = 16;

/// Of `rows` [all.size(), cols] keeps those of `kept`, a subset of `all`; both ascending.
void KeepRows(std::span<const int32_t> all, std::span<const int32_t> kept, size_t cols,
              float* rows) {
  size_t from = 0;
  for (size_t to = 0; to < kept.size(); ++to, ++from) {
    while (all[from] != kept[to]) ++from;
    if (from != to) std::memcpy(rows + to * cols, rows + from * cols, cols * sizeof(float));
  }
}

}  // namespace

void Decoder::Forward(const StepBatch& batch, float* logits) {
  Layers(batch);
  const auto rows = static_cast<int64_t>(batch.logit_rows.size());
  if (rows > 0 && !batch.abandoned()) Head(0, rows, logits);
}

void Decoder::Forward(const StepBatch& batch, LogitSink& sink) {
  const auto vocab = static_cast<size_t>(spec_.config.vocab);
  if (block_logits_ == nullptr) {
    auto buffer = HugeBuffer::Allocate(vocab * kLogitBlockRows * sizeof(float));
    CHECK(buffer.has_value());  // address space only
    block_buffer_ = std::move(*buffer);
    block_logits_ = reinterpret_cast<float*>(block_buffer_.data());
    activation_bytes_ += block_buffer_.size();
    if (ledger_ != nullptr) ledger_->Charge(MemoryOwner::kActivations, block_buffer_.size());
  }
  Layers(batch);
  const auto total = static_cast<int64_t>(batch.logit_rows.size());
  for (int64_t first = 0; first < total && !batch.abandoned(); first += kLogitBlockRows) {
    const int64_t rows = std::min(kLogitBlockRows, total - first);
    Head(first, rows, block_logits_);
    sink.Consume(first, rows, block_logits_);
  }
}

void Decoder::Layers(const StepBatch& batch) {
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  CHECK(rows > 0 && rows <= max_step_rows_);
  PlanRows(batch);
  Embed(batch.tokens);
  const auto wanted = static_cast<int64_t>(wanted_rows_.size());
  for (size_t i = 0; i < weights_.layers.size() && !batch.abandoned(); ++i) {
    Layer(i, batch, rows, wanted);
  }
  if (!batch.hidden_rows.empty() && !batch.abandoned()) Hidden(batch);
}

// Leaves the rows whose logits are wanted in x_[0, …), as the head expects them.
void Decoder::Hidden(const StepBatch& batch) {
  const ModelConfig& c = spec_.config;
  const auto cols = static_cast<size_t>(c.hidden);
  const auto wanted = static_cast<int64_t>(wanted_rows_.size());
  kernels_.RmsNorm(x_, weights_.final_norm, c.norm_eps, wanted, c.hidden, h_);
  KeepRows(wanted_rows_, batch.hidden_rows, cols, h_);
  batch.hidden_sink->Consume(h_);
  KeepRows(wanted_rows_, batch.logit_rows, cols, x_);
}

void Decoder::Embed(std::span<const TokenId> tokens) {
  const int64_t hidden = spec_.config.hidden;
  const auto rows = static_cast<int64_t>(tokens.size());
  const auto embed = [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) {
      const TokenId token = tokens[static_cast<size_t>(row)];
      CHECK(token >= 0 && token < spec_.config.vocab);
      kernels_.DequantizeRow(weights_.embedding, token, x_ + row * hidden);
    }
  };
  if (rows <= kEmbedRowsPerTask) {
    embed(0, rows);
  } else {
    const int64_t tasks = (rows + kEmbedRowsPerTask - 1) / kEmbedRowsPerTask;
    kernels_.pool().ParallelFor(tasks, [&](int64_t task, int) {
      embed(task * kEmbedRowsPerTask, std::min(rows, (task + 1) * kEmbedRowsPerTask));
    });
  }
  if (spec_.config.embedding_scale != 1.0f) {
    kernels_.Scale(spec_.config.embedding_scale, rows * hidden, x_);
  }
}

/// After the last layer's KV is written only the rows whose results are wanted go on: `wanted` of
/// them, in x_[0, wanted).
void Decoder::Layer(size_t index, const StepBatch& batch, int64_t rows, int64_t wanted) {
  const ModelConfig& c = spec_.config;
  const DecoderLayer& layer = weights_.layers[index];
  ProjectQkv(layer, rows);
  float* k = qkv_ + attention_cols_;
  if (layer.q_norm != nullptr) {
    kernels_.RmsNormHeads(qkv_, qkv_cols_, layer.q_norm, c.norm_eps, rows, c.heads, c.head_dim);
    kernels_.RmsNormHeads(k, qkv_cols_, layer.k_norm, c.norm_eps, rows, c.kv_heads, c.head_dim);
  }
  // Query and key heads lie side by side: one call rotates both.
  kernels_.Rope(qkv_, qkv_cols_, rows, c.heads + c.kv_heads, c.head_dim, c.rope_kind, *layer.rope,
                positions_.data());
  const bool last = index + 1 == weights_.layers.size();
  Attend(static_cast<int32_t>(index), batch, last ? wanted_runs_ : all_runs_);
  if (last && wanted != rows) KeepWantedRows();
  const int64_t left = last ? wanted : rows;
  if (left == 0) return;
  AttentionOut(layer, left);
  Mlp(layer, left);
}

void Decoder::KeepWantedRows() {
  const auto hidden = static_cast<size_t>(spec_.config.hidden);
  for (size_t i = 0; i < wanted_rows_.size(); ++i) {
    const auto row = static_cast<size_t>(wanted_rows_[i]);
    if (row != i) std::memcpy(x_ + i * hidden, x_ + row * hidden, hidden * sizeof(float));
  }
}

void Decoder::MatmulRounded(std::span<const MatmulTask> tasks, MatmulRole role,
                            const LinearInput& input, int64_t rows) {
  // An input that nothing makes would be whatever its buffer last held.
  CHECK(input.from == nullptr || input.norm != nullptr || input.up != nullptr);
  // Consecutive layers that agree on the rounding share it and one fork-join. Files mix types, so
  // they need not all agree.
  for (size_t begin = 0; begin < tasks.size();) {
    const auto rounding_of = [&](size_t i) {
      return ChooseRounding(tasks[i].weight->type, role, options_.activations);
    };
    const ActRounding rounding = rounding_of(begin);
    size_t end = begin + 1;
    while (end < tasks.size() && rounding_of(end) == rounding) ++end;
    // What makes the input runs once, fused with the first rounding.
    if (begin == 0 && input.norm != nullptr) {
      kernels_.RmsNormRound(input.from, input.norm, spec_.config.norm_eps, rows, input.cols,
                            input.x, rounding, &rounded_);
    } else if (begin == 0 && input.up != nullptr) {
      kernels_.GatedRound(spec_.activation, input.from, input.up, rows, input.cols, input.x,
                          rounding, &rounded_);
    } else {
      kernels_.Round(input.x, input.cols, rows, input.cols, rounding, &rounded_);
    }
    kernels_.Matmul(tasks.subspan(begin, end - begin), rounded_);
    begin = end;
  }
}

void Decoder::ProjectQkv(const DecoderLayer& layer, int64_t rows) {
  const ModelConfig& c = spec_.config;
  float* k = qkv_ + attention_cols_;
  float* v = k + int64_t{c.kv_heads} * c.head_dim;
  const MatmulTask tasks[] = {
      {&layer.q.weight, layer.q.bias, nullptr, qkv_, qkv_cols_},
      {&layer.k.weight, layer.k.bias, nullptr, k, qkv_cols_},
      {&layer.v.weight, layer.v.bias, nullptr, v, qkv_cols_},
  };
  MatmulRounded(tasks, MatmulRole::kQkv, {h_, c.hidden, x_, layer.attention_norm}, rows);
}

void Decoder::AddNormed(const float* y, const float* norm, int64_t rows) {
  const ModelConfig& c = spec_.config;
  float* normed = const_cast<float*>(y);
  kernels_.RmsNorm(y, norm, c.norm_eps, rows, c.hidden, normed);
  kernels_.Add(normed, rows * c.hidden, x_);
}

void Decoder::AttentionOut(const DecoderLayer& layer, int64_t rows) {
  const ModelConfig& c = spec_.config;
  const bool post_norm = layer.attention_post_norm != nullptr;
  float* out = post_norm ? qkv_ : x_;
  const MatmulTask task = {&layer.o.weight, layer.o.bias, post_norm ? nullptr : x_, out, c.hidden};
  MatmulRounded({&task, 1}, MatmulRole::kAttentionOut, {h_, attention_cols_}, rows);
  if (post_norm) AddNormed(out, layer.attention_post_norm, rows);
}

void Decoder::Mlp(const DecoderLayer& layer, int64_t rows) {
  const ModelConfig& c = spec_.config;
  const MatmulTask gate_up[] = {
      {&layer.gate.weight, layer.gate.bias, nullptr, gate_, c.ffn},
      {&layer.up.weight, layer.up.bias, nullptr, up_, c.ffn},
  };
  MatmulRounded(gate_up, MatmulRole::kGateUp, {h_, c.hidden, x_, layer.ffn_norm}, rows);
  const bool post_norm = layer.ffn_post_norm != nullptr;
  float* out = post_norm ? h_ : x_;
  const MatmulTask down = {&layer.down.weight, layer.down.bias, post_norm ? nullptr : x_, out,
                           c.hidden};
  MatmulRounded({&down, 1}, MatmulRole::kDown, {gate_, c.ffn, gate_, nullptr, up_}, rows);
  if (post_norm) AddNormed(out, layer.ffn_post_norm, rows);
}

void Decoder::Head(int64_t first, int64_t rows, float* logits) {
  const ModelConfig& c = spec_.config;
  const MatmulTask task = {&weights_.head, nullptr, nullptr, logits, c.vocab};
  MatmulRounded({&task, 1}, MatmulRole::kHead,
                {h_, c.hidden, x_ + first * c.hidden, weights_.final_norm}, rows);
}

}  // namespace ballast
