// Measures what searches find where results are noisy or rugged, and what they recommend: one line of CSV a run.
//
//   noise_bench --algorithms 'auto;{auto: {noisy: true}}' --functions f1/d5,f21/d2 --noise 0,.1,.5 --seeds 12
//
// The noise is normal; its deviation is a multiple of the interquartile range of 1,000 random values. `reported` is the
// function's own value where the best result was, `recommended` where the search recommends, the same without noise.
// With --serve NAME SEED NOISE the program answers lines of coordinates with "value noisy_value": for peers.
// With --ask DIM SEED it searches [-5, 5]^DIM with the first of --algorithms for functions of other programs: it writes
// "origin milliseconds x1 x2 ..." and reads the value there, until --evaluations are made.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/search/rugged_functions.h"
#include "bench/search/wide_functions.h"
#include "lib/base/heap.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, algorithms, "auto", "names or {name: {option: value}}, separated by ';'");
ABSL_FLAG(std::string, functions, "f1/d2", "names of rugged_functions.h (f17/d5) or of search_bench, separated by ','");
ABSL_FLAG(std::string, noise, "0", "deviations of the noise, in interquartile ranges, separated by ','");
ABSL_FLAG(int64_t, evaluations, 100, "evaluations of a run");
ABSL_FLAG(int64_t, seeds, 8, "runs of each cell");
ABSL_FLAG(uint64_t, first_seed, 0, "the first run's seed");
ABSL_FLAG(bool, serve, false, "answer lines of coordinates for NAME SEED NOISE");
ABSL_FLAG(bool, ask, false, "write the coordinates of DIM SEED to evaluate, and read their values");

