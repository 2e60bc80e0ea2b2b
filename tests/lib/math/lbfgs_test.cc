#include "lib/math/lbfgs.h"

#include <cmath>
#include <limits>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double Rosenbrock(const VectorXd& x, VectorXd* g) {
  double f = 0.0;
  if (g != nullptr) g->setZero(x.size());
  for (Index i = 0; i + 1 < x.size(); ++i) {
    const double a = x(i + 1) - x(i) * x(i), b = 1.0 - x(i);
    f += 100.0 * a * a + b * b;
    if (g == nullptr) continue;
    (*g)(i) += -400.0 * a * x(i) - 2.0 * b;
    (*g)(i + 1) += 200.0 * a;
  }
  return f;
}

TEST(Lbfgs, SolvesRosenbrockInTwentyDimensions) {
  const Index n = 20;
  LbfgsOptions options;
  options.max_iterations = 500;
  options.max_evaluations = 1000;
  const LbfgsResult r = MinimizeLbfgs(Rosenbrock, VectorXd::Constant(n, -1.2), VectorXd::Constant(n, -5.0),
                                      VectorXd::Constant(n, 5.0), options, base::StopToken())
                            .value();
  EXPECT_EQ(r.outcome, LbfgsOutcome::kConverged);
  EXPECT_LT((r.x - VectorXd::Ones(n)).cwiseAbs().maxCoeff(), 1e-5);
  EXPECT_LE(r.projected_gradient, 1e-6);
}

// Minimum of x'Ax/2 - b'x on a box by projected Gauss-Seidel, an unrelated method.
VectorXd BoxQuadraticBySweeps(const MatrixXd& a, const VectorXd& b, const VectorXd& lower, const VectorXd& upper) {
  VectorXd x = VectorXd::Zero(b.size()).cwiseMax(lower).cwiseMin(upper);
  for (int sweep = 0; sweep < 20000; ++sweep) {
    for (Index j = 0; j < b.size(); ++j) {
      x(j) = std::clamp(x(j) + (b(j) - a.row(j).dot(x)) / a(j, j), lower(j), upper(j));
    }
  }
  return x;
}

TEST(Lbfgs, FindsTheFaceOfRandomBoxQuadratics) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream stream(seed, "box quadratic");
    const Index n = 8;
    MatrixXd m(n, n);
    VectorXd b(n), start(n);
    for (Index i = 0; i < n; ++i) {
      b(i) = 3.0 * stream.Normal();
      start(i) = stream.Uniform();
      for (Index j = 0; j < n; ++j) m(i, j) = stream.Normal();
    }
    const MatrixXd a = m * m.transpose() + 0.3 * MatrixXd::Identity(n, n);
    const VectorXd lower = VectorXd::Zero(n), upper = VectorXd::Ones(n);
    auto f = [&](const VectorXd& x, VectorXd* g) {
      if (g != nullptr) *g = a * x - b;
      return 0.5 * x.dot(a * x) - b.dot(x);
    };
    LbfgsOptions options;
    options.gradient_tolerance = 1e-8;
    const LbfgsResult r = MinimizeLbfgs(f, start, lower, upper, options, base::StopToken()).value();
    const VectorXd expected = BoxQuadraticBySweeps(a, b, lower, upper);
    EXPECT_LT((r.x - expected).cwiseAbs().maxCoeff(), 1e-5);
    EXPECT_LT(r.evaluations, 120);
    EXPECT_GE(r.x.minCoeff(), 0.0);
    EXPECT_LE(r.x.maxCoeff(), 1.0);
  }
}

TEST(Lbfgs, StepsBackFromWhereTheObjectiveIsNotFinite) {
  // -ln x + x has its minimum at 1 and no value left of 0; the first steps overshoot.
  auto f = [](const VectorXd& x, VectorXd* g) {
    if (x(0) <= 0.0) return std::numeric_limits<double>::quiet_NaN();
    if (g != nullptr) (*g)(0) = 1.0 - 1.0 / x(0);
    return x(0) - std::log(x(0));
  };
  const VectorXd free = VectorXd::Constant(1, std::numeric_limits<double>::infinity());
  LbfgsOptions options;
  options.first_step = 100.0;
  const LbfgsResult r = MinimizeLbfgs(f, VectorXd::Constant(1, 30.0), -free, free, options, base::StopToken()).value();
  EXPECT_NEAR(r.x(0), 1.0, 1e-5);
  EXPECT_EQ(MinimizeLbfgs(f, VectorXd::Constant(1, -1.0), -free, free, {}, base::StopToken()).value().outcome,
            LbfgsOutcome::kNotFiniteAtStart);
}

