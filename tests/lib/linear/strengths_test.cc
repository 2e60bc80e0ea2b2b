#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/linear/logistic.h"
#include "lib/linear/problem.h"
#include "lib/linear/trainer.h"
#include "tests/lib/linear/linear_testing.h"
#include "tests/lib/linear/strength_cells.h"

// Trainings at every penalty, on shapes of data that are hard for one solver or another.
namespace luthier::linear {
namespace {

using Eigen::VectorXd;
using Kind = MarginLoss::Kind;

constexpr LinearSolver kSolvers[] = {LinearSolver::kLbfgs, LinearSolver::kNewtonCg, LinearSolver::kNewtonCholesky,
                                     LinearSolver::kDual, LinearSolver::kSvrg};

struct Ended {
  TrainOutcome outcome = TrainOutcome::kRunning;
  double passes = 0.0;
  double excess = 0.0;  // h - the optimum's, as a share of h(0).
  double gap = INFINITY;
};

// To the end, or until more than `most` passes are made.
Ended Train(const LinearProblem& problem, const LinearTrainOptions& options, double optimum, double most) {
  absl::StatusOr<LinearTrainer> made = LinearTrainer::Create(&problem, options);
  Ended run;
  if (!made.ok()) {
    run.passes = INFINITY;
    return run;
  }
  while (made->Advance({}).value() == TrainOutcome::kRunning && made->passes() <= most) {
  }
  const double zero = problem.Value(VectorXd::Zero(problem.dim()), nullptr).value();
  run.outcome = made->outcome();
  run.passes = made->passes();
  run.excess = (problem.Value(made->Weights(), nullptr).value() - optimum) / zero;
  run.gap = made->relative_gap();
  return run;
}

bool Optimal(TrainOutcome outcome) {
  return outcome == TrainOutcome::kConverged || outcome == TrainOutcome::kPrecision;
}

std::string Name(const Shape& shape, Kind kind, Bias bias, double l2) {
  return absl::StrCat(shape.name, kind == Kind::kLogistic ? ", logistic" : ", hsvm",
                      bias == Bias::kFree ? ", free bias" : ", penalised bias", ", l2 ", l2);
}

// Calls f(shape, problem, name, optimum) for eight shapes, eleven penalties, two losses, two kinds of bias.
template <typename F>
void ForEachCell(uint64_t seed, F&& f) {
  for (const Shape& shape : HardShapes(seed)) {
    const std::vector<int32_t> rows = AllRows(shape.dataset);
    const data::Standardization s =
        shape.standardize ? data::FitStandardization(shape.dataset.x, rows).value() : data::Standardization();
    for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
      for (const Bias bias : {Bias::kFree, Bias::kPenalized}) {
        const LinearData data = LinearData::Create(shape.dataset, rows, s, bias).value();
        for (int e = -10; e <= 10; e += 2) {
          const double l2 = std::pow(10.0, e);
          const LinearProblem problem(&data, MarginLoss{kind}, l2);
          f(problem, Name(shape, kind, bias, l2), FindOptimum(shape.dataset, s, problem.loss(), bias, l2));
        }
      }
    }
  }
}

TEST(StrengthsTest, AutoIsRightInEveryCellAndSeldomSlow) {
  // The estimates were fitted on draw 1, and the rules of changing on draws 1 and 11: neither is here.
  for (const uint64_t seed : {31, 32}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    int cells = 0, limits = 0, slow = 0;
    ForEachCell(seed, [&](const LinearProblem& problem, const std::string& name, const Optimum& optimum) {
      ++cells;
      LinearTrainOptions options;
      options.solver = ChooseSolver(problem).solver;
      options.adaptive = true;
      const Ended chosen = Train(problem, options, optimum.value, INFINITY);
      if (Optimal(chosen.outcome)) {
        EXPECT_LE(chosen.excess, 1e-6) << name;
        // The bound is one, up to what rounding and the optimum's own inaccuracy leave.
        EXPECT_GE(chosen.gap + 1e-9, chosen.excess) << name;
      } else {
        EXPECT_EQ(chosen.outcome, TrainOutcome::kIterationLimit) << name;
        ++limits;
      }
      for (const LinearSolver solver : kSolvers) {
        LinearTrainOptions other;
        other.solver = solver;
        const Ended run = Train(problem, other, optimum.value, 0.5 * chosen.passes);
        if (!Optimal(run.outcome)) continue;
        EXPECT_LE(run.excess, 1e-6) << name << ", " << LinearSolverNames()[static_cast<size_t>(solver)];
        if (run.passes >= 0.5 * chosen.passes) continue;
        ++slow;
        break;
      }
    });
    EXPECT_EQ(cells, 352);
    EXPECT_LE(limits, cells / 10);
    EXPECT_LE(slow, cells / 20);
  }
}

// All that there is to know of each solver's claims, also where it is slow: at weak penalties a small gradient is not
// enough.
TEST(StrengthsTest, NoSolverClaimsWhatIsNotSo) {
  int claims = 0;
  ForEachCell(13, [&](const LinearProblem& problem, const std::string& name, const Optimum& optimum) {
    for (const LinearSolver solver : kSolvers) {
      LinearTrainOptions options;
      options.solver = solver;
      options.max_iterations = 150;
      const Ended run = Train(problem, options, optimum.value, INFINITY);
      if (!Optimal(run.outcome)) continue;
      ++claims;
      EXPECT_LE(run.excess, 1e-6) << name << ", " << LinearSolverNames()[static_cast<size_t>(solver)];
    }
  });
  EXPECT_GT(claims, 800);
}

// The bound is the test's own, from dense code, so that no optimum need be found twice.
TEST(StrengthsTest, ManyClassesAreRightInEveryCell) {
  for (const int classes : {3, 7, 10, 26}) {
    int cells = 0, limits = 0;
    for (const Shape& shape : HardShapes(41, classes)) {
      const std::vector<int32_t> rows = AllRows(shape.dataset);
      const data::Standardization s =
          shape.standardize ? data::FitStandardization(shape.dataset.x, rows).value() : data::Standardization();
      const LogisticData data = LogisticData::Create(&shape.dataset, rows, s, true).value();
      const double zero = static_cast<double>(rows.size()) * std::log(classes);
      for (int e = -10; e <= 10; e += 2) {
        const double l2 = std::pow(10.0, e);
        const std::string name = absl::StrCat(shape.name, ", ", classes, " classes, l2 ", l2);
        const LogisticProblem problem(&data, l2);
        LinearTrainOptions options;
        options.solver = ChooseSolver(problem).solver;
        options.adaptive = true;
        LinearTrainer trainer = LinearTrainer::Create(&problem, options).value();
        while (trainer.Advance({}).value() == TrainOutcome::kRunning) continue;
        ++cells;
        if (!Optimal(trainer.outcome())) {
          EXPECT_EQ(trainer.outcome(), TrainOutcome::kIterationLimit) << name;
          ++limits;
          continue;
        }
        Optimum at = CertifySoftmax(shape.dataset, s, l2, trainer.Weights());
        // The gradient decides about the bound, and at small penalties a point may be better than its bound. What
        // rounding allows from there has a bound that is good enough.
        options.solver =
            problem.dim() <= LinearTrainer::kMaxDirectColumns ? LinearSolver::kNewtonCholesky : LinearSolver::kNewtonCg;
        options.adaptive = false;
        options.tolerance = 0.0;
        VectorXd w = trainer.Weights();
        for (int again = 0; again < 3 && at.value - at.bound > 1e-6 * zero; ++again) {
          LinearTrainer finer = LinearTrainer::Create(&problem, options).value();
          finer.WarmStart(w);
          while (finer.Advance({}).value() == TrainOutcome::kRunning) continue;
          w = finer.Weights();
          at.bound = std::max(at.bound, CertifySoftmax(shape.dataset, s, l2, w).bound);
        }
        EXPECT_LE(at.value - at.bound, 1e-6 * zero) << name;
        EXPECT_GE(trainer.relative_gap() + 1e-9, (at.value - at.bound) / zero) << name;
      }
    }
    EXPECT_EQ(cells, 88);
    EXPECT_LE(limits, cells / 20) << classes;
  }
}

TEST(StrengthsTest, OneRowOfEachClassIsEnough) {
  data::Dataset dataset;
  dataset.x.rows = 2;
  dataset.x.cols = 3;
  dataset.x.row_start = {0, 2, 5};
  dataset.x.column = {0, 2, 0, 1, 2};
  dataset.x.value = {1.5, -2.0, 0.5, 3.0, 1e-3};
  dataset.label = {0, 1};
  dataset.classes = {"a", "b"};
  for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
    for (const Bias bias : {Bias::kFree, Bias::kPenalized}) {
      const LinearData data = LinearData::Create(dataset, {0, 1}, {}, bias).value();
      for (const double l2 : {1e-10, 1e-5, 1.0, 1e5, 1e10}) {
        const LinearProblem problem(&data, MarginLoss{kind}, l2);
        const Optimum optimum = FindOptimum(dataset, {}, problem.loss(), bias, l2);
        LinearTrainOptions options;
        options.solver = ChooseSolver(problem).solver;
        options.adaptive = true;
        const Ended run = Train(problem, options, optimum.value, INFINITY);
        EXPECT_TRUE(Optimal(run.outcome)) << l2;
        EXPECT_LE(run.excess, 1e-6) << l2;
      }
    }
  }
}

