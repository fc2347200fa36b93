// Role: logging through spdlog, to stderr: lines of text for people or of JSON for collectors.
// Prompts and completions are never logged. Thread: safe from any thread; the request scope is the
// thread's own.
#ifndef BALLAST_BASE_LOG_H_
#define BALLAST_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace ballast {

enum class LogFormat {
  kText,  // "2026-11-30T12:00:00.000 INFO message name=value", local time
  kJson,  // {"time":"…Z","level":"info","message":"…","name":value}, UTC
};

/// Installs the stderr logger. `level` is trace, debug, info, warn, error or off.
void InitLog(std::string_view level, LogFormat format = LogFormat::kText);

/// A named value of a line. Views must live for the call.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, double> value;
};

/// Logs `message` with fields of its own.
void LogEvent(spdlog::level::level_enum level, std::string_view message,
              std::span<const LogField> fields);

/// Lines that this thread logs carry "request_id" while the scope lives. Scopes nest.
class LogRequestScope {
 public:
  /// `id` must outlive the scope.
  explicit LogRequestScope(std::string_view id);
  ~LogRequestScope();
  LogRequestScope(const LogRequestScope&) = delete;
  LogRequestScope& operator=(const LogRequestScope&) = delete;

 private:
  const std::string_view outer_;
};

/// The line of `message` in JSON, without the line end. For the formatter and its test.
std::string JsonLogLine(std::string_view time, std::string_view level, std::string_view message,
                        std::string_view request_id, std::span<const LogField> fields);

}  // namespace ballast

#define LOG_DEBUG(...) SPDLOG_DEBUG(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

#endif  // BALLAST_BASE_LOG_H_
