// How soon wrong gradients are noticed, and whether right ones are let pass (bench/search/pages/fobo.md).
//
//   gradient_faults --functions=branin,goldstein_price,hartmann3,rosenbrock4,hartmann6 --seeds=3 --trials=40
//
// The only worker, or the second of three that take turns, reports gradients that are wrong in one way. Prints for
// each fault in how many searches gradients of those were set aside, after how many trials, and in how many searches a
// worker's that are right. --faults=right: none is wrong, and every alarm is a false one.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/search/gradient_problems.h"
#include "lib/base/random.h"
#include "lib/catalogue/test_functions.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"

ABSL_FLAG(std::string, functions, "branin,goldstein_price,hartmann3,rosenbrock4,hartmann6",
          "names separated by ',' (gradient_problems.h), or all: the twelve test functions");
ABSL_FLAG(std::string, faults, "sign,times_1000,thousandth,times_10,times_4,quarter,order,normal,zero",
          "what is wrong: of those, and right, separated by ','. zero: of one component, by the seed's turn");
ABSL_FLAG(bool, all, true, "one worker, who is wrong");
ABSL_FLAG(bool, one, true, "three workers, one of whom is wrong");
ABSL_FLAG(int, seeds, 3, "searches of each function, with seeds first_seed, first_seed + 1, …");
ABSL_FLAG(uint64_t, first_seed, 0, "the first seed");
ABSL_FLAG(int, trials, 40, "trials of a search");
ABSL_FLAG(bool, shift, false, "in moved boxes (search_bench --shift)");
ABSL_FLAG(double, slope_noise, 0.0, "each component is multiplied by 1 + so much times a normal number");
ABSL_FLAG(double, value_noise, 0.0, "normal noise of so many deviations of the function is added to each value");
ABSL_FLAG(bool, noisy, false, "the study knows that values are noisy");
ABSL_FLAG(bool, apart, false, "print every search with an alarm");
ABSL_FLAG(int, jobs, 1, "processes");

namespace luthier {
namespace {

constexpr int kWorkers = 3, kWrongWorker = 1;

// Changes what trial number `trial` reports. d entries.
void Spoil(const std::string& fault, uint64_t seed, int trial, std::vector<double>* gradient) {
  double factor = 1.0;
  if (fault == "sign") factor = -1.0;
  if (fault == "times_10") factor = 10.0;
  if (fault == "times_4") factor = 4.0;
  if (fault == "times_1000") factor = 1000.0;
  if (fault == "thousandth") factor = 0.001;
  if (fault == "quarter") factor = 0.25;
  for (double& g : *gradient) g *= factor;
  if (fault == "order") std::rotate(gradient->begin(), gradient->begin() + 1, gradient->end());
  if (fault == "normal") {
    base::RandomStream random(seed, "bench/spoil", static_cast<uint64_t>(trial));
    for (double& g : *gradient) g *= random.Normal();
  }
  if (fault == "zero") (*gradient)[seed % gradient->size()] = 0.0;
}

struct Search {
  std::string function, fault;
  bool all = false;  // Gradients are wrong: there is one worker.
  uint64_t seed = 0;
};

struct Alarms {
  int wrong = 0, right = 0;  // Trials before a wrong worker's gradients were set aside, and a right one's; 0: never.
};

double DeviationOf(const simulate::Problem& problem, const study::Encoding& encoding) {
  base::RandomStream random(1, "bench/deviation");
  std::vector<double> values;
  double mean = 0.0, squares = 0.0;
  for (int i = 0; i < 256; ++i) {
    values.push_back(problem.evaluate(encoding.Sample(random)));
    mean += values.back() / 256.0;
  }
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / 255.0);
}

Alarms Run(const Search& search) {
  const absl::StatusOr<simulate::Problem> problem = GradientProblem(
      search.function, absl::GetFlag(FLAGS_shift) ? std::optional<uint64_t>(search.seed) : std::nullopt);
  if (!problem.ok()) {
    std::fprintf(stderr, "gradient_faults: %s\n", std::string(problem.status().message()).c_str());
    std::exit(2);
  }
  study::StudySpec spec;
  spec.space = problem->space;
  spec.metric = {"value", study::Goal::kMinimize};
  study::BoOptions options = study::BoDefaults(study::BoPreset::kFobo);
  options.noisy = absl::GetFlag(FLAGS_noisy);
  spec.algorithm = options;
  spec.seed = search.seed;
  const study::Encoding encoding(spec.space);
  const double value_noise = absl::GetFlag(FLAGS_value_noise), slope_noise = absl::GetFlag(FLAGS_slope_noise);
  const double deviation = value_noise > 0.0 ? value_noise * DeviationOf(*problem, encoding) : 0.0;
  base::RandomStream noise(search.seed, "bench/noise");

  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  Alarms alarms;
  for (int k = 0; k < absl::GetFlag(FLAGS_trials); ++k) {
    absl::StatusOr<search::Suggestion> suggestion =
        designer->Suggest(history, static_cast<uint64_t>(k), base::StopToken());
    if (!suggestion.ok()) break;  // A space that is exhausted.
    for (const int64_t number : suggestion->set_aside) {
      const bool wrong = search.fault != "right" && (search.all || (number - 1) % kWorkers == kWrongWorker);
      int& first = wrong ? alarms.wrong : alarms.right;
      if (first == 0) first = k;
    }
    study::HistoryTrial trial;
    trial.number = k + 1;
    trial.ask_index = static_cast<uint64_t>(k);
    trial.parameters = suggestion->parameters;
    trial.designer_state = suggestion->designer_state;
    trial.reporter = search.all ? 0 : k % kWorkers;
    history.AddStored(trial);
    const double value = problem->evaluate(trial.parameters) + deviation * noise.Normal();
    study::Gradient gradient;
    gradient.values = problem->gradient(trial.parameters);
    for (double& g : gradient.values) g *= 1.0 + slope_noise * noise.Normal();
    if (search.all || trial.reporter == kWrongWorker) Spoil(search.fault, search.seed, k, &gradient.values);
    history.Finish(k + 1, study::TrialState::kComplete, value, gradient, std::nullopt);
  }
  return alarms;
}

// Runs search i, and every jobs-th after it, in a process of its own; its alarms come through a pipe.
void RunAll(const std::vector<Search>& searches, std::vector<Alarms>* alarms) {
  const size_t jobs = static_cast<size_t>(std::max(1, absl::GetFlag(FLAGS_jobs)));
  std::vector<std::FILE*> results;
  for (size_t job = 0; job < jobs; ++job) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(2);
    const pid_t child = fork();
    if (child < 0) std::exit(2);
    if (child == 0) {
      std::FILE* out = fdopen(ends[1], "w");
      for (size_t i = job; i < searches.size(); i += jobs) {
        const Alarms one = Run(searches[i]);
        std::fprintf(out, "%zu %d %d\n", i, one.wrong, one.right);
      }
      std::fclose(out);
      _exit(0);
    }
    close(ends[1]);
    results.push_back(fdopen(ends[0], "r"));
  }
  alarms->resize(searches.size());
  size_t seen = 0;
  for (std::FILE* in : results) {
    size_t i = 0;
    Alarms one;
    for (; std::fscanf(in, "%zu %d %d", &i, &one.wrong, &one.right) == 3; ++seen) (*alarms)[i] = one;
    std::fclose(in);
    wait(nullptr);
  }
  if (seen != searches.size()) std::exit(2);
}

