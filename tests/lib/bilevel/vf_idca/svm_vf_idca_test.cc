#include "lib/bilevel/vf_idca/svm_vf_idca.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Classes told apart by the first two of `columns`, with some labels wrong.
SvmRows RandomRows(Index rows, Index columns, base::RandomStream& random) {
  SvmRows out;
  out.x.resize(rows, columns);
  out.y.resize(rows);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) out.x(i, j) = random.Normal();
    const double score = out.x(i, 0) - 2.0 * out.x(i, 1) + 0.7 + 0.5 * random.Normal();
    out.y[i] = score > 0.0 ? 1.0 : -1.0;
  }
  return out;
}

SvmProblem RandomProblem(size_t folds, Index columns, uint64_t seed) {
  base::RandomStream random(seed, "svm");
  SvmProblem problem;
  for (size_t k = 0; k < folds; ++k) {
    problem.folds.push_back({RandomRows(40, columns, random), RandomRows(20, columns, random)});
  }
  return problem;
}

VectorXd RandomBounds(Index columns, base::RandomStream& random) {
  VectorXd r(columns + 1);
  for (double& b : r) b = std::pow(10.0, -2.0 + 2.5 * random.Uniform());
  return r;
}

TEST(SupportOfBoxBall, IsTheMaximumAndItsSlopes) {
  base::RandomStream random(1, "support");
  for (int k = 0; k < 50; ++k) {
    const VectorXd r = RandomBounds(4, random);
    VectorXd g(4);
    for (double& v : g) v = random.Normal();
    const BoxBallSupport support = SupportOfBoxBall(g, r);
    // No point inside does better, and points near the best come close.
    double most = 0.0;
    for (int i = 0; i < 3000; ++i) {
      VectorXd w(4);
      for (Index j = 0; j < 4; ++j) w[j] = std::clamp(2.0 * random.Normal(), -1.0, 1.0) * r[j + 1];
      const double half = 0.5 * w.squaredNorm();
      if (half > r[0]) w *= std::sqrt(r[0] / half);
      most = std::max(most, g.dot(w));
    }
    EXPECT_LE(most, support.value * (1.0 + 1e-9));
    EXPECT_GE(most, 0.8 * support.value);
    // Concave in r, with these slopes.
    const VectorXd other = RandomBounds(4, random);
    EXPECT_LE(SupportOfBoxBall(g, other).value, support.value + support.multipliers.dot(other - r) + 1e-9);
  }
}

TEST(TrainBoundedSvm, IsSolvedAndItsCutHolds) {
  base::RandomStream random(2, "lower");
  const SvmRows rows = RandomRows(60, 5, random);
  for (int k = 0; k < 8; ++k) {
    const VectorXd r = RandomBounds(5, random);
    const auto found = TrainBoundedSvm(rows, r, 1e-7, {});
    ASSERT_TRUE(found.ok());
    EXPECT_LE(RelativeGap(found->gap, found->value), 1e-7);
    EXPECT_LE(0.5 * found->x.head(5).squaredNorm(), r[0] * (1.0 + 1e-12));
    for (Index j = 0; j < 5; ++j) EXPECT_LE(std::abs(found->x[j]), r[j + 1]);
    // Nothing near it that is inside is better.
    for (int i = 0; i < 100; ++i) {
      VectorXd x = found->x;
      for (double& v : x) v += std::pow(10.0, -4.0 * random.Uniform()) * random.Normal();
      for (Index j = 0; j < 5; ++j) x[j] = std::clamp(x[j], -r[j + 1], r[j + 1]);
      const double half = 0.5 * x.head(5).squaredNorm();
      if (half > r[0]) x.head(5) *= std::sqrt(r[0] / half);
      EXPECT_GE(MeanHinge(rows, x), found->value - found->gap - 1e-12);
    }
    for (int i = 0; i < 5; ++i) {
      const VectorXd other = RandomBounds(5, random);
      const auto value = TrainBoundedSvm(rows, other, 1e-7, {});
      ASSERT_TRUE(value.ok());
      EXPECT_GE(value->value, found->value - found->gap - found->gamma.dot(other - r) - 1e-12);
    }
  }
}

