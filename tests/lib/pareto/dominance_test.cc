#include "lib/pareto/dominance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

// Peels fronts off by comparing all pairs.
std::vector<int> PeeledLayers(const MatrixXd& points) {
  std::vector<int> layer(static_cast<size_t>(points.rows()), -1);
  for (int now = 0;; ++now) {
    std::vector<Index> front;
    bool any = false;
    for (Index i = 0; i < points.rows(); ++i) {
      if (layer[static_cast<size_t>(i)] >= 0) continue;
      any = true;
      bool beaten = false;
      for (Index k = 0; k < points.rows(); ++k) {
        const bool left = layer[static_cast<size_t>(k)] < 0;
        const bool better = (points.row(k).array() >= points.row(i).array()).all() && points.row(k) != points.row(i);
        beaten = beaten || (left && better);
      }
      if (!beaten) front.push_back(i);
    }
    if (!any) return layer;
    for (const Index i : front) layer[static_cast<size_t>(i)] = now;
  }
}

TEST(Dominance, APointDominatesWhatIsNowhereBetterAndSomewhereWorse) {
  const MatrixXd points = (MatrixXd(4, 2) << 1, 2, 1, 1, 2, 1, 1, 2).finished();
  EXPECT_TRUE(Dominates(points, 0, 1));
  EXPECT_FALSE(Dominates(points, 1, 0));
  EXPECT_FALSE(Dominates(points, 0, 2));
  EXPECT_FALSE(Dominates(points, 0, 3)) << "equal points";
}

TEST(Dominance, LayersAreThoseOfPeelingFrontsOff) {
  base::RandomStream random(1, "test/layers");
  for (int round = 0; round < 200; ++round) {
    const auto rows = static_cast<Index>(random.UniformInt(40));
    const auto columns = 1 + static_cast<Index>(random.UniformInt(5));
    const MatrixXd points = RandomPoints(rows, columns, round % 3 == 0 ? 0 : 4, random);
    EXPECT_EQ(Layers(points, base::StopToken()).value(), PeeledLayers(points)) << points;
  }
}

TEST(Dominance, TheFrontIsLayerZeroWithoutRepetitions) {
  base::RandomStream random(2, "test/front");
  for (int round = 0; round < 100; ++round) {
    const MatrixXd points = RandomPoints(30, 1 + round % 4, round % 2 == 0 ? 0 : 3, random);
    const std::vector<int> layers = PeeledLayers(points);
    std::vector<Index> expected;
    for (Index i = 0; i < points.rows(); ++i) {
      bool repeated = false;
      for (Index k = 0; k < i; ++k) repeated = repeated || points.row(k) == points.row(i);
      if (layers[static_cast<size_t>(i)] == 0 && !repeated) expected.push_back(i);
    }
    EXPECT_EQ(Front(points), expected) << points;
  }
}

TEST(Dominance, NoPointsHaveNoFront) {
  EXPECT_TRUE(Front(MatrixXd(0, 3)).empty());
  EXPECT_TRUE(Layers(MatrixXd(0, 3), base::StopToken()).value().empty());
}

TEST(Dominance, LayersOfManyPointsCanBeStopped) {
  base::RandomStream random(3, "test/stop");
  const MatrixXd points = SpherePoints(3000, 3, random);
  const base::StopSource source;
  source.RequestStop();
  EXPECT_EQ(Layers(points, source.token()).status(), base::StoppedError());
}

}  // namespace
}  // namespace luthier::pareto
