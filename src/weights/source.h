// Role: where weights come from: one view of GGUF files and of safetensors directories, with GGUF's
// tensor names and metadata keys, so that a model is written once for both.
// Thread: immutable after opening; any thread may read. Nothing is copied: bytes lie in file
// mappings.
#ifndef BALLAST_WEIGHTS_SOURCE_H_
#define BALLAST_WEIGHTS_SOURCE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "platform/mapped_file.h"
#include "tensor/dtype.h"
#include "weights/metadata.h"

namespace ballast {

enum class WeightFormat : uint8_t { kGguf, kSafetensors };

/// How the rows of the q and k projections are ordered within a head, which decides what RoPE
/// pairs: (i, i + d/2) for kNeox, (2i, 2i + 1) for kNorm. GGUF files of the llama family hold
/// permuted rows.
enum class RopeLayout : uint8_t { kNeox, kNorm };

/// One tensor as the file stores it. dims[0] runs fastest: a matrix [rows, cols] has dims {cols,
/// rows}.
struct TensorInfo {
  std::string_view name;  // canonical (GGUF) name; owned by the source
  DType type = DType::kF32;
  int32_t rank = 1;
  std::array<int64_t, 4> dims = {1, 1, 1, 1};
  uint32_t file = 0;    // index of the mapping
  uint64_t offset = 0;  // of the first byte in that file
  uint64_t bytes = 0;
  float add = 0;  // to be added to every value (safetensors keep Gemma's norms minus one)

  int64_t cols() const { return dims[0]; }
  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
};

/// The tensors of one type among those loaded.
struct WeightTypeShare {
  DType type = DType::kF32;  // as in the file
  int64_t tensors = 0;
  uint64_t values = 0;
  uint64_t bytes = 0;  // in the file
};

/// Tensors and metadata of one model.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  WeightSource(const WeightSource&) = delete;
  WeightSource& operator=(const WeightSource&) = delete;

  /// As given to OpenWeights: a file or a directory.
  const std::string& path() const { return path_; }
  WeightFormat format() const { return format_; }
  RopeLayout rope_layout() const { return rope_layout_; }
  const Metadata& metadata() const { return metadata_; }
  /// general.architecture: "llama", "qwen2", ….
  const std::string& architecture() const { return architecture_; }

  /// In the file's order.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// Null if there is none of that name.
  const TensorInfo* FindTensor(std::string_view name) const;
  /// Errors: kNotFound naming the file and the tensor.
  Result<const TensorInfo*> RequireTensor(std::string_view name) const;
  std::span<const std::byte> TensorBytes(const TensorInfo& tensor) const;

  /// Tells the OS that bytes [begin, begin + size) of the tensor are wanted soon.
  void WillNeed(const TensorInfo& tensor, uint64_t begin, uint64_t size) const;
  /// Drops the consumed pages inside that range from this process.
  void Release(const TensorInfo& tensor, uint64_t begin, uint64_t size) const;
  /// Drops every page of every file; a later read faults them in again.
  void ReleaseAll() const;
  /// Errors: kUnavailable naming a file that changed since it was opened: what was read is void.
  Status CheckIntact() const;
  /// Bytes of all files.
  uint64_t file_bytes() const;

  // Safetensors only, else empty: the texts of the files beside the weights.
  const std::string& tokenizer_json() const { return tokenizer_json_; }
  const std::string& tokenizer_config_json() const { return tokenizer_config_json_; }
  /// chat_template.jinja, which wins over a template in tokenizer_config.json.
  const std::string& chat_template() const { return chat_template_; }

 protected:
  WeightSource(std::string path, WeightFormat format)
      : path_(path), format_(format), metadata_(std::move(path)) {}

  /// False if a tensor of that name exists already.
  bool AddTensor(const TensorInfo& tensor);

  std::string path_;
  WeightFormat format_;
  RopeLayout rope_layout_ = RopeLayout::kNeox;
  std::string architecture_;
  Metadata metadata_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
  std::deque<std::string> owned_;  // names and tensors that lie in no file
  std::string tokenizer_json_;
  std::string tokenizer_config_json_;
  std::string chat_template_;

  /// TensorInfo::file of a tensor whose bytes are owned_[offset].
  static constexpr uint32_t kOwnedFile = UINT32_MAX;
};

/// Opens a .gguf file, a .safetensors file (config.json beside it), or a directory with
/// model.safetensors or model.safetensors.index.json.
/// Errors: those of GgufFile::Open and SafetensorsSource::Open; kNotFound for a directory with
/// neither.
Result<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path);

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_SOURCE_H_
