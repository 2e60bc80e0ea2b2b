#include "lib/search/bo/acquisition/acquisition.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/kernels/stationary.h"
#include "lib/math/finite_difference.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

TEST(ProbabilityOfImprovement, EqualsItsIntegral) {
  base::RandomStream stream(2, "pi");
  for (int i = 0; i < 30; ++i) {
    const double mean = stream.Normal(), sd = 0.1 + stream.Uniform(), best = stream.Normal();
    const double low = best, high = std::max(best, mean) + 12.0 * sd;
    const int n = 20000;
    const double h = (high - low) / n;
    double sum = 0.0;
    for (int k = 0; k <= n; ++k) {
      const double z = (low + k * h - mean) / sd;
      sum += (k == 0 || k == n ? 1.0 : k % 2 == 1 ? 4.0 : 2.0) * std::exp(-0.5 * z * z) / (sd * std::sqrt(2.0 * M_PI));
    }
    const double expected = sum * h / 3.0;
    EXPECT_NEAR(ProbabilityOfImprovement(mean, sd, best).value, expected, 1e-10);
    if (expected > 1e-6) {
      EXPECT_NEAR(LogProbabilityOfImprovement(mean, sd, best).value, std::log(expected), 1e-8);
    }
  }
}

TEST(ProbabilityOfImprovement, ItsLogarithmLivesFarOut) {
  EXPECT_EQ(ProbabilityOfImprovement(-100.0, 1.0, 0.0).value, 0.0);
  const AcquisitionTerm far = LogProbabilityOfImprovement(-1e5, 1.0, 0.0);
  EXPECT_NEAR(far.value / -5e9, 1.0, 1e-8);
  EXPECT_NEAR(far.by_mean, 1e5, 1e-3);
  const AcquisitionTerm sure = LogProbabilityOfImprovement(100.0, 1.0, 0.0);
  EXPECT_EQ(sure.value, 0.0);
  EXPECT_EQ(sure.by_mean, 0.0);
  EXPECT_EQ(sure.by_deviation, 0.0);
  // The limits of no deviation.
  EXPECT_EQ(ProbabilityOfImprovement(0.5, 1e-300, 0.2).value, 1.0);
  EXPECT_EQ(ProbabilityOfImprovement(0.1, 1e-300, 0.2).value, 0.0);
  EXPECT_TRUE(std::isfinite(ProbabilityOfImprovement(0.1, 1e-300, 0.2).by_deviation));
}

TEST(AcquisitionTerms, MatchDifferences) {
  for (const AcquisitionKind kind :
       {AcquisitionKind::kExpectedImprovement, AcquisitionKind::kLogExpectedImprovement,
        AcquisitionKind::kProbabilityOfImprovement, AcquisitionKind::kLogProbabilityOfImprovement,
        AcquisitionKind::kUpperConfidenceBound}) {
    const AcquisitionSettings settings{.kind = kind, .margin = 0.05, .root_beta = 2.3};
    for (double mean : {-40.0, -5.0, -0.9, 0.3, 2.0}) {
      for (double sd : {0.3, 1.0}) {
        const AcquisitionTerm t = EvaluateTerm(settings, mean, sd, 0.1);
        const math::GradientCheck check = math::CheckGradient(
            [&](const VectorXd& x) { return EvaluateTerm(settings, x(0), x(1), 0.1).value; },
            (VectorXd(2) << mean, sd).finished(), (VectorXd(2) << t.by_mean, t.by_deviation).finished(), 1e-6);
        EXPECT_LT(check.error, 1e-6) << static_cast<int>(kind) << " " << mean << " " << sd << " " << check.Summary();
      }
    }
  }
}

