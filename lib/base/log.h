#ifndef LUTHIER_LIB_BASE_LOG_H_
#define LUTHIER_LIB_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

// One line per state change and per failure, `time level event key=value …`, to standard error. Values are escaped, so
// a line is always one line. Nothing is logged in inner loops or getters. Thread-safe.
namespace luthier::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

using LogField = std::pair<absl::string_view, std::string>;

// Lines below `level` are dropped. Default: kInfo. Set it before threads start.
void SetLogLevel(LogLevel level);
// Parses "debug", "info", "warning", "error" or "off". Returns false for any other text.
bool ParseLogLevel(absl::string_view text, LogLevel* level);

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields = {});
inline void LogInfo(absl::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarning(absl::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, event, fields);
}
inline void LogError(absl::string_view event, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, event, fields);
}

// Returns `event key=value key="two words"`, the part of a line behind time and level.
std::string FormatLogLine(absl::string_view event, std::initializer_list<LogField> fields);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_LOG_H_
