// A checkpoint as transformers reads it: config.json, tokenizer.json and safetensors.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "base/json.h"
#include "base/units.h"
#include "tools/make_model_parts.h"

namespace ballast {
namespace {

DType FileType(const ModelRecipe& recipe) {
  return recipe.type == "F16" ? DType::kF16 : recipe.type == "BF16" ? DType::kBF16 : DType::kF32;
}

Json ConfigJson(const ModelRecipe& r, const Vocabulary& v) {
  const bool gemma = r.architecture == "gemma3";
  const SeededArchitecture* architecture = FindSeededArchitecture(r.architecture);
  CHECK(architecture != nullptr);
  const DType type = FileType(r);
  Json config = {{"architectures", Json::array({architecture->hf_class})},
                 {"model_type", gemma ? "gemma3_text" : r.architecture},
                 {"hidden_size", r.hidden},
                 {"num_hidden_layers", r.layers},
                 {"num_attention_heads", r.heads},
                 {"num_key_value_heads", r.kv_heads},
                 {"head_dim", r.head_dim},
                 {"intermediate_size", r.ffn},
                 {"vocab_size", r.vocab},
                 {"max_position_embeddings", r.context},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", gemma ? 1e6 : 1e4},
                 {"attention_bias", false},
                 {"tie_word_embeddings", r.tying == HeadTying::kTied},
                 {"bos_token_id", v.bos},
                 {"eos_token_id", v.eos},
                 {"pad_token_id", v.pad},
                 {"torch_dtype", type == DType::kF16    ? "float16"
                                 : type == DType::kBF16 ? "bfloat16"
                                                        : "float32"}};
  config[gemma ? "hidden_activation" : "hidden_act"] = gemma ? "gelu_pytorch_tanh" : "silu";
  if (gemma) {
    config["query_pre_attn_scalar"] = r.head_dim;
    config["rope_local_base_freq"] = 1e4;
    config["sliding_window"] = r.sliding_window;
    Json types = Json::array();
    for (int32_t i = 0; i < r.layers; ++i) {
      types.push_back((i + 1) % 6 != 0 ? "sliding_attention" : "full_attention");
    }
    config["layer_types"] = types;
  }
  return config;
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Unavailable("cannot write '{}'", path);
  return OkStatus();
}

Status WriteShard(const ModelRecipe& recipe, std::span<const PlannedTensor> tensors,
                  const std::string& path) {
  const DType type = FileType(recipe);
  const auto size = static_cast<uint64_t>(Info(type).block_bytes);
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    const uint64_t bytes =
        size * static_cast<uint64_t>(tensor.rows) * static_cast<uint64_t>(tensor.cols);
    Json shape = Json::array({tensor.cols});
    if (!tensor.is_vector) shape = Json::array({tensor.rows, tensor.cols});
    header[tensor.hf_name] = {{"dtype", DTypeName(type)},
                              {"shape", shape},
                              {"data_offsets", Json::array({offset, offset + bytes})}};
    offset += bytes;
  }
  std::string text = DumpJson(header);
  text.resize(RoundUp(text.size(), size_t{8}), ' ');
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const uint64_t header_bytes = text.size();
  file.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  file << text;
  std::vector<float> row;
  for (const PlannedTensor& tensor : tensors) {
    row.resize(static_cast<size_t>(tensor.cols));
    for (int32_t r = 0; r < tensor.rows; ++r) {
      FillRow(tensor, recipe.seed, r, false, row.data());
      const std::vector<std::byte> bytes = QuantizeBlocks(type, row);
      file.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    }
  }
  file.close();
  if (!file) return Unavailable("cannot write '{}'", path);
  return OkStatus();
}

}  // namespace

Status WriteSafetensors(const ModelRecipe& recipe, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<PlannedTensor> tensors, PlanTensors(recipe));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Unavailable("cannot make directory '{}': {}", directory, error.message());
  const Vocabulary vocabulary = MakeVocabulary(recipe);
  RETURN_IF_ERROR(
      WriteText(directory + "/config.json", DumpJson(ConfigJson(recipe, vocabulary), 2) + "\n"));
  RETURN_IF_ERROR(WriteText(directory + "/tokenizer.json", TokenizerJsonText(vocabulary)));
  RETURN_IF_ERROR(
      WriteText(directory + "/tokenizer_config.json", TokenizerConfigText(recipe, vocabulary)));
  if (recipe.shards == 1) {
    return WriteShard(recipe, tensors, directory + "/model.safetensors");
  }
  const auto shards = std::min(static_cast<size_t>(recipe.shards), tensors.size());
  Json map = Json::object();
  for (size_t shard = 0; shard < shards; ++shard) {
    const size_t begin = tensors.size() * shard / shards;
    const size_t end = tensors.size() * (shard + 1) / shards;
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    const std::span<const PlannedTensor> part(&tensors[begin], end - begin);
    for (const PlannedTensor& tensor : part) map[tensor.hf_name] = name;
    RETURN_IF_ERROR(WriteShard(recipe, part, directory + "/" + name));
  }
  const Json index = {{"metadata", Json::object()}, {"weight_map", map}};
  return WriteText(directory + "/model.safetensors.index.json", DumpJson(index, 2) + "\n");
}

}  // namespace ballast
