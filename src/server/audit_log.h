// Role: the audit log: one JSON line an event, appended to a file (docs/howto/tenants.md lists the
// members). Never holds prompts or replies. Thread: any thread writes; a thread of its own does the
// file's work, so a slow disk holds nobody up. Bounds: 16 MiB of waiting lines; what is over is
// dropped and counted in the next line.
#ifndef BALLAST_SERVER_AUDIT_LOG_H_
#define BALLAST_SERVER_AUDIT_LOG_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/json.h"
#include "base/result.h"

namespace ballast {

class AuditLog {
 public:
  /// Opens for appending; a new file has mode 0600. Errors: kUnavailable naming the path.
  static Result<std::shared_ptr<AuditLog>> Open(const std::string& path);
  /// Writes what waits.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Adds {"time": …, "event": event, …members}. Does not wait for the disk.
  void Write(std::string_view event, const Json& members);
  /// Opens the path anew, for rotated files; lines so far go to the old file. On an error the old
  /// file stays in use.
  Status Reopen();

 private:
  AuditLog(std::string path, int fd);
  void Run();
  /// Waits until every line so far is written.
  void Flush(std::unique_lock<std::mutex>& lock);
  void WriteOut(const std::string& lines);

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  int fd_;
  std::string waiting_;
  int64_t dropped_ = 0;
  bool writing_ = false;
  bool failing_ = false;  // the latest write failed
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_AUDIT_LOG_H_
