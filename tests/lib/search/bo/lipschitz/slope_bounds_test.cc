#include "lib/search/bo/lipschitz/slope_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "lib/search/quasi_random/random_designer.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/random_points.h"

namespace luthier::search {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

VectorXd SomeOutputs(const MatrixXd& u) {
  VectorXd y(u.rows());
  for (int i = 0; i < u.rows(); ++i) y(i) = std::sin(5.0 * u(i, 0)) - u.row(i).squaredNorm();
  return y;
}

double BruteSlope(const MatrixXd& u, const VectorXd& y, double noise) {
  double slope = 0.0;
  for (int i = 0; i < y.size(); ++i) {
    for (int j = 0; j < i; ++j) {
      double distance = (u.row(i) - u.row(j)).norm();
      double rise = std::abs(y(i) - y(j));
      if (noise > 0.0) {
        distance = std::max(distance, 1e-3 * std::sqrt(static_cast<double>(u.cols())));
        rise = std::max(0.0, rise - 2.0 * std::sqrt(2.0) * noise);
      } else if (distance < 1e-12) {
        continue;
      }
      slope = std::max(slope, rise / distance);
    }
  }
  return slope;
}

TEST(SlopeEstimate, EqualsBruteForceAfterEveryPoint) {
  const MatrixXd u = RandomPoints(60, 3, 1);
  const VectorXd y = SomeOutputs(u);
  for (const double noise : {0.0, 0.05}) {
    SlopeEstimate estimate(3, noise);
    double before = 0.0;
    for (int i = 0; i < y.size(); ++i) {
      ASSERT_TRUE(estimate.Add(u.row(i).transpose(), y(i)));
      EXPECT_NEAR(estimate.slope(), BruteSlope(u.topRows(i + 1), y.head(i + 1), noise), 1e-12);
      EXPECT_GE(estimate.slope(), before);
      before = estimate.slope();
    }
    EXPECT_EQ(SteepestSlope(u, y, noise), estimate.slope());
  }
}

TEST(SlopeEstimate, SkipsDuplicatesAndRefusesNonsense) {
  SlopeEstimate estimate(2);
  const VectorXd u = VectorXd::Constant(2, 0.3);
  EXPECT_TRUE(estimate.Add(u, 1.0));
  EXPECT_TRUE(estimate.Add(u, 5.0));
  EXPECT_EQ(estimate.slope(), 0.0);
  EXPECT_FALSE(estimate.Add(u, NAN));
  EXPECT_FALSE(estimate.Add(VectorXd::Constant(2, kUnbounded), 1.0));
  EXPECT_EQ(estimate.size(), 2);
  EXPECT_TRUE(estimate.Add(VectorXd::Constant(2, 0.4), 1.0));
  EXPECT_NEAR(estimate.slope(), 4.0 / (0.1 * std::sqrt(2.0)), 1e-10);
}

TEST(SlopeEstimate, NoiseDoesNotMakeItExplode) {
  // A line of slope 1 with close pairs and noise of deviation 0.01.
  base::RandomStream stream(2, "noisy line");
  MatrixXd u(200, 1);
  VectorXd y(200);
  for (int i = 0; i < 200; ++i) {
    u(i, 0) = stream.Uniform();
    y(i) = u(i, 0) + 0.01 * stream.Normal();
  }
  EXPECT_GT(SteepestSlope(u, y), 10.0);
  EXPECT_LT(SteepestSlope(u, y, 0.01), 0.2 * SteepestSlope(u, y));
  EXPECT_GT(SteepestSlope(u, y, 0.01), 0.9);
}

TEST(LipschitzConstant, GrowsByItsRule) {
  EXPECT_EQ(LipschitzConstant(std::nullopt, 3.0, 7), 210.0);
  EXPECT_EQ(LipschitzConstant(std::nullopt, 3.0, 0), 30.0);
  EXPECT_EQ(LipschitzConstant(4.0, 3.0, 7), 4.0);
  EXPECT_EQ(LipschitzConstant(4.0, 5.0, 7), 5.0);
  EXPECT_EQ(LipschitzConstant(4.0, 0.0, 0), 4.0);
  for (const double none : {0.0, kUnbounded, static_cast<double>(NAN)}) {
    EXPECT_EQ(LipschitzConstant(std::nullopt, none, 5), kUnbounded);
  }
}

TEST(LipschitzBounds, EqualBruteForceAndTheirSlopes) {
  const MatrixXd u = RandomPoints(50, 3, 3);
  const VectorXd y = SomeOutputs(u);
  const double l = 1.5 * SteepestSlope(u, y), slack = 0.1;
  const LipschitzBounds bounds(u, y, l, slack);
  ASSERT_TRUE(bounds.active());
  const MatrixXd at = RandomPoints(100, 3, 4);
  VectorXd lower, upper;
  bounds.Evaluate(at, &lower, &upper);
  for (int i = 0; i < at.rows(); ++i) {
    double low = -kUnbounded, high = kUnbounded;
    for (int k = 0; k < y.size(); ++k) {
      const double distance = (at.row(i) - u.row(k)).norm();
      low = std::max(low, y(k) - l * distance);
      high = std::min(high, y(k) + l * distance);
    }
    EXPECT_NEAR(lower(i), low - slack, 1e-12);
    EXPECT_NEAR(upper(i), high + slack, 1e-12);
    EXPECT_LE(lower(i), upper(i));
    const PointBounds p = bounds.At(at.row(i).transpose());
    EXPECT_NEAR(p.lower, lower(i), 1e-12);
    EXPECT_NEAR(p.upper, upper(i), 1e-12);
    const VectorXd point = at.row(i).transpose();
    EXPECT_LT(math::CheckGradient([&](const VectorXd& x) { return bounds.At(x).upper; }, point, p.upper_gradient).error,
              1e-5);
    EXPECT_LT(math::CheckGradient([&](const VectorXd& x) { return bounds.At(x).lower; }, point, p.lower_gradient).error,
              1e-5);
  }
  // At the data the band is the output.
  const LipschitzBounds tight(u, y, l);
  tight.Evaluate(u, &lower, &upper);
  EXPECT_EQ(lower, y);
  EXPECT_EQ(upper, y);
  EXPECT_EQ(tight.At(u.row(4).transpose()).upper_gradient, VectorXd::Zero(3));
}

TEST(LipschitzBounds, HoldTheFunctionWithItsTrueConstant) {
  // f = -|u - c|_1: L = sqrt d. And one of its own with a gradient bound by hand: sin(5 a) - |u|^2 on the unit square
  // has |gradient| <= |5 + 2| + 2.
  const MatrixXd u = RandomPoints(40, 2, 5), at = RandomPoints(5000, 2, 6);
  auto cone = [](const MatrixXd& x) -> VectorXd { return -(x.array() - 0.37).abs().rowwise().sum(); };
  VectorXd lower, upper;
  const LipschitzBounds of_cone(u, cone(u), std::sqrt(2.0));
  of_cone.Evaluate(at, &lower, &upper);
  EXPECT_TRUE((lower.array() <= cone(at).array() + 1e-12).all() && (upper.array() >= cone(at).array() - 1e-12).all());
  const LipschitzBounds of_wave(u, SomeOutputs(u), 9.0);
  of_wave.Evaluate(at, &lower, &upper);
  EXPECT_TRUE((lower.array() <= SomeOutputs(at).array()).all() && (upper.array() >= SomeOutputs(at).array()).all());
}

TEST(LipschitzBounds, ScaleWithTheOutputs) {
  const MatrixXd u = RandomPoints(30, 2, 7), at = RandomPoints(50, 2, 8);
  const VectorXd y = SomeOutputs(u);
  const double a = 37.5, b = -12.0;
  const VectorXd other = a * y.array() + b;
  const double slope = SteepestSlope(u, y);
  EXPECT_NEAR(SteepestSlope(u, other), a * slope, 1e-9);
  const LipschitzBounds plain(u, y, 3.0 * slope);
  const LipschitzBounds scaled(u, other, 3.0 * SteepestSlope(u, other));
  VectorXd lower, upper, lower2, upper2;
  plain.Evaluate(at, &lower, &upper);
  scaled.Evaluate(at, &lower2, &upper2);
  for (int i = 0; i < at.rows(); ++i) {
    EXPECT_NEAR(upper2(i) - other.maxCoeff(), a * (upper(i) - y.maxCoeff()), 1e-9);
  }
  EXPECT_EQ(ExcludedShareOfCube(plain, 2, y.maxCoeff(), 0.0, 1).share,
            ExcludedShareOfCube(scaled, 2, other.maxCoeff(), 0.0, 1).share);
}

TEST(LipschitzBounds, WithoutDataOrConstantThereAreNone) {
  const LipschitzBounds none(MatrixXd(0, 2), VectorXd(0), 3.0);
  const LipschitzBounds endless(RandomPoints(3, 2, 9), VectorXd::Ones(3), kUnbounded);
  for (const LipschitzBounds* bounds : {&none, &endless}) {
    EXPECT_FALSE(bounds->active());
    VectorXd lower, upper;
    bounds->Evaluate(RandomPoints(2, 2, 10), &lower, &upper);
    EXPECT_EQ(lower, VectorXd::Constant(2, -kUnbounded));
    EXPECT_EQ(upper, VectorXd::Constant(2, kUnbounded));
    const PointBounds at = bounds->At(VectorXd::Constant(2, 0.5));
    EXPECT_EQ(at.upper, kUnbounded);
    EXPECT_EQ(at.upper_gradient, VectorXd::Zero(2));
    EXPECT_EQ(ExcludedShareOfCube(*bounds, 2, 1.0, 0.0, 1, 64).share, 0.0);
  }
}

TEST(ExcludedShare, IsTheAreaOfTheBallsThatCannotWin) {
  // One point of output 0 against an incumbent of 1 with L = 4: excluded is the disc of radius 1/4, area pi/16.
  const MatrixXd u = (MatrixXd(1, 2) << 0.5, 0.5).finished();
  const LipschitzBounds bounds(u, VectorXd::Zero(1), 4.0);
  const ExclusionShare share = ExcludedShareOfCube(bounds, 2, 1.0, 0.0, 3);
  EXPECT_EQ(share.points, 4096);
  EXPECT_NEAR(share.share, M_PI / 16.0, 0.005);
  EXPECT_NEAR(share.standard_error, 0.00621, 1e-4);
  EXPECT_NEAR(share.largest_upper, 4.0 * std::sqrt(0.5), 0.1);
  // Asking for an improvement of 1 more widens the disc to radius 1/2.
  EXPECT_NEAR(ExcludedShareOfCube(bounds, 2, 1.0, 1.0, 3).share, M_PI / 4.0, 0.005);
}

TEST(Lipo, WithoutABoundItIsRandomSearch) {
  const study::SearchSpace space = Space({Float("x0", -5, 10), Float("x1", 1, 100), Int("k", 0, 9)});
  const study::Encoding encoding(space);
  const LipschitzBounds none(MatrixXd(0, encoding.model_dim()), VectorXd(0), 1.0);
  for (uint64_t j = 0; j < 20; ++j) {
    study::Parameters taken;
    auto draw = [&](uint32_t i) {
      base::RandomStream random(7, "explore", j, i);
      taken = encoding.Sample(random);
      return encoding.ToModel(taken);
    };
    const LipoProposal proposal =
        ProposeLipo(none, 3.0, draw, {}, base::RandomStream(7, "explore/coin", j), base::StopToken()).value();
    EXPECT_EQ(proposal.draw, 0u);
    EXPECT_EQ(proposal.draws, 1);
    EXPECT_TRUE(proposal.accepted);
    EXPECT_EQ(taken, ExplorationPoint(encoding, 7, j));
  }
}

Eigen::VectorXd UniformDraw(uint64_t seed, uint64_t j, uint32_t i, int d) {
  base::RandomStream random(seed, "explore", j, i);
  VectorXd u(d);
  for (double& x : u) x = random.Uniform();
  return u;
}

TEST(Lipo, TakesTheFirstDrawThatCouldWinOrTheMostHopeful) {
  const MatrixXd u = (MatrixXd(1, 2) << 0.5, 0.5).finished();
  const LipschitzBounds bounds(u, VectorXd::Zero(1), 4.0);
  for (uint64_t j = 0; j < 50; ++j) {
    auto draw = [&](uint32_t i) { return UniformDraw(1, j, i, 2); };
    const LipoProposal one =
        ProposeLipo(bounds, 2.0, draw, {}, base::RandomStream(1, "coin", j), base::StopToken()).value();
    EXPECT_TRUE(one.accepted);
    EXPECT_EQ(static_cast<uint32_t>(one.draws), one.draw + 1);
    EXPECT_GE((one.u - u.row(0).transpose()).norm(), 0.5);
    for (uint32_t i = 0; i < one.draw; ++i) {
      EXPECT_LT((draw(i) - u.row(0).transpose()).norm(), 0.5);
    }
    // Nothing can win against 100.
    const LipoProposal cap =
        ProposeLipo(bounds, 100.0, draw, {.max_draws = 30}, base::RandomStream(1, "coin", j), base::StopToken())
            .value();
    EXPECT_FALSE(cap.accepted);
    EXPECT_EQ(cap.draws, 30);
    double farthest = 0.0;
    for (uint32_t i = 0; i < 30; ++i) farthest = std::max(farthest, (draw(i) - u.row(0).transpose()).norm());
    EXPECT_NEAR(cap.upper, 4.0 * farthest, 1e-12);
  }
}

TEST(Lipo, AdaptiveModeTakesATenthUnfiltered) {
  const LipschitzBounds bounds(VectorXd::Constant(1, 0.5).eval(), VectorXd::Zero(1), 1.0);
  int unfiltered = 0;
  for (uint64_t j = 0; j < 500; ++j) {
    auto draw = [&](uint32_t i) { return UniformDraw(2, j, i, 1); };
    const LipoProposal p = ProposeLipo(bounds, 100.0, draw, {.max_draws = 3, .unfiltered = 0.1},
                                       base::RandomStream(2, "coin", j), base::StopToken())
                               .value();
    if (p.accepted) {
      ++unfiltered;
      EXPECT_EQ(p.draw, 0u);
    }
  }
  EXPECT_NEAR(unfiltered, 50, 28);  // Four deviations.
}

TEST(Lipo, BeatsRandomSearchWithTheTrueConstant) {
  const VectorXd center = (VectorXd(2) << 0.31, 0.77).finished();
  auto f = [&](const VectorXd& u) { return -(u - center).lpNorm<1>(); };
  std::vector<double> lipo_errors, random_errors;
  for (uint64_t seed = 0; seed < 9; ++seed) {
    const int n = 60;
    MatrixXd u(n, 2);
    VectorXd y(n);
    double random_best = -kUnbounded;
    for (int j = 0; j < n; ++j) {
      auto draw = [&](uint32_t i) { return UniformDraw(seed, static_cast<uint64_t>(j), i, 2); };
      const LipschitzBounds bounds(u.topRows(j), y.head(j), std::sqrt(2.0));
      const double best = j == 0 ? 0.0 : y.head(j).maxCoeff();
      const LipoProposal p =
          ProposeLipo(bounds, best, draw, {}, base::RandomStream(seed, "coin"), base::StopToken()).value();
      u.row(j) = p.u.transpose();
      y(j) = f(p.u);
      random_best = std::max(random_best, f(draw(0)));
    }
    lipo_errors.push_back(-y.maxCoeff());
    random_errors.push_back(-random_best);
  }
  std::sort(lipo_errors.begin(), lipo_errors.end());
  std::sort(random_errors.begin(), random_errors.end());
  EXPECT_LT(lipo_errors[4], 0.2 * random_errors[4]) << lipo_errors[4] << " " << random_errors[4];
}

}  // namespace
}  // namespace luthier::search
