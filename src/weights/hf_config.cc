#include "weights/hf_config.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

namespace ballast {
namespace {

// Defaults are those of the architecture's configuration class in transformers.
struct HfArchitecture {
  std::string_view hf;
  std::string_view gguf;
  std::string_view activation;
  int64_t default_head_dim;  // 0: hidden / heads
  double default_theta;
  double default_eps;  // rms_norm_eps
  bool default_tied;
};
// clang-format off: one architecture a line
constexpr HfArchitecture kHfArchitectures[] = {
    {"LlamaForCausalLM", "llama", "silu", 0, 10000, 1e-6, false},
    {"Qwen2ForCausalLM", "qwen2", "silu", 0, 10000, 1e-6, false},
    {"Qwen3ForCausalLM", "qwen3", "silu", 128, 10000, 1e-6, false},
    {"Gemma3ForCausalLM", "gemma3", "gelu_pytorch_tanh", 256, 1000000, 1e-6, true},
};
// clang-format on

// Larger than any field of a model that fits a machine, small enough for later arithmetic.
constexpr int64_t kMaxSize = int64_t{1} << 31;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeadDim = 4096;

// Typed access that treats null as absent, as transformers does.
class Fields {
 public:
  Fields(const Json& object, std::string label) : object_(&object), label_(std::move(label)) {}

  const Json* Find(const std::string& name) const {
    const auto it = object_->find(name);
    return it == object_->end() || it->is_null() ? nullptr : &*it;
  }
  Result<std::optional<int64_t>> Int(const std::string& name, int64_t min, int64_t max) const {
    const Json* value = Find(name);
    if (value == nullptr) return std::optional<int64_t>();
    if (!value->is_number_integer()) return Wrong(name, "an integer");
    const bool fits =
        !value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    const int64_t number = fits ? value->get<int64_t>() : INT64_MAX;
    if (!fits || number < min || number > max) {
      return InvalidArgument("'{}': field '{}' is {}, must be in [{}, {}]", label_, name,
                             DumpJson(*value), min, max);
    }
    return std::optional<int64_t>(number);
  }
  Result<std::optional<double>> Number(const std::string& name) const {
    const Json* value = Find(name);
    if (value == nullptr) return std::optional<double>();
    if (!value->is_number()) return Wrong(name, "a number");
    const double number = value->get<double>();
    if (!std::isfinite(number)) return Wrong(name, "finite");
    return std::optional<double>(number);
  }
  Result<bool> Bool(const std::string& name, bool absent) const {
    const Json* value = Find(name);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return Wrong(name, "true or false");
    return value->get<bool>();
  }
  Result<std::string> String(const std::string& name, std::string_view absent) const {
    const Json* value = Find(name);
    if (value == nullptr) return std::string(absent);
    if (!value->is_string()) return Wrong(name, "a string");
    return value->get<std::string>();
  }
  /// An object field, or null if absent.
  Result<const Json*> Object(const std::string& name) const {
    const Json* value = Find(name);
    if (value != nullptr && !value->is_object()) return Wrong(name, "an object");
    return value;
  }
  Error Wrong(const std::string& name, std::string_view wanted) const {
    return InvalidArgument("'{}': field '{}' must be {}", label_, name, wanted);
  }
  Error Unsupported(const std::string& name) const {
    return Unimplemented("'{}': field '{}' = {} is not supported", label_, name,
                         DumpJson(*Find(name)).substr(0, 80));
  }
  const std::string& label() const { return label_; }

 private:
  const Json* object_;
  std::string label_;
};

class ConfigReader {
 public:
  ConfigReader(const Json& config, Metadata* metadata)
      : fields_(config, metadata->file()), metadata_(metadata) {}

  Result<HfConfig> Read() {
    RETURN_IF_ERROR(ReadArchitecture());
    RETURN_IF_ERROR(RefuseUnsupported());
    RETURN_IF_ERROR(ReadSizes());
    RETURN_IF_ERROR(ReadRope());
    if (result_.architecture == "gemma3") RETURN_IF_ERROR(ReadGemma());
    ASSIGN_OR_RETURN(result_.tied_embedding,
                     fields_.Bool("tie_word_embeddings", architecture_->default_tied));
    return std::move(result_);
  }

 private:
  Status ReadArchitecture();
  Status RefuseUnsupported() const;
  Status ReadSizes();
  Status ReadRope();
  Status ReadRopeScaling(const Fields& scaling);
  Status ReadGemma();
  Status ReadGemmaLayers();
  Status AddSize(const std::string& field, std::string_view key, int64_t max);
  std::string Key(std::string_view suffix) const {
    return fmt::format("{}.{}", result_.architecture, suffix);
  }

