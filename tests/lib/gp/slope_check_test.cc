#include "lib/gp/slope_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/regression.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

// Rosenbrock's function on [-2, 2]^d and its gradient, in the unit cube: uneven, as real objectives are.
double Rosenbrock(const VectorXd& u, VectorXd* gradient) {
  const VectorXd z = 4.0 * u.array() - 2.0;
  double f = 0.0;
  gradient->setZero(u.size());
  for (Index j = 0; j + 1 < u.size(); ++j) {
    const double valley = z(j + 1) - z(j) * z(j);
    f += 100.0 * valley * valley + (1.0 - z(j)) * (1.0 - z(j));
    (*gradient)(j) += 4.0 * (-400.0 * valley * z(j) - 2.0 * (1.0 - z(j)));
    (*gradient)(j + 1) += 4.0 * 200.0 * valley;
  }
  return f;
}

struct Data {
  MatrixXd x;
  VectorXd y;
  Slopes slopes;
  Hyperparameters theta;
};

Data SomeData(uint64_t seed, Index n, int d, bool full) {
  base::RandomStream stream(seed, "slope check");
  Data data{RandomPoints(stream, n, d), VectorXd(n), Slopes(), Hyperparameters()};
  for (Index i = 0; i < n; ++i) {
    VectorXd gradient;
    data.y(i) = Rosenbrock(data.x.row(i), &gradient);
    const VectorXd direction = RandomNormals(stream, d).normalized();
    if (full) {
      data.slopes.AddGradient(i, gradient);
    } else {
      data.slopes.Add(i, direction, gradient.dot(direction));
    }
  }
  data.y.array() -= data.y.mean();
  const double deviation = std::sqrt(data.y.squaredNorm() / static_cast<double>(n));
  data.y /= deviation;
  data.slopes.values /= deviation;
  Likelihood values(kernels::ArdShape(kernels::Family::kMatern52, d), data.x, data.y);
  data.theta = MaximizePosterior(&values, {}, std::nullopt, stream, base::StopToken()).value().theta;
  return data;
}

SlopeCheck Check(const Data& data, const VectorXd& slopes) {
  Slopes changed = data.slopes;
  changed.values = slopes;
  const int d = static_cast<int>(data.x.cols());
  return *CheckSlopes(kernels::ArdShape(kernels::Family::kMatern52, d), data.theta, data.x, data.y, changed,
                      base::StopToken())
              .value();
}

TEST(SlopeCheck, TellsRightSlopesFromFlippedAndScaledOnes) {
  for (uint64_t seed : {1u, 2u, 3u}) {
    for (int d : {2, 4}) {
      for (bool full : {false, true}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " d " << d << " full " << full);
        const Data data = SomeData(seed, 12 * d, d, full);
        const VectorXd& right = data.slopes.values;
        const SlopeCheck good = Check(data, right);
        EXPECT_FALSE(good.contradicts);
        EXPECT_LT(good.median, 3.0);
        EXPECT_GT(good.scale, 0.5);
        EXPECT_LT(good.scale, 3.0);
        const SlopeCheck flipped = Check(data, -right);
        EXPECT_TRUE(flipped.contradicts);
        EXPECT_NEAR(flipped.scale, -good.scale, 1e-9 * good.scale);
        EXPECT_NEAR(flipped.sign_gain, -good.sign_gain, 1e-6 * std::abs(good.sign_gain));
        for (double factor : {1000.0, 30.0, 1.0 / 30.0, 1e-3, 0.0, -100.0}) {
          const SlopeCheck scaled = Check(data, factor * right);
          EXPECT_TRUE(scaled.contradicts) << factor;
          EXPECT_NEAR(scaled.scale, factor * good.scale, 1e-9 * std::abs(factor) * good.scale);
        }
        // Noise of half the slopes' size is noise.
        base::RandomStream stream(seed, "noise");
        const double size = std::sqrt(right.squaredNorm() / static_cast<double>(right.size()));
        EXPECT_FALSE(Check(data, right + 0.5 * size * RandomNormals(stream, right.size())).contradicts);
      }
    }
  }
}

