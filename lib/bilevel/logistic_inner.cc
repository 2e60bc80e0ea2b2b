#include "lib/bilevel/logistic_inner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/learn/conjugate_gradient.h"

namespace luthier::bilevel {

using Eigen::VectorXd;

LogisticInner::LogisticInner(const learn::LogisticProblem* problem, StrengthGroups groups)
    : problem_(problem), groups_(std::move(groups)) {
  LUTHIER_CHECK(problem->l2() > 0.0);
}

void LogisticInner::SetPoint(const VectorXd& x) {
  x_ = x;
  curvature_ = problem_->data().CurvatureAt(x, stop());
}

VectorXd LogisticInner::HessianDiagonal() {
  // A saturated model has no curvature left in its intercept; the preconditioner must stay positive.
  return problem_->HessianDiagonal(curvature_, stop()).cwiseMax(1e-300);
}

VectorXd LogisticInner::CrossTransposeVector(const VectorXd& q) {
  const Eigen::Index p = problem_->data().penalized();
  if (groups_.count == 1) return VectorXd::Constant(1, problem_->l2() * x_.head(p).dot(q.head(p)));
  return groups_.Sums(problem_->Penalize(x_).cwiseProduct(q.head(p)), problem_->data().scores());
}

double LogisticInner::CrossNorm() {
  if (groups_.count == 1) return problem_->l2() * x_.head(problem_->data().penalized()).norm();
  // Of disjoint columns the largest.
  return std::sqrt(groups_.Sums(problem_->Penalize(x_).cwiseAbs2(), problem_->data().scores()).maxCoeff());
}

InnerConstants LogisticInner::Constants() {
  InnerConstants constants;
  const bool intercept = problem_->data().intercept();
  constants.mu = intercept ? std::min(problem_->l2(), SmallestCurvature()) : problem_->l2();
  constants.hessian_lipschitz = problem_->data().hessian_lipschitz();
  constants.cross_lipschitz = problem_->largest_l2();
  constants.certified = !intercept;
  return constants;
}

double LogisticInner::SmallestCurvature() {
  const auto multiply = [this](const VectorXd& v) { return HessianVector(v); };
  const VectorXd diagonal = HessianDiagonal();
  VectorXd v = VectorXd::Zero(dim());
  v.tail(dim() - problem_->data().penalized()).setOnes();
  v.normalize();
  double smallest = v.dot(multiply(v));
  for (int k = 0; k < 2; ++k) {
    learn::CgOptions options;
    options.tolerance = 1e-2;
    options.max_iterations = 100;
    options.stop = stop();
    const learn::CgResult cg = learn::SolveCg(multiply, v, diagonal, VectorXd(), options);
    if (cg.outcome == learn::CgOutcome::kStopped) break;
    const double norm = cg.x.norm();
    if (!(norm > 0.0) || !std::isfinite(norm)) break;
    v = cg.x / norm;
    smallest = std::min(smallest, v.dot(multiply(v)));
  }
  // An exactly flat intercept: keep the bounds finite or infinite, not NaN.
  return std::max(smallest, 1e-300);
}

double LogisticOuter::Value(const VectorXd& x, VectorXd* gradient) {
  const double n = static_cast<double>(data_->rows());
  const double loss = data_->Loss(x, gradient, stop()) / n;
  if (gradient != nullptr) *gradient /= n;
  return loss;
}

double LogisticOuter::GradientLipschitz() {
  return data_->gradient_lipschitz() / static_cast<double>(data_->rows());
}

}  // namespace luthier::bilevel
