// Our algorithms on problems of several metrics (bench/search/pages/several_metrics.md).
//
//   metrics_bench --problems=branin_currin,welded_beam --algorithms=auto,tpe --seeds=10 --trials=60
//
// Prints for each problem and algorithm the median over the seeds of the hypervolume, or of the best value that keeps
// the constraints, after 20, 40, … trials, in how many searches one keeps them by then, and the processor
// time of an ask.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/search/metrics_problems.h"
#include "lib/pareto/hypervolume.h"
#include "lib/search/registry.h"
#include "lib/study/metrics.h"

ABSL_FLAG(std::string, problems, "all", "names separated by ',' (metrics_problems.h), or all");
ABSL_FLAG(std::string, algorithms, "auto", "auto, bo, hbo, nsga2, tpe, random, separated by ','");
ABSL_FLAG(int, seeds, 10, "searches with each, with seeds 1, 2, …");
ABSL_FLAG(int, trials, 60, "trials of a search");
ABSL_FLAG(int, every, 20, "a column every so many trials");
ABSL_FLAG(bool, reference, false, "the study knows the reference point");
ABSL_FLAG(int, workers, 1, "trials at once");
ABSL_FLAG(std::string, rows, "", "CSV file to which rows for metrics_page.py are appended");

namespace luthier {
namespace {

std::optional<study::AlgorithmSpec> AlgorithmOf(const std::string& name) {
  if (name == "auto") return study::AutoOptions{};
  if (name == "bo") return study::BoOptions{};
  if (name == "hbo") return study::BoDefaults(study::BoPreset::kHbo);
  if (name == "nsga2") return study::Nsga2Options{};
  if (name == "tpe") return study::TpeOptions{};
  if (name == "random") return study::RandomOptions{};
  return std::nullopt;
}

absl::StatusOr<study::StudySpec> SpecOf(const MetricsProblem& problem, study::AlgorithmSpec algorithm, uint64_t seed) {
  study::StudySpec spec;
  std::vector<study::ParameterSpec> parameters;
  for (size_t j = 0; j < problem.box.size(); ++j) {
    study::ParameterSpec parameter;
    parameter.name = absl::StrCat("x", j);
    parameter.domain = study::FloatRange{.min = problem.box[j].first,
                                         .max = problem.box[j].second,
                                         .scale = study::Scale::kLinear,
                                         .step = std::nullopt};
    parameters.push_back(std::move(parameter));
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
  if (!space.ok()) return space.status();
  spec.space = *std::move(space);
  std::vector<study::MetricSpec> metrics;
  for (int j = 0; j < problem.objectives; ++j) {
    study::MetricSpec metric{.name = absl::StrCat("f", j)};
    if (absl::GetFlag(FLAGS_reference) && problem.objectives > 1)
      metric.reference = problem.reference[static_cast<size_t>(j)];
    metrics.push_back(std::move(metric));
  }
  for (int j = 0; j < problem.constraints; ++j) {
    metrics.push_back({.name = absl::StrCat("g", j), .objective = false, .at_most = 0.0});
  }
  study::SetMetrics(std::move(metrics), &spec);
  spec.algorithm = std::move(algorithm);
  spec.seed = seed;
  spec.budget.max_trials = absl::GetFlag(FLAGS_trials);
  if (absl::Status status = search::Validate(spec); !status.ok()) return status;
  return spec;
}

// The course of one search.
struct Course {
  std::vector<double> worth;         // After each trial.
  std::vector<double> milliseconds;  // Processor time of each ask.
};

double WorthOf(const MetricsProblem& problem, const std::vector<std::vector<double>>& feasible) {
  if (problem.objectives == 1) {
    double best = std::numeric_limits<double>::infinity();
    for (const std::vector<double>& values : feasible) best = std::min(best, values[0]);
    return best;
  }
  const auto rows = static_cast<Eigen::Index>(feasible.size());
  Eigen::MatrixXd scores(rows, problem.objectives);
  Eigen::VectorXd reference(problem.objectives);
  for (int j = 0; j < problem.objectives; ++j) {
    reference(j) = -problem.reference[static_cast<size_t>(j)];
    for (Eigen::Index i = 0; i < rows; ++i) scores(i, j) = -feasible[static_cast<size_t>(i)][static_cast<size_t>(j)];
  }
  return pareto::Hypervolume(scores, reference).value_or(std::nan(""));
}

absl::StatusOr<Course> Search(const MetricsProblem& problem, const study::StudySpec& spec) {
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  Course course;
  std::vector<std::vector<double>> feasible;
  std::vector<int64_t> open;
  const auto finish = [&] {
    const int64_t number = open.front();
    open.erase(open.begin());
    std::vector<double> x;
    for (const auto& [name, value] : history.trials()[static_cast<size_t>(number - 1)].parameters) {
      x.push_back(std::get<double>(value));
    }
    study::HistoryTrial result;
    result.values = problem.f(x);
    if (!std::all_of(result.values.begin(), result.values.end(), [](double v) { return std::isfinite(v); })) {
      history.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
      course.worth.push_back(WorthOf(problem, feasible));
      return;
    }
    result.feasible = study::IsFeasible(study::MetricsOf(spec), result.values);
    history.Finish(number, study::TrialState::kComplete, result.values[0], std::nullopt, std::nullopt);
    history.NoteMetrics(number, result);
    if (result.feasible) feasible.push_back(result.values);
    course.worth.push_back(WorthOf(problem, feasible));
  };
  for (int i = 0; i < absl::GetFlag(FLAGS_trials); ++i) {
    const std::clock_t begin = std::clock();
    const absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(i), base::StopToken());
    const std::clock_t end = std::clock();
    if (!suggestion.ok()) return suggestion.status();
    course.milliseconds.push_back(1e3 * static_cast<double>(end - begin) / CLOCKS_PER_SEC);
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = suggestion->parameters;
    trial.designer_state = suggestion->designer_state;
    history.AddStored(trial);
    open.push_back(i + 1);
    if (static_cast<int>(open.size()) >= absl::GetFlag(FLAGS_workers)) finish();
  }
  while (!open.empty()) finish();
  return course;
}

// Returns the value below which a share `q` of them lies.
double Quantile(std::vector<double> values, double q) {
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

// Appends a row for each search and number of trials.
absl::Status WriteRows(const MetricsProblem& problem, const std::string& name, const std::vector<Course>& courses) {
  std::FILE* const out = std::fopen(absl::GetFlag(FLAGS_rows).c_str(), "a");
  if (out == nullptr) return absl::InvalidArgumentError(absl::StrCat("can't write ", absl::GetFlag(FLAGS_rows)));
  const std::string label = absl::GetFlag(FLAGS_reference) ? absl::StrCat(name, " (reference)") : name;
  for (size_t k = 0; k < courses.size(); ++k) {
    const std::vector<double>& times = courses[k].milliseconds;
    const double late = Median({times.end() - static_cast<std::ptrdiff_t>(times.size() / 5), times.end()});
    for (size_t trials = 10; trials <= courses[k].worth.size(); trials += 10) {
      std::fprintf(out, "%s,%s,%zu,%zu,%.17g,%.3g\n", problem.name.c_str(), label.c_str(), k + 1, trials,
                   courses[k].worth[trials - 1], late);
    }
  }
  return std::fclose(out) == 0 ? absl::OkStatus() : absl::DataLossError("the rows could not be written");
}

absl::Status Report(const MetricsProblem& problem, const std::string& name, const study::AlgorithmSpec& algorithm) {
  std::vector<Course> courses;
  std::vector<double> late;  // Milliseconds of the last fifth of the asks.
  for (int seed = 1; seed <= absl::GetFlag(FLAGS_seeds); ++seed) {
    absl::StatusOr<study::StudySpec> spec = SpecOf(problem, algorithm, static_cast<uint64_t>(seed));
    if (!spec.ok()) return spec.status();
    absl::StatusOr<Course> course = Search(problem, *spec);
    if (!course.ok()) return course.status();
    const std::vector<double>& times = course->milliseconds;
    late.insert(late.end(), times.end() - static_cast<std::ptrdiff_t>(times.size() / 5), times.end());
    courses.push_back(*std::move(course));
  }
  if (!absl::GetFlag(FLAGS_rows).empty()) {
    if (absl::Status status = WriteRows(problem, name, courses); !status.ok()) return status;
  }
  std::printf("%-15s %-7s", problem.name.c_str(), name.c_str());
  for (int trials = absl::GetFlag(FLAGS_every); trials <= absl::GetFlag(FLAGS_trials);
       trials += absl::GetFlag(FLAGS_every)) {
    std::vector<double> worth;
    for (const Course& course : courses) worth.push_back(course.worth[static_cast<size_t>(trials - 1)]);
    const auto found = std::count_if(worth.begin(), worth.end(), [](double w) { return std::isfinite(w); });
    std::printf("  %d: %.6g", trials, Median(worth));
    if (problem.objectives == 1) std::printf(" (%d)", static_cast<int>(found));
  }
  std::printf("  ask %.1f ms, p95 %.1f\n", Median(late), Quantile(late, 0.95));
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main() {
  const std::string problems = absl::GetFlag(FLAGS_problems);
  const std::vector<std::string> wanted = absl::StrSplit(problems, ',');
  const std::vector<std::string> names = absl::StrSplit(absl::GetFlag(FLAGS_algorithms), ',');
  for (const MetricsProblem& problem : MetricsProblems()) {
    if (problems != "all" && std::find(wanted.begin(), wanted.end(), problem.name) == wanted.end()) continue;
    for (const std::string& name : names) {
      const std::optional<study::AlgorithmSpec> algorithm = AlgorithmOf(name);
      if (!algorithm.has_value()) {
        std::fprintf(stderr, "metrics_bench: no algorithm %s; see --help\n", name.c_str());
        return 2;
      }
      if (const absl::Status status = Report(problem, name, *algorithm); !status.ok()) {
        std::fprintf(stderr, "metrics_bench: %s\n", std::string(status.message()).c_str());
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Searches problems of several metrics; prints a line for each problem and algorithm.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
