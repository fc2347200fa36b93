// Role: logging through spdlog, to stderr. Prompts and completions are never logged.
// Thread: safe from any thread.
#ifndef BALLAST_BASE_LOG_H_
#define BALLAST_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <string_view>

namespace ballast {

/// Installs the stderr logger. `level` is trace, debug, info, warn, error or off.
void InitLog(std::string_view level);

}  // namespace ballast

#define LOG_DEBUG(...) SPDLOG_DEBUG(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

#endif  // BALLAST_BASE_LOG_H_
