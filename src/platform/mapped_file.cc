#include "platform/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace ballast {

namespace {

constexpr uintptr_t kPage = 4096;

// What the SIGBUS handler knows of a mapping. `begin` is set last and cleared first.
struct Guard {
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};
std::array<Guard, 1024> guards;  // constant-initialised: safe for the handler
std::mutex guards_mutex;
struct sigaction previous_action;

void OnBusError(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const int saved_errno = errno;
  for (Guard& guard : guards) {
    const uintptr_t begin = guard.begin.load();
    if (begin == 0 || address < begin || address >= guard.end.load()) continue;
    void* page = reinterpret_cast<void*>(address / kPage * kPage);
    if (mmap(page, kPage, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == page) {
      guard.damaged.store(true);
      errno = saved_errno;
      return;
    }
  }
  // Not ours: the instruction runs again under the former action; one that was sent is sent again.
  sigaction(SIGBUS, &previous_action, nullptr);
  if (info->si_code <= 0) raise(SIGBUS);
}

// The slot, or -1 when all are taken (the mapping is then unguarded).
int AddGuard(const std::byte* data, size_t size) {
  const std::lock_guard lock(guards_mutex);
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGBUS, &action, &previous_action) == 0;
  }();
  if (!installed) return -1;
  for (size_t i = 0; i < guards.size(); ++i) {
    if (guards[i].begin.load() != 0) continue;
    guards[i].damaged.store(false);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    guards[i].end.store(begin + size);
    guards[i].begin.store(begin);
    return static_cast<int>(i);
  }
  return -1;
}

int64_t ModifiedNs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

MappedFile::MappedFile(std::string path, int fd, int64_t modified_ns,
                       std::span<const std::byte> bytes)
    : path_(std::move(path)),
      fd_(fd),
      modified_ns_(modified_ns),
      guard_(AddGuard(bytes.data(), bytes.size())),
      data_(bytes.data()),
      size_(bytes.size()) {}

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
  if (data == MAP_FAILED) {
    close(fd);
    return Unavailable("cannot map '{}' ({} bytes): {}", path, size, std::strerror(errno));
  }
  return std::unique_ptr<MappedFile>(
      new MappedFile(path, fd, ModifiedNs(info), {static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(data_), size_);
  close(fd_);
  const std::lock_guard lock(guards_mutex);
  if (guard_ >= 0) guards[static_cast<size_t>(guard_)].begin.store(0);
}

Status MappedFile::CheckIntact() const {
  struct stat info{};
  const bool known = fstat(fd_, &info) == 0;
  if (known && static_cast<size_t>(info.st_size) < size_) {
    return Unavailable("'{}' was cut short from {} to {} bytes while it was read", path_, size_,
                       info.st_size);
  }
  const bool damaged = guard_ >= 0 && guards[static_cast<size_t>(guard_)].damaged.load();
  if (!known || damaged || ModifiedNs(info) != modified_ns_) {
    return Unavailable("'{}' changed while it was read", path_);
  }
  return OkStatus();
}

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
