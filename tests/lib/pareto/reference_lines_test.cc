#include "lib/pareto/reference_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "lib/base/random.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::pareto {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

std::vector<std::vector<double>> RowsOf(const MatrixXd& points) {
  std::vector<std::vector<double>> rows;
  for (const auto row : points.rowwise()) rows.emplace_back(row.begin(), row.end());
  return rows;
}

// Deb & Jain 2014, table I: populations of M = 3, 5, 8, 10, 15 objectives.
TEST(ReferenceLines, ThereAreAsManyAsInThePaper) {
  EXPECT_EQ(SimplexLattice(3, 12).rows(), 91);
  EXPECT_EQ(SimplexLattice(5, 6).rows(), 210);
  EXPECT_EQ(ReferenceDirections(3, 91).rows(), 91);
  EXPECT_EQ(ReferenceDirections(5, 210).rows(), 210);
  EXPECT_EQ(ReferenceDirections(8, 156).rows(), 120 + 36) << "3 divisions outside, 2 inside";
  EXPECT_EQ(ReferenceDirections(10, 275).rows(), 220 + 55);
}

TEST(ReferenceLines, TheLatticeIsAllOfItsPoints) {
  for (int objectives = 2; objectives <= 8; ++objectives) {
    for (int divisions = 1; divisions <= 4; ++divisions) {
      const MatrixXd lattice = SimplexLattice(objectives, divisions);
      const std::vector<std::vector<double>> rows = RowsOf(lattice);
      EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
      EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), rows.size());
      // By brute force over all numbers of `objectives` digits.
      int64_t expected = 0, cells = 1;
      for (int j = 0; j < objectives; ++j) cells *= divisions + 1;
      for (int64_t cell = 0; cell < cells; ++cell) {
        int64_t sum = 0;
        for (int64_t rest = cell; rest > 0; rest /= divisions + 1) sum += rest % (divisions + 1);
        expected += sum == divisions ? 1 : 0;
      }
      EXPECT_EQ(lattice.rows(), expected);
      EXPECT_NEAR((lattice.rowwise().sum().array() - 1.0).abs().maxCoeff(), 0.0, 1e-15);
      EXPECT_GE(lattice.minCoeff(), 0.0);
    }
  }
}

TEST(ReferenceLines, AnInnerLatticeIsHalfAsFarFromTheCentre) {
  const MatrixXd directions = ReferenceDirections(5, 40);
  ASSERT_EQ(directions.rows(), 35 + 5);
  const RowVectorXd centre = RowVectorXd::Constant(5, 0.2);
  for (Index k = 35; k < 40; ++k) {
    EXPECT_NEAR((directions.row(k) - centre).norm(), 0.5 * std::sqrt(0.8), 1e-15);
    EXPECT_NEAR(directions.row(k).sum(), 1.0, 1e-15);
  }
  for (int objectives = 2; objectives <= 8; ++objectives) {
    for (const int most : {4, 40, 100, 500}) {
      const Index rows = ReferenceDirections(objectives, most).rows();
      EXPECT_GE(rows, objectives);
      EXPECT_LE(rows, std::max(most, objectives));
    }
  }
}

// The plane sum x_j / c_j = 1 with its extreme points: units are the cuts.
TEST(Normalized, APlaneBecomesTheSimplex) {
  base::RandomStream random(1, "test/normalized");
  const RowVectorXd cuts = (RowVectorXd(4) << 3.0, 1e-6, 2e5, 7.0).finished();
  const RowVectorXd best = (RowVectorXd(4) << -1.0, 2.0, 1e5, 0.0).finished();
  MatrixXd shares = SimplexLattice(4, 5);
  const MatrixXd points = (-(shares * cuts.asDiagonal())).rowwise() + best;
  const MatrixXd normalized = Normalized(points);
  EXPECT_LT((normalized - shares).cwiseAbs().maxCoeff(), 1e-9);
}

TEST(Normalized, DegenerateFrontsHaveTheirExtentAsUnit) {
  EXPECT_EQ(Normalized(MatrixXd::Constant(3, 4, 5.0)), MatrixXd::Zero(3, 4));
  MatrixXd line(3, 4);
  line << 0, 4, 1, 1, 1, 2, 1, 1, 2, 0, 1, 1;
  MatrixXd expected(3, 4);
  expected << 1, 0, 0, 0, 0.5, 0.5, 0, 0, 0, 1, 0, 0;
  EXPECT_EQ(Normalized(line), expected);
  MatrixXd huge(2, 4);
  huge << 1.7e308, -1.7e308, 5e-324, 0, -1.7e308, 1.7e308, 0, 0;
  EXPECT_TRUE(Normalized(huge).allFinite());
  EXPECT_EQ(Normalized(MatrixXd(0, 4)).rows(), 0);
}

TEST(Niches, AreThoseOfTheNearestLine) {
  base::RandomStream random(2, "test/niches");
  const MatrixXd directions = ReferenceDirections(4, 40), points = RandomPoints(50, 4, 0, random);
  const std::vector<Niche> niches = Niches(points, directions, base::StopToken()).value();
  for (Index i = 0; i < points.rows(); ++i) {
    const VectorXd p = points.row(i).transpose();
    const Niche& niche = niches[static_cast<size_t>(i)];
    for (Index k = 0; k < directions.rows(); ++k) {
      // Pythagoras, by the angle.
      const VectorXd w = directions.row(k).transpose();
      const double angle = std::acos(std::min(1.0, p.dot(w) / p.norm() / w.norm()));
      const double distance = p.norm() * std::sin(angle);
      if (k == niche.line) {
        EXPECT_NEAR(niche.distance, distance, 1e-7);
      }
      EXPECT_LE(niche.distance, distance + 1e-7);
    }
  }
}

}  // namespace
}  // namespace luthier::pareto
