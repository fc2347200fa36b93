#include "weights/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>

#include "base/json.h"
#include "weights/hf_config.h"
#include "weights/json_walk.h"

namespace ballast {
namespace {

constexpr size_t kMaxConfigBytes = 256 << 10;
constexpr size_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxTokenizerBytes = 256 << 20;
constexpr size_t kMaxNameBytes = 512;

Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return NotFound("cannot open '{}'", path);
  const std::streamoff size = in.tellg();
  if (size < 0 || static_cast<uint64_t>(size) > max_bytes) {
    return InvalidArgument("'{}' has {} bytes, over the limit of {}", path, size, max_bytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  in.seekg(0);
  in.read(text.data(), size);
  if (!in) return Unavailable("cannot read '{}'", path);
  return text;
}

// Collects the header's entries as their fields go by.
class HeaderReader {
 public:
  HeaderReader(const std::string& label, uint64_t data_bytes)
      : label_(label), data_bytes_(data_bytes) {}

  Status Visit(std::span<const std::string> path, const JsonLeaf& leaf) {
    if (path.empty()) return InvalidArgument("'{}': the header has no tensors", label_);
    const std::string& name = path[0];
    if (name == "__metadata__") return OkStatus();
    if (path.size() == 1) {
      if (leaf.kind == JsonLeaf::Kind::kEndObject) return Finish(name);
      return InvalidArgument("'{}': tensor '{}' is not an object", label_, Short(name));
    }
    if (path.size() != 2) return Unexpected(name);
    if (path[1] == "dtype") return ReadType(name, leaf);
    if (path[1] == "shape") return ReadNumber(name, leaf, &shape_, 4);
    if (path[1] == "data_offsets") return ReadNumber(name, leaf, &offsets_, 2);
    return Unexpected(name);
  }

  Result<std::vector<SafetensorsEntry>> Take(uint64_t data_begin) {
    std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    uint64_t end = 0;
    for (SafetensorsEntry& entry : entries_) {
      if (entry.offset != end) {
        return InvalidArgument(
            "'{}': tensor '{}' starts at byte {} of the data, expected {} (no "
            "holes, no overlap)",
            label_, Short(entry.name), entry.offset, end);
      }
      end += entry.bytes;
      entry.offset += data_begin;
    }
    if (end != data_bytes_) {
      return InvalidArgument("'{}': the tensors take {} bytes, but the data has {}", label_, end,
                             data_bytes_);
    }
    return std::move(entries_);
  }

 private:
  static std::string Short(const std::string& name) { return name.substr(0, 80); }
  Error Unexpected(const std::string& name) const {
    return InvalidArgument("'{}': tensor '{}' has a field other than dtype, shape, data_offsets",
                           label_, Short(name));
  }

  Status ReadType(const std::string& name, const JsonLeaf& leaf) {
    if (leaf.kind != JsonLeaf::Kind::kString) {
      return InvalidArgument("'{}': the dtype of tensor '{}' is not a string", label_, Short(name));
    }
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (leaf.text == DTypeName(type)) type_ = type;
    }
    if (!type_) {
      return Unimplemented(
          "'{}': tensor '{}' has type {}, which is not supported (supported: F32, "
          "F16, BF16)",
          label_, Short(name), leaf.text.substr(0, 16));
    }
    return OkStatus();
  }

  Status ReadNumber(const std::string& name, const JsonLeaf& leaf, std::vector<uint64_t>* list,
                    size_t max) {
    if (leaf.kind == JsonLeaf::Kind::kEndArray) return OkStatus();
    if (leaf.kind != JsonLeaf::Kind::kUnsigned || list->size() == max) {
      return InvalidArgument(
          "'{}': shape and data_offsets of tensor '{}' must be at most 4 and "
          "exactly 2 whole numbers",
          label_, Short(name));
    }
    list->push_back(leaf.number);
    return OkStatus();
  }

  Status Finish(const std::string& name) {
    if (!type_ || offsets_.size() != 2) {
      return InvalidArgument("'{}': tensor '{}' lacks dtype or data_offsets", label_, Short(name));
    }
    if (name.empty() || name.size() > kMaxNameBytes || entries_.size() == kSafetensorsMaxTensors) {
      return InvalidArgument("'{}': over {} tensors, or a name not of 1 to {} bytes", label_,
                             kSafetensorsMaxTensors, kMaxNameBytes);
    }
    SafetensorsEntry entry;
    entry.name = name;
    entry.type = *type_;
    entry.offset = offsets_[0];
    if (offsets_[0] > offsets_[1] || offsets_[1] > data_bytes_) {
      return InvalidArgument("'{}': tensor '{}' spans bytes {} to {} of the data, which has {}",
                             label_, Short(name), offsets_[0], offsets_[1], data_bytes_);
    }
    entry.bytes = offsets_[1] - offsets_[0];
    // Each factor is below 2^31 and the product is compared with the file before it can overflow.
    uint64_t size = static_cast<uint64_t>(Info(*type_).block_bytes);
    for (const uint64_t dim : shape_) {
      if (dim < 1 || dim > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
        return InvalidArgument("'{}': tensor '{}' has a dimension of size {}, must be in [1, {}]",
                               label_, Short(name), dim, std::numeric_limits<int32_t>::max());
      }
      if (size <= data_bytes_) size *= dim;
      entry.shape.push_back(static_cast<int64_t>(dim));
    }
    if (size != entry.bytes) {
      return InvalidArgument("'{}': tensor '{}' has {} bytes, its shape and dtype need {}", label_,
                             Short(name), entry.bytes, size);
    }
    entries_.push_back(std::move(entry));
    type_.reset();
    shape_.clear();
    offsets_.clear();
    return OkStatus();
  }

  const std::string& label_;
  uint64_t data_bytes_;
  std::vector<SafetensorsEntry> entries_;
  std::optional<DType> type_;
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> offsets_;
};

}  // namespace

Result<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(std::span<const std::byte> file,
                                                             const std::string& label) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) {
    return InvalidArgument("'{}' has {} bytes, too few for a safetensors file", label, file.size());
  }
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const uint64_t limit = std::min<uint64_t>(kSafetensorsMaxHeaderBytes, file.size() - 8);
  if (header_bytes > limit) {
    return InvalidArgument("'{}': the header announces {} bytes, over the limit of {}", label,
                           header_bytes, limit);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data() + 8), header_bytes);
  if (!text.starts_with('{')) {
    return InvalidArgument("'{}': the header does not start with '{{'", label);
  }
  HeaderReader reader(label, file.size() - 8 - header_bytes);
  RETURN_IF_ERROR(
      WalkJson(text, 3, label, [&](std::span<const std::string> path, const JsonLeaf& leaf) {
        return reader.Visit(path, leaf);
      }));
  return reader.Take(8 + header_bytes);
}

