#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>

#include "lib/wire/text.h"

namespace luthier::fuzz {

std::vector<Target>& Targets() {
  static auto* const targets = new std::vector<Target>();
  return *targets;
}

bool Register(const char* name, void (*run)(absl::string_view input)) {
  Targets().push_back({name, run});
  return true;
}

void Must(bool holds, absl::string_view promise, absl::string_view more) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n%.*s\n", static_cast<int>(promise.size()), promise.data(),
               static_cast<int>(more.size()), more.data());
  std::abort();
}

void MustExplain(const absl::Status& error) {
  Must(!error.message().empty(), "an error says what is wrong", error.ToString());
  constexpr size_t kMost = size_t{64} << 10;
  Must(error.message().size() <= kMost, "an error's text is bounded", error.ToString().substr(0, 400));
  Must(wire::InvalidUtf8At(error.message()) == error.message().size(), "an error's text is UTF-8", error.ToString());
}

uint8_t Input::Byte() {
  if (rest_.empty()) return 0;
  const auto byte = static_cast<uint8_t>(rest_[0]);
  rest_.remove_prefix(1);
  return byte;
}

absl::string_view Input::Line() {
  const size_t end = rest_.find('\n');
  const absl::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(end == absl::string_view::npos ? rest_.size() : end + 1);
  return line;
}

}  // namespace luthier::fuzz
