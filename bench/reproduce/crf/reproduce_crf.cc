// The experiments of Ahmed 2018, chapter 2, as rows of comma-separated values; bench/reproduce/run calls it and keeps
// them.
//
//   reproduce_crf --data=DIR --what=race --problem=chunking
//
// --what=race   every method on one problem: figures 2.1 to 2.5. Those with a step to choose are first tried with five
//               steps for three passes; the best by the training objective goes on, as in the source.
// --what=grid   method x sampling x step rule: figures 2.6 to 2.8, on the letters. --part=0 ... 2: SAG, SAGA, SAGA2.
// --what=dual   the duality gap of exponentiated gradient by the penalty
// --what=start  plain SAG from three first values of its constant
// --what=forms  the forms as they are printed beside ours, searching at each visit: the table in pages/variants.md
//
// lambda = 1/n throughout. Passes as the source counts them: a loss of a line search is a pass over its sequence.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "bench/lab/crf/exponentiated_gradient.h"
#include "bench/lab/crf/methods.h"
#include "bench/train/problems.h"
#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"

ABSL_FLAG(std::string, data, "", "folder with conll2000/, conll2002-ned/, ocr-letters/ and ud-ewt/");
ABSL_FLAG(std::string, problem, "letters", "letters, chunking, names or tags");
ABSL_FLAG(std::string, what, "race", "race, grid, dual, start or forms");
ABSL_FLAG(std::vector<std::string>, methods, {}, "race: only these, separated by commas; empty: all");
ABSL_FLAG(int, part, 0, "grid: 0 SAG, 1 SAGA, 2 SAGA2");
ABSL_FLAG(std::vector<std::string>, cells, {}, "grid: only these, as sampling:step, separated by commas; empty: all");
ABSL_FLAG(double, hopeless, 10.0, "grid: cells so many times as far off as at the start end");
ABSL_FLAG(int, seed, 1, "of all sampling");
ABSL_FLAG(double, passes, 20.0, "race: of methods that do not reach 1e-6; forms: 1e-4");
ABSL_FLAG(double, long_passes, 100.0, "race: of sag, saga, lbfgs and hybrid, if 1e-6 is not reached before");

namespace luthier::crf {
namespace {

using Eigen::VectorXd;

// Looks at weights: suboptimality on the training data, share of wrong tokens on the test data.
class Judge {
 public:
  explicit Judge(const TrainingProblem* problem)
      : problem_(problem), train_(&problem->train), test_(&problem->test), h_(&train_, 1.0) {
    start_ = h_.Value(VectorXd::Zero(train_.dim()), nullptr).value();
    if (problem->optimum) optimum_ = *problem->optimum;
  }
  // By many passes of SAG; the gradient there bounds how far it is from the optimum: |gradient|^2 / 2.
  void FindOptimum() {
    if (problem_->optimum) return;
    ChainTrainerOptions options;
    std::unique_ptr<ChainSolver> solver = MakeChainSolver(&problem_->train, 1.0, options).value();
    double bound = INFINITY;
    VectorXd gradient;
    while (bound > 1e-6 * optimum_ && solver->passes() < 200.0) {
      solver->Advance(8 * solver->iterations_per_pass(), {}).value();
      optimum_ = h_.Value(solver->Weights(), &gradient).value();
      bound = 0.5 * gradient.squaredNorm();
    }
    const double error = 1.0 - test_.Evaluate(solver->Weights()).value().accuracy;
    absl::PrintF("optimum,%s,,,%d,%.1f,,%.6f,%.6f,%.3g\n", problem_->name, absl::GetFlag(FLAGS_seed), solver->passes(),
                 optimum_, error, bound);
    std::fflush(stdout);
  }
  // (h - h*) / h*, also below 0 where h* is only known so well.
  double Gap(const VectorXd& w) { return (h_.Value(w, nullptr).value() - optimum_) / optimum_; }
  // A lower bound of it.
  double GapAtLeast(const VectorXd& w) const { return (0.5 * h_.l2() * w.squaredNorm() - optimum_) / optimum_; }
  double Error(const VectorXd& w) { return 1.0 - test_.Evaluate(w).value().accuracy; }
  double start() const { return (start_ - optimum_) / optimum_; }
  const TrainingProblem& problem() const { return *problem_; }

