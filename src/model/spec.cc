// Role: see spec.h.
#include "model/spec.h"

#include <cmath>
#include <filesystem>

namespace ballast {
namespace {

// Limits far above any model this decoder can hold, far below what overflows a size computation.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHidden = 65536;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 512;
constexpr int64_t kMaxFfn = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 21;
constexpr int64_t kMaxContext = 1 << 24;
constexpr int64_t kGroupColumns = 32;  // inputs of linear layers are rounded in groups of 32

Error BadValue(const WeightSource& source, std::string_view key, int64_t value,
               std::string_view limit) {
  return InvalidArgument("{}: {} is {}; it must be {}", source.path(), ArchKey(source, key), value,
                         limit);
}

Result<int32_t> ReadSize(const WeightSource& source, std::string_view key, int64_t max) {
  ASSIGN_OR_RETURN(int64_t value, source.metadata().GetI64In(ArchKey(source, key), 1, max));
  return static_cast<int32_t>(value);
}

Status ReadSizes(const WeightSource& source, ModelConfig* config) {
  const Metadata& meta = source.metadata();
  ASSIGN_OR_RETURN(config->layers, ReadSize(source, "block_count", kMaxLayers));
  ASSIGN_OR_RETURN(config->hidden, ReadSize(source, "embedding_length", kMaxHidden));
  ASSIGN_OR_RETURN(config->ffn, ReadSize(source, "feed_forward_length", kMaxFfn));
  ASSIGN_OR_RETURN(config->heads, ReadSize(source, "attention.head_count", kMaxHeads));
  ASSIGN_OR_RETURN(int64_t kv_heads, meta.GetI64InOr(ArchKey(source, "attention.head_count_kv"), 1,
                                                     kMaxHeads, config->heads));
  config->kv_heads = static_cast<int32_t>(kv_heads);
  if (config->hidden % kGroupColumns != 0) {
    return BadValue(source, "embedding_length", config->hidden, "a multiple of 32");
  }
  if (config->ffn % kGroupColumns != 0) {
    return BadValue(source, "feed_forward_length", config->ffn, "a multiple of 32");
  }
  if (config->heads % config->kv_heads != 0) {
    return BadValue(source, "attention.head_count_kv", config->kv_heads,
                    fmt::format("a divisor of head_count {}", config->heads));
  }
  return OkStatus();
}

Status ReadHeadDim(const WeightSource& source, ModelConfig* config) {
  const Metadata& meta = source.metadata();
  const std::string key = ArchKey(source, "attention.key_length");
  if (!meta.Has(key) && config->hidden % config->heads != 0) {
    return BadValue(source, "attention.head_count", config->heads,
                    fmt::format("a divisor of embedding_length {}", config->hidden));
  }
  ASSIGN_OR_RETURN(int64_t head_dim,
                   meta.GetI64InOr(key, 1, kMaxHeadDim, config->hidden / config->heads));
  if (head_dim % 16 != 0 || head_dim > kMaxHeadDim) {
    return BadValue(source, "attention.key_length", head_dim, "a multiple of 16 in [16, 512]");
  }
  ASSIGN_OR_RETURN(int64_t value_dim, meta.GetI64InOr(ArchKey(source, "attention.value_length"), 1,
                                                      kMaxHeadDim, head_dim));
  if (value_dim != head_dim) {
    return BadValue(source, "attention.value_length", value_dim,
                    fmt::format("equal to key_length {}", head_dim));
  }
  config->head_dim = static_cast<int32_t>(head_dim);
  return OkStatus();
}

Status ReadRope(const WeightSource& source, ModelConfig* config) {
  const Metadata& meta = source.metadata();
  ASSIGN_OR_RETURN(config->rope_theta, meta.GetF64Or(ArchKey(source, "rope.freq_base"), 10000));
  if (!(config->rope_theta >= 1 && config->rope_theta <= 1e12)) {
    return InvalidArgument("{}: {} is {}; it must be in [1, 1e12]", source.path(),
                           ArchKey(source, "rope.freq_base"), config->rope_theta);
  }
  ASSIGN_OR_RETURN(int64_t rope_dim, meta.GetI64InOr(ArchKey(source, "rope.dimension_count"), 2,
                                                     kMaxHeadDim, config->head_dim));
  if (rope_dim % 2 != 0 || rope_dim > config->head_dim) {
    return BadValue(source, "rope.dimension_count", rope_dim,
                    fmt::format("even and at most the head size {}", config->head_dim));
  }
  config->rope_dim = static_cast<int32_t>(rope_dim);
  config->rope_kind = source.rope_layout() == RopeLayout::kNorm ? RopeKind::kNorm : RopeKind::kNeox;

  const std::string type_key = ArchKey(source, "rope.scaling.type");
  ASSIGN_OR_RETURN(std::string_view type, meta.GetStringOr(type_key, "none"));
  config->rope_linear_scale = 1;
  if (type == "none") return OkStatus();
  if (type != "linear") {
    return Unimplemented(
        "{}: {} is \"{}\"; supported are none and linear (and llama3 by the "
        "tensor rope_freqs.weight)",
        source.path(), type_key, type);
  }
  const std::string factor_key = ArchKey(source, "rope.scaling.factor");
  ASSIGN_OR_RETURN(config->rope_linear_scale, meta.GetF64(factor_key));
  if (!(config->rope_linear_scale >= 1 && config->rope_linear_scale <= 1024)) {
    return InvalidArgument("{}: {} is {}; it must be in [1, 1024]", source.path(), factor_key,
                           config->rope_linear_scale);
  }
  return OkStatus();
}

/// Settings that would change the arithmetic and that this decoder does not compute.
Status RefuseUnsupported(const WeightSource& source) {
  constexpr std::string_view kMustBeZero[] = {
      "expert_count",
      "attn_logit_softcapping",
      "final_logit_softcapping",
      "attention.clamp_kqv",
      "attention.max_alibi_bias",
      "rope.scaling.attn_factor",
      "residual_scale",
      "logit_scale",
      "embedding_scale",
      "attention.scale",
      "attention.kv_lora_rank",
      "attention.q_lora_rank",
  };
  for (std::string_view suffix : kMustBeZero) {
    const std::string key = ArchKey(source, suffix);
    ASSIGN_OR_RETURN(double value, source.metadata().GetF64Or(key, 0));
    if (value != 0) {
      return Unimplemented("{}: {} is {}; architecture {} is supported without it only",
                           source.path(), key, value, source.architecture());
    }
  }
  return OkStatus();
}

}  // namespace

std::string ArchKey(const WeightSource& source, std::string_view suffix) {
  return fmt::format("{}.{}", source.architecture(), suffix);
}

Result<DecoderSpec> ReadDecoderSpec(const WeightSource& source) {
  DecoderSpec spec;
  ModelConfig& config = spec.config;
  const Metadata& meta = source.metadata();
  config.architecture = source.architecture();
  ASSIGN_OR_RETURN(std::string_view name, meta.GetStringOr("general.name", ""));
  config.name =
      name.empty() ? std::filesystem::path(source.path()).filename().string() : std::string(name);
  RETURN_IF_ERROR(RefuseUnsupported(source));
  RETURN_IF_ERROR(ReadSizes(source, &config));
  RETURN_IF_ERROR(ReadHeadDim(source, &config));
  RETURN_IF_ERROR(ReadRope(source, &config));
  ASSIGN_OR_RETURN(config.context,
                   meta.GetI64In(ArchKey(source, "context_length"), 1, kMaxContext));
  const std::string eps_key = ArchKey(source, "attention.layer_norm_rms_epsilon");
  ASSIGN_OR_RETURN(double eps, meta.GetF64(eps_key));
  if (!(eps >= 1e-12 && eps <= 1e-2)) {
    return InvalidArgument("{}: {} is {}; it must be in [1e-12, 0.01]", source.path(), eps_key,
                           eps);
  }
  config.norm_eps = static_cast<float>(eps);
  constexpr int64_t kPoolLast = 3;  // GGUF's number; 0 is none and 1 the mean
  ASSIGN_OR_RETURN(int64_t pooling, meta.GetI64InOr(ArchKey(source, "pooling_type"), 0, 4, 0));
  config.pools_last_token = pooling == kPoolLast;
  ASSIGN_OR_RETURN(const TensorInfo* embedding, source.RequireTensor("token_embd.weight"));
  if (embedding->rows() < 1 || embedding->rows() > kMaxVocab) {
    return InvalidArgument("{}: token_embd.weight has {} rows; the vocabulary must be in [1, {}]",
                           source.path(), embedding->rows(), kMaxVocab);
  }
  config.vocab = static_cast<int32_t>(embedding->rows());
  config.tied_embedding = source.FindTensor("output.weight") == nullptr;
  config.attention_scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  return spec;
}

}  // namespace ballast
