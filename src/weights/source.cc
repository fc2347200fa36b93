#include "weights/source.h"

namespace ballast {

const TensorInfo* WeightSource::FindTensor(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

Result<const TensorInfo*> WeightSource::RequireTensor(std::string_view name) const {
  const TensorInfo* tensor = FindTensor(name);
  if (tensor == nullptr) return NotFound("'{}': tensor '{}' is missing", path_, name);
  return tensor;
}

std::span<const std::byte> WeightSource::TensorBytes(const TensorInfo& tensor) const {
  if (tensor.file == kOwnedFile) return std::as_bytes(std::span(owned_[tensor.offset]));
  return files_[tensor.file]->bytes().subspan(tensor.offset, tensor.bytes);
}

void WeightSource::WillNeed(const TensorInfo& tensor, uint64_t begin, uint64_t size) const {
  if (tensor.file != kOwnedFile) files_[tensor.file]->WillNeed(tensor.offset + begin, size);
}

void WeightSource::Release(const TensorInfo& tensor, uint64_t begin, uint64_t size) const {
  if (tensor.file != kOwnedFile) files_[tensor.file]->Release(tensor.offset + begin, size);
}

void WeightSource::ReleaseAll() const {
  for (const auto& file : files_) file->Release(0, file->bytes().size());
}

Status WeightSource::CheckIntact() const {
  for (const auto& file : files_) RETURN_IF_ERROR(file->CheckIntact());
  return OkStatus();
}

uint64_t WeightSource::file_bytes() const {
  uint64_t total = 0;
  for (const auto& file : files_) total += file->bytes().size();
  return total;
}

bool WeightSource::AddTensor(const TensorInfo& tensor) {
  if (!index_.emplace(tensor.name, tensors_.size()).second) return false;
  tensors_.push_back(tensor);
  return true;
}

}  // namespace ballast
