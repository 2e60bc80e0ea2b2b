#include "lib/gp/regression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr double kVarianceFloor = 1e-12;  // Times s_f^2.
constexpr int kMaxAppends = 50;
constexpr Index kChunk = 256;  // Points of one triangular solve: the right-hand side stays in the second-level cache.
}  // namespace

std::optional<Regression> Regression::Fit(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                          const Eigen::Ref<const MatrixXd>& x, const Eigen::Ref<const VectorXd>& y) {
  LUTHIER_CHECK(x.rows() == y.size() && x.cols() == shape.columns() && theta.lengthscales.size() == shape.groups);
  if (!x.allFinite() || !y.allFinite() || !theta.lengthscales.allFinite() || !std::isfinite(theta.mean) ||
      !std::isfinite(theta.signal_variance) || !(theta.signal_variance > 0.0) || !(theta.noise_variance >= 0.0) ||
      !std::isfinite(theta.shape_parameter) || !(theta.shape_parameter > 0.0) || !std::isfinite(theta.noise_variance) ||
      (shape.groups > 0 && !(theta.lengthscales.minCoeff() > 0.0))) {
    return std::nullopt;
  }
  Regression regression(KernelOf(shape, theta), theta);
  regression.z_ = regression.kernel_.Scale(x);
  regression.y_ = y;
  if (!regression.Refactor()) return std::nullopt;
  return regression;
}

bool Regression::Refactor() {
  MatrixXd c;
  kernel_.GramLower(z_, &c, nullptr);
  c.diagonal().array() += theta_.noise_variance;
  math::CholeskyOptions options;
  options.jitter_scale = theta_.signal_variance;
  std::optional<math::Cholesky> factor = math::Cholesky::Factor(c, options);
  if (!factor.has_value()) return false;
  factor_ = *std::move(factor);
  UpdateAlpha();
  return true;
}

void Regression::UpdateAlpha() {
  alpha_ = factor_.Solve((y_.array() - theta_.mean).matrix());
}

bool Regression::Append(const Eigen::Ref<const VectorXd>& x, double y) {
  LUTHIER_CHECK(x.size() == columns());
  if (!x.allFinite() || !std::isfinite(y)) return false;
  const Index n = size();
  const MatrixXd z_new = kernel_.Scale(x.transpose());
  MatrixXd cross;
  kernel_.Cross(z_, z_new, &cross);
  z_.conservativeResize(n + 1, columns());
  z_.row(n) = z_new.row(0);
  y_.conservativeResize(n + 1);
  y_(n) = y;
  const double diagonal = theta_.signal_variance + theta_.noise_variance;
  if (factor_.appends_since_factor() < kMaxAppends && factor_.Append(cross.col(0), diagonal)) {
    UpdateAlpha();
    return true;
  }
  if (Refactor()) return true;
  z_.conservativeResize(n, columns());
  y_.conservativeResize(n);
  return false;
}

void Regression::FitMean() {
  const VectorXd weights = factor_.Solve(VectorXd::Ones(size()));
  theta_.mean = weights.dot(y_) / (weights.sum() + 1.0);
  UpdateAlpha();
}

void Regression::PopBack(int count) {
  LUTHIER_CHECK(count >= 0 && count <= size());
  const Index n = size() - count;
  z_.conservativeResize(n, columns());
  y_.conservativeResize(n);
  factor_.PopBack(count);
  UpdateAlpha();
}

VectorXd Regression::PredictMean(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == columns());
  VectorXd mean(x.rows());
  MatrixXd cross;
  for (Index begin = 0; begin < x.rows(); begin += kChunk) {
    const Index q = std::min(kChunk, x.rows() - begin);
    kernel_.Cross(z_, kernel_.Scale(x.middleRows(begin, q)), &cross);
    mean.segment(begin, q) = (cross.transpose() * alpha_).array() + theta_.mean;
  }
  return mean;
}

Posterior Regression::Predict(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == columns());
  Posterior posterior;
  posterior.mean.resize(x.rows());
  posterior.variance.resize(x.rows());
  const double prior = theta_.signal_variance;
  MatrixXd cross;
  for (Index begin = 0; begin < x.rows(); begin += kChunk) {
    const Index q = std::min(kChunk, x.rows() - begin);
    kernel_.Cross(z_, kernel_.Scale(x.middleRows(begin, q)), &cross);
    posterior.mean.segment(begin, q) = (cross.transpose() * alpha_).array() + theta_.mean;
    if (size() > 0) factor_.SolveLowerInPlace(cross);
    posterior.variance.segment(begin, q) =
        (prior - cross.colwise().squaredNorm().transpose().array()).max(kVarianceFloor * prior);
  }
  return posterior;
}

PointPosterior Regression::PredictWithGradient(const Eigen::Ref<const VectorXd>& x) const {
  LUTHIER_CHECK(x.size() == columns());
  PointPosterior p;
  const Index n = size();
  const double prior = theta_.signal_variance;
  p.mean_gradient = VectorXd::Zero(columns());
  p.variance_gradient = VectorXd::Zero(columns());
  const Eigen::RowVectorXd z = x.transpose().cwiseProduct(kernel_.inverse_lengthscales());
  VectorXd v;
  MatrixXd jacobian;
  kernel_.PointCross(z_, z, &v, &jacobian);
  p.mean = theta_.mean + v.dot(alpha_);
  p.mean_gradient = jacobian.transpose() * alpha_;
  if (n > 0) factor_.lower().triangularView<Eigen::Lower>().solveInPlace(v);
  p.variance = prior - v.squaredNorm();
  if (!(p.variance > kVarianceFloor * prior)) {
    p.variance = kVarianceFloor * prior;
    return p;
  }
  if (n > 0) factor_.lower().triangularView<Eigen::Lower>().adjoint().solveInPlace(v);  // C^-1 k.
  p.variance_gradient = jacobian.transpose() * (-2.0 * v);
  return p;
}

MatrixXd Regression::JointCovariance(const Eigen::Ref<const MatrixXd>& x) const {
  MatrixXd covariance = kernel_.Gram(x);
  if (size() == 0) return covariance;
  MatrixXd v;
  kernel_.Cross(z_, kernel_.Scale(x), &v);
  factor_.SolveLowerInPlace(v);
  covariance.noalias() -= v.transpose() * v;
  return covariance;
}

}  // namespace luthier::gp
