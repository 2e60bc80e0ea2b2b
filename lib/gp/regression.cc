#include "lib/gp/regression.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr double kVarianceFloor = 1e-12;  // Relative to s_f^2.
constexpr int kMaxAppends = 50;
constexpr Index kProductStrip = 128;  // Columns of a product between two polls of a stop.
constexpr Index kSolveChunk =
    256;  // Points of one triangular solve: the right-hand side stays in the second-level cache.
}  // namespace

absl::StatusOr<std::optional<Regression>> Regression::Fit(const kernels::KernelShape& shape,
                                                          const Hyperparameters& theta,
                                                          const Eigen::Ref<const MatrixXd>& x,
                                                          const Eigen::Ref<const VectorXd>& y, const Slopes& slopes,
                                                          const base::StopToken& stop) {
  LUTHIER_CHECK(x.rows() == y.size() && x.cols() == shape.columns() && theta.lengthscales.size() == shape.groups);
  if (!x.allFinite() || !y.allFinite() || !theta.lengthscales.allFinite() || !std::isfinite(theta.mean) ||
      !std::isfinite(theta.signal_variance) || !(theta.signal_variance > 0.0) || !(theta.noise_variance >= 0.0) ||
      !slopes.Valid(x.rows(), x.cols()) || !(theta.slope_noise_variance >= 0.0) ||
      !std::isfinite(theta.slope_noise_variance) || !std::isfinite(theta.shape_parameter) ||
      !(theta.shape_parameter > 0.0) || !std::isfinite(theta.noise_variance) ||
      (shape.groups > 0 && !(theta.lengthscales.minCoeff() > 0.0))) {
    return std::nullopt;
  }
  Regression regression(KernelOf(shape, theta), theta);
  regression.z_ = regression.kernel_.Scale(x);
  regression.y_ = y;
  if (slopes.size() > 0) {
    regression.ListRows();
    regression.observed_.directions = regression.kernel_.Scale(slopes.directions);
    regression.slope_values_ = slopes.values;
    regression.slope_extra_ = slopes.extra_variances;
    for (Index i = 0; i < slopes.size(); ++i) {
      regression.observed_.rows.push_back({slopes.points[static_cast<size_t>(i)], i});
    }
  }
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, regression.Refactor(stop));
  if (!factored) return std::nullopt;
  return std::optional<Regression>(std::move(regression));
}

absl::StatusOr<bool> Regression::Refactor(const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  MatrixXd c;
  if (has_slopes()) {
    LUTHIER_RETURN_IF_ERROR(derivatives_->GramLower(observed_, &c, stop));
    c.diagonal() += NoiseVariances();
  } else {
    LUTHIER_RETURN_IF_ERROR(kernel_.GramLower(z_, &c, nullptr, stop));
    c.diagonal().array() += theta_.noise_variance;
  }
  math::CholeskyOptions options;
  options.jitter_scale = theta_.signal_variance;
  LUTHIER_ASSIGN_OR_RETURN(std::optional<math::Cholesky> factor, math::Cholesky::Factor(c, options, stop));
  if (!factor.has_value()) return false;
  factor_ = *std::move(factor);
  UpdateAlpha();
  return true;
}

void Regression::UpdateAlpha() {
  if (!has_slopes()) {
    alpha_ = factor_.Solve((y_.array() - theta_.mean).matrix());
    return;
  }
  VectorXd residual = Targets();
  for (Index i = 0; i < rows(); ++i) {
    if (observed_.rows[static_cast<size_t>(i)].slope < 0) residual(i) -= theta_.mean;
  }
  alpha_ = factor_.Solve(residual);
}

void Regression::ListRows() {
  if (has_slopes()) return;
  if (!derivatives_.has_value()) derivatives_.emplace(kernel_);
  observed_.points = z_;
  observed_.directions.resize(0, columns());
  for (Index i = 0; i < size(); ++i) observed_.rows.push_back({i, -1});
}

VectorXd Regression::Targets() const {
  if (!has_slopes()) return y_;
  VectorXd targets(rows());
  for (Index i = 0; i < rows(); ++i) {
    const kernels::ObservedRow& row = observed_.rows[static_cast<size_t>(i)];
    targets(i) = row.slope < 0 ? y_(row.point) : slope_values_(row.slope);
  }
  return targets;
}