  Fields fields_;
  Metadata* metadata_;
  const HfArchitecture* architecture_ = nullptr;
  HfConfig result_;
  int64_t layers_ = 0;
  int64_t hidden_ = 0;
  int64_t heads_ = 0;
  int64_t head_dim_ = 0;
  double theta_ = 0;
};

Status ConfigReader::ReadArchitecture() {
  const Json* list = fields_.Find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !(*list)[0].is_string()) {
    return fields_.Wrong("architectures", "a list with a name");
  }
  const std::string name = (*list)[0].get<std::string>();
  std::string known;
  for (const HfArchitecture& architecture : kHfArchitectures) {
    if (architecture.hf == name) architecture_ = &architecture;
    if (!known.empty()) known += ", ";
    known += architecture.hf;
  }
  if (architecture_ == nullptr) {
    return Unimplemented("'{}': architecture '{}' is not supported (supported: {})",
                         fields_.label(), name.substr(0, 80), known);
  }
  result_.architecture = std::string(architecture_->gguf);
  metadata_->AddString("general.architecture", result_.architecture);
  ASSIGN_OR_RETURN(const std::string path, fields_.String("_name_or_path", ""));
  if (!path.empty()) metadata_->AddString("general.name", path);
  return OkStatus();
}

// Settings that change what is computed and that no model here has.
Status ConfigReader::RefuseUnsupported() const {
  const bool gemma = result_.architecture == "gemma3";
  for (const char* name : {"mlp_bias", "use_sliding_window", "use_bidirectional_attention"}) {
    ASSIGN_OR_RETURN(const bool set, fields_.Bool(name, false));
    if (set) return fields_.Unsupported(name);
  }
  for (const char* name :
       {"attn_logit_softcapping", "final_logit_softcapping", "quantization_config"}) {
    if (fields_.Find(name) != nullptr) return fields_.Unsupported(name);
  }
  for (const char* name : {"hidden_act", "hidden_activation"}) {
    ASSIGN_OR_RETURN(const std::string act, fields_.String(name, architecture_->activation));
    // Gemma's configs carry a hidden_act of older code that transformers does not read.
    const bool ignored = gemma && std::string_view(name) == "hidden_act";
    if (act != architecture_->activation && !ignored) return fields_.Unsupported(name);
  }
  const Json* types = fields_.Find("layer_types");
  if (types != nullptr && !gemma) {
    for (const Json& type : *types) {
      if (type != "full_attention") return fields_.Unsupported("layer_types");
    }
  }
  return OkStatus();
}

Status ConfigReader::AddSize(const std::string& field, std::string_view key, int64_t max) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value, fields_.Int(field, 1, max));
  if (!value) return fields_.Wrong(field, "given");
  metadata_->AddU64(Key(key), static_cast<uint64_t>(*value));
  return OkStatus();
}

Status ConfigReader::ReadSizes() {
  RETURN_IF_ERROR(AddSize("num_hidden_layers", "block_count", kMaxLayers));
  RETURN_IF_ERROR(AddSize("hidden_size", "embedding_length", kMaxSize));
  RETURN_IF_ERROR(AddSize("intermediate_size", "feed_forward_length", kMaxSize));
  RETURN_IF_ERROR(AddSize("num_attention_heads", "attention.head_count", kMaxSize));
  RETURN_IF_ERROR(AddSize("max_position_embeddings", "context_length", kMaxSize));
  if (fields_.Find("vocab_size") != nullptr) {
    RETURN_IF_ERROR(AddSize("vocab_size", "vocab_size", kMaxSize));
  }
  ASSIGN_OR_RETURN(layers_, metadata_->GetI64(Key("block_count")));
  ASSIGN_OR_RETURN(hidden_, metadata_->GetI64(Key("embedding_length")));
  ASSIGN_OR_RETURN(heads_, metadata_->GetI64(Key("attention.head_count")));
  ASSIGN_OR_RETURN(const auto kv_heads, fields_.Int("num_key_value_heads", 1, kMaxSize));
  metadata_->AddU64(Key("attention.head_count_kv"),
                    static_cast<uint64_t>(kv_heads.value_or(heads_)));
  const int64_t fallback =
      architecture_->default_head_dim > 0 ? architecture_->default_head_dim : hidden_ / heads_;
  ASSIGN_OR_RETURN(const auto head_dim, fields_.Int("head_dim", 1, kMaxHeadDim));
  head_dim_ = head_dim.value_or(fallback);
  if (head_dim_ < 1 || head_dim_ > kMaxHeadDim) {
    return InvalidArgument("'{}': hidden_size {} over {} heads gives a head size outside [1, {}]",
                           fields_.label(), hidden_, heads_, kMaxHeadDim);
  }
  metadata_->AddU64(Key("attention.key_length"), static_cast<uint64_t>(head_dim_));
  metadata_->AddU64(Key("attention.value_length"), static_cast<uint64_t>(head_dim_));
  ASSIGN_OR_RETURN(const auto eps, fields_.Number("rms_norm_eps"));
  metadata_->AddF64(Key("attention.layer_norm_rms_epsilon"),
                    eps.value_or(architecture_->default_eps));
  return OkStatus();
}

