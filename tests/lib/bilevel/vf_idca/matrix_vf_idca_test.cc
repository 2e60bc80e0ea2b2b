#include "lib/bilevel/vf_idca/matrix_vf_idca.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "tests/lib/bilevel/matrix_problem.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

TEST(MatrixVfLower, MultipliersAreStrengthsOfThePenalisedProblem) {
  const MatrixProblem problem = RandomMatrixProblem(14, 11, 4, 1);
  const VfIdcaOptions options = MatrixVfOptions(problem);
  MatrixVfProblem solver(&problem, &options);
  const VectorXd r = Eigen::Vector3d(4.0, 0.3, 0.1);
  const auto lower = solver.SolveLower(r, VectorXd::Zero(problem.variables()), VectorXd(), options.gap, {});
  ASSERT_TRUE(lower.ok());
  EXPECT_LE(RelativeGap(lower->gap, lower->value), options.gap);
  EXPECT_LE((solver.Penalties(lower->x) - r).maxCoeff(), 1e-9);
  EXPECT_GT(lower->gamma.minCoeff(), 0.0);
  const auto penalised = TrainMatrixCompletion(problem, lower->gamma, lower->x, 1e-8, 20000, {});
  ASSERT_TRUE(penalised.ok());
  EXPECT_NEAR(penalised->objective, lower->value + lower->gamma.dot(r), 2e-6);
}

TEST(MatrixVfLower, CutIsBelowTheValueFunction) {
  const MatrixProblem problem = RandomMatrixProblem(12, 9, 4, 2);
  const VfIdcaOptions options = MatrixVfOptions(problem);
  MatrixVfProblem solver(&problem, &options);
  base::RandomStream random(3, "r");
  const VectorXd start = VectorXd::Zero(problem.variables());
  for (int k = 0; k < 5; ++k) {
    const VectorXd r = Eigen::Vector3d(0.5 + 6.0 * random.Uniform(), random.Uniform(), 0.01 + random.Uniform());
    const auto lower = solver.SolveLower(r, start, VectorXd(), options.gap, {});
    ASSERT_TRUE(lower.ok());
    for (int i = 0; i < 5; ++i) {
      const VectorXd other =
          Eigen::Vector3d(7.0 * random.Uniform() + 0.01, 2.0 * random.Uniform() + 0.01, random.Uniform() + 0.01);
      const auto value = solver.SolveLower(other, start, VectorXd(), options.gap, {});
      ASSERT_TRUE(value.ok());
      EXPECT_GE(value->value, lower->value - lower->gap - lower->gamma.dot(other - r) - 1e-12);
    }
  }
}

TEST(MatrixVfUpper, NoOtherPointIsLower) {
  const MatrixProblem problem = RandomMatrixProblem(10, 8, 4, 4);
  const VfIdcaOptions options = MatrixVfOptions(problem);
  MatrixVfProblem solver(&problem, &options);
  const VectorXd x = VectorXd::Zero(problem.variables()), r = options.start;
  const auto lower = solver.SolveLower(r, x, VectorXd(), options.gap, {});
  ASSERT_TRUE(lower.ok());
  const double alpha = 2.0;
  const auto upper = solver.SolveUpper(x, r, *lower, alpha, options.gap, {});
  ASSERT_TRUE(upper.ok());
  EXPECT_LE(upper->gap, options.gap);
  const auto value = [&](const VectorXd& z, const VectorXd& bounds) {
    const double cut = solver.TrainLoss(z) - (lower->value - lower->gap) + lower->gamma.dot(bounds - r);
    return solver.ValidationLoss(z) + 0.5 * options.rho * ((z - x).squaredNorm() + (bounds - r).squaredNorm()) +
           alpha * std::max({0.0, cut, (solver.Penalties(z) - bounds).maxCoeff()});
  };
  EXPECT_NEAR(value(upper->x, upper->r), upper->value, 1e-12);
  base::RandomStream random(5, "z");
  for (int k = 0; k < 300; ++k) {
    const double size = std::pow(10.0, -5.0 * random.Uniform());
    VectorXd z = upper->x, bounds = upper->r;
    for (double& v : z) v += size * random.Normal();
    for (double& v : bounds) v = std::max(options.least_bound, v + size * random.Normal());
    EXPECT_GE(value(z, bounds), upper->value - upper->gap * (1.0 + upper->value));
  }
}

TEST(MatrixVfIdca, FindsAModelThatPredicts) {
  const MatrixProblem problem = RandomMatrixProblem(20, 15, 6, 6);
  VfIdcaOptions options = MatrixVfOptions(problem);
  options.patience = 5;
  MatrixVfProblem solver(&problem, &options);
  double worst = 0.0;
  const auto result = RunVfIdca(solver, options,
                                [&](const VfIdcaStep& step) {
                                  worst = std::max({worst, step.lower_gap, step.upper_gap});
                                  return true;
                                },
                                {});
  ASSERT_TRUE(result.ok());
  EXPECT_LE(worst, 1e-6);
  ASSERT_GE(result->best_step, 0);
  EXPECT_LT(result->best_loss, 0.6 * solver.ValidationLoss(VectorXd::Zero(problem.variables())));
  // The group of features that counts for nothing is shrunk more.
  const VectorXd penalties = solver.Penalties(result->best_refit);
  EXPECT_LT(penalties[2], penalties[1]);
}

// Runs at most `steps` steps on `problem`; every subproblem must be solved to 1e-6.
VfIdcaResult Solved(const MatrixProblem& problem, int steps) {
  VfIdcaOptions options = MatrixVfOptions(problem);
  options.max_steps = steps;
  MatrixVfProblem solver(&problem, &options);
  const auto result = RunVfIdca(solver, options, nullptr, {});
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_LE(result->worst_gap, 1e-6);
  return *result;
}

TEST(MatrixVfIdca, EmptyRowsAndNoFeatures) {
  for (int draw = 1; draw <= 40; ++draw) {
    SCOPED_TRACE(draw);
    MatrixProblem problem = RandomMatrixProblem(9, 7, 0, draw);
    problem.rows += 2;  // Nothing is known of these.
    const VfIdcaResult result = Solved(problem, 4);
    EXPECT_LT(LowRankOf(problem, result.best_refit).bottomRows(2).cwiseAbs().maxCoeff(), 1e-6);
  }
}

// A step lets a bound fall to 1e-6 while the weights under it are far from 0, so that the next lower problem starts far
// outside.
TEST(MatrixVfIdca, GroupsThatVanish) {
  for (const int draw : {2, 37, 47, 57}) {
    SCOPED_TRACE(draw);
    Solved(RandomMatrixProblem(9, 7, 4, draw), 5);
  }
}

// With as many factors as columns a solver of the factored problem can rest at a saddle point.
TEST(MatrixVfIdca, SaddlePointsOfTinyMatrices) {
  for (const int draw : {39, 43, 107, 112, 120}) {
    SCOPED_TRACE(draw);
    Solved(RandomMatrixProblem(3, 3, 0, draw), 10);
  }
}

TEST(MatrixVfIdca, StopEndsIt) {
  const MatrixProblem problem = RandomMatrixProblem(9, 7, 2, 8);
  const VfIdcaOptions options = MatrixVfOptions(problem);
  MatrixVfProblem solver(&problem, &options);
  const auto result = RunVfIdca(solver, options, nullptr, Stopped());
  EXPECT_TRUE(absl::IsCancelled(result.status()));
}

}  // namespace
}  // namespace luthier::bilevel
