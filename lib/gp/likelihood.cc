#include "lib/gp/likelihood.h"

#include <cmath>
#include <limits>
#include <utility>

#include "Eigen/Cholesky"
#include "lib/base/check.h"
#include "lib/math/cholesky.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr double kHalfLog2Pi = 0.91893853320467274178;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
}  // namespace

Likelihood::Likelihood(kernels::KernelShape shape, MatrixXd x, VectorXd y)
    : shape_(std::move(shape)), x_(std::move(x)), y_(std::move(y)) {
  LUTHIER_CHECK(x_.rows() == y_.size() && x_.cols() == shape_.columns());
  LUTHIER_CHECK(x_.allFinite() && y_.allFinite());
}

bool Likelihood::FactorCovariance(const Hyperparameters& theta, bool with_slope) {
  const kernels::StationaryKernel kernel = KernelOf(shape_, theta);
  z_ = kernel.Scale(x_);
  kernel.GramLower(z_, &k_, with_slope ? &slope_ : nullptr);
  k_.diagonal().array() += theta.noise_variance;
  const Eigen::LLT<Eigen::Ref<MatrixXd>> llt(k_);  // In place, lower triangle.
  return llt.info() == Eigen::Success && k_.diagonal().allFinite() && k_.diagonal().minCoeff() > 0.0;
}

void Likelihood::ContractKernel(const Hyperparameters& theta, LikelihoodGradient* gradient) {
  const kernels::KernelGradient parts = KernelOf(shape_, theta).Contract(z_, slope_, &weights_);
  gradient->log_lengthscales = parts.log_lengthscales;
  gradient->log_shape_parameter = parts.log_shape_parameter;
}

double Likelihood::WithoutData(LikelihoodGradient* gradient) const {
  if (gradient != nullptr) {
    *gradient = LikelihoodGradient();
    gradient->log_lengthscales = VectorXd::Zero(shape_.groups);
  }
  return 0.0;
}

double Likelihood::Evaluate(Hyperparameters* theta, bool fit_mean, LikelihoodGradient* gradient) {
  const Index n = size();
  if (n == 0) {
    if (fit_mean) theta->mean = 0.0;
    return WithoutData(gradient);
  }
  if (!FactorCovariance(*theta, gradient != nullptr)) return kMinusInfinity;
  const double log_determinant_half = k_.diagonal().array().log().sum();
  MatrixXd l_inverse;
  MatrixXd rhs(n, 2);  // L^-1 [y, 1].
  rhs.col(0) = y_;
  rhs.col(1).setOnes();
  if (gradient != nullptr) {
    l_inverse = math::InvertLower(k_);
    rhs = l_inverse.triangularView<Eigen::Lower>() * rhs;
  } else {
    k_.triangularView<Eigen::Lower>().solveInPlace(rhs);
  }
  if (fit_mean) theta->mean = rhs.col(1).dot(rhs.col(0)) / (rhs.col(1).squaredNorm() + 1.0);
  const VectorXd whitened = rhs.col(0) - theta->mean * rhs.col(1);
  const double quadratic = whitened.squaredNorm();
  double value = -0.5 * quadratic - log_determinant_half - static_cast<double>(n) * kHalfLog2Pi;
  if (fit_mean) value -= 0.5 * theta->mean * theta->mean;
  if (!std::isfinite(value)) return kMinusInfinity;
  if (gradient == nullptr) return value;

  const VectorXd alpha = l_inverse.triangularView<Eigen::Lower>().adjoint() * whitened;
  // Sums with K use K = C - sigma_n^2 I, so K itself need not survive the factorisation.
  const double trace_inverse = l_inverse.squaredNorm();
  const double noise_term = theta->noise_variance * (alpha.squaredNorm() - trace_inverse);
  gradient->log_noise_variance = 0.5 * noise_term;
  gradient->log_signal_variance = 0.5 * (quadratic - static_cast<double>(n) - noise_term);
  gradient->mean = fit_mean ? 0.0 : alpha.sum();
  weights_.resize(n, n);
  for (Index b = 0; b < n; ++b) weights_.col(b).tail(n - b) = (0.5 * alpha(b)) * alpha.tail(n - b);
  weights_.triangularView<Eigen::StrictlyUpper>().setZero();
  math::AddInverseFromFactor(l_inverse, -0.5, weights_);
  ContractKernel(*theta, gradient);
  return value;
}

double Likelihood::Marginal(const Hyperparameters& theta, LikelihoodGradient* gradient) {
  Hyperparameters copy = theta;
  return Evaluate(&copy, /*fit_mean=*/false, gradient);
}

double Likelihood::MarginalOverMean(Hyperparameters* theta, LikelihoodGradient* gradient) {
  return Evaluate(theta, /*fit_mean=*/true, gradient);
}

double Likelihood::LeaveOneOut(const Hyperparameters& theta, LikelihoodGradient* gradient) {
  const Index n = size();
  if (n == 0) return WithoutData(gradient);
  if (!FactorCovariance(theta, gradient != nullptr)) return kMinusInfinity;
  const MatrixXd l_inverse = math::InvertLower(k_);
  const VectorXd whitened = l_inverse.triangularView<Eigen::Lower>() * (y_.array() - theta.mean).matrix();
  const VectorXd alpha = l_inverse.triangularView<Eigen::Lower>().adjoint() * whitened;
  const VectorXd kappa = l_inverse.colwise().squaredNorm().transpose();
  const double value = 0.5 * kappa.array().log().sum() - 0.5 * (alpha.array().square() / kappa.array()).sum() -
                       static_cast<double>(n) * kHalfLog2Pi;
  if (!std::isfinite(value)) return kMinusInfinity;
  if (gradient == nullptr) return value;

  MatrixXd inverse = MatrixXd::Zero(n, n);
  math::AddInverseFromFactor(l_inverse, 1.0, inverse);
  inverse.triangularView<Eigen::StrictlyUpper>() = inverse.transpose();
  const VectorXd u = alpha.cwiseQuotient(kappa);
  const VectorXd w = (1.0 + alpha.array() * u.array()) / kappa.array();
  const VectorXd p = inverse * u;
  weights_.resize(n, n);
  weights_.noalias() = -0.5 * inverse * (w.asDiagonal() * inverse);
  weights_.noalias() += 0.5 * p * alpha.transpose();
  weights_.noalias() += 0.5 * alpha * p.transpose();
  const double noise_term = theta.noise_variance * weights_.trace();
  gradient->log_noise_variance = noise_term;
  gradient->log_signal_variance = u.dot(alpha) - 0.5 * w.dot(kappa) - noise_term;
  gradient->mean = u.dot(inverse.rowwise().sum());
  ContractKernel(theta, gradient);
  return value;
}

}  // namespace luthier::gp
