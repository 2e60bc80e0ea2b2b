#include "lib/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace luthier::base {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Never destroyed: threads of gRPC write to the log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* const made = new spdlog::logger("luthier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    return made;
  }();
  return *logger;
}

void AppendValue(std::string* out, absl::string_view value) {
  const std::string shown = Printable(value, "\"\\");
  if (!value.empty() && shown == value && value.find_first_of(" =") == absl::string_view::npos) {
    *out += shown;
  } else {
    absl::StrAppend(out, "\"", shown, "\"");
  }
}

}  // namespace

void SetLogLevel(LogLevel level) {
  Logger().set_level(ToSpdlog(level));
}

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  if (text == "debug")
    *level = LogLevel::kDebug;
  else if (text == "info")
    *level = LogLevel::kInfo;
  else if (text == "warning")
    *level = LogLevel::kWarning;
  else if (text == "error")
    *level = LogLevel::kError;
  else if (text == "off")
    *level = LogLevel::kOff;
  else
    return false;
  return true;
}

std::string FormatLogLine(absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const auto& [key, value] : fields) {
    line += ' ';
    line.append(key.data(), key.size());
    line += '=';
    AppendValue(&line, value);
  }
  return line;
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(ToSpdlog(level))) return;
  logger.log(ToSpdlog(level), "{}", FormatLogLine(event, fields));
}

}  // namespace luthier::base
