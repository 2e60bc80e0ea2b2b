// How fast conditional random fields train, on the two problems of Ahmed 2018, chapter 2, that are there in full:
// CoNLL-2000 chunking (1,643,026 weights) and OCR letters (4,082).
//
//   train_bench --data=DIR --problem=chunking --what=pass      seconds, flops and bytes of the full gradient beside the
//   machine's limits train_bench --data=DIR --problem=chunking --what=race      seconds and passes to relative
//   suboptimality, SAG train_bench --data=DIR --problem=letters --what=lbfgs      the same, L-BFGS
//
// Every other method, sampling and step rule: bench/reproduce/crf.
//
// One thread unless --threads says more, CPU seconds, best or only run as said; with several threads also seconds on
// the wall. Passes count every loss of a line search as loss and gradient, as the source does. The time to evaluate the
// objective between passes is not counted.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/train/machine.h"
#include "bench/train/problems.h"
#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/block_average.h"
#include "lib/crf/solvers/problem.h"
#include "lib/linear/lbfgs_solver.h"

ABSL_FLAG(std::string, data, "", "folder with conll2000/ and ocr-letters/");
ABSL_FLAG(std::string, problem, "chunking", "chunking, letters, names or tags");
ABSL_FLAG(std::string, what, "race", "pass, race or lbfgs");
ABSL_FLAG(std::string, methods, "sag", "race: methods, separated by commas");
ABSL_FLAG(std::string, sampling, "ms", "race: sampling scheme");
ABSL_FLAG(std::string, step, "hedge", "race: step rule");
ABSL_FLAG(std::string, memory, "mixed", "race: memory mode");
ABSL_FLAG(bool, skip_checks, true, "race: leave out line searches that keep succeeding");
ABSL_FLAG(double, l2, 1.0, "strength of the penalty; 1 is lambda = 1/n");
ABSL_FLAG(double, passes, 200.0, "race: gives up after so many passes");
ABSL_FLAG(double, target, 1e-8, "race: relative suboptimality at which to stop");
ABSL_FLAG(int, evaluate_every, 1, "race: passes between evaluations of the objective");
ABSL_FLAG(int, seed, 1, "of the sampling");
ABSL_FLAG(int, threads, 1, "pass, lbfgs: of the full gradient; race: above 1 blocks of sequences");
ABSL_FLAG(double, optimum, 0.0, "of a problem whose optimum is not known here (names, tags)");
ABSL_FLAG(bool, blocks, false, "race: blocks of sequences also with one thread");
ABSL_FLAG(int, block, 0, "race: most sequences of a block; 0: its own choice");

