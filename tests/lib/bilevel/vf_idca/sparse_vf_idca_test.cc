#include "lib/bilevel/vf_idca/sparse_vf_idca.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/dual_ascent.h"
#include "lib/bilevel/vf_idca/penalized_quadratic.h"
#include "lib/bilevel/vf_idca/sparse_penalties.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd RandomMatrix(Index rows, Index cols, base::RandomStream& random) {
  MatrixXd m(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) m(i, j) = random.Normal();
  }
  return m;
}

SparseVfRows RowsOf(const MatrixXd& x, const VectorXd& y) {
  const double n = static_cast<double>(x.rows());
  return {x.transpose() * x / n, x.transpose() * y / n, 0.5 * y.squaredNorm() / n};
}

SparsePenalties ElasticNet() {
  return {.groups = {}, .ridge = true};
}
SparsePenalties Grouped(Index columns, Index groups) {
  SparsePenalties penalties;
  for (Index m = 0; m < groups; ++m) {
    std::vector<Index>& group = penalties.groups.emplace_back();
    for (Index j = m * columns / groups; j < (m + 1) * columns / groups; ++j) group.push_back(j);
  }
  return penalties;
}

// Generated rows with a few true weights.
SparseVfProblem Generated(Index train, Index validation, Index columns, const SparsePenalties& penalties,
                          uint64_t seed) {
  base::RandomStream random(seed, "rows");
  const MatrixXd x = RandomMatrix(train + validation, columns, random);
  VectorXd beta = VectorXd::Zero(columns);
  beta.head(4) << 1.0, -2.0, 0.5, 1.5;
  VectorXd y = x * beta;
  for (double& v : y) v += random.Normal();
  return {RowsOf(x.topRows(train), y.head(train)), RowsOf(x.bottomRows(validation), y.tail(validation)), penalties};
}

double Penalized(const Quadratic& q, const SparsePenalties& penalties, const VectorXd& mu, const VectorXd& x) {
  return 0.5 * x.dot(q.Multiply(x)) - q.c.dot(x) + mu.dot(penalties.Values(x));
}

TEST(SparsePenaltiesTest, LinearBoundIsReachedAndHoldsForAllRadii) {
  base::RandomStream random(1, "linear");
  for (const SparsePenalties& penalties : {ElasticNet(), Grouped(12, 4), Grouped(12, 1), SparsePenalties()}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const VectorXd g = RandomMatrix(12, 1, random);
      VectorXd r(penalties.count());
      for (double& v : r) v = 0.2 + 3.0 * random.Uniform();
      const LinearBound bound = MinimizeLinear(penalties, g, r);
      double best = 0.0;
      for (int k = 0; k < 300; ++k) {
        VectorXd other = r;
        for (double& v : other) v *= 0.1 + 2.0 * random.Uniform();
        // Far along -g: the projection of it is near the best.
        const VectorXd near = ProjectedInto(penalties, -1e4 * g, k == 0 ? r : other);
        const VectorXd far = ProjectedInto(penalties, RandomMatrix(12, 1, random) * 3.0, k == 0 ? r : other);
        const double cut = bound.value - bound.multipliers.dot((k == 0 ? r : other) - r);
        EXPECT_GE(g.dot(near), cut - 1e-9 * std::abs(cut));
        EXPECT_GE(g.dot(far), cut - 1e-9 * std::abs(cut));
        if (k == 0) best = g.dot(near);
      }
      EXPECT_NEAR(best, bound.value, 2e-3 * std::abs(bound.value));
    }
  }
}

TEST(SparsePenaltiesTest, ProjectionIsTheNearestPoint) {
  base::RandomStream random(2, "project");
  for (const SparsePenalties& penalties : {ElasticNet(), Grouped(9, 3)}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const VectorXd x = 2.0 * RandomMatrix(9, 1, random);
      VectorXd r(penalties.count());
      for (double& v : r) v = 0.2 + 3.0 * random.Uniform();
      const VectorXd p = ProjectedInto(penalties, x, r);
      EXPECT_LE((penalties.Values(p) - r).maxCoeff(), 1e-9);
      // (x - p)'(z - p) <= 0 for all z inside.
      for (int k = 0; k < 100; ++k) {
        const VectorXd z = ScaledInto(penalties, 2.0 * RandomMatrix(9, 1, random), r);
        EXPECT_LE((penalties.Values(z) - r).maxCoeff(), 1e-9);
        EXPECT_LE((x - p).dot(z - p), 1e-8);
      }
    }
  }
}

