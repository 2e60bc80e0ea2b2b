#include "lib/study/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace luthier::study {

bool IsName(absl::string_view name) {
  constexpr size_t kMaxBytes = 64;
  if (name.empty() || name.size() > kMaxBytes) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || other(c); });
}

std::string FormatDouble(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

std::string FormatValue(const ParameterValue& value) {
  if (const double* number = std::get_if<double>(&value)) return FormatDouble(*number);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::get<std::string>(value);
}

std::string FormatParameters(const Parameters& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!out.empty()) out += ", ";
    out += name + "=" + FormatValue(value);
  }
  return out;
}

}  // namespace luthier::study
