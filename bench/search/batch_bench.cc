// Batches: settings asked for at once, with no result between them.
//
//   batch_bench --algorithms="bo;{bo: {acquisition: PI}};random" --seeds=10
//
// Each run makes --alone evaluations one at a time, then --batches times --batch asks whose results come together at
// the end. Prints for each algorithm and function the median over seeds of the regret after the first evaluations and
// after each batch, and the share of batched asks within 1e-3 (unit cube) of another one of their batch.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/search/wide_functions.h"
#include "lib/base/heap.h"
#include "lib/base/status_macros.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, algorithms, "bo", "names or {name: {option: value}}, separated by ';'");
ABSL_FLAG(std::string, functions, "branin,camel,goldstein_price,michalewicz2,rosenbrock2,hartmann3",
          "names separated by ','");
ABSL_FLAG(int, alone, 10, "evaluations made one at a time before the batches");
ABSL_FLAG(int, batch, 16, "asks of a batch");
ABSL_FLAG(int, batches, 2, "batches of a run");
ABSL_FLAG(uint64_t, first_seed, 0, "the first run's seed");
ABSL_FLAG(int, seeds, 10, "runs, with seeds first_seed, first_seed + 1, …");
ABSL_FLAG(bool, shift, false, "move each run's box by offsets drawn from its seed (search_bench)");

namespace luthier {
namespace {

constexpr double kClose = 1e-3;

struct Outcome {
  std::vector<double> regrets;  // After the evaluations made alone, and after each batch.
  int asks = 0, close = 0;      // Of the batches.
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

// One run: its trials, and what they have come to.
class Run {
 public:
  Run(simulate::Problem problem, study::StudySpec spec)
      : problem_(std::move(problem)), encoding_(spec.space), designer_(search::CreateDesigner(spec)) {}

  // `asks` at once, then their results.
  absl::Status Batch(int asks, Outcome* outcome) {
    std::vector<Eigen::VectorXd> points;
    const size_t first = history_.trials().size();
    for (int i = 0; i < asks; ++i) {
      const uint64_t ask_index = history_.trials().size();
      LUTHIER_ASSIGN_OR_RETURN(search::Suggestion suggestion,
                               designer_->Suggest(history_, ask_index, base::StopToken()));
      points.push_back(encoding_.ToCompact(suggestion.parameters));
      study::HistoryTrial trial;
      trial.number = static_cast<int64_t>(ask_index) + 1;
      trial.ask_index = ask_index;
      trial.parameters = std::move(suggestion.parameters);
      trial.designer_state = std::move(suggestion.designer_state);
      history_.AddStored(std::move(trial));
    }
    for (size_t i = 0; i < points.size(); ++i) {
      const study::HistoryTrial& trial = history_.trials()[first + i];
      const double value = problem_.evaluate(trial.parameters);
      best_ = std::min(best_, value);
      history_.Finish(trial.number, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
      bool close = false;
      for (size_t k = 0; k < points.size(); ++k) close = close || (k != i && (points[i] - points[k]).norm() < kClose);
      ++outcome->asks;
      if (close) ++outcome->close;
    }
    return absl::OkStatus();
  }

  double regret() const { return best_ - problem_.optimum.value_or(0.0); }

 private:
  simulate::Problem problem_;
  study::Encoding encoding_;
  std::unique_ptr<search::Designer> designer_;
  study::History history_;
  double best_ = INFINITY;
};

absl::StatusOr<Outcome> Measure(const std::string& algorithm, const std::string& function, uint64_t seed) {
  const std::optional<uint64_t> shift = absl::GetFlag(FLAGS_shift) ? std::optional<uint64_t>(seed) : std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(simulate::Problem problem, BenchProblem(function, shift));
  study::StudySpec spec;
  spec.space = problem.space;
  spec.metric = {"value", problem.goal};
  LUTHIER_ASSIGN_OR_RETURN(spec.algorithm, wire::ParseAlgorithm(algorithm));
  spec.seed = seed;
  LUTHIER_RETURN_IF_ERROR(study::ValidateSpec(spec));
  LUTHIER_RETURN_IF_ERROR(search::Validate(spec));
  Run run(std::move(problem), std::move(spec));
  Outcome outcome;
  Outcome alone;
  for (int i = 0; i < absl::GetFlag(FLAGS_alone); ++i) LUTHIER_RETURN_IF_ERROR(run.Batch(1, &alone));
  outcome.regrets.push_back(run.regret());
  for (int b = 0; b < absl::GetFlag(FLAGS_batches); ++b) {
    LUTHIER_RETURN_IF_ERROR(run.Batch(absl::GetFlag(FLAGS_batch), &outcome));
    outcome.regrets.push_back(run.regret());
  }
  return outcome;
}

absl::Status Print(const std::string& algorithm, const std::string& function) {
  std::vector<std::vector<double>> regrets(static_cast<size_t>(absl::GetFlag(FLAGS_batches)) + 1);
  int asks = 0, close = 0;
  for (int s = 0; s < absl::GetFlag(FLAGS_seeds); ++s) {
    LUTHIER_ASSIGN_OR_RETURN(const Outcome outcome,
                             Measure(algorithm, function, absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(s)));
    for (size_t b = 0; b < regrets.size(); ++b) regrets[b].push_back(outcome.regrets[b]);
    asks += outcome.asks;
    close += outcome.close;
  }
  absl::PrintF("%-16s %-44s", function, algorithm);
  for (const std::vector<double>& after : regrets) absl::PrintF(" %9.2g", Median(after));
  absl::PrintF(" %5.1f %%\n", asks == 0 ? 0.0 : 100.0 * close / asks);
  return absl::OkStatus();
}

int Main() {
  const std::vector<std::string> algorithms = absl::StrSplit(absl::GetFlag(FLAGS_algorithms), ';');
  const std::vector<std::string> functions = absl::StrSplit(absl::GetFlag(FLAGS_functions), ',');
  for (const std::string& function : functions) {
    for (const std::string& algorithm : algorithms) {
      const absl::Status status = Print(algorithm, function);
      if (status.ok()) continue;
      std::fprintf(stderr, "batch_bench: %s\n", std::string(status.message()).c_str());
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  luthier::base::KeepFreedMemory();
  absl::SetProgramUsageMessage("Compares batches of search algorithms on test functions.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
