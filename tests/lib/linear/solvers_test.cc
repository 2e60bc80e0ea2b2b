#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <cmath>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/linear/conjugate_gradient.h"
#include "lib/linear/lbfgs_solver.h"
#include "lib/linear/newton_solver.h"

namespace luthier::linear {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd RandomVector(base::RandomStream& random, Eigen::Index n) {
  VectorXd v(n);
  for (Eigen::Index i = 0; i < n; ++i) v[i] = random.Normal();
  return v;
}

MatrixXd RandomSpd(base::RandomStream& random, Eigen::Index n, double condition) {
  MatrixXd g(n, n);
  for (Eigen::Index j = 0; j < n; ++j) g.col(j) = RandomVector(random, n);
  const MatrixXd q = Eigen::HouseholderQR<MatrixXd>(g).householderQ();
  VectorXd d(n);
  for (Eigen::Index j = 0; j < n; ++j) d[j] = std::pow(condition, static_cast<double>(j) / static_cast<double>(n - 1));
  return q * d.asDiagonal() * q.transpose();
}

TEST(ConjugateGradientTest, AgreesWithCholesky) {
  base::RandomStream random(3, "cg");
  for (const double condition : {10.0, 1e4, 1e7}) {
    const MatrixXd a = RandomSpd(random, 40, condition);
    const VectorXd b = RandomVector(random, 40);
    const VectorXd expected = a.llt().solve(b);
    for (const bool jacobi : {false, true}) {
      CgOptions options;
      options.tolerance = 1e-11 * b.norm();
      options.max_iterations =
          4000;  // The last case needs more than 10 times the dimension: rounding breaks conjugacy.
      const CgResult r = SolveCg([&](const VectorXd& v) -> VectorXd { return a * v; }, b,
                                 jacobi ? VectorXd(a.diagonal()) : VectorXd(), VectorXd(), options)
                             .value();
      EXPECT_TRUE(r.outcome == CgOutcome::kConverged || r.outcome == CgOutcome::kPrecision)
          << static_cast<int>(r.outcome) << " after " << r.iterations << ", residual " << r.residual_norm;
      EXPECT_LT((r.x - expected).norm(), 1e-8 * condition * expected.norm() / 10);
      EXPECT_NEAR(r.residual_norm, (b - a * r.x).norm(), 1e-12 * b.norm());
    }
  }
}

TEST(ConjugateGradientTest, OutcomesSayWhatHappened) {
  const VectorXd b = VectorXd::Ones(3);
  const VectorXd d = (VectorXd(3) << 1, -2, 3).finished();
  CgOptions options;
  options.tolerance = 1e-10;
  const auto solve = [&](const VectorXd& diagonal, const VectorXd& rhs) {
    return SolveCg([&](const VectorXd& v) -> VectorXd { return diagonal.cwiseProduct(v); }, rhs, VectorXd(), VectorXd(),
                   options)
        .value();
  };
  EXPECT_EQ(solve(d, b).outcome, CgOutcome::kIndefinite);
  EXPECT_EQ(solve(VectorXd::Constant(3, NAN), b).outcome, CgOutcome::kNonFinite);
  EXPECT_EQ(solve(d.cwiseAbs(), VectorXd::Zero(3)).outcome, CgOutcome::kConverged);
  options.max_iterations = 1;
  EXPECT_EQ(solve(d.cwiseAbs(), b).outcome, CgOutcome::kIterationLimit);
  options.max_iterations = 0;
  options.tolerance = 0.0;
  const CgOutcome tight = solve(d.cwiseAbs(), b).outcome;
  EXPECT_TRUE(tight == CgOutcome::kConverged || tight == CgOutcome::kPrecision);
  const base::StopSource source;
  source.RequestStop();
  options.stop = source.token();
  const auto multiply = [&](const VectorXd& v) -> VectorXd { return d.cwiseAbs().cwiseProduct(v); };
  EXPECT_EQ(SolveCg(multiply, b, VectorXd(), VectorXd(), options).status(), base::StoppedError());
  // A product that is stopped ends it, too.
  const auto stopped = [](const VectorXd&) { return absl::StatusOr<VectorXd>(base::StoppedError()); };
  EXPECT_EQ(SolveCg(stopped, b, VectorXd(), VectorXd(), {}).status(), base::StoppedError());
}

TEST(ConjugateGradientTest, WarmStartAtTheSolutionNeedsOneProduct) {
  const VectorXd d = (VectorXd(3) << 1, 2, 4).finished();
  const VectorXd b = VectorXd::Ones(3);
  CgOptions options;
  options.tolerance = 1e-12;
  const CgResult r = SolveCg([&](const VectorXd& v) -> VectorXd { return d.cwiseProduct(v); }, b, VectorXd(),
                             b.cwiseQuotient(d), options)
                         .value();
  EXPECT_EQ(r.outcome, CgOutcome::kConverged);
  EXPECT_EQ(r.iterations, 1);
}

double Rosenbrock(const VectorXd& x, VectorXd* g) {
  double f = 0.0;
  *g = VectorXd::Zero(x.size());
  for (Eigen::Index i = 0; i + 1 < x.size(); ++i) {
    const double a = x[i + 1] - x[i] * x[i];
    f += 100 * a * a + (1 - x[i]) * (1 - x[i]);
    (*g)[i] += -400 * a * x[i] - 2 * (1 - x[i]);
    (*g)[i + 1] += 200 * a;
  }
  return f;
}

SolveState Minimize(LbfgsSolver& solver, ValueAndGradient f, VectorXd x0, int limit) {
  SolveState state = solver.Start(f, std::move(x0)).value();
  for (int k = 0; k < limit && state == SolveState::kRunning; ++k) state = solver.Step(f, {}).value();
  return state;
}

TEST(LbfgsSolverTest, FindsTheMinimumOfRosenbrock) {
  for (const int n : {2, 4}) {
    LbfgsSolver solver(1e-10);
    EXPECT_EQ(Minimize(solver, Rosenbrock, VectorXd::Constant(n, -1.2), 500), SolveState::kConverged);
    EXPECT_LT((solver.x() - VectorXd::Ones(n)).norm(), 1e-8);
    EXPECT_LT(solver.evaluations(), 300);
  }
}

TEST(LbfgsSolverTest, ReachesGradientsBelowTheSquareRootOfPrecision) {
  base::RandomStream random(4, "quadratic");
  const MatrixXd a = RandomSpd(random, 30, 1e3);
  const VectorXd b = RandomVector(random, 30);
  // A large constant: differences of f near the minimum are all rounding.
  const auto f = [&](const VectorXd& x, VectorXd* g) {
    *g = a * x - b;
    return 1e4 + 0.5 * x.dot(a * x) - b.dot(x);
  };
  LbfgsSolver solver(1e-10);
  EXPECT_EQ(Minimize(solver, f, VectorXd::Zero(30), 1000), SolveState::kConverged);
  EXPECT_LT((solver.x() - a.llt().solve(b)).norm(), 1e-9);
}

TEST(LbfgsSolverTest, ZeroToleranceEndsWithPrecision) {
  base::RandomStream random(4, "quadratic");
  const MatrixXd a = RandomSpd(random, 10, 1e2);
  const VectorXd b = RandomVector(random, 10);
  const auto f = [&](const VectorXd& x, VectorXd* g) {
    *g = a * x - b;
    return 0.5 * x.dot(a * x) - b.dot(x);
  };
  LbfgsSolver solver(0.0);
  const SolveState state = Minimize(solver, f, VectorXd::Zero(10), 2000);
  EXPECT_TRUE(state == SolveState::kPrecision || state == SolveState::kConverged);
  EXPECT_LT(solver.gradient().norm(), 1e-11);
}

TEST(LbfgsSolverTest, StepsOverNonFiniteRegions) {
  // log barrier: NaN for x <= 0; minimum of x - log x at 1.
  const auto f = [](const VectorXd& x, VectorXd* g) {
    *g = VectorXd::Constant(1, 1.0 - 1.0 / x[0]);
    return x[0] <= 0.0 ? NAN : 100.0 * (x[0] - std::log(x[0]));
  };
  const auto scaled = [&](const VectorXd& x, VectorXd* g) {
    const double value = f(x, g);
    *g *= 100.0;
    return value;
  };
  LbfgsSolver solver(1e-9);
  EXPECT_EQ(Minimize(solver, scaled, VectorXd::Constant(1, 1e-3), 100), SolveState::kConverged);
  EXPECT_NEAR(solver.x()[0], 1.0, 1e-10);
  EXPECT_EQ(Minimize(solver, scaled, VectorXd::Constant(1, -1.0), 100), SolveState::kNonFinite);
  const auto everywhere = [](const VectorXd& x, VectorXd* g) {
    *g = VectorXd::Ones(x.size());
    return x.norm() == 0.0 ? 1.0 : NAN;
  };
  EXPECT_EQ(Minimize(solver, everywhere, VectorXd::Zero(2), 100), SolveState::kNonFinite);
}

TEST(LbfgsSolverTest, StopAndResumeAreBitExact) {
  LbfgsSolver plain(1e-10);
  plain.Start(Rosenbrock, VectorXd::Constant(4, -1.2)).value();
  LbfgsSolver other(1e-10);
  other.Start(Rosenbrock, VectorXd::Constant(4, -1.2)).value();
  int calls = 0;
  base::StopSource source;
  const auto interrupting = [&](const VectorXd& x, VectorXd* g) {
    if (++calls % 3 == 0) source.RequestStop();  // Seen at the next trial of the same line search, if there is one.
    return Rosenbrock(x, g);
  };
  for (int k = 0; k < 30; ++k) {
    plain.Step(Rosenbrock, {}).value();
    while (!other.Step(interrupting, source.token()).ok()) source = base::StopSource();
    base::CheckpointWriter writer("test");
    other.Save(&writer);
    const std::string bytes = std::move(writer).Finish();
    base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test").value();
    LbfgsSolver copy(1e-10);
    ASSERT_TRUE(copy.Load(&reader, 4));
    ASSERT_TRUE(reader.Done());
    other = copy;
    ASSERT_EQ(other.x(), plain.x()) << k;
    ASSERT_EQ(other.evaluations(), plain.evaluations());
  }
}

}  // namespace
}  // namespace luthier::linear
