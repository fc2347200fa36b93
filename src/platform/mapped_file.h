// Role: a read-only file mapping whose consumed ranges can be given back, so that loading weights
// never holds the file and its packed copy in memory at once.
#ifndef BALLAST_PLATFORM_MAPPED_FILE_H_
#define BALLAST_PLATFORM_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace ballast {

/// Thread: const methods from any thread.
class MappedFile {
 public:
  /// Errors: kNotFound, kPermissionDenied, kInvalidArgument (not a regular file, empty).
  static Result<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Tells the OS that [offset, offset + size) is wanted soon.
  void WillNeed(size_t offset, size_t size) const;
  /// Drops whole pages inside the range from this process; a later read faults them in again.
  void Release(size_t offset, size_t size) const;

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace ballast

#endif  // BALLAST_PLATFORM_MAPPED_FILE_H_
