#include "lib/math/cholesky.h"

#include <cmath>
#include <limits>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/triangular_blocks.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd RandomMatrix(base::RandomStream& stream, Index rows, Index cols) {
  MatrixXd a(rows, cols);
  for (Index j = 0; j < cols; ++j) {
    for (Index i = 0; i < rows; ++i) a(i, j) = stream.Normal();
  }
  return a;
}

// Well-conditioned covariance.
MatrixXd RandomSpd(base::RandomStream& stream, Index n) {
  const MatrixXd a = RandomMatrix(stream, n, n);
  return a * a.transpose() / static_cast<double>(n) + 0.5 * MatrixXd::Identity(n, n);
}

MatrixXd Reconstruct(const Cholesky& c) {
  const MatrixXd l = c.lower().triangularView<Eigen::Lower>();
  return l * l.transpose();
}

TEST(Cholesky, SolvesAndMeasuresLikeDenseLinearAlgebra) {
  base::RandomStream stream(1, "cholesky");
  for (Index n : {1, 2, 5, 40, 130}) {
    const MatrixXd c = RandomSpd(stream, n);
    const std::optional<Cholesky> factor = Cholesky::Factor(c, {}, base::StopToken()).value();
    ASSERT_TRUE(factor.has_value());
    EXPECT_EQ(factor->jitter(), 0.0);
    EXPECT_LT((Reconstruct(*factor) - c).cwiseAbs().maxCoeff(), 1e-12);
    const VectorXd b = RandomMatrix(stream, n, 1);
    EXPECT_LT((c * factor->Solve(b) - b).cwiseAbs().maxCoeff(), 1e-11);
    const MatrixXd l = factor->lower().triangularView<Eigen::Lower>();
    for (Index columns : {1, 2, 7}) {
      const MatrixXd right = RandomMatrix(stream, n, columns);
      MatrixXd solved = right;
      factor->SolveLowerInPlace(solved);
      EXPECT_LT((l * solved - right).cwiseAbs().maxCoeff(), 1e-11) << columns;
    }
    EXPECT_NEAR(factor->LogDeterminant(),
                Eigen::PartialPivLU<MatrixXd>(c).matrixLU().diagonal().array().abs().log().sum(), 1e-10);
  }
}

TEST(Cholesky, ReadsTheLowerTriangleOnly) {
  base::RandomStream stream(2, "cholesky");
  const MatrixXd c = RandomSpd(stream, 20);
  MatrixXd spoiled = c;
  spoiled.triangularView<Eigen::StrictlyUpper>().setConstant(std::numeric_limits<double>::quiet_NaN());
  const std::optional<Cholesky> factor = Cholesky::Factor(spoiled, {}, base::StopToken()).value();
  ASSERT_TRUE(factor.has_value());
  EXPECT_LT((Reconstruct(*factor) - c).cwiseAbs().maxCoeff(), 1e-12);
}

TEST(Cholesky, AppendAndPopMatchFullFactorisation) {
  base::RandomStream stream(3, "cholesky");
  const Index total = 120;
  const MatrixXd c = RandomSpd(stream, total);
  Cholesky grown = *Cholesky::Factor(c.topLeftCorner(3, 3), {}, base::StopToken()).value();
  double worst = 0.0;
  for (int step = 0; step < 200; ++step) {
    const Index n = grown.size();
    const bool pop = n == total || (n > 3 && stream.Uniform() < 0.3);
    if (pop) {
      grown.PopBack(static_cast<int>(1 + stream.UniformInt(static_cast<uint64_t>(std::min<Index>(3, n - 1)))));
    } else {
      ASSERT_TRUE(grown.Append(c.col(n).head(n), c(n, n)));
    }
    const Index m = grown.size();
    const Cholesky full = *Cholesky::Factor(c.topLeftCorner(m, m), {}, base::StopToken()).value();
    const MatrixXd difference = MatrixXd(grown.lower()) - MatrixXd(full.lower());
    worst = std::max(worst, MatrixXd(difference.triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff());
  }
  EXPECT_LT(worst, 1e-10);
}

TEST(Cholesky, GrowsFromNothing) {
  Cholesky c;
  EXPECT_EQ(c.LogDeterminant(), 0.0);
  ASSERT_TRUE(c.Append(VectorXd(0), 4.0));
  EXPECT_EQ(c.lower()(0, 0), 2.0);
  EXPECT_TRUE(Cholesky::Factor(MatrixXd(0, 0), {}, base::StopToken()).value().has_value());
}

TEST(Cholesky, SingularMatricesClimbTheJitterLadder) {
  const MatrixXd ones = MatrixXd::Ones(30, 30);
  const std::optional<Cholesky> factor =
      Cholesky::Factor(ones - 1e-9 * MatrixXd::Identity(30, 30), {}, base::StopToken()).value();
  ASSERT_TRUE(factor.has_value());
  EXPECT_GT(factor->jitter(), 1e-9);
  EXPECT_LE(factor->jitter(), 1e-8 * 1.0001);
}

TEST(Cholesky, TwentyDuplicatesUnderSmallNoiseNeedNoJitter) {
  const MatrixXd c = MatrixXd::Ones(20, 20) + 1e-6 * MatrixXd::Identity(20, 20);
  const std::optional<Cholesky> factor = Cholesky::Factor(c, {}, base::StopToken()).value();
  ASSERT_TRUE(factor.has_value());
  EXPECT_EQ(factor->jitter(), 0.0);
}

TEST(Cholesky, RefusesWhatNoJitterMends) {
  MatrixXd c = MatrixXd::Identity(3, 3);
  c(2, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Cholesky::Factor(c, {}, base::StopToken()).value().has_value());
  c(2, 1) = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Cholesky::Factor(c, {}, base::StopToken()).value().has_value());
  c(2, 1) = 5.0;  // Indefinite.
  EXPECT_FALSE(Cholesky::Factor(c, {}, base::StopToken()).value().has_value());
}

