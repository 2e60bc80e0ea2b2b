#include "lib/bilevel/linear_inner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::bilevel {
namespace {

using Eigen::VectorXd;
using linear::LinearData;
using linear::MarginLoss;

// Returns a bound of the squared spectral norm of the rows.
double SquaredNorms(const LinearData& data) {
  return data.mean_norm2() * static_cast<double>(data.rows());
}

// Limit in passes over the entries; conjugate gradients without a factor take tens of them.
constexpr double kMostFactorPasses = 40.0;
constexpr Eigen::Index kMostFactorColumns = 4000;

bool AffordsFactor(const LinearData& data) {
  const double per_row = static_cast<double>(data.nonzeros()) / static_cast<double>(std::max<int64_t>(1, data.rows()));
  return data.dim() <= kMostFactorColumns && 0.25 * per_row + linear::FactorPasses(data) <= kMostFactorPasses;
}

}  // namespace

LinearInner::LinearInner(const linear::LinearProblem* problem, ColumnPenalties groups)
    : problem_(problem), groups_(std::move(groups)), function_(problem, AffordsFactor(problem->data())) {
  LUTHIER_CHECK(problem->l2() > 0.0);
}

absl::Status LinearInner::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  x_ = x;
  return function_.SetPoint(x, stop);
}

absl::StatusOr<bool> LinearInner::PreparePreconditioner(const base::StopToken& stop) {
  if (!prepared_) {
    LUTHIER_ASSIGN_OR_RETURN(prepared_, function_.PreparePreconditioner(stop));
  }
  return prepared_;
}

absl::StatusOr<VectorXd> LinearInner::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd diagonal, function_.HessianDiagonal(stop));
  // A saturated model has no curvature left in its bias; the preconditioner must stay positive.
  return VectorXd(diagonal.cwiseMax(1e-300));
}

VectorXd LinearInner::CrossTransposeVector(const VectorXd& q) {
  const Eigen::Index p = problem_->penalized();
  if (groups_.count == 1) return VectorXd::Constant(1, problem_->l2() * x_.head(p).dot(q.head(p)));
  return groups_.Sums(problem_->Penalize(x_).cwiseProduct(q.head(p)), 1);
}

double LinearInner::CrossNorm() {
  if (groups_.count == 1) return problem_->l2() * x_.head(problem_->penalized()).norm();
  // The columns are disjoint, so the norm is the largest of theirs.
  return std::sqrt(groups_.Sums(problem_->Penalize(x_).cwiseAbs2(), 1).maxCoeff());
}

absl::StatusOr<InnerConstants> LinearInner::Constants(const base::StopToken& /*stop*/) {
  const LinearData& data = problem_->data();
  const bool logistic = problem_->loss().kind == MarginLoss::Kind::kLogistic;
  InnerConstants constants;
  constants.mu = problem_->l2();
  // The largest |sigma''| is 1 / (6 sqrt 3).
  constants.hessian_lipschitz =
      logistic ? SquaredNorms(data) * std::sqrt(data.max_norm2()) / (6.0 * std::sqrt(3.0)) : INFINITY;
  constants.cross_lipschitz = problem_->largest_l2();
  constants.certified = logistic && problem_->penalized() == dim();
  return constants;
}

absl::StatusOr<double> LinearOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  const double n = static_cast<double>(problem_.data().rows());
  LUTHIER_ASSIGN_OR_RETURN(const double loss, problem_.Value(x, gradient, nullptr, stop));
  if (gradient != nullptr) *gradient /= n;
  return loss / n;
}

double LinearOuter::GradientLipschitz() {
  const LinearData& data = problem_.data();
  return problem_.loss().smoothness() * SquaredNorms(data) / static_cast<double>(data.rows());
}

}  // namespace luthier::bilevel
