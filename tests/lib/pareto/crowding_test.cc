#include "lib/pareto/crowding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/base/random.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// By the definition, without sorting: the nearest values above and below in each column. Values must be distinct.
VectorXd ByDefinition(const MatrixXd& points) {
  VectorXd room = VectorXd::Zero(points.rows());
  for (Index i = 0; i < points.rows(); ++i) {
    for (Index j = 0; j < points.cols(); ++j) {
      double above = kInfinity, below = -kInfinity;
      for (Index k = 0; k < points.rows(); ++k) {
        if (points(k, j) > points(i, j)) above = std::min(above, points(k, j));
        if (points(k, j) < points(i, j)) below = std::max(below, points(k, j));
      }
      room(i) += (above - below) / (points.col(j).maxCoeff() - points.col(j).minCoeff());
    }
  }
  return room;
}

TEST(CrowdingDistances, AreThoseOfTheDefinition) {
  base::RandomStream random(1, "test/crowding");
  for (const Index columns : {1, 2, 3, 5}) {
    const MatrixXd points = RandomPoints(20, columns, 0, random);
    const VectorXd expected = ByDefinition(points), actual = CrowdingDistances(points);
    for (Index i = 0; i < points.rows(); ++i) {
      if (std::isinf(expected(i))) {
        EXPECT_EQ(actual(i), kInfinity);
      } else {
        EXPECT_NEAR(actual(i), expected(i), 1e-12);
      }
    }
  }
}

TEST(CrowdingDistances, FewPointsAndEqualOnes) {
  EXPECT_EQ(CrowdingDistances(MatrixXd(0, 2)).size(), 0);
  EXPECT_EQ(CrowdingDistances(MatrixXd::Zero(1, 2))(0), kInfinity);
  EXPECT_EQ(CrowdingDistances(MatrixXd::Zero(2, 2))(1), kInfinity);
  EXPECT_EQ(CrowdingDistances(MatrixXd::Zero(3, 2)), VectorXd::Zero(3)) << "no column has ends";
  MatrixXd twice(4, 2);
  twice << 0, 3, 1, 1, 1, 1, 3, 0;
  const VectorXd room = CrowdingDistances(twice);
  EXPECT_EQ(room(0), kInfinity);
  EXPECT_EQ(room(3), kInfinity);
  // Of equal points each has the other as a neighbour: (0 … 1) or (1 … 3) in the first column, and so on.
  EXPECT_NEAR(room(1) + room(2), 2.0, 1e-15);
}

TEST(CrowdingDistances, TheLargestNumbersDoNotOverflow) {
  MatrixXd points(3, 1);
  points << -1.7e308, 0.85e308, 1.7e308;
  EXPECT_NEAR(CrowdingDistances(points)(1), 1.0, 1e-15);
}

}  // namespace
}  // namespace luthier::pareto
