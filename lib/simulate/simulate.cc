#include "lib/simulate/simulate.h"

#include <time.h>

#include <cmath>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/test_functions.h"
#include "lib/search/registry.h"
#include "lib/study/history.h"

namespace luthier::simulate {
namespace {

study::StudySpec SpecOf(const SimulateOptions& options, uint64_t seed) {
  study::StudySpec spec;
  spec.space = options.problem.space;
  spec.metric = {"value", options.problem.goal};
  spec.algorithm = options.algorithm;
  spec.budget.max_trials = options.evaluations;
  spec.budget.max_parallel = options.parallel;
  spec.seed = seed;
  return spec;
}

absl::Status Validate(const SimulateOptions& options) {
  base::Violations violations;
  if (options.evaluations < 1 || options.evaluations > study::kMaxTrials) {
    violations.Add("evaluations", absl::StrCat(options.evaluations, " is not between 1 and ", study::kMaxTrials));
  }
  constexpr int64_t kMaxSeeds = 1'000'000;
  if (options.seeds < 1 || options.seeds > kMaxSeeds) {
    violations.Add("seeds", absl::StrCat(options.seeds, " is not between 1 and ", kMaxSeeds));
  }
  if (options.parallel < 1 || options.parallel > study::kMaxParallel) {
    violations.Add("parallel", absl::StrCat(options.parallel, " is not between 1 and ", study::kMaxParallel));
  }
  if (!(options.noise >= 0.0) || std::isinf(options.noise)) {
    violations.Add("noise", absl::StrCat(options.noise, " is not a standard deviation: finite, not negative"));
  }
  if (!options.problem.evaluate) violations.Add("problem.evaluate", "is required");
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  const study::StudySpec spec = SpecOf(options, options.first_seed);
  LUTHIER_RETURN_IF_ERROR(study::ValidateSpec(spec));
  return search::Validate(spec);
}

struct Running {
  double end;  // Simulated time.
  int64_t number;
  double suggest_ms;
  std::vector<double> direction;
};
struct EndsLater {
  bool operator()(const Running& a, const Running& b) const {
    return a.end != b.end ? a.end > b.end : a.number > b.number;
  }
};

// Returns the gradient that is reported beside the value.
std::optional<study::Gradient> Differentiate(const Problem& problem, const study::Parameters& parameters,
                                             const std::vector<double>& direction) {
  if (!problem.gradient) return std::nullopt;
  study::Gradient gradient;
  std::vector<double> full = problem.gradient(parameters);
  for (size_t k = 0; k < direction.size(); ++k) gradient.slope += full[k] * direction[k];
  gradient.direction = direction;
  if (direction.empty()) gradient.values = std::move(full);
  if (!study::ValidateGradient(gradient, static_cast<int>(problem.space.differentiable().size())).ok()) {
    return std::nullopt;
  }
  return gradient;
}

// Runs one seed. Returns false if `row` wants no more.
absl::StatusOr<bool> Run(const SimulateOptions& options, uint64_t seed, absl::FunctionRef<absl::Duration()> cpu_time,
                         absl::FunctionRef<bool(const Row&)> row) {
  const study::StudySpec spec = SpecOf(options, seed);
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  const study::GradientUse gradients = search::GradientUseOf(spec);
  study::History history;
  std::priority_queue<Running, std::vector<Running>, EndsLater> running;
  Row out;
  out.algorithm = options.label.empty() ? study::AlgorithmName(options.algorithm) : options.label;
  out.function = options.problem.name;
  out.seed = seed;
  out.best = std::nan("");
  double best_reported = std::nan("");
  double now = 0.0;
  int64_t asks = 0;
  bool exhausted = false;
  while (true) {
    while (!exhausted && asks < options.evaluations && static_cast<int64_t>(running.size()) < options.parallel) {
      const absl::Duration start = cpu_time();
      absl::StatusOr<search::Suggestion> suggestion =
          designer->Suggest(history, static_cast<uint64_t>(asks), base::StopToken());
      const double suggest_ms = absl::ToDoubleMilliseconds(cpu_time() - start);
      if (!suggestion.ok()) {
        if (base::GetReason(suggestion.status()) != base::reason::kSpaceExhausted) return suggestion.status();
        exhausted = true;
        break;
      }
      study::HistoryTrial trial;
      trial.number = asks + 1;
      trial.ask_index = static_cast<uint64_t>(asks);
      trial.parameters = std::move(suggestion->parameters);
      trial.designer_state = std::move(suggestion->designer_state);
      history.AddStored(std::move(trial));
      base::RandomStream random(seed, "simulate/duration", static_cast<uint64_t>(asks));
      ++asks;
      running.push({now - std::log(random.UniformOpen()), asks, suggest_ms, std::move(suggestion->direction)});
    }
    if (running.empty()) return true;
    const Running next = running.top();
    running.pop();
    now = next.end;
    const double exact = options.problem.evaluate(history.trials()[static_cast<size_t>(next.number - 1)].parameters);
    out.value = exact;
    if (options.noise > 0.0) {
      base::RandomStream random(seed, "simulate/noise", static_cast<uint64_t>(next.number - 1));
      out.value += options.noise * random.Normal();
    }
    out.suggest_ms = next.suggest_ms;
    ++out.evaluation;
    if (std::isfinite(out.value)) {
      const bool better = std::isnan(best_reported) ||
                          study::Score(spec.metric.goal, out.value) > study::Score(spec.metric.goal, best_reported);
      if (better) {
        best_reported = out.value;
        out.best = exact;
      }
      if (options.problem.optimum) out.regret = std::abs(out.best - *options.problem.optimum);
      history.Finish(
          next.number, study::TrialState::kComplete, out.value,
          gradients == study::GradientUse::kNone
              ? std::nullopt
              : Differentiate(options.problem, history.trials()[static_cast<size_t>(next.number - 1)].parameters,
                              next.direction),
          std::nullopt);
    } else {
      out.value = std::nan("");
      history.Finish(next.number, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
    }
    if (!row(out)) return false;
  }
}

std::string CsvText(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string CsvNumber(double value) {
  return std::isnan(value) ? "" : study::FormatDouble(value);
}

}  // namespace

absl::Status Simulate(const SimulateOptions& options, absl::FunctionRef<absl::Duration()> cpu_time,
                      absl::FunctionRef<bool(const Row&)> row) {
  LUTHIER_RETURN_IF_ERROR(Validate(options));
  for (int64_t k = 0; k < options.seeds; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(const bool more,
                             Run(options, options.first_seed + static_cast<uint64_t>(k), cpu_time, row));
    if (!more) break;
  }
  return absl::OkStatus();
}

absl::Duration ThreadCpuTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

absl::StatusOr<Problem> TestProblem(absl::string_view name, std::optional<uint64_t> shift) {
  constexpr absl::string_view kPrefix = "function:";
  if (absl::StartsWith(name, kPrefix)) name.remove_prefix(kPrefix.size());
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::TestFunction* function, catalogue::FindTestFunction(name));
  const auto [lower, upper] = shift.has_value() ? catalogue::ShiftedBounds(*function, *shift)
                                                : std::make_pair(function->lower, function->upper);
  std::vector<study::ParameterSpec> parameters;
  std::vector<std::string> names;
  for (Eigen::Index i = 0; i < function->dim(); ++i) {
    names.push_back(absl::StrCat("x", i + 1));
    study::ParameterSpec parameter;
    parameter.name = names.back();
    parameter.domain = study::FloatRange{lower[i], upper[i], study::Scale::kLinear, std::nullopt};
    parameters.push_back(std::move(parameter));
  }
  Problem problem;
  problem.name = shift.has_value() ? absl::StrCat(function->name, "+shift") : function->name;
  LUTHIER_ASSIGN_OR_RETURN(problem.space, study::SearchSpace::Create(std::move(parameters)));
  problem.optimum = function->minimum;
  const auto point = [names](const study::Parameters& values) {
    Eigen::VectorXd x(static_cast<Eigen::Index>(names.size()));
    for (Eigen::Index i = 0; i < x.size(); ++i) x[i] = std::get<double>(values.at(names[static_cast<size_t>(i)]));
    return x;
  };
  problem.evaluate = [function, point](const study::Parameters& values) { return (*function)(point(values), nullptr); };
  problem.gradient = [function, point](const study::Parameters& values) {
    Eigen::VectorXd gradient(function->dim());
    (*function)(point(values), &gradient);
    return std::vector<double>(gradient.data(), gradient.data() + gradient.size());
  };
  return problem;
}

std::string CsvHeader() {
  return "algorithm,function,seed,evaluation,value,best,regret,suggest_ms";
}

std::string CsvLine(const Row& row) {
  return absl::StrCat(CsvText(row.algorithm), ",", CsvText(row.function), ",", row.seed, ",", row.evaluation, ",",
                      CsvNumber(row.value), ",", CsvNumber(row.best), ",", row.regret ? CsvNumber(*row.regret) : "",
                      ",", absl::StrFormat("%.3f", row.suggest_ms));
}

}  // namespace luthier::simulate
