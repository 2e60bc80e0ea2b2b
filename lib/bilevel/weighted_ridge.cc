#include "lib/bilevel/weighted_ridge.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/null_space.h"

namespace luthier::bilevel {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kWeightedStrip = 64;  // Rows between two polls of the stop.

ArrayXd Sigmoid(const VectorXd& time, const Recency& recency) {
  return 1.0 / (1.0 + (-recency.slope * (time.array() - recency.center)).exp());
}

}  // namespace

VectorXd RecencyWeights(const VectorXd& time, const Recency& recency) {
  const ArrayXd s = Sigmoid(time, recency);
  return s * (static_cast<double>(time.size()) / s.sum());
}

absl::StatusOr<WeightedRidgeFit> WeightedRidge::Fit(const VectorXd& l2, const Recency& recency,
                                                    const MatrixXd* held_out, const VectorXd* held_out_target,
                                                    const base::StopToken& stop) const {
  const Index n = points_->rows(), p = points_->cols(), dim = p + (intercept_ ? 1 : 0);
  LUTHIER_CHECK(l2.size() == p && time_->size() == n);
  const VectorXd u = RecencyWeights(*time_, recency);
  MatrixXd hessian = MatrixXd::Zero(dim, dim);
  VectorXd b = VectorXd::Zero(dim);
  for (Index begin = 0; begin < n; begin += kWeightedStrip) {
    const Index count = std::min(kWeightedStrip, n - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(count * dim * dim));
    MatrixXd rows(count, dim);
    rows.leftCols(p) = points_->middleRows(begin, count);
    if (intercept_) rows.col(p).setOnes();
    const VectorXd weight = u.segment(begin, count);
    b.noalias() += rows.transpose() * weight.cwiseProduct(target_->segment(begin, count));
    hessian.selfadjointView<Eigen::Lower>().rankUpdate((weight.cwiseSqrt().asDiagonal() * rows).transpose());
  }
  hessian.diagonal().head(p) += l2;
  WeightedRidgeFit fit;
  const Eigen::LLT<MatrixXd> factor(hessian);
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const auto pivots = factor.matrixLLT().diagonal().array().square();
  if (factor.info() != Eigen::Success || !(pivots.minCoeff() > kDependent * pivots.maxCoeff())) {
    fit.singular = true;
    return fit;
  }
  VectorXd theta = factor.solve(b);
  theta += factor.solve(b - hessian.selfadjointView<Eigen::Lower>() * theta);
  const double scale = b.norm();
  fit.relative_gradient = scale > 0.0 ? (b - hessian.selfadjointView<Eigen::Lower>() * theta).norm() / scale : 0.0;
  fit.weights = theta.head(p);
  fit.intercept = intercept_ ? theta[p] : 0.0;
  if (held_out == nullptr) return fit;
  // q = H^-1 dE/dtheta; dE/dlambda_j = -l2_j theta_j q_j; dE/du_t = -(x_t'q) (x_t'theta - y_t).
  const double m = static_cast<double>(held_out->rows());
  const VectorXd residual = (*held_out * fit.weights).array() + fit.intercept - held_out_target->array();
  VectorXd slope(dim);
  slope.head(p) = 2.0 / m * (held_out->transpose() * residual);
  if (intercept_) slope[p] = 2.0 / m * residual.sum();
  const VectorXd q = factor.solve(slope);
  const double q0 = intercept_ ? q[p] : 0.0;
  const ArrayXd e =
      -((*points_ * q.head(p)).array() + q0) * ((*points_ * fit.weights).array() + fit.intercept - target_->array());
  const ArrayXd s = Sigmoid(*time_, recency);
  const double total = s.sum(), rows = static_cast<double>(n);
  // u = n s / sum s
  const ArrayXd by_s = rows / total * (e - (e * u.array()).sum() / rows);
  const ArrayXd bend = s * (1.0 - s);
  fit.gradient.resize(p + 2);
  fit.gradient.head(p) = -l2.cwiseProduct(fit.weights).cwiseProduct(q.head(p));
  fit.gradient[p] = recency.slope * (by_s * bend * (time_->array() - recency.center)).sum();
  fit.gradient[p + 1] = -recency.slope * (by_s * bend).sum();
  return fit;
}

}  // namespace luthier::bilevel