// A step with the Hessian that bounds h from above lowers h wherever it can be lowered at all. kPrecision promises that
// it does not.
TEST(StrengthsTest, PrecisionMeansThatNoStepLowersTheObjective) {
  int ended = 0;
  for (const Shape& shape : HardShapes(14)) {
    const std::vector<int32_t> rows = AllRows(shape.dataset);
    for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
      const LinearData data =
          LinearData::Create(shape.dataset, rows, data::FitStandardization(shape.dataset.x, rows).value(),
                             Bias::kPenalized)
              .value();
      for (const double l2 : {1e-3, 1.0, 1e3}) {
        const LinearProblem problem(&data, MarginLoss{kind}, l2);
        for (const LinearSolver solver : kSolvers) {
          LinearTrainOptions options;
          options.solver = solver;
          options.tolerance = 0.0;
          options.max_iterations = 300;
          absl::StatusOr<LinearTrainer> trainer = LinearTrainer::Create(&problem, options);
          ASSERT_TRUE(trainer.ok());
          while (trainer->Advance({}).value() == TrainOutcome::kRunning) {
          }
          if (trainer->outcome() != TrainOutcome::kPrecision) continue;
          ++ended;
          const VectorXd w = trainer->Weights();
          VectorXd gradient;
          const double h = problem.Value(w, &gradient).value();
          const Eigen::MatrixXd bound =
              problem
                  .Hessian(VectorXd::Constant(static_cast<Eigen::Index>(data.rows()), problem.loss().smoothness()), {})
                  .value();
          const VectorXd step = bound.selfadjointView<Eigen::Lower>().llt().solve(-gradient);
          EXPECT_GE(problem.Value(w + step, nullptr).value(), h * (1.0 - 1e-12))
              << shape.name << " " << l2 << " " << LinearSolverNames()[static_cast<size_t>(solver)];
        }
      }
    }
  }
  EXPECT_GT(ended, 60);
}

