#include "tools/make_model_lib.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/hash.h"
#include "base/rng.h"
#include "tools/make_model_parts.h"
#include "weights/quant.h"

namespace ballast {
namespace {

// Head sizes are what readers assume when a file does not say: 128 for qwen3, 256 for gemma3, whose
// sixth layer is the first that sees everything.
// clang-format off: one architecture a line
constexpr SeededArchitecture kSeeded[] = {
    {"llama", "LlamaForCausalLM", VocabularyKind::kGpt2, 2, 4, 2, 64, false},
    {"qwen2", "Qwen2ForCausalLM", VocabularyKind::kQwen2, 2, 4, 2, 64, true},
    {"qwen3", "Qwen3ForCausalLM", VocabularyKind::kQwen2, 2, 4, 2, 128, true},
    {"gemma3", "Gemma3ForCausalLM", VocabularyKind::kSentencePiece, 6, 2, 1, 256, true},
};
// clang-format on

std::optional<DType> ParseType(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (DTypeName(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

Status CheckRange(std::string_view option, int32_t value, int32_t min, int32_t max,
                  int32_t multiple) {
  if (value < min || value > max || value % multiple != 0) {
    return InvalidArgument("{} is {}, must be a multiple of {} in [{}, {}]", option, value,
                           multiple, min, max);
  }
  return OkStatus();
}

Status CheckRecipe(const ModelRecipe& r, VocabularyKind vocabulary) {
  RETURN_IF_ERROR(CheckRange("--layers", r.layers, 1, 1024, 1));
  RETURN_IF_ERROR(CheckRange("--hidden", r.hidden, 32, 65536, 32));
  RETURN_IF_ERROR(CheckRange("--kv-heads", r.kv_heads, 1, 1024, 1));
  RETURN_IF_ERROR(CheckRange("--heads", r.heads, r.kv_heads, 1024, r.kv_heads));
  RETURN_IF_ERROR(CheckRange("--head-dim", r.head_dim, 16, 512, 16));
  RETURN_IF_ERROR(CheckRange("--heads times --head-dim", r.heads * r.head_dim, 32, 1 << 19, 32));
  RETURN_IF_ERROR(CheckRange("--ffn", r.ffn, 32, 1 << 20, 32));
  RETURN_IF_ERROR(CheckRange("--vocab", r.vocab, MinVocab(vocabulary), 1 << 20, 1));
  RETURN_IF_ERROR(CheckRange("--context", r.context, 1, 1 << 24, 1));
  RETURN_IF_ERROR(CheckRange("--shards", r.shards, 1, 1000, 1));
  if (r.architecture == "gemma3") {
    RETURN_IF_ERROR(CheckRange("--sliding-window", r.sliding_window, 1, 1 << 24, 1));
  }
  const std::optional<DType> type = ParseType(r.type);
  if (!type && r.type != "mixed") {
    return InvalidArgument("--type is '{}', must be mixed or the name of a block format", r.type);
  }
  if (r.format == ModelFileFormat::kSafetensors && (!type || !IsFloat(*type))) {
    return InvalidArgument("--type is '{}', safetensors hold F32, F16 and BF16 only", r.type);
  }
  return OkStatus();
}

// Values in every matrix keep activations near 1, with logits spread enough to prefer some tokens.
class Planner {
 public:
  explicit Planner(const ModelRecipe& recipe) : r_(recipe), type_(ParseType(recipe.type)) {}

  std::vector<PlannedTensor> Plan() {
    // Gemma scales embeddings by sqrt(hidden): small ones keep a tied head from echoing its input.
    const float embedding = r_.architecture == "gemma3" ? 0.05f : 0.1f;
    Matrix("token_embd.weight", "model.embed_tokens.weight", r_.vocab, r_.hidden, embedding,
           DType::kQ8_0);
    for (int32_t layer = 0; layer < r_.layers; ++layer) Layer(layer);
    Norm("output_norm.weight", "model.norm.weight", r_.hidden);
    if (r_.tying == HeadTying::kUntied) {
      Matrix("output.weight", "lm_head.weight", r_.vocab, r_.hidden, 0.1f, DType::kQ6_K);
    }
    return std::move(tensors_);
  }

 private:
  void Layer(int32_t layer) {
    gguf_ = fmt::format("blk.{}.", layer);
    hf_ = fmt::format("model.layers.{}.", layer);
    const bool gemma = r_.architecture == "gemma3";
    const int32_t q = r_.heads * r_.head_dim, kv = r_.kv_heads * r_.head_dim;
    LayerNorm("attn_norm", "input_layernorm", r_.hidden);
    Linear("attn_q", "self_attn.q_proj", q, r_.hidden, r_.heads);
    Linear("attn_k", "self_attn.k_proj", kv, r_.hidden, r_.kv_heads);
    Linear("attn_v", "self_attn.v_proj", kv, r_.hidden, 0);
    Linear("attn_output", "self_attn.o_proj", r_.hidden, q, 0);
    if (gemma || r_.architecture == "qwen3") {
      LayerNorm("attn_q_norm", "self_attn.q_norm", r_.head_dim);
      LayerNorm("attn_k_norm", "self_attn.k_norm", r_.head_dim);
    }
    if (gemma) {
      LayerNorm("post_attention_norm", "post_attention_layernorm", r_.hidden);
      LayerNorm("ffn_norm", "pre_feedforward_layernorm", r_.hidden);
      LayerNorm("post_ffw_norm", "post_feedforward_layernorm", r_.hidden);
    } else {
      LayerNorm("ffn_norm", "post_attention_layernorm", r_.hidden);
    }
    Linear("ffn_gate", "mlp.gate_proj", r_.ffn, r_.hidden, 0);
    Linear("ffn_up", "mlp.up_proj", r_.ffn, r_.hidden, 0);
    Linear("ffn_down", "mlp.down_proj", r_.hidden, r_.ffn, 0);
  }

  void Linear(std::string_view gguf, std::string_view hf, int32_t rows, int32_t cols,
              int32_t rope_heads) {
    static constexpr std::array kMixed = {DType::kQ4_K, DType::kQ6_K, DType::kQ5_0, DType::kQ8_0,
                                          DType::kQ4_1, DType::kQ5_K, DType::kQ4_0, DType::kF16,
                                          DType::kQ5_1, DType::kBF16, DType::kF32};
    const DType mixed = kMixed[mixed_++ % kMixed.size()];
    // 1.5 / sqrt(cols), the root by a few Newton steps in double.
    double root = cols;
    for (int i = 0; i < 40; ++i) root = 0.5 * (root + cols / root);
    Matrix(fmt::format("{}{}.weight", gguf_, gguf), fmt::format("{}{}.weight", hf_, hf), rows, cols,
           static_cast<float>(1.5 / root), mixed);
    const bool permuted = r_.architecture == "llama" && rope_heads > 0;
    if (permuted) tensors_.back().permute_heads = rope_heads;
    const bool attention_input = gguf == "attn_q" || gguf == "attn_k" || gguf == "attn_v";
    if (r_.architecture == "qwen2" && attention_input) {
      Vector(fmt::format("{}{}.bias", gguf_, gguf), fmt::format("{}{}.bias", hf_, hf), rows, 0,
             0.5f);
    }
  }

  void LayerNorm(std::string_view gguf, std::string_view hf, int32_t n) {
    Norm(fmt::format("{}{}.weight", gguf_, gguf), fmt::format("{}{}.weight", hf_, hf), n);
  }
  void Norm(std::string gguf, std::string hf, int32_t n) {
    const bool gemma = r_.architecture == "gemma3";
    Vector(std::move(gguf), std::move(hf), n, gemma ? 0.0f : 1.0f, 0.1f);
    if (gemma) tensors_.back().gguf_add = 1;
  }
  void Vector(std::string gguf, std::string hf, int32_t n, float center, float spread) {
    PlannedTensor tensor{.gguf_name = std::move(gguf), .hf_name = std::move(hf)};
    tensor.cols = n;
    tensor.is_vector = true;
    if (type_ == DType::kF16 || type_ == DType::kBF16) tensor.checkpoint_type = *type_;
    tensor.center = center;
    tensor.spread = spread;
    tensors_.push_back(std::move(tensor));
  }
  void Matrix(std::string gguf, std::string hf, int32_t rows, int32_t cols, float spread,
              DType mixed) {
    PlannedTensor tensor{.gguf_name = std::move(gguf), .hf_name = std::move(hf)};
    tensor.type = Fitting(type_.value_or(mixed), cols);
    tensor.rows = rows;
    tensor.cols = cols;
    tensor.spread = spread;
    tensors_.push_back(std::move(tensor));
  }
  // As makers of models do: rows that K-quants' blocks do not divide get a type of blocks of 32.
  static DType Fitting(DType type, int32_t cols) {
    if (cols % Info(type).block_elements == 0) return type;
    switch (type) {
      case DType::kQ4_K:
        return DType::kQ5_0;
      case DType::kQ5_K:
        return DType::kQ5_1;
      default:
        return DType::kQ8_0;
    }
  }

  const ModelRecipe& r_;
  std::optional<DType> type_;
  std::string gguf_, hf_;
  size_t mixed_ = 0;
  std::vector<PlannedTensor> tensors_;
};

// Nearly normal, mean 0 and variance 1: the sum of four 16-bit uniforms.
float NearNormal(uint64_t hash) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>((hash >> (16 * i)) & 0xffff);
  return static_cast<float>(sum - 2 * 65535) * (1.7320508f / 65536.0f);
}

}  // namespace

std::vector<std::string_view> SeededArchitectures() {
  std::vector<std::string_view> names;
  for (const SeededArchitecture& entry : kSeeded) names.push_back(entry.name);
  return names;
}

const SeededArchitecture* FindSeededArchitecture(std::string_view name) {
  for (const SeededArchitecture& entry : kSeeded) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Result<ModelRecipe> CompleteRecipe(ModelRecipe recipe) {
  const SeededArchitecture* defaults = FindSeededArchitecture(recipe.architecture);
  if (defaults == nullptr) {
    return InvalidArgument("--arch is '{}', must be one of {}", recipe.architecture,
                           fmt::join(SeededArchitectures(), ", "));
  }
  const auto fill = [](int32_t* value, int32_t fallback) {
    if (*value == 0) *value = fallback;
  };
  fill(&recipe.layers, defaults->layers);
  fill(&recipe.hidden, 256);
  fill(&recipe.heads, defaults->heads);
  fill(&recipe.kv_heads, std::min(defaults->kv_heads, recipe.heads));
  fill(&recipe.head_dim, defaults->head_dim);
  fill(&recipe.ffn, 2 * recipe.hidden);
  fill(&recipe.vocab, 512);
  fill(&recipe.context, 2048);
  fill(&recipe.sliding_window, 32);
  if (recipe.tying == HeadTying::kAuto) {
    recipe.tying = defaults->tied ? HeadTying::kTied : HeadTying::kUntied;
  }
  RETURN_IF_ERROR(CheckRecipe(recipe, defaults->vocabulary));
  return recipe;
}

Result<std::vector<PlannedTensor>> PlanTensors(const ModelRecipe& recipe) {
  return Planner(recipe).Plan();
}

void FillRow(const PlannedTensor& tensor, uint64_t seed, int32_t row, bool gguf, float* out) {
  int32_t source = row;
  if (gguf && tensor.permute_heads > 0) {
    // GGUF's row 2i + s of a head is row s · d/2 + i of the checkpoint's.
    const int32_t head_dim = tensor.rows / tensor.permute_heads;
    const int32_t within = row % head_dim;
    source = row - within + (within % 2) * (head_dim / 2) + within / 2;
  }
  const uint64_t name = Xxh3(std::as_bytes(std::span(tensor.hf_name)));
  const uint64_t base = CounterHash(seed, name, static_cast<uint64_t>(source));
  for (int32_t col = 0; col < tensor.cols; ++col) {
    const float normal = NearNormal(Mix64(base ^ Mix64(static_cast<uint64_t>(col))));
    out[col] = tensor.center + tensor.spread * normal;
    if (!gguf) continue;
    if (tensor.checkpoint_type == DType::kF16) out[col] = F16ToF32(F32ToF16(out[col]));
    if (tensor.checkpoint_type == DType::kBF16) out[col] = BF16ToF32(F32ToBF16(out[col]));
    out[col] += tensor.gguf_add;
  }
}

Status MakeModel(const ModelRecipe& recipe, const std::string& path) {
  ASSIGN_OR_RETURN(const ModelRecipe complete, CompleteRecipe(recipe));
  return complete.format == ModelFileFormat::kGguf ? WriteGguf(complete, path)
                                                   : WriteSafetensors(complete, path);
}

}  // namespace ballast
