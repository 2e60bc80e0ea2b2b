#include "lib/bilevel/ridge_criterion.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/data/synth.h"
#include "lib/math/cholesky_reverse.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kCriterionRows = 70, kCols = 9;

// Generated rows, standardized and centred, with one penalty for each column.
class RidgeCriterionTest : public ::testing::Test {
 protected:
  RidgeCriterionTest() {
    notation::RegressionSpec spec;
    spec.rows = kCriterionRows;
    spec.cols = kCols;
    spec.waves = 0.5;
    const data::Dataset& dataset = dataset_ = data::Synthesize(spec).value();
    std::vector<int32_t> rows(kCriterionRows);
    std::iota(rows.begin(), rows.end(), 0);
    double mean = 0.0;
    for (const double y : dataset.target) mean += y / kCriterionRows;
    data_ =
        LeastSquaresData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), mean, {}).value();
    gram_ = data_.Gram({}).value();
    groups_.count = kCols;
    groups_.column.resize(kCols);
    std::iota(groups_.column.begin(), groups_.column.end(), 0);
  }

  VectorXd Weights(const VectorXd& l2) const {
    MatrixXd h = gram_;
    h.diagonal() += l2;
    return h.llt().solve(data_.Dense(0, kCriterionRows).transpose() * data_.target());
  }

  RidgeCriterionValue Evaluate(RidgeCriterion criterion, const VectorXd& l2, bool intercept, bool gradient) const {
    MatrixXd h = gram_;
    h.diagonal() += l2;
    const math::Cholesky factor = *math::Cholesky::Factor(h, {}, {}).value();
    return EvaluateCriterion(criterion, {data_, l2, groups_, intercept, gradient}, factor, Weights(l2), {}).value();
  }

  VectorXd L2() const {
    VectorXd l2(kCols);
    for (Index j = 0; j < kCols; ++j) l2[j] = std::pow(3.0, static_cast<double>(j % 5) - 1.0);
    return l2;
  }

  data::Dataset dataset_;
  LeastSquaresData data_;
  MatrixXd gram_;
  ColumnPenalties groups_;
};

// Mean squared error of models each trained without one row, by least squares on the rows and the penalties' roots.
double WithoutEachRow(const MatrixXd& x, const VectorXd& y, const VectorXd& l2, bool intercept) {
  double sum = 0.0;
  const Index n = x.rows(), p = x.cols();
  for (Index i = 0; i < n; ++i) {
    MatrixXd a = MatrixXd::Zero(n - 1 + p, p + 1);
    VectorXd b = VectorXd::Zero(n - 1 + p);
    Index at = 0;
    for (Index k = 0; k < n; ++k) {
      if (k == i) continue;
      a.row(at).head(p) = x.row(k);
      a(at, p) = intercept ? 1.0 : 0.0;
      b[at++] = y[k];
    }
    for (Index j = 0; j < p; ++j) a(n - 1 + j, j) = std::sqrt(l2[j]);
    const VectorXd w = a.completeOrthogonalDecomposition().solve(b);
    sum += std::pow(y[i] - x.row(i).dot(w.head(p)) - (intercept ? w[p] : 0.0), 2);
  }
  return sum / static_cast<double>(n);
}

TEST_F(RidgeCriterionTest, LeaveOneOutIsTheErrorOfModelsWithoutARow) {
  const MatrixXd x = data_.Dense(0, kCriterionRows);
  for (const bool intercept : {true, false}) {
    const double expected = WithoutEachRow(x, data_.target(), L2(), intercept);
    EXPECT_NEAR(Evaluate(RidgeCriterion::kLeaveOneOut, L2(), intercept, false).value, expected, 1e-10 * expected);
  }
}