Result<SafetensorsIndex> ParseSafetensorsIndex(std::string_view text, const std::string& label) {
  std::map<std::string, size_t, std::less<>> places;
  std::vector<std::pair<std::string, std::string>> tensors;
  const auto visit = [&](std::span<const std::string> path, const JsonLeaf& leaf) -> Status {
    if (path.size() != 2 || path[0] != "weight_map") return OkStatus();
    const std::string_view file = leaf.text;
    if (leaf.kind != JsonLeaf::Kind::kString || file.empty() || file.size() > 255 ||
        file.find('/') != std::string_view::npos || file.find('\0') != std::string_view::npos ||
        file == "." || file == "..") {
      return InvalidArgument("'{}': weight_map['{}'] is not a plain file name", label,
                             path[1].substr(0, 80));
    }
    if (tensors.size() == kSafetensorsMaxTensors) {
      return InvalidArgument("'{}': over {} tensors", label, kSafetensorsMaxTensors);
    }
    places.emplace(std::string(file), 0);
    if (places.size() > kSafetensorsMaxShards) {
      return InvalidArgument("'{}': over {} shards", label, kSafetensorsMaxShards);
    }
    tensors.emplace_back(path[1], std::string(file));
    return OkStatus();
  };
  RETURN_IF_ERROR(WalkJson(text, 8, label, visit));
  if (tensors.empty()) return InvalidArgument("'{}': weight_map is missing or empty", label);
  SafetensorsIndex index;
  for (auto& [file, place] : places) {
    place = index.files.size();
    index.files.push_back(file);
  }
  for (auto& [name, file] : tensors) {
    index.tensors.emplace_back(std::move(name), places.find(file)->second);
  }
  return index;
}

Result<std::unique_ptr<SafetensorsSource>> SafetensorsSource::Open(const std::string& path) {
  std::unique_ptr<SafetensorsSource> source(new SafetensorsSource(path));
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  std::string directory = is_directory ? path : std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  RETURN_IF_ERROR(source->ReadConfig(directory));
  if (is_directory) {
    RETURN_IF_ERROR(source->OpenFiles(directory));
  } else {
    std::vector<std::string> names;
    RETURN_IF_ERROR(source->AddFile(path, &names));
  }
  if (source->tensors_.empty()) return InvalidArgument("'{}' has no tensors", path);
  return source;
}

