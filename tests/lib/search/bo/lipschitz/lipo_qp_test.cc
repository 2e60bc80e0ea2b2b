#include "lib/search/bo/lipschitz/lipo_qp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "tests/lib/search/random_points.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFree = std::numeric_limits<double>::infinity();

VectorXd Wave(const MatrixXd& u) {
  VectorXd y(u.rows());
  for (int i = 0; i < u.rows(); ++i) y(i) = std::sin(6.0 * u(i, 0)) + 0.3 * u(i, 1) * u(i, u.cols() - 1);
  return y;
}

double Deviation(const VectorXd& v) {
  return std::sqrt((v.array() - v.mean()).square().mean());
}

// The quadratic program by trying every set of active constraints: (K, s) in user units.
std::pair<VectorXd, VectorXd> SolveByEnumeration(const MatrixXd& u, const VectorXd& y, double rho) {
  const int n = static_cast<int>(y.size()), d = static_cast<int>(u.cols());
  VectorXd scale(d);
  for (int j = 0; j < d; ++j) scale(j) = Deviation(u.col(j));
  const double unit = Deviation(y);
  std::vector<VectorXd> features;
  std::vector<double> targets;
  for (int high = 0; high < n; ++high) {
    for (int low = 0; low < n; ++low) {
      if (!(y(high) > y(low))) continue;
      VectorXd phi = VectorXd::Zero(d + n);
      for (int j = 0; j < d; ++j) phi(j) = std::pow((u(high, j) - u(low, j)) / scale(j), 2);
      phi(d + low) = rho;
      features.push_back(phi);
      targets.push_back(std::pow((y(high) - y(low)) / unit, 2));
    }
  }
  const size_t m = features.size();
  VectorXd best;
  for (size_t mask = 0; mask < (size_t{1} << m); ++mask) {
    std::vector<size_t> rows;
    for (size_t c = 0; c < m; ++c) {
      if (mask >> c & 1) rows.push_back(c);
    }
    const int k = static_cast<int>(rows.size());
    MatrixXd phi(k, d + n);
    VectorXd b(k);
    for (int r = 0; r < k; ++r) {
      phi.row(r) = features[rows[static_cast<size_t>(r)]].transpose();
      b(r) = targets[rows[static_cast<size_t>(r)]];
    }
    VectorXd w = VectorXd::Zero(d + n);
    if (k > 0) {
      const VectorXd alpha = (phi * phi.transpose()).fullPivLu().solve(b);
      if (!(alpha.minCoeff() >= 0.0)) continue;
      w = phi.transpose() * alpha;
    }
    bool feasible = true;
    for (size_t c = 0; c < m; ++c) feasible = feasible && features[c].dot(w) >= targets[c] - 1e-9;
    if (feasible && (best.size() == 0 || w.squaredNorm() < best.squaredNorm())) best = w;
  }
  return {best.head(d).array() * (unit / scale.array()).square(), rho * unit * unit * best.tail(n)};
}

TEST(LipoQp, EqualsEnumerationOnTinyPrograms) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (const double rho : {0.02, 0.5}) {
      base::RandomStream stream(seed, "tiny");
      const int n = 4 + static_cast<int>(seed % 2);
      const MatrixXd u = RandomPoints(n, 2, seed);
      VectorXd y(n);
      for (double& v : y) v = 3.0 * stream.Normal();
      LipoQpBounds bounds({.rho = rho, .tolerance = 1e-11, .max_updates = 1e7});
      EXPECT_TRUE(bounds.Fit(u, y, base::StopToken()).ok());
      ASSERT_TRUE(bounds.converged()) << seed << " " << rho << " " << bounds.violation();
      const auto [slopes, noise] = SolveByEnumeration(u, y, rho);
      EXPECT_LT((bounds.squared_slopes() - slopes).norm(), 1e-5 * (slopes.norm() + 1.0)) << seed << " " << rho;
      EXPECT_LT((bounds.noise() - noise).norm(), 1e-5 * (noise.norm() + 1.0)) << seed << " " << rho;
    }
  }
}

