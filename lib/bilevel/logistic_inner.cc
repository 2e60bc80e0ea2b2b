#include "lib/bilevel/logistic_inner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/conjugate_gradient.h"

namespace luthier::bilevel {

using Eigen::VectorXd;

LogisticInner::LogisticInner(const linear::LogisticProblem* problem, ColumnPenalties groups)
    : problem_(problem), groups_(std::move(groups)) {
  LUTHIER_CHECK(problem->l2() > 0.0);
}

absl::Status LogisticInner::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  x_ = x;
  LUTHIER_ASSIGN_OR_RETURN(curvature_, problem_->data().CurvatureAt(x, stop));
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> LogisticInner::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd diagonal, problem_->HessianDiagonal(curvature_, stop));
  // A saturated model has no curvature left in its intercept; the preconditioner must stay positive.
  return VectorXd(diagonal.cwiseMax(1e-300));
}

absl::StatusOr<bool> LogisticInner::PreparePreconditioner(const base::StopToken& stop) {
  if (!prepared_) {
    LUTHIER_ASSIGN_OR_RETURN(preconditioner_, linear::LogisticPreconditioner::Make(problem_->data(), curvature_,
                                                                                   problem_->PenaltyOfWeights(), stop));
    prepared_ = true;
  }
  return preconditioner_.has_value();
}

VectorXd LogisticInner::CrossTransposeVector(const VectorXd& q) {
  const Eigen::Index p = problem_->data().penalized();
  if (groups_.count == 1) return VectorXd::Constant(1, problem_->l2() * x_.head(p).dot(q.head(p)));
  return groups_.Sums(problem_->Penalize(x_).cwiseProduct(q.head(p)), problem_->data().scores());
}

double LogisticInner::CrossNorm() {
  if (groups_.count == 1) return problem_->l2() * x_.head(problem_->data().penalized()).norm();
  // The columns are disjoint, so the norm is the largest of theirs.
  return std::sqrt(groups_.Sums(problem_->Penalize(x_).cwiseAbs2(), problem_->data().scores()).maxCoeff());
}

absl::StatusOr<InnerConstants> LogisticInner::Constants(const base::StopToken& stop) {
  InnerConstants constants;
  const bool intercept = problem_->data().intercept();
  constants.mu = problem_->l2();
  if (intercept) {
    LUTHIER_ASSIGN_OR_RETURN(const double smallest, SmallestCurvature(stop));
    constants.mu = std::min(constants.mu, smallest);
  }
  constants.hessian_lipschitz = problem_->data().hessian_lipschitz();
  constants.cross_lipschitz = problem_->largest_l2();
  constants.certified = !intercept;
  return constants;
}

absl::StatusOr<double> LogisticInner::SmallestCurvature(const base::StopToken& stop) {
  const auto multiply = [&](const VectorXd& v) { return HessianVector(v, stop); };
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd diagonal, HessianDiagonal(stop));
  VectorXd v = VectorXd::Zero(dim());
  v.tail(dim() - problem_->data().penalized()).setOnes();
  v.normalize();
  LUTHIER_ASSIGN_OR_RETURN(VectorXd product, multiply(v));
  double smallest = v.dot(product);
  for (int k = 0; k < 2; ++k) {
    linear::CgOptions options;
    options.tolerance = 1e-2;
    options.max_iterations = 100;
    options.stop = stop;
    LUTHIER_ASSIGN_OR_RETURN(const linear::CgResult cg, linear::SolveCg(multiply, v, diagonal, VectorXd(), options));
    const double norm = cg.x.norm();
    if (!(norm > 0.0) || !std::isfinite(norm)) break;
    v = cg.x / norm;
    LUTHIER_ASSIGN_OR_RETURN(product, multiply(v));
    smallest = std::min(smallest, v.dot(product));
  }
  // With an exactly flat intercept, the bounds stay finite or infinite, not NaN.
  return std::max(smallest, 1e-300);
}

absl::StatusOr<double> LogisticOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  const double n = static_cast<double>(data_->rows());
  LUTHIER_ASSIGN_OR_RETURN(const double loss, data_->Loss(x, gradient, stop));
  if (gradient != nullptr) *gradient /= n;
  return loss / n;
}

double LogisticOuter::GradientLipschitz() {
  return data_->gradient_lipschitz() / static_cast<double>(data_->rows());
}

}  // namespace luthier::bilevel