Status SafetensorsSource::OpenFiles(const std::string& directory) {
  const std::string index_path = directory + "/model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(index_path, ignored)) {
    ASSIGN_OR_RETURN(const std::string text, ReadTextFile(index_path, kMaxIndexBytes));
    return OpenShards(directory, text);
  }
  std::vector<std::string> names;
  return AddFile(directory + "/model.safetensors", &names);
}

Status SafetensorsSource::OpenShards(const std::string& directory, std::string_view index_text) {
  const std::string label = directory + "/model.safetensors.index.json";
  ASSIGN_OR_RETURN(const SafetensorsIndex index, ParseSafetensorsIndex(index_text, label));
  std::map<std::string, size_t> found;
  for (size_t file = 0; file < index.files.size(); ++file) {
    std::vector<std::string> names;
    RETURN_IF_ERROR(AddFile(directory + "/" + index.files[file], &names));
    for (std::string& name : names) found.emplace(std::move(name), file);
  }
  for (const auto& [name, file] : index.tensors) {
    const auto it = found.find(name);
    if (it == found.end() || it->second != file) {
      return InvalidArgument("'{}': tensor '{}' is not in '{}'", label, name.substr(0, 80),
                             index.files[file]);
    }
  }
  return OkStatus();
}

Status SafetensorsSource::AddFile(const std::string& path, std::vector<std::string>* names) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries,
                   ParseSafetensorsHeader(mapping->bytes(), path));
  const auto file = static_cast<uint32_t>(files_.size());
  files_.push_back(std::move(mapping));
  for (const SafetensorsEntry& entry : entries) {
    RETURN_IF_ERROR(AddEntry(entry, file));
    names->push_back(entry.name);
  }
  return OkStatus();
}

Status SafetensorsSource::AddEntry(const SafetensorsEntry& entry, uint32_t file) {
  const std::string name = CanonicalTensorName(architecture_, entry.name);
  // A tied checkpoint may carry the head as well; it is the embedding.
  if (tied_ && name == "output.weight") return OkStatus();
  TensorInfo tensor{.name = owned_.emplace_back(name)};
  tensor.type = entry.type;
  tensor.rank = static_cast<int32_t>(std::max<size_t>(1, entry.shape.size()));
  for (size_t i = 0; i < entry.shape.size(); ++i) {
    tensor.dims[i] = entry.shape[entry.shape.size() - 1 - i];
  }
  tensor.file = file;
  tensor.offset = entry.offset;
  tensor.bytes = entry.bytes;
  // Gemma computes x · (1 + w); GGUF files store 1 + w.
  if (architecture_ == "gemma3" && name.ends_with("norm.weight")) tensor.add = 1;
  if (!AddTensor(tensor)) {
    return InvalidArgument("'{}': tensor '{}' appears twice", path_, entry.name.substr(0, 80));
  }
  return OkStatus();
}

Status SafetensorsSource::ReadConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  Result<Json> config = ParseJson(text);
  if (!config) return std::move(config).error().WithContext(path);
  metadata_ = Metadata(path);
  ASSIGN_OR_RETURN(const HfConfig hf, ReadHfConfig(*config, &metadata_));
  architecture_ = hf.architecture;
  tied_ = hf.tied_embedding;
  rope_layout_ = RopeLayout::kNeox;
  const std::string name = std::filesystem::path(directory).lexically_normal().filename().string();
  metadata_.AddString("general.name", name.empty() ? "model" : name);
  if (!hf.rope_factors.empty()) {
    const auto* bytes = reinterpret_cast<const char*>(hf.rope_factors.data());
    const uint64_t place = owned_.size();
    owned_.emplace_back(bytes, 4 * hf.rope_factors.size());
    TensorInfo tensor{.name = owned_.emplace_back("rope_freqs.weight")};
    tensor.dims[0] = static_cast<int64_t>(hf.rope_factors.size());
    tensor.file = kOwnedFile;
    tensor.offset = place;
    tensor.bytes = owned_[place].size();
    AddTensor(tensor);
  }
  // Optional: a model without a tokenizer can still be inspected.
  std::error_code ignored;
  for (const auto& [file, slot] : {std::pair{"/tokenizer.json", &tokenizer_json_},
                                   std::pair{"/tokenizer_config.json", &tokenizer_config_json_},
                                   std::pair{"/chat_template.jinja", &chat_template_}}) {
    if (!std::filesystem::exists(directory + file, ignored)) continue;
    ASSIGN_OR_RETURN(*slot, ReadTextFile(directory + file, kMaxTokenizerBytes));
  }
  return OkStatus();
}

}  // namespace ballast
