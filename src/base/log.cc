#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

#include "base/clock.h"
#include "base/json.h"

namespace ballast {

namespace {

// The logger is synchronous, so what the calling thread set is seen by the formatter.
thread_local std::string_view request_id_of_thread;
thread_local std::span<const LogField> fields_of_line;

void Append(std::string_view text, spdlog::memory_buf_t* out) {
  out->append(text.data(), text.data() + text.size());
}

std::string FieldText(const LogField& field) {
  return std::visit([&](const auto& value) { return fmt::format(" {}={}", field.name, value); },
                    field.value);
}

class TextFields final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    if (!request_id_of_thread.empty()) {
      Append(fmt::format(" request_id={}", request_id_of_thread), &out);
    }
    for (const LogField& field : fields_of_line) Append(FieldText(field), &out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<TextFields>();
  }
};

class JsonLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const auto since_epoch =
        std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch());
    const auto level = spdlog::level::to_string_view(message.level);
    Append(JsonLogLine(UtcTimestamp(since_epoch.count()), {level.data(), level.size()},
                       {message.payload.data(), message.payload.size()}, request_id_of_thread,
                       fields_of_line),
           &out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonLine>();
  }
};

std::unique_ptr<spdlog::formatter> MakeFormatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == LogFormat::kJson) {
    formatter->add_flag<JsonLine>('*').set_pattern("%*");
  } else {
    formatter->add_flag<TextFields>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%L%$ %v%*");
  }
  return formatter;
}

}  // namespace

void InitLog(std::string_view level, LogFormat format) {
  auto logger = spdlog::get("ballast");
  if (!logger) logger = spdlog::stderr_color_mt("ballast");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->set_formatter(MakeFormatter(format));
  spdlog::set_default_logger(logger);
}

void LogEvent(spdlog::level::level_enum level, std::string_view message,
              std::span<const LogField> fields) {
  fields_of_line = fields;
  spdlog::log(level, "{}", message);
  fields_of_line = {};
}

LogRequestScope::LogRequestScope(std::string_view id) : outer_(request_id_of_thread) {
  request_id_of_thread = id;
}
LogRequestScope::~LogRequestScope() { request_id_of_thread = outer_; }

std::string JsonLogLine(std::string_view time, std::string_view level, std::string_view message,
                        std::string_view request_id, std::span<const LogField> fields) {
  Json line{{"time", time}, {"level", level}, {"message", message}};
  if (!request_id.empty()) line["request_id"] = request_id;
  for (const LogField& field : fields) {
    std::visit([&](const auto& value) { line[std::string(field.name)] = value; }, field.value);
  }
  return DumpJson(line);
}

}  // namespace ballast
