#include <filesystem>

#include "weights/gguf.h"
#include "weights/safetensors.h"
#include "weights/source.h"

namespace ballast {

Result<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) return NotFound("'{}' does not exist", path);
  if (std::filesystem::is_directory(status) || path.ends_with(".safetensors")) {
    ASSIGN_OR_RETURN(std::unique_ptr<WeightSource> source, SafetensorsSource::Open(path));
    return source;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WeightSource> source, GgufFile::Open(path));
  return source;
}

}  // namespace ballast
