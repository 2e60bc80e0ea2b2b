// Searches for penalties by gradients on the problems of Pedregosa 2016, one run at a time:
//
//   hoag_experiment --data_root=DIR --problem=20news --method=hoag [--split=1] [--evaluations=100] [--seconds=60]
//
// Prints a line an evaluation, separated by commas:
//   problem,method,split,evaluation,CPU seconds so far (search and objective),value reported,exact value,third set's
//   loss,training outcome,passes over the training rows so far
// The exact value is that of the setting with all digits; it is computed off the clock, and only with --exact. Nothing
// but the seconds depends on the machine.
//
//   hoag_experiment --serve --problem=20news --data_root=DIR
//
// answers lines of logarithms of the penalties with value and derivatives by them, for other optimizers: the answer
// ends with the CPU seconds and the passes that it took.
#include <time.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_root.h"
#include "lib/objectives/create.h"
#include "lib/objectives/objective.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

ABSL_FLAG(std::string, data_root, ".", "folder with the files that prepare.py writes");
ABSL_FLAG(std::string, problem, "20news", "20news, a9a, mnist, parkinsons, or synthetic, which needs no file");
ABSL_FLAG(std::string, method, "hoag",
          "hoag, hoag_quadratic, hoag_cubic, hoag_exact, projected_gradient, iterdiff, fobo, bo, grid, random");
ABSL_FLAG(uint64_t, split, 1, "seed of the split into thirds, and of the search");
ABSL_FLAG(double, start, 0.0,
          "logarithm of the penalty to start from; with kernel_ridge the width starts at 1/columns");
ABSL_FLAG(int, evaluations, 100, "most evaluations");
ABSL_FLAG(double, seconds, 60.0, "most CPU seconds");
ABSL_FLAG(bool, exact, false, "evaluate each setting again with all digits, off the clock");
ABSL_FLAG(bool, serve, false, "answer lines of logarithms instead of searching");

namespace luthier {
namespace {

constexpr double kBox = 12.0;  // Logarithms of penalties are in [-12, 12].

study::ParameterSpec Strength(const std::string& name, int count, double start) {
  study::ParameterSpec p;
  p.name = name;
  p.domain = study::FloatRange{std::exp(-kBox), std::exp(kBox), study::Scale::kLog, std::nullopt};
  if (count > 0) p.count = count;
  p.default_value = std::exp(start);
  return p;
}

absl::StatusOr<study::StudySpec> SpecOf(const std::string& problem, const std::string& method) {
  const double start = absl::GetFlag(FLAGS_start);
  study::StudySpec spec;
  spec.seed = absl::GetFlag(FLAGS_split);
  study::BuiltinObjective objective;
  objective.model = "logistic";
  objective.split = {.validation = 1.0 / 3.0, .folds = 0, .seed = absl::GetFlag(FLAGS_split), .third = 1.0 / 3.0};
  objective.options = {{"intercept", false}, {"standardize", false}, {"warm_start", true}};
  std::vector<study::ParameterSpec> space;
  if (problem == "mnist") {
    objective.data = "mnist12.svm";
    objective.options["l2_per"] = std::string("weight");
    space.push_back(Strength("l2", 1440, start));
  } else if (problem == "parkinsons") {
    objective.model = "kernel_ridge";
    objective.data = "parkinsons.csv";
    objective.options = {};
    space.push_back(Strength("gamma", 0, -std::log(19.0)));
    space.push_back(Strength("l2", 0, start));
  } else if (problem == "20news" || problem == "a9a" || problem == "synthetic") {
    objective.data = problem == "synthetic" ? "synth:logistic?rows=1200&cols=100&noise=0.1" : problem + ".svm";
    space.push_back(Strength("l2", 0, start));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("there is no problem ", problem));
  }
  if (method == "iterdiff") {
    objective.options["unroll"] = std::string("gradient_descent");
    objective.options.erase("warm_start");
  }
  spec.objective = std::move(objective);
  LUTHIER_ASSIGN_OR_RETURN(spec.space, study::SearchSpace::Create(std::move(space)));
  spec.metric = {"validation_loss", study::Goal::kMinimize};
  spec.budget.max_trials = absl::GetFlag(FLAGS_evaluations);
  if (absl::StartsWith(method, "hoag")) {
    study::HoagOptions options;
    if (method == "hoag_quadratic") options.sequence = study::HoagSequence::kQuadratic;
    if (method == "hoag_cubic") options.sequence = study::HoagSequence::kCubic;
    if (method == "hoag_exact") options.sequence = study::HoagSequence::kExact;
    spec.algorithm = options;
  } else if (method == "projected_gradient" || method == "iterdiff") {
    study::HoagOptions options = study::HoagOptionsFor(method == "iterdiff" ? study::HoagPreset::kIterdiff
                                                                            : study::HoagPreset::kProjectedGradient);
    options.stop = 0.0;
    spec.algorithm = options;
  } else if (method == "fobo") {
    study::BoOptions options = study::BoDefaults(study::BoPreset::kFobo);
    spec.algorithm = options;
  } else if (method == "bo") {
    spec.algorithm = study::BoOptions();
  } else if (method == "grid") {
    spec.algorithm = study::GridOptions();
  } else if (method == "random") {
    spec.algorithm = study::RandomOptions();
  } else {
    return absl::InvalidArgumentError(absl::StrCat("there is no method ", method));
  }
  LUTHIER_RETURN_IF_ERROR(search::Validate(spec));
  return spec;
}

absl::StatusOr<std::unique_ptr<objectives::Objective>> Load(const study::StudySpec& spec, data::DataRoot* root) {
  return objectives::CreateObjective(std::get<study::BuiltinObjective>(spec.objective), spec.space, spec.metric, root);
}

absl::Status Search() {
  const std::string problem = absl::GetFlag(FLAGS_problem), method = absl::GetFlag(FLAGS_method);
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, SpecOf(problem, method));
  LUTHIER_ASSIGN_OR_RETURN(data::DataRoot root, data::DataRoot::Open(absl::GetFlag(FLAGS_data_root)));
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<objectives::Objective> objective, Load(spec, &root));
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  const study::GradientUse use = search::GradientUseOf(spec);
  study::History history;
  std::string model;
  double clock = 0.0, passes = 0.0;
  // The rows are laid out by the first evaluation, which reading the data is part of.
  for (int64_t k = 0; k < spec.budget.max_trials && clock < absl::GetFlag(FLAGS_seconds); ++k) {
    const absl::Duration begin = simulate::ThreadCpuTime();
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(k), base::StopToken());
    if (!suggestion.ok()) {
      if (absl::IsOutOfRange(suggestion.status())) return absl::OkStatus();
      return suggestion.status();
    }
    if (k > 0 && suggestion->origin == "hoag_start") return absl::OkStatus();  // The first chain has ended.
    objectives::EvaluationContext context;
    context.parameters = suggestion->parameters;
    context.gradient = use;
    context.by_gradients_alone = std::holds_alternative<study::HoagOptions>(spec.algorithm);
    context.tolerance = suggestion->tolerance;
    context.seed = spec.seed;
    context.warm_start = model;
    context.save_model = [&](std::string bytes) { model = std::move(bytes); };
    LUTHIER_ASSIGN_OR_RETURN(const objectives::EvaluationResult result, objective->Evaluate(context));
    clock += absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin);
    passes += result.passes;
    study::HistoryTrial trial;
    trial.number = k + 1;
    trial.ask_index = static_cast<uint64_t>(k);
    trial.parameters = suggestion->parameters;
    trial.designer_state = suggestion->designer_state;
    history.AddStored(std::move(trial));
    if (result.outcome != objectives::EvaluationOutcome::kComplete) {
      history.Finish(k + 1, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
      absl::PrintF("%s,%s,%d,%d,%.4f,nan,nan,nan,%s,%.1f\n", problem, method, spec.seed, k + 1, clock,
                   result.failure ? result.failure->reason : "", passes);
      continue;
    }
    const study::Measurement& m = *result.measurement;
    const double value = m.metrics.at("validation_loss");
    double exact = std::nan("");
    if (absl::GetFlag(FLAGS_exact)) {
      objectives::EvaluationContext again;
      again.parameters = suggestion->parameters;
      again.gradient = study::GradientUse::kNone;
      again.warm_start = model;
      LUTHIER_ASSIGN_OR_RETURN(const objectives::EvaluationResult digits, objective->Evaluate(again));
      if (digits.measurement) exact = digits.measurement->metrics.at("validation_loss");
    }
    absl::PrintF("%s,%s,%d,%d,%.4f,%.12g,%.12g,%.10g,%s,%.1f\n", problem, method, spec.seed, k + 1, clock, value, exact,
                 m.metrics.at("third_loss"), std::string(study::TrainingOutcomeName(m.training->outcome)), passes);
    std::cout.flush();
    history.Finish(k + 1, study::TrialState::kComplete, value, m.gradient, std::nullopt);
  }
  return absl::OkStatus();
}

