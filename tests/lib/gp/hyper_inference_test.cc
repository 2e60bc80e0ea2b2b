#include "lib/gp/hyper_inference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

Likelihood SmoothData(uint64_t seed, Index n, int d) {
  base::RandomStream stream(seed, "hyper data");
  const MatrixXd x = RandomPoints(stream, n, d);
  VectorXd y = (3.0 * x.col(0).array()).sin();
  for (int j = 1; j < d; ++j) y.array() += x.col(j).array().square() / (1.0 + j);
  y.array() -= y.mean();
  y /= std::sqrt(y.squaredNorm() / static_cast<double>(n));
  return Likelihood(Shape(d), x, y);
}

TEST(HyperPosterior, GradientMatchesDifferencesInEveryMode) {
  Likelihood likelihood = SmoothData(1, 20, 3);
  for (PriorKind prior : {PriorKind::kDimensionScaled, PriorKind::kThesis}) {
    for (bool noisy : {false, true}) {
      InferenceOptions options;
      options.prior = prior;
      options.fit_noise = noisy;
      options.fixed_noise = 1e-2;
      const HyperPosterior posterior(&likelihood, options);
      EXPECT_EQ(posterior.dimension(), 4 + noisy);
      VectorXd phi = VectorXd::Constant(posterior.dimension(), -0.4);
      if (noisy) phi(4) = std::log(0.02);
      ExpectGradient(posterior, phi);
    }
  }
}

TEST(HyperPosterior, ModeOfThePriorIsItsMaximum) {
  Likelihood likelihood(Shape(4), MatrixXd(0, 4), VectorXd(0));
  InferenceOptions options;
  options.fit_noise = true;
  const HyperPosterior posterior(&likelihood, options);
  VectorXd gradient;
  const VectorXd mode = posterior.Mode();
  posterior.LogPrior(mode, &gradient);
  EXPECT_LT(gradient.cwiseAbs().maxCoeff(), 1e-12);
  options.fit_noise = false;
  EXPECT_NEAR(std::exp(HyperPosterior(&likelihood, options).Mode()(0)), std::exp(std::sqrt(2.0) - 3.0) * 2.0, 1e-12);
}

TEST(HyperPosterior, DrawsFollowTheLogNormalPrior) {
  Likelihood likelihood(Shape(2), MatrixXd(0, 2), VectorXd(0));
  InferenceOptions options;
  options.min_lengthscale = 1e-30;
  options.max_lengthscale = 1e30;
  const HyperPosterior posterior(&likelihood, options);
  base::RandomStream stream(5, "draws");
  const int count = 4000;
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < count; ++i) {
    const double z = posterior.Draw(stream)(1) - (std::sqrt(2.0) + 0.5 * std::log(2.0));
    sum += z / count;
    squares += z * z / count;
  }
  EXPECT_NEAR(sum, 0.0, 5.0 * std::sqrt(3.0 / count));
  EXPECT_NEAR(squares, 3.0, 5.0 * 3.0 * std::sqrt(2.0 / count));
}

