// The claims of Ahmed 2018, chapter 3, about growing batches, mixed steps and support vectors, over several seeds.
//
//   luthier-reproduce-svrg --data=DIR [--seeds=5] [--passes=20] [--long_passes=300] [--only=a9a,...] > svrg.csv
//
// Protocol of the source: logistic loss and Huberized hinge (eps .5, which the source does not say), lambda = 1/n, a
// bias that is penalised, dense features standardized, step 1/L, m = |B|, option I. Passes count evaluations of one
// row's slope, divided by n: |B| + 2 a step, less what support vectors and plain steps save. An epoch's end is what one
// has in hand until the next one ends. Nothing depends on the machine's speed. Rows printed, separated by commas:
//   problem,NAME,LOSS,rows,columns,entries,test rows,f*,test error at f*,largest / mean |a|^2,which rows are tested
//   look,NAME,LOSS,VARIANT,seed,passes,gap,test error         in hand after so many passes
//   reach,NAME,LOSS,VARIANT,seed,1e-2,1e-3,1e-4,1e-6,error    passes to gaps, and to the error at f* + .002; inf: not
// VARIANT: full, grow, mixed; with "-sv": list of support vectors and skipping. Gaps are (f - f*) / f*. Runs of seed 1
// go on for long_passes or until the gap is 1e-6, those of other seeds end after `passes`.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/data/readers.h"
#include "lib/data/split.h"
#include "lib/data/standardize.h"
#include "lib/linear/problem.h"
#include "lib/linear/trainer.h"

ABSL_FLAG(std::string, data, ".", "folder with libsvm/");
ABSL_FLAG(std::string, only, "", "names of data sets, separated by commas; empty: all");
ABSL_FLAG(int, seeds, 5, "runs of each variant");
ABSL_FLAG(double, passes, 20.0, "length of a run");
ABSL_FLAG(double, long_passes, 300.0, "length of seed 1's run");