// Newton's method on separable data gains about 1 of margin a step where it goes by the Hessian alone.
TEST(StrengthsTest, NewtonIsQuickOnSeparableData) {
  const Shape shape = HardShapes(15)[4];
  const std::vector<int32_t> rows = AllRows(shape.dataset);
  const LinearData data =
      LinearData::Create(shape.dataset, rows, data::FitStandardization(shape.dataset.x, rows).value(), Bias::kFree)
          .value();
  for (const double l2 : {1e-8, 1e-6, 1e-4}) {
    const LinearProblem problem(&data, MarginLoss{}, l2);
    LinearTrainOptions options;
    options.solver = LinearSolver::kNewtonCholesky;
    absl::StatusOr<LinearTrainer> trainer = LinearTrainer::Create(&problem, options);
    ASSERT_TRUE(trainer.ok());
    while (trainer->Advance({}).value() == TrainOutcome::kRunning) {
    }
    EXPECT_EQ(trainer->outcome(), TrainOutcome::kConverged);
    EXPECT_LE(trainer->iteration(), 30);
  }
}

TEST(StrengthsTest, AChangeOfSolverIsSavedAndExplained) {
  const Shape shape = HardShapes(16)[7];
  const std::vector<int32_t> rows = AllRows(shape.dataset);
  const LinearData data =
      LinearData::Create(shape.dataset, rows, data::FitStandardization(shape.dataset.x, rows).value(), Bias::kFree)
          .value();
  const LinearProblem problem(&data, MarginLoss{}, 1e-6);
  LinearTrainOptions options;
  options.adaptive = true;  // L-BFGS, which is slow here.
  const auto run = [&](bool interrupted) {
    absl::StatusOr<LinearTrainer> trainer = LinearTrainer::Create(&problem, options);
    while (trainer->Advance({}).value() == TrainOutcome::kRunning) {
      if (!interrupted) continue;
      base::CheckpointWriter writer("test/1");
      trainer->Save(&writer, "id");
      const std::string bytes = std::move(writer).Finish();
      absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, "test/1");
      absl::StatusOr<LinearTrainer> other = LinearTrainer::Create(&problem, options);
      EXPECT_TRUE(other->Load(&*reader, "id").ok());
      trainer = std::move(other);
    }
    EXPECT_EQ(trainer->outcome(), TrainOutcome::kConverged);
    EXPECT_EQ(trainer->solver(), LinearSolver::kNewtonCholesky);
    EXPECT_THAT(trainer->changes(), testing::MatchesRegex("after [0-9]+ passes newton_cholesky \\(.* more passes "
                                                          "foreseen, with it [0-9]+\\)"));
    return trainer->Weights();
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(StrengthsTest, TheDualityGapBoundsTheDistanceToTheMinimum) {
  base::RandomStream random(17, "gap");
  for (const Shape& shape : HardShapes(17)) {
    const std::vector<int32_t> rows = AllRows(shape.dataset);
    for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
      for (const Bias bias : {Bias::kFree, Bias::kPenalized, Bias::kNone}) {
        const LinearData data =
            LinearData::Create(shape.dataset, rows, data::FitStandardization(shape.dataset.x, rows).value(), bias)
                .value();
        const LinearProblem problem(&data, MarginLoss{kind}, 3.0);
        const data::Standardization s = data::FitStandardization(shape.dataset.x, rows).value();
        const Optimum optimum = FindOptimum(shape.dataset, s, problem.loss(), bias, 3.0);
        VectorXd w(problem.dim());
        for (double& x : w) x = 0.1 * random.Normal();
        const double h = problem.Value(w, nullptr).value();
        EXPECT_GE(problem.DualityGap(w).value(), h - optimum.value - 1e-9 * h);
        if (problem.penalized() == problem.dim()) {
          VectorXd gradient;
          problem.Value(w, &gradient).value();
          EXPECT_NEAR(problem.DualityGap(w).value(), gradient.squaredNorm() / 6.0, 1e-12 * gradient.squaredNorm());
        }
      }
    }
  }
}

