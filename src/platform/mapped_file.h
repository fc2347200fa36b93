// Role: a read-only file mapping whose consumed ranges can be given back, so that loading weights
// never holds the file and its packed copy in memory at once. Invariant: a file that is cut short
// while it is mapped does not end the process: what is missing reads as zeros and CheckIntact says
// so (a SIGBUS handler, installed with the first mapping, puts zero pages there).
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

  /// Errors: kUnavailable when the file was cut short or written to since Open: what was read may
  /// be wrong. Call it after the last read.
  Status CheckIntact() const;

  /// Tells the OS that [offset, offset + size) is wanted soon.
  void WillNeed(size_t offset, size_t size) const;
  /// Drops whole pages inside the range from this process; a later read faults them in again.
  void Release(size_t offset, size_t size) const;

 private:
  MappedFile(std::string path, int fd, int64_t modified_ns, std::span<const std::byte> bytes);

  std::string path_;
  int fd_;
  int64_t modified_ns_;
  int guard_;  // slot of the SIGBUS handler, or -1
  const std::byte* data_;
  size_t size_;
};

}  // namespace ballast

#endif  // BALLAST_PLATFORM_MAPPED_FILE_H_
