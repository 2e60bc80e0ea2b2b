#include "lib/gp/likelihood.h"

#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"
#include "lib/math/triangular_blocks.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr double kHalfLog2Pi = 0.91893853320467274178;
}  // namespace

Likelihood::Likelihood(kernels::KernelShape shape, MatrixXd x, VectorXd y, Slopes slopes)
    : shape_(std::move(shape)), x_(std::move(x)), y_(std::move(y)), slopes_(std::move(slopes)) {
  LUTHIER_CHECK(x_.rows() == y_.size() && x_.cols() == shape_.columns());
  LUTHIER_CHECK(x_.allFinite() && y_.allFinite());
  LUTHIER_CHECK(slopes_.Valid(size(), x_.cols()));
  if (slopes_.size() == 0) return;
  for (Index i = 0; i < size(); ++i) observed_.rows.push_back({i, -1});
  for (Index i = 0; i < slopes_.size(); ++i) observed_.rows.push_back({slopes_.points[static_cast<size_t>(i)], i});
}

Likelihood Likelihood::Subset(const std::vector<Index>& rows) const {
  return Likelihood(shape_, x_(rows, Eigen::all), y_(rows));
}

VectorXd Likelihood::Targets(double mean) const {
  VectorXd targets(size() + slopes());
  targets.head(size()) = (y_.array() - mean).matrix();
  targets.tail(slopes()) = slopes_.values;
  return targets;
}

VectorXd Likelihood::MeanWeights() const {
  VectorXd weights = VectorXd::Ones(size() + slopes());
  weights.tail(slopes()).setZero();
  return weights;
}

Likelihood::NoiseTerms Likelihood::SplitNoise(const Hyperparameters& theta, const VectorXd& w) const {
  return {theta.noise_variance * w.head(size()).sum(), theta.slope_noise_variance * w.tail(slopes()).sum(),
          w.tail(slopes()).dot(slopes_.extra_variances)};
}

absl::StatusOr<bool> Likelihood::FactorCovariance(const Hyperparameters& theta, bool with_slope,
                                                  const base::StopToken& stop) {
  const kernels::StationaryKernel kernel = KernelOf(shape_, theta);
  if (slopes() == 0) {
    z_ = kernel.Scale(x_);
    LUTHIER_RETURN_IF_ERROR(kernel.GramLower(z_, &k_, with_slope ? &slope_ : nullptr, stop));
    k_.diagonal().array() += theta.noise_variance;
  } else {
    observed_.points = kernel.Scale(x_);
    observed_.directions = kernel.Scale(slopes_.directions);
    LUTHIER_RETURN_IF_ERROR(kernels::DerivativeKernel(kernel).GramLower(observed_, &k_, stop));
    k_.diagonal().head(size()).array() += theta.noise_variance;
    k_.diagonal().tail(slopes()).array() += theta.slope_noise_variance + slopes_.extra_variances.array();
  }
  return math::FactorLowerInPlace(k_, &space_, stop);
}

absl::Status Likelihood::ContractKernel(const Hyperparameters& theta, LikelihoodGradient* gradient,
                                        const base::StopToken& stop) {
  const kernels::StationaryKernel kernel = KernelOf(shape_, theta);
  LUTHIER_ASSIGN_OR_RETURN(const kernels::KernelGradient parts,
                           slopes() == 0 ? kernel.Contract(z_, slope_, weights_, stop)
                                         : kernels::DerivativeKernel(kernel).Contract(observed_, weights_, stop));
  gradient->log_lengthscales = parts.log_lengthscales;
  gradient->log_shape_parameter = parts.log_shape_parameter;
  return absl::OkStatus();
}

double Likelihood::WithoutData(LikelihoodGradient* gradient) const {
  if (gradient != nullptr) {
    *gradient = LikelihoodGradient();
    gradient->log_lengthscales = VectorXd::Zero(shape_.groups);
  }
  return 0.0;
}

