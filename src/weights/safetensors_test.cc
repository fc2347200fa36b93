#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "base/rng.h"
#include "tools/make_model_lib.h"
#include "weights/hf_config.h"
#include "weights/quant.h"
#include "weights/test_files.h"

namespace ballast {
namespace {

std::string File(std::string_view header, size_t data) {
  return ByteWriter().Text(header).Bytes(std::string(data, '\0')).bytes();
}

Result<std::vector<SafetensorsEntry>> Parse(const std::string& file) {
  return ParseSafetensorsHeader(std::as_bytes(std::span(file)), "f.safetensors");
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirData) {
  const auto entries = Parse(File(R"({"__metadata__":{"format":"pt"},)"
                                  R"("b":{"dtype":"F16","shape":[2,3],"data_offsets":[8,20]},)"
                                  R"("a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"},)"
                                  R"("s":{"dtype":"BF16","shape":[],"data_offsets":[20,22]}}  )",
                                  22));
  ASSERT_TRUE(entries.has_value()) << entries.error().message;
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_EQ((*entries)[1].type, DType::kF16);
  EXPECT_EQ((*entries)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*entries)[1].offset, (*entries)[0].offset + 8);
  EXPECT_TRUE((*entries)[2].shape.empty());
}

TEST(SafetensorsHeader, RefusesEachWrongField) {
  struct Case {
    std::string_view message;
    std::string file;
  };
  const auto one = [](std::string_view fields, size_t data = 8) {
    return File(fmt::format("{{\"a\":{{{}}}}}", fields), data);
  };
  const std::string deep =
      File("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", 0);
  const Case cases[] = {
      {"too few", "1234567"},
      {"announces 18446744073709551615 bytes, over the limit",
       ByteWriter().U64(~uint64_t{0}).Bytes("{}").bytes()},
      {"over the limit of 2", ByteWriter().U64(3).Bytes("{}").bytes()},
      {"does not start with '{'", File(" {}", 0)},
      {"does not start with '{'", File("", 0)},
      {"malformed JSON at byte", File("{\"a\":", 0)},
      {"malformed JSON at byte", File("{} x", 0)},
      {"nested deeper", deep},
      {"'a' is not an object", File(R"({"a":1})", 0)},
      {"'a' has a field other than",
       one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)")},
      {"'a' has a field other than", one(R"("dtype":"F32","shape":{"x":1},"data_offsets":[0,8])")},
      {"'a' lacks dtype or data_offsets", one(R"("shape":[2],"data_offsets":[0,8])")},
      {"'a' lacks dtype or data_offsets", one(R"("dtype":"F32","shape":[2])")},
      {"'a' lacks dtype or data_offsets", one(R"("dtype":"F32","shape":[2],"data_offsets":[0])")},
      {"'a' has type I64, which is not supported (supported: F32, F16, BF16)",
       one(R"("dtype":"I64","shape":[1],"data_offsets":[0,8])")},
      {"the dtype of tensor 'a' is not a string", one(R"("dtype":1)")},
      {"whole numbers", one(R"("dtype":"F32","shape":[2],"data_offsets":[-1,8])")},
      {"whole numbers", one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])")},
      {"whole numbers", one(R"("dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8])")},
      {"whole numbers", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])")},
      {"whole numbers", one(R"("dtype":"F32","shape":"x","data_offsets":[0,8])")},
      {"spans bytes 0 to 9", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])")},
      {"spans bytes 8 to 0", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])")},
      {"its shape and dtype need 12", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")},
      {"dimension of size 0", one(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])")},
      {"must be in [1, 2147483647]",
       one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])")},
      {"its shape and dtype need",
       one(R"("dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,8])")},
      {"the tensors take 4 bytes, but the data has 8",
       one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])")},
      {"'a' starts at byte 4 of the data, expected 0",
       one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])")},
      {"expected 8 (no holes, no overlap)",
       File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8)},
      {"expected 8 (no holes, no overlap)",
       File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
            8)},
  };
  for (const Case& c : cases) {
    const auto entries = Parse(c.file);
    ASSERT_FALSE(entries.has_value()) << "accepted: " << c.message;
    EXPECT_NE(entries.error().message.find(c.message), std::string::npos)
        << "wanted \"" << c.message << "\", got \"" << entries.error().message << "\"";
    EXPECT_NE(entries.error().message.find("f.safetensors"), std::string::npos)
        << entries.error().message;
  }
}