 private:
  const TrainingProblem* problem_;
  ChainLoss train_, test_;
  ChainProblem h_;
  double start_ = 0.0, optimum_ = 0.0;
};

// One line for each pass or so. Returns the last gap; infinite when it diverged.
double Run(const std::string& method, const std::string& detail, ChainSolver* solver, double passes, Judge* judge) {
  double seconds = 0.0, gap = judge->start();
  while (solver->passes() < passes && gap > 1e-6) {
    const double start = CpuSeconds();
    const SolverState state = solver->Advance(solver->iterations_per_pass(), {}).value();
    seconds += CpuSeconds() - start;
    const VectorXd w = solver->Weights();
    gap = judge->Gap(w);
    if (state != SolverState::kRunning || !std::isfinite(gap)) {
      absl::PrintF("diverged,%s,%s,%s,%d,%.2f,%.3f,,,\n", judge->problem().name, method, detail,
                   absl::GetFlag(FLAGS_seed), solver->passes(), seconds);
      return INFINITY;
    }
    absl::PrintF("curve,%s,%s,%s,%d,%.2f,%.3f,%.4e,%.6f,\n", judge->problem().name, method, detail,
                 absl::GetFlag(FLAGS_seed), solver->passes(), seconds, gap, judge->Error(w));
    std::fflush(stdout);
  }
  return gap;
}

ChainTrainerOptions Options(const std::string& method) {
  ChainTrainerOptions options;
  options.method = method;
  options.average.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  return options;
}

void Race(Judge* judge) {
  const ChainData& train = judge->problem().train;
  const double passes = absl::GetFlag(FLAGS_passes), long_passes = absl::GetFlag(FLAGS_long_passes);
  const auto run = [&](const std::string& name, const std::string& detail, const ChainTrainerOptions& options,
                       double limit) -> double {
    const std::vector<std::string> only = absl::GetFlag(FLAGS_methods);
    const std::string stem = name.substr(0, name.find("-try"));
    if (!only.empty() && std::find(only.begin(), only.end(), stem) == only.end()) return INFINITY;
    std::unique_ptr<ChainSolver> solver = MakeChainSolver(&train, 1.0, options).value();
    return Run(name, detail, solver.get(), limit, judge);
  };
  judge->FindOptimum();
  ChainTrainerOptions options = Options("sag");
  run("sag-ms", "", options, long_passes);
  options.average.skip_checks = false;
  run("sag-ms-checked", "", options, long_passes);
  options.average.sampling = stochastic::Sampling::kLipschitz;
  run("sag-pl", "", options, long_passes);
  options.average.sampling = stochastic::Sampling::kUniform;
  options.average.step = stochastic::StepRule::kLmax;
  options.average.shared_constant = true;
  run("sag", "", options, passes);
  run("lbfgs", "", Options("lbfgs"), long_passes);
  run("hybrid", "", Options("hybrid"), long_passes);
  run("oeg", "", Options("oeg"), passes);
  struct Tuned {
    std::string method;
    int lowest;  // Powers of ten of the five steps.
  };
  std::vector<Tuned> tuned = {{"sg", -4}, {"asg", -4}, {"pegasos", -4}, {"adagrad", -3}};
  // Dense in the weights: for small problems only, as in the source.
  if (train.shape().dim() < 100000) tuned.push_back({"smd", -4});
  for (const Tuned& one : tuned) {
    const std::string name = one.method;
    double best = INFINITY;
    int best_power = 0;
    for (int power = one.lowest; power < one.lowest + 5; ++power) {
      options = Options(one.method);
      options.rate = std::pow(10.0, power);
      const double gap = run(name + "-try", absl::StrFormat("1e%d", power), options, 3.0);
      if (gap < best) best_power = power;
      best = std::min(best, gap);
    }
    options.rate = std::pow(10.0, best_power);
    run(name, absl::StrFormat("1e%d", best_power), options, passes);
  }
}

// |f - f*| of the mean problem after 30 passes; infinite when a loss is not finite, or when the objective is ten times
// as far off as at the start: that does not come back, and scores so large need logarithms, which take long. The
// penalty alone mostly says so at once, without a look at the data.
double GridGap(AverageGradient* solver, Judge* judge) {
  const double hopeless = absl::GetFlag(FLAGS_hopeless) * judge->start();
  const ChainData& train = judge->problem().train;
  const int64_t looks_per_pass = train.shape().dim() < 100000 ? 32 : 1;
  const int64_t quantum = std::max<int64_t>(1, train.sequences() / looks_per_pass);
  for (int64_t looks = 1; solver->passes() < 30.0; ++looks) {
    if (solver->Advance(quantum, {}).value() != SolverState::kRunning) return INFINITY;
    const VectorXd w = solver->Weights();
    if (judge->GapAtLeast(w) >= hopeless) return INFINITY;
    if (looks % looks_per_pass == 0 && !(judge->Gap(w) < hopeless)) return INFINITY;
  }
  return std::abs(judge->Gap(solver->Weights()));
}

void Grid(Judge* judge, AverageMethod method) {
  const std::vector<std::string> cells = absl::GetFlag(FLAGS_cells);
  judge->FindOptimum();
  constexpr int kSamplings = 6, kRules = 7;  // Of the source.
  for (int s = 0; s < kSamplings; ++s) {
    const std::string& sampling = stochastic::SamplingNames()[static_cast<size_t>(s)];
    for (int r = 0; r < kRules; ++r) {
      const std::string& step = stochastic::StepRuleNames()[static_cast<size_t>(r)];
      if (!cells.empty() && std::find(cells.begin(), cells.end(), sampling + ":" + step) == cells.end()) continue;
      double best = INFINITY;
      const double start = CpuSeconds();
      for (const double constant : {1e-3, 1e-2, 1e-1}) {
        AverageGradientOptions options;
        options.method = method;
        options.sampling = stochastic::ParseSampling(sampling).value();
        options.step = stochastic::ParseStepRule(step).value();
        options.constant_step = constant;
        options.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
        AverageGradient solver = AverageGradient::Create(&judge->problem().train, 1.0, options).value();
        const double gap = GridGap(&solver, judge);
        if (gap < judge->start()) best = std::min(best, gap);
        if (options.step != stochastic::StepRule::kConstant) break;
      }
      absl::PrintF("grid,%s,%s,%s %s,%d,30,%.3f,%.4e,,%.4e\n", judge->problem().name,
                   AverageMethodNames()[static_cast<size_t>(method)], sampling, step, absl::GetFlag(FLAGS_seed),
                   CpuSeconds() - start, best, judge->start());
      std::fflush(stdout);
    }
  }
}

void Dual(const TrainingProblem& problem) {
  for (const double l2 : {10.0, 1.0, 0.1}) {
    for (const double first_potential : {6.0, 0.0}) {
      lab::ExponentiatedGradientOptions options;
      options.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
      options.first_potential = first_potential;
      lab::ExponentiatedGradient solver = lab::ExponentiatedGradient::Create(&problem.train, l2, options).value();
      while (solver.passes() < 20.0) solver.Advance(solver.iterations_per_pass() / 4, {}).value();
      ChainLoss loss(&problem.train);
      const double primal = ChainProblem(&loss, l2).Value(solver.Weights(), nullptr).value();
      absl::PrintF("dual,%s,oeg,%g,%d,%.2f,,%.4e,%.1f,%g\n", problem.name, l2, absl::GetFlag(FLAGS_seed),
                   solver.passes(), (primal - solver.DualValue()) / primal, primal, first_potential);
      std::fflush(stdout);
    }
  }
}

void Start(Judge* judge) {
  for (const double first : {1e-3, 1.0, 1e3}) {
    ChainTrainerOptions options = Options("sag");
    options.average.sampling = stochastic::Sampling::kUniform;
    options.average.step = stochastic::StepRule::kLmax;
    options.average.shared_constant = true;
    options.average.first_constant = first;
    std::unique_ptr<ChainSolver> solver = MakeChainSolver(&judge->problem().train, 1.0, options).value();
    Run("sag-start", absl::StrFormat("%g", first), solver.get(), 8.0, judge);
  }
}

// Passes to 1e-4 (the whole one after which it was found so), else how far it came; and its constants then.
void Forms(Judge* judge) {
  using stochastic::Sampling;
  using stochastic::StepRule;
  judge->FindOptimum();
  struct Form {
    AverageMethod method;
    Sampling sampling;
    StepRule step;
    bool remembered = false;
  };
  for (const Form& form : {Form{AverageMethod::kSag, Sampling::kMixed, StepRule::kHedge},
                           Form{AverageMethod::kSag, Sampling::kMixedUnseen, StepRule::kHedge},
                           Form{AverageMethod::kSag, Sampling::kLipschitz, StepRule::kHedge},
                           Form{AverageMethod::kSag, Sampling::kLipschitzLiteral, StepRule::kHedge},
                           Form{AverageMethod::kSag, Sampling::kLipschitzPort, StepRule::kPort},
                           Form{AverageMethod::kSaga, Sampling::kMixed, StepRule::kHedge},
                           Form{AverageMethod::kSaga, Sampling::kMixed, StepRule::kHedge, true},
                           Form{AverageMethod::kSagaLiteral, Sampling::kMixed, StepRule::kHedge},
                           Form{AverageMethod::kSaga, Sampling::kLipschitz, StepRule::kHedge},
                           Form{AverageMethod::kSaga, Sampling::kLipschitzLiteral, StepRule::kHedge},
                           Form{AverageMethod::kSaga, Sampling::kLipschitzPort, StepRule::kPort},
                           Form{AverageMethod::kSagaLiteral, Sampling::kLipschitz, StepRule::kHedge},
                           Form{AverageMethod::kSaga2, Sampling::kMixed, StepRule::kHedge},
                           Form{AverageMethod::kSaga2, Sampling::kMixed, StepRule::kHedge, true},
                           Form{AverageMethod::kSaga2Literal, Sampling::kMixed, StepRule::kHedge}}) {
    AverageGradientOptions options;
    options.method = form.method;
    options.sampling = form.sampling;
    options.step = form.step;
    options.search_remembered = form.remembered;
    options.skip_checks = false;
    options.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
    AverageGradient solver = AverageGradient::Create(&judge->problem().train, 1.0, options).value();
    double gap = judge->start();
    SolverState state = SolverState::kRunning;
    while (state == SolverState::kRunning && solver.passes() < absl::GetFlag(FLAGS_passes) && gap > 1e-4 &&
           gap < 10.0 * judge->start()) {
      state = solver.Advance(solver.iterations_per_pass() / 2, {}).value();
      gap = state == SolverState::kRunning ? judge->Gap(solver.Weights()) : INFINITY;
      if (!(gap < INFINITY)) break;
    }
    absl::PrintF("form,%s,%s,%s %s%s,%d,%.1f,,%.3e,%.2e,%.2e\n", judge->problem().name,
                 AverageMethodNames()[static_cast<size_t>(form.method)],
                 stochastic::SamplingNames()[static_cast<size_t>(form.sampling)],
                 stochastic::StepRuleNames()[static_cast<size_t>(form.step)], form.remembered ? " remembered" : "",
                 absl::GetFlag(FLAGS_seed), solver.passes(), gap, solver.mean_constant(), solver.max_constant());
    std::fflush(stdout);
  }
}

int Main() {
  lab::RegisterMethods();
  absl::StatusOr<TrainingProblem> loaded = LoadTrainingProblem(absl::GetFlag(FLAGS_data), absl::GetFlag(FLAGS_problem));
  if (!loaded.ok()) {
    absl::FPrintF(stderr, "reproduce_crf: %s\n", loaded.status().ToString());
    return 1;
  }
  const TrainingProblem problem = std::move(*loaded);
  const ChainData& train = problem.train;
  absl::PrintF("problem,%s,%d,%d,%d,%d,,,,%d\n", problem.name, train.sequences(), train.tokens(),
               train.shape().parameters(), train.labels(), PlanMemory(MemoryMode::kMixed, train));
  const double dense = static_cast<double>(train.sequences()) * static_cast<double>(train.shape().parameters());
  for (const std::string& mode : MemoryModeNames()) {
    const MemoryMode parsed = ParseMemoryMode(mode).value();
    absl::PrintF("memory,%s,%s,,,,,%.3e,,\n", problem.name, mode,
                 static_cast<double>(PlanMemory(parsed, train)) / dense);
  }
  const std::string what = absl::GetFlag(FLAGS_what);
  Judge judge(&problem);
  if (what == "race") Race(&judge);
  if (what == "grid")
    Grid(&judge, static_cast<AverageMethod>(absl::GetFlag(FLAGS_part) == 2 ? 3 : absl::GetFlag(FLAGS_part)));
  if (what == "dual") Dual(problem);
  if (what == "start") Start(&judge);
  if (what == "forms") Forms(&judge);
  return 0;
}

}  // namespace
}  // namespace luthier::crf

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The experiments of Ahmed 2018, chapter 2; see bench/reproduce/README.md.");
  absl::ParseCommandLine(argc, argv);
  return luthier::crf::Main();
}
