#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <string>

namespace ballast {

void InitLog(std::string_view level) {
  auto logger = spdlog::get("ballast");
  if (!logger) logger = spdlog::stderr_color_mt("ballast");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%L%$ %v");
  spdlog::set_default_logger(logger);
}

}  // namespace ballast