namespace luthier::linear {
namespace {

using Eigen::VectorXd;
using Batch = SvrgOptions::Batch;

struct Source {
  const char* name;
  const char* file;
  const char* test;  // "": a fifth of the rows.
  bool standardize;
  // Which labels are the first class where there are more than two: even ones, or the smaller half.
  bool alternate = false;
};

constexpr Source kSources[] = {
    {"a9a", "libsvm/a9a.xz", "libsvm/a9a.t.xz", false},
    {"w8a", "libsvm/w8a.xz", "", false},
    {"mushrooms", "libsvm/mushrooms_onehot.xz", "", false},
    {"spambase", "libsvm/spambase.xz", "", true},
    {"20news", "20news/20news-tfidf.svm.xz", "", false, true},
    {"MNIST", "mnist/train-images-idx3-ubyte.xz", "mnist/t10k-images-idx3-ubyte.xz", false},
    {"sparse", "synth:logistic?rows=40000&cols=5000&density=0.004&informative=500&signal=4&noise=0.05&seed=1", "",
     false},
};

constexpr double kLevels[] = {1e-2, 1e-3, 1e-4, 1e-6};
constexpr double kLookEvery = 0.5;  // Passes.

struct Problem {
  data::Standardization standardization;
  LinearData train, test;
  double optimum = 0.0;     // Of h / n.
  double best_error = 0.0;  // Share of test rows that the optimum gets wrong.
};

absl::StatusOr<data::Dataset> Load(const Source& source, const char* file, const data::DataRoot& root) {
  data::ReadOptions read;
  read.format = absl::StrContains(file, "idx3") ? data::Format::kIdx : data::Format::kLibsvm;
  LUTHIER_ASSIGN_OR_RETURN(data::Dataset dataset, data::LoadDataset(file, read, &root));
  const int classes = dataset.num_classes();
  if (classes > 2) {
    for (int32_t& label : dataset.label) label = (source.alternate ? label % 2 == 0 : label < classes / 2) ? 0 : 1;
    dataset.classes = {"first", "second"};
  }
  return dataset;
}

std::vector<int32_t> AllRows(const data::Dataset& dataset) {
  std::vector<int32_t> rows(static_cast<size_t>(dataset.x.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

absl::StatusOr<Problem> Prepare(const Source& source, const data::DataRoot& root) {
  LUTHIER_ASSIGN_OR_RETURN(const data::Dataset dataset, Load(source, source.file, root));
  data::Partition part;
  data::Dataset other;
  if (*source.test != '\0') {
    part.train = AllRows(dataset);
    LUTHIER_ASSIGN_OR_RETURN(other, Load(source, source.test, root));
    // Columns that training has not: there are none in these files.
    LUTHIER_CHECK(other.x.cols <= dataset.x.cols);
    other.x.cols = dataset.x.cols;
  } else {
    part = data::SplitValidation(dataset.label, 2, 0.2, 1).value();
  }
  data::Standardization s =
      source.standardize ? data::FitStandardization(dataset.x, part.train).value() : data::Standardization();
  // The rows are copied, for the data sets end here.
  const auto lay = [&](const data::Dataset& from, const std::vector<int32_t>& rows) {
    return LinearData::Create(from, rows, s, Bias::kPenalized, {}, std::numeric_limits<int64_t>::max()).value();
  };
  LinearData train = lay(dataset, part.train);
  LinearData test = *source.test != '\0' ? lay(other, AllRows(other)) : lay(dataset, part.validation);
  return Problem{std::move(s), std::move(train), std::move(test), 0.0, 0.0};
}

double TestError(const Problem& p, const VectorXd& w) {
  return 1.0 - static_cast<double>(p.test.CountCorrect(w).value()) / static_cast<double>(p.test.rows());
}

VectorXd Optimum(const LinearProblem& problem) {
  LinearTrainOptions options;
  options.solver = problem.dim() <= 1000 ? LinearSolver::kNewtonCholesky : LinearSolver::kNewtonCg;
  options.tolerance = 1e-11;
  LinearTrainer trainer = LinearTrainer::Create(&problem, options).value();
  while (trainer.Advance({}).value() == TrainOutcome::kRunning) {
  }
  return trainer.Weights();
}

// One run; prints its rows, which begin with `head`.
void Train(const Problem& p, const LinearProblem& problem, const SvrgOptions& options, double looks, double limit,
           const std::string& head) {
  const double n = static_cast<double>(p.train.rows());
  Svrg svrg(&problem, options);
  VectorXd w = VectorXd::Zero(problem.dim());
  LUTHIER_CHECK(svrg.Start(w).value() == SolveState::kRunning);
  double to_gap[std::size(kLevels)];
  std::fill(std::begin(to_gap), std::end(to_gap), INFINITY);
  double to_error = INFINITY;
  double gap = (problem.Value(w, nullptr).value() / n - p.optimum) / p.optimum;
  double error = TestError(p, w);
  double look = kLookEvery;
  while (look <= looks || (to_gap[std::size(kLevels) - 1] == INFINITY && look <= limit)) {
    svrg.AdvanceEpoch({}).value();
    const double passes = static_cast<double>(svrg.evaluations()) / n;
    for (; look < passes; look += kLookEvery) {
      if (look <= looks) absl::PrintF("look,%s,%.1f,%.4e,%.5f\n", head, look, gap, error);
    }
    w = svrg.Weights();
    gap = (problem.Value(w, nullptr).value() / n - p.optimum) / p.optimum;
    error = TestError(p, w);
    for (size_t k = 0; k < std::size(kLevels); ++k) {
      if (gap <= kLevels[k]) to_gap[k] = std::min(to_gap[k], passes);
    }
    if (error <= p.best_error + 0.002) to_error = std::min(to_error, passes);
  }
  absl::PrintF("reach,%s", head);
  for (const double passes : to_gap) absl::PrintF(",%.2f", passes);
  absl::PrintF(",%.2f\n", to_error);
  std::fflush(stdout);
}

void Claims(const Source& source, const data::DataRoot& root) {
  absl::StatusOr<Problem> prepared = Prepare(source, root);
  if (!prepared.ok()) {
    absl::FPrintF(stderr, "%s: skipped (data): %s\n", source.name, std::string(prepared.status().message()));
    return;
  }
  Problem& p = *prepared;
  for (const bool hinge : {false, true}) {
    MarginLoss loss;
    if (hinge) loss.kind = MarginLoss::Kind::kHuberizedHinge;
    const char* loss_name = hinge ? "hsvm" : "logistic";
    const LinearProblem problem(&p.train, loss, 1.0);
    const VectorXd best = Optimum(problem);
    p.optimum = problem.Value(best, nullptr).value() / static_cast<double>(p.train.rows());
    p.best_error = TestError(p, best);
    absl::PrintF("problem,%s,%s,%d,%d,%d,%d,%.12f,%.5f,%.1f,%s\n", source.name, loss_name, p.train.rows(),
                 p.train.features(), p.train.nonzeros(), p.test.rows(), p.optimum, p.best_error,
                 p.train.max_norm2() / p.train.mean_norm2(), *source.test != '\0' ? "own" : "fifth");
    for (const Batch batch : {Batch::kFull, Batch::kGrow, Batch::kMixed}) {
      for (const bool sv : {false, true}) {
        if (sv && !hinge) continue;
        for (int seed = 1; seed <= absl::GetFlag(FLAGS_seeds); ++seed) {
          SvrgOptions options;
          options.batch = batch;
          options.support_list = sv;
          options.skip = sv ? SvrgOptions::Skip::kAfterThree : SvrgOptions::Skip::kNone;
          options.keep_slopes = false;
          options.step = SvrgOptions::Step::kLargest;
          options.seed = static_cast<uint64_t>(seed);
          const char* names[] = {"full", "grow", "mixed"};
          const double looks = absl::GetFlag(FLAGS_passes);
          Train(p, problem, options, looks, seed == 1 ? absl::GetFlag(FLAGS_long_passes) : looks,
                absl::StrCat(source.name, ",", loss_name, ",", names[static_cast<int>(batch)], sv ? "-sv" : "", ",",
                             seed));
        }
      }
    }
  }
}

}  // namespace
}  // namespace luthier::linear

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("luthier-reproduce-svrg --data=DIR: growing batches, mixed steps, support vectors");
  absl::ParseCommandLine(argc, argv);
  const auto root = luthier::data::DataRoot::Open(absl::GetFlag(FLAGS_data));
  LUTHIER_CHECK(root.ok());
  const std::vector<std::string> wanted = absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  for (const auto& source : luthier::linear::kSources) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), source.name) == wanted.end()) continue;
    luthier::linear::Claims(source, *root);
  }
  return 0;
}
