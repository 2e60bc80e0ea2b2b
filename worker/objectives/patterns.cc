#include "worker/objectives/patterns.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
    std::optional<double> value;
    std::string unreadable;  // Describes the last value, if it is not a number.
  };
  std::vector<Entry> entries;
  std::string metric;
  std::optional<study::OutputPattern> step_pattern;
  std::optional<int64_t> step;  // Step of `values`; absent: they belong to no point.
  int64_t last_step = -1;
  std::map<std::string, double> values;  // Found since the step began.

  std::optional<PatternMatcher::Point> Close() {
    std::optional<PatternMatcher::Point> point;
    if (step && values.contains(metric)) point = PatternMatcher::Point{*step, values};
    values.clear();
    return point;
  }
  // Returns the step that the line names, if any.
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
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(name), ", ", base::Quote(pattern),
                                                     ", ", compiled.status().message()));
    }
    if (name == study::kStepPattern && metric != study::kStepPattern) {
      state->step_pattern = *std::move(compiled);
    } else {
      state->entries.push_back({name, *std::move(compiled), std::nullopt, ""});
    }
  }
  return PatternMatcher(std::move(state));
}

std::optional<PatternMatcher::Point> PatternMatcher::AddLine(const TextLine& line) {
  absl::string_view text = line.text.substr(0, kMaxLine);
  // A number that the limit cuts is another one.
  if (text.size() < line.text.size()) text = text.substr(0, text.find_last_of(" \t") + 1);
  std::optional<Point> point;
  if (state_->step_pattern) point = state_->TakeStep(text);
  for (State::Entry& entry : state_->entries) {
    const std::optional<std::string> found = entry.pattern.LastValue(text);
    if (!found) continue;
    entry.value = ParseNumber(*found);
    if (entry.value) {
      state_->values[entry.metric] = *entry.value;
    } else {
      // An older value of the step does not stand in for it.
      state_->values.erase(entry.metric);
      entry.unreadable =
          absl::StrCat("line ", line.number, " of standard output, ", base::Quote(text), ": the pattern for ",
                       base::Quote(entry.metric), " finds ", base::Quote(*found), ", which is no number");
    }
  }
  return point;
}

std::optional<PatternMatcher::Point> PatternMatcher::End() {
  return state_->Close();
}

absl::StatusOr<PatternMatcher::Found> PatternMatcher::Values() const {
  Found found;
  for (const State::Entry& entry : state_->entries) {
    if (entry.value) {
      found.values[entry.metric] = *entry.value;
    } else if (!entry.unreadable.empty()) {
      if (entry.metric == state_->metric) return absl::InvalidArgumentError(entry.unreadable);
      found.notes.push_back(absl::StrCat("metric ", base::Quote(entry.metric), " is left out: ", entry.unreadable));
    }
  }
  return found;
}

}  // namespace luthier::worker
