#include "lib/bilevel/implicit_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/logistic_inner.h"
#include "lib/bilevel/units.h"
#include "lib/data/split.h"
#include "lib/data/synth.h"
#include "lib/linear/logistic.h"
#include "lib/linear/trainer.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using linear::CgOutcome;

// One training / validation problem with its parts kept alive.
struct Fold {
  std::unique_ptr<linear::LogisticData> train;
  std::unique_ptr<linear::LogisticData> validation;
};

struct ModelCase {
  int classes;
  bool standardize;
  bool intercept;
};

class HypergradientTest : public testing::TestWithParam<ModelCase> {
 protected:
  HypergradientTest() {
    notation::SynthSpec spec;
    spec.rows = 120;
    spec.cols = 8;
    spec.classes = GetParam().classes;
    spec.noise = 0.2;
    spec.seed = 21;
    dataset_ = data::Synthesize(spec).value();
    const std::vector<data::Partition> partitions = data::SplitFolds(dataset_.label, spec.classes, 3, 5).value();
    for (const data::Partition& p : partitions) {
      data::Standardization s;
      if (GetParam().standardize) s = data::FitStandardization(dataset_.x, p.train).value();
      const bool intercept = GetParam().intercept;
      const auto make = [&](const std::vector<int32_t>& rows) {
        return std::make_unique<linear::LogisticData>(
            linear::LogisticData::Create(&dataset_, rows, s, intercept).value());
      };
      folds_.push_back({make(p.train), make(p.validation)});
    }
  }

  static VectorXd Optimum(const linear::LogisticProblem& problem) {
    linear::LinearTrainOptions options;
    options.solver = linear::LinearSolver::kNewtonCg;
    options.tolerance = 0.0;
    return Trained(problem, options);
  }
  static VectorXd Trained(const linear::LogisticProblem& problem, const linear::LinearTrainOptions& options) {
    linear::LinearTrainer trainer = linear::LinearTrainer::Create(&problem, options).value();
    while (trainer.Advance({}).value() == linear::TrainOutcome::kRunning) continue;
    return trainer.Weights();
  }
  // E as a function of l2, by training alone.
  static double OuterValue(const Fold& fold, double l2) {
    const linear::LogisticProblem problem(fold.train.get(), l2);
    return linear::EvaluateMetrics(*fold.validation, Optimum(problem)).loss;
  }
  static ImplicitGradient Analytic(const Fold& fold, double l2) {
    const linear::LogisticProblem problem(fold.train.get(), l2);
    LogisticInner inner(&problem);
    LogisticOuter outer(fold.validation.get());
    ImplicitGradientOptions options;
    options.relative_tolerance = 1e-13;
    return ComputeImplicitGradient(inner, outer, Optimum(problem), VectorXd(), options).value();
  }

  data::Dataset dataset_;
  std::vector<Fold> folds_;
};

TEST_P(HypergradientTest, MatchesDifferencesInUserUnits) {
  for (const double l2 : {1e-3, 0.1, 2.0, 50.0}) {
    const ImplicitGradient g = Analytic(folds_[0], l2);
    ASSERT_TRUE(g.usable());
    EXPECT_NEAR(g.outer_value, OuterValue(folds_[0], l2), 1e-12);
    const double user = UserUnitDerivative(g.gradient[0], l2, Coordinate::kLog);
    const double h = 1e-5 * l2;
    const double numeric = (OuterValue(folds_[0], l2 + h) - OuterValue(folds_[0], l2 - h)) / (2.0 * h);
    // Relative 1e-5; absolute: rounding of E over the step, 1e-15 / (2e-5 l2).
    EXPECT_NEAR(user, numeric, 1e-5 * std::abs(numeric) + 1e-10 / l2) << "l2 = " << l2;
  }
}

TEST_P(HypergradientTest, FoldsAverageByWeight) {
  const double l2 = 0.3;
  std::vector<ImplicitGradient> parts;
  std::vector<double> weights;
  for (const Fold& fold : folds_) {
    parts.push_back(Analytic(fold, l2));
    weights.push_back(static_cast<double>(fold.validation->rows()));
  }
  const ImplicitGradient mean = AverageFolds(parts, weights);
  const auto value = [&](double at) {
    double sum = 0.0;
    double rows = 0.0;
    for (const Fold& fold : folds_) {
      const double n = static_cast<double>(fold.validation->rows());
      sum += n * OuterValue(fold, at);
      rows += n;
    }
    return sum / rows;
  };
  EXPECT_NEAR(mean.outer_value, value(l2), 1e-12);
  const double h = 1e-5 * l2;
  const double numeric = (value(l2 + h) - value(l2 - h)) / (2.0 * h);
  EXPECT_NEAR(UserUnitDerivative(mean.gradient[0], l2, Coordinate::kLog), numeric, 1e-5 * std::abs(numeric) + 1e-9);
  EXPECT_EQ(mean.certified, !GetParam().intercept);
  EXPECT_DOUBLE_EQ(DirectionalSlope(mean, VectorXd::Constant(1, -2.0)), -2.0 * mean.gradient[0]);
}

