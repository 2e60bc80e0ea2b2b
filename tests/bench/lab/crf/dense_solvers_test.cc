#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "Eigen/Cholesky"
#include "absl/status/statusor.h"
#include "bench/lab/crf/growing_batch.h"
#include "bench/lab/crf/meta_descent.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"

namespace luthier::crf::lab {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// f_i(x) = (a_i'x - b_i)^2 / 2: optima in closed form.
struct LeastSquares {
  LeastSquares(uint64_t seed, int64_t n, int64_t d) : a(n, d), b(n) {
    base::RandomStream random(seed, "test.least_squares");
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < d; ++j) a(i, j) = random.Normal() * static_cast<double>(1 + j);
      b[i] = random.Normal();
    }
  }
  double Sum(const VectorXd& x, int64_t first, int64_t last, VectorXd* gradient) const {
    double sum = 0.0;
    for (int64_t i = first; i < last; ++i) {
      const double residual = a.row(i).dot(x) - b[i];
      sum += 0.5 * residual * residual;
      *gradient += residual * a.row(i).transpose();
    }
    return sum;
  }
  VectorXd Solution(double lambda) const {
    const auto n = static_cast<double>(a.rows());
    MatrixXd h = a.transpose() * a / n;
    h.diagonal().array() += lambda;
    return h.ldlt().solve(a.transpose() * b / n);
  }
  MatrixXd a;
  VectorXd b;
};

TEST(GrowingBatchTest, FindsTheSolutionOfARegression) {
  const LeastSquares problem(1, 60, 8);
  const auto sum = [&](const VectorXd& x, int64_t first, int64_t last, VectorXd* g) {
    return problem.Sum(x, first, last, g);
  };
  GrowingBatch solver(8, 60, 0.1);
  int64_t steps = 0;
  while (solver.Step(sum, {}).value() == linear::SolveState::kRunning && ++steps < 300) continue;
  EXPECT_EQ(solver.batch(), 60);
  EXPECT_LT((solver.x() - problem.Solution(0.1)).norm(), 1e-7);
  // Growing spares early evaluations: 11 n or so until all are in, not n for each of the steps.
  EXPECT_LT(solver.evaluations(), 60 * steps);
}

TEST(GrowingBatchTest, ANonFiniteStartIsReported) {
  const auto sum = [](const VectorXd&, int64_t, int64_t, VectorXd*) { return NAN; };
  GrowingBatch solver(3, 5, 0.0);
  EXPECT_EQ(solver.Step(sum, {}).value(), linear::SolveState::kNonFinite);
}

TEST(GrowingBatchTest, NonFiniteTrialsAreSteppedBackFrom) {
  // f(x) = x - log(1 + x), infinite from -1 on.
  const auto sum = [](const VectorXd& x, int64_t first, int64_t last, VectorXd* g) {
    const auto count = static_cast<double>(last - first);
    (*g)[0] += count * (1.0 - 1.0 / (1.0 + x[0]) - 5.0);
    return count * (x[0] > -1.0 ? x[0] - std::log1p(x[0]) - 5.0 * x[0] + 40.0 * std::max(0.0, x[0]) : INFINITY);
  };
  GrowingBatch solver(1, 4, 0.0);
  for (int k = 0; k < 50; ++k) {
    if (solver.Step(sum, {}).value() != linear::SolveState::kRunning) break;
  }
  EXPECT_TRUE(std::isfinite(solver.x()[0]));
}

// The recursion written out once more, by hand, for one weight.
TEST(MetaDescentTest, FollowsTheRecursion) {
  MetaDescent::Options options;
  options.rate = 0.05;
  options.meta_rate = 0.2;
  options.memory = 0.9;
  MetaDescent solver(1, options);
  double x = 0.0, eta = 0.05, v = 0.0;
  for (int k = 0; k < 20; ++k) {
    const double c = 1.0 + k % 3;  // f = c/2 (x - 2)^2
    const auto gradient = [&](const VectorXd& at, VectorXd* g) {
      *g = c * (at.array() - 2.0);
      return 0.5 * c * (at[0] - 2.0) * (at[0] - 2.0);
    };
    ASSERT_TRUE(solver.Step(gradient, [&](const VectorXd&, const VectorXd& u) { return VectorXd(c * u); }).value());
    const double g = c * (x - 2.0);
    const double hv = c * v;
    eta *= std::max(0.5, 1.0 - 0.2 * g * v);
    x -= eta * g;
    v = 0.9 * v - eta * (g + 0.9 * hv);
    EXPECT_NEAR(solver.x()[0], x, 1e-12);
    EXPECT_NEAR(solver.rates()[0], eta, 1e-12);
  }
  EXPECT_GT(eta, 0.05);
}

TEST(MetaDescentTest, NonFiniteValuesAreRefusedAndChangeNothing) {
  MetaDescent solver(2, {});
  const auto product = [](const VectorXd&, const VectorXd& v) { return v; };
  const auto bad = [](const VectorXd& x, VectorXd* g) {
    *g = VectorXd::Constant(x.size(), INFINITY);
    return 0.0;
  };
  EXPECT_FALSE(solver.Step(bad, product).value());
  EXPECT_EQ(solver.x(), VectorXd::Zero(2));
  const auto stopped = [](const VectorXd&, VectorXd*) { return absl::StatusOr<double>(base::StoppedError()); };
  EXPECT_EQ(solver.Step(stopped, product).status(), base::StoppedError());
  EXPECT_EQ(solver.x(), VectorXd::Zero(2));
}

}  // namespace
}  // namespace luthier::crf::lab
