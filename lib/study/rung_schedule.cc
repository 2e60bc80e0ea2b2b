#include "lib/study/rung_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

namespace luthier::study {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t Power(int64_t base, int exponent) {
  int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= base;
  return power;
}

// floor(log_eta(n)), n >= 1.
int FloorLog(int64_t n, int32_t eta) {
  int log = 0;
  while (n >= eta) {
    n /= eta;
    ++log;
  }
  return log;
}

std::vector<Bracket> Brackets(const StudySpec& spec, const SuccessiveHalvingOptions& options) {
  const int most = MaxHalvings(*spec.resource, options.eta);
  // A bracket reaches R with at least one setting: few settings begin higher up.
  int64_t trials = options.trials;
  if (trials == 0) trials = std::min(Power(options.eta, most), spec.budget.max_trials);
  return {MakeBracket(spec.resource->max, options.eta, std::min(most, FloorLog(trials, options.eta)), trials)};
}

std::vector<Bracket> Brackets(const StudySpec& spec, const HyperbandOptions& options) {
  const int most = MaxHalvings(*spec.resource, options.eta);
  std::vector<Bracket> brackets;
  for (int s = most; s >= 0; --s) {
    const int64_t power = Power(options.eta, s);
    const int64_t trials = ((most + 1) * power + s) / (s + 1);
    brackets.push_back(MakeBracket(spec.resource->max, options.eta, s, trials));
  }
  return brackets;
}

std::vector<Bracket> Brackets(const StudySpec& spec, const AshaOptions& options) {
  // As above: with so many settings floor(|P| / eta) is at least 1 at every rung in the end, so that one is COMPLETE.
  const int halvings = std::min(MaxHalvings(*spec.resource, options.eta) - options.skip_rungs,
                                FloorLog(spec.budget.max_trials, options.eta));
  return {MakeBracket(spec.resource->max, options.eta, halvings, spec.budget.max_trials)};
}

template <typename Options>
std::vector<Bracket> Brackets(const StudySpec&, const Options&) {
  return {};
}

}  // namespace

int MaxHalvings(const Resource& resource, int32_t eta) {
  return FloorLog(resource.max / resource.min, eta);
}

std::vector<int64_t> RungSteps(int64_t max, int32_t eta, int halvings) {
  std::vector<int64_t> steps;
  for (int i = 0; i <= halvings; ++i) {
    const int64_t divisor = Power(eta, halvings - i);
    steps.push_back((2 * max + divisor) / (2 * divisor));
  }
  return steps;
}

Bracket MakeBracket(int64_t max, int32_t eta, int halvings, int64_t trials) {
  Bracket bracket;
  bracket.steps = RungSteps(max, eta, halvings);
  int64_t size = trials;
  for (int i = 0; i <= halvings; ++i, size /= eta) bracket.sizes.push_back(size);
  return bracket;
}

double TrainingOf(const Bracket& bracket, bool checkpoints) {
  double total = 0.0;
  int64_t before = 0;
  for (size_t i = 0; i < bracket.steps.size(); ++i) {
    total += static_cast<double>(bracket.sizes[i]) * static_cast<double>(bracket.steps[i] - before);
    if (checkpoints) before = bracket.steps[i];
  }
  return total;
}

std::vector<Bracket> BracketsOf(const StudySpec& spec) {
  return std::visit([&](const auto& options) { return Brackets(spec, options); }, spec.algorithm);
}

std::optional<double> LossAt(const HistoryTrial& trial, int64_t step, Goal goal) {
  const auto loss = [&](double value) { return std::isfinite(value) ? -Score(goal, value) : kInfinity; };
  const auto point = std::lower_bound(trial.points.begin(), trial.points.end(), step,
                                      [](const CurvePoint& p, int64_t s) { return p.step < s; });
  if (point != trial.points.end()) return loss(point->value);
  if (trial.state == TrialState::kComplete) return loss(*trial.value);
  const bool ended = trial.state == TrialState::kFailed || trial.state == TrialState::kPruned;
  if (ended && (trial.resource == 0 || trial.resource >= step)) return kInfinity;
  return std::nullopt;
}

int64_t FirstTarget(const StudySpec& spec) {
  const auto* asha = std::get_if<AshaOptions>(&spec.algorithm);
  if (asha == nullptr || asha->variant != AshaVariant::kPromote) return 0;
  return BracketsOf(spec).front().steps.front();
}

}  // namespace luthier::study
