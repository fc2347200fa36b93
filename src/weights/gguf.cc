#include "weights/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "base/units.h"

namespace ballast {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"

std::optional<DType> FromGgufType(uint32_t type) {
  switch (type) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 2:
      return DType::kQ4_0;
    case 3:
      return DType::kQ4_1;
    case 6:
      return DType::kQ5_0;
    case 7:
      return DType::kQ5_1;
    case 8:
      return DType::kQ8_0;
    case 12:
      return DType::kQ4_K;
    case 13:
      return DType::kQ5_K;
    case 14:
      return DType::kQ6_K;
    case 30:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

// Names of the types that we do not read, so that a refusal says what was found.
std::string UnsupportedTypeName(uint32_t type) {
  static constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
      {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
      {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
      {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},
      {39, "MXFP4"},
  };
  for (const auto& [number, name] : kNames) {
    if (number == type) return std::string(name);
  }
  return fmt::format("number {}", type);
}

std::string SupportedTypeNames() {
  std::string names;
  for (const DTypeInfo& info : kDTypeInfo) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

// A key or name as it may be printed: hostile files put anything there.
std::string Printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 80)) {
    shown += static_cast<unsigned char>(c) >= 0x20 && c != 0x7f ? c : '?';
  }
  if (text.size() > 80) shown += "…";
  return shown;
}

}  // namespace

/// Walks the header once. Every read checks what is left.
class GgufParser {
 public:
  GgufParser(GgufFile* file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  Status Parse() {
    RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < key_count_; ++i) RETURN_IF_ERROR(ReadKeyValue(i));
    RETURN_IF_ERROR(ReadGeneralKeys());
    file_->tensors_.reserve(tensor_count_);
    file_->index_.reserve(tensor_count_);
    for (uint64_t i = 0; i < tensor_count_; ++i) RETURN_IF_ERROR(ReadTensor(i));
    return PlaceTensors();
  }

 private:
  const std::string& path() const { return file_->path_; }
  uint64_t left() const { return bytes_.size() - pos_; }

  template <class T>
  Status Read(T* value, std::string_view what) {
    if (left() < sizeof(T)) {
      return InvalidArgument("'{}': file ends inside {} (byte {} of {})", path(), what, pos_,
                             bytes_.size());
    }
    std::memcpy(value, bytes_.data() + pos_, sizeof(T));
    pos_ += sizeof(T);
    return OkStatus();
  }

  Status ReadString(std::string_view* text, uint64_t max_bytes, std::string_view what) {
    uint64_t length = 0;
    RETURN_IF_ERROR(Read(&length, what));
    if (length > max_bytes) {
      return InvalidArgument("'{}': {} has {} bytes, over the limit of {}", path(), what, length,
                             max_bytes);
    }
    if (length > left()) {
      return InvalidArgument("'{}': {} has {} bytes, but only {} are left in the file", path(),
                             what, length, left());
    }
    *text = {reinterpret_cast<const char*>(bytes_.data() + pos_), length};
    pos_ += length;
    return OkStatus();
  }

  Status ReadCounts();
  Status ReadKeyValue(uint64_t index);
  Status ReadScalar(std::string_view key, MetaValue* value);
  Status ReadArray(std::string_view key, MetaValue* value);
  Status ReadGeneralKeys();
  Status ReadTensor(uint64_t index);
  Status SizeTensor(TensorInfo* tensor) const;
  Status PlaceTensors();

  GgufFile* file_;
  std::span<const std::byte> bytes_;
  uint64_t pos_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
};

Status GgufParser::ReadCounts() {
  uint32_t magic = 0;
  RETURN_IF_ERROR(Read(&magic, "the magic number"));
  if (magic != kMagic) {
    return InvalidArgument("'{}' is not a GGUF file: it starts with 0x{:08x}, not 'GGUF'", path(),
                           magic);
  }
  uint32_t version = 0;
  RETURN_IF_ERROR(Read(&version, "the version"));
  if (version == 0x02000000 || version == 0x03000000) {
    return Unimplemented("'{}': big-endian GGUF is not supported", path());
  }
  if (version != 2 && version != 3) {
    return Unimplemented("'{}': GGUF version {} is not supported (supported: 2, 3)", path(),
                         version);
  }
  file_->version_ = version;
  RETURN_IF_ERROR(Read(&tensor_count_, "the tensor count"));
  RETURN_IF_ERROR(Read(&key_count_, "the metadata count"));
  // The smallest tensor entry has 8 + 4 + 8 + 4 + 8 bytes, the smallest key-value 8 + 4 + 1.
  const uint64_t max_tensors = std::min(kGgufMaxTensors, left() / 32);
  if (tensor_count_ > max_tensors) {
    return InvalidArgument("'{}': {} tensors announced, over the limit of {}", path(),
                           tensor_count_, max_tensors);
  }
  const uint64_t max_keys = std::min(kGgufMaxKeys, left() / 13);
  if (key_count_ > max_keys) {
    return InvalidArgument("'{}': {} metadata keys announced, over the limit of {}", path(),
                           key_count_, max_keys);
  }
  return OkStatus();
}

