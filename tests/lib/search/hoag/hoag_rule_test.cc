#include "lib/search/hoag/hoag_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/base/random.h"

namespace luthier::search {
namespace {

using Eigen::VectorXd;
using study::HoagOptions;
using study::HoagSequence;

VectorXd Point(std::initializer_list<double> values) {
  VectorXd v(static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), v.begin());
  return v;
}

HoagResult Result(double value, VectorXd gradient) {
  return {.value = value, .gradient = std::move(gradient), .tolerance = 0.0, .outer_gradient_norm = 0.0};
}

HoagOptions Exact() {
  HoagOptions options;
  options.sequence = HoagSequence::kExact;
  return options;
}

TEST(HoagRuleTest, TolerancesAreThePapersSequences) {
  EXPECT_DOUBLE_EQ(HoagTolerance(HoagSequence::kExponential, 0.1, 1), 0.1);
  EXPECT_DOUBLE_EQ(HoagTolerance(HoagSequence::kExponential, 0.1, 3), 0.1 * 0.81);
  EXPECT_DOUBLE_EQ(HoagTolerance(HoagSequence::kQuadratic, 0.1, 4), 0.1 / 16);
  EXPECT_DOUBLE_EQ(HoagTolerance(HoagSequence::kCubic, 0.1, 2), 0.1 / 8);
  EXPECT_EQ(HoagTolerance(HoagSequence::kExact, 0.1, 7), 0.0);
  EXPECT_EQ(HoagTolerance(HoagSequence::kExponential, 0.1, 100000), 1e-12);
}

TEST(HoagRuleTest, TheFirstStepHasLengthOneAndStaysInTheBox) {
  HoagChain chain(Exact(), Point({5, 5}), Point({0, 0}), Point({10, 5.1}));
  chain.Tell(Result(2.0, Point({3, -4})));
  // L = |p| = 5: the step is (-0.6, 0.8), of which the second coordinate is cut at the box.
  EXPECT_NEAR(chain.point()[0], 4.4, 1e-15);
  EXPECT_NEAR(chain.point()[1], 5.1, 1e-15);
  EXPECT_EQ(chain.k(), 2);
  EXPECT_DOUBLE_EQ(chain.inverse_step(), 5.0);
}

TEST(HoagRuleTest, TheStepAdaptsToWhatWasGained) {
  // From L = 1 at 0: the point is -1. A decrease of more than L/2 lets the step grow, a smaller one halves it.
  for (const auto& [value, factor] : {std::pair(-0.6, 1 / 1.05), {-0.4, 2.0}}) {
    HoagChain chain(Exact(), Point({0}), Point({-10}), Point({10}), HoagVersion::kStepSize);
    chain.Tell(Result(0.0, Point({1})));
    ASSERT_DOUBLE_EQ(chain.point()[0], -1.0);
    chain.Tell(Result(value, Point({1})));
    EXPECT_DOUBLE_EQ(chain.inverse_step(), factor) << value;
    EXPECT_NEAR(chain.point()[0], -1.0 - 1.0 / factor, 1e-12);
  }
}

TEST(HoagRuleTest, TolerancesAllowForTheirErrors) {
  // With C = 1.1 * 1, epsilon = 0.1 both times and a length of 1: -0.4 <= 0 + 0.11 + 0.1 (1.1 + 1) - 0.5 does not hold,
  // -0.2 even less; 0.0 would fail without tolerances, and -0.185 just holds.
  for (const auto& [value, factor] : {std::pair(-0.185, 1 / 1.05), {-0.17, 2.0}}) {
    HoagOptions options;
    HoagChain chain(options, Point({0}), Point({-10}), Point({10}), HoagVersion::kStepSize);
    EXPECT_DOUBLE_EQ(chain.tolerance(), 0.1);
    HoagResult first = Result(0.0, Point({1}));
    first.tolerance = 0.1;
    first.outer_gradient_norm = 1.0;
    chain.Tell(first);
    EXPECT_DOUBLE_EQ(chain.tolerance(), 0.09);
    HoagResult second = first;
    second.value = value;
    chain.Tell(second);
    EXPECT_DOUBLE_EQ(chain.inverse_step(), factor) << value;
  }
}

TEST(HoagRuleTest, AWorseValueIsRejectedAndTheStepTakenAgainShorter) {
  HoagChain chain(HoagOptions(), Point({0}), Point({-10}), Point({10}), HoagVersion::kStepSize);
  chain.Tell(Result(1.0, Point({2})));
  ASSERT_DOUBLE_EQ(chain.point()[0], -1.0);
  const double planned = HoagTolerance(HoagSequence::kExponential, 0.1, 3);
  chain.Tell(Result(1.3, Point({-7})));  // Rises by more than a fifth.
  EXPECT_EQ(chain.rejected(), 1);
  EXPECT_DOUBLE_EQ(chain.point()[0], -0.5);
  EXPECT_DOUBLE_EQ(chain.tolerance(), planned / 2);
  chain.Fail();  // So does an evaluation without answer.
  EXPECT_DOUBLE_EQ(chain.point()[0], -0.25);
}

TEST(HoagRuleTest, BacktrackingTakesStepsUntilTheyLowerTheValueEnough) {
  HoagOptions options = study::HoagOptionsFor(study::HoagPreset::kProjectedGradient);
  EXPECT_EQ(options.sequence, HoagSequence::kExact);
  HoagChain chain(options, Point({4}), Point({-10}), Point({10}));
  // f = 2 x^2: f(4) = 32, f' = 16; the first step has length 1.
  chain.Tell(Result(32.0, Point({16})));
  EXPECT_DOUBLE_EQ(chain.point()[0], 3.0);
  EXPECT_EQ(chain.tolerance(), 0.0);
  // Less by 16e-4 is not enough by a hair; then half the step is.
  chain.Tell(Result(32.0 - 15e-4, Point({12})));
  EXPECT_EQ(chain.rejected(), 1);
  EXPECT_DOUBLE_EQ(chain.point()[0], 3.5);
  chain.Tell(Result(24.5, Point({14})));
  EXPECT_EQ(chain.rejected(), 1);
  EXPECT_DOUBLE_EQ(chain.inverse_step(), 16.0);  // 16, 32 after the rejection, halved after the success.
  EXPECT_DOUBLE_EQ(chain.point()[0], 3.5 - 14.0 / 16.0);
}

TEST(HoagRuleTest, BacktrackingConverges) {
  HoagChain chain(study::HoagOptionsFor(study::HoagPreset::kProjectedGradient), Point({4, -3, 9}), Point({-10, -10, 1}),
                  Point({10, 10, 10}));
  const VectorXd scale = Point({1.0, 30.0, 5.0});
  for (int k = 0; k < 400 && !chain.ended(); ++k) {
    const VectorXd x = chain.point();
    chain.Tell(Result(0.5 * scale.dot(x.cwiseAbs2()), scale.cwiseProduct(x)));
  }
  EXPECT_TRUE(chain.ended());
  EXPECT_NEAR(chain.best(), 2.5, 1e-4);  // The third coordinate ends at its bound 1.
}

TEST(HoagRuleTest, StepsAreCapped) {
  for (const HoagVersion version : {HoagVersion::kStepSize, HoagVersion::kCurvature}) {
    HoagChain chain(Exact(), Point({0}), Point({-100}), Point({100}), version);
    chain.Tell(Result(0.0, Point({1e-3})));
    double at = 0.0;
    for (int k = 0; k < 40; ++k) {
      EXPECT_LE(std::abs(chain.point()[0] - at), 2.0 + 1e-12);
      at = chain.point()[0];
      chain.Tell(Result(-100.0 * (k + 1), Point({1e-3})));
    }
    EXPECT_LT(at, -20.0);
  }
}

TEST(HoagRuleTest, WithOneCoordinateTheStepIsTheSecants) {
  // f = 3 (x - 0.7)^2: from 0 to 1, which is beyond the minimum but not by 0.8 of the slope, then right on it.
  const auto at = [](double x) { return Result(3.0 * std::pow(x - 0.7, 2), Point({6.0 * (x - 0.7)})); };
  HoagChain chain(Exact(), Point({0}), Point({-10}), Point({10}));
  chain.Tell(at(0.0));
  ASSERT_DOUBLE_EQ(chain.point()[0], 1.0);
  chain.Tell(at(1.0));
  EXPECT_NEAR(chain.point()[0], 0.7, 1e-15);
  EXPECT_NEAR(chain.inverse_step(), 6.0, 1e-14);
  EXPECT_EQ(chain.rejected(), 0);
  chain.Tell(at(chain.point()[0]));
  EXPECT_TRUE(chain.ended());
}

TEST(HoagRuleTest, AStepThatGoesFarBeyondIsTakenAgainShorter) {
  // The slope turns from -1 to 9: the secant's minimum lies a tenth of the way.
  HoagChain chain(HoagOptions(), Point({0}), Point({-10}), Point({10}));
  chain.Tell(Result(1.0, Point({-1})));
  ASSERT_DOUBLE_EQ(chain.point()[0], 1.0);
  chain.Tell(Result(5.0, Point({9})));
  EXPECT_EQ(chain.rejected(), 1);
  EXPECT_NEAR(chain.point()[0], 0.1, 1e-15);
  EXPECT_EQ(chain.best(), 1.0);
  chain.Fail();  // An evaluation without answer halves the step.
  EXPECT_NEAR(chain.point()[0], 0.05, 1e-15);
  // A value that rises although the slope still falls is beyond a hill.
  HoagChain hill(HoagOptions(), Point({0}), Point({-10}), Point({10}));
  hill.Tell(Result(1.0, Point({-1})));
  hill.Tell(Result(3.0, Point({-1.5})));
  EXPECT_EQ(hill.rejected(), 1);
  EXPECT_NEAR(hill.point()[0], 0.5, 1e-15);
}

TEST(HoagRuleTest, StepsDoubleWhereTheGradientDoesNotGrow) {
  // f = -x^2 / 20 - x / 100: steps of 0.25 and twice that; then of 2, the most.
  const auto at = [](double x) { return Result(-x * x / 20 - x / 100, Point({-x / 10 - 0.01})); };
  HoagChain chain(Exact(), Point({0}), Point({-100}), Point({100}));
  chain.Tell(at(0.0));
  EXPECT_NEAR(chain.point()[0], 1.0, 1e-15);
  chain.Tell(at(1.0));
  EXPECT_NEAR(chain.point()[0], 3.0, 1e-15);
  chain.Tell(at(3.0));
  EXPECT_NEAR(chain.point()[0], 5.0, 1e-15);
}

TEST(HoagRuleTest, TolerancesFollowTheGradient) {
  HoagChain chain(HoagOptions(), Point({0}), Point({-10}), Point({10}));
  EXPECT_DOUBLE_EQ(chain.tolerance(), 0.1);
  chain.Tell(Result(1.0, Point({-1})));
  EXPECT_DOUBLE_EQ(chain.tolerance(), 0.09);
  chain.Tell(Result(0.5, Point({-0.02})));
  EXPECT_DOUBLE_EQ(chain.tolerance(), 0.1 * 0.02);
  HoagChain exact(Exact(), Point({0}), Point({-10}), Point({10}));
  exact.Tell(Result(1.0, Point({-1})));
  EXPECT_EQ(exact.tolerance(), 0.0);
}

// Minimum of (x - c)' A (x - c) / 2 over a box, by cyclic exact minimization of one coordinate.
VectorXd BoxMinimum(const Eigen::MatrixXd& a, const VectorXd& c, double lower, double upper) {
  VectorXd x = VectorXd::Zero(c.size());
  for (int sweep = 0; sweep < 20000; ++sweep) {
    for (Eigen::Index i = 0; i < c.size(); ++i) {
      const double slope = a.row(i).dot(x - c);
      x[i] = std::clamp(x[i] - slope / a(i, i), lower, upper);
    }
  }
  return x;
}

TEST(HoagRuleTest, CurvatureFindsTheMinimumInABoxInFewEvaluations) {
  constexpr int kDim = 12;
  for (int seed = 1; seed <= 20; ++seed) {
    base::RandomStream random(static_cast<uint64_t>(seed), "hoag/box");
    Eigen::MatrixXd root(kDim, kDim);
    VectorXd c(kDim);
    for (double& x : root.reshaped()) x = random.Normal();
    for (double& x : c) x = random.Normal();
    const Eigen::MatrixXd a = root.transpose() * root / kDim + 0.1 * Eigen::MatrixXd::Identity(kDim, kDim);
    const auto f = [&](const VectorXd& x) { return 0.5 * (x - c).dot(a * (x - c)); };
    HoagOptions options = Exact();
    options.stop = 0.0;
    HoagChain chain(options, VectorXd::Zero(kDim), VectorXd::Constant(kDim, -0.5), VectorXd::Constant(kDim, 0.5));
    double least_x = INFINITY;
    for (int k = 0; k < 80 && !chain.ended(); ++k) {
      const VectorXd x = chain.point();
      least_x = std::min(least_x, f(x));
      chain.Tell(Result(f(x), a * (x - c)));
    }
    const double least = f(BoxMinimum(a, c, -0.5, 0.5));
    EXPECT_LE(least_x - least, 1e-6 * (f(VectorXd::Zero(kDim)) - least)) << seed;
  }
}

TEST(HoagRuleTest, EndsWhereNothingIsToBeGained) {
  HoagChain edge(Exact(), Point({0, 1}), Point({0, 0}), Point({1, 1}));
  edge.Tell(Result(0.0, Point({3, -2})));  // Leads out of the box at both.
  EXPECT_TRUE(edge.ended());
  HoagChain flat(Exact(), Point({0.5}), Point({0}), Point({1}));
  flat.Tell(Result(0.0, Point({0})));
  EXPECT_TRUE(flat.ended());
  HoagChain nothing(Exact(), Point({0.5}), Point({0}), Point({1}));
  nothing.Fail();
  EXPECT_TRUE(nothing.ended());
}

// g = |x - c|^2 / 2, h = (x - B lambda)' A (x - B lambda) / 2, so X = B lambda and f(lambda) = |B lambda - c|^2 / 2,
// whose gradient is B' (B lambda - c). Errors of length epsilon_k are added to x and to the gradient.
double MappingAfter(HoagSequence sequence, double constant_error, int evaluations, HoagVersion version) {
  base::RandomStream random(3, "hoag");
  constexpr int kDim = 4;
  Eigen::MatrixXd b(kDim, kDim);
  VectorXd c(kDim);
  for (double& x : b.reshaped()) x = random.Normal();
  for (double& x : c) x = 3.0 * random.Normal();
  HoagOptions options;
  options.sequence = sequence;
  options.stop = 0.0;
  HoagChain chain(options, VectorXd::Zero(kDim), VectorXd::Constant(kDim, -12), VectorXd::Constant(kDim, 12), version);
  const auto noise = [&](double length) {
    VectorXd v(kDim);
    for (double& x : v) x = random.Normal();
    return VectorXd(v * (length / v.norm()));
  };
  for (int k = 0; k < evaluations && !chain.ended(); ++k) {
    const double error = constant_error > 0.0 ? constant_error : chain.tolerance();
    const VectorXd x = b * chain.point() + noise(error);
    HoagResult result;
    result.value = 0.5 * (x - c).squaredNorm();
    result.gradient = b.transpose() * (x - c) + noise(error);
    result.tolerance = error;
    result.outer_gradient_norm = (x - c).norm();
    chain.Tell(result);
  }
  const VectorXd gradient = b.transpose() * (b * chain.point() - c);
  const VectorXd moved = (chain.point() - gradient).cwiseMax(-12).cwiseMin(12);
  return (moved - chain.point()).norm();
}

TEST(HoagRuleTest, ConvergesOnAQuadraticWhoseErrorsAreSummableAndStallsOtherwise) {
  const auto after = [](HoagSequence sequence, double constant_error) {
    return MappingAfter(sequence, constant_error, 3000, HoagVersion::kStepSize);
  };
  EXPECT_LT(after(HoagSequence::kExact, 0.0), 1e-3);
  EXPECT_LT(after(HoagSequence::kExponential, 0.0), 1e-3);
  EXPECT_LT(after(HoagSequence::kCubic, 0.0), 1e-2);
  EXPECT_GT(after(HoagSequence::kExact, 0.3), 1e-2);
}

TEST(HoagRuleTest, CurvatureConvergesOnAQuadraticInFewEvaluationsWhoseErrorsFollowTheGradient) {
  for (const HoagSequence sequence : {HoagSequence::kExact, HoagSequence::kExponential, HoagSequence::kCubic}) {
    EXPECT_LT(MappingAfter(sequence, 0.0, 60, HoagVersion::kCurvature), 1e-3) << static_cast<int>(sequence);
  }
  EXPECT_GT(MappingAfter(HoagSequence::kExact, 0.3, 60, HoagVersion::kCurvature), 1e-2);
}

}  // namespace
}  // namespace luthier::search
