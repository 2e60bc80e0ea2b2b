// Harmonica's experiment at a small scale: 60 switches, of which 21 do nothing, govern the training of a real network;
// and a synthetic polynomial. Keeps one file a run; report.py makes the page of them.
//
//   harmonica_experiment --data_root=DIR --seeds=5
//
// Without the data the synthetic problem alone is run, saying so. Runs that are there already are not run again.

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/reproduce/harmonica/switched_network.h"
#include "lib/base/random.h"
#include "lib/data/readers.h"
#include "lib/search/harmonica/report.h"
#include "lib/search/registry.h"
#include "lib/spectral/parity.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

ABSL_FLAG(std::string, data_root, "", "folder of the data sets; empty: environment variable LUTHIER_DATA_DIR");
ABSL_FLAG(std::string, data, "libsvm/spambase.xz", "data set below it");
ABSL_FLAG(std::string, results, "", "folder of the results; empty: harmonica, beside the programs' folder bin");
ABSL_FLAG(std::string, problems, "network,synthetic", "separated by ','");
ABSL_FLAG(std::string, methods, "", "separated by ','; empty: all");
ABSL_FLAG(int, first_seed, 0, "seed of the first run of each");
ABSL_FLAG(int, seeds, 5, "seeds below this one");

namespace luthier::reproduce {
namespace {

constexpr int kTrainingRows = 800;
constexpr int kBits = 60;
constexpr int kWhole = SwitchedNetwork::kEpochs;

struct Method {
  const char* name;
  const char* algorithm;  // As in a study file.
  int trainings;          // Budget, in whole trainings of kWhole epochs; trainings in part count by their epochs.
};
// The source's setting: d = 3, s = 5, t = 4, 300 samples a stage. random goes on to twice the length of harmonica2.
// Where stages train for 3 epochs their samples cost a third, as the source's small network in its stages.
constexpr Method kMethods[] = {
    {"harmonica2", "{harmonica: {samples: 300, stages: 2}}", 700},
    {"harmonica3", "{harmonica: {samples: 300, stages: 3}}", 1000},
    {"harmonica2_tpe", "{harmonica: {samples: 300, stages: 2, base: {tpe: {}}}}", 700},
    {"harmonica2_hyperband", "{harmonica: {samples: 300, stages: 2, base: {hyperband: {}}}}", 700},
    {"harmonica2_cheap_hyperband", "{harmonica: {samples: 300, stages: 2, stage_resource: 3, base: {hyperband: {}}}}",
     700},
    {"random", "{random: {}}", 1400},
    {"successive_halving", "{successive_halving: {}}", 700},
    {"hyperband", "{hyperband: {}}", 700},
    {"tpe", "{tpe: {}}", 700},
    {"bo", "{bo: {noisy: true}}", 300},
};

bool NeedsParts(const Method& method) {
  return absl::StrContains(method.algorithm, "hyperband") || absl::StrContains(method.algorithm, "halving");
}

struct Result {
  double observed = 0.0;
  std::optional<double> truth;  // Without noise, or of the test set.
};
struct Problem {
  study::SearchSpace space;
  int64_t whole = 0;  // Steps of a whole training; 0: there are no parts.
  std::function<Result(const study::Parameters&, int64_t step)> value;
};

// Twenty terms of degree at most 3 on 25 of 60 switches, weights +-U(0.5, 1.5); noise of deviation 0.1.
Problem Synthetic(uint64_t seed) {
  constexpr int kRelevant = 25, kTerms = 20;
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kBits; ++i) {
    parameters.push_back({absl::StrCat("b", i), study::BoolSwitch{}, std::nullopt, std::nullopt});
  }
  base::RandomStream random(seed, "harmonica_experiment/polynomial");
  spectral::Polynomial g;
  for (int k = 0; k < kTerms; ++k) {
    spectral::Term term;
    const auto size = 1 + random.UniformInt(3);
    while (term.bits.size() < size) {
      const auto bit = static_cast<int>(random.UniformInt(kRelevant));
      if (std::find(term.bits.begin(), term.bits.end(), bit) == term.bits.end()) term.bits.push_back(bit);
    }
    std::sort(term.bits.begin(), term.bits.end());
    term.weight = (random.Uniform() < 0.5 ? -1.0 : 1.0) * (0.5 + random.Uniform());
    g.terms.push_back(std::move(term));
  }
  Problem problem;
  problem.space = *study::SearchSpace::Create(std::move(parameters));
  auto noise = std::make_shared<base::RandomStream>(seed, "harmonica_experiment/noise");
  problem.value = [g, noise](const study::Parameters& p, int64_t) {
    spectral::Bits x(kBits);
    for (int i = 0; i < kBits; ++i) x[i] = std::get<bool>(p.at(absl::StrCat("b", i))) ? -1.0f : 1.0f;
    const double truth = spectral::Evaluate(g, x);
    return Result{truth + 0.1 * noise->Normal(), truth};
  };
  return problem;
}

Problem Network(const data::Dataset& data, uint64_t seed) {
  auto network = std::make_shared<SwitchedNetwork>(data, kTrainingRows, seed);
  Problem problem;
  problem.space = SwitchedNetwork::Space();
  problem.whole = kWhole;
  problem.value = [network](const study::Parameters& p, int64_t step) {
    const SwitchedNetwork::Errors last = network->Train(p, static_cast<int>(step)).back();
    return Result{last.validation, last.test};
  };
  return problem;
}

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Terms that Harmonica's stages found.
void WriteTerms(const search::HarmonicaReport& report, const std::string& path) {
  std::ofstream terms(path);
  terms << "stage,rank,term,weight,better,variance_share,found_again,believed,cv_r2\n";
  for (size_t q = 0; q < report.stages.size(); ++q) {
    for (size_t k = 0; k < report.stages[q].terms.size(); ++k) {
      const search::HarmonicaTerm& term = report.stages[q].terms[k];
      std::vector<std::string> names;
      for (const search::HarmonicaFactor& factor : term.factors) names.push_back(factor.name);
      terms << q + 1 << "," << k + 1 << "," << absl::StrJoin(names, " x ") << "," << term.weight << ","
            << (term.better_values.empty() ? absl::StrCat("product ", term.better_sign) : term.better_values) << ","
            << term.variance_share << "," << term.bootstrap_frequency.value_or(0.0) << "," << report.stages[q].believed
            << "," << report.stages[q].cv_r2 << "\n";
    }
  }
}

// One worker. A line for each time that a trial stops: spent (steps in all so far), trial, step, value, truth, origin,
// stage (0: not a stage's), suggest_ms, evaluate_ms; values empty where the training diverged.
absl::Status Execute(const Method& method, const Problem& problem, uint64_t seed, const std::string& path) {
  study::StudySpec spec;
  spec.space = problem.space;
  spec.metric.name = "error";
  const absl::StatusOr<study::AlgorithmSpec> algorithm = wire::ParseAlgorithm(method.algorithm);
  if (!algorithm.ok()) return algorithm.status();
  spec.algorithm = *algorithm;
  const bool parts = problem.whole > 0;
  const int64_t whole = parts ? problem.whole : 1;
  if (parts) spec.resource = study::Resource{.min = 1, .max = whole, .unit = "epochs"};
  spec.budget.max_trials = parts ? method.trainings * whole : method.trainings;  // The epochs end it before.
  spec.seed = seed;
  if (const absl::Status status = search::Validate(spec); !status.ok()) return status;
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  std::string rows = "spent,trial,step,value,truth,origin,stage,suggest_ms,evaluate_ms\n";
  int64_t spent = 0;
  for (uint64_t ask = 0; spent < method.trainings * whole; ++ask) {
    const double start = CpuSeconds();
    const absl::StatusOr<search::Suggestion> suggestion = designer->Suggest(history, ask, base::StopToken());
    if (!suggestion.ok()) break;
    const double asked = CpuSeconds();
    int64_t number = static_cast<int64_t>(history.trials().size()) + 1;
    int64_t before = 0;
    if (suggestion->resume) {
      number = *suggestion->resume;
      before = history.trials()[static_cast<size_t>(number - 1)].resource;
      history.Resume(ask, number, suggestion->resource);
    } else {
      study::HistoryTrial trial;
      trial.number = number;
      trial.ask_index = ask;
      trial.parameters = suggestion->parameters;
      trial.designer_state = suggestion->designer_state;
      trial.resource = suggestion->resource;
      history.AddStored(trial);
    }
    const int64_t step = suggestion->resource > 0 ? suggestion->resource : whole;
    const Result result = problem.value(history.trials()[static_cast<size_t>(number - 1)].parameters, step);
    const double done = CpuSeconds();
    spent += step - before;
    const bool finite = std::isfinite(result.observed);
    if (parts) history.Report(number, step, result.observed);
    if (!finite) {
      history.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
    } else if (step < whole) {
      history.Pause(number);
    } else {
      history.Finish(number, study::TrialState::kComplete, result.observed, std::nullopt, std::nullopt);
    }
    const auto stage = suggestion->details.find("stage");
    absl::StrAppend(&rows, spent, ",", number, ",", step, ",", finite ? study::FormatDouble(result.observed) : "", ",",
                    finite && result.truth ? study::FormatDouble(*result.truth) : "", ",", suggestion->origin, ",",
                    stage == suggestion->details.end() ? 0 : static_cast<int>(stage->second), ",",
                    absl::StrFormat("%.3f,%.3f\n", 1e3 * (asked - start), 1e3 * (done - asked)));
  }
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  const search::HarmonicaReport report = search::ReportHarmonica(spec, history, search::kHarmonicaResamples);
  if (!report.stages.empty()) WriteTerms(report, path + ".terms");
  std::ofstream(path + ".part") << rows;
  std::filesystem::rename(path + ".part", path);
  return absl::OkStatus();
}

int Main(const std::string& program) {
  std::string root = absl::GetFlag(FLAGS_data_root);
  if (const char* variable = std::getenv("LUTHIER_DATA_DIR"); root.empty() && variable != nullptr) root = variable;
  std::string results = absl::GetFlag(FLAGS_results);
  if (results.empty()) results = program.substr(0, program.rfind('/') + 1) + "../harmonica";
  std::optional<data::Dataset> data;
  const std::vector<std::string> problems = absl::StrSplit(absl::GetFlag(FLAGS_problems), ',');
  const std::vector<std::string> wanted = absl::StrSplit(absl::GetFlag(FLAGS_methods), ',', absl::SkipEmpty());
  for (int seed = absl::GetFlag(FLAGS_first_seed); seed < absl::GetFlag(FLAGS_seeds); ++seed) {
    for (const std::string& name : problems) {
      std::optional<Problem> problem;
      if (name == "network") {
        if (!data) {
          const absl::StatusOr<data::DataRoot> folder = data::DataRoot::Open(root);
          const absl::StatusOr<data::Dataset> read = folder.ok()
                                                         ? data::LoadDataset(absl::GetFlag(FLAGS_data), {}, &*folder)
                                                         : absl::StatusOr<data::Dataset>(folder.status());
          if (!read.ok()) {
            absl::FPrintF(stderr, "skipped: problem network has no data (%s); set LUTHIER_DATA_DIR or --data_root\n",
                          std::string(read.status().message()));
            continue;
          }
          data = *read;
        }
        problem = Network(*data, static_cast<uint64_t>(seed));
      } else if (name == "synthetic") {
        problem = Synthetic(static_cast<uint64_t>(seed));
      } else {
        absl::FPrintF(stderr, "--problems: %s is neither network nor synthetic\n", name);
        return 2;
      }
      for (const Method& method : kMethods) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), method.name) == wanted.end()) continue;
        const std::string path = absl::StrCat(results, "/", name, "/", method.name, "/", seed, ".csv");
        if (std::filesystem::exists(path)) continue;
        // Without parts there is nothing to compare in these.
        if (problem->whole == 0 && NeedsParts(method)) continue;
        const double start = CpuSeconds();
        const absl::Status status = Execute(method, *problem, static_cast<uint64_t>(seed), path);
        absl::FPrintF(stderr, "%s %s %d: %s\n", name, method.name, seed,
                      status.ok() ? absl::StrFormat("%.1f s", CpuSeconds() - start)
                                  : absl::StrCat("skipped: ", status.message()));
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace luthier::reproduce

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Harmonica against others on 60 switches");
  absl::ParseCommandLine(argc, argv);
  return luthier::reproduce::Main(argv[0]);
}
