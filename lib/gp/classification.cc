#include "lib/gp/classification.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/lbfgs.h"
#include "lib/math/special_functions.h"
#include "lib/math/triangular_blocks.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMaxNewton = 50;
constexpr int kMaxHalvings = 20;
constexpr double kTolerance = 1e-10;  // Relative tolerance of the objective.
constexpr Index kChunk = 256;
constexpr double kMinLengthscale = 0.05, kMaxLengthscale = 100.0;
constexpr double kMinSignal = 0.05, kMaxSignal = 1000.0;
constexpr double kLogSignalDeviation = 1.5;
constexpr double kLogLengthscaleDeviation = 1.7320508075688772;  // sqrt 3.

double SumLogCdf(const VectorXd& labels, const VectorXd& f) {
  double sum = 0.0;
  for (Index i = 0; i < f.size(); ++i) sum += math::LogNormalCdf(labels(i) * f(i));
  return sum;
}

// First derivatives of ln Phi(y f), W, and third derivatives.
void Derivatives(const VectorXd& labels, const VectorXd& f, VectorXd* first, VectorXd* w, VectorXd* third) {
  const Index n = f.size();
  first->resize(n);
  w->resize(n);
  if (third != nullptr) third->resize(n);
  for (Index i = 0; i < n; ++i) {
    const double z = labels(i) * f(i);
    const double r = math::InverseMills(z);
    (*first)(i) = labels(i) * r;
    // r (z + r) lies in (0, 1); far left it cancels.
    (*w)(i) = std::clamp(r * (z + r), 1e-300, 1.0);
    if (third != nullptr) (*third)(i) = labels(i) * (r * (z + r) * (z + 2.0 * r) - r);
  }
}

absl::StatusOr<std::optional<math::Cholesky>> FactorB(const MatrixXd& k, const VectorXd& root_w,
                                                      const base::StopToken& stop) {
  MatrixXd b = root_w.asDiagonal() * k * root_w.asDiagonal();
  b.diagonal().array() += 1.0;
  return math::Cholesky::Factor(b, {}, stop);
}

}  // namespace

absl::StatusOr<std::optional<Classifier>> Classifier::Fit(const kernels::KernelShape& shape,
                                                          const Hyperparameters& theta,
                                                          const Eigen::Ref<const MatrixXd>& x,
                                                          const Eigen::Ref<const VectorXd>& labels,
                                                          const ClassifierPrior& prior, const VectorXd* start,
                                                          const base::StopToken& stop) {
  const Index n = x.rows();
  LUTHIER_CHECK(n == labels.size() && x.cols() == shape.columns() && theta.lengthscales.size() == shape.groups);
  LUTHIER_CHECK(start == nullptr || start->size() == n);
  if (!x.allFinite() || !theta.lengthscales.allFinite() || !(theta.signal_variance > 0.0) ||
      !std::isfinite(theta.signal_variance) || (shape.groups > 0 && !(theta.lengthscales.minCoeff() > 0.0))) {
    return std::nullopt;
  }
  Classifier c(KernelOf(shape, theta), theta, prior);
  c.z_ = c.kernel_.Scale(x);
  c.labels_ = labels;
  MatrixXd k;
  LUTHIER_RETURN_IF_ERROR(c.kernel_.GramLower(c.z_, &k, nullptr, stop));
  k.array() += prior.variance;
  k = k.selfadjointView<Eigen::Lower>();
  VectorXd g = VectorXd::Zero(n), a = VectorXd::Zero(n), first, w;
  double objective = SumLogCdf(labels, VectorXd::Constant(n, prior.mean));
  if (start != nullptr && start->allFinite()) {
    // The values of a don't matter here: the first step replaces them.
    Derivatives(labels, (start->array() + prior.mean).matrix(), &a, &w, nullptr);
    g = k * a;
    objective = -0.5 * a.dot(g) + SumLogCdf(labels, (g.array() + prior.mean).matrix());
  }
  for (int iteration = 0; iteration < kMaxNewton; ++iteration) {
    Derivatives(labels, (g.array() + prior.mean).matrix(), &first, &w, nullptr);
    const VectorXd root = w.cwiseSqrt();
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor, FactorB(k, root, stop));
    if (!factor.has_value()) return std::nullopt;
    const VectorXd b = w.cwiseProduct(g) + first;
    VectorXd next_a = b - root.cwiseProduct(factor->Solve(root.cwiseProduct(k * b)));
    VectorXd next_g = k * next_a;
    double next = 0.0;
    for (int halving = 0; halving < kMaxHalvings; ++halving) {
      next = -0.5 * next_a.dot(next_g) + SumLogCdf(labels, (next_g.array() + prior.mean).matrix());
      if (next >= objective) break;
      next_a = 0.5 * (next_a + a);
      next_g = 0.5 * (next_g + g);
    }
    if (!std::isfinite(next) || !next_g.allFinite()) return std::nullopt;
    const double rise = next - objective;
    if (rise >= 0.0) {
      a = std::move(next_a);
      g = std::move(next_g);
      objective = next;
    }
    if (rise <= kTolerance * (1.0 + std::abs(objective))) break;
  }
  c.g_ = g;
  Derivatives(labels, (g.array() + prior.mean).matrix(), &c.a_, &w, nullptr);
  c.root_w_ = w.cwiseSqrt();
  LUTHIER_ASSIGN_OR_RETURN(std::optional<math::Cholesky> factor, FactorB(k, c.root_w_, stop));
  if (!factor.has_value()) return std::nullopt;
  c.factor_ = *std::move(factor);
  c.log_evidence_ = objective - 0.5 * c.factor_.LogDeterminant();
  if (!std::isfinite(c.log_evidence_)) return std::nullopt;
  return std::optional<Classifier>(std::move(c));
}

