// How fast conditional random fields train, on the two problems of Ahmed 2018, chapter 2, that are there in full:
// CoNLL-2000 chunking (1,643,026 weights) and OCR letters (4,082).
//
//   train_bench --data=DIR --problem=chunking --what=pass      seconds and flops of the full gradient
//   train_bench --data=DIR --problem=chunking --what=race      seconds and passes to relative suboptimality, SAG;
//   L-BFGS train_bench --data=DIR --problem=letters --what=grid       every method x sampling x step rule (figures 2.6
//   - 2.8) train_bench --data=DIR --problem=chunking --what=read      seconds from text to encoded data
//
// One thread, CPU seconds, best or only run as said. Passes count every loss of a line search as loss and gradient, as
// the source does. The time to evaluate the objective between passes is not counted.

#include <time.h>

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
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/crf/average_gradient.h"
#include "lib/crf/column_text.h"
#include "lib/crf/features.h"
#include "lib/crf/letters_reader.h"
#include "lib/crf/problem.h"
#include "lib/learn/data_root.h"
#include "lib/learn/lbfgs_solver.h"
#include "lib/learn/text_source.h"

ABSL_FLAG(std::string, data, "", "folder with conll2000/ and ocr-letters/");
ABSL_FLAG(std::string, problem, "chunking", "chunking or letters");
ABSL_FLAG(std::string, what, "race", "read, pass, race, lbfgs or grid");
ABSL_FLAG(std::string, methods, "sag", "race, grid: methods, separated by commas");
ABSL_FLAG(std::string, sampling, "ms", "race: sampling scheme");
ABSL_FLAG(std::string, step, "hedge", "race: step rule");
ABSL_FLAG(std::string, memory, "mixed", "race: memory mode");
ABSL_FLAG(bool, skip_checks, true, "race: leave out line searches that keep succeeding");
ABSL_FLAG(double, l2, 1.0, "strength of the penalty; 1 is lambda = 1/n");
ABSL_FLAG(double, passes, 200.0, "race: gives up after so many passes; grid: stops there");
ABSL_FLAG(double, target, 1e-8, "race: relative suboptimality at which to stop");
ABSL_FLAG(int, evaluate_every, 1, "race: passes between evaluations of the objective");
ABSL_FLAG(int, seed, 1, "of the sampling");
ABSL_FLAG(int, threads, 1, "pass, lbfgs: of the full gradient");

