// Measures whether a search ends on the best label where that label's first trials are mostly bad, and what it pays for
// labels that are bad in truth: one line of CSV a run.
//
//   labels_bench --algorithms 'auto;tpe' --problems svm,cash,bad --seeds 12
//
// With --stopping RULE each trial reports kLabelSteps steps, and the rule may end it. `right` is 1 where the best
// result has the best label, `trials` counts that label's, `others` those of each label. With --serve NAME SEED the
// program writes the best label and the space, and answers lines of "name=value ..." with the value; and with --ask
// SEED it searches the space of NAME for functions of other programs: it writes "origin name=value ..." and reads the
// value there, until --evaluations are made.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/search/label_functions.h"
#include "lib/base/heap.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/stopping/stopper.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, algorithms, "auto", "names or {name: {option: value}}, separated by ';'");
ABSL_FLAG(std::string, problems, "svm,cash,bad,close", "names of label_functions.h, separated by ','");
ABSL_FLAG(int64_t, evaluations, 60, "trials of a run");
ABSL_FLAG(int64_t, seeds, 12, "runs of each cell");
ABSL_FLAG(uint64_t, first_seed, 0, "the first run's seed");
ABSL_FLAG(std::string, stopping, "", "a stopping rule, such as {median: {}}");
ABSL_FLAG(bool, serve, false, "answer settings of NAME SEED");
ABSL_FLAG(bool, ask, false, "write settings of the space of NAME SEED to evaluate, and read their values");
ABSL_FLAG(bool, trials, false, "print every trial instead");

namespace luthier {
namespace {

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "labels_bench: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

LabelProblem ProblemOf(const std::string& name, uint64_t seed) {
  absl::StatusOr<LabelProblem> problem = MakeLabelProblem(name, seed);
  if (!problem.ok()) Die(problem.status());
  return *std::move(problem);
}

std::string TextOf(const study::Parameters& values) {
  std::vector<std::string> words;
  for (const auto& [name, value] : values) {
    if (const auto* label = std::get_if<std::string>(&value)) words.push_back(absl::StrCat(name, "=", *label));
    if (const auto* real = std::get_if<double>(&value)) {
      char text[40];
      std::snprintf(text, sizeof text, "%.17g", *real);
      words.push_back(absl::StrCat(name, "=", text));
    }
  }
  return absl::StrJoin(words, " ");
}

// One trial: its last step, and whether a rule ended it.
struct Trained {
  double value = 0.0;
  int64_t step = 0;
  bool stopped = false;
};

Trained Train(const LabelProblem& problem, const study::Parameters& values, int64_t number,
              stopping::Stopper* stopper) {
  if (stopper == nullptr) return {problem.value(values), 0, false};
  Trained trained;
  for (int64_t step = 1; step <= kLabelSteps && !trained.stopped; ++step) {
    trained = {problem.curve(values, step), step, false};
    stopper->Report(number, step, trained.value);
    trained.stopped = step < kLabelSteps && stopper->Decide(number, step).verdict == stopping::Verdict::kStop;
  }
  stopper->Finish(number, trained.stopped ? study::TrialState::kPruned : study::TrialState::kComplete, trained.value);
  return trained;
}

study::StudySpec SpecOf(const std::string& text, const LabelProblem& problem, uint64_t seed) {
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(text);
  if (!algorithm.ok()) Die(algorithm.status());
  study::StudySpec spec;
  spec.space = problem.space;
  spec.metric = {"value", study::Goal::kMinimize};
  spec.algorithm = *algorithm;
  spec.budget.max_trials = absl::GetFlag(FLAGS_evaluations);
  spec.seed = seed;
  if (const std::string rule = absl::GetFlag(FLAGS_stopping); !rule.empty()) {
    const absl::StatusOr<study::StoppingRule> stopping = wire::ParseStopping(rule);
    if (!stopping.ok()) Die(stopping.status());
    spec.stopping = *stopping;
  }
  return spec;
}

void Run(const std::string& text, const std::string& name, uint64_t seed) {
  const LabelProblem problem = ProblemOf(name, seed);
  const study::StudySpec spec = SpecOf(text, problem, seed);
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  const std::unique_ptr<stopping::Stopper> stopper = spec.stopping ? stopping::CreateStopper(spec) : nullptr;
  study::History history;
  std::map<std::string, int> counts, origins;
  double best = INFINITY;
  std::string label;
  int stopped = 0;
  absl::Duration time;
  for (int64_t asks = 0; asks < spec.budget.max_trials; ++asks) {
    const absl::Duration start = simulate::ThreadCpuTime();
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(asks), base::StopToken());
    time += simulate::ThreadCpuTime() - start;
    if (!suggestion.ok()) Die(suggestion.status());
    study::HistoryTrial trial;
    trial.number = asks + 1;
    trial.ask_index = static_cast<uint64_t>(asks);
    trial.parameters = std::move(suggestion->parameters);
    trial.designer_state = std::move(suggestion->designer_state);
    const Trained trained = Train(problem, trial.parameters, trial.number, stopper.get());
    const std::string at = std::get<std::string>(trial.parameters.at(problem.parameter));
    if (absl::GetFlag(FLAGS_trials)) {
      std::printf("%d %s %s %g%s\n", static_cast<int>(asks + 1), suggestion->origin.c_str(),
                  TextOf(trial.parameters).c_str(), trained.value, trained.stopped ? " stopped" : "");
    }
    ++counts[at];
    ++origins[suggestion->origin];
    if (trained.stopped) ++stopped;
    if (!trained.stopped && trained.value < best) {
      best = trained.value;
      label = at;
    }
    history.AddStored(std::move(trial));
    history.Finish(asks + 1, trained.stopped ? study::TrialState::kPruned : study::TrialState::kComplete, trained.value,
                   std::nullopt, std::nullopt, "", trained.step);
  }
  std::vector<std::string> others;
  for (const auto& [at, count] : counts) others.push_back(absl::StrCat(at, ":", count));
  std::printf("\"%s\",%s,%d,%.6g,%d,%d,%s,%d,%d,%.3g\n", text.c_str(), name.c_str(), static_cast<int>(seed), best,
              label == problem.best ? 1 : 0, counts[problem.best], absl::StrJoin(others, " ").c_str(), origins["label"],
              stopped, absl::ToDoubleMilliseconds(time) / static_cast<double>(spec.budget.max_trials));
  std::fflush(stdout);
}

// Returns the setting of words "name=value".
study::Parameters Read(const std::string& line, const LabelProblem& problem) {
  study::Parameters values;
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    const std::optional<int> index = problem.space.Find(parts[0]);
    if (parts.size() != 2 || !index) Die(absl::InvalidArgumentError(absl::StrCat("not a setting: ", line)));
    const study::ParameterSpec& spec = problem.space.parameters()[static_cast<size_t>(*index)];
    double number = 0.0;
    if (std::holds_alternative<study::CategoricalLabels>(spec.domain)) {
      values[parts[0]] = parts[1];
    } else if (!absl::SimpleAtod(parts[1], &number)) {
      Die(absl::InvalidArgumentError(absl::StrCat("not a number: ", word)));
    } else {
      values[parts[0]] = number;
    }
  }
  return values;
}

