#include "lib/bilevel/kernel_ridge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kGramStrip = 64;  // Number of rows between two polls of the stop.
constexpr Index kExactUpTo = 32;  // Number of coordinates up to which differences are taken one by one.

// Computes the kernel, and the product of distances and kernel, from distances that include gamma.
void KernelOf(MatrixXd distances, MatrixXd* kernel, MatrixXd* slope) {
  *kernel = (-distances.array()).exp().matrix();
  *slope = distances.cwiseProduct(*kernel);
}

// Returns sum_ik m_ik (a_ij - b_kj)^2 for each coordinate j: a is n x p, b m x p, `weights` n x m.
VectorXd WeightedSums(const MatrixXd& weights, const MatrixXd& a, const MatrixXd& b) {
  const VectorXd rows = weights.rowwise().sum(), cols = weights.colwise().sum().transpose();
  const MatrixXd product = weights * b;  // n x p
  return a.cwiseAbs2().transpose() * rows + b.cwiseAbs2().transpose() * cols -
         2.0 * a.cwiseProduct(product).colwise().sum().transpose();
}

}  // namespace

absl::StatusOr<MatrixXd> WeightedSquaredDistances(const MatrixXd& a, const MatrixXd& b, const VectorXd& gamma,
                                                  const base::StopToken& stop) {
  const Index p = a.cols();
  LUTHIER_CHECK(b.cols() == p && (gamma.size() == 1 || gamma.size() == p));
  const VectorXd weight = gamma.size() == 1 ? VectorXd::Constant(p, gamma[0]) : gamma;
  MatrixXd out = MatrixXd::Zero(a.rows(), b.rows());
  if (p <= kExactUpTo) {
    for (Index k = 0; k < b.rows(); ++k) {
      if (k % kGramStrip == 0) LUTHIER_RETURN_IF_ERROR(stop.Poll());
      for (Index j = 0; j < p; ++j) out.col(k).array() += weight[j] * (a.col(j).array() - b(k, j)).square();
    }
    return out;
  }
  // Computes |a|^2 + |b|^2 - 2 a'b after centring, which keeps the terms that cancel small.
  const Eigen::RowVectorXd centre = a.colwise().mean();
  const Eigen::RowVectorXd root = weight.cwiseSqrt().transpose();
  const MatrixXd x = (a.rowwise() - centre) * root.asDiagonal();
  const MatrixXd z = (b.rowwise() - centre) * root.asDiagonal();
  const VectorXd x2 = x.rowwise().squaredNorm(), z2 = z.rowwise().squaredNorm();
  for (Index begin = 0; begin < b.rows(); begin += kGramStrip) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Index count = std::min(kGramStrip, b.rows() - begin);
    auto part = out.middleCols(begin, count);
    part.noalias() = -2.0 * x * z.middleRows(begin, count).transpose();
    part.colwise() += x2;
    part.rowwise() += z2.segment(begin, count).transpose();
    part = part.cwiseMax(0.0);
  }
  if (&a == &b) out.diagonal().setZero();
  return out;
}

absl::StatusOr<KernelRidgeInner> KernelRidgeInner::Create(const MatrixXd* points, const VectorXd* target,
                                                          const MatrixXd* distances, VectorXd gamma, double l2,
                                                          const base::StopToken& stop) {
  LUTHIER_CHECK(points->rows() == target->size() && gamma.minCoeff() > 0.0 && l2 > 0.0);
  KernelRidgeInner inner(points, target, std::move(gamma), l2);
  MatrixXd scaled;
  if (distances != nullptr && inner.gamma_.size() == 1) {
    scaled = inner.gamma_[0] * *distances;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(scaled, WeightedSquaredDistances(*points, *points, inner.gamma_, stop));
  }
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  KernelOf(std::move(scaled), &inner.kernel_, &inner.slope_);
  return inner;
}

absl::StatusOr<LinearSolution> KernelRidgeInner::Solve(double tolerance, int max_iterations,
                                                       const base::StopToken& stop) {
  return SolveQuadratic(*this, *target_, tolerance, max_iterations, stop);
}

absl::StatusOr<double> KernelRidgeInner::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, HessianVector(x, stop));
  if (gradient != nullptr) *gradient = product - *target_;
  return 0.5 * x.dot(product) - target_->dot(x);
}

absl::Status KernelRidgeInner::SetPoint(const VectorXd& x, const base::StopToken&) {
  x_ = x;
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> KernelRidgeInner::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  return VectorXd(kernel_.selfadjointView<Eigen::Lower>() * v + l2_ * v);
}