TEST(SafetensorsIndex, NamesOnlyFilesBesideIt) {
  const auto index = ParseSafetensorsIndex(
      R"({"metadata":{"total_size":1},"weight_map":{"x":"b.safetensors","y":"a.safetensors"}})",
      "i");
  ASSERT_TRUE(index.has_value()) << index.error().message;
  EXPECT_EQ(index->files, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(index->tensors[0], (std::pair<std::string, size_t>{"x", 1}));
  for (const char* bad : {R"({"weight_map":{"x":"../a"}})", R"({"weight_map":{"x":"/etc/passwd"}})",
                          R"({"weight_map":{"x":".."}})", R"({"weight_map":{"x":""}})",
                          R"({"weight_map":{"x":"a\u0000b"}})", R"({"weight_map":{"x":3}})",
                          R"({"weight_map":{}})", R"({})", R"([])", R"({"weight_map")"}) {
    EXPECT_FALSE(ParseSafetensorsIndex(bad, "i").has_value()) << bad;
  }
}

TEST(HfNames, MapToGguf) {
  struct Case {
    std::string_view architecture, hf, gguf;
  };
  const Case cases[] = {
      {"llama", "model.embed_tokens.weight", "token_embd.weight"},
      {"llama", "lm_head.weight", "output.weight"},
      {"llama", "model.layers.12.self_attn.q_proj.weight", "blk.12.attn_q.weight"},
      {"qwen2", "model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias"},
      {"qwen3", "model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight"},
      {"llama", "model.layers.1.post_attention_layernorm.weight", "blk.1.ffn_norm.weight"},
      {"gemma3", "model.layers.1.post_attention_layernorm.weight",
       "blk.1.post_attention_norm.weight"},
      {"gemma3", "model.layers.1.pre_feedforward_layernorm.weight", "blk.1.ffn_norm.weight"},
      {"gemma3", "model.layers.1.post_feedforward_layernorm.weight", "blk.1.post_ffw_norm.weight"},
      {"llama", "model.layers.x.mlp.up_proj.weight", "model.layers.x.mlp.up_proj.weight"},
      {"llama", "model.layers.01.mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight"},
      {"llama", "model.layers.1.weight", "model.layers.1.weight"},
      {"llama", "model.layers.", "model.layers."},
      {"llama", "model.layers.0.self_attn.rotary_emb.inv_freq",
       "model.layers.0.self_attn.rotary_emb.inv_freq"},
  };
  for (const Case& c : cases) EXPECT_EQ(CanonicalTensorName(c.architecture, c.hf), c.gguf);
}

constexpr std::string_view kConfig = R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,
  "num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,
  "max_position_embeddings":256,"rms_norm_eps":1e-5})";

Result<HfConfig> Read(const Json& patch, Metadata* metadata) {
  Json config = ParseJson(kConfig).value();
  config.merge_patch(patch);
  return ReadHfConfig(config, metadata);
}

