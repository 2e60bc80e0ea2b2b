#include "lib/linear/logistic_preconditioner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "lib/data/standardize.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

struct ShapeCase {
  ShapeCase(int rows, int cols, int classes, bool standardize, bool intercept)
      : dataset(
            data::Synthesize(notation::SynthSpec{.rows = rows, .cols = cols, .classes = classes, .seed = 4}).value()) {
    std::vector<int32_t> all(static_cast<size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    data::Standardization map;
    if (standardize) map = data::FitStandardization(dataset.x, all).value();
    data.emplace(LogisticData::Create(&dataset, all, map, intercept).value());
    w.resize(data->dim());
    for (Index j = 0; j < w.size(); ++j) w[j] = 0.3 * std::sin(static_cast<double>(j));
  }
  MatrixXd Hessian() const {
    const LogisticData::Curvature curvature = data->CurvatureAt(w).value();
    MatrixXd h(data->dim(), data->dim());
    for (Index j = 0; j < h.cols(); ++j) h.col(j) = data->HessianVector(curvature, VectorXd::Unit(h.cols(), j)).value();
    return h;
  }

  data::Dataset dataset;
  std::optional<LogisticData> data;
  VectorXd w;
};

// Numbers of classes whose sums fill one to eight registers, and more than there are.
TEST(LogisticClassesTest, DerivativesAgreeWithDifferencesForEveryNumberOfClasses) {
  for (const int classes : {2, 3, 4, 5, 8, 9, 13, 17, 21, 25, 28, 29, 33}) {
    for (const bool dense : {false, true}) {
      const ShapeCase c(80, 3, classes, dense, dense);
      VectorXd gradient, up, down;
      ASSERT_TRUE(c.data->Loss(c.w, &gradient).ok());
      const LogisticData::Curvature curvature = c.data->CurvatureAt(c.w).value();
      VectorXd v(c.w.size());
      for (Index j = 0; j < v.size(); ++j) v[j] = std::cos(1.7 * static_cast<double>(j));
      const double h = 1e-6;
      const double rise = c.data->Loss(c.w + h * v, &up).value() - c.data->Loss(c.w - h * v, &down).value();
      EXPECT_NEAR(gradient.dot(v), rise / (2.0 * h), 1e-5) << classes;
      const VectorXd product = c.data->HessianVector(curvature, v).value();
      EXPECT_TRUE(product.isApprox((up - down) / (2.0 * h), 1e-6)) << classes;
      EXPECT_TRUE(c.data->HessianDiagonal(curvature)->isApprox(c.Hessian().diagonal(), 1e-10)) << classes;
      double loss = 0.0;  // By definition, row by row.
      for (Index i = 0; i < 80; ++i) {
        const auto label = static_cast<Index>(c.dataset.label[static_cast<size_t>(i)]);
        loss -= classes == 2 ? std::log(label == 1 ? curvature.probability(0, i) : 1.0 - curvature.probability(0, i))
                             : std::log(curvature.probability(label, i));
      }
      EXPECT_NEAR(*c.data->Loss(c.w, nullptr), loss, 1e-9 * loss) << classes;
    }
  }
}

TEST(LogisticPreconditionerTest, WithAllRowsItIsTheHessian) {
  for (const bool standardize : {false, true}) {
    for (const bool intercept : {false, true}) {
      const ShapeCase c(300, 5, 4, standardize, intercept);
      VectorXd penalty = VectorXd::Zero(c.data->dim());
      penalty.head(c.data->penalized()).setLinSpaced(0.01, 0.5);
      const auto made = LogisticPreconditioner::Make(*c.data, c.data->CurvatureAt(c.w).value(), penalty, {}).value();
      ASSERT_TRUE(made.has_value());
      MatrixXd h = c.Hessian();
      h.diagonal() += penalty;
      const VectorXd x = VectorXd::LinSpaced(c.data->dim(), -1.0, 2.0);
      EXPECT_TRUE(made->Solve(h * x).isApprox(x, 1e-8)) << standardize << intercept;
    }
  }
}

TEST(LogisticPreconditionerTest, WithASampleItIsNearTheHessian) {
  const ShapeCase c(6000, 5, 4, false, false);
  const VectorXd penalty = VectorXd::Constant(c.data->dim(), 1e-3);
  const auto made = LogisticPreconditioner::Make(*c.data, c.data->CurvatureAt(c.w).value(), penalty, {}).value();
  ASSERT_TRUE(made.has_value());
  MatrixXd h = c.Hessian();
  h.diagonal() += penalty;
  const VectorXd x = VectorXd::LinSpaced(c.data->dim(), -1.0, 2.0);
  const VectorXd back = made->Solve(h * x);
  EXPECT_FALSE(back.isApprox(x, 1e-8));
  EXPECT_TRUE(back.isApprox(x, 0.3)) << back.transpose();
}

TEST(LogisticPreconditionerTest, IsSkippedWhereItWouldNotPay) {
  const auto made = [](const ShapeCase& c, double penalty) {
    return LogisticPreconditioner::Make(*c.data, c.data->CurvatureAt(c.w).value(),
                                        VectorXd::Constant(c.data->dim(), penalty), {})
        .value()
        .has_value();
  };
  EXPECT_FALSE(made(ShapeCase(100, 5, 2, false, false), 0.01));    // Two classes have solvers of their own.
  EXPECT_FALSE(made(ShapeCase(300, 5, 4, false, false), 1000.0));  // The penalty is nearly all of the Hessian.
  EXPECT_FALSE(made(ShapeCase(100, 900, 4, false, false), 0.01));  // 3,600 weights.
}

}  // namespace
}  // namespace luthier::linear
