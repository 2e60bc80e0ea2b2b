// What early stopping saves on real trainings: builtin objectives on real data, with every rule and without, the same
// settings, ten seeds. Prints the tables of bench/search/pages/early_stopping.md.
//
//   early_stopping --data=DIR                              all problems, every rule
//   early_stopping --data=DIR --problems=letters --seeds=3
//
// DIR: a folder with conll2000/train.txt.xz, ocr-letters/letters.tsv.xz and libsvm/sonar_scale.xz. Parameters that are
// searched on a log scale are rounded to a grid; each setting that any study tries is trained once, to the end, by the
// objective itself, and its learning curve is kept and replayed by lib/simulate, which adds workers, pauses, promotions
// and rules.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
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
#include "lib/base/check.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/data_root.h"
#include "lib/data/text_source.h"
#include "lib/objectives/chain_source.h"
#include "lib/objectives/create.h"
#include "lib/objectives/crf_settings.h"
#include "lib/simulate/training.h"

ABSL_FLAG(std::string, data, "", "folder with the data sets; empty: $LUTHIER_DATA_DIR");
ABSL_FLAG(std::string, problems, "", "names, separated by commas; empty: all for which there are data");
ABSL_FLAG(std::string, rules, "", "names, separated by commas; empty: all");
ABSL_FLAG(int, seeds, 10, "studies of each rule");
ABSL_FLAG(int, settings, 162, "settings of a study");
ABSL_FLAG(int, workers, 8, "trials at once");
ABSL_FLAG(bool, each, false, "print every study");
ABSL_FLAG(bool, curves, false, "print the losses of every setting after 3, 9, 27 and all steps");

namespace luthier {
namespace {

constexpr int64_t kWhole = 81;
constexpr char kStep[] = "constant_step";
constexpr double kLevels = 12.0;  // Of a parameter on a log scale, in equal steps.

// One training, to its end.
struct Curve {
  std::vector<double> loss;  // After step 1, 2, …; the last one is the result. NaN: it broke down.
};

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// An objective whose trainings are remembered.
class Recorder {
 public:
  // A space with kStep is one of chains, whose step is held: no objective has that.
  Recorder(study::BuiltinObjective objective, const study::SearchSpace& space, const data::DataRoot& root)
      : options_(objective.options) {
    objective.options["report_every"] = 1.0;
    for (const study::ParameterSpec& parameter : space.parameters()) {
      if (const auto* range = std::get_if<study::FloatRange>(&parameter.domain)) ranges_[parameter.name] = *range;
    }
    if (space.Find(kStep)) {
      chains_ = objectives::ChainSource::Open(objective, &root, nullptr, {}).value();
      return;
    }
    const study::MetricSpec metric = {"validation_loss", study::Goal::kMinimize};
    auto made = objectives::CreateObjective(objective, space, metric, &root);
    if (!made.ok()) absl::FPrintF(stderr, "%s\n", made.status().ToString());
    LUTHIER_CHECK(made.ok());
    objective_ = *std::move(made);
  }

  const Curve& Of(study::Parameters setting) {
    for (const auto& [name, range] : ranges_) {
      const double width = std::log(range.max / range.min) / (kLevels - 1.0);
      double& value = std::get<double>(setting.at(name));
      value = std::clamp(range.min * std::exp(width * std::round(std::log(value / range.min) / width)), range.min,
                         range.max);
    }
    const auto [found, fresh] = curves_.try_emplace(setting);
    if (fresh) found->second = Train(setting);
    return found->second;
  }
  void Print() const {
    for (const auto& [setting, curve] : curves_) {
      absl::FPrintF(stderr, "%s:", study::FormatParameters(setting));
      for (const size_t step : {3u, 9u, 27u, 81u}) {
        absl::FPrintF(stderr, " %.5g", curve.loss[std::min(step, curve.loss.size()) - 1]);
      }
      absl::FPrintF(stderr, ", %d steps\n", curve.loss.size());
    }
  }
  size_t trainings() const { return curves_.size(); }
  double seconds() const { return seconds_; }

 private:
  Curve Train(const study::Parameters& setting) {
    const double start = CpuSeconds();
    std::map<int64_t, double> points = chains_ ? TrainChains(setting) : TrainObjective(setting);
    Curve curve;
    for (const auto& [step, loss] : points) {  // What lies between two points is the earlier one's.
      curve.loss.resize(static_cast<size_t>(step), curve.loss.empty() ? loss : curve.loss.back());
      curve.loss.back() = loss;
    }
    seconds_ += CpuSeconds() - start;
    return curve;
  }