TEST(Lbfgs, EvaluationLimitHoldsAndTheBestPointComesBack) {
  for (int limit : {1, 2, 5, 17}) {
    int calls = 0;
    double best = std::numeric_limits<double>::infinity();
    auto f = [&](const VectorXd& x, VectorXd* g) {
      ++calls;
      const double value = Rosenbrock(x, g);
      best = std::min(best, value);
      return value;
    };
    LbfgsOptions options;
    options.max_evaluations = limit;
    const LbfgsResult r = MinimizeLbfgs(f, VectorXd::Constant(4, -1.0), VectorXd::Constant(4, -2.0),
                                        VectorXd::Constant(4, 2.0), options, base::StopToken())
                              .value();
    EXPECT_EQ(calls, limit);
    EXPECT_EQ(r.evaluations, limit);
    EXPECT_EQ(r.outcome, LbfgsOutcome::kLimit);
    EXPECT_EQ(r.value, best);
    EXPECT_EQ(r.value, Rosenbrock(r.x, nullptr));
  }
}

TEST(Lbfgs, FixedCoordinatesStayAndStartsOutsideAreProjected) {
  const VectorXd lower = (VectorXd(3) << 0.0, 0.5, 0.0).finished();
  const VectorXd upper = (VectorXd(3) << 2.0, 0.5, 2.0).finished();
  const LbfgsResult r =
      MinimizeLbfgs(Rosenbrock, VectorXd::Constant(3, 9.0), lower, upper, {}, base::StopToken()).value();
  EXPECT_EQ(r.x(1), 0.5);
  EXPECT_NEAR(r.x(2), 0.25, 1e-6);  // (x3 - x2^2)^2 is then the only term of x3.
}

TEST(Lbfgs, WrongGradientsEndWithoutAnInfiniteLoop) {
  auto uphill = [](const VectorXd& x, VectorXd* g) {
    if (g != nullptr) *g = -2.0 * x;
    return x.squaredNorm();
  };
  const LbfgsResult r = MinimizeLbfgs(uphill, VectorXd::Constant(2, 0.5), VectorXd::Constant(2, -1.0),
                                      VectorXd::Ones(2), {}, base::StopToken())
                            .value();
  EXPECT_EQ(r.outcome, LbfgsOutcome::kNoDescent);
  EXPECT_LE(r.value, 0.5);
}

TEST(Lbfgs, EmptyProblemIsSolved) {
  const LbfgsResult r = MinimizeLbfgs([](const VectorXd&, VectorXd*) { return 3.0; }, VectorXd(0), VectorXd(0),
                                      VectorXd(0), {}, base::StopToken())
                            .value();
  EXPECT_EQ(r.outcome, LbfgsOutcome::kConverged);
  EXPECT_EQ(r.value, 3.0);
}

TEST(FiniteDifference, FindsAWrongCoordinateAndPassesARightGradient) {
  const VectorXd x = (VectorXd(3) << 0.3, -1.2, 2.0).finished();
  VectorXd g(3);
  Rosenbrock(x, &g);
  auto f = [](const VectorXd& at) { return Rosenbrock(at, nullptr); };
  EXPECT_LT(CheckGradient(f, x, g).error, 1e-7);
  g(2) += 50.0;
  const GradientCheck wrong = CheckGradient(f, x, g);
  EXPECT_GT(wrong.error, 0.01);
  EXPECT_EQ(wrong.worst, 2);
  EXPECT_NE(wrong.Summary().find("coordinate 2"), std::string::npos);
  g(1) = NAN;
  EXPECT_EQ(CheckGradient(f, x, g).error, std::numeric_limits<double>::infinity());
}

TEST(FiniteDifference, JacobianOfALinearMapIsItsMatrix) {
  const MatrixXd a = (MatrixXd(2, 3) << 1, 2, 3, 4, 5, 6).finished();
  const MatrixXd j = CentralJacobian([&](const VectorXd& x) { return (a * x).eval(); }, VectorXd::Ones(3));
  EXPECT_LT((j - a).cwiseAbs().maxCoeff(), 1e-9);
}

}  // namespace
}  // namespace luthier::math