absl::Status Serve() {
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, SpecOf(absl::GetFlag(FLAGS_problem), "fobo"));
  LUTHIER_ASSIGN_OR_RETURN(data::DataRoot root, data::DataRoot::Open(absl::GetFlag(FLAGS_data_root)));
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<objectives::Objective> objective, Load(spec, &root));
  std::string model, line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::vector<double> x;
    for (double value = 0.0; in >> value;) x.push_back(std::exp(value));
    objectives::EvaluationContext context;
    size_t next = 0;
    for (const study::ParameterSpec& p : spec.space.parameters()) {
      const size_t count = p.is_vector() ? static_cast<size_t>(*p.count) : 1;
      if (next + count > x.size()) return absl::InvalidArgumentError("a line has too few numbers");
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(next);
      if (p.is_vector()) {
        context.parameters[p.name] = std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count));
      } else {
        context.parameters[p.name] = *begin;
      }
      next += count;
    }
    context.warm_start = model;
    context.save_model = [&](std::string bytes) { model = std::move(bytes); };
    const absl::Duration begin = simulate::ThreadCpuTime();
    LUTHIER_ASSIGN_OR_RETURN(const objectives::EvaluationResult result, objective->Evaluate(context));
    const double seconds = absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin);
    if (!result.measurement || !result.measurement->gradient) return absl::InternalError("there is no gradient");
    std::string out = absl::StrFormat("%.17g", result.measurement->metrics.at("validation_loss"));
    const std::vector<double>& gradient = result.measurement->gradient->values;
    for (size_t k = 0; k < gradient.size(); ++k) absl::StrAppend(&out, absl::StrFormat(" %.17g", gradient[k] * x[k]));
    std::cout << out << absl::StrFormat(" %.6f %.1f", seconds, result.passes) << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Searches for penalties by gradients, as Pedregosa 2016 does.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = absl::GetFlag(FLAGS_serve) ? luthier::Serve() : luthier::Search();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
