#include <cmath>
#include <limits>

#include "Eigen/QR"
#include "gtest/gtest.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/likelihood.h"
#include "lib/gp/regression.h"
#include "lib/gp/slopes.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/gp/gp_testing.h"
#include "tests/lib/gp/slopes_testing.h"

namespace luthier::gp {
namespace {

TEST(SlopeRegression, EndsOfAParabolaTellTheMiddle) {
  // f = (x - 0.3)^2, value and slope at 0 and 1, prior mean 0, variance 1.
  const MatrixXd x = (MatrixXd(2, 1) << 0.0, 1.0).finished();
  const VectorXd y = (VectorXd(2) << 0.09, 0.49).finished();
  Slopes slopes;
  slopes.AddGradient(0, VectorXd::Constant(1, -0.6));
  slopes.AddGradient(1, VectorXd::Constant(1, 1.4));
  const MatrixXd star = VectorXd::LinSpaced(201, 0.0, 1.0);
  const VectorXd truth = (star.col(0).array() - 0.3).square();
  auto error = [&](Family family, double lengthscale) {
    Hyperparameters theta;
    theta.lengthscales = VectorXd::Constant(1, lengthscale);
    theta.noise_variance = theta.slope_noise_variance = 1e-12;
    return (Regression::Fit(Shape(1, family), theta, x, y, slopes, base::StopToken()).value()->PredictMean(star) -
            truth)
        .cwiseAbs()
        .maxCoeff();
  };
  EXPECT_LE(error(Family::kSquaredExponential, 2.0), 0.009);
  EXPECT_LE(error(Family::kSquaredExponential, 1.0), 0.035);
  for (double lengthscale : {0.5, 1.0, 2.0}) EXPECT_LE(error(Family::kMatern52, lengthscale), 0.06);
}

TEST(SlopeRegression, LinearFunctionHasItsSlopeEverywhere) {
  Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(2, 30.0);
  theta.signal_variance = 1e3;
  theta.noise_variance = theta.slope_noise_variance = 1e-9;
  const MatrixXd x = (MatrixXd(2, 2) << 0.2, 0.3, 0.8, 0.6).finished();
  const VectorXd slope = (VectorXd(2) << 1.5, -0.7).finished();
  Slopes slopes;
  for (Index i = 0; i < 2; ++i) slopes.AddGradient(i, slope);
  const Regression gp = *Regression::Fit(Shape(2), theta, x, x * slope, slopes, base::StopToken()).value();
  base::RandomStream stream(1, "slopes");
  for (int trial = 0; trial < 20; ++trial) {
    const VectorXd at = RandomPoints(stream, 2, 1).col(0);
    EXPECT_LT((gp.PredictWithGradient(at).mean_gradient - slope).cwiseAbs().maxCoeff(), 3e-3);
    EXPECT_NEAR(gp.PredictWithGradient(at).mean, at.dot(slope), 1e-3);
  }
}

TEST(SlopeRegression, MatchesTheDenseFormulasForEveryShape) {
  base::RandomStream stream(2, "slopes");
  const MatrixXd x = RandomPoints(stream, 9, 4), star = RandomPoints(stream, 270, 4);
  const Slopes slopes = MixedSlopes(stream, x);
  const VectorXd y = SmoothValues(x);
  for (const kernels::KernelShape& shape : ShapesWithSlopes({0, 1, 1, 2})) {
    Hyperparameters theta = Theta(3, 0.6, 1e-3, 1e-2);
    theta.lengthscales << 0.5, 0.8, 1.3;
    theta.shape_parameter = 0.8;
    const Regression gp = *Regression::Fit(shape, theta, x, y, slopes, base::StopToken()).value();
    // Every covariance as a difference of the kernel's would lose digits: the joint matrix of data and stars instead.
    const Index n = 9, m = slopes.size(), q = star.rows();
    const kernels::StationaryKernel kernel = KernelOf(shape, theta);
    kernels::ObservedRows all;
    MatrixXd points(n + q, 4);
    points << x, star;
    all.points = kernel.Scale(points);
    all.directions = kernel.Scale(slopes.directions);
    for (Index i = 0; i < n; ++i) all.rows.push_back({i, -1});
    for (Index i = 0; i < m; ++i) all.rows.push_back({slopes.points[static_cast<size_t>(i)], i});
    for (Index i = 0; i < q; ++i) all.rows.push_back({n + i, -1});
    MatrixXd joint;
    ASSERT_TRUE(kernels::DerivativeKernel(kernel).GramLower(all, &joint, base::StopToken()).ok());
    joint = MatrixXd(joint.selfadjointView<Eigen::Lower>());
    MatrixXd c = joint.topLeftCorner(n + m, n + m);
    c.diagonal().head(n).array() += theta.noise_variance;
    c.diagonal().tail(m).array() += theta.slope_noise_variance + slopes.extra_variances.array();
    VectorXd residual(n + m);
    residual << (y.array() - theta.mean).matrix(), slopes.values;
    const MatrixXd ks = joint.topRightCorner(n + m, q), inverse = c.inverse();
    const VectorXd mean = (ks.transpose() * (inverse * residual)).array() + theta.mean;
    const MatrixXd covariance = joint.bottomRightCorner(q, q) - ks.transpose() * inverse * ks;
    const Posterior p = gp.Predict(star);
    EXPECT_LT((p.mean - mean).cwiseAbs().maxCoeff(), 1e-10) << kernels::ShapeName(shape);
    EXPECT_LT((p.variance - covariance.diagonal()).cwiseAbs().maxCoeff(), 1e-10);
    EXPECT_LT((gp.JointCovariance(star, base::StopToken()).value() - covariance).cwiseAbs().maxCoeff(), 1e-10);
    EXPECT_EQ(gp.rows(), n + m);
    EXPECT_EQ(gp.size(), n);

    // ln p by the textbook.
    const double expected = -0.5 * residual.dot(inverse * residual) - 0.5 * std::log(c.determinant()) -
                            0.5 * static_cast<double>(n + m) * std::log(2.0 * M_PI);
    EXPECT_NEAR(Likelihood(shape, x, y, slopes).Marginal(theta, nullptr, base::StopToken()).value(), expected, 1e-8);
  }
}

TEST(SlopeRegression, GradientsMatchDifferencesForEveryShape) {
  base::RandomStream stream(3, "slopes");
  const MatrixXd x = RandomPoints(stream, 12, 4);
  const Slopes slopes = MixedSlopes(stream, x);
  for (const kernels::KernelShape& shape : ShapesWithSlopes({0, 1, 1, 2})) {
    const Regression gp =
        *Regression::Fit(shape, Theta(3, 0.6, 1e-4, 1e-3), x, SmoothValues(x), slopes, base::StopToken()).value();
    for (int trial = 0; trial < 4; ++trial) {
      const VectorXd at = RandomPoints(stream, 4, 1).col(0);
      const PointPosterior p = gp.PredictWithGradient(at);
      EXPECT_NEAR(p.mean, gp.Predict(at.transpose()).mean(0), 1e-12);
      EXPECT_NEAR(p.variance, gp.Predict(at.transpose()).variance(0), 1e-12);
      auto mean = [&](const VectorXd& u) { return gp.Predict(u.transpose()).mean(0); };
      auto variance = [&](const VectorXd& u) { return gp.Predict(u.transpose()).variance(0); };
      EXPECT_LT(math::CheckGradient(mean, at, p.mean_gradient).error, 1e-6) << kernels::ShapeName(shape);
      EXPECT_LT(math::CheckGradient(variance, at, p.variance_gradient).error, 1e-6) << kernels::ShapeName(shape);
      // The gradient's own posterior: its mean, and its variances from near pairs of values.
      const GradientPosterior g = gp.PredictGradient(at);
      EXPECT_LT((g.mean - p.mean_gradient).cwiseAbs().maxCoeff(), 1e-12);
      for (Index j = 0; j < 4; ++j) {
        const double h = 1e-3;
        MatrixXd two = at.transpose().replicate(2, 1);
        two(0, j) += h;
        two(1, j) -= h;
        const MatrixXd c = gp.JointCovariance(two, base::StopToken()).value();
        const double numeric = (c(0, 0) - 2.0 * c(0, 1) + c(1, 1)) / (4.0 * h * h);
        EXPECT_NEAR(g.covariance(j, j), numeric, 2e-2 * (1.0 + numeric)) << kernels::ShapeName(shape);
      }
    }
  }
}

TEST(SlopeRegression, SlopesAreLikeTwinPoints) {
  base::RandomStream stream(4, "slopes");
  const Index n = 6, d = 3;
  const double h = 1e-4;
  const MatrixXd x = RandomPoints(stream, n, d), star = RandomPoints(stream, 100, d);
  Slopes slopes;
  MatrixXd twins(n * (1 + d), d);
  for (Index i = 0; i < n; ++i) {
    slopes.AddGradient(i, SmoothGradient(x.row(i)));
    for (Index j = 0; j <= d; ++j) twins.row(i * (1 + d) + j) = x.row(i);
    for (Index j = 0; j < d; ++j) twins(i * (1 + d) + 1 + j, j) += h;
  }
  const Regression first =
      *Regression::Fit(Shape(d), Theta(d, 0.7, 1e-12, 1e-12), x, SmoothValues(x), slopes, base::StopToken()).value();
  const Regression second =
      *Regression::Fit(Shape(d), Theta(d, 0.7, 1e-14, 0.0), twins, SmoothValues(twins), {}, base::StopToken()).value();
  EXPECT_LT((first.PredictMean(star) - second.PredictMean(star)).cwiseAbs().maxCoeff(), 2e-4);
}

TEST(SlopeRegression, AnyOrthonormalBasisIsTheWholeGradient) {
  base::RandomStream stream(5, "slopes");
  const MatrixXd x = RandomPoints(stream, 10, 4), star = RandomPoints(stream, 60, 4);
  Hyperparameters theta = Theta(4, 0.6, 1e-4, 1e-3);
  theta.lengthscales << 0.3, 0.6, 1.0, 2.0;
  Slopes axes, turned;
  for (Index i = 0; i < x.rows(); ++i) {
    const VectorXd gradient = SmoothGradient(x.row(i));
    axes.AddGradient(i, gradient);
    MatrixXd normals(4, 4);
    for (Index j = 0; j < 4; ++j) normals.col(j) = RandomNormals(stream, 4);
    const MatrixXd basis = Eigen::HouseholderQR<MatrixXd>(normals).householderQ();
    for (Index j = 0; j < 4; ++j) turned.Add(i, basis.col(j), gradient.dot(basis.col(j)));
  }
  const VectorXd y = SmoothValues(x);
  const Posterior a = Regression::Fit(Shape(4), theta, x, y, axes, base::StopToken()).value()->Predict(star);
  const Posterior b = Regression::Fit(Shape(4), theta, x, y, turned, base::StopToken()).value()->Predict(star);
  EXPECT_LT((a.mean - b.mean).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_LT((a.variance - b.variance).cwiseAbs().maxCoeff(), 1e-10);
  EXPECT_NEAR(Likelihood(Shape(4), x, y, axes).Marginal(theta, nullptr, base::StopToken()).value(),
              Likelihood(Shape(4), x, y, turned).Marginal(theta, nullptr, base::StopToken()).value(), 1e-8);
}

TEST(SlopeRegression, RowsNeverRaiseTheVariance) {
  base::RandomStream stream(6, "slopes");
  const MatrixXd star = RandomPoints(stream, 80, 3);
  Regression gp =
      *Regression::Fit(Shape(3), Theta(3, 0.5, 1e-6, 1e-6), MatrixXd(0, 3), VectorXd(0), {}, base::StopToken()).value();
  VectorXd before = gp.Predict(star).variance;
  for (Index i = 0; i < 60; ++i) {
    if (gp.size() > 0 && stream.Uniform() < 0.6) {
      const Index point = static_cast<Index>(stream.UniformInt(static_cast<uint64_t>(gp.size())));
      ASSERT_TRUE(gp.AppendSlope(point, RandomNormals(stream, 3).normalized(), stream.Normal(), 0.0, base::StopToken())
                      .value());
    } else {
      ASSERT_TRUE(gp.Append(RandomPoints(stream, 3, 1).col(0), stream.Normal(), base::StopToken()).value());
    }
    const VectorXd after = gp.Predict(star).variance;
    EXPECT_LE((after - before).maxCoeff(), 1e-9);
    before = after;
  }
}

TEST(SlopeRegression, AppendAndPopEqualAFreshFit) {
  base::RandomStream stream(7, "slopes");
  const Index total = 40;
  const MatrixXd x = RandomPoints(stream, total, 3), star = RandomPoints(stream, 30, 3);
  const VectorXd y = SmoothValues(x);
  const Hyperparameters theta = Theta(3, 0.5, 1e-3, 1e-2);
  struct Row {
    Index point;
    VectorXd direction;
    double slope;
  };
  std::vector<Row> rows;  // direction empty: the value.
  Slopes first;
  first.AddGradient(2, SmoothGradient(x.row(2)));
  for (bool with_slopes : {true, false}) {
    rows.clear();
    for (Index i = 0; i < 4; ++i) rows.push_back({i, VectorXd(), 0.0});
    if (with_slopes) {
      for (Index j = 0; j < 3; ++j) rows.push_back({2, VectorXd::Unit(3, j), first.values(j)});
    }
    const size_t start = rows.size();
    Regression gp =
        *Regression::Fit(Shape(3), theta, x.topRows(4), y.head(4), with_slopes ? first : Slopes(), base::StopToken())
             .value();
    for (int step = 0; step < 150; ++step) {
      const double u = stream.Uniform();
      if (gp.size() == total || (rows.size() > start && u < 0.3)) {
        const size_t count = std::min(rows.size() - start, size_t{1} + stream.UniformInt(6));
        gp.PopBack(static_cast<int>(count));
        rows.resize(rows.size() - count);
      } else if (u < 0.6) {
        ASSERT_TRUE(gp.Append(x.row(gp.size()).transpose(), y(gp.size()), base::StopToken()).value());
        rows.push_back({gp.size() - 1, VectorXd(), 0.0});
      } else {
        const Index point = static_cast<Index>(stream.UniformInt(static_cast<uint64_t>(gp.size())));
        const VectorXd direction = RandomNormals(stream, 3).normalized();
        const double slope = direction.dot(SmoothGradient(x.row(point)));
        ASSERT_TRUE(gp.AppendSlope(point, direction, slope, 1e-3, base::StopToken()).value());
        rows.push_back({point, direction, slope});
      }
      ASSERT_EQ(gp.rows(), static_cast<Index>(rows.size()));
      if (step % 10 != 9) continue;
      Slopes slopes;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].direction.size() > 0) {
          slopes.Add(rows[i].point, rows[i].direction, rows[i].slope, with_slopes && i < start ? 0.0 : 1e-3);
        }
      }
      Regression fresh =
          *Regression::Fit(Shape(3), theta, x.topRows(gp.size()), y.head(gp.size()), slopes, base::StopToken()).value();
      Regression grown = gp;
      for (int round = 0; round < 2; ++round) {
        const Posterior a = grown.Predict(star), b = fresh.Predict(star);
        EXPECT_LT((a.mean - b.mean).cwiseAbs().maxCoeff(), 1e-9);
        EXPECT_LT((a.variance - b.variance).cwiseAbs().maxCoeff(), 1e-9);
        grown.FitMean();
        fresh.FitMean();
        EXPECT_NEAR(grown.hyperparameters().mean, fresh.hyperparameters().mean, 1e-10);
      }
    }
  }
}