TEST(MaximizePosterior, FindsAStationaryPointAtLeastAsGoodAsAWideGrid) {
  Likelihood likelihood = SmoothData(2, 30, 1);
  const InferenceOptions options;
  const InferenceResult result =
      MaximizePosterior(&likelihood, options, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
  const HyperPosterior posterior(&likelihood, options);
  VectorXd gradient;
  const VectorXd phi = posterior.Pack(result.theta);
  EXPECT_NEAR(posterior.Value(phi, &gradient, nullptr, base::StopToken()).value(), result.log_posterior, 1e-9);
  EXPECT_LT(gradient.cwiseAbs().maxCoeff(), 0.05);
  for (double a = -3.5; a <= 4.5; a += 0.1) {
    for (double b = -3.0; b <= 5.0; b += 0.1) {
      EXPECT_LE(posterior.Value((VectorXd(2) << a, b).finished(), nullptr, nullptr, base::StopToken()).value(),
                result.log_posterior + 1e-3);
    }
  }
}

TEST(MaximizePosterior, RecoversLengthscales) {
  Hyperparameters truth;
  truth.lengthscales = (VectorXd(2) << 0.2, 2.0).finished();
  truth.noise_variance = 1e-3;
  int ordered = 0;
  std::vector<double> ratios[2];
  for (uint64_t seed = 0; seed < 10; ++seed) {
    base::RandomStream stream(seed, "recovery");
    const MatrixXd x = RandomPoints(stream, 80, 2);
    Likelihood likelihood(Shape(2), x, DrawOutputs(stream, Shape(2), truth, x));
    InferenceOptions options;
    options.fit_noise = true;
    const InferenceResult result =
        MaximizePosterior(&likelihood, options, std::nullopt, stream, base::StopToken()).value();
    ordered += result.theta.lengthscales(0) < result.theta.lengthscales(1);
    for (Index j = 0; j < 2; ++j) ratios[j].push_back(std::log(result.theta.lengthscales(j) / truth.lengthscales(j)));
  }
  EXPECT_GE(ordered, 9);
  for (std::vector<double>& r : ratios) {
    std::sort(r.begin(), r.end());
    EXPECT_NEAR(0.5 * (r[4] + r[5]), 0.0, 0.7);
  }
}

TEST(MaximizePosterior, CarriedStateSavesWorkAndNeverHurts) {
  Likelihood likelihood = SmoothData(3, 60, 3);
  InferenceOptions options;
  const InferenceResult cold =
      MaximizePosterior(&likelihood, options, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
  options.random_starts = 0;
  options.max_searches = 1;
  const InferenceResult warm =
      MaximizePosterior(&likelihood, options, cold.theta, base::RandomStream(1, "map"), base::StopToken()).value();
  EXPECT_GE(warm.log_posterior, cold.log_posterior - 1e-6);
  EXPECT_LT(warm.evaluations, cold.evaluations / 2);
}

TEST(MaximizePosterior, ManyRowsTakeBoundedWork) {
  Likelihood likelihood = SmoothData(5, 300, 2);
  InferenceOptions options;
  const InferenceResult thorough =
      MaximizePosterior(&likelihood, options, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
  options.max_work = 1.0;
  // Three likelihoods of all rows for a carried state; one for what a search on a part has found.
  const InferenceResult carried =
      MaximizePosterior(&likelihood, options, thorough.theta, base::RandomStream(1, "map"), base::StopToken()).value();
  EXPECT_LE(carried.evaluations, 3);
  EXPECT_GE(carried.log_posterior, thorough.log_posterior - 1e-9);
  options.max_work = 60.0 * 256.0 * 256.0 * 256.0;
  const InferenceResult part =
      MaximizePosterior(&likelihood, options, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
  Hyperparameters theta = part.theta;
  const HyperPosterior posterior(&likelihood, options);
  EXPECT_NEAR(part.log_posterior, posterior.Value(posterior.Pack(theta), nullptr, &theta, base::StopToken()).value(),
              1e-9);
  EXPECT_EQ(theta.mean, part.theta.mean);
  EXPECT_LT((part.theta.lengthscales.array() / thorough.theta.lengthscales.array()).log().abs().maxCoeff(), 0.3);
}

TEST(MaximizePosterior, DegenerateDataStayInsideTheBounds) {
  for (Index n : {0, 1, 2, 3, 8}) {
    for (bool noisy : {false, true}) {
      // All equal, all at one place: nothing to learn from.
      Likelihood likelihood(Shape(2), MatrixXd::Constant(n, 2, 0.5), VectorXd::Zero(n));
      InferenceOptions options;
      options.fit_noise = noisy;
      const InferenceResult r =
          MaximizePosterior(&likelihood, options, std::nullopt, base::RandomStream(1, "map"), base::StopToken())
              .value();
      EXPECT_TRUE(std::isfinite(r.log_posterior));
      EXPECT_GE(r.theta.lengthscales.minCoeff(), 0.025 * 0.999999);
      EXPECT_LE(r.theta.lengthscales.maxCoeff(), 100.0 * 1.000001);
      EXPECT_GE(r.theta.noise_variance, noisy ? 1e-4 * 0.999999 : 1e-6);
      EXPECT_EQ(r.theta.mean, 0.0);
    }
  }
}

}  // namespace
}  // namespace luthier::gp
