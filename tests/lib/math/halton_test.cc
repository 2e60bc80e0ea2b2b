#include "lib/math/halton.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lib/math/low_discrepancy.h"

namespace luthier::math {
namespace {

constexpr int kPrimes[] = {2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31,  37,  41,  43,  47,
                           53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113};

TEST(Halton, FirstPointsAreRadicalInverses) {
  const HaltonSequence halton(3);
  const double expected[][3] = {{0, 0, 0},
                                {1 / 2., 1 / 3., 1 / 5.},
                                {1 / 4., 2 / 3., 2 / 5.},
                                {3 / 4., 1 / 9., 3 / 5.},
                                {1 / 8., 4 / 9., 4 / 5.},
                                {5 / 8., 7 / 9., 1 / 25.},
                                {3 / 8., 2 / 9., 6 / 25.}};
  for (uint64_t i = 0; i < 7; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(halton.Point(i)(j), expected[i][j], 1e-15) << i << " " << j;
  }
}

TEST(Halton, TheLastColumnCountsInBase113) {
  const HaltonSequence halton(30);
  EXPECT_NEAR(halton.Point(112)(29), 112.0 / 113.0, 1e-15);
  EXPECT_NEAR(halton.Point(113 * 5 + 7)(29), 7.0 / 113.0 + 5.0 / (113.0 * 113.0), 1e-15);
}

// Of b^m successive points each interval of length b^-m of a column of base b holds one.
TEST(Halton, EachColumnIsStratified) {
  for (const HaltonSequence& halton :
       {HaltonSequence(30), HaltonSequence(30, 1, "test"), HaltonSequence(30, 2, "test")}) {
    for (int j = 0; j < 30; ++j) {
      int block = kPrimes[j];
      while (block * kPrimes[j] <= 2500) block *= kPrimes[j];
      for (const uint64_t first : {uint64_t{0}, uint64_t{7}}) {
        std::vector<int> hits(static_cast<size_t>(block), 0);
        for (int i = 0; i < block; ++i) {
          const double u = halton.Point(first * static_cast<uint64_t>(block) + static_cast<uint64_t>(i))(j);
          ASSERT_GE(u, 0.0);
          ASSERT_LT(u, 1.0);
          // Multiples of b^-m are not exact in base 2.
          ++hits[static_cast<size_t>(u * block + 1e-9)];
        }
        for (const int hit : hits) ASSERT_EQ(hit, 1) << "column " << j;
      }
    }
  }
}

TEST(Halton, ScramblesDependOnSeedAndPurposeAndNotOnTheDimension) {
  const Eigen::VectorXd a = HaltonSequence(5, 1, "a").Point(9);
  EXPECT_EQ(a, HaltonSequence(5, 1, "a").Point(9));
  EXPECT_EQ(a.head(3), HaltonSequence(3, 1, "a").Point(9));
  EXPECT_NE(a, HaltonSequence(5, 2, "a").Point(9));
  EXPECT_NE(a, HaltonSequence(5, 1, "b").Point(9));
}

// A single scrambled point is uniform over seeds: chi-squared with 9 degrees of freedom, p > 1e-4.
TEST(Halton, EachScrambledPointIsUniform) {
  for (const uint64_t index : {uint64_t{0}, uint64_t{3}, uint64_t{1000}}) {
    for (const int column : {0, 1, 29}) {
      std::vector<int> bins(10, 0);
      for (uint64_t seed = 0; seed < 1000; ++seed) {
        ++bins[static_cast<size_t>(10.0 * HaltonSequence(column + 1, seed, "uniform").Point(index)(column))];
      }
      double chi2 = 0.0;
      for (const int bin : bins) chi2 += (bin - 100.0) * (bin - 100.0) / 100.0;
      EXPECT_LT(chi2, 33.8) << index << " " << column;
    }
  }
}

// Columns of neighbouring large primes: their plain digits go in step, which permutations break.
TEST(Halton, ScrambledColumnsOfLargePrimesAreNotCorrelated) {
  const auto correlation = [](const HaltonSequence& halton) {
    constexpr int kPoints = 200;
    Eigen::MatrixXd x(kPoints, 2);
    for (int i = 0; i < kPoints; ++i) x.row(i) = halton.Point(static_cast<uint64_t>(i) + 1).segment(28, 2);
    const Eigen::MatrixXd centred = x.rowwise() - x.colwise().mean();
    return centred.col(0).dot(centred.col(1)) / (centred.col(0).norm() * centred.col(1).norm());
  };
  EXPECT_GT(correlation(HaltonSequence(30)), 0.7);
  double mean = 0.0;
  for (uint64_t seed = 0; seed < 20; ++seed) mean += std::abs(correlation(HaltonSequence(30, seed, "corr"))) / 20.0;
  EXPECT_LT(mean, 0.15);
}

Eigen::MatrixXd FirstPoints(const HaltonSequence& halton, int n, int columns) {
  Eigen::MatrixXd points(n, columns);
  for (int i = 0; i < n; ++i) points.row(i) = halton.Point(static_cast<uint64_t>(i));
  return points;
}

TEST(Halton, StarDiscrepancyOfThousandPlanePointsIsSmall) {
  for (const HaltonSequence& halton : {HaltonSequence(2), HaltonSequence(2, 77, "disc")}) {
    EXPECT_LT(StarDiscrepancyBound(FirstPoints(halton, 1024, 2)), 0.01);
  }
}

TEST(Halton, IntegratesAProductBetterThanRandomPoints) {
  EXPECT_GE(IntegrationWins([](uint64_t seed) { return FirstPoints(HaltonSequence(5, seed, "integrate"), 1024, 5); }),
            90);
}

TEST(Halton, AnyIndexAndAnyNumberOfColumnsAreLegal) {
  EXPECT_EQ(HaltonSequence(0).Point(3).size(), 0);
  for (const HaltonSequence& halton : {HaltonSequence(40), HaltonSequence(40, 1, "wide")}) {
    for (const uint64_t index : {uint64_t{0}, uint64_t{1} << 53, std::numeric_limits<uint64_t>::max()}) {
      const Eigen::VectorXd point = halton.Point(index);
      EXPECT_EQ(point, halton.Point(index));
      EXPECT_GE(point.minCoeff(), 0.0);
      EXPECT_LT(point.maxCoeff(), 1.0);
    }
    EXPECT_NE(halton.Point(5)(30), halton.Point(5)(31));
    EXPECT_NE(halton.Point(5)(30), halton.Point(6)(30));
  }
}

}  // namespace
}  // namespace luthier::math
