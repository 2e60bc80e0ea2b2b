// Seconds of CPU until (f - f*) / f* falls to 1e-2, 1e-4, 1e-6, 1e-8, one thread, for linear classifiers with l2 = 1
// (lambda = 1/n) and a penalised bias, and the claims of Ahmed 2018, chapter 3. README.md says how to run it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/train/machine.h"
#include "lib/data/readers.h"
#include "lib/data/standardize.h"
#include "lib/linear/problem.h"
#include "lib/linear/trainer.h"

namespace luthier {
namespace {

using Eigen::VectorXd;
using linear::LinearSolver;
using linear::MarginLoss;
using linear::SvrgOptions;

constexpr double kLevels[] = {1e-2, 1e-4, 1e-6, 1e-8};

struct Source {
  const char* name;
  const char* file;
  bool standardize;
  bool alternate = false;  // Of more than two classes every second one is the first, not the smaller half.
};

constexpr Source kSources[] = {
    {"a9a", "libsvm/a9a.xz", false},
    {"w8a", "libsvm/w8a.xz", false},
    {"mushrooms", "libsvm/mushrooms_onehot.xz", false},
    {"spambase", "libsvm/spambase.xz", true},
    {"20news", "20news/20news-tfidf.svm.xz", false, true},
    {"mnist", "mnist/train-images-idx3-ubyte.xz", false},
    {"mnist-standardized", "mnist/train-images-idx3-ubyte.xz", true},
};

// More than two classes: every second one against the others for 20news (groups of one topic fall on both sides), else
// the first half against the second.
data::Dataset Halve(data::Dataset dataset, bool alternate) {
  if (dataset.num_classes() == 2) return dataset;
  const int half = dataset.num_classes() / 2;
  for (int32_t& label : dataset.label) label = (alternate ? label % 2 == 0 : label < half) ? 0 : 1;
  dataset.classes = {"first", "second"};
  return dataset;
}

struct Variant {
  std::string name;
  linear::LinearTrainOptions options;
};

Variant Plain(LinearSolver solver) {
  Variant v{linear::LinearSolverNames()[static_cast<size_t>(solver)], {}};
  v.options.solver = solver;
  return v;
}

Variant SvrgVariant(SvrgOptions::Batch batch, bool support, SvrgOptions::Skip skip, bool keep,
                    SvrgOptions::Sampling sampling, uint64_t seed) {
  Variant v = Plain(LinearSolver::kSvrg);
  v.options.svrg.batch = batch;
  v.options.svrg.support_list = support;
  v.options.svrg.skip = skip;
  v.options.svrg.keep_slopes = keep;
  v.options.svrg.sampling = sampling;
  v.options.svrg.seed = seed;
  if (!keep) v.options.svrg.step = SvrgOptions::Step::kLargest;  // The source's experiments.
  const char* batches[] = {"full", "grow", "mixed"};
  v.name = absl::StrCat("svrg ", batches[static_cast<int>(batch)],
                        sampling == SvrgOptions::Sampling::kLipschitz ? " lipschitz" : "",
                        skip != SvrgOptions::Skip::kNone ? " sv" : "");
  return v;
}

struct Reached {
  double seconds[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
  double passes[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
};

// Trains; the objective is looked at between iterations, on the side.
Reached Race(const linear::LinearProblem& problem, const Variant& variant, double optimum, double limit) {
  Reached reached;
  Variant v = variant;
  v.options.tolerance = 1e-14;  // Looks at the gradient cost, and are part of it.
  v.options.max_iterations = 100000;
  double spent = 0.0;
  double start = bench::ThreadSeconds();
  absl::StatusOr<linear::LinearTrainer> trainer = linear::LinearTrainer::Create(&problem, v.options);
  if (!trainer.ok()) return reached;
  spent += bench::ThreadSeconds() - start;
  while (spent < limit) {
    start = bench::ThreadSeconds();
    const linear::TrainOutcome outcome = trainer->Advance({}).value();
    spent += bench::ThreadSeconds() - start;
    const double gap = (problem.Value(trainer->Weights(), nullptr).value() - optimum) / optimum;
    for (int k = 0; k < 4; ++k) {
      if (gap > kLevels[k] || std::isfinite(reached.seconds[k])) continue;
      reached.seconds[k] = spent;
      reached.passes[k] = trainer->passes();
    }
    if (gap <= kLevels[3] || outcome != linear::TrainOutcome::kRunning) break;
  }
  return reached;
}

std::string Cell(double x) {
  if (!std::isfinite(x)) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), x < 10 ? "%.4f" : "%.1f", x);
  return text;
}

double Optimum(const linear::LinearProblem& problem) {
  double best = INFINITY;
  Variant v = Plain(problem.dim() <= 1000 ? LinearSolver::kNewtonCholesky : LinearSolver::kNewtonCg);
  v.options.tolerance = 1e-12;
  absl::StatusOr<linear::LinearTrainer> trainer = linear::LinearTrainer::Create(&problem, v.options);
  if (!trainer.ok()) return best;
  while (trainer->Advance({}).value() == linear::TrainOutcome::kRunning) {
  }
  best = problem.Value(trainer->Weights(), nullptr).value();
  return best;
}

// Loss and gradient of all rows: 4 flops an entry and 30 a row (an exponential, a logarithm and a division counted as 8
// each), each entry's column and value read twice.
void MeasurePass(const linear::LinearProblem& problem, const bench::MachineLimits& limits) {
  const linear::LinearData& data = problem.data();
  const VectorXd w = VectorXd::Constant(problem.dim(), 1e-3);
  VectorXd gradient;
  double best = INFINITY;
  for (int run = 0; run < 8; ++run) {
    const double start = bench::ThreadSeconds();
    problem.Value(w, &gradient).value();
    best = std::min(best, bench::ThreadSeconds() - start);
  }
  const double entries = static_cast<double>(data.nonzeros()), rows = static_cast<double>(data.rows());
  const double flops = 1e-9 * (4.0 * entries + 30.0 * rows) / best;
  const double bytes = 1e-9 * 2.0 * entries * (data.ones() ? 4.0 : 12.0) / best;
  std::printf(
      "\npass: %.5f s; %.2f GFlop/s, %.0f %% of multiply-adds in registers; entries %.1f GB/s, %.0f %% of reading "
      "256 MiB, %.0f %% of reading 256 KiB",
      best, flops, 100.0 * flops / limits.multiply_add_gflops, bytes, 100.0 * bytes / limits.read_gbs,
      100.0 * bytes / limits.cache_gbs);
}

void Table(const linear::LinearProblem& problem, const char* name, const std::vector<Variant>& variants, double limit) {
  const double optimum = Optimum(problem);
  const double n = static_cast<double>(problem.data().rows());
  const linear::SolverChoice choice = linear::ChooseSolver(problem);
  std::printf("\n%s: n %lld, d %lld, entries %lld, f*/n %.12f, largest/mean |z|^2 %.1f; auto: %s (%s)\n", name,
              static_cast<long long>(problem.data().rows()), static_cast<long long>(problem.dim()),
              static_cast<long long>(problem.data().nonzeros()), optimum / n,
              problem.data().max_norm2() / problem.data().mean_norm2(),
              linear::LinearSolverNames()[static_cast<size_t>(choice.solver)].c_str(), choice.reason.c_str());
  std::printf("| solver | s to 1e-2 | 1e-4 | 1e-6 | 1e-8 | passes to 1e-2 | 1e-4 | 1e-6 | 1e-8 |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Variant& v : variants) {
    const Reached r = Race(problem, v, optimum, limit);
    std::printf("| %s |", v.name.c_str());
    for (const double s : r.seconds) std::printf(" %s |", Cell(s).c_str());
    for (const double s : r.passes) std::printf(" %s |", Cell(s).c_str());
    std::printf("\n");
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  std::string root = ".";
  std::string only;
  std::string solvers = "newton_cholesky,newton_cg,lbfgs,dual,svrg";
  std::string loss_name = "logistic";
  double limit = 20.0;
  bool svrg_table = false;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const auto value = [&](const char* flag, std::string* out) {
      if (a.rfind(flag, 0) != 0) return false;
      *out = a.substr(std::strlen(flag));
      return true;
    };
    std::string text;
    if (value("--data=", &root) || value("--only=", &only) || value("--solvers=", &solvers) ||
        value("--loss=", &loss_name)) {
      continue;
    }
    if (value("--limit=", &text)) {
      limit = std::atof(text.c_str());
    } else if (a == "--svrg") {
      svrg_table = true;
    } else {
      std::fprintf(stderr,
                   "usage: %s [--data=DIR] [--only=a9a,w8a] [--solvers=dual,...] [--loss=logistic|squared_hinge|"
                   "huberized_hinge] [--limit=SECONDS] [--svrg]\n",
                   argv[0]);
      return 2;
    }
  }
  MarginLoss loss;
  if (loss_name == "squared_hinge") loss.kind = MarginLoss::Kind::kSquaredHinge;
  if (loss_name == "huberized_hinge") loss.kind = MarginLoss::Kind::kHuberizedHinge;
  const absl::StatusOr<data::DataRoot> opened = data::DataRoot::Open(root);
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", std::string(opened.status().message()).c_str());
    return 1;
  }
  const bench::MachineLimits limits = bench::MeasureMachine();
  bench::PrintMachine(limits);
  const std::vector<std::string> wanted = absl::StrSplit(only, ',', absl::SkipEmpty());
  for (const Source& source : kSources) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), source.name) == wanted.end()) continue;
    data::ReadOptions read;
    read.format = absl::StrContains(source.file, "idx3") ? data::Format::kIdx : data::Format::kLibsvm;
    absl::StatusOr<data::Dataset> loaded = data::LoadDataset(source.file, read, &*opened);
    if (!loaded.ok()) {
      std::printf("\n%s: skipped (data): %s\n", source.name, std::string(loaded.status().message()).c_str());
      continue;
    }
    const data::Dataset dataset = Halve(*std::move(loaded), source.alternate);
    std::vector<int32_t> rows(static_cast<size_t>(dataset.x.rows));
    std::iota(rows.begin(), rows.end(), 0);
    const data::Standardization s =
        source.standardize ? data::FitStandardization(dataset.x, rows).value() : data::Standardization();
    const double start = bench::ThreadSeconds();
    const linear::LinearData data = linear::LinearData::Create(dataset, rows, s, linear::Bias::kPenalized).value();
    std::printf("\nlayout: %.4f s", bench::ThreadSeconds() - start);
    const linear::LinearProblem problem(&data, loss, 1.0);
    MeasurePass(problem, limits);
    std::vector<Variant> variants;
    if (svrg_table) {
      const bool hinge = loss.kind != MarginLoss::Kind::kLogistic;
      for (const auto batch : {SvrgOptions::Batch::kFull, SvrgOptions::Batch::kGrow, SvrgOptions::Batch::kMixed}) {
        for (const bool sv : {false, true}) {
          if (sv && !hinge) continue;
          variants.push_back(SvrgVariant(batch, sv, sv ? SvrgOptions::Skip::kAfterThree : SvrgOptions::Skip::kNone,
                                         false, SvrgOptions::Sampling::kUniform, 1));
        }
      }
    } else {
      for (const absl::string_view name : absl::StrSplit(solvers, ',')) {
        const absl::StatusOr<LinearSolver> solver = linear::ParseLinearSolver(name);
        if (!solver.ok()) continue;
        variants.push_back(Plain(*solver));
        if (*solver == LinearSolver::kSvrg) {
          variants.back() = SvrgVariant(SvrgOptions::Batch::kGrow, true, SvrgOptions::Skip::kNone, true,
                                        SvrgOptions::Sampling::kUniform, 1);
          variants.push_back(SvrgVariant(SvrgOptions::Batch::kGrow, true, SvrgOptions::Skip::kNone, true,
                                         SvrgOptions::Sampling::kLipschitz, 1));
        }
      }
    }
    Table(problem, source.name, variants, limit);
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