int Serve(const LabelProblem& problem) {
  std::vector<std::string> space;  // "name;kind;values;labels" of each parameter.
  for (const study::ParameterSpec& spec : problem.space.parameters()) {
    std::string text = absl::StrCat(spec.name, ";float;0,1;");
    if (const auto* labels = std::get_if<study::CategoricalLabels>(&spec.domain)) {
      text = absl::StrCat(spec.name, ";labels;", absl::StrJoin(labels->labels, ","), ";");
    }
    if (const auto* range = std::get_if<study::IntRange>(&spec.domain)) {
      text = absl::StrCat(spec.name, ";int;", range->min, ",", range->max, ";");
    }
    if (spec.condition) {
      std::vector<std::string> labels;
      for (const study::ParameterValue& value : spec.condition->values) labels.push_back(std::get<std::string>(value));
      absl::StrAppend(&text, absl::StrJoin(labels, ","));
    }
    space.push_back(std::move(text));
  }
  std::printf("%s %s\n", problem.best.c_str(), absl::StrJoin(space, " ").c_str());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::printf("%.17g\n", problem.value(Read(line, problem)));
    std::fflush(stdout);
  }
  return 0;
}

int AskFor(const std::string& text, const LabelProblem& problem, uint64_t seed) {
  const study::StudySpec spec = SpecOf(text, problem, seed);
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  std::string line;
  for (int64_t asks = 0; asks < spec.budget.max_trials; ++asks) {
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(asks), base::StopToken());
    if (!suggestion.ok()) Die(suggestion.status());
    std::printf("%s %s\n", suggestion->origin.c_str(), TextOf(suggestion->parameters).c_str());
    std::fflush(stdout);
    double value = 0.0;
    if (!std::getline(std::cin, line) || !absl::SimpleAtod(line, &value)) return 2;
    study::HistoryTrial trial;
    trial.number = asks + 1;
    trial.ask_index = static_cast<uint64_t>(asks);
    trial.parameters = std::move(suggestion->parameters);
    trial.designer_state = std::move(suggestion->designer_state);
    history.AddStored(std::move(trial));
    history.Finish(asks + 1, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
  }
  return 0;
}

int Main(const std::vector<char*>& words) {
  const std::vector<std::string> algorithms = absl::StrSplit(absl::GetFlag(FLAGS_algorithms), ';');
  if (absl::GetFlag(FLAGS_serve) || absl::GetFlag(FLAGS_ask)) {
    uint64_t seed = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[2], &seed)) {
      Die(absl::InvalidArgumentError("--serve and --ask need NAME SEED"));
    }
    const LabelProblem problem = ProblemOf(words[1], seed);
    return absl::GetFlag(FLAGS_serve) ? Serve(problem) : AskFor(algorithms.front(), problem, seed);
  }
  std::printf("algorithm,problem,seed,regret,right,trials,labels,label_asks,stopped,ask_ms\n");
  for (const absl::string_view problem : absl::StrSplit(absl::GetFlag(FLAGS_problems), ',')) {
    for (const std::string& algorithm : algorithms) {
      for (int64_t s = 0; s < absl::GetFlag(FLAGS_seeds); ++s) {
        Run(algorithm, std::string(problem), absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(s));
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  luthier::base::KeepFreedMemory();
  return luthier::Main(absl::ParseCommandLine(argc, argv));
}
