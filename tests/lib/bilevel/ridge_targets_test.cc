#include "lib/bilevel/ridge_targets.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/random.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kTargetRows = 60, kTargetCols = 7, kTargets = 3;

data::Dataset Generated(uint64_t seed) {
  notation::RegressionSpec spec;
  spec.rows = kTargetRows;
  spec.cols = kTargetCols;
  spec.informative = kTargetCols;
  spec.seed = seed;
  return data::Synthesize(spec).value();
}

LeastSquaresData RowsOf(const data::Dataset& dataset) {
  std::vector<int32_t> rows(kTargetRows);
  std::iota(rows.begin(), rows.end(), 0);
  return LeastSquaresData::Create(dataset, rows, data::Standardization(), 0.0, {}).value();
}

class RidgeTargetsTest : public ::testing::Test {
 protected:
  RidgeTargetsTest() : train_(RowsOf(dataset_)), held_out_(RowsOf(held_out_dataset_)) {
    base::RandomStream random(3, "targets");
    for (MatrixXd* y : {&y_, &held_out_y_}) {
      y->resize(kTargetRows, kTargets);
      for (Index i = 0; i < y->size(); ++i) (*y)(i) = random.Normal();
    }
    gram_ = train_.Gram({}).value();
    product_ = MultiplyTargetsTransposed(train_, y_, {}).value();
    for (Index j = 0; j < kTargetCols; ++j) l2_[j] = std::pow(4.0, static_cast<double>(j) - 3.0);
  }
  RidgeTargetsFit Fit(const VectorXd& l2) const {
    return FitRidgeTargets(gram_, product_, l2, &held_out_, &held_out_y_, {}).value();
  }
  double Loss(const VectorXd& l2) const {
    return (held_out_.Dense(0, kTargetRows) * Fit(l2).weights - held_out_y_).squaredNorm() / (kTargetRows * kTargets);
  }

  const data::Dataset dataset_ = Generated(1), held_out_dataset_ = Generated(2);
  LeastSquaresData train_, held_out_;
  MatrixXd y_, held_out_y_, gram_, product_;
  VectorXd l2_ = VectorXd(kTargetCols);
};

TEST_F(RidgeTargetsTest, EachTargetIsRidgeByItself) {
  const RidgeTargetsFit fit = Fit(l2_);
  EXPECT_LT(fit.relative_gradient, 1e-13);
  // Least squares with a row for each penalty, by QR.
  MatrixXd a(kTargetRows + kTargetCols, kTargetCols);
  a << train_.Dense(0, kTargetRows), MatrixXd(l2_.cwiseSqrt().asDiagonal());
  for (Index t = 0; t < kTargets; ++t) {
    VectorXd b = VectorXd::Zero(kTargetRows + kTargetCols);
    b.head(kTargetRows) = y_.col(t);
    EXPECT_TRUE(fit.weights.col(t).isApprox(a.colPivHouseholderQr().solve(b), 1e-10)) << t;
  }
}

TEST_F(RidgeTargetsTest, GradientMatchesDifferences) {
  const VectorXd gradient = Fit(l2_).gradient;
  for (Index j = 0; j < kTargetCols; ++j) {
    VectorXd up = l2_, down = l2_;
    up[j] *= std::exp(1e-5);
    down[j] *= std::exp(-1e-5);
    EXPECT_NEAR(gradient[j], (Loss(up) - Loss(down)) / 2e-5, 1e-9) << j;
  }
}

TEST_F(RidgeTargetsTest, SaysWhereThereIsNoSolution) {
  MatrixXd alike = gram_;
  alike.col(1) = alike.col(0);
  alike.row(1) = alike.row(0);
  alike(1, 1) = alike(0, 0);
  EXPECT_TRUE(FitRidgeTargets(alike, product_, VectorXd::Constant(kTargetCols, 1e-20), nullptr, nullptr, {})->singular);
  EXPECT_FALSE(FitRidgeTargets(alike, product_, l2_, nullptr, nullptr, {})->singular);
}

}  // namespace
}  // namespace luthier::bilevel
