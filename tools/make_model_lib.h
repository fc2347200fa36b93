// Role: writes small seeded models of every supported architecture and weight type, for tests,
// benches and demonstrations that must not download anything. The same recipe gives the same bytes
// everywhere: no libm, no clock. Thread: pure functions.
#ifndef BALLAST_TOOLS_MAKE_MODEL_LIB_H_
#define BALLAST_TOOLS_MAKE_MODEL_LIB_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace ballast {

enum class ModelFileFormat { kGguf, kSafetensors };
enum class HeadTying { kAuto, kTied, kUntied };

/// Every architecture of which seeded models can be made, by general.architecture. Tests that cover
/// "all architectures" take them from here.
std::vector<std::string_view> SeededArchitectures();

/// What to make. Zeros mean the architecture's default (make_model_lib.cc).
struct ModelRecipe {
  std::string architecture = "llama";  // one of SeededArchitectures()
  /// A DType's name, or "mixed": every type in turn over the layers' matrices.
  std::string type = "F32";
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;
  int32_t context = 0;
  int32_t sliding_window = 0;  // gemma3 only
  uint64_t seed = 1;
  HeadTying tying = HeadTying::kAuto;  // auto: as the architecture's models have it
  bool chat_template = true;
  ModelFileFormat format = ModelFileFormat::kGguf;
  int32_t shards = 1;  // safetensors only
};

/// The recipe with every zero replaced. Errors: kInvalidArgument naming the option, value and
/// limit.
Result<ModelRecipe> CompleteRecipe(ModelRecipe recipe);

/// Writes the model: a .gguf file, or a directory (made if missing) with config.json,
/// tokenizer.json, tokenizer_config.json and model.safetensors or its shards. Errors: those of
/// CompleteRecipe; kUnavailable when the path cannot be written.
Status MakeModel(const ModelRecipe& recipe, const std::string& path);

/// Rounds whole rows to a type's blocks, to nearest. values.size() must be a multiple of the block.
/// Good enough for tests; makers of real models search for better scales.
std::vector<std::byte> QuantizeBlocks(DType type, std::span<const float> values);

/// The type's number in a GGUF file.
uint32_t GgufTypeNumber(DType type);

}  // namespace ballast

#endif  // BALLAST_TOOLS_MAKE_MODEL_LIB_H_