TEST(UpperConfidenceBound, WeightsFollowTheirSources) {
  // The values the sources' formulas give at d = 2, t = 50.
  EXPECT_NEAR(RootBeta(BetaRule::kKandasamy15, 2, 50), 1.3572, 1e-4);
  EXPECT_NEAR(RootBeta(BetaRule::kDragonfly, 2, 50), 2.3028, 1e-4);
  EXPECT_NEAR(RootBeta(BetaRule::kK17Code, 2, 50), 7.2824, 1e-4);
  EXPECT_EQ(RootBeta(BetaRule::kConstant, 2, 50, 1e16), 1e8);
  for (const BetaRule rule : {BetaRule::kKandasamy15, BetaRule::kDragonfly, BetaRule::kK17Code}) {
    EXPECT_GT(RootBeta(rule, 3, 2), RootBeta(rule, 3, 1));
    EXPECT_TRUE(std::isfinite(RootBeta(rule, 500, 1'000'000'000)));
  }
}

TEST(UpperConfidenceBound, AHugeWeightKeepsTheMeanInComparisons) {
  const double root_beta = 1e8;
  const double a = UpperConfidenceBound(1.0 + 1e-9, 0.7, root_beta).value;
  const double b = UpperConfidenceBound(1.0, 0.7, root_beta).value;
  EXPECT_EQ(a, b);  // No digits left in the sums,
  EXPECT_NEAR(UpperConfidenceAdvantage(1.0 + 1e-9, 0.7, 1.0, 0.7, root_beta), 1e-9, 1e-15);
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
  return *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 3), theta, x, y, {}, base::StopToken())
              .value();
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

std::vector<gp::Regression> SomeStates() {
  std::vector<gp::Regression> states;
  base::RandomStream stream(3, "acquisition gp");
  MatrixXd x(15, 3);
  VectorXd y(15);
  for (int i = 0; i < 15; ++i) {
    for (int j = 0; j < 3; ++j) x(i, j) = stream.Uniform();
    y(i) = std::sin(4.0 * x(i, 0)) + x(i, 1) * x(i, 2);
  }
  for (int s = 0; s < 4; ++s) {
    gp::Hyperparameters theta;
    theta.lengthscales = (VectorXd(3) << 0.3 + 0.1 * s, 0.8, 1.5 - 0.2 * s).finished();
    theta.signal_variance = 0.5 + 0.3 * s;
    theta.mean = 0.1 * s;
    states.push_back(
        *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 3), theta, x, y, {}, base::StopToken())
             .value());
  }
  return states;
}

const AcquisitionKind kKinds[] = {AcquisitionKind::kExpectedImprovement, AcquisitionKind::kLogExpectedImprovement,
                                  AcquisitionKind::kProbabilityOfImprovement,
                                  AcquisitionKind::kLogProbabilityOfImprovement,
                                  AcquisitionKind::kUpperConfidenceBound};

TEST(ModelAcquisition, AveragesOverStates) {
  const std::vector<gp::Regression> models = SomeStates();
  std::vector<ModelState> states;
  for (size_t s = 0; s < models.size(); ++s) states.push_back({&models[s], 0.9 + 0.05 * static_cast<double>(s)});
  base::RandomStream stream(5, "states");
  for (const AcquisitionKind kind : kKinds) {
    const AcquisitionSettings settings{.kind = kind, .margin = 0.01, .root_beta = 1.7};
    const ModelAcquisition acquisition(states, settings);
    for (int trial = 0; trial < 5; ++trial) {
      const VectorXd u = (VectorXd(3) << stream.Uniform(), stream.Uniform(), stream.Uniform()).finished();
      double sum = 0.0;
      for (const ModelState& state : states) {
        const gp::Posterior p = state.regression->Predict(u.transpose());
        const double value = EvaluateTerm(settings, p.mean(0), std::sqrt(p.variance(0)), state.best).value;
        sum += IsLogarithm(kind) ? std::exp(value) : value;
      }
      const double expected = IsLogarithm(kind) ? std::log(sum / 4.0) : sum / 4.0;
      EXPECT_NEAR(acquisition.Values(u.transpose())(0), expected, 1e-12 * std::max(1.0, std::abs(expected)));
      VectorXd gradient;
      EXPECT_NEAR(acquisition.Value(u, &gradient), expected, 1e-7 * std::max(1.0, std::abs(expected)));
      const math::GradientCheck check =
          math::CheckGradient([&](const VectorXd& x) { return acquisition.Value(x, nullptr); }, u, gradient);
      EXPECT_LT(check.error, 1e-5) << static_cast<int>(kind) << " " << check.Summary();
    }
  }
}

