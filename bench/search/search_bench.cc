// Search algorithms on test functions: regret against evaluations, and what a suggestion costs.
//
//   search_bench --algorithms=bo,random --functions=all --seeds=10 --evaluations=200 --csv=regret.csv
//
// Prints, for each algorithm and function, the median over seeds of the regret after the evaluations of --at, and the
// median and 95th percentile of a suggestion's CPU milliseconds. --csv writes every evaluation, in the columns of
// `luthier simulate`. --shift moves the boxes, whose centres are otherwise too good a guess. --jobs runs so many
// processes at once, each with its share of the runs. Values alone are reported: without --gradients an algorithm that
// would use derivatives (auto, fobo) sees what every other one sees.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/search/wide_functions.h"
#include "lib/base/heap.h"
#include "lib/catalogue/test_functions.h"
#include "lib/simulate/simulate.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, algorithms, "bo", "names or {name: {option: value}}, separated by ';'");
ABSL_FLAG(std::string, functions, "all",
          "names separated by ',', or all; those of wide_functions.h and mixed_functions.h by name");
ABSL_FLAG(int64_t, evaluations, 100, "evaluations of a run");
ABSL_FLAG(int64_t, seeds, 10, "runs of each algorithm on each function, with seeds first_seed, first_seed + 1, …");
ABSL_FLAG(uint64_t, first_seed, 0, "the first run's seed");
ABSL_FLAG(int64_t, parallel, 1, "workers of the simulated study");
ABSL_FLAG(double, noise, 0.0,
          "standard deviation of the noise that the algorithm sees on each value; the regret is the function's own "
          "where the best value was reported");
ABSL_FLAG(
    bool, shift, false,
    "move each run's box by offsets of up to a fifth of its width, drawn from the run's seed; the best point stays "
    "inside. Functions are then named NAME+shift");
ABSL_FLAG(bool, gradients, false,
          "report the functions' exact gradients beside their values (or slopes, where the algorithm asks for a "
          "direction): for algorithms that use them, fobo and auto among them, and comparable with nothing else");
ABSL_FLAG(std::string, at, "20,50,100,200", "evaluations after which the regret is printed");
ABSL_FLAG(std::string, csv, "", "file for every evaluation; empty: none");
ABSL_FLAG(int, jobs, 1, "processes");
ABSL_FLAG(bool, seeds_apart, false, "print the regret of every seed after the last evaluation");

namespace luthier {
namespace {

struct Run {
  std::string algorithm;
  std::string function;  // Without "+shift".
  uint64_t seed = 0;
};

struct Outcome {
  std::vector<double> regret;      // After each evaluation.
  std::vector<double> suggest_ms;  // Of each.
};

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  const double share = at - static_cast<double>(low);
  return share == 0.0 ? values[low] : (1.0 - share) * values[low] + share * values[high];
}

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "search_bench: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

// Writes the rows of one run to `out`.
void Simulate(const Run& run, std::FILE* out) {
  simulate::SimulateOptions options;
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(run.algorithm);
  if (!algorithm.ok()) Die(algorithm.status());
  const std::optional<uint64_t> shift = absl::GetFlag(FLAGS_shift) ? std::optional<uint64_t>(run.seed) : std::nullopt;
  const absl::StatusOr<simulate::Problem> problem = BenchProblem(run.function, shift);
  if (!problem.ok()) Die(problem.status());
  options.algorithm = *algorithm;
  options.label = run.algorithm;
  options.problem = *problem;
  if (!absl::GetFlag(FLAGS_gradients)) options.problem.gradient = nullptr;
  options.evaluations = absl::GetFlag(FLAGS_evaluations);
  options.first_seed = run.seed;
  options.parallel = absl::GetFlag(FLAGS_parallel);
  options.noise = absl::GetFlag(FLAGS_noise);
  const absl::Status status = simulate::Simulate(options, simulate::ThreadCpuTime, [&](const simulate::Row& row) {
    std::fprintf(out, "%s\n", simulate::CsvLine(row).c_str());
    return true;
  });
  if (!status.ok()) Die(status);
}

// Whether the algorithm was named for derivatives, which it will not see.
bool WaitsForGradients(const std::string& text) {
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(text);
  if (!algorithm.ok()) return false;
  const auto* bo = std::get_if<study::BoOptions>(&*algorithm);
  return bo != nullptr && bo->gradients != study::BoGradients::kOff;
}

int Main() {
  std::vector<std::string> functions;
  if (absl::GetFlag(FLAGS_functions) == "all") {
    for (const catalogue::TestFunction& f : catalogue::TestFunctions()) functions.push_back(f.name);
  } else {
    functions = absl::StrSplit(absl::GetFlag(FLAGS_functions), ',');
  }
  const std::vector<std::string> algorithms = absl::StrSplit(absl::GetFlag(FLAGS_algorithms), ';');
  for (const std::string& algorithm : algorithms) {
    if (!absl::GetFlag(FLAGS_gradients) && WaitsForGradients(algorithm)) {
      std::fprintf(stderr, "search_bench: %s gets no gradients without --gradients\n", algorithm.c_str());
    }
  }
  std::vector<Run> runs;
  for (const std::string& function : functions) {
    for (const std::string& algorithm : algorithms) {
      for (int64_t s = 0; s < absl::GetFlag(FLAGS_seeds); ++s) {
        runs.push_back({algorithm, function, absl::GetFlag(FLAGS_first_seed) + static_cast<uint64_t>(s)});
      }
    }
  }
  // Each process writes a file of its own; they are read in order of run.
  const int jobs = std::max(1, absl::GetFlag(FLAGS_jobs));
  std::vector<std::FILE*> files;
  std::vector<pid_t> children;
  for (int j = 0; j < jobs; ++j) {
    files.push_back(std::tmpfile());
    if (files.back() == nullptr) Die(absl::InternalError("no temporary file can be made"));
    const pid_t child = fork();
    if (child == 0) {
      for (size_t r = static_cast<size_t>(j); r < runs.size(); r += static_cast<size_t>(jobs)) {
        Simulate(runs[r], files.back());
      }
      std::fflush(files.back());
      std::_Exit(0);
    }
    children.push_back(child);
  }
  bool ok = true;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!ok) return 2;

