#include "lib/pareto/hypervolume.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Adds and subtracts the volumes of the boxes that all subsets of at most 12 points have in common.
double ByInclusionAndExclusion(const MatrixXd& points, const VectorXd& reference) {
  double volume = 0.0;
  for (uint32_t subset = 1; subset < (1u << points.rows()); ++subset) {
    VectorXd common = VectorXd::Constant(points.cols(), 1e300);
    for (Index i = 0; i < points.rows(); ++i) {
      if ((subset >> i) & 1u) common = common.cwiseMin(points.row(i).transpose());
    }
    const double box = (common - reference).cwiseMax(0.0).prod();
    volume += __builtin_popcount(subset) % 2 == 1 ? box : -box;
  }
  return volume;
}

TEST(Hypervolume, AgreesWithInclusionAndExclusion) {
  base::RandomStream random(1, "test/hypervolume");
  for (int round = 0; round < 120; ++round) {
    const auto rows = static_cast<Index>(random.UniformInt(13));
    const auto columns = 1 + static_cast<Index>(random.UniformInt(5));
    const MatrixXd points = RandomPoints(rows, columns, round % 3 == 0 ? 5 : 0, random);
    const VectorXd reference = VectorXd::Constant(columns, round % 2 == 0 ? -0.1 : 0.3);
    EXPECT_NEAR(*Hypervolume(points, reference), ByInclusionAndExclusion(points, reference), 1e-12) << points;
  }
}

// A front that other programs can make again: coordinates of points of the sphere, from a linear generator.
MatrixXd GeneratedFront(Index rows, Index columns, uint32_t seed) {
  uint32_t state = seed;
  MatrixXd points(rows, columns);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      state = state * 1664525u + 1013904223u;
      points(i, j) = (1.0 + (state >> 8)) / 16777217.0;
    }
    points.row(i) /= std::sqrt(points.row(i).squaredNorm());
  }
  return points;
}

struct KnownVolume {
  Index rows, columns;
  double volume;
};

TEST(Hypervolume, AgreesWithMoocore) {
  // moocore 0.3.2: hypervolume(GeneratedFront(rows, columns, 100 rows + columns), ref=0, maximise=True).
  const std::vector<KnownVolume> known = {
#include "tests/lib/pareto/moocore_volumes.inc"
  };
  for (const auto& [rows, columns, volume] : known) {
    const MatrixXd points = GeneratedFront(rows, columns, static_cast<uint32_t>(100 * rows + columns));
    EXPECT_NEAR(*Hypervolume(points, VectorXd::Zero(columns)), volume, 1e-12) << rows << " x " << columns;
  }
}

TEST(Hypervolume, DoesNotDependOnTheOrderOfRowsAndColumns) {
  base::RandomStream random(2, "test/order");
  const MatrixXd points = RandomPoints(40, 4, 0, random);
  const double volume = *Hypervolume(points, VectorXd::Zero(4));
  EXPECT_NEAR(*Hypervolume(points.colwise().reverse(), VectorXd::Zero(4)), volume, 1e-14);
  EXPECT_NEAR(*Hypervolume(points.rowwise().reverse(), VectorXd::Zero(4)), volume, 1e-14);
}

TEST(Hypervolume, PointsThatAreNotAboveTheReferenceAddNothing) {
  const MatrixXd points = (MatrixXd(3, 2) << 2, 2, 5, 0, -1, 9).finished();
  EXPECT_EQ(*Hypervolume(points, VectorXd::Zero(2)), 4.0);
  EXPECT_EQ(*Hypervolume(points.bottomRows(2), VectorXd::Zero(2)), 0.0);
  EXPECT_EQ(*Hypervolume(MatrixXd(0, 3), VectorXd::Zero(3)), 0.0);
}

TEST(Hypervolume, EightObjectivesOfAFewPointsAreExactAndOfManyAreRefused) {
  base::RandomStream random(3, "test/eight");
  const MatrixXd few = SpherePoints(12, 8, random);
  EXPECT_NEAR(*Hypervolume(few, VectorXd::Zero(8)), ByInclusionAndExclusion(few, VectorXd::Zero(8)), 1e-12);
  EXPECT_EQ(Hypervolume(SpherePoints(200, 8, random), VectorXd::Zero(8), 1'000'000), std::nullopt);
}

TEST(Hypervolume, TheGainIsTheDifferenceOfTwoVolumes) {
  base::RandomStream random(4, "test/gain");
  for (int round = 0; round < 60; ++round) {
    const Index columns = 1 + round % 4;
    const MatrixXd points = RandomPoints(10, columns, round % 3 == 0 ? 4 : 0, random);
    const VectorXd reference = VectorXd::Constant(columns, 0.1);
    const double with = *Hypervolume(points, reference), without = *Hypervolume(points.topRows(9), reference);
    EXPECT_NEAR(*HypervolumeGain(points.topRows(9), reference, points.row(9).transpose()), with - without, 1e-13);
  }
}

}  // namespace
}  // namespace luthier::pareto
