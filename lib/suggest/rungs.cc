#include "lib/suggest/rungs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/suggest/registry.h"

namespace luthier::suggest {
namespace {

constexpr int32_t kMaxEta = 1000;
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

std::vector<Bracket> Brackets(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options) {
  const int most = MaxHalvings(*spec.resource, options.eta);
  // A bracket reaches R with at least one setting: few settings begin higher up.
  int64_t trials = options.trials;
  if (trials == 0) trials = std::min(Power(options.eta, most), spec.budget.max_trials);
  return {MakeBracket(spec.resource->max, options.eta, std::min(most, FloorLog(trials, options.eta)), trials)};
}

std::vector<Bracket> Brackets(const study::StudySpec& spec, const study::HyperbandOptions& options) {
  const int most = MaxHalvings(*spec.resource, options.eta);
  std::vector<Bracket> brackets;
  for (int s = most; s >= 0; --s) {
    const int64_t power = Power(options.eta, s);
    const int64_t trials = options.sizes == study::HyperbandSizes::kCeil ? ((most + 1) * power + s) / (s + 1)
                                                                         : ((most + 1) / (s + 1)) * power;
    brackets.push_back(MakeBracket(spec.resource->max, options.eta, s, trials));
  }
  return brackets;
}

std::vector<Bracket> Brackets(const study::StudySpec& spec, const study::AshaOptions& options) {
  // As above: with so many settings floor(|P| / eta) is at least 1 at every rung in the end, so that one is COMPLETE.
  const int halvings = std::min(MaxHalvings(*spec.resource, options.eta) - options.skip_rungs,
                                FloorLog(spec.budget.max_trials, options.eta));
  return {MakeBracket(spec.resource->max, options.eta, halvings, spec.budget.max_trials)};
}

template <typename Options>
std::vector<Bracket> Brackets(const study::StudySpec&, const Options&) {
  return {};
}

void CheckBudget(const study::StudySpec& spec, int32_t eta, base::Violations* violations) {
  if (spec.budget.max_trials >= eta) return;
  violations->Add("budget.max_trials", absl::StrCat(spec.budget.max_trials, " is less than eta, ", eta,
                                                    ": of so few settings none could be left out"));
}

void CheckQuorum(double quorum, const std::string& at, base::Violations* violations) {
  if (!(quorum > 0.0 && quorum <= 1.0)) {
    violations->Add(at + ".quorum", absl::StrCat(study::FormatDouble(quorum), " is not above 0 and at most 1"));
  }
}

}  // namespace

int MaxHalvings(const study::Resource& resource, int32_t eta) {
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

std::vector<Bracket> BracketsOf(const study::StudySpec& spec) {
  return std::visit([&](const auto& options) { return Brackets(spec, options); }, spec.algorithm);
}

std::optional<double> LossAt(const study::HistoryTrial& trial, int64_t step, study::Goal goal) {
  const auto loss = [&](double value) { return std::isfinite(value) ? -study::Score(goal, value) : kInfinity; };
  const auto point = std::lower_bound(trial.points.begin(), trial.points.end(), step,
                                      [](const study::CurvePoint& p, int64_t s) { return p.step < s; });
  if (point != trial.points.end()) return loss(point->value);
  if (trial.state == study::TrialState::kComplete) return loss(*trial.value);
  const bool ended = trial.state == study::TrialState::kFailed || trial.state == study::TrialState::kPruned;
  if (ended && (trial.resource == 0 || trial.resource >= step)) return kInfinity;
  return std::nullopt;
}

int64_t FirstTarget(const study::StudySpec& spec) {
  const auto* asha = std::get_if<study::AshaOptions>(&spec.algorithm);
  if (asha == nullptr || asha->variant != study::AshaVariant::kPromote) return 0;
  return BracketsOf(spec).front().steps.front();
}

void CheckRungs(const study::StudySpec& spec, int32_t eta, base::Violations* violations) {
  const std::string name = study::AlgorithmName(spec.algorithm);
  const std::string at = absl::StrCat("algorithm.", name);
  if (eta < 2 || eta > kMaxEta) {
    violations->Add(at + ".eta", absl::StrCat(eta, " is not between 2 and ", kMaxEta));
  }
  if (!spec.resource) {
    violations->Add("resource", absl::StrCat("is required by ", name,
                                             ": give max, the step of the reports at which a setting has had all its "
                                             "training, e.g. {max: 81, unit: epochs}"));
  } else if (spec.resource->min >= 1 && spec.resource->max >= spec.resource->min && eta >= 2 &&
             MaxHalvings(*spec.resource, eta) < 1) {
    violations->Add("resource.max",
                    absl::StrCat(spec.resource->max, " is less than eta, ", eta, ", times resource.min, ",
                                 spec.resource->min, ": there would be no rung to stop at"));
  }
  if (spec.reproducible) {
    violations->Add("reproducible",
                    absl::StrCat("does not go with ", name, ": which trials go on depends on who was faster"));
  }
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  if (command != nullptr && !command->stdout_patterns.empty()) {
    violations->Add(
        "objective.command.stdout_patterns",
        absl::StrCat("give one result at the end, but ", name,
                     " needs reports on the way; print JSON lines instead (docs/guide/command_objective.md)"));
  }
  study::StudySpec nested = spec;
  nested.algorithm = study::AsAlgorithm(*study::SamplerOf(spec.algorithm));
  violations->AddMoved("algorithm", at + ".sampler", Validate(nested));
}

absl::Status ValidateSuccessiveHalving(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options) {
  base::Violations violations;
  CheckRungs(spec, options.eta, &violations);
  const std::string at = "algorithm.successive_halving";
  CheckQuorum(options.quorum, at, &violations);
  if (options.trials != 0 && (options.trials < options.eta || options.trials > spec.budget.max_trials)) {
    violations.Add(at + ".trials", absl::StrCat(options.trials, " is not between eta, ", options.eta,
                                                ", and budget.max_trials, ", spec.budget.max_trials));
  } else if (options.trials == 0) {
    CheckBudget(spec, options.eta, &violations);
  }
  return violations.ToStatus();
}

absl::Status ValidateHyperband(const study::StudySpec& spec, const study::HyperbandOptions& options) {
  base::Violations violations;
  CheckRungs(spec, options.eta, &violations);
  CheckQuorum(options.quorum, "algorithm.hyperband", &violations);
  if (violations.empty()) {
    const int64_t first = BracketsOf(spec).front().sizes.front();
    if (first > spec.budget.max_trials) {
      violations.Add("budget.max_trials",
                     absl::StrCat(spec.budget.max_trials, " is less than the ", first,
                                  " settings of the first bracket; raise it, or raise resource.min, or take asha"));
    }
  }
  return violations.ToStatus();
}

absl::Status ValidateAsha(const study::StudySpec& spec, const study::AshaOptions& options) {
  base::Violations violations;
  CheckRungs(spec, options.eta, &violations);
  if (violations.empty()) {
    const int halvings = MaxHalvings(*spec.resource, options.eta);
    if (options.skip_rungs < 0 || options.skip_rungs >= halvings) {
      violations.Add("algorithm.asha.skip_rungs",
                     absl::StrCat(options.skip_rungs, " is not between 0 and ", halvings - 1, ": there are ", halvings,
                                  " rungs below resource.max"));
    }
    CheckBudget(spec, options.eta, &violations);
  }
  return violations.ToStatus();
}

}  // namespace luthier::suggest