VectorXd Regression::NoiseVariances() const {
  VectorXd noise = VectorXd::Constant(rows(), theta_.noise_variance);
  if (!has_slopes()) return noise;
  for (Index i = 0; i < rows(); ++i) {
    const Index slope = observed_.rows[static_cast<size_t>(i)].slope;
    if (slope >= 0) noise(i) = theta_.slope_noise_variance + slope_extra_(slope);
  }
  return noise;
}

void Regression::CrossCovariance(const Eigen::Ref<const MatrixXd>& scaled, MatrixXd* k) const {
  if (has_slopes()) {
    derivatives_->Cross(observed_, scaled, k);
  } else {
    kernel_.Cross(z_, scaled, k);
  }
}

void Regression::PointCovariance(const Eigen::RowVectorXd& scaled, VectorXd* k, MatrixXd* jacobian) const {
  if (has_slopes()) {
    derivatives_->PointCross(observed_, scaled, k, jacobian);
  } else {
    kernel_.PointCross(z_, scaled, k, jacobian);
  }
}

absl::StatusOr<bool> Regression::Extend(const Eigen::Ref<const VectorXd>& cross, double diagonal,
                                        const base::StopToken& stop) {
  if (factor_.appends_since_factor() < kMaxAppends && factor_.Append(cross, diagonal)) {
    UpdateAlpha();
    return true;
  }
  absl::StatusOr<bool> factored = Refactor(stop);
  if (!factored.ok() || !*factored) ForgetRows(1);
  return factored;
}

void Regression::ForgetRows(Index count) {
  Index values = count;
  if (has_slopes()) {
    values = 0;
    for (Index i = 0; i < count; ++i) {
      values += observed_.rows.back().slope < 0;
      observed_.rows.pop_back();
    }
    // Slopes are numbered in the order of their rows, and so are points.
    const Index slopes = slope_values_.size() - (count - values);
    observed_.directions.conservativeResize(slopes, columns());
    slope_values_.conservativeResize(slopes);
    slope_extra_.conservativeResize(slopes);
    observed_.points.conservativeResize(size() - values, columns());
    if (slopes == 0) observed_ = {};
  }
  const Index n = size() - values;
  z_.conservativeResize(n, columns());
  y_.conservativeResize(n);
}

absl::StatusOr<bool> Regression::Append(const Eigen::Ref<const VectorXd>& x, double y, const base::StopToken& stop) {
  LUTHIER_CHECK(x.size() == columns());
  if (!x.allFinite() || !std::isfinite(y)) return false;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const Index n = size();
  const MatrixXd z_new = kernel_.Scale(x.transpose());
  MatrixXd cross;
  CrossCovariance(z_new, &cross);
  z_.conservativeResize(n + 1, columns());
  z_.row(n) = z_new.row(0);
  if (has_slopes()) {
    observed_.points = z_;
    observed_.rows.push_back({n, -1});
  }
  y_.conservativeResize(n + 1);
  y_(n) = y;
  return Extend(cross.col(0), theta_.signal_variance + theta_.noise_variance, stop);
}

absl::StatusOr<bool> Regression::AppendSlope(Index point, const Eigen::Ref<const VectorXd>& direction, double slope,
                                             double extra_variance, const base::StopToken& stop) {
  LUTHIER_CHECK(point >= 0 && point < size() && direction.size() == columns());
  if (!direction.allFinite() || !(direction.squaredNorm() > 0.0) || !std::isfinite(slope) ||
      !std::isfinite(extra_variance) || extra_variance < 0.0) {
    return false;
  }
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  ListRows();
  VectorXd k;
  MatrixXd jacobian;
  derivatives_->PointCross(observed_, z_.row(point), &k, &jacobian);
  const VectorXd cross = jacobian * direction;
  const Index m = slope_values_.size();
  observed_.rows.push_back({point, m});
  observed_.directions.conservativeResize(m + 1, columns());
  observed_.directions.row(m) = direction.transpose().cwiseProduct(kernel_.inverse_lengthscales());
  slope_values_.conservativeResize(m + 1);
  slope_values_(m) = slope;
  slope_extra_.conservativeResize(m + 1);
  slope_extra_(m) = extra_variance;
  const double prior = direction.cwiseAbs2().dot(derivatives_->GradientVariances());
  return Extend(cross, prior + theta_.slope_noise_variance + extra_variance, stop);
}

