#include "lib/gp/hyper_sampling.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kThesisMinLengthscale = 1e-11, kThesisMaxLengthscale = 10.0;
constexpr double kThesisMinNoise = 1e-10;
constexpr double kThesisDiagonal = 1e-6;
constexpr double kInside = 1e-9;

InferenceOptions ChainOptions(InferenceOptions options) {
  if (options.prior == PriorKind::kThesis) {
    options.min_lengthscale = kThesisMinLengthscale;
    options.max_lengthscale = std::min(options.max_lengthscale, kThesisMaxLengthscale);
    options.min_noise = kThesisMinNoise;
    options.doubt_noise = false;
  }
  return options;
}

math::SliceOptions StepOptions(PriorKind prior) {
  math::SliceOptions options;
  options.expansion = prior == PriorKind::kThesis ? math::SliceExpansion::kDoubling : math::SliceExpansion::kLinear;
  return options;
}

}  // namespace

ChainDensity::ChainDensity(Likelihood* likelihood, const InferenceOptions& options)
    : likelihood_(likelihood),
      natural_(options.prior == PriorKind::kThesis),
      posterior_(likelihood, ChainOptions(options)) {
  const int groups = likelihood->shape().groups;
  for (int j = 0; j < groups; ++j) single_.push_back(j);
  int next = groups;
  if (options.fit_signal) joint_.push_back(next++);
  if (likelihood->shape().has_shape_parameter()) single_.push_back(next++);
  if (options.fit_noise) {
    if (options.doubt_noise || options.prior == PriorKind::kDimensionScaled) log_noise_ = next;
    joint_.push_back(next++);
  }
  if (likelihood->slopes() > 0 && options.fit_slope_noise) joint_.push_back(next++);
  joint_.push_back(next);
  LUTHIER_CHECK(next + 1 == dimension());
}

absl::StatusOr<double> ChainDensity::Value(const VectorXd& x, const base::StopToken& stop) const {
  LUTHIER_CHECK(x.size() == dimension());
  if (!x.allFinite()) return -math::kInfinity;
  const Index logs = posterior_.dimension();
  VectorXd phi = x.head(logs);
  if (natural_) {
    if (logs > 0 && !(phi.minCoeff() > 0.0)) return -math::kInfinity;
    phi = phi.array().log();
  }
  if ((phi.array() < posterior_.lower().array()).any() || (phi.array() > posterior_.upper().array()).any()) {
    return -math::kInfinity;
  }
  const double mean = x(logs);
  // LogPrior has the densities of the parameters themselves; d theta = theta d ln theta.
  double value = posterior_.LogPrior(phi, nullptr) - 0.5 * mean * mean;
  if (!natural_) value += phi.sum();
  if (!natural_ && log_noise_ >= 0) value -= phi(log_noise_);
  LUTHIER_ASSIGN_OR_RETURN(const double log_likelihood, likelihood_->Marginal(Unpack(x), nullptr, stop));
  value += log_likelihood;
  return std::isfinite(value) ? value : -math::kInfinity;
}

VectorXd ChainDensity::At(const VectorXd& phi, double mean) const {
  VectorXd x(dimension());
  x << phi, mean;
  if (natural_) {
    // Strictly inside: at a bound, ln exp may be beyond it by rounding.
    x.head(phi.size()) = phi.cwiseMax((posterior_.lower().array() + kInside).matrix())
                             .cwiseMin((posterior_.upper().array() - kInside).matrix())
                             .array()
                             .exp();
  }
  return x;
}

VectorXd ChainDensity::Mode() const {
  return At(posterior_.Mode(), 0.0);
}

VectorXd ChainDensity::Pack(const Hyperparameters& theta) const {
  Hyperparameters at = theta;
  if (natural_) at.noise_variance = std::max(theta.noise_variance - kThesisDiagonal, kThesisMinNoise);
  return At(posterior_.Pack(at), theta.mean);
}

Hyperparameters ChainDensity::Unpack(const VectorXd& x) const {
  const Index logs = posterior_.dimension();
  VectorXd phi = x.head(logs);
  if (natural_) phi = phi.array().log();
  Hyperparameters theta = posterior_.Unpack(phi);
  theta.mean = x(logs);
  if (natural_) theta.noise_variance += kThesisDiagonal;
  return theta;
}

absl::StatusOr<SamplingResult> SampleHyperparameters(Likelihood* likelihood, const SamplingOptions& options,
                                                     const std::optional<VectorXd>& carried,
                                                     const std::optional<Hyperparameters>& start,
                                                     base::RandomStream random, const base::StopToken& stop) {
  LUTHIER_CHECK(options.burn_in >= 0 && options.states >= 1);
  const ChainDensity chain(likelihood, options.inference);
  const auto density = [&](const VectorXd& x) { return chain.Value(x, stop); };
  const math::SliceOptions step = StepOptions(options.inference.prior);
  SamplingResult result;
  math::SliceState state;
  // New data may have density 0 where the chain stood.
  std::vector<VectorXd> places;
  if (carried.has_value() && carried->size() == chain.dimension()) places.push_back(*carried);
  const size_t carried_places = places.size();
  if (start.has_value()) places.push_back(chain.Pack(*start));
  places.push_back(chain.Mode());
  bool started = false;
  for (size_t k = 0; k < places.size() && !started; ++k) {
    result.burned = k >= carried_places;
    LUTHIER_ASSIGN_OR_RETURN(started, math::StartSlice(density, places[k], &state, &result.counts));
  }
  if (!started) return result;
  auto sweep = [&]() -> absl::Status {
    LUTHIER_RETURN_IF_ERROR(math::SliceRandomDirection(density, chain.joint(), step, random, &state, &result.counts));
    return math::SliceCoordinates(density, chain.single(), step, random, &state, &result.counts);
  };
  for (int k = 0; result.burned && k < options.burn_in; ++k) LUTHIER_RETURN_IF_ERROR(sweep());
  for (int k = 0; k < options.states; ++k) {
    LUTHIER_RETURN_IF_ERROR(sweep());
    result.states.push_back(chain.Unpack(state.x));
  }
  result.chain = state.x;
  return result;
}

}  // namespace luthier::gp