TEST(PenalizedQuadraticTest, NoPointIsBetterAndTheBoundIsTheValue) {
  base::RandomStream random(3, "quadratic");
  for (const SparsePenalties& penalties : {ElasticNet(), Grouped(20, 5), SparsePenalties()}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const MatrixXd x = RandomMatrix(30, 20, random), z = RandomMatrix(15, 20, random);
      const MatrixXd a = x.transpose() * x / 30.0, b = z.transpose() * z / 15.0;
      Quadratic q{.a = &a, .b = &b, .first = 1.0, .second = 0.7, .shift = 1e-3, .c = RandomMatrix(20, 1, random)};
      VectorXd mu(penalties.count());
      for (double& v : mu) v = 0.5 * random.Uniform();
      const PenalizedMinimum minimum = MinimizePenalized(q, penalties, mu, VectorXd::Zero(20), 400, {}).value();
      EXPECT_TRUE(minimum.exact);
      const double best = Penalized(q, penalties, mu, minimum.x);
      EXPECT_NEAR(minimum.bound, best, 1e-11 * (1.0 + std::abs(best)));
      for (int k = 0; k < 200; ++k) {
        const VectorXd other = minimum.x + std::pow(10.0, -4.0 * random.Uniform()) * RandomMatrix(20, 1, random);
        EXPECT_GE(Penalized(q, penalties, mu, other), best);
      }
      // From elsewhere the same.
      const VectorXd start = 3.0 * RandomMatrix(20, 1, random);
      EXPECT_LT((MinimizePenalized(q, penalties, mu, start, 400, {}).value().x - minimum.x).norm(), 1e-7);
    }
  }
}

// Without a shift the lasso's minimum need not be unique where columns repeat; it is found all the same.
TEST(PenalizedQuadraticTest, TakesRepeatedColumnsAndMoreColumnsThanRows) {
  base::RandomStream random(4, "repeated");
  MatrixXd x = RandomMatrix(12, 40, random);
  x.rightCols(20) = x.leftCols(20);
  const MatrixXd a = x.transpose() * x / 12.0;
  Quadratic q{.a = &a, .c = a * RandomMatrix(40, 1, random)};
  for (const double l1 : {1.0, 1e-2, 1e-4, 1e-6}) {
    const VectorXd mu = VectorXd::Constant(1, l1), start = RandomMatrix(40, 1, random);
    const PenalizedMinimum minimum = MinimizePenalized(q, SparsePenalties(), mu, start, 400, {}).value();
    EXPECT_TRUE(minimum.exact) << l1;
    EXPECT_LE(minimum.support.size(), 12u);
    const VectorXd g = q.Multiply(minimum.x) - q.c;
    EXPECT_LE(g.lpNorm<Eigen::Infinity>(), l1 + 1e-9);
  }
}

TEST(DualAscentTest, QuadraticOverSimplexAgreesWithAllActiveSets) {
  base::RandomStream random(5, "simplex");
  for (int repeat = 0; repeat < 200; ++repeat) {
    constexpr Index kSize = 4;
    const MatrixXd root = RandomMatrix(kSize, kSize, random);
    const MatrixXd b = root * root.transpose() + 0.05 * MatrixXd::Identity(kSize, kSize);
    const VectorXd h = 2.0 * RandomMatrix(kSize, 1, random);
    const double most = 0.1 + random.Uniform();
    const auto value = [&](const VectorXd& y) { return 0.5 * y.dot(b * y) - h.dot(y); };
    double best = 0.0;
    for (int set = 1; set < 1 << kSize; ++set) {
      std::vector<Index> free;
      for (Index i = 0; i < kSize; ++i) {
        if (set >> i & 1) free.push_back(i);
      }
      const MatrixXd inverse = MatrixXd(b(free, free)).inverse();
      for (const bool tight : {false, true}) {
        VectorXd y = inverse * h(free);
        const VectorXd ones = inverse * VectorXd::Ones(y.size());
        if (tight) y -= (y.sum() - most) / ones.sum() * ones;
        if (y.minCoeff() < 0.0 || y.sum() > most + 1e-12) continue;
        VectorXd all = VectorXd::Zero(kSize);
        all(free) = y;
        best = std::min(best, value(all));
      }
    }
    const VectorXd y = MinimizeOverSimplex(b, h, most, VectorXd::Zero(kSize));
    EXPECT_GE(y.minCoeff(), 0.0);
    EXPECT_LE(y.sum(), most + 1e-12);
    EXPECT_NEAR(value(y), best, 1e-10);
  }
}

