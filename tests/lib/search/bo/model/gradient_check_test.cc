#include "lib/search/bo/model/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lib/base/random.h"

namespace luthier::search {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Eigen::Index kClimbColumns = 40;

// Points of a descent on a curved bowl in 40 dimensions, with the gradients of the scores times `factor`.
Observations Climb(int points, double factor) {
  Observations data;
  data.observed.resize(points, kClimbColumns);
  data.scores.resize(points);
  base::RandomStream random(3, "climb");
  Eigen::VectorXd curvature(kClimbColumns), x(kClimbColumns), best(kClimbColumns);
  for (Eigen::Index c = 0; c < kClimbColumns; ++c) {
    curvature(c) = 1.0 + 9.0 * random.Uniform();
    x(c) = random.Uniform();
    best(c) = random.Uniform();
  }
  for (int i = 0; i < points; ++i) {
    const Eigen::VectorXd from = x - best;
    const Eigen::VectorXd gradient = -(curvature.array() * from.array() + from.array().cube()).matrix();
    data.observed.row(i) = x;
    data.scores(i) = -0.5 * from.dot(curvature.cwiseProduct(from)) - 0.25 * from.array().pow(4).sum();
    data.number.push_back(i + 1);
    data.complete.push_back(true);
    ScoreSlopes slopes;
    slopes.axes.resize(static_cast<size_t>(kClimbColumns));
    std::iota(slopes.axes.begin(), slopes.axes.end(), 0);
    slopes.values = factor * gradient;
    slopes.variances = Eigen::VectorXd::Zero(kClimbColumns);
    data.slopes.push_back(slopes);
    x += 0.12 * gradient;
  }
  return data;
}

std::vector<int32_t> Contradicting(const Observations& data, const std::vector<int32_t>& before) {
  return ContradictingClimbs(data, std::vector<int32_t>(data.number.size(), 7), before, {}).value();
}

TEST(ContradictingClimbsTest, RightGradientsAlongAClimbAreHeard) {
  EXPECT_THAT(Contradicting(Climb(12, 1.0), {}), IsEmpty());
  EXPECT_THAT(Contradicting(Climb(12, 1.0), {7}), IsEmpty()) << "again";
}

TEST(ContradictingClimbsTest, WrongSignsAndUnitsAreSetAside) {
  for (const double factor : {-1.0, 4.0, 0.25, 1000.0, 0.0}) {
    EXPECT_THAT(Contradicting(Climb(12, factor), {}), ElementsAre(7)) << factor;
    EXPECT_THAT(Contradicting(Climb(12, factor), {2, 7}), ElementsAre(2, 7)) << factor;
  }
}

TEST(ContradictingClimbsTest, FewPairsTellNothing) {
  for (const std::vector<int32_t>& before : {std::vector<int32_t>(), std::vector<int32_t>{7}}) {
    EXPECT_EQ(Contradicting(Climb(4, -1.0), before), before);
  }
}

}  // namespace
}  // namespace luthier::search