TEST_F(RidgeCriterionTest, GcvIsItsFormula) {
  const MatrixXd x = data_.Dense(0, kCriterionRows);
  MatrixXd h = gram_;
  h.diagonal() += L2();
  MatrixXd hat = x * h.inverse() * x.transpose();
  hat.array() += 1.0 / kCriterionRows;
  const VectorXd residual = data_.target() - x * Weights(L2());
  const double expected = residual.squaredNorm() / kCriterionRows / std::pow(1.0 - hat.trace() / kCriterionRows, 2);
  const RidgeCriterionValue got = Evaluate(RidgeCriterion::kGcv, L2(), true, false);
  EXPECT_NEAR(got.value, expected, 1e-10 * expected);
  EXPECT_NEAR(got.degrees_of_freedom, hat.trace(), 1e-10);
}

TEST_F(RidgeCriterionTest, GradientsAgreeWithDifferences) {
  for (const RidgeCriterion criterion : {RidgeCriterion::kLeaveOneOut, RidgeCriterion::kGcv}) {
    for (const bool intercept : {true, false}) {
      const VectorXd gradient = Evaluate(criterion, L2(), intercept, true).gradient;
      ASSERT_EQ(gradient.size(), kCols);
      for (Index j = 0; j < kCols; ++j) {
        VectorXd up = L2(), down = L2();
        up[j] *= std::exp(1e-5);
        down[j] *= std::exp(-1e-5);
        const double difference =
            (Evaluate(criterion, up, intercept, false).value - Evaluate(criterion, down, intercept, false).value) /
            2e-5;
        EXPECT_NEAR(gradient[j], difference, 1e-7 * gradient.norm()) << j;
      }
    }
  }
}

// The same gradient through Cholesky's factor: S_ii = |v_i|^2 with V = L^-1 X~', and w = L^-T V y.
TEST_F(RidgeCriterionTest, GradientsAgreeWithBackPropagationThroughTheFactor) {
  const VectorXd l2 = L2();
  const MatrixXd x = data_.Dense(0, kCriterionRows);
  MatrixXd h = gram_;
  h.diagonal() += l2;
  const MatrixXd l = h.llt().matrixL();
  MatrixXd v = x.transpose();
  l.triangularView<Eigen::Lower>().solveInPlace(v);
  const VectorXd u = v * data_.target();
  const VectorXd w = l.transpose().triangularView<Eigen::Upper>().solve(u);
  const Eigen::ArrayXd r = (data_.target() - x * w).array();
  const Eigen::ArrayXd left = 1.0 - v.colwise().squaredNorm().transpose().array();
  const VectorXd w_bar = -x.transpose() * (2.0 / kCriterionRows * r / left.square()).matrix();
  MatrixXd l_bar = MatrixXd::Zero(kCols, kCols);
  const VectorXd u_bar = math::ReverseSolveLowerTransposed(l, w, w_bar, &l_bar);
  const Eigen::ArrayXd hat_bar = 2.0 / kCriterionRows * r.square() / left.cube();
  const MatrixXd v_bar = 2.0 * v * hat_bar.matrix().asDiagonal() + u_bar * data_.target().transpose();
  math::ReverseSolveLower(l, v, v_bar, &l_bar);
  const VectorXd expected = math::ReverseCholesky(l, l_bar, {}).value().diagonal().cwiseProduct(l2);
  const VectorXd got = Evaluate(RidgeCriterion::kLeaveOneOut, l2, false, true).gradient;
  EXPECT_LT((got - expected).norm(), 1e-10 * expected.norm());
}