absl::StatusOr<EvidenceGradient> Classifier::Gradient(const base::StopToken& stop) const {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const Index n = size();
  MatrixXd k, slope;
  LUTHIER_RETURN_IF_ERROR(kernel_.GramLower(z_, &k, &slope, stop));
  const MatrixXd stationary = k.selfadjointView<Eigen::Lower>();
  const MatrixXd full = (stationary.array() + prior_.variance).matrix();
  // R = W^1/2 B^-1 W^1/2 = (K + W^-1)^-1, and the variances of f: K_ii - |L^-1 W^1/2 K|^2_i.
  math::TriangularSpace space;
  MatrixXd inverse_transposed;
  LUTHIER_RETURN_IF_ERROR(math::InverseTransposed(factor_.lower(), &space, &inverse_transposed, stop));
  MatrixXd r = MatrixXd::Zero(n, n);
  LUTHIER_RETURN_IF_ERROR(math::AddSquareOfUpper(inverse_transposed, 1.0, &space, r, stop));
  r = r.selfadjointView<Eigen::Lower>();
  r = root_w_.asDiagonal() * r * root_w_.asDiagonal();
  MatrixXd spread = root_w_.asDiagonal() * full;
  factor_.SolveLowerInPlace(spread);
  LUTHIER_RETURN_IF_ERROR(stop.Poll(n * n * n / 2));
  const VectorXd variances = full.diagonal() - spread.colwise().squaredNorm().transpose();
  VectorXd first, w, third;
  Derivatives(labels_, (g_.array() + prior_.mean).matrix(), &first, &w, &third);
  // d ln q/df^ = variances third/2, and df^/dtheta = (I - K R) dK a: v' dK a with v = (I - R K) of the former.
  const VectorXd by_mode = 0.5 * variances.cwiseProduct(third);
  const VectorXd v = by_mode - r * (full * by_mode);
  const MatrixXd weights = 0.5 * (a_ * a_.transpose() - r) + 0.5 * (v * a_.transpose() + a_ * v.transpose());
  EvidenceGradient gradient;
  gradient.log_signal_variance = weights.cwiseProduct(stationary).sum();
  LUTHIER_ASSIGN_OR_RETURN(kernels::KernelGradient parts, kernel_.Contract(z_, slope, weights, stop));
  gradient.log_lengthscales = std::move(parts.log_lengthscales);
  return gradient;
}

Posterior Classifier::Latent(const Eigen::Ref<const MatrixXd>& u) const {
  LUTHIER_CHECK(u.cols() == z_.cols());
  Posterior posterior;
  posterior.mean.resize(u.rows());
  posterior.variance.resize(u.rows());
  const double prior = kernel_.signal_variance() + prior_.variance;
  MatrixXd cross;
  for (Index begin = 0; begin < u.rows(); begin += kChunk) {
    const Index q = std::min(kChunk, u.rows() - begin);
    kernel_.Cross(z_, kernel_.Scale(u.middleRows(begin, q)), &cross);
    cross.array() += prior_.variance;
    posterior.mean.segment(begin, q) = (cross.transpose() * a_).array() + prior_.mean;
    cross = root_w_.asDiagonal() * cross;
    factor_.SolveLowerInPlace(cross);
    posterior.variance.segment(begin, q) = (prior - cross.colwise().squaredNorm().transpose().array()).max(0.0);
  }
  return posterior;
}

VectorXd Classifier::LogProbabilities(const Eigen::Ref<const MatrixXd>& u) const {
  const Posterior latent = Latent(u);
  VectorXd values(u.rows());
  for (Index i = 0; i < u.rows(); ++i) {
    values(i) = math::LogNormalCdf(latent.mean(i) / std::sqrt(1.0 + latent.variance(i)));
  }
  return values;
}