class LowerTest : public ::testing::TestWithParam<bool> {
 protected:
  static SparsePenalties Penalties(Index columns) { return GetParam() ? ElasticNet() : Grouped(columns, columns / 5); }
};
INSTANTIATE_TEST_SUITE_P(Penalties, LowerTest, ::testing::Bool());

TEST_P(LowerTest, GapIsProvenAndTheCutHoldsEverywhere) {
  base::RandomStream random(6, "lower");
  for (const Index columns : {20, 60}) {
    const SparseVfProblem problem = Generated(30, 20, columns, Penalties(columns), 7);
    SparseLowerSolver solver(&problem);
    VectorXd r(problem.penalties.count());
    for (double& v : r) v = 0.5 + 2.0 * random.Uniform();
    const VfLower lower = solver.Solve(r, VectorXd::Zero(columns), VectorXd(), 1e-9, {}).value();
    EXPECT_LE(lower.gap, 1e-9 * (1.0 + lower.value));
    EXPECT_LE((problem.penalties.Values(lower.x) - r).maxCoeff(), 1e-9);
    EXPECT_NEAR(lower.value, problem.train.Loss(lower.x), 1e-12);
    for (int k = 0; k < 100; ++k) {
      VectorXd other = r;
      for (double& v : other) v *= 0.3 + 2.0 * random.Uniform();
      const VfLower there = solver.Solve(other, lower.x, lower.gamma, 1e-8, {}).value();
      EXPECT_GE(there.value, lower.value - lower.gap - lower.gamma.dot(other - r) - 1e-9);
    }
  }
}

TEST_P(LowerTest, MultipliersAreTheDerivativesOfTheValue) {
  const Index columns = 20;
  const SparseVfProblem problem = Generated(40, 20, columns, Penalties(columns), 8);
  SparseLowerSolver solver(&problem);
  VectorXd r = VectorXd::Constant(problem.penalties.count(), 1.0);
  r[problem.penalties.l1()] = 2.5;
  const auto value = [&](const VectorXd& at) {
    return solver.Solve(at, VectorXd::Zero(columns), VectorXd(), 1e-13, {})->value;
  };
  const VectorXd gamma = solver.Solve(r, VectorXd::Zero(columns), VectorXd(), 1e-13, {})->gamma;
  EXPECT_GT(gamma.maxCoeff(), 0.1);
  for (Index i = 0; i < r.size(); ++i) {
    VectorXd up = r, down = r;
    up[i] += 1e-4;
    down[i] -= 1e-4;
    EXPECT_NEAR((value(up) - value(down)) / 2e-4, -gamma[i], 1e-4) << i;
  }
}

// Orthonormal columns: the elastic net is soft thresholding, divided by 1 + l2.
TEST(SparseVfIdcaTest, OrthonormalLowerProblemHasItsClosedForm) {
  const Index columns = 8;
  base::RandomStream random(9, "orthonormal");
  const VectorXd c = 2.0 * RandomMatrix(columns, 1, random);
  SparseVfProblem problem{{MatrixXd::Identity(columns, columns), c, 0.5 * c.squaredNorm()}, {}, ElasticNet()};
  const double l1 = 0.4, l2 = 0.3;
  const VectorXd x = c.unaryExpr([&](double v) { return Soft(v, l1) / (1.0 + l2); });
  const VectorXd r = problem.penalties.Values(x);
  SparseLowerSolver solver(&problem);
  const VfLower lower = solver.Solve(r, VectorXd::Zero(columns), VectorXd(), 1e-12, {}).value();
  EXPECT_LT((lower.x - x).norm(), 1e-5);
  EXPECT_NEAR(lower.gamma[0], l1, 1e-4);
  EXPECT_NEAR(lower.gamma[1], l2, 1e-4);
}