TEST(LipoQp, ConstraintsHoldAndTheBoundIsAboveTheData) {
  for (const int d : {2, 6}) {
    const MatrixXd u = RandomPoints(80, d, 3);
    const VectorXd y = 100.0 * Wave(u).array() + 7.0;
    LipoQpBounds bounds;
    EXPECT_TRUE(bounds.Fit(u, y, base::StopToken()).ok());
    EXPECT_TRUE(bounds.converged()) << bounds.violation();
    EXPECT_GE(bounds.squared_slopes().minCoeff(), 0.0);
    EXPECT_GE(bounds.noise().minCoeff(), 0.0);
    for (int i = 0; i < y.size(); ++i) {
      for (int j = 0; j < y.size(); ++j) {
        if (!(y(i) > y(j))) continue;
        const double left =
            bounds.noise()(j) + bounds.squared_slopes().dot((u.row(i) - u.row(j)).transpose().cwiseAbs2());
        ASSERT_GE(left, std::pow(y(i) - y(j), 2) * (1.0 - 1e-12) - 1e-9);
      }
    }
    VectorXd lower, upper;
    bounds.Evaluate(u, &lower, &upper);
    EXPECT_TRUE((upper.array() >= y.array() - 1e-9).all());
    EXPECT_EQ(lower, VectorXd::Constant(80, -kFree));
  }
}

TEST(LipoQp, BatchPointAndGradientAgree) {
  const MatrixXd u = RandomPoints(30, 3, 4);
  const VectorXd y = Wave(u);
  LipoQpBounds bounds;
  EXPECT_TRUE(bounds.Fit(u, y, base::StopToken()).ok());
  const MatrixXd at = RandomPoints(40, 3, 5);
  VectorXd lower, upper;
  bounds.Evaluate(at, &lower, &upper);
  for (int i = 0; i < at.rows(); ++i) {
    double expected = kFree;
    for (int k = 0; k < y.size(); ++k) {
      const VectorXd delta = (at.row(i) - u.row(k)).transpose();
      expected =
          std::min(expected, y(k) + std::sqrt(bounds.noise()(k) + bounds.squared_slopes().dot(delta.cwiseAbs2())));
    }
    EXPECT_NEAR(upper(i), expected, 1e-12);
    const PointBounds p = bounds.At(at.row(i).transpose());
    EXPECT_NEAR(p.upper, expected, 1e-12);
    EXPECT_LT(math::CheckGradient([&](const VectorXd& x) { return bounds.At(x).upper; }, at.row(i).transpose(),
                                  p.upper_gradient)
                  .error,
              1e-5);
  }
}

TEST(LipoQp, FindsTheSlopeOfEachCoordinate) {
  const MatrixXd u = 2.0 * RandomPoints(40, 2, 6).array() - 1.0;
  const VectorXd y = u.col(0).cwiseAbs();
  LipoQpBounds bounds;
  EXPECT_TRUE(bounds.Fit(u, y, base::StopToken()).ok());
  EXPECT_NEAR(std::sqrt(bounds.squared_slopes()(0)), 1.0, 0.01);
  EXPECT_LT(bounds.squared_slopes()(1), 0.02 * bounds.squared_slopes()(0));
}

TEST(LipoQp, NoiseGoesToTheSamplesWhenItIsCheap) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const MatrixXd u = 2.0 * RandomPoints(40, 2, seed + 7).array() - 1.0;
    base::RandomStream stream(seed, "noise");
    VectorXd y = u.col(0).cwiseAbs();
    for (double& v : y) v += 0.05 * stream.Normal();
    LipoQpBounds robust({.rho = 0.2}), trusting;
    EXPECT_TRUE(robust.Fit(u, y, base::StopToken()).ok());
    EXPECT_TRUE(trusting.Fit(u, y, base::StopToken()).ok());
    EXPECT_GT(std::sqrt(robust.squared_slopes()(0)), 0.8);
    EXPECT_LT(std::sqrt(robust.squared_slopes()(0)), 2.2);
    EXPECT_GT(trusting.squared_slopes().sum(), 1.5 * robust.squared_slopes().sum());
  }
}

