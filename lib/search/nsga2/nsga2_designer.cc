#include "lib/search/nsga2/nsga2_designer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/search/legal/legal_steps.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/study/metrics.h"

namespace luthier::search {

namespace {

constexpr int32_t kLeastPopulation = 4, kMostPopulation = 10'000;
constexpr size_t kNewestCompared = 1000;
constexpr int kDraws = 10;        // A child that is known is drawn so often,
constexpr int kLegalDraws = 100;  //   and where settings may be illegal also one that is.

int PopulationOf(const study::Nsga2Options& options) {
  return options.population > 0 ? options.population : Nsga2Designer::kDefaultPopulation;
}

// Returns the values of a study's metrics; of one metric, its value.
std::vector<double> ValuesOfResult(const study::StudySpec& spec, const study::HistoryTrial& trial) {
  if (!spec.metrics.empty()) return trial.values;
  return trial.value.has_value() ? std::vector<double>{*trial.value} : std::vector<double>{};
}

// Compares without a copy.
bool SameValues(const study::StudySpec& spec, const study::HistoryTrial& trial, const std::vector<double>& values) {
  return spec.metrics.empty() ? trial.value == values.front() : trial.values == values;
}

// Draws the better of two random members, none of them `without`, an index or the number of members.
size_t Tournament(const std::vector<Nsga2Member>& members, size_t without, base::RandomStream* random) {
  const size_t others = members.size() - (without < members.size() ? 1 : 0);
  const auto draw = [&] {
    const auto place = static_cast<size_t>(random->UniformInt(others));
    return place + (place >= without ? 1 : 0);
  };
  const size_t a = draw(), b = draw();
  return Beats(members[b], members[a]) ? b : a;
}

}  // namespace

absl::Status ValidateNsga2(const study::StudySpec&, const study::Nsga2Options& options) {
  base::Violations violations;
  if (options.population != 0 && (options.population < kLeastPopulation || options.population > kMostPopulation)) {
    violations.Add("algorithm.nsga2.population",
                   absl::StrCat(options.population, " is not 0 (", Nsga2Designer::kDefaultPopulation, ") or between ",
                                kLeastPopulation, " and ", kMostPopulation));
  }
  return violations.ToStatus();
}

Nsga2Designer::Nsga2Designer(const study::StudySpec& spec, const study::Nsga2Options& options)
    : spec_(spec),
      encoding_(spec.space, spec.constraints),
      variation_(encoding_),
      startup_(static_cast<uint64_t>(PopulationOf(options))),
      bounds_(study::HasBounds(spec)),
      population_(study::ObjectiveCount(spec), PopulationOf(options)) {
  Reset();
}

void Nsga2Designer::Reset() {
  taken_.clear();
  values_.clear();
  next_spreads_ = 1;
  spreads_.assign(study::MetricsOf(spec_).size(), 1.0);
  population_.Clear();
}

Nsga2Designer::Result Nsga2Designer::ToResult(const study::History& history, int trial) const {
  const study::HistoryTrial& of_trial = history.trials()[static_cast<size_t>(trial)];
  Result result{.trial = trial, .setting = of_trial.setting};
  if (of_trial.state != study::TrialState::kComplete) return result;
  if (spec_.metrics.empty()) {
    result.usable = of_trial.value.has_value() && std::isfinite(*of_trial.value);
  } else {
    result.usable = of_trial.values.size() == spec_.metrics.size();
  }
  return result;
}

absl::StatusOr<bool> Nsga2Designer::IsContinued(const study::History& history, const base::StopToken& stop) const {
  const std::vector<int>& finished = history.finished();
  if (taken_.size() > finished.size()) return false;
  const auto same_values = [&](int trial, const std::vector<double>& values) {
    return SameValues(spec_, history.trials()[static_cast<size_t>(trial)], values);
  };
  base::Pace pace(stop);
  size_t first = 0;
  if (!spec_.resource && taken_.size() > kNewestCompared) {
    first = taken_.size() - kNewestCompared;
    for (const Nsga2Member& member : population_.members()) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * base::kRandomAccess));
      if (static_cast<size_t>(member.trial) >= history.trials().size()) return false;
      const Result now = ToResult(history, member.trial);
      if (!now.usable || now.setting != member.setting || !same_values(member.trial, member.values)) return false;
    }
  }
  for (size_t k = first; k < taken_.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * base::kRandomAccess));
    const Result now = ToResult(history, finished[k]);
    const Result& then = taken_[k];
    if (now.trial != then.trial || now.setting != then.setting || now.usable != then.usable) return false;
    if (now.usable && !same_values(now.trial, values_[then.place])) return false;
  }
  return true;
}

