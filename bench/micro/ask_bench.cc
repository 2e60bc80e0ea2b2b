// What one suggestion costs at a given length of the history.
//
//   ask_bench --algorithms="bo;hbo;lbo" --function=hartmann6 --evaluations=200 --seeds=3 --long=500,1000,2000
//
// The algorithm itself grows a history of --evaluations results; each of its suggestions is timed (CPU time of one
// thread). Longer histories are filled up with cheap points, as if a user had enqueued them: half of them uniform in
// the box, half around the record. Prints for the --window asks before each length, over all seeds and by origin, the
// median, the 95th percentile and the maximum, and the largest memory of a run. Searches for hyperparameters are
// counted: they are part of the asks. Filled histories begin each window with such a search.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/heap.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, algorithms, "bo", "names or {name: {option: value}}, separated by ';'");
ABSL_FLAG(std::string, function, "hartmann6", "a test function");
ABSL_FLAG(int64_t, evaluations, 200, "results that the algorithm gathers itself");
ABSL_FLAG(int64_t, seeds, 3, "runs, with seeds 0, 1, …");
ABSL_FLAG(int64_t, window, 20, "asks before each length that are counted");
ABSL_FLAG(std::string, at, "20,50,100,200", "lengths up to --evaluations");
ABSL_FLAG(std::string, long, "", "greater lengths, of histories filled up with cheap points");
ABSL_FLAG(std::string, csv, "", "file for every ask: algorithm,seed,length,origin,ms; empty: none");

namespace luthier {
namespace {

constexpr double kNear = 0.1;  // Deviation of cheap points around the record, unit cube.

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "ask_bench: %s\n", std::string(status.message()).c_str());
  std::exit(2);
}

std::vector<int64_t> Lengths(const std::string& text) {
  std::vector<int64_t> lengths;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t length = 0;
    if (!absl::SimpleAtoi(part, &length) || length < 1) Die(absl::InvalidArgumentError("lengths: numbers from 1 on"));
    lengths.push_back(length);
  }
  return lengths;
}

class Run {
 public:
  Run(const std::string& algorithm, uint64_t seed, std::FILE* out) : out_(out), random_(seed, "ask_bench/points") {
    const absl::StatusOr<study::AlgorithmSpec> parsed = wire::ParseAlgorithm(algorithm);
    if (!parsed.ok()) Die(parsed.status());
    const absl::StatusOr<simulate::Problem> problem = simulate::TestProblem(absl::GetFlag(FLAGS_function));
    if (!problem.ok()) Die(problem.status());
    problem_ = *problem;
    study::StudySpec spec;
    spec.space = problem_.space;
    spec.metric = {"value", problem_.goal};
    spec.algorithm = *parsed;
    spec.seed = seed;
    if (const absl::Status valid = search::Validate(spec); !valid.ok()) Die(valid);
    encoding_ = std::make_unique<study::Encoding>(spec.space);
    goal_ = problem_.goal;
    designer_ = search::CreateDesigner(spec);
  }

  void AskUntil(int64_t length) {
    while (count_ < length) {
      const absl::Duration start = simulate::ThreadCpuTime();
      absl::StatusOr<search::Suggestion> suggestion = designer_->Suggest(history_, asks_, base::StopToken());
      const double ms = absl::ToDoubleMilliseconds(simulate::ThreadCpuTime() - start);
      if (!suggestion.ok()) Die(suggestion.status());
      std::fprintf(out_, "%lld %s %.4f\n", static_cast<long long>(count_), suggestion->origin.c_str(), ms);
      study::HistoryTrial trial;
      trial.ask_index = asks_++;
      trial.parameters = std::move(suggestion->parameters);
      trial.designer_state = std::move(suggestion->designer_state);
      Add(std::move(trial));
    }
  }

  void FillUntil(int64_t length) {
    while (count_ < length) {
      Eigen::VectorXd u(encoding_->compact_dim());
      for (double& x : u) x = random_.Uniform();
      if (best_.size() > 0 && count_ % 2 == 0) {
        for (Eigen::Index j = 0; j < u.size(); ++j) u(j) = std::clamp(best_(j) + kNear * random_.Normal(), 0.0, 1.0);
      }
      study::HistoryTrial trial;
      trial.parameters = encoding_->FromCompact(u);
      Add(std::move(trial));
    }
  }