TEST(HfConfig, DefaultsAndBothSpellingsOfRope) {
  Metadata plain("config.json");
  ASSERT_TRUE(Read(Json::object(), &plain).has_value());
  EXPECT_EQ(plain.GetU64("llama.attention.head_count_kv").value(), 4u);
  EXPECT_EQ(plain.GetU64("llama.attention.key_length").value(), 16u);
  EXPECT_EQ(plain.GetF64("llama.rope.freq_base").value(), 10000);
  EXPECT_EQ(plain.GetF64("llama.attention.layer_norm_rms_epsilon").value(), 1e-5);
  for (const Json& patch :
       {Json{{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}},
        Json{{"rope_parameters",
              {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 500000}}}}}) {
    Metadata scaled("config.json");
    const auto config = Read(patch, &scaled);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(scaled.GetF64("llama.rope.freq_base").value(), 5e5);
    EXPECT_EQ(scaled.GetString("llama.rope.scaling.type").value(), "linear");
    EXPECT_EQ(scaled.GetF64("llama.rope.scaling.factor").value(), 4);
  }
}

TEST(HfConfig, DefaultEpsilonIsTheArchitectures) {
  struct Case {
    const char* hf_class;
    const char* gguf;
    double eps;
  };
  // clang-format off: one architecture a line
  const Case cases[] = {
      {"LlamaForCausalLM", "llama", 1e-6},
      {"Gemma3ForCausalLM", "gemma3", 1e-6},
  };
  // clang-format on
  for (const Case& c : cases) {
    Metadata metadata("config.json");
    const auto config =
        Read({{"architectures", Json::array({c.hf_class})}, {"rms_norm_eps", nullptr}}, &metadata);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->architecture, c.gguf);
    const std::string key = fmt::format("{}.attention.layer_norm_rms_epsilon", c.gguf);
    EXPECT_EQ(metadata.GetF64(key).value(), c.eps);
  }
}

TEST(HfConfig, Llama3FactorsKeepHighAndDivideLowFrequencies) {
  Metadata metadata("config.json");
  const auto config = Read({{"head_dim", 128},
                            {"rope_theta", 500000.0},
                            {"rope_scaling",
                             {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}}}},
                           &metadata);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_EQ(config->rope_factors.size(), 64u);
  EXPECT_EQ(config->rope_factors[0], 1.0f);
  EXPECT_EQ(config->rope_factors[63], 8.0f);
  // Between them the rule of the Llama 3.1 release, here in double with libm.
  for (size_t i = 0; i < 64; ++i) {
    const double wave = 2 * 3.14159265358979323846 * std::pow(500000.0, 2.0 * double(i) / 128);
    const double smooth = std::min(1.0, std::max(0.0, (8192 / wave - 1) / 3));
    EXPECT_NEAR(config->rope_factors[i], 1 / ((1 - smooth) / 8 + smooth), 1e-5) << i;
    EXPECT_GE(config->rope_factors[i], config->rope_factors[i > 0 ? i - 1 : 0]);
  }
}

TEST(HfConfig, RefusesWhatNoModelComputes) {
  struct Case {
    std::string_view message;
    Json patch;
  };
  const Case cases[] = {
      {"architecture 'BertModel' is not supported (supported: LlamaForCausalLM",
       {{"architectures", Json::array({"BertModel"})}}},
      {"'architectures' must be", {{"architectures", "x"}}},
      {"'hidden_size' must be given", {{"hidden_size", nullptr}}},
      {"'hidden_size' must be an integer", {{"hidden_size", "64"}}},
      {"'hidden_size' is -1, must be in", {{"hidden_size", -1}}},
      {"'num_hidden_layers' is 18446744073709551615, must be in [1, 4096]",
       {{"num_hidden_layers", 18446744073709551615u}}},
      {"head size outside", {{"num_attention_heads", 128}}},
      {"'mlp_bias' = true is not supported", {{"mlp_bias", true}}},
      {"'mlp_bias' must be true or false", {{"mlp_bias", 1}}},
      {"'use_sliding_window' = true", {{"use_sliding_window", true}}},
      {"'hidden_act' = \"relu\"", {{"hidden_act", "relu"}}},
      {"'layer_types'", {{"layer_types", Json::array({"sliding_attention"})}}},
      {"'quantization_config'", {{"quantization_config", {{"bits", 4}}}}},
      {"'final_logit_softcapping' = 30", {{"final_logit_softcapping", 30}}},
      {"'rope_type' = \"yarn\"", {{"rope_scaling", {{"rope_type", "yarn"}}}}},
      {"'rope_scaling' must be an object", {{"rope_scaling", 3}}},
      {"'factor' must be", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}}}},
      {"'high_freq_factor' must be",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}, {"high_freq_factor", 1}}}}},
      {"'rope_theta' is 0, must be in", {{"rope_theta", 0}}},
      {"'partial_rotary_factor' = 0.5", {{"partial_rotary_factor", 0.5}}},
  };
  for (const Case& c : cases) {
    Metadata metadata("config.json");
    const auto config = Read(c.patch, &metadata);
    ASSERT_FALSE(config.has_value()) << "accepted: " << c.message;
    EXPECT_NE(config.error().message.find(c.message), std::string::npos)
        << "wanted \"" << c.message << "\", got \"" << config.error().message << "\"";
    EXPECT_NE(config.error().message.find("config.json"), std::string::npos);
  }
}