// Both spellings: rope_theta with rope_scaling, and rope_parameters (by layer type for Gemma).
Status ConfigReader::ReadRope() {
  ASSIGN_OR_RETURN(const auto theta, fields_.Number("rope_theta"));
  theta_ = theta.value_or(architecture_->default_theta);
  ASSIGN_OR_RETURN(const Json* parameters, fields_.Object("rope_parameters"));
  ASSIGN_OR_RETURN(const Json* scaling, fields_.Object("rope_scaling"));
  if (parameters != nullptr && result_.architecture == "gemma3") {
    const Fields kinds(*parameters, fields_.label());
    ASSIGN_OR_RETURN(const Json* full, kinds.Object("full_attention"));
    if (full != nullptr) parameters = full;
  }
  if (parameters != nullptr) {
    ASSIGN_OR_RETURN(const auto own, Fields(*parameters, fields_.label()).Number("rope_theta"));
    theta_ = own.value_or(theta_);
    scaling = parameters;
  }
  if (!(theta_ >= 1 && theta_ <= 1e12)) {
    return InvalidArgument("'{}': field 'rope_theta' is {}, must be in [1, 1e12]", fields_.label(),
                           theta_);
  }
  metadata_->AddF64(Key("rope.freq_base"), theta_);
  ASSIGN_OR_RETURN(const auto partial, fields_.Number("partial_rotary_factor"));
  if (partial && *partial != 1) return fields_.Unsupported("partial_rotary_factor");
  metadata_->AddU64(Key("rope.dimension_count"), static_cast<uint64_t>(head_dim_));
  return scaling != nullptr ? ReadRopeScaling(Fields(*scaling, fields_.label())) : OkStatus();
}

Status ConfigReader::ReadRopeScaling(const Fields& scaling) {
  const std::string field = scaling.Find("rope_type") != nullptr ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string type, scaling.String(field, "default"));
  if (type == "default") return OkStatus();
  if (type != "linear" && type != "llama3") return scaling.Unsupported(field);
  ASSIGN_OR_RETURN(const auto factor, scaling.Number("factor"));
  if (!factor || !(*factor >= 1 && *factor <= 1e6)) {
    return scaling.Wrong("factor", "a number in [1, 1e6]");
  }
  if (type == "linear") {
    metadata_->AddString(Key("rope.scaling.type"), "linear");
    metadata_->AddF64(Key("rope.scaling.factor"), *factor);
    return OkStatus();
  }
  Llama3Scaling rule{.theta = theta_, .factor = *factor};
  ASSIGN_OR_RETURN(const auto low, scaling.Number("low_freq_factor"));
  ASSIGN_OR_RETURN(const auto high, scaling.Number("high_freq_factor"));
  ASSIGN_OR_RETURN(const auto context, scaling.Number("original_max_position_embeddings"));
  rule.low_freq_factor = low.value_or(rule.low_freq_factor);
  rule.high_freq_factor = high.value_or(rule.high_freq_factor);
  rule.original_context = context.value_or(rule.original_context);
  if (!(rule.low_freq_factor > 0 && rule.high_freq_factor > rule.low_freq_factor)) {
    return scaling.Wrong("high_freq_factor", "above low_freq_factor, and that above 0");
  }
  if (!(rule.original_context >= 1)) {
    return scaling.Wrong("original_max_position_embeddings", "at least 1");
  }
  result_.rope_factors = Llama3RopeFactors(rule, head_dim_);
  return OkStatus();
}

