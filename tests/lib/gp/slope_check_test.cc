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

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

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
  data.theta = MaximizePosterior(&values, {}, std::nullopt, stream).theta;
  return data;
}

SlopeCheck Check(const Data& data, const VectorXd& slopes) {
  Slopes changed = data.slopes;
  changed.values = slopes;
  const int d = static_cast<int>(data.x.cols());
  return *CheckSlopes(kernels::ArdShape(kernels::Family::kMatern52, d), data.theta, data.x, data.y, changed);
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

// Points in close pairs, as a search leaves them around its record; cubic, so that the trapezoid rule is not exact.
struct Pairs {
  MatrixXd x;
  VectorXd y;
  Slopes slopes;
};

Pairs SomePairs(int pairs, int d, double apart, uint64_t seed) {
  base::RandomStream stream(seed, "pairs");
  Pairs data{RandomPoints(stream, 2 * pairs, d), VectorXd(2 * pairs), Slopes()};
  for (int p = 0; p < pairs; ++p) {
    data.x.row(2 * p + 1) = data.x.row(2 * p) + apart * RandomNormals(stream, d).normalized().transpose();
  }
  for (Index i = 0; i < 2 * pairs; ++i) {
    VectorXd gradient(d);
    data.y(i) = 0.0;
    for (int j = 0; j < d; ++j) {
      const double u = data.x(i, j) - 0.1 * j;
      data.y(i) += (j + 1.0) * u * u * u - u;
      gradient(j) = 3.0 * (j + 1.0) * u * u - 1.0;
    }
    data.slopes.AddGradient(i, gradient);
  }
  return data;
}

PairCheck CheckOf(const Pairs& data, const Slopes& slopes, double lengthscale = 0.5, double noise = 0.0,
                  double value_error = 1e-15) {
  const int d = static_cast<int>(data.x.cols());
  Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(d, lengthscale);
  theta.noise_variance = noise;
  return CheckPairs(kernels::ArdShape(kernels::Family::kMatern52, d), theta, data.x, data.y, slopes, value_error);
}

TEST(PairCheck, ClosePairsTellFactorOrderAndSign) {
  for (const int d : {1, 2, 5}) {
    for (const uint64_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message() << "d " << d << " seed " << seed);
      const Pairs data = SomePairs(8, d, 0.01, seed);
      const PairCheck right = CheckOf(data, data.slopes);
      EXPECT_GE(right.pairs, 8);
      EXPECT_LT(right.lower_quartile, 1e-3);
      EXPECT_FALSE(right.contradicts);
      for (const double factor : {4.0, 0.25, 10.0, -1.0, 0.0}) {
        Slopes wrong = data.slopes;
        wrong.values *= factor;
        const PairCheck check = CheckOf(data, wrong);
        EXPECT_TRUE(check.contradicts) << factor;
        const double misfit = std::abs(1.0 - factor) / std::max(1.0, std::abs(factor));
        EXPECT_NEAR(check.lower_quartile, misfit, 0.02) << factor;
      }
      if (d == 1) continue;
      Slopes order = data.slopes;
      for (Index i = 0; i < order.size(); i += d) std::reverse(order.values.data() + i, order.values.data() + i + d);
      EXPECT_GT(CheckOf(data, order).lower_quartile, right.lower_quartile + 0.05);
    }
  }
}

TEST(PairCheck, WhatCannotTellIsLeftOut) {
  const Pairs data = SomePairs(8, 2, 0.01, 4);
  Slopes wrong = data.slopes;
  wrong.values *= 4.0;
  EXPECT_TRUE(CheckOf(data, wrong).contradicts);
  EXPECT_EQ(CheckOf(data, wrong, 0.05).pairs, 0) << "a fifth of a lengthscale apart";
  EXPECT_EQ(CheckOf(data, wrong, 0.5, 1.0).pairs, 0) << "differences below the noise";
  EXPECT_EQ(CheckOf(data, wrong, 0.5, 0.0, 1.0).pairs, 0) << "values that are not known so well";
  Slopes vague = wrong;
  vague.extra_variances.setConstant(1e4);
  EXPECT_EQ(CheckOf(data, vague).pairs, 0) << "slopes that say how wrong they may be";
  std::vector<Index> first;
  for (Index i = 0; i < wrong.size(); i += 2) first.push_back(i);
  EXPECT_EQ(CheckOf(data, wrong.Select(first)).pairs, 0) << "one component of two";
  std::vector<Index> four;
  for (Index i = 0; i < 16; ++i) four.push_back(i);
  EXPECT_EQ(CheckOf(data, wrong.Select(four)).pairs, 4);
  EXPECT_FALSE(CheckOf(data, wrong.Select(four)).contradicts) << "four pairs are too few";
  EXPECT_EQ(CheckOf(data, Slopes()).pairs, 0);
}

TEST(PairCheck, ADirectionThatIsNoAxisIsNotUsed) {
  Pairs data = SomePairs(8, 2, 0.01, 5);
  Slopes along;
  for (Index i = 0; i < 16; ++i) along.Add(i, VectorXd::Constant(2, std::sqrt(0.5)), 100.0);
  EXPECT_EQ(CheckOf(data, along).pairs, 0);
}

// One point of a cluster cannot speak for all: none is in more than two pairs, and no more than ten count.
TEST(PairCheck, EachPointCountsTwiceAtMost) {
  Pairs cluster = SomePairs(15, 2, 0.001, 6);
  EXPECT_EQ(CheckOf(cluster, cluster.slopes).pairs, 10);
  const Pairs three = SomePairs(2, 2, 0.001, 7);
  Pairs close = three;
  close.x.row(2) = close.x.row(0) + 0.002 * Eigen::RowVector2d(1.0, 1.0);
  close.x.row(3) = close.x.row(0) - 0.002 * Eigen::RowVector2d(1.0, 1.0);
  EXPECT_LE(CheckOf(close, close.slopes).pairs, 4);
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
    const Regression gp = *Regression::Fit(shape, theta, data.x, data.y, data.slopes.Select(others));
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
  EXPECT_FALSE(CheckSlopes(shape, data.theta, data.x, data.y, Slopes()).has_value());
  data.theta.lengthscales.setConstant(0.025);
  const Data sparse = SomeData(6, 6, 2, true);
  Data far = sparse;
  far.theta.lengthscales.setConstant(0.025);
  const double prior = std::sqrt(5.0 / 3.0 * far.theta.signal_variance) / 0.025;
  const VectorXd unrelated = prior * VectorXd::LinSpaced(far.slopes.size(), -1.7, 1.7);
  EXPECT_FALSE(Check(far, unrelated).contradicts);
  EXPECT_FALSE(Check(far, -unrelated).contradicts);
}

}  // namespace
}  // namespace luthier::gp
