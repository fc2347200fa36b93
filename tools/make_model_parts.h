// Role: what the parts of make_model share: the list of tensors and the vocabulary. Thread: pure.
#ifndef BALLAST_TOOLS_MAKE_MODEL_PARTS_H_
#define BALLAST_TOOLS_MAKE_MODEL_PARTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/make_model_lib.h"

namespace ballast {

/// Which vocabulary a seeded model carries: byte-level BPE under a pre-tokenizer, or SentencePiece.
enum class VocabularyKind : uint8_t { kGpt2, kQwen2, kSentencePiece };

/// What seeded models of one architecture are like where the recipe does not say.
struct SeededArchitecture {
  std::string_view name;      // general.architecture
  std::string_view hf_class;  // config.json's "architectures"
  VocabularyKind vocabulary;
  int32_t layers, heads, kv_heads, head_dim;
  bool tied;
};
/// Null when there is none of that name.
const SeededArchitecture* FindSeededArchitecture(std::string_view name);

/// A tensor to write. Values are a function of (seed, hf_name, row, column), so both formats agree:
/// vectors, which GGUF keeps in F32, are rounded to the checkpoint's type first.
struct PlannedTensor {
  std::string gguf_name;
  std::string hf_name;
  DType type = DType::kF32;  // in a GGUF file
  int32_t rows = 1;
  int32_t cols = 0;
  bool is_vector = false;
  float center = 0;  // values are center + spread · normal(0, 1)
  float spread = 0;
  DType checkpoint_type = DType::kF32;  // vectors: what safetensors round their values to
  float gguf_add = 0;                   // GGUF holds Gemma's norms plus one
  int32_t permute_heads = 0;            // > 0: GGUF's rows are permuted for neighbouring rotations
};

/// Every tensor of the model, in file order. REQUIRES: a complete recipe.
Result<std::vector<PlannedTensor>> PlanTensors(const ModelRecipe& recipe);

/// Row `row` as safetensors (`gguf` false) or GGUF has it. out: [cols].
void FillRow(const PlannedTensor& tensor, uint64_t seed, int32_t row, bool gguf, float* out);

/// A vocabulary in file form; types are GGUF's token types.
struct Vocabulary {
  bool sentencepiece = false;
  std::string pre;  // GGUF's name of the pre-tokenizer
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;  // "a b"
  int32_t bos = 0, eos = 0, unk = 0, pad = 0;
  bool add_bos = false;
};
/// REQUIRES: a complete recipe.
Vocabulary MakeVocabulary(const ModelRecipe& recipe);
/// The smallest vocabulary that holds the bytes and the special tokens.
int32_t MinVocab(VocabularyKind kind);

/// tokenizer.json and tokenizer_config.json of the vocabulary.
std::string TokenizerJsonText(const Vocabulary& vocabulary);
std::string TokenizerConfigText(const ModelRecipe& recipe, const Vocabulary& vocabulary);
/// ChatML in Jinja.
std::string ChatTemplate();

Status WriteGguf(const ModelRecipe& recipe, const std::string& path);
Status WriteSafetensors(const ModelRecipe& recipe, const std::string& directory);

}  // namespace ballast

#endif  // BALLAST_TOOLS_MAKE_MODEL_PARTS_H_
