#include "lib/bilevel/ridge_targets.h"

#include <optional>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/null_space.h"
#include "lib/math/cholesky.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

void SolveInPlace(const math::Cholesky& factor, MatrixXd* b) {
  factor.SolveLowerInPlace(*b);
  factor.SolveLowerTransposedInPlace(*b);
}

}  // namespace

absl::StatusOr<MatrixXd> MultiplyTargets(const LeastSquaresData& data, const MatrixXd& v, const base::StopToken& stop) {
  MatrixXd out(data.rows(), v.cols());
  for (Index t = 0; t < v.cols(); ++t) {
    LUTHIER_ASSIGN_OR_RETURN(out.col(t), data.Multiply(v.col(t), stop));
  }
  return out;
}

absl::StatusOr<MatrixXd> MultiplyTargetsTransposed(const LeastSquaresData& data, const MatrixXd& r,
                                                   const base::StopToken& stop) {
  MatrixXd out(data.cols(), r.cols());
  for (Index t = 0; t < r.cols(); ++t) {
    LUTHIER_ASSIGN_OR_RETURN(out.col(t), data.MultiplyTransposed(r.col(t), stop));
  }
  return out;
}

absl::StatusOr<RidgeTargetsFit> FitRidgeTargets(const MatrixXd& gram, const MatrixXd& product, const VectorXd& l2,
                                                const LeastSquaresData* held_out, const MatrixXd* held_out_targets,
                                                const base::StopToken& stop) {
  const Index p = gram.rows();
  LUTHIER_CHECK(product.rows() == p && l2.size() == p);
  MatrixXd hessian = gram;
  hessian.diagonal() += l2;
  RidgeTargetsFit fit;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor,
                           math::Cholesky::Factor(hessian, {.rungs = 0}, stop));
  if (factor) {
    const VectorXd pivots = factor->lower().diagonal().cwiseAbs2();
    fit.singular = p > 0 && !(pivots.minCoeff() > kDependent * pivots.maxCoeff());
  } else {
    fit.singular = true;
  }
  if (fit.singular) return fit;
  const auto full = hessian.selfadjointView<Eigen::Lower>();
  fit.weights = product;
  SolveInPlace(*factor, &fit.weights);
  // Makes one step of refinement.
  MatrixXd rest = product - full * fit.weights;
  SolveInPlace(*factor, &rest);
  fit.weights += rest;
  const double scale = product.norm();
  if (scale > 0.0) fit.relative_gradient = (product - full * fit.weights).norm() / scale;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (held_out == nullptr) return fit;
  // Q = H^-1 dE/dW; dE/d ln l2_j = -l2_j W_j: . Q_j:
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd residual, MultiplyTargets(*held_out, fit.weights, stop));
  residual -= *held_out_targets;
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd q, MultiplyTargetsTransposed(*held_out, residual, stop));
  q *= 2.0 / static_cast<double>(residual.size());
  SolveInPlace(*factor, &q);
  fit.gradient = -l2.cwiseProduct(fit.weights.cwiseProduct(q).rowwise().sum());
  return fit;
}

}  // namespace luthier::bilevel
