#include "server/audit_log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace ballast {

namespace {

constexpr size_t kMaxWaitingBytes = 16u << 20;

int OpenForAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

}  // namespace

std::string UtcTimestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     now.tv_nsec / 1'000'000);
}

Result<std::shared_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  const int fd = OpenForAppend(path);
  if (fd < 0) return Unavailable("cannot append to '{}': {}", path, std::strerror(errno));
  return std::shared_ptr<AuditLog>(new AuditLog(path, fd));
}

AuditLog::AuditLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
  thread_ = std::thread([this] { Run(); });
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  close(fd_);
}

void AuditLog::Write(std::string_view event, const Json& members) {
  Json line{{"time", UtcTimestamp()}, {"event", event}};
  line.update(members);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMaxWaitingBytes) {
      ++dropped_;
      return;
    }
    if (dropped_ > 0) line["dropped_before"] = std::exchange(dropped_, 0);
    waiting_ += DumpJson(line);
    waiting_ += '\n';
  }
  wake_.notify_one();
}

void AuditLog::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::string lines;
    lines.swap(waiting_);
    writing_ = true;
    lock.unlock();
    WriteOut(lines);
    lock.lock();
    writing_ = false;
    idle_.notify_all();
  }
}

// fd_ changes only while nothing is being written.
void AuditLog::WriteOut(const std::string& lines) {
  std::string_view left = lines;
  while (!left.empty()) {
    const ssize_t written = write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (!std::exchange(failing_, true)) {
        LOG_ERROR("cannot write to the audit log '{}': {}", path_, std::strerror(errno));
      }
      return;
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  failing_ = false;
}

void AuditLog::Flush(std::unique_lock<std::mutex>& lock) {
  idle_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

Status AuditLog::Reopen() {
  const int fd = OpenForAppend(path_);
  if (fd < 0) return Unavailable("cannot append to '{}': {}", path_, std::strerror(errno));
  std::unique_lock lock(mutex_);
  Flush(lock);
  close(std::exchange(fd_, fd));
  return OkStatus();
}

}  // namespace ballast
