// Role: reads safetensors checkpoints (docs/formats/safetensors-subset.md): one file or shards with
// an index, plus config.json, shown under GGUF's tensor names and metadata keys. Every number is
// bounded before use; as the format demands, tensors fill the data without holes. Thread: immutable
// after Open. Source of the layout: the safetensors README (huggingface/safetensors).
#ifndef BALLAST_WEIGHTS_SAFETENSORS_H_
#define BALLAST_WEIGHTS_SAFETENSORS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/source.h"

namespace ballast {

inline constexpr uint64_t kSafetensorsMaxHeaderBytes = uint64_t{100} << 20;
inline constexpr size_t kSafetensorsMaxTensors = size_t{1} << 17;
inline constexpr size_t kSafetensorsMaxShards = 1024;

/// A tensor as the header states it; offsets count from the start of the file.
struct SafetensorsEntry {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;  // slowest first, as in the file
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Parses and checks one file's header. @param label names the file in messages.
/// Errors: kInvalidArgument naming the tensor, the value and the limit; kUnimplemented for a dtype
/// other than F32, F16 and BF16.
Result<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(std::span<const std::byte> file,
                                                             const std::string& label);

/// The shard files that an index names, sorted, and for every tensor its place in that list.
struct SafetensorsIndex {
  std::vector<std::string> files;
  std::vector<std::pair<std::string, size_t>> tensors;
};
/// Parses model.safetensors.index.json. File names must be plain names of the same directory.
Result<SafetensorsIndex> ParseSafetensorsIndex(std::string_view text, const std::string& label);

class SafetensorsSource : public WeightSource {
 public:
  /// @param path a directory, or a .safetensors file (config.json is read beside it).
  /// Errors: those above; kNotFound for a missing file; kUnimplemented for an architecture or a
  /// setting of config.json that no model here computes.
  static Result<std::unique_ptr<SafetensorsSource>> Open(const std::string& path);

 private:
  explicit SafetensorsSource(std::string path)
      : WeightSource(std::move(path), WeightFormat::kSafetensors) {}
  Status OpenFiles(const std::string& directory);
  Status OpenShards(const std::string& directory, std::string_view index_text);
  Status AddFile(const std::string& path, std::vector<std::string>* names);
  Status AddEntry(const SafetensorsEntry& entry, uint32_t file);
  Status ReadConfig(const std::string& directory);

  bool tied_ = false;
};

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_SAFETENSORS_H_