std::vector<float> RowOf(const WeightSource& source, const TensorInfo& tensor, int64_t row) {
  std::vector<float> values(static_cast<size_t>(tensor.cols()));
  const size_t row_bytes = tensor.bytes / static_cast<uint64_t>(tensor.rows());
  DequantizeBlocks(tensor.type,
                   source.TensorBytes(tensor).data() + static_cast<size_t>(row) * row_bytes,
                   tensor.cols(), values.data());
  for (float& value : values) value += tensor.add;
  return values;
}

// One recipe written both ways reads as the same model: names, shapes, metadata and values, up to
// the order of q and k rows that rope_layout() states.
TEST(OpenWeights, GgufAndSafetensorsShowOneModel) {
  for (const std::string_view architecture : SeededArchitectures()) {
    TempDir dir;
    ModelRecipe recipe{.architecture = std::string(architecture), .hidden = 64, .vocab = 400};
    recipe.shards = 3;
    ASSERT_TRUE(MakeModel(recipe, dir / "m.gguf").has_value());
    recipe.format = ModelFileFormat::kSafetensors;
    ASSERT_TRUE(MakeModel(recipe, dir / "m").has_value());
    const auto gguf = OpenWeights(dir / "m.gguf"), st = OpenWeights(dir / "m");
    ASSERT_TRUE(gguf.has_value()) << gguf.error().message;
    ASSERT_TRUE(st.has_value()) << st.error().message;
    EXPECT_EQ((*gguf)->architecture(), architecture);
    EXPECT_EQ((*st)->architecture(), architecture);
    EXPECT_EQ((*st)->rope_layout(), RopeLayout::kNeox);
    const bool permuted = (*gguf)->rope_layout() == RopeLayout::kNorm;
    EXPECT_EQ(permuted, architecture == "llama");
    ASSERT_EQ((*gguf)->tensors().size(), (*st)->tensors().size());
    const int64_t head_dim =
        (*gguf)->metadata().GetI64(fmt::format("{}.attention.key_length", architecture)).value();
    for (const TensorInfo& a : (*gguf)->tensors()) {
      const TensorInfo* b = (*st)->FindTensor(a.name);
      ASSERT_NE(b, nullptr) << a.name;
      ASSERT_EQ(a.dims, b->dims) << a.name;
      const bool rope = a.name.ends_with("attn_q.weight") || a.name.ends_with("attn_k.weight");
      for (int64_t row = 0; row < a.rows(); ++row) {
        const int64_t in = row % head_dim;
        const int64_t twin = permuted && rope ? row - in + in % 2 * (head_dim / 2) + in / 2 : row;
        ASSERT_EQ(RowOf(**gguf, a, row), RowOf(**st, *b, twin)) << a.name << " row " << row;
      }
    }
    for (const char* key :
         {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
          "attention.head_count_kv", "context_length", "attention.key_length",
          "attention.value_length", "vocab_size", "rope.dimension_count"}) {
      const std::string full = fmt::format("{}.{}", architecture, key);
      EXPECT_EQ((*gguf)->metadata().GetU64(full).value(), (*st)->metadata().GetU64(full).value());
    }
    const std::string base = fmt::format("{}.rope.freq_base", architecture);
    EXPECT_EQ((*gguf)->metadata().GetF64(base).value(), (*st)->metadata().GetF64(base).value());
    EXPECT_FALSE((*st)->tokenizer_json().empty());
  }
}