TEST(SlopeRegression, WithoutSlopesNothingChangesByABit) {
  base::RandomStream stream(8, "slopes");
  const MatrixXd x = RandomPoints(stream, 20, 3), star = RandomPoints(stream, 50, 3);
  const VectorXd y = SmoothValues(x);
  const Regression plain = *Regression::Fit(Shape(3), Theta(3, 0.5, 1e-6, 0.0), x, y, {}, base::StopToken()).value();
  Regression popped = *Regression::Fit(Shape(3), Theta(3, 0.5, 1e-6, 1e-3), x, y, Slopes(), base::StopToken()).value();
  ASSERT_TRUE(popped.AppendSlope(3, VectorXd::Unit(3, 1), 0.7, 0.0, base::StopToken()).value());
  EXPECT_NE(popped.Predict(star).mean, plain.Predict(star).mean);
  popped.PopBack(1);
  EXPECT_EQ(popped.Predict(star).mean, plain.Predict(star).mean);
  EXPECT_EQ(popped.Predict(star).variance, plain.Predict(star).variance);
  EXPECT_EQ(popped.Targets(), y);
  EXPECT_TRUE(popped.observed().rows.empty());
}

TEST(SlopeRegression, BadSlopesAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const MatrixXd x = (MatrixXd(2, 2) << 0.1, 0.2, 0.7, 0.9).finished();
  const VectorXd y = VectorXd::Ones(2), e = VectorXd::Unit(2, 0);
  const Hyperparameters theta = Theta(2, 0.5, 1e-6, 1e-6);
  auto fits = [&](const Slopes& slopes) {
    return Regression::Fit(Shape(2), theta, x, y, slopes, base::StopToken()).value().has_value();
  };
  Slopes good, bad_value, bad_direction, bad_variance;
  good.Add(0, e, 1.0);
  bad_value.Add(0, e, nan);
  bad_direction.Add(0, VectorXd::Zero(2), 1.0);
  bad_variance.Add(0, e, 1.0, -1.0);
  EXPECT_TRUE(fits(good));
  EXPECT_FALSE(fits(bad_value));
  EXPECT_FALSE(fits(bad_direction));
  EXPECT_FALSE(fits(bad_variance));
  Regression gp = *Regression::Fit(Shape(2), theta, x, y, good, base::StopToken()).value();
  EXPECT_FALSE(gp.AppendSlope(1, e, nan, 0.0, base::StopToken()).value());
  EXPECT_FALSE(gp.AppendSlope(1, VectorXd::Zero(2), 1.0, 0.0, base::StopToken()).value());
  EXPECT_FALSE(gp.AppendSlope(1, e, 1.0, INFINITY, base::StopToken()).value());
  EXPECT_EQ(gp.rows(), 3);
  Hyperparameters negative = theta;
  negative.slope_noise_variance = -1.0;
  EXPECT_FALSE(Regression::Fit(Shape(2), negative, x, y, good, base::StopToken()).value().has_value());
}

