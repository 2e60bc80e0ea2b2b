#include "lib/bilevel/weighted_ridge.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kRidgeRows = 100, kRidgeCols = 4;

// A series whose weights drift.
class WeightedRidgeTest : public ::testing::Test {
 protected:
  WeightedRidgeTest() {
    base::RandomStream random(1, "series");
    const auto draw = [&](Index rows, double from, double to, MatrixXd* x, VectorXd* y) {
      x->resize(rows, kRidgeCols);
      y->resize(rows);
      time_.resize(rows);
      for (Index t = 0; t < rows; ++t) {
        const double at = from + (to - from) * static_cast<double>(t) / static_cast<double>(rows - 1);
        for (Index j = 0; j < kRidgeCols; ++j) (*x)(t, j) = random.Normal();
        (*y)[t] = 0.5 + at * (*x)(t, 0) + (1.0 - at) * (*x)(t, 1) + 0.3 * random.Normal();
        time_[t] = at;
      }
    };
    draw(30, 1.0, 1.3, &held_out_, &held_out_target_);
    draw(kRidgeRows, 0.0, 1.0, &points_, &target_);
  }
  WeightedRidgeFit Fit(const VectorXd& l2, const Recency& recency, bool intercept) const {
    return WeightedRidge(&points_, &target_, &time_, intercept)
        .Fit(l2, recency, &held_out_, &held_out_target_, {})
        .value();
  }
  double Loss(const VectorXd& l2, const Recency& recency, bool intercept) const {
    const WeightedRidgeFit fit = Fit(l2, recency, intercept);
    return ((held_out_ * fit.weights).array() + fit.intercept - held_out_target_.array()).square().mean();
  }

  MatrixXd points_, held_out_;
  VectorXd target_, held_out_target_, time_;
};

TEST_F(WeightedRidgeTest, SolvesLeastSquaresOfWeightedRows) {
  const Recency recency{6.0, 0.4};
  const VectorXd l2 = Eigen::Vector4d(0.5, 1.0, 2.0, 4.0), u = RecencyWeights(time_, recency);
  EXPECT_NEAR(u.mean(), 1.0, 1e-14);
  EXPECT_LT(u[0], 0.2 * u[kRidgeRows - 1]);
  MatrixXd a = MatrixXd::Zero(kRidgeRows + kRidgeCols, kRidgeCols + 1);
  VectorXd b = VectorXd::Zero(kRidgeRows + kRidgeCols);
  a.topLeftCorner(kRidgeRows, kRidgeCols) = u.cwiseSqrt().asDiagonal() * points_;
  a.col(kRidgeCols).head(kRidgeRows) = u.cwiseSqrt();
  a.bottomLeftCorner(kRidgeCols, kRidgeCols) = l2.cwiseSqrt().asDiagonal();
  b.head(kRidgeRows) = u.cwiseSqrt().cwiseProduct(target_);
  const VectorXd expected = a.colPivHouseholderQr().solve(b);
  const WeightedRidgeFit fit = Fit(l2, recency, true);
  EXPECT_LT((fit.weights - expected.head(kRidgeCols)).norm(), 1e-10);
  EXPECT_NEAR(fit.intercept, expected[kRidgeCols], 1e-10);
}

TEST_F(WeightedRidgeTest, GradientsAgreeWithDifferences) {
  const VectorXd l2 = Eigen::Vector4d(0.5, 1.0, 2.0, 4.0);
  for (const Recency& recency : {Recency{6.0, 0.4}, Recency{0.5, 0.9}, Recency{40.0, 0.7}}) {
    for (const bool intercept : {true, false}) {
      const VectorXd gradient = Fit(l2, recency, intercept).gradient;
      ASSERT_EQ(gradient.size(), kRidgeCols + 2);
      const double h = 1e-5, tolerance = 1e-6 * gradient.norm();
      for (Index j = 0; j < kRidgeCols; ++j) {
        VectorXd up = l2, down = l2;
        up[j] *= std::exp(h);
        down[j] *= std::exp(-h);
        EXPECT_NEAR(gradient[j], (Loss(up, recency, intercept) - Loss(down, recency, intercept)) / (2 * h), tolerance);
      }
      const auto loss = [&](double slope, double center) { return Loss(l2, {slope, center}, intercept); };
      const double a = recency.slope, c = recency.center;
      EXPECT_NEAR(gradient[kRidgeCols], (loss(a * std::exp(h), c) - loss(a * std::exp(-h), c)) / (2 * h), tolerance);
      EXPECT_NEAR(gradient[kRidgeCols + 1], (loss(a, c + h) - loss(a, c - h)) / (2 * h), tolerance);
    }
  }
}

TEST_F(WeightedRidgeTest, RecentRowsHelpWhereTheSeriesDrifts) {
  const VectorXd l2 = VectorXd::Constant(kRidgeCols, 0.1);
  EXPECT_LT(Loss(l2, {10.0, 0.6}, true), 0.8 * Loss(l2, {0.0, 0.5}, true));
}

TEST_F(WeightedRidgeTest, SaysWhereItIsSingularAndStops) {
  MatrixXd twice(kRidgeRows, 2);
  twice << points_.col(0), points_.col(0);
  const WeightedRidge ridge(&twice, &target_, &time_, true);
  EXPECT_TRUE(ridge.Fit(VectorXd::Constant(2, 1e-300), {1.0, 0.5}, nullptr, nullptr, {})->singular);
  base::StopSource source;
  source.RequestStop();
  EXPECT_TRUE(absl::IsCancelled(ridge.Fit(VectorXd::Ones(2), {1.0, 0.5}, nullptr, nullptr, source.token()).status()));
}

}  // namespace
}  // namespace luthier::bilevel
