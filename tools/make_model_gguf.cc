// GGUF version 3.
#include <cstring>
#include <fstream>

#include "base/units.h"
#include "tools/make_model_parts.h"

namespace ballast {
namespace {

constexpr uint64_t kAlignment = 32;

// Little-endian fields appended to a buffer.
class Header {
 public:
  template <class T>
  void Raw(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
  }
  void Text(std::string_view text) {
    Raw<uint64_t>(text.size());
    bytes_ += text;
  }
  void String(std::string_view key, std::string_view value) {
    Key(key, 8);
    Text(value);
  }
  void U32(std::string_view key, int64_t value) {
    Key(key, 4);
    Raw(static_cast<uint32_t>(value));
  }
  void F32(std::string_view key, float value) {
    Key(key, 6);
    Raw(value);
  }
  void Bool(std::string_view key, bool value) {
    Key(key, 7);
    Raw<uint8_t>(value ? 1 : 0);
  }
  void Strings(std::string_view key, const std::vector<std::string>& values) {
    Array(key, 8, values.size());
    for (const std::string& value : values) Text(value);
  }
  template <class T>
  void Numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    Array(key, type, values.size());
    for (const T value : values) Raw(value);
  }
  uint64_t keys() const { return keys_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(std::string_view key, uint32_t type) {
    Text(key);
    Raw(type);
    ++keys_;
  }
  void Array(std::string_view key, uint32_t type, uint64_t count) {
    Key(key, 9);
    Raw(type);
    Raw(count);
  }

  std::string bytes_;
  uint64_t keys_ = 0;
};

void AddModelKeys(const ModelRecipe& r, Header* out) {
  const auto key = [&](std::string_view suffix) {
    return fmt::format("{}.{}", r.architecture, suffix);
  };
  const bool gemma = r.architecture == "gemma3";
  out->String("general.architecture", r.architecture);
  out->String("general.type", "model");
  out->String("general.name", fmt::format("seeded {} {} {}", r.architecture, r.type, r.seed));
  out->U32("general.quantization_version", 2);
  out->U32(key("vocab_size"), r.vocab);
  out->U32(key("context_length"), r.context);
  out->U32(key("embedding_length"), r.hidden);
  out->U32(key("block_count"), r.layers);
  out->U32(key("feed_forward_length"), r.ffn);
  out->U32(key("attention.head_count"), r.heads);
  out->U32(key("attention.head_count_kv"), r.kv_heads);
  out->U32(key("attention.key_length"), r.head_dim);
  out->U32(key("attention.value_length"), r.head_dim);
  out->F32(key("attention.layer_norm_rms_epsilon"), 1e-6f);
  out->F32(key("rope.freq_base"), gemma ? 1e6f : 1e4f);
  out->U32(key("rope.dimension_count"), r.head_dim);
  if (!gemma) return;
  out->F32(key("rope.freq_base_swa"), 1e4f);
  out->U32(key("attention.sliding_window"), r.sliding_window);
  std::vector<uint8_t> sliding;
  for (int32_t i = 0; i < r.layers; ++i) sliding.push_back((i + 1) % 6 != 0 ? 1 : 0);
  out->Numbers(key("attention.sliding_window_pattern"), 7, sliding);
}

void AddTokenizerKeys(const ModelRecipe& r, const Vocabulary& v, Header* out) {
  out->String("tokenizer.ggml.model", v.sentencepiece ? "llama" : "gpt2");
  out->String("tokenizer.ggml.pre", v.pre);
  out->Strings("tokenizer.ggml.tokens", v.tokens);
  out->Numbers("tokenizer.ggml.token_type", 5, v.types);
  // SentencePiece files carry scores in place of merges.
  if (v.sentencepiece) {
    out->Numbers("tokenizer.ggml.scores", 6, v.scores);
  } else {
    out->Strings("tokenizer.ggml.merges", v.merges);
  }
  out->U32("tokenizer.ggml.bos_token_id", v.bos);
  out->U32("tokenizer.ggml.eos_token_id", v.eos);
  out->U32("tokenizer.ggml.unknown_token_id", v.unk);
  out->U32("tokenizer.ggml.padding_token_id", v.pad);
  out->Bool("tokenizer.ggml.add_bos_token", v.add_bos);
  out->Bool("tokenizer.ggml.add_eos_token", false);
  out->Bool("tokenizer.ggml.add_space_prefix", false);
  if (r.chat_template) out->String("tokenizer.chat_template", ChatTemplate());
}

uint64_t TensorFileBytes(const PlannedTensor& tensor) {
  const DTypeInfo& info = Info(tensor.type);
  return static_cast<uint64_t>(tensor.rows) *
         static_cast<uint64_t>(tensor.cols / info.block_elements * info.block_bytes);
}

void WriteTensor(const PlannedTensor& tensor, uint64_t seed, std::ofstream* file) {
  std::vector<float> row(static_cast<size_t>(tensor.cols));
  for (int32_t r = 0; r < tensor.rows; ++r) {
    FillRow(tensor, seed, r, true, row.data());
    const std::vector<std::byte> bytes = QuantizeBlocks(tensor.type, row);
    file->write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace

Status WriteGguf(const ModelRecipe& recipe, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<PlannedTensor> tensors, PlanTensors(recipe));
  Header keys;
  AddModelKeys(recipe, &keys);
  AddTokenizerKeys(recipe, MakeVocabulary(recipe), &keys);
  Header head;
  head.Raw(uint32_t{0x46554747});
  head.Raw(uint32_t{3});
  head.Raw<uint64_t>(tensors.size());
  head.Raw<uint64_t>(keys.keys());
  Header directory;
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    directory.Text(tensor.gguf_name);
    directory.Raw(uint32_t{tensor.is_vector ? 1u : 2u});
    directory.Raw(static_cast<uint64_t>(tensor.cols));
    if (!tensor.is_vector) directory.Raw(static_cast<uint64_t>(tensor.rows));
    directory.Raw(GgufTypeNumber(tensor.type));
    directory.Raw(offset);
    offset += RoundUp(TensorFileBytes(tensor), kAlignment);
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  uint64_t position = 0;
  const auto pad = [&] {
    const uint64_t aligned = RoundUp(position, kAlignment);
    file << std::string(aligned - position, '\0');
    position = aligned;
  };
  for (const Header* part : {&head, &keys, &directory}) {
    file << part->bytes();
    position += part->bytes().size();
  }
  pad();
  for (const PlannedTensor& tensor : tensors) {
    WriteTensor(tensor, recipe.seed, &file);
    position += TensorFileBytes(tensor);
    pad();
  }
  file.close();
  if (!file) return Unavailable("cannot write '{}'", path);
  return OkStatus();
}

}  // namespace ballast
