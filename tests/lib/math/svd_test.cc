#include "lib/math/svd.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "Eigen/QR"
#include "Eigen/SVD"
#include "gtest/gtest.h"
#include "lib/base/random.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd Gaussian(Index m, Index n, base::RandomStream& random) {
  MatrixXd a(m, n);
  for (double& x : a.reshaped()) x = random.Normal();
  return a;
}

MatrixXd Orthonormal(Index m, Index n, base::RandomStream& random) {
  return MatrixXd(Eigen::HouseholderQR<MatrixXd>(Gaussian(m, n, random)).householderQ()).leftCols(n);
}

MatrixXd WithValues(Index m, Index n, const VectorXd& values, base::RandomStream& random) {
  const Index k = values.size();
  return Orthonormal(m, k, random) * values.asDiagonal() * Orthonormal(n, k, random).transpose();
}

// Residuals are relative to the largest value; `scale` is the entries' unit, 1 but where squares overflow.
void ExpectDecomposes(const MatrixXd& a, double scale = 1.0, double tolerance = 1e-12) {
  SCOPED_TRACE(testing::Message() << a.rows() << " x " << a.cols());
  const Index k = std::min(a.rows(), a.cols());
  const ThinSvd svd = ComputeThinSvd(a);
  const VectorXd values = SingularValues(a);
  ASSERT_EQ(svd.u.rows(), a.rows());
  ASSERT_EQ(svd.v.rows(), a.cols());
  ASSERT_EQ(svd.u.cols(), k);
  ASSERT_EQ(svd.v.cols(), k);
  ASSERT_EQ(svd.values.size(), k);
  ASSERT_EQ(values.size(), k);
  const MatrixXd scaled = a / scale;
  const VectorXd expected = Eigen::JacobiSVD<MatrixXd>(scaled).singularValues();
  const double size = std::max(expected[0], std::numeric_limits<double>::min());
  EXPECT_LE((values / scale - expected).cwiseAbs().maxCoeff(), tolerance * size);
  EXPECT_LE((svd.values / scale - expected).cwiseAbs().maxCoeff(), tolerance * size);
  EXPECT_GE(svd.values.minCoeff(), 0.0);
  EXPECT_TRUE(std::is_sorted(svd.values.begin(), svd.values.end(), std::greater<double>()));
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end(), std::greater<double>()));
  const MatrixXd product = svd.u * (svd.values / scale).asDiagonal() * svd.v.transpose();
  EXPECT_LE((product - scaled).cwiseAbs().maxCoeff(), tolerance * size);
  EXPECT_LE((svd.u.transpose() * svd.u - MatrixXd::Identity(k, k)).cwiseAbs().maxCoeff(), tolerance);
  EXPECT_LE((svd.v.transpose() * svd.v - MatrixXd::Identity(k, k)).cwiseAbs().maxCoeff(), tolerance);
}

// In 4 of these decompositions Eigen 3.4's BDCSVD ends the program, and in 30 its values are wrong.
TEST(Svd, DecomposesHardMatricesAsJacobiDoes) {
  base::RandomStream random(1, "test/svd");
  for (int t = 0; t < 20; ++t) {
    for (const auto& [m, n] : std::vector<std::pair<Index, Index>>{
             {1, 1}, {2, 2}, {3, 1}, {1, 4}, {7, 7}, {40, 9}, {9, 40}, {33, 32}, {47, 48}, {60, 60}, {65, 64}}) {
      const Index k = std::min(m, n), rank = std::max<Index>(1, k * (t % 5) / 5);
      ExpectDecomposes(Gaussian(m, n, random));
      ExpectDecomposes(Gaussian(m, rank, random) * Gaussian(rank, n, random));
      ExpectDecomposes(WithValues(m, n, VectorXd::Ones(rank), random));
      VectorXd graded(k), doubled(k);
      for (Index i = 0; i < k; ++i) {
        graded[i] = std::pow(10.0, -12.0 * static_cast<double>(i) / static_cast<double>(k));
        doubled[i] = 1.0 + static_cast<double>(i / 3 % 4);
      }
      ExpectDecomposes(WithValues(m, n, graded, random));
      ExpectDecomposes(WithValues(m, n, doubled, random));
      MatrixXd holes = Gaussian(m, n, random);
      for (Index i = 0; i < m; i += 2) holes.row(i).setZero();
      for (Index j = 0; j < n; j += 3) holes.col(j).setZero();
      ExpectDecomposes(holes);
      MatrixXd badly = Gaussian(m, n, random);
      for (Index j = 0; j < n; ++j) badly.col(j) *= std::pow(10.0, 30.0 * random.Normal());
      ExpectDecomposes(badly);
    }
  }
}