TEST(SlopeCheck, LeavesEachSlopeOut) {
  Data data = SomeData(4, 12, 2, true);
  const SlopeCheck check = Check(data, data.slopes.values);
  const kernels::KernelShape shape = kernels::ArdShape(kernels::Family::kMatern52, 2);
  Hyperparameters theta = data.theta;
  theta.slope_noise_variance = 0.1 * kernels::DerivativeKernel(KernelOf(shape, theta)).GradientVariances().mean();
  for (Index i = 0; i < data.slopes.size(); i += 5) {
    std::vector<Index> others;
    for (Index k = 0; k < data.slopes.size(); ++k) {
      if (k != i) others.push_back(k);
    }
    const Regression gp =
        *Regression::Fit(shape, theta, data.x, data.y, data.slopes.Select(others), base::StopToken()).value();
    const GradientPosterior g = gp.PredictGradient(data.x.row(data.slopes.points[static_cast<size_t>(i)]));
    const VectorXd v = data.slopes.directions.row(i);
    const double deviation = std::sqrt(v.dot(g.covariance * v) + theta.slope_noise_variance);
    EXPECT_NEAR(check.z(i), (data.slopes.values(i) - v.dot(g.mean)) / deviation, 1e-7);
  }
}

TEST(SlopeCheck, FewSlopesOrFarApartPointsProveNothing) {
  Data data = SomeData(5, 24, 2, true);
  data.slopes = data.slopes.Select({0, 1, 2, 3});
  EXPECT_FALSE(Check(data, 1e6 * data.slopes.values).contradicts);
  EXPECT_GT(Check(data, 1e6 * data.slopes.values).median, 10.0);
  const kernels::KernelShape shape = kernels::ArdShape(kernels::Family::kMatern52, 2);
  EXPECT_FALSE(CheckSlopes(shape, data.theta, data.x, data.y, Slopes(), base::StopToken()).value().has_value());
  data.theta.lengthscales.setConstant(0.025);
  const Data sparse = SomeData(6, 6, 2, true);
  Data far = sparse;
  far.theta.lengthscales.setConstant(0.025);
  const double prior = std::sqrt(5.0 / 3.0 * far.theta.signal_variance) / 0.025;
  const VectorXd unrelated = prior * VectorXd::LinSpaced(far.slopes.size(), -1.7, 1.7);
  EXPECT_FALSE(Check(far, unrelated).contradicts);
  EXPECT_FALSE(Check(far, -unrelated).contradicts);
}

// Around a minimum values with noise differ by far more than slopes say, and so theta without noise has steep ones.
TEST(SlopeCheck, NoiseOfCloseValuesIsNoSignOfSlopesTooSmall) {
  for (uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream stream(seed, "noise of close values");
    MatrixXd x(14, 2);
    x.topRows(4) << 0.1, 0.2, 0.9, 0.1, 0.2, 0.9, 0.8, 0.7;
    x.bottomRows(10) = (0.02 * RandomPoints(stream, 10, 2)).array() + 0.49;
    Data data{x, VectorXd(14), Slopes(), Hyperparameters()};
    for (Index i = 0; i < 14; ++i) {
      const VectorXd from_minimum = x.row(i).transpose().array() - 0.5;
      data.y(i) = 4.0 * from_minimum.squaredNorm() - 1.0 + 0.02 * stream.Normal();
      data.slopes.AddGradient(i, 8.0 * from_minimum);
    }
    data.theta.lengthscales = VectorXd::Constant(2, 0.05);
    data.theta.signal_variance = 10.0;
    data.theta.noise_variance = 1e-8;
    const SlopeCheck right = Check(data, data.slopes.values);
    EXPECT_LT(std::abs(right.scale), 0.02);
    EXPECT_GT(right.gain, 50.0);
    EXPECT_LT(std::abs(right.sign_gain), 50.0);
    EXPECT_FALSE(right.contradicts);
    EXPECT_TRUE(Check(data, 1e-3 * data.slopes.values).contradicts);
    // Of the cluster alone nothing but noise is known.
    data.slopes = data.slopes.Select({8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
    const SlopeCheck close = Check(data, data.slopes.values);
    EXPECT_LT(std::abs(close.scale), 0.02);
    EXPECT_GT(close.gain, 50.0);
    EXPECT_FALSE(close.contradicts);
  }
}

}  // namespace
}  // namespace luthier::gp