double Classifier::LogProbability(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return LogProbabilities(u.transpose())(0);
  LUTHIER_CHECK(u.size() == z_.cols());
  VectorXd k;
  MatrixXd jacobian;
  kernel_.PointCross(z_, u.transpose().cwiseProduct(kernel_.inverse_lengthscales()), &k, &jacobian);
  k.array() += prior_.variance;
  const double mean = prior_.mean + k.dot(a_);
  MatrixXd solved = root_w_.cwiseProduct(k);
  factor_.SolveLowerInPlace(solved);
  const double raw = kernel_.signal_variance() + prior_.variance - solved.squaredNorm();
  const double scale = std::sqrt(1.0 + std::max(raw, 0.0));
  const double z = mean / scale;
  *gradient = jacobian.transpose() * a_ / scale;
  if (raw > 0.0) {
    factor_.SolveLowerTransposedInPlace(solved);
    const VectorXd weights = root_w_.cwiseProduct(solved.col(0));
    *gradient += (z / (scale * scale)) * (jacobian.transpose() * weights);
  }
  *gradient *= math::InverseMills(z);
  return math::LogNormalCdf(z);
}

absl::StatusOr<Hyperparameters> FitClassifierHyperparameters(const kernels::KernelShape& shape, const MatrixXd& x,
                                                             const VectorXd& labels,
                                                             const std::optional<Hyperparameters>& carried,
                                                             int max_evaluations, const ClassifierPrior& prior,
                                                             const base::StopToken& stop) {
  const Index groups = shape.groups;
  const double centre = std::sqrt(2.0) + 0.5 * std::log(static_cast<double>(std::max<Index>(1, groups)));
  VectorXd lower = VectorXd::Constant(groups + 1, std::log(kMinLengthscale));
  VectorXd upper = VectorXd::Constant(groups + 1, std::log(kMaxLengthscale));
  lower(groups) = std::log(kMinSignal);
  upper(groups) = std::log(kMaxSignal);
  auto unpack = [&](const VectorXd& phi) {
    Hyperparameters theta;
    theta.lengthscales = phi.head(groups).array().exp();
    theta.signal_variance = std::exp(phi(groups));
    return theta;
  };
  VectorXd mode;  // Mode of the last fit, where the next one begins.
  auto negative = [&](const VectorXd& phi, VectorXd* gradient) -> absl::StatusOr<double> {
    LUTHIER_ASSIGN_OR_RETURN(
        const std::optional<Classifier> fit,
        Classifier::Fit(shape, unpack(phi), x, labels, prior, mode.size() > 0 ? &mode : nullptr, stop));
    if (!fit.has_value()) return std::numeric_limits<double>::infinity();
    mode = fit->mode();
    double value = -fit->log_evidence();
    VectorXd slope(groups + 1);
    for (Index g = 0; g < groups; ++g) {
      // The prior of the lengthscale itself, whose mode is e^(centre - 3), as gp::HyperPosterior has it.
      const double t = (phi(g) - centre) / kLogLengthscaleDeviation;
      value += 0.5 * t * t + phi(g);
      slope(g) = t / kLogLengthscaleDeviation + 1.0;
    }
    const double t = (phi(groups) - prior.log_signal_mean) / kLogSignalDeviation;
    value += 0.5 * t * t;
    slope(groups) = t / kLogSignalDeviation;
    if (gradient != nullptr) {
      LUTHIER_ASSIGN_OR_RETURN(const EvidenceGradient evidence, fit->Gradient(stop));
      *gradient = slope;
      gradient->head(groups) -= evidence.log_lengthscales;
      (*gradient)(groups) -= evidence.log_signal_variance;
    }
    return value;
  };
  VectorXd start = VectorXd::Constant(groups + 1, std::clamp(centre - 3.0, lower(0), upper(0)));
  start(groups) = prior.log_signal_mean;
  if (carried.has_value()) {
    VectorXd other(groups + 1);
    other.head(groups) = carried->lengthscales.array().log();
    other(groups) = std::log(carried->signal_variance);
    other = other.cwiseMax(lower).cwiseMin(upper);
    // The carried start is evaluated first: the other fit begins at its mode.
    LUTHIER_ASSIGN_OR_RETURN(const double of_other, negative(other, nullptr));
    LUTHIER_ASSIGN_OR_RETURN(const double of_start, negative(start, nullptr));
    if (of_other <= of_start) start = other;
  }
  math::LbfgsOptions options;
  options.max_evaluations = max_evaluations;
  options.max_iterations = max_evaluations;
  options.value_tolerance = 1e-5;
  LUTHIER_ASSIGN_OR_RETURN(const math::LbfgsResult end,
                           math::MinimizeLbfgs(negative, start, lower, upper, options, stop));
  return unpack(end.x);
}

}  // namespace luthier::gp