namespace luthier::crf {
namespace {

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

learn::LineReader OpenLines(const std::string& name) {
  const learn::DataRoot root = learn::DataRoot::Open(absl::GetFlag(FLAGS_data)).value();
  return learn::LineReader(learn::OpenBytes(root.OpenFile(name).value(), name).value(), name);
}

struct Problem {
  ChainData train, test;
  double optimum;  // At l2 = 1.
};

std::vector<int32_t> Rows(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  for (size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<int32_t>(k);
  return rows;
}

Problem LoadChunking() {
  learn::LineReader train_lines = OpenLines("conll2000/train.txt.xz");
  learn::LineReader test_lines = OpenLines("conll2000/test.txt.xz");
  double start = CpuSeconds();
  const ColumnText train = ReadColumnText(train_lines).value();
  const ColumnText test = ReadColumnText(test_lines).value();
  absl::FPrintF(stderr, "# text read in %.3f s\n", CpuSeconds() - start);
  start = CpuSeconds();
  FeatureOptions options;
  options.templates = ParseTemplates("chunking").value();
  options.min_count = 3;
  const FeatureMap map = FeatureMap::Fit(train, Rows(train.sequences()), options).value();
  Problem problem = {map.Encode(train, Rows(train.sequences())).value(),
                     map.Encode(test, Rows(test.sequences()), FeatureMap::UnknownLabels::kKeep).value(), 8852.1238};
  absl::FPrintF(stderr, "# attributes found and encoded in %.3f s\n", CpuSeconds() - start);
  return problem;
}

Problem LoadLetters() {
  learn::LineReader lines = OpenLines("ocr-letters/letters.tsv.xz");
  const Letters letters = ReadLetters(lines).value();
  // The source trains on nine folds of ten, which this copy of the data calls its test part.
  std::vector<int32_t> train, test;
  for (size_t i = 0; i < letters.fold.size(); ++i) {
    (letters.fold[i] == "test" ? train : test).push_back(static_cast<int32_t>(i));
  }
  return {Select(letters.data, train), Select(letters.data, test), 15251.9075};
}

void PrintTest(ChainLoss& test, const Eigen::VectorXd& w) {
  const ChainLoss::Metrics m = test.Evaluate(w);
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

void MeasurePass(const Problem& problem) {
  const KernelList list = RunnableKernels();
  for (int k = 0; k < list.count; ++k) {
    ChainLoss loss(&problem.train, absl::GetFlag(FLAGS_threads), *list.kernels[k]);
    Eigen::VectorXd w = Eigen::VectorXd::Zero(loss.dim());
    Eigen::VectorXd gradient;
    double best = INFINITY, best_value = INFINITY;
    for (int run = 0; run < 12; ++run) {
      double start = CpuSeconds();
      loss.Value(w, &gradient);
      best = std::min(best, CpuSeconds() - start);
      start = CpuSeconds();
      loss.Value(w, nullptr);
      best_value = std::min(best_value, CpuSeconds() - start);
      w -= 1e-3 * gradient;
    }
    absl::PrintF("%-10s gradient %.4f s (%.2f GFlop/s), loss alone %.4f s\n", list.kernels[k]->name, best,
                 1e-9 * GradientFlops(problem.train) / best, best_value);
  }
}

const double kLevels[] = {1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8};

// Prints each level once it is reached.
class Curve {
 public:
  explicit Curve(double optimum) : optimum_(optimum) {}
  void Add(double value, double seconds, double passes) {
    suboptimality_ = (value - optimum_) / optimum_;
    while (next_ < std::size(kLevels) && suboptimality_ <= kLevels[next_]) {
      absl::PrintF("  %.0e: %8.3f s  %7.1f passes\n", kLevels[next_], seconds, passes);
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

void RaceLbfgs(const Problem& problem) {
  ChainLoss loss(&problem.train, absl::GetFlag(FLAGS_threads));
  ChainLoss test(&problem.test);
  const ChainProblem h(&loss, absl::GetFlag(FLAGS_l2));
  const auto f = [&](const Eigen::VectorXd& w, Eigen::VectorXd* g) { return h.Value(w, g); };
  absl::PrintF("L-BFGS\n");
  Curve curve(problem.optimum);
  double start = CpuSeconds();
  learn::LbfgsSolver solver(1e-5);
  learn::SolveState state = solver.Start(f, Eigen::VectorXd::Zero(loss.dim()));
  while (state == learn::SolveState::kRunning && curve.suboptimality() > absl::GetFlag(FLAGS_target)) {
    state = solver.Step(f, nullptr);
    curve.Add(solver.value(), CpuSeconds() - start, static_cast<double>(solver.evaluations()));
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

void RaceAverage(const Problem& problem, const std::string& method) {
  ChainLoss loss(&problem.train);
  ChainLoss test(&problem.test);
  const ChainProblem h(&loss, absl::GetFlag(FLAGS_l2));
  absl::PrintF("%s %s %s\n", method, absl::GetFlag(FLAGS_sampling), absl::GetFlag(FLAGS_step));
  Curve curve(problem.optimum);
  double seconds = 0.0;
  double start = CpuSeconds();
  AverageGradient solver = AverageGradient::Create(&problem.train, absl::GetFlag(FLAGS_l2), OptionsOf(method)).value();
  seconds += CpuSeconds() - start;
  double value = 0.0;
  while (curve.suboptimality() > absl::GetFlag(FLAGS_target) && solver.passes() < absl::GetFlag(FLAGS_passes)) {
    start = CpuSeconds();
    const SolverState state = solver.Advance(problem.train.sequences() * absl::GetFlag(FLAGS_evaluate_every), nullptr);
    seconds += CpuSeconds() - start;
    if (state == SolverState::kDiverged) {
      absl::PrintF("  diverged\n");
      return;
    }
    value = h.Value(solver.Weights(), nullptr);
    curve.Add(value, seconds, solver.passes());
  }
  const double n = static_cast<double>(problem.train.sequences());
  absl::PrintF(
      "  h %.6f (suboptimality %.2e), largest gradient entry (estimate) %.2e, %.1f passes, %.1f of them with "
      "gradient, %.2f s, Lmax %.3g Lmean %.3g, table %.1f MB\n",
      value, curve.suboptimality(), solver.GradientEstimate(), solver.passes(),
      static_cast<double>(solver.evaluations()) / n, seconds, solver.max_constant(), solver.mean_constant(),
      1e-6 * static_cast<double>(solver.memory_bytes()));
  PrintTest(test, solver.Weights());
}

// |f - f*| of the mean problem after --passes, as in figures 2.6 to 2.8; "-" when it diverged by the source's rule.
void Grid(const Problem& problem) {
  ChainLoss loss(&problem.train);
  const ChainProblem h(&loss, absl::GetFlag(FLAGS_l2));
  const double n = static_cast<double>(problem.train.sequences());
  const double start_gap = h.Value(Eigen::VectorXd::Zero(loss.dim()), nullptr) - problem.optimum;
  for (const absl::string_view method : absl::StrSplit(absl::GetFlag(FLAGS_methods), ',')) {
    absl::PrintF("| %s |", method);
    for (const std::string& step : stochastic::StepRuleNames()) absl::PrintF(" %s |", step);
    absl::PrintF("\n| --- |");
    for (size_t k = 0; k < stochastic::StepRuleNames().size(); ++k) absl::PrintF(" --- |");
    absl::PrintF("\n");
    for (const std::string& sampling : stochastic::SamplingNames()) {
      absl::PrintF("| %s |", sampling);
      for (const std::string& step : stochastic::StepRuleNames()) {
        AverageGradientOptions options = OptionsOf(std::string(method));
        options.sampling = stochastic::ParseSampling(sampling).value();
        options.step = stochastic::ParseStepRule(step).value();
        double best = INFINITY;
        const std::vector<double> constants =
            step == "const" ? std::vector<double>{1e-3, 1e-2, 1e-1} : std::vector<double>{1.0};
        for (const double constant : constants) {
          options.constant_step = constant;
          AverageGradient solver = AverageGradient::Create(&problem.train, absl::GetFlag(FLAGS_l2), options).value();
          SolverState state = SolverState::kRunning;
          while (state == SolverState::kRunning && solver.passes() < absl::GetFlag(FLAGS_passes)) {
            state = solver.Advance(problem.train.sequences() / 4, nullptr);
          }
          const double gap = state == SolverState::kRunning
                                 ? std::abs(h.Value(solver.Weights(), nullptr) - problem.optimum)
                                 : INFINITY;
          if (gap < start_gap) best = std::min(best, gap / n);
        }
        absl::PrintF(std::isfinite(best) ? " %.1e |" : " - |", best);
        std::fflush(stdout);
      }
      absl::PrintF("\n");
    }
  }
}

int Main() {
  const std::string name = absl::GetFlag(FLAGS_problem);
  LUTHIER_CHECK(name == "chunking" || name == "letters");
  const Problem problem = name == "chunking" ? LoadChunking() : LoadLetters();
  absl::PrintF("%s: %d sequences, %d tokens, %d weights, kernels %s\n", name, problem.train.sequences(),
               problem.train.tokens(), problem.train.shape().parameters(), BestKernels().name);
  const std::string what = absl::GetFlag(FLAGS_what);
  if (what == "pass") MeasurePass(problem);
  if (what == "grid") Grid(problem);
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