TEST(Cholesky, AppendOfADependentRowFailsAndChangesNothing) {
  Cholesky c = *Cholesky::Factor(MatrixXd::Identity(2, 2), {}, base::StopToken()).value();
  EXPECT_FALSE(c.Append((VectorXd(2) << 1.0, 0.0).finished(), 1.0));
  EXPECT_FALSE(c.Append((VectorXd(2) << NAN, 0.0).finished(), 1.0));
  EXPECT_EQ(c.size(), 2);
  EXPECT_TRUE(c.Append((VectorXd(2) << 0.5, 0.0).finished(), 1.0));
}

TEST(TriangularBlocks, FactorAndInverseMatchLu) {
  base::RandomStream stream(4, "cholesky");
  TriangularSpace space;
  for (Index n : {1, 3, 4, 12, 47, 48, 49, 64, 97, 150, 319, 320, 333, 650}) {
    const MatrixXd c = RandomSpd(stream, n);
    MatrixXd l = c.triangularView<Eigen::Lower>();
    l.triangularView<Eigen::StrictlyUpper>().setConstant(std::numeric_limits<double>::quiet_NaN());
    ASSERT_TRUE(FactorLowerInPlace(l, &space, base::StopToken()).value());
    const MatrixXd lower = l.triangularView<Eigen::Lower>();
    EXPECT_LT((lower * lower.transpose() - c).cwiseAbs().maxCoeff(), 1e-12) << n;
    MatrixXd upper;
    EXPECT_TRUE(InverseTransposed(l, &space, &upper, base::StopToken()).ok());
    EXPECT_LT((upper.transpose() * lower - MatrixXd::Identity(n, n)).cwiseAbs().maxCoeff(), 1e-11) << n;
    EXPECT_TRUE(upper.isUpperTriangular(0.0));
    MatrixXd inverse = MatrixXd::Ones(n, n);
    EXPECT_TRUE(AddSquareOfUpper(upper, 2.0, &space, inverse, base::StopToken()).ok());
    const MatrixXd difference = 0.5 * (inverse - MatrixXd::Ones(n, n)) - Eigen::PartialPivLU<MatrixXd>(c).inverse();
    EXPECT_LT(MatrixXd(difference.triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff(), 1e-11) << n;
  }
}

TEST(TriangularBlocks, WorksInsideALargerMatrix) {
  base::RandomStream stream(5, "cholesky");
  TriangularSpace space;
  const MatrixXd c = RandomSpd(stream, 30);
  MatrixXd whole = MatrixXd::Constant(40, 40, 7.0);
  whole.block(5, 3, 30, 30) = c;
  ASSERT_TRUE(FactorLowerInPlace(whole.block(5, 3, 30, 30), &space, base::StopToken()).value());
  MatrixXd alone = c;
  ASSERT_TRUE(FactorLowerInPlace(alone, &space, base::StopToken()).value());
  EXPECT_EQ(MatrixXd(whole.block(5, 3, 30, 30).triangularView<Eigen::Lower>()),
            MatrixXd(alone.triangularView<Eigen::Lower>()));
  whole.block(5, 3, 30, 30).setConstant(7.0);
  EXPECT_EQ(whole, MatrixXd::Constant(40, 40, 7.0));
}

TEST(TriangularBlocks, RefusesWhatIsNotPositiveDefinite) {
  base::RandomStream stream(6, "cholesky");
  TriangularSpace space;
  for (Index n : {1, 6, 50, 400}) {
    for (const double bad :
         {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      MatrixXd c = RandomSpd(stream, n);
      c(n - 1, n - 1) = bad;
      EXPECT_FALSE(FactorLowerInPlace(c, &space, base::StopToken()).value()) << n << " " << bad;
    }
  }
}

}  // namespace
}  // namespace luthier::math
