#include "worker/objectives/patterns.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
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
  std::string metric;
  std::optional<study::OutputPattern> step_pattern;
  std::optional<int64_t> step;           // Of `values`; absent: they belong to no point.
  int64_t last_step = -1;
  std::map<std::string, double> values;  // Found since the step began.

  std::optional<PatternMatcher::Point> Close() {
    std::optional<PatternMatcher::Point> point;
    if (step && values.contains(metric)) point = PatternMatcher::Point{*step, values};
    values.clear();
    return point;
  }
  // The step that the line names, if any.
  std::optional<PatternMatcher::Point> TakeStep(absl::string_view line) {
    const std::optional<std::string> match = step_pattern->LastMatch(line);
    if (!match) return std::nullopt;
    int64_t number = 0;
    const bool whole = absl::SimpleAtoi(*match, &number) && number >= 0;
    if (whole && step == number) return std::nullopt;
    std::optional<PatternMatcher::Point> point = Close();
    step.reset();
    if (whole && number > last_step) {
      step = number;
      last_step = number;
    }
    return point;
  }
};

PatternMatcher::PatternMatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
PatternMatcher::PatternMatcher(PatternMatcher&&) noexcept = default;
PatternMatcher& PatternMatcher::operator=(PatternMatcher&&) noexcept = default;
PatternMatcher::~PatternMatcher() = default;

absl::StatusOr<PatternMatcher> PatternMatcher::Create(const std::map<std::string, std::string>& patterns,
                                                      const std::string& metric) {
  auto state = std::make_unique<State>();
  state->metric = metric;
  for (const auto& [name, pattern] : patterns) {
    absl::StatusOr<study::OutputPattern> compiled = study::OutputPattern::Compile(pattern);
    if (!compiled.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(name), ", ",
                                                     base::Quote(pattern), ", ", compiled.status().message()));
    }
    if (name == study::kStepPattern && metric != study::kStepPattern) {
      state->step_pattern = *std::move(compiled);
    } else {
      state->entries.push_back({name, *std::move(compiled), std::nullopt});
    }
  }
  return PatternMatcher(std::move(state));
}

std::vector<PatternMatcher::Point> PatternMatcher::AddLine(absl::string_view line) {
  std::vector<Point> points;
  for (absl::string_view piece : absl::StrSplit(line, '\r')) {
    piece = piece.substr(0, kMaxLine);
    if (state_->step_pattern) {
      if (std::optional<Point> point = state_->TakeStep(piece)) points.push_back(*std::move(point));
    }
    for (State::Entry& entry : state_->entries) {
      std::optional<std::string> match = entry.pattern.LastMatch(piece);
      if (!match) continue;
      // A value that is no number is told at the end, if none comes after it.
      if (const std::optional<double> value = ParseNumber(*match)) state_->values[entry.metric] = *value;
      entry.last = std::move(match);
    }
  }
  return points;
}

std::optional<PatternMatcher::Point> PatternMatcher::End() {
  return state_->Close();
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