Status ConfigReader::ReadGemma() {
  ASSIGN_OR_RETURN(const auto window, fields_.Int("sliding_window", 1, kMaxSize));
  metadata_->AddU64(Key("attention.sliding_window"), static_cast<uint64_t>(window.value_or(4096)));
  ASSIGN_OR_RETURN(auto local, fields_.Number("rope_local_base_freq"));
  ASSIGN_OR_RETURN(const Json* parameters, fields_.Object("rope_parameters"));
  if (parameters != nullptr) {
    ASSIGN_OR_RETURN(const Json* sliding,
                     Fields(*parameters, fields_.label()).Object("sliding_attention"));
    if (sliding != nullptr) {
      const Fields own(*sliding, fields_.label());
      ASSIGN_OR_RETURN(const std::string type, own.String("rope_type", "default"));
      if (type != "default") return own.Unsupported("rope_type");
      ASSIGN_OR_RETURN(const auto theta, own.Number("rope_theta"));
      if (theta) local = theta;
    }
  }
  metadata_->AddF64(Key("rope.freq_base_swa"), local.value_or(10000));
  // Models scale queries by the head size (the 62-layer one by hidden / heads); a file that wants
  // something else says so under the key that they refuse.
  ASSIGN_OR_RETURN(const auto scalar, fields_.Number("query_pre_attn_scalar"));
  const double expected = layers_ == 62 ? static_cast<double>(hidden_) / static_cast<double>(heads_)
                                        : static_cast<double>(head_dim_);
  if (scalar && *scalar != expected) {
    if (!(*scalar > 0)) return fields_.Wrong("query_pre_attn_scalar", "positive");
    metadata_->AddF64(Key("attention.scale"), 1 / std::sqrt(*scalar));
  }
  return ReadGemmaLayers();
}

Status ConfigReader::ReadGemmaLayers() {
  const Json* types = fields_.Find("layer_types");
  ASSIGN_OR_RETURN(const auto period, fields_.Int("sliding_window_pattern", 1, kMaxLayers));
  std::vector<bool> sliding;
  if (types == nullptr) {
    for (int64_t i = 0; i < layers_; ++i) sliding.push_back((i + 1) % period.value_or(6) != 0);
  } else {
    if (!types->is_array() || types->size() != static_cast<size_t>(layers_)) {
      return fields_.Wrong("layer_types", fmt::format("a list of {} names", layers_));
    }
    for (const Json& type : *types) {
      if (type != "sliding_attention" && type != "full_attention") {
        return fields_.Unsupported("layer_types");
      }
      sliding.push_back(type == "sliding_attention");
    }
  }
  metadata_->AddBoolArray(Key("attention.sliding_window_pattern"), sliding);
  return OkStatus();
}

// Parts of a layer's tensors, HF to GGUF.
constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"post_attention_layernorm", "ffn_norm"},
};
constexpr std::pair<std::string_view, std::string_view> kGemmaLayerNames[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

}  // namespace

Result<HfConfig> ReadHfConfig(const Json& config, Metadata* metadata) {
  if (!config.is_object()) {
    return InvalidArgument("'{}': the document is not an object", metadata->file());
  }
  return ConfigReader(config, metadata).Read();
}

std::string CanonicalTensorName(std::string_view architecture, std::string_view name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return std::string(name);
  std::string_view rest = name.substr(kLayers.size());
  const size_t dot = rest.find('.'), last = rest.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::string(name);
  const std::string_view layer = rest.substr(0, dot);
  int number = 0;
  const auto parsed = std::from_chars(layer.data(), layer.data() + layer.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != layer.data() + layer.size() ||
      layer != std::to_string(number)) {
    return std::string(name);
  }
  const std::string_view part = rest.substr(dot + 1, last - dot - 1);
  const std::string_view suffix = rest.substr(last);  // ".weight" or ".bias"
  if (architecture == "gemma3") {
    for (const auto& [hf, gguf] : kGemmaLayerNames) {
      if (part == hf) return fmt::format("blk.{}.{}{}", layer, gguf, suffix);
    }
  }
  for (const auto& [hf, gguf] : kLayerNames) {
    if (part == hf) return fmt::format("blk.{}.{}{}", layer, gguf, suffix);
  }
  return std::string(name);
}

std::vector<float> Llama3RopeFactors(const Llama3Scaling& scaling, int64_t rotary_dim) {
  // In x87's long double: its powl has one body on every CPU, so the table cannot differ by
  // machine.
  const long double low_wave = static_cast<long double>(scaling.original_context) /
                               static_cast<long double>(scaling.low_freq_factor);
  const long double high_wave = static_cast<long double>(scaling.original_context) /
                                static_cast<long double>(scaling.high_freq_factor);
  std::vector<float> factors;
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    const long double exponent =
        static_cast<long double>(2 * i) / static_cast<long double>(rotary_dim);
    const long double wave = 2 * std::numbers::pi_v<long double> *
                             powl(static_cast<long double>(scaling.theta), exponent);
    long double divisor = 1;
    if (wave > low_wave) {
      divisor = static_cast<long double>(scaling.factor);
    } else if (wave >= high_wave) {
      const long double low = static_cast<long double>(scaling.low_freq_factor);
      const long double high = static_cast<long double>(scaling.high_freq_factor);
      const long double smooth =
          (static_cast<long double>(scaling.original_context) / wave - low) / (high - low);
      divisor = 1 / ((1 - smooth) / static_cast<long double>(scaling.factor) + smooth);
    }
    factors.push_back(static_cast<float>(divisor));
  }
  return factors;
}

}  // namespace ballast
