#include "lib/gp/regression.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "lib/gp/likelihood.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

Hyperparameters Theta(Index groups, double lengthscale, double noise) {
  Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(groups, lengthscale);
  theta.signal_variance = 1.4;
  theta.noise_variance = noise;
  theta.mean = 0.3;
  return theta;
}

TEST(Regression, MatchesTheDenseFormulas) {
  base::RandomStream stream(1, "regression");
  const MatrixXd x = RandomPoints(stream, 40, 3), star = RandomPoints(stream, 300, 3);
  const VectorXd y = RandomNormals(stream, 40);
  const Hyperparameters theta = Theta(3, 0.5, 0.01);
  const Regression gp = *Regression::Fit(Shape(3), theta, x, y, {}, base::StopToken()).value();
  MatrixXd both(340, 3);
  both << x, star;
  const MatrixXd k = kernels::StationaryKernel(Shape(3), theta.lengthscales, theta.signal_variance).Gram(both);
  const MatrixXd c_inverse = DenseCovariance(Shape(3), theta, x).inverse();
  const MatrixXd ks = k.topRightCorner(40, 300);
  const VectorXd mean = (ks.transpose() * (c_inverse * (y.array() - theta.mean).matrix())).array() + theta.mean;
  const MatrixXd covariance = k.bottomRightCorner(300, 300) - ks.transpose() * c_inverse * ks;
  const Posterior p = gp.Predict(star);
  EXPECT_LT((p.mean - mean).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_LT((p.variance - covariance.diagonal()).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_LT((gp.PredictMean(star) - mean).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_LT((gp.JointCovariance(star, base::StopToken()).value() - covariance).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_EQ(gp.jitter(), 0.0);
}

TEST(Regression, InterpolatesWithoutNoise) {
  MatrixXd x(25, 2);
  for (Index i = 0; i < 25; ++i) x.row(i) << static_cast<double>(i % 5) / 4.0, static_cast<double>(i / 5) / 4.0;
  base::RandomStream stream(2, "regression");
  const VectorXd y = RandomNormals(stream, 25);
  const Posterior p = Regression::Fit(Shape(2), Theta(2, 0.4, 0.0), x, y, {}, base::StopToken()).value()->Predict(x);
  EXPECT_LT((p.mean - y).cwiseAbs().maxCoeff(), 1e-6);
  EXPECT_LT(p.variance.maxCoeff(), 1e-8);
  EXPECT_GT(p.variance.minCoeff(), 0.0);
}

TEST(Regression, OneObservationHasItsClosedForm) {
  const Hyperparameters theta = Theta(1, 0.5, 0.1);
  const MatrixXd x = MatrixXd::Constant(1, 1, 0.2), star = MatrixXd::Constant(1, 1, 0.7);
  const Posterior p =
      Regression::Fit(Shape(1), theta, x, VectorXd::Constant(1, 2.0), {}, base::StopToken()).value()->Predict(star);
  const double s5 = std::sqrt(5.0);  // r = 1.
  const double k = 1.4 * (1.0 + s5 + 5.0 / 3.0) * std::exp(-s5);
  EXPECT_NEAR(p.mean(0), 0.3 + k / 1.5 * 1.7, 1e-14);
  EXPECT_NEAR(p.variance(0), 1.4 - k * k / 1.5, 1e-14);
}

TEST(Regression, NoObservationsGiveThePrior) {
  const Regression gp =
      *Regression::Fit(Shape(2), Theta(2, 0.5, 0.0), MatrixXd(0, 2), VectorXd(0), {}, base::StopToken()).value();
  const PointPosterior p = gp.PredictWithGradient(VectorXd::Constant(2, 0.4));
  EXPECT_EQ(p.mean, 0.3);
  EXPECT_EQ(p.variance, 1.4);
  EXPECT_EQ(p.mean_gradient, VectorXd::Zero(2));
  EXPECT_EQ(gp.Predict(MatrixXd::Constant(1, 2, 0.4)).variance(0), 1.4);
}

TEST(Regression, GradientsMatchDifferences) {
  base::RandomStream stream(3, "regression");
  const MatrixXd x = RandomPoints(stream, 30, 4);
  const VectorXd y = RandomNormals(stream, 30);
  for (const kernels::KernelShape& shape : EveryShape({0, 1, 1, 2})) {
    Hyperparameters theta = Theta(3, 0.6, 1e-4);
    theta.shape_parameter = 0.7;
    theta.lengthscales << 0.4, 0.9, 1.6;
    const Regression gp = *Regression::Fit(shape, theta, x, y, {}, base::StopToken()).value();
    for (int trial = 0; trial < 5; ++trial) {
      const VectorXd at = RandomPoints(stream, 4, 1).col(0);
      const PointPosterior p = gp.PredictWithGradient(at);
      const Posterior batch = gp.Predict(at.transpose());
      EXPECT_NEAR(p.mean, batch.mean(0), 1e-12);
      EXPECT_NEAR(p.variance, batch.variance(0), 1e-12);
      auto mean = [&](const VectorXd& u) { return gp.Predict(u.transpose()).mean(0); };
      auto variance = [&](const VectorXd& u) { return gp.Predict(u.transpose()).variance(0); };
      EXPECT_LT(math::CheckGradient(mean, at, p.mean_gradient).error, 1e-6);
      EXPECT_LT(math::CheckGradient(variance, at, p.variance_gradient).error, 1e-6);
    }
  }
}

TEST(Regression, AppendAndPopEqualAFreshFit) {
  base::RandomStream stream(4, "regression");
  const Index total = 90;
  const MatrixXd x = RandomPoints(stream, total, 3), star = RandomPoints(stream, 50, 3);
  const VectorXd y = RandomNormals(stream, total);
  const Hyperparameters theta = Theta(3, 0.5, 1e-3);
  Regression gp = *Regression::Fit(Shape(3), theta, x.topRows(5), y.head(5), {}, base::StopToken()).value();
  for (int step = 0; step < 200; ++step) {
    const Index n = gp.size();
    if (n == total || (n > 5 && stream.Uniform() < 0.3)) {
      gp.PopBack(static_cast<int>(std::min<Index>(n - 5, 1 + static_cast<Index>(stream.UniformInt(4)))));
    } else {
      ASSERT_TRUE(gp.Append(x.row(n).transpose(), y(n), base::StopToken()).value());
    }
    if (step % 20 != 19) continue;
    const Posterior grown = gp.Predict(star);
    const Posterior fresh =
        Regression::Fit(Shape(3), theta, x.topRows(gp.size()), y.head(gp.size()), {}, base::StopToken())
            .value()
            ->Predict(star);
    EXPECT_LT((grown.mean - fresh.mean).cwiseAbs().maxCoeff(), 1e-10);
    EXPECT_LT((grown.variance - fresh.variance).cwiseAbs().maxCoeff(), 1e-10);
  }
}

TEST(Regression, ObservationsNeverRaiseTheVariance) {
  base::RandomStream stream(5, "regression");
  const MatrixXd x = RandomPoints(stream, 40, 2), star = RandomPoints(stream, 100, 2);
  Regression gp =
      *Regression::Fit(Shape(2), Theta(2, 0.3, 1e-6), MatrixXd(0, 2), VectorXd(0), {}, base::StopToken()).value();
  VectorXd before = gp.Predict(star).variance;
  for (Index i = 0; i < x.rows(); ++i) {
    ASSERT_TRUE(gp.Append(x.row(i).transpose(), stream.Normal(), base::StopToken()).value());
    const VectorXd after = gp.Predict(star).variance;
    EXPECT_LE((after - before).maxCoeff(), 1e-10);
    before = after;
  }
}

TEST(Regression, BelievedObservationsLeaveTheMeanAndShrinkTheVariance) {
  base::RandomStream stream(6, "regression");
  const MatrixXd x = RandomPoints(stream, 20, 2), star = RandomPoints(stream, 50, 2);
  Regression gp =
      *Regression::Fit(Shape(2), Theta(2, 0.4, 1e-6), x, RandomNormals(stream, 20), {}, base::StopToken()).value();
  const Posterior before = gp.Predict(star);
  const VectorXd pending = VectorXd::Constant(2, 0.37);
  ASSERT_TRUE(gp.Append(pending, gp.PredictMean(pending.transpose())(0), base::StopToken()).value());
  const Posterior after = gp.Predict(star);
  EXPECT_LT((after.mean - before.mean).cwiseAbs().maxCoeff(), 1e-9);
  EXPECT_LT(gp.Predict(pending.transpose()).variance(0), 1e-5);
  gp.PopBack(1);
  EXPECT_LT((gp.Predict(star).variance - before.variance).cwiseAbs().maxCoeff(), 1e-12);
}

TEST(Regression, TwentyDuplicatesSucceedEvenWithoutNoise) {
  for (double noise : {1e-6, 0.0}) {
    MatrixXd x = MatrixXd::Constant(22, 2, 0.5);
    x.row(20) << 0.1, 0.2;
    x.row(21) << 0.9, 0.3;
    const std::optional<Regression> gp =
        Regression::Fit(Shape(2), Theta(2, 0.4, noise), x, VectorXd::LinSpaced(22, 0, 1), {}, base::StopToken())
            .value();
    ASSERT_TRUE(gp.has_value());
    EXPECT_TRUE(gp->Predict(x).mean.allFinite());
  }
}

TEST(Regression, AppendedDuplicatesWithoutNoiseFallBackOnJitter) {
  Regression gp = *Regression::Fit(Shape(1), Theta(1, 0.4, 0.0), MatrixXd::Constant(1, 1, 0.5), VectorXd::Ones(1), {},
                                   base::StopToken())
                       .value();
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(gp.Append(VectorXd::Constant(1, 0.5), 1.0, base::StopToken()).value());
  EXPECT_GT(gp.jitter(), 0.0);
  EXPECT_NEAR(gp.Predict(MatrixXd::Constant(1, 1, 0.5)).mean(0), 1.0, 1e-6);
}

TEST(Regression, FittedMeanIsTheLikelihoodsOwn) {
  base::RandomStream stream(7, "regression");
  const MatrixXd x = RandomPoints(stream, 20, 2);
  const VectorXd y = RandomNormals(stream, 20).array() + 0.8;
  Hyperparameters theta = Theta(2, 0.4, 1e-3);
  Regression gp = *Regression::Fit(Shape(2), theta, x, y, {}, base::StopToken()).value();
  gp.FitMean();
  Likelihood(Shape(2), x, y).MarginalOverMean(&theta, nullptr, base::StopToken()).value();
  EXPECT_NEAR(gp.hyperparameters().mean, theta.mean, 1e-12);
  const MatrixXd star = RandomPoints(stream, 10, 2);
  EXPECT_LT(
      (gp.PredictMean(star) - Regression::Fit(Shape(2), theta, x, y, {}, base::StopToken()).value()->PredictMean(star))
          .cwiseAbs()
          .maxCoeff(),
      1e-10);
}

TEST(Regression, NonFiniteInputsAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  MatrixXd x = MatrixXd::Constant(2, 1, 0.5);
  x(1, 0) = 0.1;
  EXPECT_FALSE(
      Regression::Fit(Shape(1), Theta(1, 0.4, 0.0), x, (VectorXd(2) << 1.0, nan).finished(), {}, base::StopToken())
          .value()
          .has_value());
  EXPECT_FALSE(
      Regression::Fit(Shape(1), Theta(1, nan, 0.0), x, VectorXd::Ones(2), {}, base::StopToken()).value().has_value());
  Regression gp = *Regression::Fit(Shape(1), Theta(1, 0.4, 0.0), x, VectorXd::Ones(2), {}, base::StopToken()).value();
  EXPECT_FALSE(gp.Append(VectorXd::Constant(1, nan), 1.0, base::StopToken()).value());
  EXPECT_FALSE(gp.Append(VectorXd::Constant(1, 0.3), INFINITY, base::StopToken()).value());
  EXPECT_EQ(gp.size(), 2);
  x(0, 0) = nan;
  EXPECT_FALSE(
      Regression::Fit(Shape(1), Theta(1, 0.4, 0.0), x, VectorXd::Ones(2), {}, base::StopToken()).value().has_value());
}

}  // namespace
}  // namespace luthier::gp