TEST(ModelAcquisition, TheAverageOverOneStateIsThatStateBitForBit) {
  const std::vector<gp::Regression> models = SomeStates();
  base::RandomStream stream(6, "one state");
  for (const AcquisitionKind kind : kKinds) {
    const AcquisitionSettings settings{.kind = kind, .margin = 0.01, .root_beta = 1.7};
    const ModelAcquisition acquisition({{&models[1], 1.0}}, settings);
    const VectorXd u = (VectorXd(3) << stream.Uniform(), stream.Uniform(), stream.Uniform()).finished();
    const gp::Posterior p = models[1].Predict(u.transpose());
    EXPECT_EQ(acquisition.Values(u.transpose())(0),
              EvaluateTerm(settings, p.mean(0), std::sqrt(p.variance(0)), 1.0).value);
  }
}

TEST(ModelAcquisition, AStateWithoutHopeDoesNotSpoilTheLogarithm) {
  VectorXd gradient;
  const double value = AverageStates((VectorXd(2) << -kInfinity, -2.0).finished(),
                                     (MatrixXd(1, 2) << kInfinity, 3.0).finished(), /*logarithm=*/true, &gradient);
  EXPECT_NEAR(value, -2.0 - std::log(2.0), 1e-15);
  EXPECT_EQ(gradient(0), 3.0);
  EXPECT_EQ(AverageStates(MatrixXd::Constant(1, 3, -kInfinity), true)(0), -kInfinity);
  EXPECT_TRUE(std::isnan(AverageStates((MatrixXd(1, 2) << 1.0, NAN).finished(), true)(0)));
  EXPECT_TRUE(std::isnan(AverageStates((MatrixXd(1, 2) << 1.0, NAN).finished(), false)(0)));
}

TEST(ModelAcquisition, BestRowIsTheLargestEvenUnderAHugeWeight) {
  const std::vector<gp::Regression> models = SomeStates();
  base::RandomStream stream(8, "rows");
  MatrixXd u(40, 3);
  for (double& x : u.reshaped()) x = stream.Uniform();
  for (const AcquisitionKind kind : kKinds) {
    const ModelAcquisition acquisition({{&models[0], 1.0}, {&models[2], 1.0}}, {.kind = kind, .root_beta = 1.7});
    Eigen::Index expected = 0;
    acquisition.Values(u).maxCoeff(&expected);
    EXPECT_EQ(acquisition.BestRow(u), expected);
  }
  // Far from all data the deviation is the prior's everywhere: only the order of means is left to decide.
  gp::Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(1, 1e-3);
  const gp::Regression flat =
      *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kSquaredExponential, 1), theta,
                           (VectorXd(1) << 0.0).finished(), (VectorXd(1) << 1.0).finished(), {}, base::StopToken())
           .value();
  const ModelAcquisition exploring({{&flat, 0.0}}, {.kind = AcquisitionKind::kUpperConfidenceBound, .root_beta = 1e8});
  // The means there are e^-50, e^-40.5, e^-60.5 and 0; variances are 1 up to e^-81.
  EXPECT_EQ(exploring.BestRow((VectorXd(4) << 0.010, 0.009, 0.011, 0.9).finished()), 1);
}

TEST(ImprovementAcquisition, BelievedPointLosesItsImprovement) {
  gp::Regression model = SomeRegression();
  const VectorXd u = (VectorXd(3) << 0.35, 0.9, 0.95).finished();
  const double best = 1.2;
  const double before = ImprovementAcquisition(&model, best, false).Value(u, nullptr);
  ASSERT_GT(before, 1e-6);
  ASSERT_TRUE(model.Append(u, model.PredictMean(u.transpose())(0), base::StopToken()).value());
  EXPECT_LT(
      ImprovementAcquisition(&model, std::max(best, model.PredictMean(u.transpose())(0)), false).Value(u, nullptr),
      0.05 * before);
}

}  // namespace
}  // namespace luthier::search
