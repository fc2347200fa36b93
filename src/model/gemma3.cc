// Role: the gemma3 architecture (text): embeddings scaled by sqrt(hidden), norms on q and k heads,
// norms before and after attention and MLP, gated GELU, and five sliding layers for every full one.
// Sliding layers have their own RoPE base and never the linear scaling of long-context models.
// The norm weights of GGUF files are stored with the 1 already added.
#include <cmath>
#include <utility>

#include "model/decoder.h"

namespace ballast {
namespace {

constexpr int64_t kDefaultPattern = 6;  // layers 6, 12, … see everything
constexpr double kDefaultLocalTheta = 10000;
constexpr int64_t kMaxWindow = 1 << 24;
constexpr int32_t kLayersOf27B = 62;

Status ReadSlidingLayers(const WeightSource& source, ModelConfig* config) {
  const Metadata& meta = source.metadata();
  ASSIGN_OR_RETURN(int64_t window,
                   meta.GetI64In(ArchKey(source, "attention.sliding_window"), 1, kMaxWindow));
  config->sliding_window = static_cast<int32_t>(window);
  const std::string key = ArchKey(source, "attention.sliding_window_pattern");
  const MetaValue* pattern = meta.Find(key);
  const auto layers = static_cast<size_t>(config->layers);
  if (pattern != nullptr && pattern->type == MetaType::kArray) {
    ASSIGN_OR_RETURN(config->layer_is_sliding, meta.GetBoolArray(key));
    if (config->layer_is_sliding.size() != layers) {
      return InvalidArgument("{}: {} has {} entries; it must have block_count {}", source.path(),
                             key, config->layer_is_sliding.size(), layers);
    }
    return OkStatus();
  }
  ASSIGN_OR_RETURN(int64_t period, meta.GetI64InOr(key, 1, 1024, kDefaultPattern));
  for (size_t i = 0; i < layers; ++i) {
    config->layer_is_sliding.push_back((i + 1) % static_cast<size_t>(period) != 0);
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Model>> LoadGemma3(LoadContext context) {
  const WeightSource& source = *context.source;
  ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(source));
  ModelConfig& config = spec.config;
  spec.activation = Activation::kGeluTanh;
  spec.qk_norm = QkNorm::kPerHead;
  spec.post_norm = PostNorm::kRms;
  config.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(config.hidden)));
  // Only the 27B model scales queries by its hidden size a head; files do not say so.
  if (config.layers == kLayersOf27B) {
    const double per_head = static_cast<double>(config.hidden) / config.heads;
    config.attention_scale = static_cast<float>(1.0 / std::sqrt(per_head));
  }
  RETURN_IF_ERROR(ReadSlidingLayers(source, &config));
  const std::string key = ArchKey(source, "rope.freq_base_swa");
  ASSIGN_OR_RETURN(config.rope_theta_local, source.metadata().GetF64Or(key, kDefaultLocalTheta));
  if (!(config.rope_theta_local >= 1 && config.rope_theta_local <= 1e12)) {
    return InvalidArgument("{}: {} is {}; it must be in [1, 1e12]", source.path(), key,
                           config.rope_theta_local);
  }
  return Decoder::Create(std::move(spec), std::move(context));
}

}  // namespace ballast