TEST(StrengthsTest, TheLineMinimumHasNoSlopeLeft) {
  const data::Dataset dataset = MakeData(120, 6, 0.7, 18);
  const LinearData data = LinearData::Create(dataset, AllRows(dataset),
                                             data::FitStandardization(dataset.x, AllRows(dataset)).value(), Bias::kFree)
                              .value();
  base::RandomStream random(18, "line");
  for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
    const LinearProblem problem(&data, MarginLoss{kind}, 0.3);
    for (const double length : {1e-6, 1.0, 1e6}) {
      VectorXd w(problem.dim());
      for (double& x : w) x = random.Normal();
      VectorXd gradient, scores;
      problem.Value(w, &gradient, nullptr, {}, &scores).value();
      const VectorXd d = -length * gradient;
      double passes = 0.0;
      const double step = problem.LineMinimum(w, scores, d, VectorXd(), {}, &passes).value();
      EXPECT_GT(step, 0.0);
      EXPECT_GT(passes, 0.0);
      VectorXd there;
      problem.Value(w + step * d, &there).value();
      EXPECT_LE(std::abs(there.dot(d)), 0.1001 * std::abs(gradient.dot(d))) << length;
    }
  }
}

TEST(StrengthsTest, ColumnScalesAreRootMeanSquares) {
  data::Dataset dataset = MakeData(50, 4, 0.5, 19);
  for (size_t e = 0; e < dataset.x.value.size(); ++e) {
    if (dataset.x.column[e] == 2) dataset.x.value[e] = 0.0;
  }
  const std::vector<int32_t> rows = AllRows(dataset);
  const LinearData plain = LinearData::Create(dataset, rows, {}, Bias::kFree).value();
  VectorXd squares = VectorXd::Zero(5);
  for (int64_t i = 0; i < plain.rows(); ++i) plain.ForEach(i, [&](int32_t j, double a) { squares[j] += a * a; });
  for (int j = 0; j < 4; ++j) {
    EXPECT_DOUBLE_EQ(plain.column_scale()[j], j == 2 ? 1.0 : std::sqrt(squares[j] / 50.0)) << j;
  }
  EXPECT_EQ(plain.column_scale()[4], 1.0);
  const LinearData centered =
      LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), Bias::kPenalized).value();
  for (int j = 0; j < 5; ++j) EXPECT_NEAR(centered.column_scale()[j], 1.0, 1e-12) << j;
}

}  // namespace
}  // namespace luthier::linear