// Fewer rows than columns, and penalties down to where the Gram matrix' factor has lost all digits.
class FewRowsTest : public ::testing::Test {
 protected:
  static constexpr int kFewRows = 30, kManyCols = 60;
  // Columns are centred here. Without an intercept the mean of the targets is then left, and beside it, at a smaller
  // penalty, the rest of a residual is rounding.
  static constexpr double kLeastWithoutIntercept = 1e-4;
  FewRowsTest() {
    notation::RegressionSpec spec;
    spec.rows = kFewRows;
    spec.cols = kManyCols;
    const data::Dataset& dataset = dataset_ = data::Synthesize(spec).value();
    std::vector<int32_t> rows(kFewRows);
    std::iota(rows.begin(), rows.end(), 0);
    double mean = 0.0;
    for (const double y : dataset.target) mean += y / kFewRows;
    data_ =
        LeastSquaresData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), mean, {}).value();
    groups_.count = 2;
    for (int j = 0; j < kManyCols; ++j) groups_.column.push_back(j % 3 == 0 ? 1 : 0);
  }
  VectorXd L2(double first, double second) const {
    VectorXd l2(kManyCols);
    for (Index j = 0; j < kManyCols; ++j) l2[j] = groups_.column[static_cast<size_t>(j)] == 0 ? first : second;
    return l2;
  }
  RidgeCriterionValue Evaluate(RidgeCriterion criterion, const VectorXd& l2, bool intercept) const {
    return *EvaluateCriterionByRows(criterion, {data_, l2, groups_, intercept},
                                    data_.Kernel(l2.cwiseInverse(), {}).value(), {})
                .value();
  }

  data::Dataset dataset_;
  LeastSquaresData data_;
  ColumnPenalties groups_;
};

TEST_F(FewRowsTest, LeaveOneOutIsTheErrorOfModelsWithoutARow) {
  const MatrixXd x = data_.Dense(0, kFewRows);
  for (const bool intercept : {true, false}) {
    for (const double scale : {1e-8, 1e-3, 1.0, 1e4}) {
      if (!intercept && scale < kLeastWithoutIntercept) continue;
      const VectorXd l2 = L2(scale, 3.0 * scale);
      const RidgeCriterionValue got = Evaluate(RidgeCriterion::kLeaveOneOut, l2, intercept);
      const double expected = WithoutEachRow(x, data_.target(), l2, intercept);
      EXPECT_NEAR(got.value, expected, 1e-6 * expected) << scale;
      VectorXd gradient = x.transpose() * (x * got.weights - data_.target()) + l2.cwiseProduct(got.weights);
      EXPECT_LE(gradient.norm(), 1e-10 * (x.transpose() * data_.target()).norm()) << scale;
    }
  }
}

TEST_F(FewRowsTest, GradientsAgreeWithDifferencesAtEveryStrength) {
  for (const RidgeCriterion criterion : {RidgeCriterion::kLeaveOneOut, RidgeCriterion::kGcv}) {
    for (const bool intercept : {true, false}) {
      for (double scale = intercept ? 1e-12 : kLeastWithoutIntercept; scale < 1e7; scale *= 100.0) {
        const RidgeCriterionValue at = Evaluate(criterion, L2(scale, 3.0 * scale), intercept);
        const double h = 1e-4, up = std::exp(h), down = std::exp(-h);
        for (int g = 0; g < 2; ++g) {
          const auto value = [&](double by) {
            return Evaluate(criterion, g == 0 ? L2(scale * by, 3.0 * scale) : L2(scale, 3.0 * scale * by), intercept)
                .value;
          };
          EXPECT_NEAR(at.gradient[g], (value(up) - value(down)) / (2.0 * h), 1e-6 * at.value) << scale << " " << g;
        }
      }
    }
  }
}

TEST_F(FewRowsTest, BothWaysAgreeWhereThePenaltiesAreLarge) {
  const VectorXd l2 = L2(2.0, 0.7);
  MatrixXd h = data_.Gram({}).value();
  h.diagonal() += l2;
  const math::Cholesky factor = *math::Cholesky::Factor(h, {}, {}).value();
  for (const RidgeCriterion criterion : {RidgeCriterion::kLeaveOneOut, RidgeCriterion::kGcv}) {
    const RidgeCriterionValue by_rows = Evaluate(criterion, l2, true);
    const RidgeCriterionValue by_columns =
        EvaluateCriterion(criterion, {data_, l2, groups_}, factor, by_rows.weights, {}).value();
    EXPECT_NEAR(by_rows.value, by_columns.value, 1e-10 * by_columns.value);
    EXPECT_NEAR(by_rows.degrees_of_freedom, by_columns.degrees_of_freedom, 1e-9);
    EXPECT_TRUE(by_rows.gradient.isApprox(by_columns.gradient, 1e-9));
  }
}

}  // namespace
}  // namespace luthier::bilevel