namespace luthier::crf {
namespace {

void PrintTest(ChainLoss& test, const Eigen::VectorXd& w) {
  const ChainLoss::Metrics m = test.Evaluate(w).value();
  absl::PrintF("  test: token error %.3f %%, F1 %.2f, loss %.5f nats a token\n", 100.0 * (1.0 - m.accuracy),
               100.0 * m.segments.all.f1(), m.loss_nats);
}

// Multiplications and additions of the full gradient as the algorithm needs them: scores and gradients of attributes,
// forward, backward and edges, an exponential counted as 20.
double GradientFlops(const ChainData& data) {
  const double K = data.labels();
  const auto T = static_cast<double>(data.tokens());
  const auto entries = static_cast<double>(data.attribute.size());
  return 2.0 * entries * K + T * (3.0 * 2.0 * K * K + 6.0 * K + 20.0 * K) + 20.0 * K * K;
}

// Bytes of rows that the full gradient reads (scores) and reads and writes (gradients): most of what it touches.
double RowBytes(const ChainData& data) {
  return 3.0 * 8.0 * static_cast<double>(data.attribute.size()) * data.shape().stride();
}

void MeasurePass(const TrainingProblem& problem) {
  const bench::MachineLimits limits = bench::MeasureMachine();
  bench::PrintMachine(limits);
  const KernelList list = RunnableKernels();
  for (int k = 0; k < list.count; ++k) {
    ChainLoss loss(&problem.train, absl::GetFlag(FLAGS_threads), *list.kernels[k]);
    Eigen::VectorXd w = Eigen::VectorXd::Zero(loss.dim());
    Eigen::VectorXd gradient;
    double best = INFINITY, best_value = INFINITY, best_wall = INFINITY;
    for (int run = 0; run < 12; ++run) {
      const auto wall = std::chrono::steady_clock::now();
      double start = CpuSeconds();
      loss.Value(w, &gradient).value();
      best = std::min(best, CpuSeconds() - start);
      best_wall = std::min(best_wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count());
      start = CpuSeconds();
      loss.Value(w, nullptr).value();
      best_value = std::min(best_value, CpuSeconds() - start);
      w -= 1e-3 * gradient;
    }
    const double flops = 1e-9 * GradientFlops(problem.train) / best, bytes = 1e-9 * RowBytes(problem.train) / best;
    absl::PrintF(
        "%-10s gradient %.4f s (%.4f s on the wall), loss alone %.4f s; %.2f GFlop/s, %.0f %% of multiply-adds in "
        "registers; rows %.1f GB/s, %.0f %% of reading 256 KiB, %.0f %% of reading 256 MiB\n",
        list.kernels[k]->name, best, best_wall, best_value, flops, 100.0 * flops / limits.multiply_add_gflops, bytes,
        100.0 * bytes / limits.cache_gbs, 100.0 * bytes / limits.read_gbs);
  }
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const double kLevels[] = {1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8};

// Prints each level once it is reached.
class Curve {
 public:
  explicit Curve(double optimum) : optimum_(optimum) {}
  void Add(double value, double seconds, double wall, double passes) {
    suboptimality_ = (value - optimum_) / optimum_;
    while (next_ < std::size(kLevels) && suboptimality_ <= kLevels[next_]) {
      absl::PrintF("  %.0e: %8.3f s  %8.3f s on the wall  %7.1f passes\n", kLevels[next_], seconds, wall, passes);
      std::fflush(stdout);
      ++next_;
    }
  }
  double suboptimality() const { return suboptimality_; }

 private:
  const double optimum_;
  double suboptimality_ = INFINITY;
  size_t next_ = 0;
};

void RaceLbfgs(const TrainingProblem& problem) {
  ChainLoss loss(&problem.train, absl::GetFlag(FLAGS_threads));
  ChainLoss test(&problem.test);
  const ChainProblem h(&loss, absl::GetFlag(FLAGS_l2));
  const auto f = [&](const Eigen::VectorXd& w, Eigen::VectorXd* g) { return h.Value(w, g).value(); };
  absl::PrintF("L-BFGS\n");
  Curve curve(*problem.optimum);
  const double start = CpuSeconds(), wall = WallSeconds();
  linear::LbfgsSolver solver(1e-5);
  linear::SolveState state = solver.Start(f, Eigen::VectorXd::Zero(loss.dim())).value();
  while (state == linear::SolveState::kRunning && curve.suboptimality() > absl::GetFlag(FLAGS_target)) {
    state = solver.Step(f, {}).value();
    curve.Add(solver.value(), CpuSeconds() - start, WallSeconds() - wall, static_cast<double>(solver.evaluations()));
  }
  absl::PrintF("  h %.6f, largest gradient entry %.2e, %d evaluations, %.2f s\n", solver.value(),
               solver.gradient().lpNorm<Eigen::Infinity>(), solver.evaluations(), CpuSeconds() - start);
  PrintTest(test, solver.x());
}

AverageGradientOptions OptionsOf(const std::string& method) {
  AverageGradientOptions options;
  options.method = ParseAverageMethod(method).value();
  options.sampling = stochastic::ParseSampling(absl::GetFlag(FLAGS_sampling)).value();
  options.step = stochastic::ParseStepRule(absl::GetFlag(FLAGS_step)).value();
  options.memory = ParseMemoryMode(absl::GetFlag(FLAGS_memory)).value();
  options.skip_checks = absl::GetFlag(FLAGS_skip_checks);
  options.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  return options;
}

// `Solver`: AverageGradient or BlockAverage.
template <typename Solver>
void RaceTo(const TrainingProblem& problem, Solver* solver, double seconds, double wall) {
  ChainLoss loss(&problem.train);
  ChainLoss test(&problem.test);
  const ChainProblem h(&loss, absl::GetFlag(FLAGS_l2));
  Curve curve(*problem.optimum);
  double value = 0.0;
  while (curve.suboptimality() > absl::GetFlag(FLAGS_target) && solver->passes() < absl::GetFlag(FLAGS_passes)) {
    const double start = CpuSeconds(), wall_start = WallSeconds();
    const SolverState state =
        solver->Advance(problem.train.sequences() * absl::GetFlag(FLAGS_evaluate_every), {}).value();
    seconds += CpuSeconds() - start;
    wall += WallSeconds() - wall_start;
    if (state == SolverState::kDiverged) {
      absl::PrintF("  diverged\n");
      return;
    }
    value = h.Value(solver->Weights(), nullptr).value();
    curve.Add(value, seconds, wall, solver->passes());
  }
  const double n = static_cast<double>(problem.train.sequences());
  absl::PrintF(
      "  h %.6f (suboptimality %.2e), largest gradient entry (estimate) %.2e, %.1f passes, %.1f of them with "
      "gradient, %.2f s, %.2f s on the wall, Lmax %.3g Lmean %.3g, table %.1f MB\n",
      value, curve.suboptimality(), solver->GradientEstimate(), solver->passes(),
      static_cast<double>(solver->evaluations()) / n, seconds, wall, solver->max_constant(), solver->mean_constant(),
      1e-6 * static_cast<double>(solver->memory_bytes()));
  PrintTest(test, solver->Weights());
}

void RaceAverage(const TrainingProblem& problem, const std::string& method) {
  AverageGradientOptions options = OptionsOf(method);
  options.threads = absl::GetFlag(FLAGS_threads);
  options.block = absl::GetFlag(FLAGS_block);
  const bool blocks = options.threads > 1 || absl::GetFlag(FLAGS_blocks);
  absl::PrintF("%s %s %s%s\n", method, absl::GetFlag(FLAGS_sampling), absl::GetFlag(FLAGS_step),
               blocks ? absl::StrFormat(", blocks, threads %d", options.threads) : "");
  const double start = CpuSeconds(), wall = WallSeconds();
  const double l2 = absl::GetFlag(FLAGS_l2);
  if (blocks) {
    const std::unique_ptr<BlockAverage> solver = BlockAverage::Create(&problem.train, l2, options).value();
    RaceTo(problem, solver.get(), CpuSeconds() - start, WallSeconds() - wall);
  } else {
    AverageGradient solver = AverageGradient::Create(&problem.train, l2, options).value();
    RaceTo(problem, &solver, CpuSeconds() - start, WallSeconds() - wall);
  }
}

int Main() {
  const std::string name = absl::GetFlag(FLAGS_problem);
  const double start = CpuSeconds();
  absl::StatusOr<TrainingProblem> loaded = LoadTrainingProblem(absl::GetFlag(FLAGS_data), name);
  if (loaded.ok() && absl::GetFlag(FLAGS_optimum) > 0.0) loaded->optimum = absl::GetFlag(FLAGS_optimum);
  if (!loaded.ok() || !loaded->optimum) {
    absl::FPrintF(stderr, "train_bench: %s\n",
                  loaded.ok() ? "no optimum is known: --optimum" : loaded.status().ToString());
    return 1;
  }
  const TrainingProblem problem = std::move(*loaded);
  absl::FPrintF(stderr, "# read and encoded in %.3f s\n", CpuSeconds() - start);
  absl::PrintF("%s: %d sequences, %d tokens, %d weights, kernels %s\n", name, problem.train.sequences(),
               problem.train.tokens(), problem.train.shape().parameters(), BestKernels().name);
  const std::string what = absl::GetFlag(FLAGS_what);
  if (what == "pass") MeasurePass(problem);
  if (what == "lbfgs") RaceLbfgs(problem);
  if (what == "race") {
    for (const absl::string_view method : absl::StrSplit(absl::GetFlag(FLAGS_methods), ',')) {
      RaceAverage(problem, std::string(method));
    }
  }
  return 0;
}

}  // namespace
}  // namespace luthier::crf

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Training of conditional random fields: seconds, passes, flops.");
  absl::ParseCommandLine(argc, argv);
  return luthier::crf::Main();
}