  // The losses after so many steps; NaN where training broke down.
  std::map<int64_t, double> TrainObjective(const study::Parameters& setting) {
    std::map<int64_t, double> points;
    objectives::EvaluationContext context;
    context.parameters = setting;
    context.report = [&](const study::Measurement& point) {
      if (point.step >= 1) points[std::min(point.step, kWhole)] = point.metrics.at("validation_loss");
      return true;
    };
    const absl::StatusOr<objectives::EvaluationResult> result = objective_->Evaluate(context);
    LUTHIER_CHECK(result.ok());
    if (result->outcome == objectives::EvaluationOutcome::kComplete) {
      const study::Measurement& last = *result->measurement;
      points[std::clamp<int64_t>(last.step, 1, kWhole)] = last.metrics.at("validation_loss");
    } else {
      const int64_t next = points.empty() ? 1 : std::min(kWhole, points.rbegin()->first + 1);
      points[next] = std::numeric_limits<double>::quiet_NaN();
    }
    return points;
  }

  std::map<int64_t, double> TrainChains(study::Parameters setting) {
    const double step = std::get<double>(setting.at(kStep));
    setting.erase(kStep);
    const auto settings = catalogue::Settings::Resolve(catalogue::CrfInfo(), options_, setting).value();
    const auto data = chains_->Encode(settings, {}).value();
    const objectives::ChainFold& fold = data->folds[0];
    crf::ChainTrainerOptions options = objectives::ChainTrainingOptions(settings, 0);
    options.average.step = stochastic::StepRule::kConstant;
    options.average.constant_step = step;
    crf::ChainTrainer trainer = crf::ChainTrainer::Create(&fold.train, settings.Number("l2"), options).value();
    crf::ChainLoss held_out(&fold.validation);
    std::map<int64_t, double> points;
    while (trainer.outcome() == crf::ChainOutcome::kRunning) {
      const bool broken = trainer.Advance({}).value() == crf::ChainOutcome::kDiverged;
      points[std::clamp(static_cast<int64_t>(trainer.passes()), int64_t{1}, kWhole)] =
          broken ? std::numeric_limits<double>::quiet_NaN() : held_out.Evaluate(trainer.Weights()).value().loss_nats;
    }
    return points;
  }

