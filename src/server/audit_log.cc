#include "server/audit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"

namespace ballast {

namespace {

constexpr size_t kMaxWaitingBytes = 16u << 20;

int OpenForAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

int64_t NowUnixMs() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

}  // namespace

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
  Json line{{"time", UtcTimestamp(NowUnixMs())}, {"event", event}};
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
  const bool failed = !WriteAll(fd_, lines);
  if (failed && !failing_) {
    LOG_ERROR("cannot write to the audit log '{}': {}", path_, std::strerror(errno));
  }
  failing_ = failed;
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
