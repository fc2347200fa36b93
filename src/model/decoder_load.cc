// Role: the decoder's weights and buffers (decoder.h): which tensors a spec needs, under which
// names, of which shapes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/units.h"
#include "model/decoder.h"

namespace ballast {
namespace {

/// A tensor and where it goes once loaded. Exactly one target is set.
struct Slot {
  WeightRequest request;
  PackedMatrix* matrix = nullptr;
  const float** vector = nullptr;
};

class SlotList {
 public:
  void Matrix(std::string name, int32_t rows, int32_t cols, PackedMatrix* target) {
    slots_.push_back(
        {{std::move(name), rows, cols, WeightKind::kMatrix, Presence::kRequired}, target, nullptr});
  }
  void Vector(std::string name, int32_t n, Presence presence, const float** target) {
    slots_.push_back({{std::move(name), 1, n, WeightKind::kVector, presence}, nullptr, target});
  }
  void Layer(const std::string& prefix, std::string_view name, int32_t rows, int32_t cols,
             Presence bias, Linear* target) {
    Matrix(fmt::format("{}{}.weight", prefix, name), rows, cols, &target->weight);
    Vector(fmt::format("{}{}.bias", prefix, name), rows, bias, &target->bias);
  }
  std::vector<Slot>& slots() { return slots_; }