TEST(SparseVfIdcaTest, EveryStepIsSolvedToItsGapAndThePenalizedLossFalls) {
  for (const bool elastic : {true, false}) {
    const Index columns = 60;
    const SparsePenalties penalties = elastic ? ElasticNet() : Grouped(columns, 12);
    const SparseVfProblem problem = Generated(40, 30, columns, penalties, 10);
    VfIdcaOptions options = elastic ? ElasticNetVfOptions() : SparseGroupLassoVfOptions(penalties.count());
    options.tolerance = 1e-3;
    options.max_steps = 40;
    std::vector<VfIdcaStep> steps;
    const VfIdcaResult result = RunSparseVfIdca(problem, options,
                                                [&](const VfIdcaStep& step) {
                                                  steps.push_back(step);
                                                  return true;
                                                },
                                                {})
                                    .value();
    ASSERT_EQ(steps.size(), static_cast<size_t>(result.steps));
    EXPECT_LE(result.worst_gap, 1e-6);
    for (size_t k = 1; k < steps.size(); ++k) {
      if (steps[k].alpha != steps[k - 1].alpha) continue;
      const auto merit = [](const VfIdcaStep& s) { return s.validation_loss + s.alpha * s.violation; };
      EXPECT_LE(merit(steps[k]), merit(steps[k - 1]) + 1e-6 * (1.0 + merit(steps[k - 1]))) << k;
    }
    EXPECT_LE((penalties.Values(result.refit) - result.r).maxCoeff(), 1e-9);
  }
}

TEST(SparseVfIdcaTest, InexactStepsEndWithAnExactOne) {
  const SparseVfProblem problem = Generated(50, 40, 30, ElasticNet(), 12);
  VfIdcaOptions options = ElasticNetVfOptions();
  options.tolerance = 1e-3;
  const VfIdcaResult exact = RunSparseVfIdca(problem, options, nullptr, {}).value();
  options.inexact = true;
  double loosest = 0.0;
  const VfIdcaResult inexact = RunSparseVfIdca(problem, options,
                                               [&](const VfIdcaStep& step) {
                                                 loosest = std::max({loosest, step.lower_gap, step.upper_gap});
                                                 return true;
                                               },
                                               {})
                                   .value();
  EXPECT_TRUE(exact.converged && inexact.converged);
  EXPECT_LE(inexact.worst_gap, 1e-6) << "of the last step";
  EXPECT_GT(loosest, 1e-6);
  EXPECT_LE(loosest, 1e-3);
  EXPECT_LT((inexact.r - exact.r).norm(), 0.05 * exact.r.norm());
}

TEST(SparseVfIdcaTest, StrengthsGiveTheRefitAsAPenalizedModel) {
  const Index columns = 40;
  const SparseVfProblem problem = Generated(50, 40, columns, ElasticNet(), 11);
  VfIdcaOptions options = ElasticNetVfOptions();
  options.start = Eigen::Vector2d(3.0, 2.0);
  const VfIdcaResult result = RunSparseVfIdca(problem, options, nullptr, {}).value();
  EXPECT_TRUE(result.converged);
  EXPECT_FALSE(result.degenerate);
  Quadratic q{.a = &problem.train.gram, .c = problem.train.product};
  const PenalizedMinimum model =
      MinimizePenalized(q, problem.penalties, result.gamma, VectorXd::Zero(columns), 400, {}).value();
  EXPECT_LT((model.x - result.refit).norm(), 1e-3 * result.refit.norm());
}

TEST(SparseVfIdcaTest, SaysThatItInterpolates) {
  const Index columns = 100;
  const SparseVfProblem problem = Generated(15, 5, columns, ElasticNet(), 12);
  VfIdcaOptions options = ElasticNetVfOptions();
  options.start = Eigen::Vector2d(100.0, 500.0);
  options.tolerance = 1e-3;
  const VfIdcaResult result = RunSparseVfIdca(problem, options, nullptr, {}).value();
  EXPECT_TRUE(result.degenerate);
  EXPECT_LT(problem.train.Loss(result.refit), 1e-6);
}

TEST(SparseVfIdcaTest, StopsWhenAsked) {
  const SparseVfProblem problem = Generated(15, 5, 10, ElasticNet(), 13);
  base::StopSource source;
  source.RequestStop();
  EXPECT_TRUE(absl::IsCancelled(RunSparseVfIdca(problem, ElasticNetVfOptions(), nullptr, source.token()).status()));
  int steps = 0;
  VfIdcaOptions options = ElasticNetVfOptions();
  options.tolerance = 0.0;
  const VfIdcaResult result =
      RunSparseVfIdca(problem, options, [&](const VfIdcaStep&) { return ++steps < 2; }, {}).value();
  EXPECT_EQ(result.steps, 2);
  EXPECT_FALSE(result.converged);
}

}  // namespace
}  // namespace luthier::bilevel
