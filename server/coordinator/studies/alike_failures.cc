#include "server/coordinator/studies/alike_failures.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace luthier::coordinator {

namespace {

std::string WithoutDigits(absl::string_view line) {
  std::string out;
  for (const char c : line) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

}  // namespace

std::string LastLine(absl::string_view message) {
  const std::vector<absl::string_view> lines = absl::StrSplit(message, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const absl::string_view text = absl::StripAsciiWhitespace(*line);
    if (!text.empty()) return std::string(text);
  }
  return "";
}

bool AreAlike(const study::Failure& a, const study::Failure& b) {
  if (a.kind != study::FailureKind::kConfig || b.kind != study::FailureKind::kConfig || a.reason != b.reason)
    return false;
  for (const char* of_settings : {study::failure::kNonFinite, study::failure::kMemoryLimit, study::failure::kTimeout}) {
    if (a.reason == of_settings) return false;
  }
  return WithoutDigits(LastLine(a.message)) == WithoutDigits(LastLine(b.message));
}

}  // namespace luthier::coordinator
