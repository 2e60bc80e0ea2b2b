#include "lib/suggest/acquisition.h"

#include <cmath>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/kernels/stationary.h"
#include "lib/math/finite_difference.h"

namespace luthier::suggest {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// E max(f - best, 0) by Simpson's rule on [best, mean + 12 sd].
double ImprovementByQuadrature(double mean, double sd, double best) {
  const double low = best, high = std::max(best, mean) + 12.0 * sd;
  const int n = 20000;
  const double h = (high - low) / n;
  double sum = 0.0;
  for (int i = 0; i <= n; ++i) {
    const double f = low + i * h;
    const double z = (f - mean) / sd;
    const double weight = i == 0 || i == n ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
    sum += weight * (f - best) * std::exp(-0.5 * z * z) / (sd * std::sqrt(2.0 * M_PI));
  }
  return sum * h / 3.0;
}

TEST(ExpectedImprovement, EqualsItsIntegral) {
  base::RandomStream stream(1, "ei");
  for (int i = 0; i < 30; ++i) {
    const double mean = stream.Normal(), sd = 0.1 + stream.Uniform(), best = stream.Normal();
    const double expected = ImprovementByQuadrature(mean, sd, best);
    EXPECT_NEAR(ExpectedImprovement(mean, sd, best).value, expected, 1e-10);
    if (expected > 1e-6) {
      EXPECT_NEAR(LogExpectedImprovement(mean, sd, best).value, std::log(expected), 1e-8);
    }
  }
}

TEST(ExpectedImprovement, BoundsAndMonotonicity) {
  for (double mean = -3.0; mean <= 3.0; mean += 0.25) {
    for (double sd = 0.05; sd <= 2.0; sd *= 2.0) {
      const AcquisitionTerm at = ExpectedImprovement(mean, sd, 0.4);
      EXPECT_GE(at.value, std::max(0.0, mean - 0.4));
      EXPECT_GE(ExpectedImprovement(mean + 0.1, sd, 0.4).value, at.value);
      EXPECT_GE(ExpectedImprovement(mean, sd * 1.1, 0.4).value, at.value * (1.0 - 1e-15));
      EXPECT_GT(LogExpectedImprovement(mean + 0.1, sd, 0.4).value, LogExpectedImprovement(mean, sd, 0.4).value);
    }
  }
  EXPECT_NEAR(ExpectedImprovement(2.0, 1e-9, 0.5).value, 1.5, 1e-12);
  EXPECT_NEAR(ExpectedImprovement(0.2, 1e-9, 0.5).value, 0.0, 1e-12);
}

TEST(ExpectedImprovement, LogarithmLivesWhereTheValueUnderflows) {
  EXPECT_EQ(ExpectedImprovement(-100.0, 1.0, 0.0).value, 0.0);
  const AcquisitionTerm far = LogExpectedImprovement(-1e5, 1.0, 0.0);
  EXPECT_TRUE(std::isfinite(far.value));
  EXPECT_NEAR(far.by_mean, 1e5, 1.0);
  // Agreement with the plain one where both have digits.
  for (double z = -25.0; z < 3.0; z += 0.5) {
    EXPECT_NEAR(std::exp(LogExpectedImprovement(z, 0.7, 0.0).value) / ExpectedImprovement(z, 0.7, 0.0).value, 1.0,
                1e-11);
  }
}

TEST(ExpectedImprovement, TermsMatchDifferences) {
  for (double mean : {-40.0, -5.0, -0.9, 0.3, 2.0}) {
    for (double sd : {0.3, 1.0}) {
      const VectorXd at = (VectorXd(2) << mean, sd).finished();
      for (bool logarithm : {false, true}) {
        auto term = [&](const VectorXd& x) {
          return logarithm ? LogExpectedImprovement(x(0), x(1), 0.1) : ExpectedImprovement(x(0), x(1), 0.1);
        };
        const AcquisitionTerm t = term(at);
        const math::GradientCheck check =
            math::CheckGradient([&](const VectorXd& x) { return term(x).value; }, at,
                                (VectorXd(2) << t.by_mean, t.by_deviation).finished(), 1e-6);
        EXPECT_LT(check.error, 1e-6) << mean << " " << sd << " " << check.Summary();
      }
    }
  }
}

gp::Regression SomeRegression() {
  base::RandomStream stream(3, "acquisition gp");
  MatrixXd x(15, 3);
  VectorXd y(15);
  for (int i = 0; i < 15; ++i) {
    for (int j = 0; j < 3; ++j) x(i, j) = stream.Uniform();
    y(i) = std::sin(4.0 * x(i, 0)) + x(i, 1) * x(i, 2);
  }
  gp::Hyperparameters theta;
  theta.lengthscales = (VectorXd(3) << 0.4, 0.8, 1.1).finished();
  return *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 3), theta, x, y);
}

TEST(ImprovementAcquisition, GradientMatchesDifferencesAndBatchMatchesSingle) {
  const gp::Regression model = SomeRegression();
  base::RandomStream stream(4, "acquisition points");
  for (bool logarithm : {false, true}) {
    for (double best : {0.5, 1.2, 3.0}) {
      const ImprovementAcquisition acquisition(&model, best, logarithm);
      for (int trial = 0; trial < 5; ++trial) {
        const VectorXd u = (VectorXd(3) << stream.Uniform(), stream.Uniform(), stream.Uniform()).finished();
        VectorXd gradient;
        const double value = acquisition.Value(u, &gradient);
        EXPECT_NEAR(acquisition.Values(u.transpose())(0), value, 1e-7 * std::max(1.0, std::abs(value)));
        const math::GradientCheck check =
            math::CheckGradient([&](const VectorXd& x) { return acquisition.Value(x, nullptr); }, u, gradient);
        EXPECT_LT(check.error, 1e-5) << check.Summary();
      }
    }
  }
}

TEST(ImprovementAcquisition, BelievedPointLosesItsImprovement) {
  gp::Regression model = SomeRegression();
  const VectorXd u = (VectorXd(3) << 0.35, 0.9, 0.95).finished();
  const double best = 1.2;
  const double before = ImprovementAcquisition(&model, best, false).Value(u, nullptr);
  ASSERT_GT(before, 1e-6);
  ASSERT_TRUE(model.Append(u, model.PredictMean(u.transpose())(0)));
  EXPECT_LT(
      ImprovementAcquisition(&model, std::max(best, model.PredictMean(u.transpose())(0)), false).Value(u, nullptr),
      0.05 * before);
}

}  // namespace
}  // namespace luthier::suggest