namespace luthier {
namespace {

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "noise_bench: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

simulate::Problem ProblemOf(const std::string& name, uint64_t seed) {
  absl::StatusOr<simulate::Problem> problem = RuggedProblem(name, seed);
  if (!problem.ok()) problem = BenchProblem(name, seed);
  if (!problem.ok()) Die(problem.status());
  return *std::move(problem);
}

double RangeOf(const simulate::Problem& problem) {
  constexpr int kValues = 1000;
  const study::Encoding encoding(problem.space);
  base::RandomStream random(0, "bench/noise/range");
  std::vector<double> values;
  for (int i = 0; i < kValues; ++i) values.push_back(problem.evaluate(encoding.Sample(random)));
  std::sort(values.begin(), values.end());
  return values[3 * kValues / 4] - values[kValues / 4];
}

// One run: prints its line.
void Run(const std::string& text, const std::string& function, double share, uint64_t seed) {
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(text);
  if (!algorithm.ok()) Die(algorithm.status());
  const simulate::Problem problem = ProblemOf(function, seed);
  const double deviation = share > 0.0 ? share * RangeOf(problem) : 0.0;
  study::StudySpec spec;
  spec.space = problem.space;
  spec.metric = {"value", problem.goal};
  spec.algorithm = *algorithm;
  spec.budget.max_trials = absl::GetFlag(FLAGS_evaluations);
  spec.seed = seed;
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  base::RandomStream noise(seed, "bench/noise");
  double best_reported = INFINITY, reported = NAN, best = INFINITY;
  std::vector<double> exact;
  int64_t found_by = 0, found_at = 0, steps = 0;
  absl::Duration time;
  for (int64_t asks = 0; asks < spec.budget.max_trials; ++asks) {
    const absl::Duration start = simulate::ThreadCpuTime();
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(asks), base::StopToken());
    time += simulate::ThreadCpuTime() - start;
    if (!suggestion.ok()) Die(suggestion.status());
    if (suggestion->origin == "trust_region") ++steps;
    if (const auto found = suggestion->details.find("noise_found_by");
        found != suggestion->details.end() && found_by == 0) {
      found_by = static_cast<int64_t>(found->second);
      found_at = asks + 1;
    }
    study::HistoryTrial trial;
    trial.number = asks + 1;
    trial.ask_index = static_cast<uint64_t>(asks);
    trial.parameters = std::move(suggestion->parameters);
    trial.designer_state = std::move(suggestion->designer_state);
    exact.push_back(problem.evaluate(trial.parameters));
    const double value = exact.back() + deviation * noise.Normal();
    history.AddStored(std::move(trial));
    history.Finish(asks + 1, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
    if (value < best_reported) {
      best_reported = value;
      reported = exact.back();
    }
    best = std::min(best, exact.back());
  }
  const absl::StatusOr<std::optional<search::Recommendation>> recommendation =
      designer->Recommend(history, base::StopToken());
  if (!recommendation.ok()) Die(recommendation.status());
  const bool recommends = recommendation->has_value();
  const double recommended = recommends ? exact[static_cast<size_t>((*recommendation)->trial - 1)] : reported;
  const double minimum = problem.optimum.value_or(0.0);
  std::printf("\"%s\",%s,%g,%d,%.6g,%.6g,%.6g,%d,%d,%d,%.3g\n", text.c_str(), function.c_str(), share,
              static_cast<int>(seed), reported - minimum, recommended - minimum, best - minimum,
              static_cast<int>(found_by), static_cast<int>(found_at), static_cast<int>(steps),
              absl::ToDoubleMilliseconds(time) / static_cast<double>(spec.budget.max_trials));
  std::fflush(stdout);
}

// Answers lines of coordinates with the function's value and the value with noise.
int Serve(const std::string& function, uint64_t seed, double share) {
  const simulate::Problem problem = ProblemOf(function, seed);
  const double deviation = share > 0.0 ? share * RangeOf(problem) : 0.0;
  base::RandomStream noise(seed, "bench/noise");
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    study::Parameters values;
    for (size_t i = 0; i < fields.size(); ++i) {
      double value = 0.0;
      if (!absl::SimpleAtod(fields[i], &value)) return 2;
      values[problem.space.parameters()[i].name] = value;
    }
    const double exact = problem.evaluate(values);
    std::printf("%.17g %.17g\n", exact, exact + deviation * noise.Normal());
    std::fflush(stdout);
  }
  return 0;
}

// Writes settings of [-5, 5]^dim, and reads the value of each.
int AskFor(const std::string& text, int dim, uint64_t seed) {
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(text);
  if (!algorithm.ok()) Die(algorithm.status());
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < dim; ++i) {
    parameters.push_back(
        {absl::StrCat("x", 100 + i), study::FloatRange{-5.0, 5.0, study::Scale::kLinear, std::nullopt}});
  }
  study::StudySpec spec;
  spec.space = *study::SearchSpace::Create(std::move(parameters));
  spec.metric = {"value", study::Goal::kMinimize};
  spec.algorithm = *algorithm;
  spec.budget.max_trials = absl::GetFlag(FLAGS_evaluations);
  spec.seed = seed;
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  std::string line;
  for (int64_t asks = 0; asks < spec.budget.max_trials; ++asks) {
    const absl::Duration start = simulate::ThreadCpuTime();
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(asks), base::StopToken());
    if (!suggestion.ok()) Die(suggestion.status());
    std::printf("%s %.3f", suggestion->origin.c_str(), absl::ToDoubleMilliseconds(simulate::ThreadCpuTime() - start));
    for (const auto& [name, value] : suggestion->parameters) std::printf(" %.17g", std::get<double>(value));
    std::printf("\n");
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

std::vector<std::string> Words(const std::string& text, char by) {
  return absl::StrSplit(text, by);
}

int Main(const std::vector<char*>& words) {
  if (absl::GetFlag(FLAGS_serve)) {
    uint64_t seed = 0;
    double share = 0.0;
    if (words.size() != 4 || !absl::SimpleAtoi(words[2], &seed) || !absl::SimpleAtod(words[3], &share)) {
      Die(absl::InvalidArgumentError("--serve needs NAME SEED NOISE"));
    }
    return Serve(words[1], seed, share);
  }
  if (absl::GetFlag(FLAGS_ask)) {
    uint64_t seed = 0;
    int dim = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &dim) || dim < 1 || dim > 40 ||
        !absl::SimpleAtoi(words[2], &seed)) {
      Die(absl::InvalidArgumentError("--ask needs DIM (1 to 40) and SEED"));
    }
    return AskFor(Words(absl::GetFlag(FLAGS_algorithms), ';').front(), dim, seed);
  }
  std::printf("algorithm,function,noise,seed,reported,recommended,best,found_by,found_at,local_steps,ask_ms\n");
  for (const std::string& function : Words(absl::GetFlag(FLAGS_functions), ',')) {
    for (absl::string_view share : absl::StrSplit(absl::GetFlag(FLAGS_noise), ',')) {
      double level = 0.0;
      if (!absl::SimpleAtod(share, &level)) Die(absl::InvalidArgumentError("--noise: not numbers"));
      for (const std::string& algorithm : Words(absl::GetFlag(FLAGS_algorithms), ';')) {
        for (int64_t s = 0; s < absl::GetFlag(FLAGS_seeds); ++s) {
          Run(algorithm, function, level, absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(s));
        }
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
