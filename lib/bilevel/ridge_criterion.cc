#include "lib/bilevel/ridge_criterion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

absl::StatusOr<RidgeCriterionValue> EvaluateCriterion(RidgeCriterion criterion, const RidgeProblem& problem,
                                                      const math::Cholesky& factor, const VectorXd& weights,
                                                      const base::StopToken& stop) {
  const LeastSquaresData& data = problem.data;
  LUTHIER_CHECK(criterion != RidgeCriterion::kHeldOut && data.rows() > 0);
  const Index n = data.rows(), p = data.cols();
  const double rows = static_cast<double>(n);
  const double constant = problem.intercept ? 1.0 / rows : 0.0;
  const bool each = criterion == RidgeCriterion::kLeaveOneOut;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, data.Multiply(weights, stop));
  const VectorXd residual = data.target() - product;
  // With kGcv the derivatives by r_i and by S_ii have factors that are known only behind the last row.
  VectorXd residual_bar = residual, squares = VectorXd::Zero(p);
  RidgeCriterionValue out;
  double sum = 0.0;
  constexpr Index kStrip = 64;
  for (Index begin = 0; begin < n; begin += kStrip) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Index count = std::min(kStrip, n - begin);
    MatrixXd x = data.Dense(begin, count).transpose();
    factor.SolveLowerInPlace(x);
    const VectorXd hat = x.colwise().squaredNorm().transpose().array() + constant;
    out.degrees_of_freedom += hat.sum();
    const auto r = residual.segment(begin, count).array();
    Eigen::ArrayXd hat_bar = Eigen::ArrayXd::Ones(count);
    if (each) {
      const Eigen::ArrayXd left = 1.0 - hat.array();
      sum += (r / left).square().sum();
      residual_bar.segment(begin, count) = (2.0 / rows * r / left.square()).matrix();
      hat_bar = 2.0 / rows * r.square() / left.cube();
    } else {
      sum += r.square().sum();
    }
    if (!problem.gradient) continue;
    factor.SolveLowerTransposedInPlace(x);
    squares.noalias() += x.cwiseAbs2() * hat_bar.matrix();
  }
  const double left = 1.0 - out.degrees_of_freedom / rows;
  out.value = each ? sum / rows : sum / rows / (left * left);
  if (!problem.gradient) return out;
  if (!each) {
    residual_bar *= 2.0 / (rows * left * left);
    squares *= 2.0 * sum / (rows * rows * left * left * left);
  }
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd back, data.MultiplyTransposed(residual_bar, stop));
  const VectorXd q = factor.Solve(-back);
  out.gradient = problem.groups.Sums(-problem.l2.cwiseProduct(weights.cwiseProduct(q) + squares), 1);
  return out;
}

namespace {

// Returns P, from G, which is lost.
absl::StatusOr<std::optional<MatrixXd>> ResidualMatrix(MatrixXd kernel, bool intercept, const base::StopToken& stop) {
  const Index n = kernel.rows();
  const double rows = static_cast<double>(n);
  // Rows are centred, so that 1 is an eigenvector of G + I. A larger eigenvalue there, which is subtracted afterwards,
  // has the size of the others.
  const double lift = intercept ? kernel.trace() / rows : 0.0;
  kernel.array() += lift / rows;
  kernel.diagonal().array() += 1.0;
  math::CholeskyOptions exact;
  exact.rungs = 0;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor, math::Cholesky::Factor(kernel, exact, stop));
  if (!factor) return std::optional<MatrixXd>();
  constexpr Index kColumns = 64;
  kernel.setIdentity();
  for (Index begin = 0; begin < n; begin += kColumns) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    auto strip = kernel.middleCols(begin, std::min(kColumns, n - begin));
    factor->SolveLowerInPlace(strip);
    factor->SolveLowerTransposedInPlace(strip);
  }
  if (intercept) kernel.array() -= 1.0 / (rows * (1.0 + lift));
  return std::optional<MatrixXd>(std::move(kernel));
}

}  // namespace

absl::StatusOr<std::optional<RidgeCriterionValue>> EvaluateCriterionByRows(RidgeCriterion criterion,
                                                                           const RidgeProblem& problem, MatrixXd kernel,
                                                                           const base::StopToken& stop) {
  const LeastSquaresData& data = problem.data;
  LUTHIER_CHECK(criterion != RidgeCriterion::kHeldOut && data.rows() > 0);
  const Index n = data.rows();
  const double rows = static_cast<double>(n);
  LUTHIER_ASSIGN_OR_RETURN(std::optional<MatrixXd> made, ResidualMatrix(std::move(kernel), problem.intercept, stop));
  if (!made) return std::optional<RidgeCriterionValue>();
  const MatrixXd& p = *made;
  const VectorXd r = p * data.target();
  const double trace = p.trace();
  std::optional<RidgeCriterionValue> out(std::in_place);
  out->degrees_of_freedom = rows - trace;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd back, data.MultiplyTransposed(r, stop));
  out->weights = back.cwiseQuotient(problem.l2);
  VectorXd rho, eta;
  if (criterion == RidgeCriterion::kLeaveOneOut) {
    const Eigen::ArrayXd left = p.diagonal().array();
    out->value = (r.array() / left).square().sum() / rows;
    rho = 2.0 / rows * r.array() / left.square();
    eta = 2.0 / rows * r.array().square() / left.cube();
  } else {
    out->value = rows * r.squaredNorm() / (trace * trace);
    rho = 2.0 * rows / (trace * trace) * r;
    eta = VectorXd::Constant(n, 2.0 * rows * r.squaredNorm() / (trace * trace * trace));
  }
  if (!problem.gradient) return out;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const MatrixXd form = r * (p * rho).transpose() - p * eta.asDiagonal() * p;
  VectorXd terms = VectorXd::Zero(data.cols());
  for (Index i = 0; i < n; ++i) {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, data.MultiplyTransposed(form.row(i).transpose(), stop));
    terms += data.Dense(i, 1).transpose().cwiseProduct(product);
  }
  out->gradient = problem.groups.Sums(terms.cwiseQuotient(problem.l2), 1);
  return out;
}

}  // namespace luthier::bilevel
