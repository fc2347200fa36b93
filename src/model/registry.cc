// Role: see registry.h.
#include "model/registry.h"

#include <utility>

namespace ballast {
namespace {

struct Architecture {
  std::string_view name;
  Result<std::unique_ptr<Model>> (*load)(LoadContext context);
};

// Sorted by name.
// clang-format off: one architecture a line
constexpr Architecture kArchitectures[] = {
    {"gemma3", LoadGemma3},
    {"llama", LoadLlama},
    {"qwen2", LoadQwen2},
    {"qwen3", LoadQwen3},
};
// clang-format on

constexpr int32_t kMaxStepRows = 65536;

}  // namespace

std::vector<std::string_view> Architectures() {
  std::vector<std::string_view> names;
  for (const Architecture& architecture : kArchitectures) names.push_back(architecture.name);
  return names;
}

Result<std::unique_ptr<Model>> LoadModel(const std::string& path, const ModelOptions& options,
                                         const Kernels& kernels, Ledger* ledger) {
  if (options.max_step_rows < 1 || options.max_step_rows > kMaxStepRows) {
    return InvalidArgument("max_step_rows is {}; it must be in [1, {}]", options.max_step_rows,
                           kMaxStepRows);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WeightSource> source, OpenWeights(path));
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == source->architecture()) {
      return architecture.load({std::move(source), options, kernels, ledger});
    }
  }
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (!known.empty()) known += ", ";
    known += architecture.name;
  }
  return Unimplemented("{}: general.architecture \"{}\" is not supported; supported are {}", path,
                       source->architecture(), known);
}

}  // namespace ballast