absl::StatusOr<VectorXd> KernelRidgeInner::HessianDiagonal(const base::StopToken&) {
  return VectorXd();  // The diagonal is constant.
}

absl::StatusOr<bool> KernelRidgeInner::PreparePreconditioner(const base::StopToken& stop) {
  if (tried_factor_ || dim() > kMostFactored) return factor_.has_value();
  MatrixXd hessian = kernel_;
  hessian.diagonal().array() += l2_;
  math::CholeskyOptions options;
  options.jitter_scale = static_cast<double>(dim());
  options.first_jitter = 1e-16;
  LUTHIER_ASSIGN_OR_RETURN(factor_, math::Cholesky::Factor(hessian, options, stop));
  tried_factor_ = true;
  singular_ = !factor_.has_value() || factor_->jitter() > 0.0;
  return factor_.has_value();
}

VectorXd KernelRidgeInner::CrossTransposeVector(const VectorXd& q) {
  VectorXd out(hyper_dim());
  if (gamma_.size() == 1) {
    out[0] = -q.dot(slope_.selfadjointView<Eigen::Lower>() * x_);
  } else {
    const MatrixXd weights = (q * x_.transpose()).cwiseProduct(kernel_);
    out.head(gamma_.size()) = -gamma_.cwiseProduct(WeightedSums(weights, *points_, *points_));
  }
  out[out.size() - 1] = l2_ * q.dot(x_);
  return out;
}

double KernelRidgeInner::CrossNorm() {
  // Returns a Frobenius norm. The norms of several dK/dlambda_j c are at most |slope| |c| together, because their
  // entries have one sign.
  const double of_width =
      gamma_.size() == 1 ? VectorXd(slope_.selfadjointView<Eigen::Lower>() * x_).norm() : slope_.norm() * x_.norm();
  return std::hypot(of_width, l2_ * x_.norm());
}

absl::StatusOr<InnerConstants> KernelRidgeInner::Constants(const base::StopToken&) {
  InnerConstants constants;
  constants.mu = l2_;
  constants.cross_lipschitz = std::hypot(slope_.norm(), l2_);
  constants.certified = true;
  return constants;
}

absl::StatusOr<KernelRidgeOuter> KernelRidgeOuter::Create(const MatrixXd* points, const MatrixXd* held_out,
                                                          const VectorXd* target, const MatrixXd* distances,
                                                          VectorXd gamma, const base::StopToken& stop) {
  LUTHIER_CHECK(held_out->rows() == target->size() && held_out->rows() >= 1);
  KernelRidgeOuter outer(points, held_out, target, std::move(gamma));
  MatrixXd scaled;
  if (distances != nullptr && outer.gamma_.size() == 1) {
    scaled = outer.gamma_[0] * *distances;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(scaled, WeightedSquaredDistances(*held_out, *points, outer.gamma_, stop));
  }
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  KernelOf(std::move(scaled), &outer.kernel_, &outer.slope_);
  return outer;
}

absl::StatusOr<double> KernelRidgeOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const double m = static_cast<double>(target_->size());
  const VectorXd residual = kernel_ * x - *target_;
  if (gradient != nullptr) *gradient = 2.0 / m * (kernel_.transpose() * residual);
  return residual.squaredNorm() / m;
}

double KernelRidgeOuter::GradientLipschitz() {
  return 2.0 * kernel_.squaredNorm() / static_cast<double>(target_->size());
}

absl::StatusOr<VectorXd> KernelRidgeOuter::DirectGradient(const VectorXd& x, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const double m = static_cast<double>(target_->size());
  const VectorXd residual = kernel_ * x - *target_;
  VectorXd out = VectorXd::Zero(gamma_.size() + 1);
  if (gamma_.size() == 1) {
    out[0] = -2.0 / m * residual.dot(slope_ * x);
  } else {
    const MatrixXd weights = (residual * x.transpose()).cwiseProduct(kernel_);
    out.head(gamma_.size()) = -2.0 / m * gamma_.cwiseProduct(WeightedSums(weights, *held_out_, *points_));
  }
  return out;
}

double KernelRidgeOuter::DirectError(const VectorXd& x, double distance) {
  // With K' = dK/dlambda and r the residual, r'K'x changes by at most |K'| (|r| + |K| (|x| + distance)) distance.
  const double m = static_cast<double>(target_->size());
  const double k = kernel_.norm();
  const double residual = (kernel_ * x - *target_).norm();
  return 2.0 / m * slope_.norm() * (residual + k * (x.norm() + distance)) * distance;
}

}  // namespace luthier::bilevel
