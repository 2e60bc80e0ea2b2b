#include "lib/bilevel/linear_inner.h"

#include <cmath>

#include "lib/base/check.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using learn::LinearData;
using learn::MarginLoss;

// At least the squared spectral norm of the rows.
double SquaredNorms(const LinearData& data) {
  return data.mean_norm2() * static_cast<double>(data.rows());
}

}  // namespace

LinearInner::LinearInner(const learn::LinearProblem* problem) : problem_(problem) {
  LUTHIER_CHECK(problem->l2() > 0.0);
}

void LinearInner::SetPoint(const VectorXd& x) {
  x_ = x;
  problem_->Value(x, nullptr, &curvature_);
}

VectorXd LinearInner::HessianDiagonal() {
  // A saturated model has no curvature left in its bias; the preconditioner must stay positive.
  return problem_->HessianDiagonal(curvature_).cwiseMax(1e-300);
}

VectorXd LinearInner::CrossTransposeVector(const VectorXd& q) {
  const Index p = problem_->penalized();
  return VectorXd::Constant(1, problem_->l2() * x_.head(p).dot(q.head(p)));
}

double LinearInner::CrossNorm() {
  return problem_->l2() * x_.head(problem_->penalized()).norm();
}

InnerConstants LinearInner::Constants() {
  const LinearData& data = problem_->data();
  const bool logistic = problem_->loss().kind == MarginLoss::Kind::kLogistic;
  InnerConstants constants;
  constants.mu = problem_->l2();
  // The largest |sigma''| is 1 / (6 sqrt 3).
  constants.hessian_lipschitz =
      logistic ? SquaredNorms(data) * std::sqrt(data.max_norm2()) / (6.0 * std::sqrt(3.0)) : INFINITY;
  constants.cross_lipschitz = problem_->l2();
  constants.certified = logistic && problem_->penalized() == dim();
  return constants;
}

double LinearOuter::Value(const VectorXd& x, VectorXd* gradient) {
  const double n = static_cast<double>(problem_.data().rows());
  const double loss = problem_.Value(x, gradient) / n;
  if (gradient != nullptr) *gradient /= n;
  return loss;
}

double LinearOuter::GradientLipschitz() {
  const LinearData& data = problem_.data();
  return problem_.loss().smoothness() * SquaredNorms(data) / static_cast<double>(data.rows());
}

}  // namespace luthier::bilevel