 private:
  std::vector<Slot> slots_;
};

void AddLayerSlots(const DecoderSpec& spec, int32_t index, DecoderLayer* layer, SlotList* list) {
  const ModelConfig& c = spec.config;
  const std::string prefix = fmt::format("blk.{}.", index);
  const Presence qkv_bias =
      spec.qkv_bias == QkvBias::kRequired ? Presence::kRequired : Presence::kOptional;
  const auto norm = [&](std::string_view name, int32_t n, const float** target) {
    list->Vector(fmt::format("{}{}.weight", prefix, name), n, Presence::kRequired, target);
  };
  norm("attn_norm", c.hidden, &layer->attention_norm);
  list->Layer(prefix, "attn_q", c.heads * c.head_dim, c.hidden, qkv_bias, &layer->q);
  list->Layer(prefix, "attn_k", c.kv_heads * c.head_dim, c.hidden, qkv_bias, &layer->k);
  list->Layer(prefix, "attn_v", c.kv_heads * c.head_dim, c.hidden, qkv_bias, &layer->v);
  if (spec.qk_norm == QkNorm::kPerHead) {
    norm("attn_q_norm", c.head_dim, &layer->q_norm);
    norm("attn_k_norm", c.head_dim, &layer->k_norm);
  }
  list->Layer(prefix, "attn_output", c.hidden, c.heads * c.head_dim, Presence::kOptional,
              &layer->o);
  norm("ffn_norm", c.hidden, &layer->ffn_norm);
  list->Layer(prefix, "ffn_gate", c.ffn, c.hidden, Presence::kOptional, &layer->gate);
  list->Layer(prefix, "ffn_up", c.ffn, c.hidden, Presence::kOptional, &layer->up);
  list->Layer(prefix, "ffn_down", c.hidden, c.ffn, Presence::kOptional, &layer->down);
  if (spec.post_norm == PostNorm::kRms) {
    norm("post_attention_norm", c.hidden, &layer->attention_post_norm);
    norm("post_ffw_norm", c.hidden, &layer->ffn_post_norm);
  }
}

Status RefuseUnusedTensors(const WeightSource& source, const std::vector<Slot>& slots) {
  std::unordered_set<std::string_view> used;
  for (const Slot& slot : slots) used.insert(slot.request.name);
  for (const TensorInfo& tensor : source.tensors()) {
    if (!used.contains(tensor.name)) {
      return Unimplemented("{}: tensor {} is not used by architecture {} as supported here",
                           source.path(), tensor.name, source.architecture());
    }
  }
  return OkStatus();
}

/// Packed bytes that a decoded token reads: the head and every loaded tensor but the embedding (one
/// row) and the RoPE factors (tables are made of them).
uint64_t BytesPerToken(const std::vector<Slot>& slots, const DecoderWeights& weights,
                       const float* const* rope_factors) {
  uint64_t bytes = weights.head.bytes();  // a matrix of its own or the embedding
  for (const Slot& slot : slots) {
    if (slot.matrix != nullptr) {
      const bool counted = slot.matrix == &weights.embedding || slot.matrix == &weights.head;
      if (!counted) bytes += slot.matrix->bytes();
    } else if (slot.vector != rope_factors && *slot.vector != nullptr) {
      bytes += static_cast<uint64_t>(slot.request.cols) * sizeof(float);
    }
  }
  return bytes;
}

}  // namespace

Result<LoadedDecoderWeights> LoadDecoderWeights(const DecoderSpec& spec, const WeightSource& source,
                                                ThreadPool& pool, Ledger* ledger) {
  const ModelConfig& c = spec.config;
  LoadedDecoderWeights loaded;
  DecoderWeights& weights = loaded.weights;
  weights.layers.resize(static_cast<size_t>(c.layers));
  const float* rope_factors = nullptr;
  SlotList list;
  list.Matrix("token_embd.weight", c.vocab, c.hidden, &weights.embedding);
  list.Vector("output_norm.weight", c.hidden, Presence::kRequired, &weights.final_norm);
  if (!c.tied_embedding) list.Matrix("output.weight", c.vocab, c.hidden, &weights.head);
  list.Vector("rope_freqs.weight", c.rope_dim / 2, Presence::kOptional, &rope_factors);
  for (int32_t i = 0; i < c.layers; ++i) {
    AddLayerSlots(spec, i, &weights.layers[static_cast<size_t>(i)], &list);
  }
  RETURN_IF_ERROR(RefuseUnusedTensors(source, list.slots()));

  std::vector<WeightRequest> requests;
  for (const Slot& slot : list.slots()) requests.push_back(slot.request);
  ASSIGN_OR_RETURN(loaded.store, WeightStore::Load(source, requests, pool, ledger));
  for (const Slot& slot : list.slots()) {
    const WeightRequest& request = slot.request;
    if (!loaded.store->Has(request.name)) continue;
    if (slot.matrix != nullptr) {
      ASSIGN_OR_RETURN(*slot.matrix,
                       loaded.store->Matrix(request.name, request.rows, request.cols));
    } else {
      ASSIGN_OR_RETURN(std::span<const float> values,
                       loaded.store->Vector(request.name, request.cols));
      *slot.vector = values.data();
    }
  }
  if (c.tied_embedding) weights.head = weights.embedding;
  if (rope_factors != nullptr) {
    weights.rope_factors.assign(rope_factors, rope_factors + c.rope_dim / 2);
    for (float factor : weights.rope_factors) {
      if (!(factor >= 1e-3f && factor <= 1e6f)) {
        return InvalidArgument("{}: rope_freqs.weight holds {}; factors must be in [0.001, 1e6]",
                               source.path(), factor);
      }
    }
  }
  weights.bytes_per_token = BytesPerToken(list.slots(), weights, &rope_factors);
  return loaded;
}

Result<std::unique_ptr<Model>> Decoder::Create(DecoderSpec spec, LoadContext context) {
  const int64_t wanted = context.options.context;
  if (wanted < 0 || wanted > spec.config.context) {
    return InvalidArgument("context {} is outside of [1, {}], what {} was trained for", wanted,
                           spec.config.context, context.source->path());
  }
  if (wanted > 0) spec.config.context = wanted;
  ASSIGN_OR_RETURN(
      LoadedDecoderWeights loaded,
      LoadDecoderWeights(spec, *context.source, context.kernels.pool(), context.ledger));
  std::unique_ptr<Decoder> decoder(new Decoder(std::move(spec), context, std::move(loaded)));
  RETURN_IF_ERROR(decoder->AllocateBuffers());
  decoder->MakeRopeTables();
  return std::unique_ptr<Model>(std::move(decoder));
}

Decoder::Decoder(DecoderSpec spec, const LoadContext& context, LoadedDecoderWeights loaded)
    : spec_(std::move(spec)),
      options_(context.options),
      kernels_(context.kernels),
      ledger_(context.ledger),
      store_(std::move(loaded.store)),
      weights_(std::move(loaded.weights)),
      max_step_rows_(context.options.max_step_rows) {
  const ModelConfig& c = spec_.config;
  attention_cols_ = int64_t{c.heads} * c.head_dim;
  qkv_cols_ = attention_cols_ + 2 * int64_t{c.kv_heads} * c.head_dim;
  for (int32_t i = 0; i < c.layers; ++i) {
    const auto index = static_cast<size_t>(i);
    const bool sliding = index < c.layer_is_sliding.size() && c.layer_is_sliding[index];
    weights_.layers[index].window = sliding ? c.sliding_window : 0;
  }
}

Decoder::~Decoder() {
  if (ledger_ != nullptr) ledger_->Release(MemoryOwner::kActivations, activation_bytes_);
}

Status Decoder::AllocateBuffers() {
  const ModelConfig& c = spec_.config;
  const auto rows = static_cast<size_t>(max_step_rows_);
  const auto hidden = static_cast<size_t>(c.hidden);
  const auto ffn = static_cast<size_t>(c.ffn);
  const size_t h_cols = std::max(hidden, static_cast<size_t>(attention_cols_));
  // The o projection before a post norm also lies in the wide part.
  const size_t wide_cols = std::max({static_cast<size_t>(qkv_cols_), 2 * ffn, hidden});
  ASSIGN_OR_RETURN(buffer_,
                   HugeBuffer::Allocate(rows * (hidden + h_cols + wide_cols) * sizeof(float)));
  x_ = reinterpret_cast<float*>(buffer_.data());
  h_ = x_ + rows * hidden;
  qkv_ = h_ + rows * h_cols;
  gate_ = qkv_;
  up_ = gate_ + rows * ffn;
  if (options_.kv_dtype == KvDType::kKv8) {
    const KvShape shape{c.kv_heads, c.head_dim};
    seal_scratch_records_ = rows / kPageTokens + 2;
    ASSIGN_OR_RETURN(seal_scratch_,
                     HugeBuffer::Allocate(seal_scratch_records_ * shape.f16_record_bytes()));
  }
  // Rounded inputs belong to the kernels: at most 3 bytes a quantised input, 4 a float one.
  const size_t rounded = rows * RoundUp(std::max(h_cols, ffn), size_t{256}) * sizeof(float);
  activation_bytes_ = buffer_.size() + seal_scratch_.size() + rounded;
  if (ledger_ != nullptr) ledger_->Charge(MemoryOwner::kActivations, activation_bytes_);
  positions_.reserve(rows);
  return OkStatus();
}

void Decoder::MakeRopeTables() {
  const ModelConfig& c = spec_.config;
  rope_.emplace(c.rope_dim, c.rope_theta, c.rope_linear_scale, weights_.rope_factors, c.context);
  if (c.rope_theta_local > 0) {
    rope_local_.emplace(c.rope_dim, c.rope_theta_local, 1.0, std::span<const float>(), c.context);
  }
  for (DecoderLayer& layer : weights_.layers) {
    layer.rope = layer.window > 0 && rope_local_.has_value() ? &*rope_local_ : &*rope_;
  }
}

uint64_t Decoder::RopeBytes(int64_t positions) const {
  const uint64_t tables = rope_local_.has_value() ? 2 : 1;
  return tables * static_cast<uint64_t>(positions) * static_cast<uint64_t>(spec_.config.rope_dim) *
         sizeof(float);
}

uint64_t Decoder::activation_growth_bytes() const {
  return RopeBytes(spec_.config.context) - RopeBytes(rope_positions_);
}

// The tables fill by blocks of positions as sequences grow; a step is told its last one.
void Decoder::ChargeRope(int64_t positions) {
  constexpr int64_t kBlock = 64;
  positions = std::min(RoundUp(positions, kBlock), spec_.config.context);
  if (positions <= rope_positions_) return;
  const uint64_t bytes = RopeBytes(positions) - RopeBytes(rope_positions_);
  rope_positions_ = positions;
  activation_bytes_ += bytes;
  if (ledger_ != nullptr) ledger_->Charge(MemoryOwner::kActivations, bytes);
}

KvLayers Decoder::kv_layers() const {
  KvLayers layers;
  for (const DecoderLayer& layer : weights_.layers) {
    layers.push_back({KvShape{spec_.config.kv_heads, spec_.config.head_dim}, layer.window});
  }
  return layers;
}

}  // namespace ballast