double Nsga2Designer::ViolationOf(const std::vector<double>& values) const {
  return bounds_ ? study::Violation(spec_.metrics, values, spreads_) : 0.0;
}

absl::Status Nsga2Designer::Take(const study::History& history, int trial, const base::StopToken& stop) {
  Result result = ToResult(history, trial);
  result.place = values_.size();
  if (result.usable) {
    Nsga2Member member;
    member.trial = trial;
    member.setting = result.setting;
    member.values = ValuesOfResult(spec_, history.trials()[static_cast<size_t>(trial)]);
    const std::vector<double> scores = study::ScoresOf(spec_, member.values);
    member.scores = Eigen::Map<const Eigen::VectorXd>(scores.data(), static_cast<Eigen::Index>(scores.size()));
    member.violation = ViolationOf(member.values);
    std::vector<double> values = member.values;
    LUTHIER_RETURN_IF_ERROR(population_.Add(std::move(member), stop));
    values_.push_back(std::move(values));
    if (bounds_ && values_.size() >= next_spreads_) {
      std::vector<const std::vector<double>*> results;
      for (const std::vector<double>& one : values_) results.push_back(&one);
      spreads_ = study::SpreadsOf(spec_, results);
      next_spreads_ = values_.size() + std::max<size_t>(1, values_.size() / 8);
      std::vector<double> violations;
      for (const Nsga2Member& one : population_.members()) violations.push_back(ViolationOf(one.values));
      population_.SetViolations(violations);
    }
  }
  taken_.push_back(result);
  return absl::OkStatus();
}

absl::StatusOr<Suggestion> Nsga2Designer::Breed(const study::History& history, uint64_t ask_index,
                                                const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Nsga2Member> members, population_.Ranked(stop));
  base::RandomStream random(spec_.seed, "nsga2", ask_index);
  const size_t first = Tournament(members, members.size(), &random);
  const size_t second = Tournament(members, first, &random);
  const auto setting_of = [&](size_t k) -> const study::Parameters& {
    return history.trials()[static_cast<size_t>(members[k].trial)].parameters;
  };
  Suggestion suggestion;
  const int draws = encoding_.legal() == nullptr ? kDraws : kLegalDraws;
  for (int i = 0; i < draws; ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(static_cast<int64_t>(members.size()) + int64_t{100} * encoding_.compact_dim()));
    suggestion.parameters = variation_.Child(setting_of(first), setting_of(second), &random);
    const uint64_t setting = study::HashOf(suggestion.parameters);
    const bool known =
        std::any_of(members.begin(), members.end(), [&](const Nsga2Member& m) { return m.setting == setting; });
    if (!known && encoding_.IsLegal(suggestion.parameters)) break;
  }
  if (!encoding_.IsLegal(suggestion.parameters)) {
    suggestion.parameters = encoding_.FromCompact(
        PullToLegal(encoding_, encoding_.ToCompact(setting_of(first)), encoding_.ToCompact(suggestion.parameters)));
  }
  const auto number_of = [&](size_t k) {
    return static_cast<double>(history.trials()[static_cast<size_t>(members[k].trial)].number);
  };
  suggestion.origin = "nsga2";
  suggestion.details = {{"first_parent", number_of(first)},
                        {"second_parent", number_of(second)},
                        {"population", static_cast<double>(members.size())}};
  return suggestion;
}

absl::StatusOr<Suggestion> Nsga2Designer::Suggest(const study::History& history, uint64_t ask_index,
                                                  const base::StopToken& stop) {
  if (ask_index >= startup_) {
    LUTHIER_ASSIGN_OR_RETURN(const bool continued, IsContinued(history, stop));
    if (!continued) Reset();
    const std::vector<int>& finished = history.finished();
    base::Pace pace(stop);
    // A stop between two results keeps those taken; the next ask goes on from there.
    for (size_t k = taken_.size(); k < finished.size(); ++k) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(static_cast<int64_t>(1 + population_.members().size())));
      LUTHIER_RETURN_IF_ERROR(Take(history, finished[k], stop));
    }
    if (population_.members().size() >= 2) return Breed(history, ask_index, stop);
  }
  Suggestion suggestion;
  suggestion.parameters = ExplorationPoint(encoding_, spec_.seed, ask_index);
  suggestion.origin = "random";
  return suggestion;
}

}  // namespace luthier::search