  const study::Parameters options_;
  std::unique_ptr<objectives::Objective> objective_;  // Null where chains are trained.
  std::unique_ptr<const objectives::ChainSource> chains_;
  std::map<std::string, study::FloatRange> ranges_;
  std::map<study::Parameters, Curve> curves_;
  double seconds_ = 0.0;
};

study::ParameterSpec Log(const char* name, double min, double max) {
  return {name, study::FloatRange{min, max, study::Scale::kLog, std::nullopt}, {}, {}};
}
study::ParameterSpec Switch(const char* name) {
  return {name, study::BoolSwitch{}, {}, {}};
}

struct Problem {
  std::string name;
  study::BuiltinObjective objective;
  std::vector<study::ParameterSpec> space;
};

study::BuiltinObjective Builtin(const char* model, const char* data, study::Parameters options) {
  study::BuiltinObjective objective;
  objective.model = model;
  objective.data = data;
  objective.split.seed = 1;
  objective.split.validation = 0.5;
  objective.options = std::move(options);
  return objective;
}

std::vector<Problem> Problems() {
  using namespace std::string_literals;
  const double whole = static_cast<double>(kWhole);
  const auto with = [&](const char* format) {
    return study::Parameters{
        {"max_iterations", whole}, {"gradient", false}, {"format", std::string(format)}, {"solver", "lbfgs"s}};
  };
  const std::vector<study::ParameterSpec> linear = {Log("l2", 1e-6, 1e4), Switch("intercept"), Switch("standardize")};
  study::BuiltinObjective few_held_out = Builtin("logistic", "breast_cancer.csv", with("csv"));
  few_held_out.split.validation = 0.25;
  const study::ParameterSpec window = {"window", study::IntRange{0, 2}, {}, {}};
  return {
      {"letters",
       Builtin("crf", "letters.tsv", {{"max_passes", whole}, {"format", "letters"s}}),
       {Log("l2", 1e-3, 1e3), Log(kStep, 1e-4, 0.1)}},
      {"chunking",
       Builtin("crf", "chunking.txt", {{"max_passes", whole}}),
       {Log("l2", 1e-3, 1e2), Log(kStep, 1e-4, 0.1), window}},
      {"letters-long",
       Builtin("crf", "letters.tsv", {{"max_passes", whole}, {"format", "letters"s}}),
       {Log("l2", 1e-3, 1e3), Log(kStep, 1e-4, 10.0)}},
      {"sonar", Builtin("logistic", "libsvm/sonar_scale.xz", with("libsvm")), linear},
      {"spambase", Builtin("logistic", "libsvm/spambase.xz", with("libsvm")), linear},
      {"breast_cancer", Builtin("logistic", "breast_cancer.csv", with("csv")), linear},
      {"breast_cancer-142", few_held_out, linear},
  };
}

// --- Rules ---

struct Rule {
  std::string name;
  study::AlgorithmSpec algorithm = study::RandomOptions{};
  std::optional<study::StoppingRule> stopping;
  int64_t min = 3;
  double settings = 1.0;  // Times those without stopping.
};

std::vector<Rule> Rules() {
  study::AshaOptions stop;
  stop.variant = study::AshaVariant::kStop;
  study::PercentileStopping quarter;
  quarter.percentile = 25.0;
  const study::RandomOptions random;
  return {{"asha", study::AshaOptions{}, {}, 9},
          {"asha STOP", stop, {}, 9},
          {"successive_halving", study::SuccessiveHalvingOptions{}, {}, 9},
          {"hyperband", study::HyperbandOptions{}, {}, 9},
          {"median", random, study::MedianStopping{}, 9},
          {"percentile 25", random, quarter, 9},
          {"curve", random, study::CurveStopping{}, 9},
          {"asha from 3", study::AshaOptions{}, {}, 3},
          {"asha from 27", study::AshaOptions{}, {}, 27},
          {"asha from 3 (3 times as many)", study::AshaOptions{}, {}, 3, 3.0},
          {"hyperband from 3", study::HyperbandOptions{}, {}, 3},
          {"median from 3", random, study::MedianStopping{}, 3},
          {"percentile 25 from 3", random, quarter, 3},
          {"bo (a tenth as many)", study::BoOptions{}, {}, 9, 0.1},
          {"tpe (a tenth as many)", study::TpeOptions{}, {}, 9, 0.1},
          {"asha, bo (a third as many)", study::AshaOptions{.sampler = study::BoOptions{}}, {}, 9, 1.0 / 3.0},
          {"asha, tpe (a third as many)", study::AshaOptions{.sampler = study::TpeOptions{}}, {}, 9, 1.0 / 3.0},
          {"asha (a third as many)", study::AshaOptions{}, {}, 9, 1.0 / 3.0}};
}

double Quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double h = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(h);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (h - static_cast<double>(below)) * (values[above] - values[below]);
}

bool Wanted(const std::string& list, const std::string& name) {
  if (list.empty()) return true;
  const std::vector<std::string> names = absl::StrSplit(list, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

simulate::TrainingSummary Study(const simulate::TrainingProblem& problem, const Rule& rule, uint64_t seed) {
  simulate::TrainingOptions options;
  options.problem = problem;
  options.algorithm = rule.algorithm;
  options.stopping = rule.stopping;
  options.resource = {rule.min, kWhole, "steps"};
  options.trials = std::lround(rule.settings * absl::GetFlag(FLAGS_settings));
  options.workers = absl::GetFlag(FLAGS_workers);
  options.seed = seed;
  const absl::StatusOr<simulate::TrainingSummary> summary = simulate::SimulateTraining(options);
  if (!summary.ok()) absl::FPrintF(stderr, "%s\n", summary.status().ToString());
  LUTHIER_CHECK(summary.ok() && summary->best);
  return *summary;
}

void Table(const Problem& problem, const data::DataRoot& root) {
  const absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(problem.space);
  LUTHIER_CHECK(space.ok());
  Recorder recorder(problem.objective, *space, root);
  simulate::TrainingProblem training;
  training.name = problem.name;
  training.space = *space;
  training.value = [&](const study::Parameters& setting, int64_t step) {
    const std::vector<double>& loss = recorder.Of(setting).loss;
    return loss[std::min(loss.size(), static_cast<size_t>(step)) - 1];
  };
  training.length = [&](const study::Parameters& setting) {
    return static_cast<int64_t>(recorder.Of(setting).loss.size());
  };

  const int seeds = absl::GetFlag(FLAGS_seeds);
  std::vector<simulate::TrainingSummary> without;
  std::vector<double> training_without, best_without;
  for (int seed = 0; seed < seeds; ++seed) {
    without.push_back(Study(training, Rule(), static_cast<uint64_t>(seed)));
    training_without.push_back(without.back().training);
    best_without.push_back(*without.back().best);
  }
  absl::PrintF(
      "\n%s: %d settings without stopping take %.0f steps (median) and end at %.5g (%.5g ... %.5g); %.1f ms a "
      "training\n\n",
      problem.name, absl::GetFlag(FLAGS_settings), Quantile(training_without, 0.5), Quantile(best_without, 0.5),
      Quantile(best_without, 0.0), Quantile(best_without, 1.0),
      1e3 * recorder.seconds() / static_cast<double>(recorder.trainings()));
  if (absl::GetFlag(FLAGS_curves)) recorder.Print();
  absl::PrintF("| rule | less training, median | least ... most | winner worse by, median | worst |\n");
  absl::PrintF("|---|---|---|---|---|\n");
  for (const Rule& rule : Rules()) {
    if (!Wanted(absl::GetFlag(FLAGS_rules), rule.name)) continue;
    std::vector<double> ratio, worse;
    for (int seed = 0; seed < seeds; ++seed) {
      const simulate::TrainingSummary with = Study(training, rule, static_cast<uint64_t>(seed));
      const simulate::TrainingSummary& plain = without[static_cast<size_t>(seed)];
      ratio.push_back(plain.training / with.training);
      worse.push_back(100.0 * (*with.best - *plain.best) / std::abs(*plain.best));
      if (absl::GetFlag(FLAGS_each)) {
        absl::FPrintF(stderr, "%s %s seed %d: %.0f of %.0f steps, %d complete, %.6g against %.6g\n", problem.name,
                      rule.name, seed, with.training, plain.training, with.complete, *with.best, *plain.best);
      }
    }
    absl::PrintF("| %s | %.1f | %.1f ... %.1f | %.2f %% | %.2f %% |\n", rule.name, Quantile(ratio, 0.5),
                 Quantile(ratio, 0.0), Quantile(ratio, 1.0), Quantile(worse, 0.5), Quantile(worse, 1.0));
  }
}

// The first `count` sequences of a compressed file as `copy` in `folder`. A sequence ends at an empty line, or, with
// `by_fields`, where the first two fields change. False: the file is not there.
bool CopyHead(const data::DataRoot& root, const std::string& name, int count, bool by_fields, const std::string& copy) {
  absl::StatusOr<data::UniqueFd> file = root.OpenFile(name);
  if (!file.ok()) return false;
  absl::StatusOr<std::unique_ptr<data::ByteSource>> bytes = data::OpenBytes(*std::move(file), name);
  if (!bytes.ok()) return false;
  data::LineReader lines(*std::move(bytes), name);
  std::ofstream out(copy);
  std::string last;
  for (int sequences = 0;;) {
    const auto line = lines.Next();
    if (!line.ok() || !line->has_value()) return false;
    const std::string text(**line);
    if (by_fields) {
      const std::vector<std::string> fields = absl::StrSplit(text, absl::MaxSplits('\t', 2));
      const std::string word = absl::StrCat(fields[0], " ", fields.size() > 1 ? fields[1] : "");
      sequences += word != last;
      last = word;
      if (sequences > count) return true;
    } else {
      sequences += text.empty();
    }
    out << text << "\n";
    if (!by_fields && sequences == count) return true;
  }
}

int Main() {
  std::string data = absl::GetFlag(FLAGS_data);
  const char* named = std::getenv("LUTHIER_DATA_DIR");
  if (data.empty() && named != nullptr) data = named;
  char scratch[] = "/tmp/luthier-early-stopping-XXXXXX";
  LUTHIER_CHECK(mkdtemp(scratch) != nullptr);
  for (const Problem& problem : Problems()) {
    if (!Wanted(absl::GetFlag(FLAGS_problems), problem.name)) continue;
    absl::StatusOr<data::DataRoot> root = data::DataRoot::Open(data.empty() ? "." : data);
    const std::string copy = absl::StrCat(scratch, "/", problem.objective.data);
    if (root.ok() && (problem.objective.data == "letters.tsv"
                          ? CopyHead(*root, "ocr-letters/letters.tsv.xz", 160, /*by_fields=*/true, copy)
                          : problem.objective.data == "chunking.txt" &&
                                CopyHead(*root, "conll2000/train.txt.xz", 160, /*by_fields=*/false, copy))) {
      root = data::DataRoot::Open(scratch);
    }
    if (root.ok() && !root->OpenFile(problem.objective.data).ok()) root = data::DataRoot::Open("data");
    if (!root.ok() || !root->OpenFile(problem.objective.data).ok()) {
      absl::FPrintF(stderr, "%s: no data; name their folder by --data\n", problem.name);
      continue;
    }
    Table(problem, *root);
    fflush(stdout);
  }
  std::filesystem::remove_all(scratch);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What early stopping saves on real trainings.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