TEST(SlopeRegression, RepeatedSlopesWithoutNoiseFallBackOnJitter) {
  Slopes slopes;
  for (int i = 0; i < 10; ++i) slopes.Add(0, VectorXd::Unit(2, 0), 1.0);
  Regression gp = *Regression::Fit(Shape(2), Theta(2, 0.4, 0.0, 0.0), MatrixXd::Constant(1, 2, 0.5), VectorXd::Ones(1),
                                   slopes, base::StopToken())
                       .value();
  ASSERT_TRUE(gp.AppendSlope(0, VectorXd::Unit(2, 0), 1.0, 0.0, base::StopToken()).value());
  EXPECT_NEAR(gp.PredictGradient(VectorXd::Constant(2, 0.5)).mean(0), 1.0, 1e-3);
}

TEST(SlopeRegression, PointsThatCloseInOnAnOptimumStayUsable) {
  // As a search with gradients leaves them: each point ten times as near.
  const Index n = 12;
  MatrixXd x(n, 3);
  Slopes slopes;
  base::RandomStream stream(14, "slopes");
  for (Index i = 0; i < n; ++i) {
    x.row(i) = (0.5 + 0.3 * std::pow(0.1, static_cast<double>(i)) * RandomNormals(stream, 3).array()).transpose();
    slopes.AddGradient(i, SmoothGradient(x.row(i)));
  }
  const VectorXd y = SmoothValues(x);
  Likelihood likelihood(Shape(3), x, y, slopes);
  const InferenceResult result =
      MaximizePosterior(&likelihood, {}, std::nullopt, base::RandomStream(1, "map"), base::StopToken()).value();
  EXPECT_TRUE(std::isfinite(result.log_posterior));
  const Regression gp = *Regression::Fit(Shape(3), result.theta, x, y, slopes, base::StopToken()).value();
  EXPECT_LT((gp.Predict(x).mean - y).cwiseAbs().maxCoeff(), 1e-2);
  EXPECT_LT((gp.PredictGradient(x.row(n - 1)).mean - SmoothGradient(x.row(n - 1))).cwiseAbs().maxCoeff(), 1e-1);
}

}  // namespace
}  // namespace luthier::gp