TEST(SvmVfUpper, NoOtherPointIsLower) {
  for (const size_t folds : {1, 3}) {
    const SvmProblem problem = RandomProblem(folds, 4, 3);
    VfIdcaOptions options = SvmVfOptions(4);
    options.start.tail(4).setConstant(0.3);
    SvmVfProblem solver(&problem, &options);
    const VectorXd x = VectorXd::Zero(problem.variables()), r = options.start;
    const auto lower = solver.SolveLower(r, x, VectorXd(), options.gap, {});
    ASSERT_TRUE(lower.ok());
    const double alpha = 1.5;
    const auto upper = solver.SolveUpper(x, r, *lower, alpha, options.gap, {});
    ASSERT_TRUE(upper.ok());
    EXPECT_LE(upper->gap, 1e-6);
    const auto value = [&](const VectorXd& z, const VectorXd& bounds) {
      const double cut = solver.TrainLoss(z) - (lower->value - lower->gap) + lower->gamma.dot(bounds - r);
      return solver.ValidationLoss(z) + 0.5 * options.rho * ((z - x).squaredNorm() + (bounds - r).squaredNorm()) +
             alpha * std::max({0.0, cut, (solver.Penalties(z) - bounds).maxCoeff()});
    };
    EXPECT_NEAR(value(upper->x, upper->r), upper->value, 1e-12);
    base::RandomStream random(4, "z");
    for (int k = 0; k < 300; ++k) {
      const double size = std::pow(10.0, -5.0 * random.Uniform());
      VectorXd z = upper->x, bounds = upper->r;
      for (double& v : z) v += size * random.Normal();
      for (double& v : bounds) v = std::max(options.least_bound, v + size * random.Normal());
      EXPECT_GE(value(z, bounds), upper->value - upper->gap * (1.0 + upper->value));
    }
  }
}

// Columns that tell nothing get small bounds.
TEST(SvmVfIdca, FindsTheColumnsThatCount) {
  const SvmProblem problem = RandomProblem(3, 8, 5);
  VfIdcaOptions options = SvmVfOptions(8);
  options.patience = 5;
  SvmVfProblem solver(&problem, &options);
  const auto result = RunVfIdca(solver, options, nullptr, {});
  ASSERT_TRUE(result.ok());
  EXPECT_LE(result->worst_gap, 1e-6);
  ASSERT_GE(result->best_step, 0);
  EXPECT_LT(result->best_loss, 0.6);
  const VectorXd penalties = solver.Penalties(result->best_refit);
  EXPECT_GT(penalties[2], 2.0 * penalties.tail(6).mean());
}

TEST(SvmVfIdca, OneClassAndConstantColumnsAreSolved) {
  SvmProblem problem = RandomProblem(1, 3, 6);
  problem.folds[0].train.x.col(2).setZero();
  VfIdcaOptions options = SvmVfOptions(3);
  options.max_steps = 3;
  {
    SvmVfProblem solver(&problem, &options);
    const auto result = RunVfIdca(solver, options, nullptr, {});
    ASSERT_TRUE(result.ok());
    EXPECT_LE(result->worst_gap, 1e-6);
  }
  problem.folds[0].train.y.setOnes();
  SvmVfProblem solver(&problem, &options);
  const auto lower = solver.SolveLower(options.start, VectorXd::Zero(4), VectorXd(), options.gap, {});
  ASSERT_TRUE(lower.ok());
  EXPECT_LT(lower->value, 1e-6) << "a constant term is enough";
}

TEST(SvmVfIdca, StopEndsIt) {
  const SvmProblem problem = RandomProblem(1, 3, 7);
  const VfIdcaOptions options = SvmVfOptions(3);
  SvmVfProblem solver(&problem, &options);
  base::StopSource source;
  source.RequestStop();
  EXPECT_TRUE(absl::IsCancelled(RunVfIdca(solver, options, nullptr, source.token()).status()));
}

}  // namespace
}  // namespace luthier::bilevel