 private:
  void Add(study::HistoryTrial trial) {
    trial.number = ++count_;
    const double value = problem_.evaluate(trial.parameters);
    LUTHIER_CHECK(std::isfinite(value));
    const double score = study::Score(goal_, value);
    if (best_.size() == 0 || score > best_score_) {
      best_ = encoding_->ToCompact(trial.parameters);
      best_score_ = score;
    }
    const int64_t number = trial.number;
    history_.AddStored(std::move(trial));
    history_.Finish(number, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
  }

  std::FILE* out_;
  base::RandomStream random_;
  simulate::Problem problem_;
  study::Goal goal_ = study::Goal::kMinimize;
  std::unique_ptr<study::Encoding> encoding_;
  std::unique_ptr<search::Designer> designer_;
  study::History history_;
  int64_t count_ = 0;
  uint64_t asks_ = 0;
  Eigen::VectorXd best_;
  double best_score_ = 0.0;
};

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const double share = at - static_cast<double>(low);
  return share == 0.0 ? values[low] : (1.0 - share) * values[low] + share * values[low + 1];
}

// p50 and p95 in ms, beside which those of `bo` on hartmann6 are printed.
const char* Target(int64_t length) {
  switch (length) {
    case 50:
      return "1.5 / 4";
    case 100:
      return "3 / 8";
    case 200:
      return "8 / 20";
    case 1000:
      return "250 / 600";
    default:
      return "";
  }
}

int Main() {
  const std::vector<int64_t> at = Lengths(absl::GetFlag(FLAGS_at)), filled = Lengths(absl::GetFlag(FLAGS_long));
  const int64_t evaluations = absl::GetFlag(FLAGS_evaluations), window = absl::GetFlag(FLAGS_window);
  std::vector<int64_t> marks;
  for (int64_t length : at) {
    if (length <= evaluations) marks.push_back(length);
  }
  marks.insert(marks.end(), filled.begin(), filled.end());
  std::FILE* csv = nullptr;
  if (!absl::GetFlag(FLAGS_csv).empty()) csv = std::fopen(absl::GetFlag(FLAGS_csv).c_str(), "w");
  absl::PrintF("%-34s %6s %-14s %5s %9s %9s %9s  %s\n", "algorithm", "n", "origin", "asks", "p50 ms", "p95 ms",
               "max ms", "aim");
  for (const std::string& algorithm : std::vector<std::string>(absl::StrSplit(absl::GetFlag(FLAGS_algorithms), ';'))) {
    std::map<std::pair<int64_t, std::string>, std::vector<double>> times;  // By mark and origin; "" for all.
    int64_t memory_kb = 0;
    for (int64_t seed = 0; seed < absl::GetFlag(FLAGS_seeds); ++seed) {
      // A process of its own, for the peak of memory.
      std::FILE* file = std::tmpfile();
      if (file == nullptr) Die(absl::InternalError("no temporary file can be made"));
      const pid_t child = fork();
      if (child == 0) {
        Run run(algorithm, static_cast<uint64_t>(seed), file);
        run.AskUntil(evaluations);
        for (int64_t length : filled) {
          run.FillUntil(length - window);
          run.AskUntil(length);
        }
        std::fflush(file);
        std::_Exit(0);
      }
      int status = 0;
      rusage usage = {};
      wait4(child, &status, 0, &usage);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 2;
      memory_kb = std::max<int64_t>(memory_kb, usage.ru_maxrss);
      std::rewind(file);
      long long length = 0;
      char origin[64];
      double ms = 0.0;
      while (std::fscanf(file, "%lld %63s %lf", &length, origin, &ms) == 3) {
        if (csv != nullptr) {
          absl::FPrintF(csv, "\"%s\",%d,%d,%s,%.4f\n", algorithm, seed, length, origin, ms);
        }
        for (int64_t mark : marks) {
          if (length < mark - window || length >= mark) continue;
          times[{mark, ""}].push_back(ms);
          times[{mark, origin}].push_back(ms);
        }
      }
      std::fclose(file);
    }
    for (const auto& [key, ms] : times) {
      absl::PrintF("%-34s %6d %-14s %5d %9.3f %9.3f %9.3f  %s\n", algorithm.substr(0, 34), key.first,
                   key.second.empty() ? "all" : key.second, ms.size(), Quantile(ms, 0.5), Quantile(ms, 0.95),
                   *std::max_element(ms.begin(), ms.end()), key.second.empty() ? Target(key.first) : "");
    }
    absl::PrintF("%-34s peak memory %.0f MB\n", algorithm.substr(0, 34), static_cast<double>(memory_kb) / 1024.0);
    std::fflush(stdout);
  }
  if (csv != nullptr) std::fclose(csv);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  luthier::base::KeepFreedMemory();
  absl::SetProgramUsageMessage("CPU time of suggestions by length of the history, and peak memory.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