// A sloppy x and a sloppy q: the error is below the bound.
TEST_P(HypergradientTest, ErrorBoundHolds) {
  base::RandomStream random(8, "sloppy");
  for (const double l2 : {0.05, 1.0, 30.0}) {
    const linear::LogisticProblem problem(folds_[0].train.get(), l2);
    const VectorXd optimum = Optimum(problem);
    const double exact = Analytic(folds_[0], l2).gradient[0];
    for (const double size : {1e-1, 1e-3, 1e-6}) {
      VectorXd x = optimum;
      for (Index j = 0; j < x.size(); ++j) x[j] += size * random.Normal();
      LogisticInner inner(&problem);
      LogisticOuter outer(folds_[0].validation.get());
      ImplicitGradientOptions options;
      options.relative_tolerance = size;
      const ImplicitGradient g = ComputeImplicitGradient(inner, outer, x, VectorXd(), options).value();
      ASSERT_TRUE(g.usable());
      EXPECT_LE(std::abs(g.gradient[0] - exact), g.error_bound) << "l2 = " << l2 << ", size = " << size;
      EXPECT_LE((x - optimum).norm(), g.error_x * (1.0 + 1e-9));
      EXPECT_EQ(g.certified, !GetParam().intercept);
    }
  }
}

TEST_P(HypergradientTest, PolishMakesTheBoundTight) {
  const linear::LogisticProblem problem(folds_[0].train.get(), 0.01);
  LogisticInner inner(&problem);
  LogisticOuter outer(folds_[0].validation.get());
  linear::LinearTrainOptions loose;
  loose.tolerance = loose.gap_share = 1e-4;
  VectorXd x = Trained(problem, loose);
  const double before = ComputeImplicitGradient(inner, outer, x, VectorXd(), {}).value().error_bound;
  const double norm = PolishInner(inner, 0.0, {10}, {}, &x).value();
  EXPECT_LE(norm, 1e-11);
  const ImplicitGradient after = ComputeImplicitGradient(inner, outer, x, VectorXd(), {}).value();
  EXPECT_LT(after.error_bound, 1e-4 * before);
  EXPECT_DOUBLE_EQ(after.inner_gradient_norm, norm);
}

TEST_P(HypergradientTest, WarmAdjointSavesIterations) {
  const linear::LogisticProblem problem(folds_[0].train.get(), 0.1);
  LogisticInner inner(&problem);
  LogisticOuter outer(folds_[0].validation.get());
  const VectorXd x = Optimum(problem);
  const ImplicitGradient cold = ComputeImplicitGradient(inner, outer, x, VectorXd(), {}).value();
  const ImplicitGradient warm = ComputeImplicitGradient(inner, outer, x, cold.adjoint, {}).value();
  EXPECT_LT(warm.cg_iterations, cold.cg_iterations);
  EXPECT_NEAR(warm.gradient[0], cold.gradient[0], 1e-9 * std::abs(cold.gradient[0]) + 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Models, HypergradientTest,
                         testing::Values(ModelCase{2, false, false}, ModelCase{2, true, true},
                                         ModelCase{3, true, false}, ModelCase{3, false, true}),
                         [](const auto& test) {
                           const ModelCase& c = test.param;
                           return std::string(c.classes == 2 ? "Binary" : "Multinomial") +
                                  (c.standardize ? "Standardized" : "Raw") + (c.intercept ? "Intercept" : "");
                         });

// Ridge regression with one decay a weight: everything in closed form, several hyperparameters.
class Ridge final : public InnerProblem {
 public:
  Ridge(MatrixXd a, VectorXd b, VectorXd lambda) : a_(std::move(a)), b_(std::move(b)), lambda_(std::move(lambda)) {}
  MatrixXd H() const { return a_.transpose() * a_ + MatrixXd(lambda_.array().exp().matrix().asDiagonal()); }
  VectorXd Solution() const { return H().llt().solve(a_.transpose() * b_); }
  Index dim() const override { return a_.cols(); }
  Index hyper_dim() const override { return a_.cols(); }
  absl::StatusOr<double> Value(const VectorXd& x, VectorXd* g, const base::StopToken& stop) override {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const VectorXd hx = H() * x;
    const VectorXd c = a_.transpose() * b_;
    if (g != nullptr) *g = hx - c;
    return 0.5 * x.dot(hx) - c.dot(x);
  }
  absl::Status SetPoint(const VectorXd& x, const base::StopToken& /*stop*/) override {
    x_ = x;
    return absl::OkStatus();
  }
  absl::StatusOr<VectorXd> HessianVector(const VectorXd& v, const base::StopToken& /*stop*/) override {
    return VectorXd(sign * (H() * v));
  }
  absl::StatusOr<VectorXd> HessianDiagonal(const base::StopToken& /*stop*/) override { return VectorXd(); }
  VectorXd CrossTransposeVector(const VectorXd& q) override { return lambda_.array().exp() * x_.array() * q.array(); }
  double CrossNorm() override { return (lambda_.array().exp() * x_.array()).abs().maxCoeff(); }
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& /*stop*/) override {
    return InnerConstants{std::exp(lambda_.minCoeff()), 0.0, std::exp(lambda_.maxCoeff()), true};
  }
  double sign = 1.0;

 private:
  MatrixXd a_;
  VectorXd b_;
  VectorXd lambda_;
  VectorXd x_;
};