void Regression::FitMean() {
  if (has_slopes()) {
    VectorXd ones = VectorXd::Zero(rows());
    for (Index i = 0; i < rows(); ++i) ones(i) = observed_.rows[static_cast<size_t>(i)].slope < 0;
    const VectorXd weights = factor_.Solve(ones);
    theta_.mean = weights.dot(Targets()) / (weights.dot(ones) + 1.0);
    UpdateAlpha();
    return;
  }
  const VectorXd weights = factor_.Solve(VectorXd::Ones(size()));
  theta_.mean = weights.dot(y_) / (weights.sum() + 1.0);
  UpdateAlpha();
}

void Regression::PopBack(int count) {
  LUTHIER_CHECK(count >= 0 && count <= rows());
  ForgetRows(count);
  factor_.PopBack(count);
  UpdateAlpha();
}

VectorXd Regression::PredictMean(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == columns());
  VectorXd mean(x.rows());
  MatrixXd cross;
  for (Index begin = 0; begin < x.rows(); begin += kSolveChunk) {
    const Index q = std::min(kSolveChunk, x.rows() - begin);
    CrossCovariance(kernel_.Scale(x.middleRows(begin, q)), &cross);
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
  for (Index begin = 0; begin < x.rows(); begin += kSolveChunk) {
    const Index q = std::min(kSolveChunk, x.rows() - begin);
    CrossCovariance(kernel_.Scale(x.middleRows(begin, q)), &cross);
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
  const Index n = rows();
  const double prior = theta_.signal_variance;
  p.mean_gradient = VectorXd::Zero(columns());
  p.variance_gradient = VectorXd::Zero(columns());
  const Eigen::RowVectorXd z = x.transpose().cwiseProduct(kernel_.inverse_lengthscales());
  VectorXd v;
  MatrixXd jacobian;
  PointCovariance(z, &v, &jacobian);
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

GradientPosterior Regression::PredictGradient(const Eigen::Ref<const VectorXd>& x) const {
  LUTHIER_CHECK(x.size() == columns());
  const VectorXd prior = kernels::DerivativeKernel(kernel_).GradientVariances();
  VectorXd k;
  MatrixXd jacobian;
  PointCovariance(x.transpose().cwiseProduct(kernel_.inverse_lengthscales()), &k, &jacobian);
  GradientPosterior p{jacobian.transpose() * alpha_, prior.asDiagonal()};
  if (rows() > 0) factor_.SolveLowerInPlace(jacobian);
  p.covariance -= jacobian.transpose() * jacobian;
  return p;
}

absl::StatusOr<MatrixXd> Regression::JointCovariance(const Eigen::Ref<const MatrixXd>& x,
                                                     const base::StopToken& stop) const {
  const Index q = x.rows();
  const MatrixXd scaled = kernel_.Scale(x);
  MatrixXd covariance;
  LUTHIER_RETURN_IF_ERROR(kernel_.GramLower(scaled, &covariance, nullptr, stop));
  covariance.triangularView<Eigen::StrictlyUpper>() = covariance.transpose();
  if (size() == 0) return covariance;
  // A strip of columns at a time.
  const auto end_of = [q](Index begin) { return q - begin < 2 * kProductStrip ? q : begin + kProductStrip; };
  MatrixXd v(rows(), q), cross;
  for (Index begin = 0; begin < q; begin = end_of(begin)) {
    CrossCovariance(scaled.middleRows(begin, end_of(begin) - begin), &cross);
    v.middleCols(begin, end_of(begin) - begin) = cross;
    LUTHIER_RETURN_IF_ERROR(stop.Poll(cross.size() * columns()));
    factor_.SolveLowerInPlace(v.middleCols(begin, end_of(begin) - begin));
    LUTHIER_RETURN_IF_ERROR(stop.Poll(rows() * rows() * (end_of(begin) - begin)));
  }
  for (Index begin = 0; begin < q; begin = end_of(begin)) {
    const Index width = end_of(begin) - begin;
    covariance.middleCols(begin, width).noalias() -= v.transpose() * v.middleCols(begin, width);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(v.size() * width));
  }
  return covariance;
}

}  // namespace luthier::gp
