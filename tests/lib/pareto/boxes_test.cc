#include "lib/pareto/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/pareto/hypervolume.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kAll = 1'000'000;

std::pair<MatrixXd, MatrixXd> Corners(const Boxes& boxes) {
  MatrixXd lower(boxes.count(), boxes.lower.cols()), upper = lower;
  for (Index k = 0; k < boxes.count(); ++k) {
    for (Index j = 0; j < lower.cols(); ++j) {
      lower(k, j) = boxes.levels[static_cast<size_t>(j)][static_cast<size_t>(boxes.lower(k, j))];
      upper(k, j) = boxes.levels[static_cast<size_t>(j)][static_cast<size_t>(boxes.upper(k, j))];
    }
  }
  return {lower, upper};
}

struct Example {
  MatrixXd points;
  VectorXd reference;
};

// Fronts, points of which many are dominated, and points with many equal coordinates.
Example RandomExample(int round, base::RandomStream& random) {
  const Index columns = 1 + round % 5;
  const auto rows = static_cast<Index>(random.UniformInt(columns < 4 ? 25 : 12));
  Example example;
  example.points = round % 3 == 0   ? SpherePoints(rows, columns, random)
                   : round % 3 == 1 ? RandomPoints(rows, columns, 0, random)
                                    : RandomPoints(rows, columns, 5, random);
  example.reference = VectorXd::Constant(columns, round % 2 == 0 ? -0.1 : 0.2);
  return example;
}

TEST(Boxes, NoTwoHaveAPlaceInCommon) {
  base::RandomStream random(1, "test/disjoint");
  for (int round = 0; round < 90; ++round) {
    const auto [points, reference] = RandomExample(round, random);
    const auto [lower, upper] = Corners(*BoxesAbove(points, reference, kAll));
    for (Index a = 0; a < lower.rows(); ++a) {
      EXPECT_TRUE((lower.row(a).array() < upper.row(a).array()).all());
      for (Index b = 0; b < a; ++b) {
        const MatrixXd low = lower.row(a).cwiseMax(lower.row(b)), high = upper.row(a).cwiseMin(upper.row(b));
        EXPECT_FALSE((low.array() < high.array()).all()) << "boxes " << a << " and " << b << " of\n" << points;
      }
    }
  }
}

TEST(Boxes, TheirVolumeAndTheHypervolumeFillTheCube) {
  base::RandomStream random(2, "test/volume");
  for (int round = 0; round < 150; ++round) {
    const auto [points, reference] = RandomExample(round, random);
    const auto [lower, upper] = Corners(*BoxesAbove(points, reference, kAll));
    const double top = 1.5;
    const double boxes = (upper.cwiseMin(top) - lower).rowwise().prod().sum();
    const double cube = (top - reference.array()).prod();
    EXPECT_NEAR(boxes + *Hypervolume(points, reference), cube, 1e-12 * cube) << points;
  }
}

TEST(Boxes, APlaceIsInOneOfThemIfNothingDominatesItElseInNone) {
  base::RandomStream random(3, "test/places");
  for (int round = 0; round < 60; ++round) {
    const auto [points, reference] = RandomExample(round, random);
    const auto [lower, upper] = Corners(*BoxesAbove(points, reference, kAll));
    for (int i = 0; i < 200; ++i) {
      VectorXd place(reference.size());
      for (double& x : place) x = 1.4 * random.Uniform() - 0.2;
      bool open = (place.array() >= reference.array()).all();
      for (Index k = 0; k < points.rows(); ++k) {
        const bool counts = (points.row(k).transpose().array() > reference.array()).all();
        open = open && !(counts && (points.row(k).transpose().array() > place.array()).all());
      }
      int boxes = 0;
      for (Index k = 0; k < lower.rows(); ++k) {
        boxes += (place.transpose().array() >= lower.row(k).array()).all() &&
                 (place.transpose().array() < upper.row(k).array()).all();
      }
      EXPECT_EQ(boxes, open ? 1 : 0) << place.transpose() << " among\n" << points;
    }
  }
}

TEST(Boxes, OneObjectiveHasTheHalfLineAboveTheBest) {
  const MatrixXd points = (MatrixXd(3, 1) << 1, 3, 2).finished();
  const auto [lower, upper] = Corners(*BoxesAbove(points, VectorXd::Zero(1), kAll));
  ASSERT_EQ(lower.rows(), 1);
  EXPECT_EQ(lower(0, 0), 3.0);
  EXPECT_EQ(upper(0, 0), std::numeric_limits<double>::infinity());
}

TEST(Boxes, FrontsOfTwoObjectivesHaveOneMoreThanPointsAndOfThreeTwiceAsManyAndOne) {
  base::RandomStream random(4, "test/counts");
  for (const Index rows : {0, 1, 2, 17, 60}) {
    EXPECT_EQ(BoxesAbove(SpherePoints(rows, 2, random), VectorXd::Zero(2), kAll)->count(), rows + 1);
    EXPECT_LE(BoxesAbove(SpherePoints(rows, 3, random), VectorXd::Zero(3), kAll)->count(), 2 * rows + 1);
  }
}

TEST(Boxes, MoreThanAllowedAreRefused) {
  base::RandomStream random(5, "test/most");
  const MatrixXd points = SpherePoints(60, 4, random);
  const Index count = BoxesAbove(points, VectorXd::Zero(4), kAll)->count();
  EXPECT_FALSE(BoxesAbove(points, VectorXd::Zero(4), count / 4).has_value());
}

}  // namespace
}  // namespace luthier::pareto