Status GgufParser::ReadKeyValue(uint64_t index) {
  std::string_view key;
  RETURN_IF_ERROR(ReadString(&key, kGgufMaxKeyBytes, fmt::format("metadata key {}", index)));
  if (key.empty()) return InvalidArgument("'{}': metadata key {} is empty", path(), index);
  uint32_t type = 0;
  RETURN_IF_ERROR(Read(&type, "a metadata type"));
  MetaValue value;
  if (type >= kMetaTypeCount) {
    return InvalidArgument("'{}': metadata key '{}' has type {}, the largest known is {}", path(),
                           Printable(key), type, kMetaTypeCount - 1);
  }
  value.type = static_cast<MetaType>(type);
  if (value.type == MetaType::kArray) {
    RETURN_IF_ERROR(ReadArray(key, &value));
  } else {
    RETURN_IF_ERROR(ReadScalar(key, &value));
  }
  if (!file_->metadata_.Add(key, value)) {
    return InvalidArgument("'{}': metadata key '{}' appears twice", path(), Printable(key));
  }
  return OkStatus();
}

Status GgufParser::ReadScalar(std::string_view key, MetaValue* value) {
  if (value->type == MetaType::kString) {
    std::string_view text;
    RETURN_IF_ERROR(ReadString(&text, std::numeric_limits<uint32_t>::max(),
                               fmt::format("the string of metadata key '{}'", Printable(key))));
    value->bytes = std::as_bytes(std::span(text));
    return OkStatus();
  }
  const size_t size = MetaTypeBytes(value->type);
  if (left() < size) {
    return InvalidArgument("'{}': file ends inside the value of metadata key '{}'", path(),
                           Printable(key));
  }
  value->bytes = bytes_.subspan(pos_, size);
  pos_ += size;
  if (value->type == MetaType::kBool && static_cast<uint8_t>(value->bytes[0]) > 1) {
    return InvalidArgument("'{}': metadata key '{}' is a bool of value {}, must be 0 or 1", path(),
                           Printable(key), static_cast<unsigned>(value->bytes[0]));
  }
  return OkStatus();
}

Status GgufParser::ReadArray(std::string_view key, MetaValue* value) {
  uint32_t element = 0;
  RETURN_IF_ERROR(Read(&element, "an array's element type"));
  RETURN_IF_ERROR(Read(&value->count, "an array's length"));
  if (element >= kMetaTypeCount) {
    return InvalidArgument(
        "'{}': metadata key '{}' has elements of type {}, the largest known is "
        "{}",
        path(), Printable(key), element, kMetaTypeCount - 1);
  }
  value->element_type = static_cast<MetaType>(element);
  if (value->element_type == MetaType::kArray) {
    return Unimplemented("'{}': metadata key '{}' is an array of arrays, which is not supported",
                         path(), Printable(key));
  }
  const size_t fixed = MetaTypeBytes(value->element_type);
  const uint64_t smallest = fixed > 0 ? fixed : 8;
  if (value->count > left() / smallest) {
    return InvalidArgument("'{}': metadata key '{}' has {} elements, but only {} bytes are left",
                           path(), Printable(key), value->count, left());
  }
  const uint64_t begin = pos_;
  if (fixed > 0) {
    pos_ += value->count * fixed;
  } else {
    for (uint64_t i = 0; i < value->count; ++i) {
      // As ReadString, without building a message for each of 150,000 tokens.
      uint64_t length = 0;
      if (left() >= 8) std::memcpy(&length, bytes_.data() + pos_, 8);
      if (left() < 8 || length > left() - 8) {
        return InvalidArgument(
            "'{}': string {} of metadata key '{}' has {} bytes, but only {} are "
            "left",
            path(), i, Printable(key), length, left());
      }
      pos_ += 8 + length;
    }
  }
  value->bytes = bytes_.subspan(begin, pos_ - begin);
  return OkStatus();
}

Status GgufParser::ReadGeneralKeys() {
  const Metadata& metadata = file_->metadata_;
  ASSIGN_OR_RETURN(const std::string_view architecture, metadata.GetString("general.architecture"));
  file_->architecture_ = std::string(architecture);
  // The converters permute q and k of the llama family for rotations of neighbours.
  file_->rope_layout_ = architecture == "llama" ? RopeLayout::kNorm : RopeLayout::kNeox;
  ASSIGN_OR_RETURN(file_->alignment_, metadata.GetU64Or("general.alignment", 32));
  if (!std::has_single_bit(file_->alignment_) || file_->alignment_ > kGgufMaxAlignment) {
    return InvalidArgument("'{}': general.alignment is {}, must be a power of two up to {}", path(),
                           file_->alignment_, kGgufMaxAlignment);
  }
  ASSIGN_OR_RETURN(const uint64_t splits, metadata.GetU64Or("split.count", 0));
  if (splits > 1) {
    return Unimplemented("'{}' is one of {} split files; join them into one GGUF first", path(),
                         splits);
  }
  return OkStatus();
}

