#include "lib/math/sobol.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lib/math/low_discrepancy.h"

namespace luthier::math {
namespace {

TEST(Sobol, FirstPointsOfOneColumn) {
  const SobolSequence sobol(1);
  const double expected[] = {0.0, 0.5, 0.75, 0.25};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sobol.Point(static_cast<uint64_t>(i))(0), expected[i]);
}

TEST(Sobol, MatchesAnotherImplementation) {
  // scipy.stats.qmc.Sobol(512, scramble=False, bits=52).
  struct Row {
    int index, column;
    double value;
  };
  const SobolSequence sobol(512);
  for (const Row& row :
       {Row{1, 511, 0.5}, Row{7, 3, 0.125}, Row{100, 17, 0.7421875}, Row{1023, 255, 0.8427734375},
        Row{2047, 100, 0.56298828125}, Row{2099, 511, 0.833251953125}, Row{1500, 400, 0.09912109375}}) {
    EXPECT_EQ(sobol.Point(static_cast<uint64_t>(row.index))(row.column), row.value) << row.index << " " << row.column;
  }
}

// Every interval of length 2^-m of every column holds one point of each aligned block of 2^m.
void ExpectOnePointPerInterval(const SobolSequence& sobol, int m, uint64_t block) {
  const int count = 1 << m;
  const Eigen::MatrixXd points = sobol.Points(block * static_cast<uint64_t>(count), count);
  for (int column = 0; column < points.cols(); ++column) {
    std::vector<int> hits(static_cast<size_t>(count), 0);
    for (int i = 0; i < count; ++i) {
      const double u = points(i, column);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++hits[static_cast<size_t>(u * count)];
    }
    for (int hit : hits) ASSERT_EQ(hit, 1) << "column " << column;
  }
}

TEST(Sobol, EachColumnIsStratified) {
  for (int m : {1, 4, 8}) {
    ExpectOnePointPerInterval(SobolSequence(512), m, 3);
    ExpectOnePointPerInterval(SobolSequence(64, 11, "test"), m, 0);
    ExpectOnePointPerInterval(SobolSequence(64, 12, "test"), m, 5);
  }
}

TEST(Sobol, FirstTwoColumnsFormANetOfQualityZero) {
  // Columns 1 and 2 are a (0, m, 2)-net: every box of volume 2^-m with dyadic sides holds exactly one of 2^m points.
  const int m = 6;
  for (const SobolSequence& sobol : {SobolSequence(2), SobolSequence(2, 5, "net")}) {
    const Eigen::MatrixXd points = sobol.Points(0, 1 << m);
    for (int a = 0; a <= m; ++a) {
      const int wide = 1 << a, high = 1 << (m - a);
      std::vector<int> hits(static_cast<size_t>(1 << m), 0);
      for (int i = 0; i < (1 << m); ++i) {
        const int cell = static_cast<int>(points(i, 0) * wide) * high + static_cast<int>(points(i, 1) * high);
        ++hits[static_cast<size_t>(cell)];
      }
      EXPECT_TRUE(std::all_of(hits.begin(), hits.end(), [](int h) { return h == 1; })) << a;
    }
  }
}

TEST(Sobol, BlocksEqualSinglePoints) {
  const SobolSequence sobol(7, 3, "blocks");
  const Eigen::MatrixXd block = sobol.Points(1000, 70);
  for (int i = 0; i < 70; ++i) EXPECT_EQ(block.row(i).transpose(), sobol.Point(1000 + static_cast<uint64_t>(i)));
}

TEST(Sobol, ScramblesDependOnSeedAndPurposeAndNotOnTheDimension) {
  const Eigen::VectorXd a = SobolSequence(5, 1, "a").Point(9);
  EXPECT_EQ(a, SobolSequence(5, 1, "a").Point(9));
  EXPECT_EQ(a.head(3), SobolSequence(3, 1, "a").Point(9));
  EXPECT_NE(a, SobolSequence(5, 2, "a").Point(9));
  EXPECT_NE(a, SobolSequence(5, 1, "b").Point(9));
}

TEST(Sobol, ScrambledPointsAreStrictlyInside) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Eigen::MatrixXd points = SobolSequence(3, seed, "inside").Points(0, 8);
    EXPECT_GT(points.minCoeff(), 0.0);
    EXPECT_LT(points.maxCoeff(), 1.0);
  }
}

TEST(Sobol, ColumnsBeyondTheTableAreUniformAndReproducible) {
  const SobolSequence sobol(514, 1, "wide");
  const Eigen::MatrixXd points = sobol.Points(0, 400);
  EXPECT_EQ(points.row(17).transpose(), sobol.Point(17));
  EXPECT_NEAR(points.col(513).mean(), 0.5, 0.08);  // 5 standard errors.
  EXPECT_NE(points.col(512), points.col(513));
}

TEST(Sobol, StarDiscrepancyOfThousandPlanePointsIsSmall) {
  for (const SobolSequence& sobol : {SobolSequence(2), SobolSequence(2, 77, "disc")}) {
    EXPECT_LT(StarDiscrepancyBound(sobol.Points(0, 1024)), 0.01);
  }
}

TEST(Sobol, IntegratesAProductBetterThanRandomPoints) {
  EXPECT_GE(IntegrationWins([](uint64_t seed) { return SobolSequence(5, seed, "integrate").Points(0, 1024); }), 90);
}

TEST(Sobol, NoColumnsAndNoPointsAreLegal) {
  EXPECT_EQ(SobolSequence(0).Point(3).size(), 0);
  EXPECT_EQ(SobolSequence(3).Points(5, 0).rows(), 0);
}

}  // namespace
}  // namespace luthier::math