  std::ofstream csv;
  if (!absl::GetFlag(FLAGS_csv).empty()) {
    csv.open(absl::GetFlag(FLAGS_csv));
    csv << simulate::CsvHeader() << '\n';
  }
  // From the right: the label may hold commas.
  std::map<std::pair<std::string, std::string>, std::map<uint64_t, Outcome>> outcomes;  // By label (quoted), function.
  for (std::FILE* file : files) {
    std::rewind(file);
    char* line = nullptr;
    size_t capacity = 0;
    ssize_t length = 0;
    while ((length = getline(&line, &capacity, file)) > 0) {
      std::string text(line, static_cast<size_t>(length) - 1);
      if (csv.is_open()) csv << text << '\n';
      std::vector<std::string> fields = absl::StrSplit(text, ',');
      const size_t n = fields.size();
      const std::string label = absl::StrJoin(fields.begin(), fields.end() - 7, ",");
      uint64_t seed = 0;
      double regret = std::nan(""), ms = 0.0;
      if (!absl::SimpleAtoi(fields[n - 6], &seed) || !absl::SimpleAtod(fields[n - 1], &ms)) return 2;
      if (!fields[n - 2].empty() && !absl::SimpleAtod(fields[n - 2], &regret)) return 2;
      Outcome& outcome = outcomes[{label, fields[n - 7]}][seed];
      outcome.regret.push_back(regret);
      outcome.suggest_ms.push_back(ms);
    }
    std::free(line);
    std::fclose(file);
  }

  std::vector<int64_t> marks;
  for (absl::string_view text : absl::StrSplit(absl::GetFlag(FLAGS_at), ',')) {
    int64_t mark = 0;
    if (!absl::SimpleAtoi(text, &mark) || mark < 1) Die(absl::InvalidArgumentError("--at: not numbers from 1 on"));
    if (mark <= absl::GetFlag(FLAGS_evaluations)) marks.push_back(mark);
  }
  absl::PrintF("%-16s %-28s", "function", "algorithm");
  for (int64_t mark : marks) absl::PrintF(" %9s", absl::StrCat("n=", mark));
  absl::PrintF(" %9s %9s\n", "ms p50", "ms p95");
  for (const std::string& function : functions) {
    for (const auto& [key, by_seed] : outcomes) {
      if (key.second != absl::StrCat(function, absl::GetFlag(FLAGS_shift) ? "+shift" : "")) continue;
      absl::PrintF("%-16s %-28s", key.second, key.first.substr(0, 28));
      for (int64_t mark : marks) {
        std::vector<double> regrets;
        for (const auto& [seed, outcome] : by_seed) {
          const size_t at = std::min(static_cast<size_t>(mark), outcome.regret.size());
          if (at > 0) regrets.push_back(outcome.regret[at - 1]);
        }
        absl::PrintF(" %9.2g", Quantile(regrets, 0.5));
      }
      std::vector<double> ms;
      for (const auto& [seed, outcome] : by_seed)
        ms.insert(ms.end(), outcome.suggest_ms.begin(), outcome.suggest_ms.end());
      absl::PrintF(" %9.3f %9.3f\n", Quantile(ms, 0.5), Quantile(ms, 0.95));
      if (absl::GetFlag(FLAGS_seeds_apart)) {
        for (const auto& [seed, outcome] : by_seed) {
          absl::PrintF("    seed %d:", seed);
          for (int64_t mark : marks) {
            absl::PrintF(" %9.2g", outcome.regret[std::min(static_cast<size_t>(mark), outcome.regret.size()) - 1]);
          }
          absl::PrintF("\n");
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
  absl::SetProgramUsageMessage("Compares search algorithms on test functions; prints a table and writes CSV.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
