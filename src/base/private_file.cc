#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/crypto.h"
#include "base/encoding.h"

namespace ballast {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool Close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || close(fd) == 0;
  }

 private:
  int fd_;
};

Error SystemError(std::string_view what, const std::string& path) {
  return Unavailable("cannot {} '{}': {}", what, path, std::strerror(errno));
}

// The name of a file is safe on disk only when its folder is.
void SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const Descriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) fsync(fd.get());
}

}  // namespace

bool WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

Result<std::string> ReadPrivateFile(const std::string& path, size_t max_bytes) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kPermissionDenied;
    return MakeError(code, "cannot open '{}': {}", path, std::strerror(errno));
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return SystemError("read", path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument("'{}' is not a regular file", path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return MakeError(Code::kPermissionDenied,
                     "'{}' has mode {:04o}: others may use it; make it 0600 (chmod 600)", path,
                     static_cast<unsigned>(info.st_mode & 07777));
  }
  std::string content;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t size = read(fd.get(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return SystemError("read", path);
    if (size == 0) return content;
    content.append(buffer, static_cast<size_t>(size));
    if (content.size() > max_bytes) {
      return InvalidArgument("'{}' is larger than the limit of {} bytes", path, max_bytes);
    }
  }
}

Status WritePrivateFile(const std::string& path, std::string_view content, IfPresent if_present) {
  const std::string temporary = path + ".new-" + Hex(RandomBytes(6));
  Descriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return SystemError("create", temporary);
  if (!WriteAll(fd.get(), content) || fsync(fd.get()) != 0 || !fd.Close()) {
    const Error error = SystemError("write", temporary);
    unlink(temporary.c_str());
    return error;
  }
  int failed = 0;
  if (if_present == IfPresent::kReplace) {
    failed = rename(temporary.c_str(), path.c_str());
  } else {
    failed = link(temporary.c_str(), path.c_str());  // fails where rename would replace
  }
  const int reason = errno;
  if (failed != 0 || if_present == IfPresent::kKeep) unlink(temporary.c_str());
  errno = reason;
  if (failed != 0 && reason == EEXIST) {
    return MakeError(Code::kAlreadyExists, "'{}' is there already", path);
  }
  if (failed != 0) return SystemError("put in place", path);
  SyncFolderOf(path);
  return OkStatus();
}

Status MakePrivateFolder(const std::string& path) {
  std::string made;
  for (const auto& part : std::filesystem::path(path)) {
    made = made.empty() ? part.string() : (std::filesystem::path(made) / part).string();
    if (made.empty() || made == "/") continue;
    if (mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    // An existing folder above may not be ours to write to.
    if (struct stat info{}; stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    return SystemError("create the folder", made);
  }
  if (struct stat info{}; stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Unavailable("'{}' is not a folder", path);
  }
  return OkStatus();
}

}  // namespace ballast
