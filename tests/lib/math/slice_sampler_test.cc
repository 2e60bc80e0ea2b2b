#include "lib/math/slice_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/math/infinity.h"

namespace luthier::math {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

class SliceSamplerTest : public testing::TestWithParam<SliceExpansion> {
 protected:
  SliceOptions Options() const {
    SliceOptions options;
    options.expansion = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Expansions, SliceSamplerTest,
                         testing::Values(SliceExpansion::kLinear, SliceExpansion::kDoubling), [](const auto& test) {
                           return test.param == SliceExpansion::kLinear ? "linear" : "doubling";
                         });

TEST_P(SliceSamplerTest, DrawsAWideNormal) {
  const auto density = [](const VectorXd& x) { return -0.5 * std::pow((x(0) + 1.0) / 4.0, 2); };
  base::RandomStream stream(1, "slice test");
  SliceState state;
  SliceCounts counts;
  ASSERT_TRUE(StartSlice(density, VectorXd::Constant(1, 3.0), &state, &counts).value());
  double sum = 0.0, squares = 0.0;
  const int n = 10000;
  for (int i = 0; i < n; ++i) {
    EXPECT_TRUE(SliceCoordinates(density, {0}, Options(), stream, &state, &counts).ok());
    EXPECT_EQ(state.log_density, density(state.x));
    sum += state.x(0);
    squares += state.x(0) * state.x(0);
  }
  EXPECT_NEAR(sum / n, -1.0, 0.25);
  EXPECT_NEAR(std::sqrt(squares / n - std::pow(sum / n, 2)), 4.0, 0.25);
  EXPECT_EQ(counts.kept, 0);
  EXPECT_LT(counts.evaluations, 25 * n);
}

TEST_P(SliceSamplerTest, DrawsACorrelatedNormalBothWays) {
  MatrixXd covariance(2, 2);
  covariance << 1.0, 0.8, 0.8, 2.0;
  const MatrixXd precision = covariance.inverse();
  const auto density = [&](const VectorXd& x) { return -0.5 * x.dot(precision * x); };
  for (const bool joint : {false, true}) {
    base::RandomStream stream(2, "slice test", joint);
    SliceState state;
    SliceCounts counts;
    ASSERT_TRUE(StartSlice(density, VectorXd::Zero(2), &state, &counts).value());
    MatrixXd second = MatrixXd::Zero(2, 2);
    const int n = 40000;
    for (int i = 0; i < n; ++i) {
      if (joint) {
        EXPECT_TRUE(SliceRandomDirection(density, {0, 1}, Options(), stream, &state, &counts).ok());
      } else {
        EXPECT_TRUE(SliceCoordinates(density, {0, 1}, Options(), stream, &state, &counts).ok());
      }
      second += state.x * state.x.transpose() / n;
    }
    EXPECT_LT((second - covariance).cwiseAbs().maxCoeff(), 0.1) << "joint " << joint << "\n" << second;
  }
}

TEST_P(SliceSamplerTest, DrawsUniformlyWithinBounds) {
  const auto density = [](const VectorXd& x) { return x(0) > 2.0 && x(0) < 2.5 ? 0.0 : -kInfinity; };
  base::RandomStream stream(3, "slice test");
  SliceState state;
  SliceCounts counts;
  ASSERT_TRUE(StartSlice(density, VectorXd::Constant(1, 2.01), &state, &counts).value());
  std::vector<double> draws;
  for (int i = 0; i < 4000; ++i) {
    EXPECT_TRUE(SliceCoordinates(density, {0}, Options(), stream, &state, &counts).ok());
    draws.push_back((state.x(0) - 2.0) / 0.5);
  }
  // Kolmogorov-Smirnov against the uniform; draws are independent when the first interval covers the slice.
  std::sort(draws.begin(), draws.end());
  double distance = 0.0;
  for (size_t i = 0; i < draws.size(); ++i) {
    distance = std::max(
        {distance, draws[i] - static_cast<double>(i) / 4000.0, static_cast<double>(i + 1) / 4000.0 - draws[i]});
  }
  EXPECT_LT(distance * std::sqrt(4000.0), 2.2);  // p = 1e-4.
}

// Two separated modes: doubling crosses the gap, and without the acceptability test their weights would be wrong.
TEST(SliceSampler, DoublingKeepsTheWeightsOfSeparatedModes) {
  const auto density = [](const VectorXd& x) {
    return std::log(0.25 * std::exp(-8.0 * std::pow(x(0) + 1.0, 2)) + 0.75 * std::exp(-8.0 * std::pow(x(0) - 1.0, 2)));
  };
  SliceOptions options;
  options.expansion = SliceExpansion::kDoubling;
  base::RandomStream stream(4, "slice test");
  SliceState state;
  SliceCounts counts;
  ASSERT_TRUE(StartSlice(density, VectorXd::Constant(1, 1.0), &state, &counts).value());
  int right = 0, moves = 0;
  const int n = 100000;
  double last = 1.0;
  for (int i = 0; i < n; ++i) {
    EXPECT_TRUE(SliceCoordinates(density, {0}, options, stream, &state, &counts).ok());
    right += state.x(0) > 0.0;
    moves += (state.x(0) > 0.0) != (last > 0.0);
    last = state.x(0);
  }
  EXPECT_GT(moves, 500);
  EXPECT_NEAR(static_cast<double>(right) / n, 0.75, 0.03);
}

TEST_P(SliceSamplerTest, MovesOnlyTheBlock) {
  const auto density = [](const VectorXd& x) { return -0.5 * x.squaredNorm(); };
  base::RandomStream stream(5, "slice test");
  SliceState state;
  SliceCounts counts;
  ASSERT_TRUE(StartSlice(density, VectorXd::Constant(4, 0.25), &state, &counts).value());
  EXPECT_TRUE(SliceRandomDirection(density, {1, 3}, Options(), stream, &state, &counts).ok());
  EXPECT_TRUE(SliceCoordinates(density, {3}, Options(), stream, &state, &counts).ok());
  EXPECT_EQ(state.x(0), 0.25);
  EXPECT_EQ(state.x(2), 0.25);
  EXPECT_NE(state.x(1), 0.25);
  EXPECT_NE(state.x(3), 0.25);
}

TEST_P(SliceSamplerTest, KeepsTheOldPointWhenTheSliceCannotBeHit) {
  // The support is one point: what happens when new data make the warm start the only legal state.
  const auto density = [](const VectorXd& x) { return x(0) == 0.5 ? 0.0 : std::nan(""); };
  base::RandomStream stream(6, "slice test");
  SliceState state;
  SliceCounts counts;
  ASSERT_TRUE(StartSlice(density, VectorXd::Constant(1, 0.5), &state, &counts).value());
  EXPECT_TRUE(SliceCoordinates(density, {0}, Options(), stream, &state, &counts).ok());
  EXPECT_EQ(state.x(0), 0.5);
  EXPECT_EQ(state.log_density, 0.0);
  EXPECT_EQ(counts.kept, 1);
  EXPECT_LE(counts.evaluations, 100);
}

TEST(SliceSampler, RefusesAStartOutsideTheSupport) {
  SliceState state;
  SliceCounts counts;
  EXPECT_FALSE(StartSlice([](const VectorXd&) { return -kInfinity; }, VectorXd::Zero(1), &state, &counts).value());
  EXPECT_FALSE(StartSlice([](const VectorXd&) { return kInfinity; }, VectorXd::Zero(1), &state, &counts).value());
  EXPECT_FALSE(StartSlice([](const VectorXd&) { return std::nan(""); }, VectorXd::Zero(1), &state, &counts).value());
  EXPECT_EQ(counts.evaluations, 3);
}

TEST_P(SliceSamplerTest, BoundsItsWorkOnAFlatDensity) {
  base::RandomStream stream(7, "slice test");
  SliceState state;
  SliceCounts counts;
  const auto density = [](const VectorXd&) { return 0.0; };
  ASSERT_TRUE(StartSlice(density, VectorXd::Zero(1), &state, &counts).value());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(SliceCoordinates(density, {0}, Options(), stream, &state, &counts).ok());
    ASSERT_TRUE(state.x.allFinite());
  }
  EXPECT_LE(counts.evaluations, 100 * 100);
}

TEST_P(SliceSamplerTest, SameStreamSameChain) {
  const auto density = [](const VectorXd& x) { return -x.array().abs().sum(); };
  std::vector<VectorXd> ends;
  for (int run = 0; run < 2; ++run) {
    base::RandomStream stream(8, "slice test");
    SliceState state;
    SliceCounts counts;
    StartSlice(density, VectorXd::Zero(3), &state, &counts).value();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(SliceRandomDirection(density, {0}, Options(), stream, &state, &counts).ok());
      EXPECT_TRUE(SliceCoordinates(density, {1, 2}, Options(), stream, &state, &counts).ok());
    }
    ends.push_back(state.x);
  }
  EXPECT_EQ(ends[0], ends[1]);
}

}  // namespace
}  // namespace luthier::math
