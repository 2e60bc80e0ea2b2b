#include "lib/math/cholesky_reverse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "Eigen/Dense"
#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd RandomMatrix(Index rows, Index cols, uint64_t seed) {
  base::RandomStream random(seed, "matrix");
  MatrixXd m(rows, cols);
  for (Index j = 0; j < cols; ++j) {
    for (Index i = 0; i < rows; ++i) m(i, j) = random.Normal();
  }
  return m;
}

MatrixXd RandomPositive(Index n, uint64_t seed) {
  const MatrixXd a = RandomMatrix(n, n, seed);
  return a * a.transpose() / static_cast<double>(n) + 0.5 * MatrixXd::Identity(n, n);
}

MatrixXd Lower(const MatrixXd& h) {
  return h.llt().matrixL();
}

// d E / d H_ij, H_ij and H_ji moved together.
MatrixXd Differences(const MatrixXd& h, const std::function<double(const MatrixXd&)>& e) {
  constexpr double kStep = 1e-5;
  MatrixXd out = MatrixXd::Zero(h.rows(), h.cols());
  for (Index j = 0; j < h.cols(); ++j) {
    for (Index i = j; i < h.rows(); ++i) {
      MatrixXd up = h, down = h;
      up(i, j) += kStep;
      down(i, j) -= kStep;
      up(j, i) = up(i, j);
      down(j, i) = down(i, j);
      out(i, j) = (e(up) - e(down)) / (2.0 * kStep);
    }
  }
  return out;
}

TEST(CholeskyReverseTest, AgreesWithDifferences) {
  const MatrixXd h = RandomPositive(7, 1), weights = RandomMatrix(7, 7, 2);
  const auto e = [&](const MatrixXd& at) {
    const MatrixXd l = Lower(at);
    return (weights.cwiseProduct(l)).sum() + l.array().square().square().sum();
  };
  const MatrixXd l = Lower(h);
  MatrixXd l_bar = weights + 4.0 * l.array().cube().matrix();
  l_bar = l_bar.triangularView<Eigen::Lower>();
  const MatrixXd expected = Differences(h, e);
  EXPECT_LT((ReverseCholeskyByEntry(l, l_bar) - expected).cwiseAbs().maxCoeff(), 1e-8);
  EXPECT_LT((ReverseCholesky(l, l_bar, {}).value() - expected).cwiseAbs().maxCoeff(), 1e-8);
}

TEST(CholeskyReverseTest, BlocksAgreeWithEntries) {
  for (const Index n : {1, 2, 63, 64, 65, 128, 200}) {
    const MatrixXd l = Lower(RandomPositive(n, 3));
    const MatrixXd l_bar = RandomMatrix(n, n, 4).triangularView<Eigen::Lower>();
    const MatrixXd entries = ReverseCholeskyByEntry(l, l_bar), blocks = ReverseCholesky(l, l_bar, {}).value();
    const MatrixXd difference = (entries - blocks).triangularView<Eigen::Lower>();
    EXPECT_LT(difference.norm(), 1e-11 * entries.norm()) << n;
  }
}

// ln det H = 2 sum ln L_ii has the derivative H^-1, twice off the diagonal.
TEST(CholeskyReverseTest, LogDeterminantHasTheInverse) {
  constexpr Index kSize = 90;
  const MatrixXd h = RandomPositive(kSize, 5), l = Lower(h);
  const MatrixXd l_bar = (2.0 * l.diagonal().cwiseInverse()).asDiagonal();
  MatrixXd expected = h.inverse();
  expected += MatrixXd(expected.triangularView<Eigen::StrictlyLower>());
  expected = expected.triangularView<Eigen::Lower>();
  const MatrixXd got = ReverseCholesky(l, l_bar, {}).value().triangularView<Eigen::Lower>();
  EXPECT_LT((got - expected).norm(), 1e-11 * expected.norm());
}

// theta = H^-1 b by u = L^-1 b and theta = L^-T u. The adjoint q = H^-1 dE/dtheta gives dE/dH = -q theta' and
// dE/db = q without the factor's derivative.
TEST(CholeskyReverseTest, SolvesAgreeWithTheAdjoint) {
  for (const Index n : {5, 150}) {
    const MatrixXd h = RandomPositive(n, 6), b = RandomMatrix(n, 3, 7), theta_bar = RandomMatrix(n, 3, 8);
    const MatrixXd l = Lower(h);
    MatrixXd u = b;
    l.triangularView<Eigen::Lower>().solveInPlace(u);
    MatrixXd theta = u;
    l.triangularView<Eigen::Lower>().transpose().solveInPlace(theta);
    MatrixXd l_bar = MatrixXd::Zero(n, n);
    const MatrixXd u_bar = ReverseSolveLowerTransposed(l, theta, theta_bar, &l_bar);
    const MatrixXd b_bar = ReverseSolveLower(l, u, u_bar, &l_bar);
    const MatrixXd q = h.ldlt().solve(theta_bar);
    MatrixXd expected = -(q * theta.transpose() + theta * q.transpose());
    expected.diagonal() *= 0.5;
    expected = expected.triangularView<Eigen::Lower>();
    for (const MatrixXd& got : {ReverseCholeskyByEntry(l, l_bar), ReverseCholesky(l, l_bar, {}).value()}) {
      EXPECT_LT((MatrixXd(got.triangularView<Eigen::Lower>()) - expected).norm(), 1e-10 * expected.norm()) << n;
    }
    EXPECT_LT((b_bar - q).norm(), 1e-10 * q.norm()) << n;
  }
}

TEST(CholeskyReverseTest, Stops) {
  base::StopSource source;
  source.RequestStop();
  EXPECT_TRUE(
      absl::IsCancelled(ReverseCholesky(MatrixXd::Identity(3, 3), MatrixXd::Zero(3, 3), source.token()).status()));
}

}  // namespace
}  // namespace luthier::math
