#ifndef LUTHIER_TESTS_CONTRACT_ACQUISITION_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_ACQUISITION_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "lib/search/bo/acquisition/acquisition.h"

// Tests what every function that designers maximise promises (lib/search/bo/acquisition/acquisition.h):
//   INSTANTIATE_TEST_SUITE_P(Mine, AcquisitionContract, ::testing::ValuesIn(cases), AcquisitionContract::Name);
namespace luthier::contract {

// An acquisition on the unit square, with all that it borrows.
class AcquisitionUnderTest {
 public:
  virtual ~AcquisitionUnderTest() = default;
  virtual const search::AcquisitionFunction& function() const = 0;
};

struct AcquisitionCase {
  std::string name;
  std::function<std::unique_ptr<AcquisitionUnderTest>()> make;
  // The points at which it is asked, as rows; absent: random points of the square. Those of a function that knows
  // nothing between them.
  std::function<Eigen::MatrixXd()> points = nullptr;
};

inline void PrintTo(const AcquisitionCase& c, std::ostream* out) {
  *out << c.name;
}

class AcquisitionContract : public ::testing::TestWithParam<AcquisitionCase> {
 public:
  static std::string Name(const ::testing::TestParamInfo<AcquisitionCase>& info) { return info.param.name; }

 protected:
  static constexpr Eigen::Index kPoints = 200;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  void SetUp() override {
    under_test_ = GetParam().make();
    if (GetParam().points) {
      points_ = GetParam().points();
      return;
    }
    base::RandomStream random(11, "test/acquisition");
    points_.resize(kPoints, 2);
    for (double& v : points_.reshaped()) v = random.Uniform();
  }
  const search::AcquisitionFunction& function() const { return under_test_->function(); }

  static void ExpectSame(double a, double b) {
    if (std::isfinite(a)) {
      EXPECT_NEAR(a, b, 1e-7 * std::max(1.0, std::abs(a)));
    } else {
      EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << a << " and " << b;
    }
  }

  std::unique_ptr<AcquisitionUnderTest> under_test_;
  Eigen::MatrixXd points_;
};

TEST_P(AcquisitionContract, ManyPointsGetTheValuesOfEach) {
  const Eigen::VectorXd values = function().Values(points_);
  ASSERT_EQ(values.size(), points_.rows());
  int finite = 0;
  for (Eigen::Index i = 0; i < points_.rows(); ++i) {
    SCOPED_TRACE(testing::Message() << "point " << points_.row(i));
    ExpectSame(values(i), function().Value(points_.row(i).transpose(), nullptr));
    finite += std::isfinite(values(i)) ? 1 : 0;
  }
  EXPECT_GT(finite, 0) << "it has a value nowhere";
}

TEST_P(AcquisitionContract, AValueDoesNotDependOnTheOtherPoints) {
  const Eigen::VectorXd values = function().Values(points_);
  for (Eigen::Index begin = 0; begin < points_.rows(); begin += 7) {
    const Eigen::Index count = std::min<Eigen::Index>(7, points_.rows() - begin);
    const Eigen::VectorXd some = function().Values(points_.middleRows(begin, count));
    for (Eigen::Index i = 0; i < count; ++i) ExpectSame(values(begin + i), some(i));
  }
}

TEST_P(AcquisitionContract, GradientsAgreeWithDifferences) {
  const auto value = [&](const Eigen::VectorXd& u) { return function().Value(u, nullptr); };
  int checked = 0;
  for (Eigen::Index i = 0; i < points_.rows(); ++i) {
    SCOPED_TRACE(testing::Message() << "point " << points_.row(i));
    const Eigen::VectorXd u = points_.row(i).transpose();
    Eigen::VectorXd gradient(1);
    const double at = function().Value(u, &gradient);
    ASSERT_EQ(gradient.size(), u.size());
    if (at == -kInfinity) {
      EXPECT_EQ(gradient.norm(), 0.0) << "outside the domain";
      continue;
    }
    if (!std::isfinite(at) || GetParam().points) continue;
    EXPECT_NEAR(at, value(u), 1e-7 * std::max(1.0, std::abs(at)));
    // Two steps that disagree straddle a kink, or the edge of the domain.
    const Eigen::VectorXd numeric = math::CentralDifference(value, u);
    const Eigen::VectorXd wider = math::CentralDifference(value, u, 4 * math::kDefaultDifferenceStep);
    if (!numeric.allFinite() || (numeric - wider).norm() > 1e-4 * (1e-3 + numeric.norm())) continue;
    EXPECT_LE((gradient - numeric).norm(), 1e-3 * (1e-3 + numeric.norm()))
        << "analytic " << gradient.transpose() << ", numeric " << numeric.transpose();
    ++checked;
  }
  if (!GetParam().points) {
    EXPECT_GT(checked, points_.rows() / 4) << "too few points say anything";
  }
}

TEST_P(AcquisitionContract, ThreadsMayAskAtOnce) {
  const Eigen::VectorXd values = function().Values(points_);
  std::vector<Eigen::VectorXd> others(4);
  std::vector<std::thread> threads;
  for (Eigen::VectorXd& other : others) threads.emplace_back([&] { other = function().Values(points_); });
  for (std::thread& thread : threads) thread.join();
  for (const Eigen::VectorXd& other : others) {
    for (Eigen::Index i = 0; i < values.size(); ++i) ExpectSame(values(i), other(i));
  }
}

}  // namespace luthier::contract

#endif  // LUTHIER_TESTS_CONTRACT_ACQUISITION_CONTRACT_H_