class SquaredDistance final : public OuterLoss {
 public:
  explicit SquaredDistance(VectorXd target) : target_(std::move(target)) {}
  absl::StatusOr<double> Value(const VectorXd& x, VectorXd* g, const base::StopToken& /*stop*/) override {
    if (g != nullptr) *g = x - target_;
    return 0.5 * (x - target_).squaredNorm();
  }
  double GradientLipschitz() override { return 1.0; }

 private:
  VectorXd target_;
};

TEST(ImplicitGradientTest, RidgeWithManyHyperparametersMatchesDifferences) {
  base::RandomStream random(2, "ridge");
  const auto normal = [&](Index n) {
    VectorXd v(n);
    for (Index i = 0; i < n; ++i) v[i] = random.Normal();
    return v;
  };
  MatrixXd a(9, 5);
  for (Index j = 0; j < 5; ++j) a.col(j) = normal(9);
  const VectorXd b = normal(9);
  const VectorXd lambda = normal(5);
  SquaredDistance outer(normal(5));
  Ridge ridge(a, b, lambda);
  const ImplicitGradient g = ComputeImplicitGradient(ridge, outer, ridge.Solution(), VectorXd(), {}).value();
  ASSERT_TRUE(g.usable());
  for (Index j = 0; j < 5; ++j) {
    const double h = 1e-5;
    const Ridge up(a, b, lambda + h * VectorXd::Unit(5, j));
    const Ridge down(a, b, lambda - h * VectorXd::Unit(5, j));
    const double numeric =
        (outer.Value(up.Solution(), nullptr, {}).value() - outer.Value(down.Solution(), nullptr, {}).value()) / (2 * h);
    EXPECT_NEAR(g.gradient[j], numeric, 1e-8);
  }
  VectorXd x = ridge.Solution() + 0.01 * normal(5);
  const ImplicitGradient sloppy = ComputeImplicitGradient(ridge, outer, x, VectorXd(), {}).value();
  EXPECT_LE((sloppy.gradient - g.gradient).norm(), sloppy.error_bound);
  EXPECT_TRUE(sloppy.certified);
}

TEST(ImplicitGradientTest, LeavesOutTheBoundWhenToldTo) {
  Ridge ridge(MatrixXd::Identity(2, 2), VectorXd::Ones(2), VectorXd::Zero(2));
  SquaredDistance outer(VectorXd::Zero(2));
  const ImplicitGradient with = ComputeImplicitGradient(ridge, outer, ridge.Solution(), VectorXd(), {}).value();
  ImplicitGradientOptions options;
  options.error_bound = false;
  const ImplicitGradient without = ComputeImplicitGradient(ridge, outer, ridge.Solution(), VectorXd(), options).value();
  EXPECT_EQ(without.gradient, with.gradient);
  EXPECT_TRUE(std::isinf(without.error_bound));
  EXPECT_FALSE(without.certified);
}

TEST(ImplicitGradientTest, ReportsIndefiniteNonFiniteAndStopped) {
  Ridge ridge(MatrixXd::Identity(2, 2), VectorXd::Ones(2), VectorXd::Zero(2));
  SquaredDistance outer(VectorXd::Zero(2));
  const VectorXd x = ridge.Solution();
  ridge.sign = -1.0;
  EXPECT_EQ(ComputeImplicitGradient(ridge, outer, x, VectorXd(), {}).value().outcome, CgOutcome::kIndefinite);
  ridge.sign = 1.0;
  EXPECT_EQ(ComputeImplicitGradient(ridge, outer, VectorXd::Constant(2, NAN), VectorXd(), {}).value().outcome,
            CgOutcome::kNonFinite);
  const base::StopSource source;
  source.RequestStop();
  ImplicitGradientOptions options;
  options.stop = source.token();
  EXPECT_EQ(ComputeImplicitGradient(ridge, outer, x, VectorXd(), options).status(), base::StoppedError());
}

TEST(UnitsTest, ConvertsByTheChainRule) {
  const auto f = [](double value) { return std::sin(std::log(value)); };
  const double value = 3.7;
  const double d_lambda = std::cos(std::log(value));
  const double h = 1e-6;
  EXPECT_NEAR(UserUnitDerivative(d_lambda, value, Coordinate::kLog), (f(value + h) - f(value - h)) / (2 * h), 1e-9);
  EXPECT_EQ(UserUnitDerivative(2.5, value, Coordinate::kIdentity), 2.5);
}

}  // namespace
}  // namespace luthier::bilevel