TEST(LipoQp, WarmStartsReachTheSameBoundSooner) {
  const MatrixXd u = RandomPoints(100, 4, 20);
  const VectorXd y = Wave(u);
  LipoQpBounds warm, cold;
  EXPECT_TRUE(warm.Fit(u.topRows(99), y.head(99), base::StopToken()).ok());
  EXPECT_TRUE(warm.Fit(u, y, base::StopToken()).ok());
  EXPECT_TRUE(cold.Fit(u, y, base::StopToken()).ok());
  EXPECT_TRUE(warm.converged());
  EXPECT_TRUE(cold.converged());
  EXPECT_LT((warm.squared_slopes() - cold.squared_slopes()).norm(), 1e-3 * cold.squared_slopes().norm());
  EXPECT_LT(warm.updates(), cold.updates());
  // The data may change under its feet: nothing stale survives.
  const VectorXd other = -3.0 * y;
  EXPECT_TRUE(warm.Fit(u, other, base::StopToken()).ok());
  cold = LipoQpBounds();
  EXPECT_TRUE(cold.Fit(u, other, base::StopToken()).ok());
  EXPECT_LT((warm.squared_slopes() - cold.squared_slopes()).norm(), 1e-3 * cold.squared_slopes().norm());
}

TEST(LipoQp, ScalesWithUnits) {
  const MatrixXd u = RandomPoints(30, 2, 21);
  const VectorXd y = Wave(u);
  LipoQpBounds plain, scaled;
  EXPECT_TRUE(plain.Fit(u, y, base::StopToken()).ok());
  EXPECT_TRUE(scaled.Fit(0.25 * u, 8.0 * y.array() + 3.0, base::StopToken()).ok());
  EXPECT_LT((scaled.squared_slopes() - 1024.0 * plain.squared_slopes()).norm(),
            1e-3 * 1024.0 * plain.squared_slopes().norm());
  const VectorXd at = (VectorXd(2) << 0.4, 0.9).finished();
  EXPECT_NEAR(scaled.At(0.25 * at).upper, 8.0 * plain.At(at).upper + 3.0, 1e-2);
}

TEST(LipoQp, HostileData) {
  LipoQpBounds bounds;
  EXPECT_FALSE(bounds.active());
  EXPECT_TRUE(bounds.Fit(MatrixXd(0, 2), VectorXd(0), base::StopToken()).ok());
  EXPECT_EQ(bounds.At(VectorXd::Zero(2)).upper, kFree);
  EXPECT_TRUE(bounds.Fit(RandomPoints(5, 2, 22), VectorXd::Constant(5, 3.0), base::StopToken()).ok());
  EXPECT_FALSE(bounds.active());
  // The same point with two values, and a constant column.
  MatrixXd u = RandomPoints(6, 2, 23);
  u.row(1) = u.row(0);
  u.col(1).setConstant(0.5);
  VectorXd y = u.col(0);
  y(1) += 2.0;
  EXPECT_TRUE(bounds.Fit(u, y, base::StopToken()).ok());
  ASSERT_TRUE(bounds.active());
  VectorXd lower, upper;
  bounds.Evaluate(u, &lower, &upper);
  EXPECT_TRUE((upper.array() >= y.array() - 1e-9).all());
  EXPECT_GE(bounds.noise()(0), 4.0 - 1e-9);
  EXPECT_EQ(bounds.squared_slopes()(1), 0.0);
  EXPECT_TRUE(bounds.At(u.row(2).transpose()).upper_gradient.allFinite());
  // Huge and tiny outputs.
  for (const double unit : {1e120, 1e-120}) {
    EXPECT_TRUE(bounds.Fit(RandomPoints(10, 2, 24), unit * Wave(RandomPoints(10, 2, 24)), base::StopToken()).ok());
    ASSERT_TRUE(bounds.active());
    EXPECT_TRUE(bounds.squared_slopes().allFinite() && bounds.noise().allFinite()) << unit;
  }
}

}  // namespace
}  // namespace luthier::search
