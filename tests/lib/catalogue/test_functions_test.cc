#include "lib/catalogue/test_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/linear/lbfgs_solver.h"
#include "lib/math/finite_difference.h"

namespace luthier::catalogue {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using testing::HasSubstr;

class TestFunctionTest : public testing::TestWithParam<std::string> {
 protected:
  VectorXd Draw(base::RandomStream& random) const {
    VectorXd x(f_.dim());
    for (Index j = 0; j < x.size(); ++j) x[j] = f_.lower[j] + (f_.upper[j] - f_.lower[j]) * random.Uniform();
    return x;
  }
  const TestFunction& f_ = **FindTestFunction(GetParam());
};

TEST_P(TestFunctionTest, MinimizersReachTheMinimum) {
  for (const VectorXd& x : f_.minimizers) {
    ASSERT_EQ(x.size(), f_.dim());
    EXPECT_TRUE((x.array() >= f_.lower.array()).all() && (x.array() <= f_.upper.array()).all());
    EXPECT_LE(f_(x, nullptr) - f_.minimum, 1e-6);
    // A local search from there finds nothing lower.
    linear::LbfgsSolver solver(1e-12);
    const auto f = [this](const VectorXd& v, VectorXd* g) { return f_(v, g); };
    linear::SolveState state = solver.Start(f, x).value();
    for (int k = 0; k < 200 && state == linear::SolveState::kRunning; ++k) state = solver.Step(f, {}).value();
    EXPECT_NEAR(solver.value(), f_.minimum, 2e-8 * std::max(1.0, std::abs(f_.minimum)));
    EXPECT_LT((solver.x() - x).norm(), 1e-3);
  }
}

TEST_P(TestFunctionTest, NoRandomPointIsBelowTheMinimum) {
  base::RandomStream random(17, "draws");
  for (int k = 0; k < 20000; ++k) ASSERT_GE(f_(Draw(random), nullptr), f_.minimum - 1e-9);
}

TEST_P(TestFunctionTest, GradientsMatchDifferences) {
  base::RandomStream random(18, "gradients");
  for (int k = 0; k < 50; ++k) {
    const VectorXd x = Draw(random);
    VectorXd gradient;
    const double with = f_(x, &gradient);
    EXPECT_EQ(with, f_(x, nullptr));
    const math::GradientCheck check =
        math::CheckGradient([this](const VectorXd& v) { return f_(v, nullptr); }, x, gradient);
    EXPECT_LT(check.error, 1e-5) << check.Summary();
  }
}

TEST_P(TestFunctionTest, SlopeAndSpreadAreAsTabulated) {
  base::RandomStream random(19, "spread");
  double sum = 0.0;
  double squares = 0.0;
  const int n = 40000;
  for (int k = 0; k < n; ++k) {
    const VectorXd x = Draw(random);
    VectorXd gradient;
    const double v = f_(x, &gradient);
    sum += v;
    squares += v * v;
    // The table's slope is the largest there is (rounded to 3 digits).
    EXPECT_LE(gradient.cwiseProduct(f_.upper - f_.lower).norm(), 1.01 * f_.lipschitz_unit);
  }
  const double deviation = std::sqrt(squares / n - (sum / n) * (sum / n));
  EXPECT_NEAR(deviation, f_.deviation, 0.05 * f_.deviation);
}

TEST_P(TestFunctionTest, ShiftedBoxKeepsSizeAndMinimizer) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto [lower, upper] = ShiftedBounds(f_, seed);
    const VectorXd width = f_.upper - f_.lower;
    EXPECT_LT(((upper - lower) - width).norm(), 1e-12 * width.norm());
    EXPECT_TRUE(((lower - f_.lower).array().abs() <= 0.2 * width.array() * (1.0 + 1e-12)).all());
    const VectorXd& x = f_.minimizers[0];
    EXPECT_TRUE((x.array() >= lower.array() - 1e-12).all() && (x.array() <= upper.array() + 1e-12).all());
  }
  EXPECT_NE(ShiftedBounds(f_, 1).first, ShiftedBounds(f_, 2).first);
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const TestFunction& f : TestFunctions()) names.push_back(f.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, TestFunctionTest, testing::ValuesIn(Names()),
                         [](const auto& test) { return test.param; });

TEST(TestFunctionsTest, ThereAreTwelveInOrder) {
  EXPECT_EQ(Names().size(), 12u);
  const std::vector<std::string> names = Names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

// Published values at the points printed in Srinivas' and Wang's tables, rounded to the digits printed there.
TEST(TestFunctionsTest, PublishedValues) {
  const auto at = [](const char* name, std::initializer_list<double> values) {
    VectorXd x(static_cast<Index>(values.size()));
    std::copy(values.begin(), values.end(), x.data());
    return (**FindTestFunction(name))(x, nullptr);
  };
  EXPECT_NEAR(at("branin", {-3.14159265, 12.275}), 0.397887, 1e-6);
  EXPECT_NEAR(at("camel", {0.0898, -0.7126}), -1.031628, 1e-6);
  EXPECT_NEAR(at("michalewicz2", {2.20, 1.57}), -1.801141, 1e-6);
  EXPECT_NEAR(at("goldstein_price", {0, -1}), 3.0, 1e-12);
  EXPECT_NEAR(at("goldstein_price", {1, 1}), 1876.0, 1e-9);
  EXPECT_NEAR(at("goldstein_price", {-0.6, -0.4}), 30.0, 1e-9);
  EXPECT_NEAR(at("rosenbrock2", {-1, 1}), 4.0, 1e-12);
  EXPECT_NEAR(at("rosenbrock5", {0, 0, 0, 0, 0}), 4.0, 1e-12);
  EXPECT_NEAR(at("hartmann3", {0.114614, 0.555649, 0.852547}), -3.86278, 1e-5);
  EXPECT_NEAR(at("hartmann6", {0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573}), -3.32237, 1e-5);
}

TEST(TestFunctionsTest, UnknownNamesGetASuggestion) {
  const absl::Status status = FindTestFunction("bramin").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"branin\"?"));
}

}  // namespace
}  // namespace luthier::catalogue
