#include "platform/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ballast {

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Code code = errno == ENOENT   ? Code::kNotFound
                      : errno == EACCES ? Code::kPermissionDenied
                                        : Code::kUnavailable;
    return MakeError(code, "cannot open '{}': {}", path, std::strerror(errno));
  }
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    close(fd);
    return InvalidArgument("'{}' is not a regular, non-empty file", path);
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) {
    return Unavailable("cannot map '{}' ({} bytes): {}", path, size, std::strerror(errno));
  }
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() { munmap(const_cast<std::byte*>(data_), size_); }

void MappedFile::WillNeed(size_t offset, size_t size) const {
  const size_t begin = offset / 4096 * 4096;
  (void)madvise(const_cast<std::byte*>(data_) + begin, size + (offset - begin), MADV_WILLNEED);
}

void MappedFile::Release(size_t offset, size_t size) const {
  const size_t begin = (offset + 4095) / 4096 * 4096;
  const size_t end = (offset + size) / 4096 * 4096;
  if (end > begin) {
    (void)madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace ballast
