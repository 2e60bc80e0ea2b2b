#include "lib/study/parameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "lib/base/hash.h"

namespace luthier::study {

bool IsName(absl::string_view name) {
  constexpr size_t kMaxBytes = 64;
  if (name.empty() || name.size() > kMaxBytes) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || other(c); });
}

uint64_t HashOf(const Parameters& parameters) {
  std::string bytes;
  const auto append = [&bytes](const auto& number) {
    char raw[sizeof(number)];
    std::memcpy(raw, &number, sizeof(number));
    bytes.append(raw, sizeof(number));
  };
  for (const auto& [name, value] : parameters) {
    append(static_cast<uint32_t>(name.size()));
    bytes += name;
    bytes += static_cast<char>(value.index());
    if (const double* number = std::get_if<double>(&value)) {
      append(*number == 0.0 ? 0.0 : *number);  // -0 equals 0.
    } else if (const bool* flag = std::get_if<bool>(&value)) {
      bytes += static_cast<char>(*flag);
    } else if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
      append(static_cast<uint32_t>(vector->size()));
      for (const double element : *vector) append(element == 0.0 ? 0.0 : element);
    } else {
      const auto& label = std::get<std::string>(value);
      append(static_cast<uint32_t>(label.size()));
      bytes += label;
    }
  }
  return base::Hash64(bytes);
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
  if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
    std::string out = "[";
    for (size_t k = 0; k < vector->size(); ++k) {
      if (k > 0) out += ", ";
      out += FormatDouble((*vector)[k]);
    }
    return out + "]";
  }
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