Status GgufParser::ReadTensor(uint64_t index) {
  TensorInfo tensor;
  RETURN_IF_ERROR(ReadString(&tensor.name, kGgufMaxTensorNameBytes,
                             fmt::format("the name of tensor {}", index)));
  if (tensor.name.empty()) return InvalidArgument("'{}': tensor {} has no name", path(), index);
  uint32_t rank = 0;
  RETURN_IF_ERROR(Read(&rank, "a tensor's rank"));
  if (rank < 1 || rank > 4) {
    return InvalidArgument("'{}': tensor '{}' has {} dimensions, must be 1 to 4", path(),
                           Printable(tensor.name), rank);
  }
  tensor.rank = static_cast<int32_t>(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t dim = 0;
    RETURN_IF_ERROR(Read(&dim, "a tensor's shape"));
    if (dim < 1 || dim > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      return InvalidArgument("'{}': tensor '{}' has dimension {} of size {}, must be in [1, {}]",
                             path(), Printable(tensor.name), i, dim,
                             std::numeric_limits<int32_t>::max());
    }
    tensor.dims[i] = static_cast<int64_t>(dim);
  }
  uint32_t type = 0;
  RETURN_IF_ERROR(Read(&type, "a tensor's type"));
  RETURN_IF_ERROR(Read(&tensor.offset, "a tensor's offset"));
  const std::optional<DType> dtype = FromGgufType(type);
  if (!dtype) {
    return Unimplemented("'{}': tensor '{}' has type {}, which is not supported (supported: {})",
                         path(), Printable(tensor.name), UnsupportedTypeName(type),
                         SupportedTypeNames());
  }
  tensor.type = *dtype;
  RETURN_IF_ERROR(SizeTensor(&tensor));
  if (!file_->AddTensor(tensor)) {
    return InvalidArgument("'{}': tensor '{}' appears twice", path(), Printable(tensor.name));
  }
  return OkStatus();
}

Status GgufParser::SizeTensor(TensorInfo* tensor) const {
  const DTypeInfo& info = Info(tensor->type);
  if (tensor->cols() % info.block_elements != 0) {
    return InvalidArgument("'{}': tensor '{}' has rows of {} elements, {} needs a multiple of {}",
                           path(), Printable(tensor->name), tensor->cols(), info.name,
                           info.block_elements);
  }
  // Each factor is below 2^31; the running product is compared with the file before it can
  // overflow.
  uint64_t size = static_cast<uint64_t>(tensor->cols() / info.block_elements) *
                  static_cast<uint64_t>(info.block_bytes);
  for (int i = 1; i < 4; ++i) {
    if (size > bytes_.size()) break;
    size *= static_cast<uint64_t>(tensor->dims[static_cast<size_t>(i)]);
  }
  if (size > bytes_.size()) {
    return InvalidArgument("'{}': tensor '{}' needs more bytes than the file's {}", path(),
                           Printable(tensor->name), bytes_.size());
  }
  tensor->bytes = size;
  return OkStatus();
}

// Offsets count from the first aligned byte after the directory, which is known only now.
Status GgufParser::PlaceTensors() {
  const uint64_t data_begin = RoundUp(pos_, file_->alignment_);
  const uint64_t room = data_begin < bytes_.size() ? bytes_.size() - data_begin : 0;
  std::vector<TensorInfo*> order;
  for (TensorInfo& tensor : file_->tensors_) {
    if (tensor.offset % file_->alignment_ != 0) {
      return InvalidArgument("'{}': tensor '{}' starts at {}, not a multiple of the alignment {}",
                             path(), Printable(tensor.name), tensor.offset, file_->alignment_);
    }
    if (tensor.offset > room || tensor.bytes > room - tensor.offset) {
      return InvalidArgument("'{}': tensor '{}' spans bytes {} to {} of the data, which has {}",
                             path(), Printable(tensor.name), tensor.offset,
                             tensor.offset + tensor.bytes, room);
    }
    tensor.offset += data_begin;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset) {
      return InvalidArgument("'{}': tensors '{}' and '{}' overlap", path(),
                             Printable(order[i - 1]->name), Printable(order[i]->name));
    }
  }
  return OkStatus();
}

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, MappedFile::Open(path));
  std::unique_ptr<GgufFile> file(new GgufFile(path));
  const std::span<const std::byte> bytes = mapping->bytes();
  file->files_.push_back(std::move(mapping));
  RETURN_IF_ERROR(GgufParser(file.get(), bytes).Parse());
  return file;
}

}  // namespace ballast
