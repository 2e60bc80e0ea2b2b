#include "lib/math/banded_qr.h"

#include <cmath>

#include "Eigen/QR"
#include "gtest/gtest.h"
#include "lib/base/random.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd Banded(Index m, Index n, Index band, double shrink, base::RandomStream& random) {
  MatrixXd a = MatrixXd::Zero(m, n);
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < std::min(m, j + band + 1); ++i) a(i, j) = random.Normal();
    a.col(j) *= std::pow(shrink, static_cast<double>(j));
  }
  return a;
}

// Against Eigen's reflections of the whole columns.
TEST(BandedQr, IsTheFactorizationOfDenseReflections) {
  base::RandomStream random(1, "test/banded_qr");
  for (Index n : {1, 2, 3, 4, 5, 8, 9, 31, 64}) {
    for (Index band : {0, 1, 3, 4, 17, 83}) {
      for (Index m : {n + band, n + band / 2}) {
        SCOPED_TRACE(testing::Message() << m << " x " << n << ", band " << band);
        const MatrixXd a = Banded(m, n, band, 1.0, random);
        const BandedQr qr(a, band);
        const MatrixXd r = qr.r().triangularView<Eigen::Upper>();
        const Eigen::HouseholderQR<MatrixXd> dense(a);
        const MatrixXd expected = dense.matrixQR().topRows(n).triangularView<Eigen::Upper>();
        EXPECT_LT((r.cwiseAbs() - expected.cwiseAbs()).cwiseAbs().maxCoeff(), 1e-11 * (1.0 + a.norm()));
        MatrixXd q(m, m);
        for (Index j = 0; j < m; ++j) {
          VectorXd unit = VectorXd::Unit(m, j);
          qr.ApplyQ(&unit);
          q.col(j) = unit;
        }
        EXPECT_LT((q.transpose() * q - MatrixXd::Identity(m, m)).cwiseAbs().maxCoeff(), 1e-13);
        EXPECT_LT((q.leftCols(n) * r - a).cwiseAbs().maxCoeff(), 1e-13 * (1.0 + a.norm()));
      }
    }
  }
}

// Columns between 1 and 1e-60: each keeps its own relative accuracy.
TEST(BandedQr, TinyColumnsKeepTheirDigits) {
  base::RandomStream random(2, "test/banded_qr");
  const Index n = 20, band = 11, m = n + band;
  const MatrixXd a = Banded(m, n, band, 1e-3, random);
  const BandedQr qr(a, band);
  for (Index j = 0; j < n; ++j) {
    VectorXd column = VectorXd::Zero(m);
    column.head(j + 1) = qr.r().col(j).head(j + 1);
    qr.ApplyQ(&column);
    EXPECT_LT((column - a.col(j)).norm(), 1e-13 * a.col(j).norm()) << j;
  }
}

// A block on a diagonal, as a regularised regression stacks them; what is below the band is not read.
TEST(BandedQr, ZeroColumnsAndForeignEntriesBelow) {
  base::RandomStream random(3, "test/banded_qr");
  MatrixXd a = Banded(12, 7, 5, 1.0, random);
  const MatrixXd r = BandedQr(a, 5).r().triangularView<Eigen::Upper>();
  for (Index j = 0; j < 7; ++j) a.col(j).tail(12 - std::min<Index>(12, j + 6)).setConstant(NAN);
  EXPECT_EQ(MatrixXd(BandedQr(a, 5).r().triangularView<Eigen::Upper>()), r);
  const BandedQr zero(MatrixXd::Zero(6, 3), 3);
  EXPECT_EQ(MatrixXd(zero.r()).norm(), 0.0);
  VectorXd x = VectorXd::LinSpaced(6, 1.0, 6.0);
  const VectorXd before = x;
  zero.ApplyQ(&x);
  EXPECT_EQ(x, before);
}

}  // namespace
}  // namespace luthier::math