TEST(Svd, DecomposesMatricesThatAreBidiagonalOrSparseAlready) {
  base::RandomStream random(2, "test/svd");
  for (const Index n : {2, 3, 8, 31, 60}) {
    ExpectDecomposes(MatrixXd::Zero(n, n));
    ExpectDecomposes(MatrixXd::Identity(n, n));
    ExpectDecomposes(MatrixXd::Ones(n, n));
    MatrixXd jordan = MatrixXd::Zero(n, n), chain = MatrixXd::Zero(n, n), graded = MatrixXd::Zero(n, n);
    for (Index i = 0; i + 1 < n; ++i) {
      jordan(i, i + 1) = chain(i, i + 1) = 1.0;
      graded(i, i) = graded(i, i + 1) = std::pow(0.1, static_cast<double>(i));
    }
    for (Index i = 0; i < n; ++i) chain(i, i) = i % 4 == 1 ? 0.0 : 1.0;
    ExpectDecomposes(jordan);
    ExpectDecomposes(chain);
    ExpectDecomposes(graded);
    ExpectDecomposes(MatrixXd(graded.reverse()));
    MatrixXd sparse = MatrixXd::Zero(n, n + 5);
    for (Index k = 0; k < n; ++k) sparse(k * 7 % n, k * k % (n + 5)) = random.Normal();
    ExpectDecomposes(sparse);
  }
}

// Gaussian matrices whose smaller values are cut to zero, as a proximal step does.
TEST(Svd, DecomposesMatricesThatAProximalStepCut) {
  base::RandomStream random(3, "test/svd");
  const Index n = 60;
  const MatrixXd u = Orthonormal(n, n, random), v = Orthonormal(n, n, random);
  const VectorXd values = SingularValues(Gaussian(n, n, random));
  for (int t = 0; t < 300; ++t) {
    const VectorXd cut = (values.array() - values[1 + t % (n - 1)]).cwiseMax(0.0) + (t % 2) * 1e-17;
    ExpectDecomposes(u * cut.asDiagonal() * v.transpose());
  }
}

TEST(Svd, ScalesDoNotMatter) {
  base::RandomStream random(4, "test/svd");
  const MatrixXd a = Gaussian(20, 12, random);
  for (const double scale : {1e300, 1e-290, 1e154, 1e-160}) {
    ExpectDecomposes(scale * a, scale);
    ExpectDecomposes(scale * a.transpose(), scale);
  }
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(SingularValues(MatrixXd::Constant(1, 1, -tiny))[0], tiny);
  EXPECT_EQ(SingularValues(MatrixXd::Identity(5, 5) * tiny)[4], tiny);
  EXPECT_EQ(ComputeThinSvd(MatrixXd::Constant(1, 1, -3.0)).values[0], 3.0);
}

TEST(Svd, LargeMatricesTakeSeveralRoundsOfRotations) {
  base::RandomStream random(5, "test/svd");
  ExpectDecomposes(Gaussian(203, 190, random));
}

TEST(Svd, NonFiniteMatricesHaveNoDecomposition) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    MatrixXd a = MatrixXd::Ones(5, 3);
    a(2, 1) = bad;
    EXPECT_TRUE(SingularValues(a).array().isNaN().all());
    const ThinSvd svd = ComputeThinSvd(a);
    EXPECT_EQ(svd.u.rows(), 5);
    EXPECT_EQ(svd.v.rows(), 3);
    EXPECT_TRUE(svd.values.array().isNaN().all() && svd.u.array().isNaN().all() && svd.v.array().isNaN().all());
  }
}

TEST(Svd, RefusesEmptyMatrices) {
  EXPECT_DEATH(SingularValues(MatrixXd(0, 3)), "a.size");
  EXPECT_DEATH(ComputeThinSvd(MatrixXd(3, 0)), "a.size");
}

}  // namespace
}  // namespace luthier::math
