#include "lib/linear/logistic_preconditioner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/linear/panel_cholesky.h"

namespace luthier::linear {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kMostWeights = 2500;
constexpr double kMostPasses = 100.0;  // Largest cost of Make, in passes.
// Number of multiplications in matrix products that take as long as one of a pass over sparse rows.
constexpr double kProductSpeed = 4.0;
// Share of the largest diagonal entry from which on the least penalty makes conjugate gradients fast without help.
constexpr double kDominated = 0.05;
constexpr double kRidge = 1e-14;  // As a share of the largest diagonal entry.

// Number of sampled rows for each weight. With a quarter of them conjugate gradients need three times as many products
// if penalties are small.
constexpr int64_t kRowsPerWeight = 2, kFewestRows = 2000;

int64_t SampleSize(const LogisticData& data) {
  return std::min<int64_t>(data.rows(), std::max<int64_t>(kFewestRows, kRowsPerWeight * data.dim()));
}

}  // namespace

double LogisticPreconditioner::Passes(const LogisticData& data) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (data.scores() == 1 || data.dim() > kMostWeights) return kNone;
  const double k = data.scores(), dim = static_cast<double>(data.dim());
  const double q = static_cast<double>(data.features()) + 1.0;
  const double products = 0.5 * k * (k + 1.0) * static_cast<double>(SampleSize(data)) * q * q + dim * dim * dim / 3.0;
  const double pass = std::max(1.0, 2.0 * k * data.mean_entries() * static_cast<double>(data.rows()));
  const double passes = products / kProductSpeed / pass;
  return passes <= kMostPasses ? passes : kNone;
}

absl::StatusOr<std::optional<LogisticPreconditioner>> LogisticPreconditioner::Make(
    const LogisticData& data, const LogisticData::Curvature& curvature, const VectorXd& penalty,
    const base::StopToken& stop) {
  if (!std::isfinite(Passes(data))) return std::nullopt;
  const int K = data.scores();
  const Index p = data.features();
  const Index q = p + (data.intercept() ? 1 : 0);
  const int64_t n = data.rows(), s = SampleSize(data);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < s; ++i) rows.push_back(i * n / s);
  LUTHIER_ASSIGN_OR_RETURN(const MatrixXd sampled, data.DenseRows(rows, stop));
  const MatrixXd x = sampled.transpose();  // q x s; with an intercept the last row is ones.
  const double share = static_cast<double>(n) / static_cast<double>(s);
  // Returns the index of weight (class, column), or -1: the first class has no intercept.
  const auto index = [&](int k, Index j) {
    if (j < p) return j * K + k;
    return k == 0 ? Index{-1} : p * K + k - 1;
  };
  double largest = 0.0;  // Largest diagonal entry.
  base::Pace pace(stop);
  for (int k = 0; k < K; ++k) {
    VectorXd squares = VectorXd::Zero(q);
    for (Index i = 0; i < x.cols(); ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(q));
      const double prob = curvature.probability(k, rows[static_cast<size_t>(i)]);
      squares += share * prob * (1.0 - prob) * x.col(i).cwiseAbs2();
    }
    largest = std::max(largest, squares.maxCoeff());
  }
  if (penalty.head(data.penalized()).minCoeff() >= kDominated * largest) return std::nullopt;
  MatrixXd m = MatrixXd::Zero(data.dim(), data.dim());
  MatrixXd block(q, q), weighted(q, x.cols());
  VectorXd d(x.cols());
  // A multiplication in matrix products takes an eighth of the time of others. The factorisation below has the same
  // time between polls.
  const Index strip = std::clamp<Index>(Index{8 * 64 * 64} * data.dim() / (q * q), 1, x.cols());
  for (int k = 0; k < K; ++k) {
    for (int l = 0; l <= k; ++l) {
      for (Index i = 0; i < x.cols(); ++i) {
        LUTHIER_RETURN_IF_ERROR(pace.Poll(2));
        const auto at = curvature.probability.col(rows[static_cast<size_t>(i)]);
        d[i] = share * at[k] * ((k == l ? 1.0 : 0.0) - at[l]);
      }
      block.setZero();
      for (Index begin = 0; begin < x.cols(); begin += strip) {
        const Index count = std::min(strip, x.cols() - begin);
        LUTHIER_RETURN_IF_ERROR(pace.Poll(count * q * q / 8));
        weighted.leftCols(count) = x.middleCols(begin, count) * d.segment(begin, count).asDiagonal();
        block.noalias() += weighted.leftCols(count) * x.middleCols(begin, count).transpose();
      }
      // The block of classes k and l is symmetric, so it serves both orders.
      for (Index a = 0; a < q; ++a) {
        LUTHIER_RETURN_IF_ERROR(pace.Poll(4 * q));
        for (Index b = 0; b < q; ++b) {
          const Index row = index(k, a), column = index(l, b);
          if (row < 0 || column < 0) continue;
          m(row, column) = block(a, b);
          m(column, row) = block(a, b);
        }
      }
    }
  }
  // An intercept has no penalty, and a saturated model no curvature in it.
  m.diagonal().array() += penalty.array() + kRidge * std::max(largest, penalty.maxCoeff());
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, FactorInPlace(&m, stop));
  if (!factored) return std::nullopt;
  return std::optional<LogisticPreconditioner>(LogisticPreconditioner(std::move(m)));
}

VectorXd LogisticPreconditioner::Solve(const VectorXd& r) const {
  VectorXd x = r;
  factor_.triangularView<Eigen::Lower>().solveInPlace(x);
  factor_.triangularView<Eigen::Lower>().transpose().solveInPlace(x);
  return x;
}

}  // namespace luthier::linear