absl::StatusOr<double> Likelihood::Evaluate(Hyperparameters* theta, bool fit_mean, LikelihoodGradient* gradient,
                                            const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const Index n = size() + slopes();  // Rows.
  if (n == 0) {
    if (fit_mean) theta->mean = 0.0;
    return WithoutData(gradient);
  }
  LUTHIER_ASSIGN_OR_RETURN(const bool definite, FactorCovariance(*theta, gradient != nullptr, stop));
  if (!definite) return -math::kInfinity;
  const double log_determinant_half = k_.diagonal().array().log().sum();
  MatrixXd rhs(n, 2);  // L^-1 [y, 1].
  rhs.col(0) = Targets(0.0);
  rhs.col(1) = MeanWeights();
  double trace_inverse = 0.0;
  if (gradient != nullptr) {
    LUTHIER_RETURN_IF_ERROR(math::InverseTransposed(k_, &space_, &upper_, stop));
    for (Index b = n; b-- > 0;) {
      const auto column = upper_.col(b).head(b + 1);
      trace_inverse += column.squaredNorm();
      rhs(b, 0) = column.dot(rhs.col(0).head(b + 1));
      rhs(b, 1) = column.dot(rhs.col(1).head(b + 1));
    }
  } else {
    k_.triangularView<Eigen::Lower>().solveInPlace(rhs);
  }
  if (fit_mean) theta->mean = rhs.col(1).dot(rhs.col(0)) / (rhs.col(1).squaredNorm() + 1.0);
  const VectorXd whitened = rhs.col(0) - theta->mean * rhs.col(1);
  const double quadratic = whitened.squaredNorm();
  double value = -0.5 * quadratic - log_determinant_half - static_cast<double>(n) * kHalfLog2Pi;
  if (fit_mean) value -= 0.5 * theta->mean * theta->mean;
  if (!std::isfinite(value)) return -math::kInfinity;
  if (gradient == nullptr) return value;

  VectorXd alpha = VectorXd::Zero(n);
  for (Index b = 0; b < n; ++b) alpha.head(b + 1) += whitened(b) * upper_.col(b).head(b + 1);
  // Sums with K use K = C - sigma_n^2 I, so K itself need not survive the factorisation.
  double noise_term = theta->noise_variance * (alpha.squaredNorm() - trace_inverse);
  gradient->log_noise_variance = 0.5 * noise_term;
  gradient->log_slope_noise_variance = 0.0;
  if (slopes() > 0) {
    const NoiseTerms noise = SplitNoise(*theta, alpha.cwiseAbs2() - upper_.rowwise().squaredNorm());
    gradient->log_noise_variance = 0.5 * noise.values;
    gradient->log_slope_noise_variance = 0.5 * noise.slopes;
    noise_term = noise.values + noise.slopes + noise.extra;
  }
  gradient->log_signal_variance = 0.5 * (quadratic - static_cast<double>(n) - noise_term);
  gradient->mean = fit_mean ? 0.0 : slopes() == 0 ? alpha.sum() : alpha.head(size()).sum();
  weights_.resize(n, n);
  for (Index b = 0; b < n; ++b) weights_.col(b).tail(n - b) = (0.5 * alpha(b)) * alpha.tail(n - b);
  LUTHIER_RETURN_IF_ERROR(math::AddSquareOfUpper(upper_, -0.5, &space_, weights_, stop));
  LUTHIER_RETURN_IF_ERROR(ContractKernel(*theta, gradient, stop));
  return value;
}

absl::StatusOr<double> Likelihood::Marginal(const Hyperparameters& theta, LikelihoodGradient* gradient,
                                            const base::StopToken& stop) {
  Hyperparameters copy = theta;
  return Evaluate(&copy, /*fit_mean=*/false, gradient, stop);
}

absl::StatusOr<double> Likelihood::MarginalOverMean(Hyperparameters* theta, LikelihoodGradient* gradient,
                                                    const base::StopToken& stop) {
  return Evaluate(theta, /*fit_mean=*/true, gradient, stop);
}

}  // namespace luthier::gp