int Main() {
  std::vector<std::string> functions = absl::StrSplit(absl::GetFlag(FLAGS_functions), ',');
  if (absl::GetFlag(FLAGS_functions) == "all") {
    functions.clear();
    for (const catalogue::TestFunction& f : catalogue::TestFunctions()) functions.push_back(f.name);
  }
  const std::vector<std::string> faults = absl::StrSplit(absl::GetFlag(FLAGS_faults), ',');
  std::vector<Search> searches;
  for (const std::string& fault : faults) {
    for (const bool all : {true, false}) {
      if (!absl::GetFlag(all ? FLAGS_all : FLAGS_one)) continue;
      if (fault == "right" && all) continue;
      for (const std::string& function : functions) {
        for (int s = 0; s < absl::GetFlag(FLAGS_seeds); ++s) {
          searches.push_back({function, fault, all, absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(s)});
        }
      }
    }
  }
  std::vector<Alarms> alarms;
  RunAll(searches, &alarms);
  std::printf("%-10s %-5s %8s %10s %10s\n", "fault", "wrong", "searches", "noticed", "false");
  for (size_t i = 0; i < searches.size();) {
    const Search& first = searches[i];
    int noticed = 0, earliest = 0, latest = 0, mistaken = 0;
    const size_t begin = i;
    for (; i < searches.size() && searches[i].fault == first.fault && searches[i].all == first.all; ++i) {
      const Alarms& a = alarms[i];
      mistaken += a.right > 0;
      if (absl::GetFlag(FLAGS_apart)) {
        std::printf("  %s %s %s seed %d: %d, false %d\n", searches[i].fault.c_str(), searches[i].all ? "all" : "one",
                    searches[i].function.c_str(), static_cast<int>(searches[i].seed), a.wrong, a.right);
      }
      if (a.wrong == 0) continue;
      earliest = ++noticed == 1 ? a.wrong : std::min(earliest, a.wrong);
      latest = std::max(latest, a.wrong);
    }
    std::printf("%-10s %-5s %8zu %10d %10d  after %d to %d\n", first.fault.c_str(), first.all ? "all" : "one",
                i - begin, noticed, mistaken, earliest, latest);
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("How soon wrong gradients are noticed");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
