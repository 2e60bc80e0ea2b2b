#include "lib/pareto/front_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/pareto/hypervolume.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(GreedySubset, EachChoiceAddsMostToThoseBefore) {
  base::RandomStream random(1, "test/greedy");
  for (int round = 0; round < 30; ++round) {
    const Index columns = 2 + round % 3;
    const MatrixXd points = RandomPoints(20, columns, 0, random);
    const VectorXd reference = VectorXd::Zero(columns);
    const std::vector<Index> chosen = GreedySubset(points, reference, 6, base::StopToken()).value();
    ASSERT_EQ(chosen.size(), 6u);
    std::vector<Index> before;
    for (const Index row : chosen) {
      const auto volume_with = [&](Index more) {
        std::vector<Index> rows = before;
        rows.push_back(more);
        return *Hypervolume(points(rows, Eigen::all), reference);
      };
      double most = 0.0;
      for (Index i = 0; i < points.rows(); ++i) most = std::max(most, volume_with(i));
      EXPECT_NEAR(volume_with(row), most, 1e-13);
      before.push_back(row);
    }
  }
}

TEST(GreedySubset, OfEqualRowsTheFirstComesFirstAndAllAreChosenIfTheyMayBe) {
  const MatrixXd points = (MatrixXd(3, 2) << -1, -1, 1, 1, 1, 1).finished();
  EXPECT_THAT(GreedySubset(points, VectorXd::Zero(2), 9, base::StopToken()).value(), ::testing::ElementsAre(1, 0, 2));
  EXPECT_THAT(GreedySubset(points, VectorXd::Zero(2), 0, base::StopToken()).value(), ::testing::IsEmpty());
}

TEST(Knee, OfTwoObjectivesIsFarthestAboveTheChord) {
  // Scaled by 1 and by 1/10 the middle points are (.2, .9), (.6, .8) and (.9, .1): .6 + .8 is the largest sum.
  const MatrixXd front = (MatrixXd(5, 2) << 0, 10, .2, 9, .6, 8, .9, 1, 1, 0).finished();
  EXPECT_EQ(Knee(front, VectorXd::Constant(2, -100.0)), 2);
}

TEST(Knee, OfThreeObjectivesHasTheLargestProductOfDistances) {
  const MatrixXd front = (MatrixXd(4, 3) << 3, 1, 1, 1, 3, 1, 1, 1, 3, 2, 2, 2).finished();
  EXPECT_EQ(Knee(front, VectorXd::Zero(3)), 3);
  EXPECT_EQ(Knee(front, (VectorXd(3) << 2, 0, 0).finished()), 0) << "only the first row is above the reference";
}

TEST(Knee, OfOnePointIsThatPoint) {
  EXPECT_EQ(Knee(MatrixXd::Ones(1, 2), VectorXd::Ones(2)), 0);
  EXPECT_EQ(Knee(MatrixXd::Ones(1, 4), VectorXd::Ones(4)), 0);
}

}  // namespace
}  // namespace luthier::pareto
