#include "lib/bilevel/mlp.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/random.h"
#include "lib/bilevel/implicit_gradient.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kInputs = 4, kUnits = 3, kRows = 300;  // More rows than a strip.

class MlpTest : public ::testing::Test {
 protected:
  MlpTest() : shape_{kInputs, kUnits}, points_(Draw(kRows, 1)), held_out_(Draw(50, 2)) {
    target_ = Target(points_);
    held_out_target_ = Target(held_out_);
    groups_.count = kInputs;
    groups_.column.resize(kInputs);
    std::iota(groups_.column.begin(), groups_.column.end(), 0);
  }
  static MatrixXd Draw(Index rows, uint64_t seed) {
    base::RandomStream random(seed, "mlp test");
    MatrixXd points(rows, kInputs);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < kInputs; ++j) points(i, j) = random.Normal();
    }
    return points;
  }
  static VectorXd Target(const MatrixXd& x) {
    return x.col(0).array().sin() + 0.5 * x.col(1).array() * x.col(0).array() + 0.2 * (7.0 * x.col(2).array()).cos();
  }
  MlpInner Inner(const VectorXd& l2) const { return {shape_, &points_, &target_, groups_, l2, 0.3}; }
  VectorXd Weights() const {
    VectorXd x = StartMlp(shape_, 5);
    for (Index i = 0; i < x.size(); ++i) x[i] += 0.1 * std::sin(static_cast<double>(i));  // Constant terms, too.
    return x;
  }

  const MlpShape shape_;
  const MatrixXd points_, held_out_;
  VectorXd target_, held_out_target_;
  ColumnPenalties groups_;
};

TEST_F(MlpTest, PredictsWhatTheFormulaSays) {
  const VectorXd x = Weights();
  const VectorXd predicted = PredictMlp(shape_, x, points_, {}).value();
  for (const Index i : {0, 299}) {
    double f = x[shape_.output_bias()];
    for (Index u = 0; u < kUnits; ++u) {
      double a = x[shape_.hidden_bias() + u];
      for (Index j = 0; j < kInputs; ++j) a += x[j * kUnits + u] * points_(i, j);
      f += x[shape_.output() + u] * std::tanh(a);
    }
    EXPECT_NEAR(predicted[i], f, 1e-13);
  }
}

TEST_F(MlpTest, GradientsAndProductsAgreeWithDifferences) {
  MlpInner inner = Inner(Eigen::Vector4d(0.1, 1.0, 3.0, 10.0));
  MlpOuter outer(shape_, &held_out_, &held_out_target_);
  const VectorXd x = Weights();
  VectorXd gradient, outer_gradient;
  ASSERT_TRUE(inner.Value(x, &gradient, {}).ok());
  ASSERT_TRUE(outer.Value(x, &outer_gradient, {}).ok());
  ASSERT_TRUE(inner.SetPoint(x, {}).ok());
  for (Index i = 0; i < x.size(); ++i) {
    VectorXd up = x, down = x, up_gradient, down_gradient;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    const double value = *inner.Value(up, &up_gradient, {}) - *inner.Value(down, &down_gradient, {});
    EXPECT_NEAR(gradient[i], value / 2e-5, 1e-6 * gradient.norm()) << i;
    EXPECT_NEAR(outer_gradient[i], (*outer.Value(up, nullptr, {}) - *outer.Value(down, nullptr, {})) / 2e-5, 1e-7) << i;
    const VectorXd product = inner.HessianVector(VectorXd::Unit(x.size(), i), {}).value();
    EXPECT_LT((product - (up_gradient - down_gradient) / 2e-5).norm(), 1e-6 * product.norm()) << i;
  }
}

TEST_F(MlpTest, CrossDerivativesAgreeWithDifferences) {
  const VectorXd l2 = Eigen::Vector4d(0.1, 1.0, 3.0, 10.0), x = Weights(), q = StartMlp(shape_, 9);
  MlpInner inner = Inner(l2);
  ASSERT_TRUE(inner.SetPoint(x, {}).ok());
  const VectorXd cross = inner.CrossTransposeVector(q);
  for (Index j = 0; j < kInputs; ++j) {
    VectorXd up = l2, down = l2, up_gradient, down_gradient;
    up[j] *= std::exp(1e-5);
    down[j] *= std::exp(-1e-5);
    ASSERT_TRUE(Inner(up).Value(x, &up_gradient, {}).ok() && Inner(down).Value(x, &down_gradient, {}).ok());
    EXPECT_NEAR(cross[j], q.dot(up_gradient - down_gradient) / 2e-5, 1e-7 * cross.norm()) << j;
  }
}

// Away from a minimum the Hessian of most networks has negative curvature, and that is said.
TEST_F(MlpTest, NegativeCurvatureIsFound) {
  MlpInner inner = Inner(Eigen::Vector4d::Constant(1e-6));
  MlpOuter outer(shape_, &held_out_, &held_out_target_);
  const VectorXd x = 0.5 * Weights();
  ImplicitGradientOptions options;
  options.error_bound = false;
  const ImplicitGradient gradient = ComputeImplicitGradient(inner, outer, x, VectorXd(), options).value();
  EXPECT_EQ(gradient.outcome, linear::CgOutcome::kIndefinite);
}

}  // namespace
}  // namespace luthier::bilevel
