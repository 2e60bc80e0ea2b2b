#include "lib/linear/logistic_preconditioner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

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

// Returns the cost of the Hessian of `rows` rows and of its factor, in passes.
double CostInPasses(const LogisticData& data, double rows) {
  const double k = data.scores(), dim = static_cast<double>(data.dim());
  const double q = static_cast<double>(data.features()) + 1.0;
  const double products = 0.5 * k * (k + 1.0) * rows * q * q + dim * dim * dim / 3.0;
  const double pass = std::max(1.0, 2.0 * k * data.mean_entries() * static_cast<double>(data.rows()));
  return products / kProductSpeed / pass;
}

}  // namespace

double LogisticPreconditioner::Passes(const LogisticData& data) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (data.scores() == 1 || data.dim() > kMostWeights) return kNone;
  const double passes = CostInPasses(data, static_cast<double>(SampleSize(data)));
  return passes <= kMostPasses ? passes : kNone;
}

double LogisticPreconditioner::ExactPasses(const LogisticData& data) {
  return CostInPasses(data, static_cast<double>(data.rows()));
}

VectorXd LogisticPreconditioner::Order::To(const VectorXd& w, double at_dummy) const {
  VectorXd v(size());
  for (Index k = 0; k < scores; ++k) {
    for (Index j = 0; j < features; ++j) v[k * block + j] = w[j * scores + k];
    if (block == features) continue;
    const Index at = features * scores + (scores == 1 ? 0 : k - 1);
    v[k * block + features] = k == 0 && scores > 1 ? at_dummy : w[at];
  }
  return v;
}

VectorXd LogisticPreconditioner::Order::From(const VectorXd& v) const {
  VectorXd w(features * scores + (block == features ? 0 : std::max<Index>(1, scores - 1)));
  for (Index k = 0; k < scores; ++k) {
    for (Index j = 0; j < features; ++j) w[j * scores + k] = v[k * block + j];
    if (block == features || (k == 0 && scores > 1)) continue;
    w[features * scores + (scores == 1 ? 0 : k - 1)] = v[k * block + features];
  }
  return w;
}

absl::StatusOr<MatrixXd> LogisticPreconditioner::Hessian(const LogisticData& data,
                                                         const LogisticData::Curvature& curvature, int64_t sample,
                                                         const base::StopToken& stop) {
  const Order order(data);
  const Index q = order.block;
  const int64_t n = data.rows();
  const double share = static_cast<double>(n) / static_cast<double>(std::max<int64_t>(1, sample)) * curvature.factor;
  MatrixXd m = MatrixXd::Zero(order.size(), order.size());
  // A multiplication in matrix products takes an eighth of the time of others.
  constexpr int64_t kStripWork = int64_t{1} << 23;
  const int64_t strip = std::clamp<int64_t>(kStripWork / (q * q), 16, 512);
  MatrixXd weighted;
  VectorXd d;
  for (int64_t begin = 0; begin < sample; begin += strip) {
    const Index count = std::min(strip, sample - begin);
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < begin + count; ++i) rows.push_back(i * n / sample);
    LUTHIER_ASSIGN_OR_RETURN(const MatrixXd x, data.DenseRows(rows, stop));  // count x q
    d.resize(count);
    for (Index k = 0; k < order.scores; ++k) {
      for (Index l = 0; l <= k; ++l) {
        LUTHIER_RETURN_IF_ERROR(stop.Poll());
        for (Index i = 0; i < count; ++i) {
          const auto at = curvature.probability.col(rows[static_cast<size_t>(i)]);
          d[i] = share * at[k] * ((k == l ? 1.0 : 0.0) - at[l]);
        }
        weighted.noalias() = d.asDiagonal() * x;
        if (k == l) {
          m.block(k * q, k * q, q, q).triangularView<Eigen::Lower>() += weighted.transpose() * x;
        } else {
          m.block(k * q, l * q, q, q).noalias() += weighted.transpose() * x;
        }
      }
    }
  }
  if (order.dummy()) {
    m.row(q - 1).setZero();
    m.col(q - 1).setZero();
  }
  return m;
}

absl::StatusOr<std::optional<LogisticPreconditioner>> LogisticPreconditioner::Make(
    const LogisticData& data, const LogisticData::Curvature& curvature, const VectorXd& penalty,
    const base::StopToken& stop) {
  if (!std::isfinite(Passes(data))) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd diagonal, data.HessianDiagonal(curvature, stop));
  const double largest = diagonal.maxCoeff();
  if (penalty.head(data.penalized()).minCoeff() >= kDominated * largest) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd m, Hessian(data, curvature, SampleSize(data), stop));
  const Order order(data);
  // An intercept has no penalty, and a saturated model no curvature in it.
  m.diagonal() += order.To(penalty, 1.0);
  m.diagonal().array() += kRidge * std::max(largest, penalty.maxCoeff());
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, FactorInPlace(&m, stop));
  if (!factored) return std::nullopt;
  return std::optional<LogisticPreconditioner>(LogisticPreconditioner(order, std::move(m)));
}

absl::StatusOr<std::optional<LogisticPreconditioner>> LogisticPreconditioner::MakeExact(
    const LogisticData& data, const LogisticData::Curvature& curvature, const VectorXd& penalty,
    const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd m, Hessian(data, curvature, data.rows(), stop));
  const Order order(data);
  m.diagonal() += order.To(penalty, 1.0);
  if (!m.diagonal().allFinite()) return std::nullopt;
  // Columns without entries leave zeros on the diagonal where nothing is penalised.
  for (Index i = 0; i < m.rows(); ++i) {
    if (m(i, i) == 0.0) m(i, i) = 1.0;
  }
  // Dependent columns leave pivots that are rounding. What is added is a share of each column's own curvature, so that
  // columns in small units keep theirs.
  const MatrixXd hessian = m;
  for (double ridge = 0.0; ridge < 1.0; ridge = ridge == 0.0 ? 1e-15 : 10.0 * ridge) {
    if (ridge > 0.0) {
      m = hessian;
      m.diagonal() *= 1.0 + ridge;
    }
    LUTHIER_ASSIGN_OR_RETURN(const bool factored, FactorInPlace(&m, stop));
    if (factored) return std::optional<LogisticPreconditioner>(LogisticPreconditioner(order, std::move(m)));
  }
  return std::nullopt;
}

VectorXd LogisticPreconditioner::Solve(const VectorXd& r) const {
  VectorXd x = order_.To(r, 0.0);
  factor_.triangularView<Eigen::Lower>().solveInPlace(x);
  factor_.triangularView<Eigen::Lower>().transpose().solveInPlace(x);
  return order_.From(x);
}

}  // namespace luthier::linear
