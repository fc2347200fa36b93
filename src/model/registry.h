// Role: opens a model file and hands it to its architecture. One line an architecture in
// registry.cc. Thread: any, one model at a time.
#ifndef BALLAST_MODEL_REGISTRY_H_
#define BALLAST_MODEL_REGISTRY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "memory/ledger.h"
#include "model/model.h"
#include "weights/source.h"

namespace ballast {

/// What an architecture gets to build a model from.
struct LoadContext {
  std::unique_ptr<WeightSource> source;
  ModelOptions options;
  Kernels kernels;
  Ledger* ledger = nullptr;  // outlives the model
};

/// Opens `path` (.gguf, .safetensors or a directory), packs the weights and allocates activations;
/// both are charged to `ledger`, which must outlive the model, as must the pool behind `kernels`.
/// Cost: one pass over the file. Errors: those of OpenWeights; kUnimplemented naming an unknown
/// architecture and the known ones; kInvalidArgument for metadata or options out of range.
Result<std::unique_ptr<Model>> LoadModel(const std::string& path, const ModelOptions& options,
                                         const Kernels& kernels, Ledger* ledger);

/// Names of the supported architectures (general.architecture), sorted.
std::vector<std::string_view> Architectures();

// One factory an architecture, each in its own file.
Result<std::unique_ptr<Model>> LoadLlama(LoadContext context);
Result<std::unique_ptr<Model>> LoadQwen2(LoadContext context);
Result<std::unique_ptr<Model>> LoadQwen3(LoadContext context);
Result<std::unique_ptr<Model>> LoadGemma3(LoadContext context);

}  // namespace ballast

#endif  // BALLAST_MODEL_REGISTRY_H_
