#include "worker/objectives/patterns.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/study/output_pattern.h"
#include "worker/objectives/result_line.h"

namespace luthier::worker {
namespace {

constexpr size_t kMaxLine = 4096;

}  // namespace

struct PatternMatcher::State {
  struct Entry {
    std::string metric;
    study::OutputPattern pattern;
    std::optional<std::string> last;
  };
  std::vector<Entry> entries;
};

PatternMatcher::PatternMatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
PatternMatcher::PatternMatcher(PatternMatcher&&) noexcept = default;
PatternMatcher& PatternMatcher::operator=(PatternMatcher&&) noexcept = default;
PatternMatcher::~PatternMatcher() = default;

absl::StatusOr<PatternMatcher> PatternMatcher::Create(const std::map<std::string, std::string>& patterns) {
  auto state = std::make_unique<State>();
  for (const auto& [metric, pattern] : patterns) {
    absl::StatusOr<study::OutputPattern> compiled = study::OutputPattern::Compile(pattern);
    if (!compiled.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(metric), ", ",
                                                     base::Quote(pattern), ", ", compiled.status().message()));
    }
    state->entries.push_back({metric, *std::move(compiled), std::nullopt});
  }
  return PatternMatcher(std::move(state));
}

void PatternMatcher::AddLine(absl::string_view line) {
  for (absl::string_view piece : absl::StrSplit(line, '\r')) {
    piece = piece.substr(0, kMaxLine);
    for (State::Entry& entry : state_->entries) {
      if (std::optional<std::string> match = entry.pattern.LastMatch(piece)) entry.last = std::move(match);
    }
  }
}

absl::StatusOr<std::map<std::string, double>> PatternMatcher::Values() const {
  std::map<std::string, double> out;
  for (const State::Entry& entry : state_->entries) {
    if (!entry.last) continue;
    const std::optional<double> value = ParseNumber(*entry.last);
    if (!value) {
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(entry.metric), " matched ",
                                                     base::Quote(*entry.last), ", which is no number"));
    }
    out[entry.metric] = *value;
  }
  return out;
}

}  // namespace luthier::worker
