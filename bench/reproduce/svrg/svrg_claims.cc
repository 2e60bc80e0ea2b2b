// The claims of Ahmed 2018, chapter 3, about growing batches, mixed steps and support vectors, over several seeds.
//
//   luthier-reproduce-svrg --data=DIR [--seeds=5] [--passes=20] [--only=a9a,...]
//
// Protocol of the source: logistic loss and Huberized hinge (eps .5, which the source does not say), lambda = 1/n, a
// bias that is penalised, dense features standardized, step 1/L, m = |B|, option I. Passes count evaluations of one
// row's slope, divided by n: |B| + 2 a step, less what support vectors and plain steps save. An epoch's end is what one
// has in hand until the next one ends. Nothing depends on the machine's speed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/learn/linear_trainer.h"
#include "lib/learn/readers.h"
#include "lib/learn/split.h"
#include "lib/learn/standardize.h"

ABSL_FLAG(std::string, data, ".", "folder with libsvm/");
ABSL_FLAG(std::string, only, "", "names of data sets, separated by commas; empty: all");
ABSL_FLAG(int, seeds, 5, "runs of each variant");
ABSL_FLAG(double, passes, 20.0, "length of a run");

namespace luthier::learn {
namespace {

using Eigen::VectorXd;
using Batch = SvrgOptions::Batch;

struct Source {
  const char* name;
  const char* file;
  const char* test;  // "": a fifth of the rows.
  bool standardize;
};

constexpr Source kSources[] = {
    {"a9a", "libsvm/a9a.xz", "libsvm/a9a.t.xz", false},
    {"w8a", "libsvm/w8a.xz", "", false},
    {"mushrooms", "libsvm/mushrooms_onehot.xz", "", false},
    {"spambase", "libsvm/spambase.xz", "", true},
    {"sparse", "synth:logistic?rows=40000&cols=5000&density=0.004&informative=500&signal=4&noise=0.05&seed=1", "",
     false},
};

constexpr double kLooks[] = {1.0, 3.0, 5.0, 10.0, 20.0};
constexpr size_t kLookCount = std::size(kLooks);

struct Problem {
  Standardization standardization;
  LinearData train, test;
  double optimum = 0.0;     // Of h / n.
  double best_error = 0.0;  // Share of test rows that the optimum gets wrong.
};

Dataset Load(const char* file, const DataRoot& root) {
  ReadOptions read;
  read.format = Format::kLibsvm;
  absl::StatusOr<Dataset> loaded = LoadDataset(file, read, &root);
  if (!loaded.ok()) absl::FPrintF(stderr, "%s\n", std::string(loaded.status().message()));
  LUTHIER_CHECK(loaded.ok());
  return *std::move(loaded);
}

std::vector<int32_t> AllRows(const Dataset& dataset) {
  std::vector<int32_t> rows(static_cast<size_t>(dataset.x.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Problem Prepare(const Source& source, const DataRoot& root) {
  const Dataset dataset = Load(source.file, root);
  Partition part;
  Dataset other;
  if (*source.test != '\0') {
    part.train = AllRows(dataset);
    other = Load(source.test, root);
    // Columns that training has not: there are none in these files.
    LUTHIER_CHECK(other.x.cols <= dataset.x.cols);
    other.x.cols = dataset.x.cols;
  } else {
    part = SplitValidation(dataset.label, 2, 0.2, 1).value();
  }
  Standardization s = source.standardize ? FitStandardization(dataset.x, part.train) : Standardization();
  LinearData train(dataset, part.train, s, Bias::kPenalized);
  LinearData test = *source.test != '\0' ? LinearData(other, AllRows(other), s, Bias::kPenalized)
                                         : LinearData(dataset, part.validation, s, Bias::kPenalized);
  return {std::move(s), std::move(train), std::move(test), 0.0, 0.0};
}

double TestError(const Problem& p, const VectorXd& w) {
  return 1.0 - static_cast<double>(p.test.CountCorrect(w)) / static_cast<double>(p.test.rows());
}

VectorXd Optimum(const LinearProblem& problem) {
  LinearTrainOptions options;
  options.solver = problem.dim() <= 1000 ? LinearSolver::kNewtonCholesky : LinearSolver::kNewtonCg;
  options.tolerance = 1e-11;
  LinearTrainer trainer = LinearTrainer::Create(&problem, options).value();
  while (trainer.Advance(nullptr) == TrainOutcome::kRunning) {
  }
  return trainer.Weights();
}

struct Run {
  double gap[kLookCount];      // (f - f*) / f* in hand after so many passes.
  double error[kLookCount];    // On test rows.
  double to_error = INFINITY;  // Passes to the error of the optimum, plus .002.
  double to_gap = INFINITY;    // Passes to a gap of 1e-3.
};

Run Train(const Problem& p, const LinearProblem& problem, const SvrgOptions& options, double limit) {
  const double n = static_cast<double>(p.train.rows());
  Svrg svrg(&problem, options);
  VectorXd w = VectorXd::Zero(problem.dim());
  LUTHIER_CHECK(svrg.Start(w) == SolveState::kRunning);
  Run run;
  double gap = (problem.Value(w, nullptr) / n - p.optimum) / p.optimum;
  double error = TestError(p, w);
  size_t look = 0;
  while (look < kLookCount && kLooks[look] <= limit) {
    svrg.AdvanceEpoch(nullptr);
    const double passes = static_cast<double>(svrg.evaluations()) / n;
    for (; look < kLookCount && kLooks[look] < passes; ++look) {
      run.gap[look] = gap;
      run.error[look] = error;
    }
    w = svrg.Weights();
    gap = (problem.Value(w, nullptr) / n - p.optimum) / p.optimum;
    error = TestError(p, w);
    if (gap <= 1e-3) run.to_gap = std::min(run.to_gap, passes);
    if (error <= p.best_error + 0.002) run.to_error = std::min(run.to_error, passes);
  }
  for (; look < kLookCount; ++look) run.gap[look] = run.error[look] = NAN;
  return run;
}

struct Range {
  double low, middle, high;
};

Range RangeOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

std::string Show(const Range& r, const char* format) {
  const auto one = [&](double x) {
    char text[32];
    std::snprintf(text, sizeof(text), format, x);
    return std::isfinite(x) ? std::string(text) : std::string("-");
  };
  return absl::StrCat(one(r.middle), " (", one(r.low), "-", one(r.high), ")");
}

void Claims(const Source& source, const DataRoot& root) {
  Problem p = Prepare(source, root);
  const int seeds = absl::GetFlag(FLAGS_seeds);
  for (const bool hinge : {false, true}) {
    MarginLoss loss;
    if (hinge) loss.kind = MarginLoss::Kind::kHuberizedHinge;
    const LinearProblem problem(&p.train, loss, 1.0);
    const VectorXd best = Optimum(problem);
    p.optimum = problem.Value(best, nullptr) / static_cast<double>(p.train.rows());
    p.best_error = TestError(p, best);
    absl::PrintF("\n%s, %s: n %d, test %d, f* %.9f, test error at f* %.4f, largest / mean |a|^2 %.1f\n", source.name,
                 hinge ? "hsvm" : "logistic", p.train.rows(), p.test.rows(), p.optimum, p.best_error,
                 p.train.max_norm2() / p.train.mean_norm2());
    absl::PrintF(
        "| variant | gap after 1 | 3 | 5 | 10 | 20 | test error after 1 | 3 | 5 | 10 | 20 | passes to gap 1e-3 | "
        "passes to error +.002 |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (const Batch batch : {Batch::kFull, Batch::kGrow, Batch::kMixed}) {
      for (const bool sv : {false, true}) {
        if (sv && !hinge) continue;
        std::vector<Run> runs;
        for (int seed = 1; seed <= seeds; ++seed) {
          SvrgOptions options;
          options.batch = batch;
          options.support_list = sv;
          options.skip = sv ? SvrgOptions::Skip::kAfterThree : SvrgOptions::Skip::kNone;
          options.keep_slopes = false;
          options.seed = static_cast<uint64_t>(seed);
          runs.push_back(Train(p, problem, options, absl::GetFlag(FLAGS_passes)));
        }
        const auto of = [&](auto&& get) {
          std::vector<double> values;
          for (const Run& run : runs) values.push_back(get(run));
          return RangeOf(std::move(values));
        };
        const char* names[] = {"full", "grow", "mixed"};
        absl::PrintF("| %s%s |", names[static_cast<int>(batch)], sv ? ", sv" : "");
        for (size_t k = 0; k < kLookCount; ++k) {
          absl::PrintF(" %s |", Show(of([k](const Run& run) { return run.gap[k]; }), "%.1e"));
        }
        for (size_t k = 0; k < kLookCount; ++k) {
          absl::PrintF(" %s |", Show(of([k](const Run& run) { return run.error[k]; }), "%.4f"));
        }
        absl::PrintF(" %s | %s |\n", Show(of([](const Run& run) { return run.to_gap; }), "%.1f"),
                     Show(of([](const Run& run) { return run.to_error; }), "%.1f"));
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace luthier::learn

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("luthier-reproduce-svrg --data=DIR: growing batches, mixed steps, support vectors");
  absl::ParseCommandLine(argc, argv);
  const auto root = luthier::learn::DataRoot::Open(absl::GetFlag(FLAGS_data));
  LUTHIER_CHECK(root.ok());
  const std::vector<std::string> wanted = absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  for (const auto& source : luthier::learn::kSources) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), source.name) == wanted.end()) continue;
    luthier::learn::Claims(source, *root);
  }
  return 0;
}