TEST(OpenWeights, GemmaLayersSlideAlike) {
  TempDir dir;
  ModelRecipe recipe{.architecture = "gemma3", .layers = 7};
  ASSERT_TRUE(MakeModel(recipe, dir / "m.gguf").has_value());
  recipe.format = ModelFileFormat::kSafetensors;
  ASSERT_TRUE(MakeModel(recipe, dir / "m").has_value());
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const std::vector<bool> expected = {true, true, true, true, true, false, true};
  for (const char* name : {"m.gguf", "m"}) {
    const auto source = OpenWeights(dir / name);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    EXPECT_EQ((*source)->metadata().GetBoolArray(key).value(), expected);
    EXPECT_EQ((*source)->metadata().GetU64("gemma3.attention.sliding_window").value(), 32u);
    EXPECT_EQ((*source)->metadata().GetF64("gemma3.rope.freq_base_swa").value(), 10000);
    EXPECT_FALSE((*source)->metadata().Has("gemma3.attention.scale"));
  }
}

TEST(OpenWeights, SingleFilesAndMissingPieces) {
  TempDir dir;
  ModelRecipe recipe{.type = "BF16", .format = ModelFileFormat::kSafetensors};
  ASSERT_TRUE(MakeModel(recipe, dir / "m").has_value());
  const auto file = OpenWeights(dir / "m/model.safetensors");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ((*file)->FindTensor("token_embd.weight")->type, DType::kBF16);
  EXPECT_EQ(OpenWeights(dir / "nothing").error().code, Code::kNotFound);
  EXPECT_EQ(OpenWeights(dir.path()).error().code, Code::kNotFound);
  std::filesystem::remove(dir / "m/config.json");
  const auto bare = OpenWeights(dir / "m");
  ASSERT_FALSE(bare.has_value());
  EXPECT_NE(bare.error().message.find("config.json"), std::string::npos);

  recipe.shards = 4;
  ASSERT_TRUE(MakeModel(recipe, dir / "s").has_value());
  ASSERT_TRUE(OpenWeights(dir / "s").has_value());
  // The index says where each tensor is; a shard with others is no substitute.
  std::filesystem::copy_file(dir / "s/model-00001-of-00004.safetensors",
                             dir / "s/model-00002-of-00004.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(OpenWeights(dir / "s").has_value());
  std::filesystem::remove(dir / "s/model-00003-of-00004.safetensors");
  EXPECT_FALSE(OpenWeights(dir / "s").has_value());
}

TEST(OpenWeights, SafetensorsSurviveBitFlips) {
  TempDir dir;
  ModelRecipe recipe{.layers = 1, .hidden = 32, .heads = 1, .head_dim = 32, .vocab = 260};
  recipe.format = ModelFileFormat::kSafetensors;
  ASSERT_TRUE(MakeModel(recipe, dir / "m").has_value());
  const std::string whole = ReadAll(dir / "m/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  Rng rng(9);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    bytes[rng.Below(8 + header)] ^= static_cast<char>(1 << rng.Below(8));
    const auto entries = Parse(bytes);
    if (!entries) {
      ++refused;
      continue;
    }
    for (const SafetensorsEntry& entry : *entries) {
      ASSERT_LE(entry.offset + entry.bytes, bytes.size());
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace ballast
