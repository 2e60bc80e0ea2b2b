#include "lib/search/bo/acquisition/truncated.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/math/infinity.h"
#include "lib/math/special_functions.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

using math::kInfinity;
constexpr double kNowhere = 1e30;
constexpr double kBindShare = 1e-3;
constexpr double kNarrow = 1e-6;  // Width of a narrow band, in deviations or as a share of its distance from the mean.
constexpr double kBoundMargin = 1e-8;  // In units of max(1, |g|).

// Returns the logarithm where nothing can be gained. `distance` = a - U is how far the bound is below the value to
// beat.
TruncatedTerm Hopeless(double distance) {
  return {-kNowhere * (1.0 + distance), 0.0, 0.0, 0.0, kNowhere};
}

TruncatedTerm operator-(const TruncatedTerm& a, const TruncatedTerm& b) {
  return {a.value - b.value, a.by_mean - b.by_mean, a.by_deviation - b.by_deviation, a.by_lower - b.by_lower,
          a.by_upper - b.by_upper};
}

// Returns ln P(low < f < high); `by_lower` is its derivative by `low`.
TruncatedTerm LogMass(double mean, double deviation, double low, double high) {
  // The difference of the two ends in deviations would lose the width of a narrow band to rounding.
  const double width = (high - low) / deviation, middle = (mean - low) / deviation - 0.5 * width;
  if (width > 0.0 && width < kNarrow * std::max(1.0, std::abs(middle)) && width * (1.0 + std::abs(middle)) < 1e-2) {
    const math::LogNormalSliceValue p = math::LogNormalSlice(middle, width);
    return {p.value, p.by_middle / deviation, -(middle * p.by_middle + width * p.by_width) / deviation,
            (-0.5 * p.by_middle - p.by_width) / deviation, (-0.5 * p.by_middle + p.by_width) / deviation};
  }
  const double z_low = low == -kInfinity ? kInfinity : (mean - low) / deviation;
  const double z_high = high == kInfinity ? -kInfinity : (mean - high) / deviation;
  const math::LogCdfDifferenceValue p = math::LogNormalCdfDifference(z_low, z_high);
  TruncatedTerm term{p.value, (p.by_a + p.by_b) / deviation, 0.0, -p.by_a / deviation, -p.by_b / deviation};
  // At an infinite end the density is 0.
  if (p.by_a != 0.0) term.by_deviation -= z_low * p.by_a / deviation;
  if (p.by_b != 0.0) term.by_deviation -= z_high * p.by_b / deviation;
  return term;
}

// Returns ln int_a^high (f - best) N(f) df, a >= best, high > a. `by_lower` is the part of the derivative that comes
// through a; it is 0 if a == best.
TruncatedTerm LogImprovement(double mean, double deviation, double best, double a, double high) {
  const double z = (mean - a) / deviation;
  const double q = (high - a) / deviation;
  const math::LogPartialMomentValue m = math::LogPartialMoment(z, q);
  TruncatedTerm above{std::log(deviation) + m.value, m.by_z / deviation, (1.0 - z * m.by_z) / deviation,
                      -(m.by_z + m.by_q) / deviation, m.by_q / deviation};
  if (m.by_q != 0.0) above.by_deviation -= q * m.by_q / deviation;
  if (a == best) {
    above.by_lower = 0.0;
    return above;
  }
  // Adds the part below f - a: (a - best) times the mass.
  const TruncatedTerm mass = LogMass(mean, deviation, a, high);
  const double step = std::log(a - best) + mass.value;
  const double value = math::LogSumExp(above.value, step);
  if (!std::isfinite(value)) return above;
  const double p = std::exp(above.value - value), r = std::exp(step - value);
  return {value, p * above.by_mean + r * mass.by_mean, p * above.by_deviation + r * mass.by_deviation,
          p * above.by_lower + r * (mass.by_lower + 1.0 / (a - best)), p * above.by_upper + r * mass.by_upper};
}

// Returns exp of a logarithmic term.
TruncatedTerm Exponential(const TruncatedTerm& t) {
  const double value = std::exp(t.value);
  if (value == 0.0) return {0.0, 0.0, 0.0, 0.0, 0.0};
  return {value, value * t.by_mean, value * t.by_deviation, value * t.by_lower, value * t.by_upper};
}

// Returns the term of a band without width: all the mass is at its end nearest to the mean.
TruncatedTerm PointMass(AcquisitionKind kind, double mean, double level, double lower, double upper) {
  const bool at_upper = mean > upper || std::isinf(lower);
  const double end = at_upper ? upper : std::min(std::max(mean, upper), lower);
  const double gain = end - level;
  const bool expectation =
      kind == AcquisitionKind::kExpectedImprovement || kind == AcquisitionKind::kLogExpectedImprovement;
  if (!(gain > 0.0)) return IsLogarithm(kind) ? Hopeless(-gain) : TruncatedTerm{0.0, 0.0, 0.0, 0.0, 0.0};
  double value = expectation ? gain : 1.0;
  double slope = expectation ? 1.0 : 0.0;
  if (IsLogarithm(kind)) {
    value = std::log(value);
    slope /= gain;
  }
  return {value, 0.0, 0.0, end == lower && end != upper ? slope : 0.0, end == upper ? slope : 0.0};
}

// Returns true if less than e^-50 of the mass above `level` is above `upper`, which is below the rounding of the
// integral. With z = (… - mean)/sigma, that share of a normal distribution is about exp((z_level^2 - z_U^2)/2).
bool CutsNothing(double mean, double deviation, double level, double upper) {
  const double above = (upper - mean) / deviation, from = std::max(0.0, (level - mean) / deviation);
  return above * above - from * from > 100.0 && above > from;
}

}  // namespace

TruncatedTerm EvaluateTruncated(const AcquisitionSettings& settings, bool normalised, double mean, double deviation,
                                double best, double lower, double upper) {
  const double level = best + settings.margin;
  const AcquisitionKind kind = settings.kind;
  if (kind == AcquisitionKind::kUpperConfidenceBound) {
    const AcquisitionTerm plain = EvaluateTerm(settings, mean, deviation, best);
    if (!(plain.value > upper)) return {plain.value, plain.by_mean, plain.by_deviation, 0.0, 0.0};
    return {upper, 0.0, 0.0, 0.0, 1.0};
  }
  const bool open = upper == kInfinity && (lower == -kInfinity || (!normalised && lower <= level));
  if (open || (!normalised && lower <= level && CutsNothing(mean, deviation, level, upper))) {
    const AcquisitionTerm plain = EvaluateTerm(settings, mean, deviation, best);
    return {plain.value, plain.by_mean, plain.by_deviation, 0.0, 0.0};
  }
  if (normalised && lower >= upper) return PointMass(kind, mean, level, lower, upper);
  const double a = std::max(level, lower);
  if (!(upper > a)) {
    if (std::isnan(upper) || std::isnan(a)) return {std::nan(""), 0.0, 0.0, 0.0, 0.0};
    return IsLogarithm(kind) ? Hopeless(a - upper) : TruncatedTerm{0.0, 0.0, 0.0, 0.0, 0.0};
  }
  TruncatedTerm term{};
  if (kind == AcquisitionKind::kExpectedImprovement || kind == AcquisitionKind::kLogExpectedImprovement) {
    term = LogImprovement(mean, deviation, level, a, upper);
  } else {
    term = LogMass(mean, deviation, a, upper);
    if (a == level) term.by_lower = 0.0;
  }
  if (normalised) term = term - LogMass(mean, deviation, lower, upper);
  return IsLogarithm(kind) ? term : Exponential(term);
}

TruncatedAcquisition::TruncatedAcquisition(std::vector<ModelState> states, const AcquisitionSettings& settings,
                                           const OutputBounds* bounds, bool normalised)
    : states_(std::move(states)), settings_(settings), bounds_(bounds), normalised_(normalised) {
  LUTHIER_CHECK(!states_.empty() && bounds_ != nullptr);
  for (const ModelState& state : states_) {
    LUTHIER_CHECK(state.regression != nullptr && state.regression->columns() == states_[0].regression->columns());
  }
}

bool TruncatedAcquisition::Binds(double mean, double deviation, double best, double upper) const {
  if (upper == kInfinity) return false;
  if (settings_.kind == AcquisitionKind::kUpperConfidenceBound) {
    return mean + settings_.root_beta * deviation > upper;
  }
  const double level = best + settings_.margin;
  if (upper <= level) return true;
  return math::LogNormalCdf((mean - upper) / deviation) >
         std::log(kBindShare) + math::LogNormalCdf((mean - level) / deviation);
}

VectorXd TruncatedAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd lower, upper;
  bounds_->Evaluate(u, &lower, &upper);
  MatrixXd values(u.rows(), static_cast<Index>(states_.size()));
  std::vector<bool> binds(static_cast<size_t>(u.rows()), false);
  for (Index s = 0; s < values.cols(); ++s) {
    const ModelState& state = states_[static_cast<size_t>(s)];
    const gp::Posterior posterior = state.regression->Predict(u);
    for (Index i = 0; i < u.rows(); ++i) {
      const double mean = posterior.mean(i), deviation = std::sqrt(posterior.variance(i));
      values(i, s) = EvaluateTruncated(settings_, normalised_, mean, deviation, state.best, lower(i), upper(i)).value;
      if (Binds(mean, deviation, state.best, upper(i))) binds[static_cast<size_t>(i)] = true;
    }
  }
  counter_.Add(u.rows(), std::count(binds.begin(), binds.end(), true));
  return AverageStates(values, IsLogarithm(settings_.kind));
}

double TruncatedAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  const PointBounds bounds = bounds_->At(u);
  VectorXd values(static_cast<Index>(states_.size()));
  MatrixXd gradients(u.size(), values.size());
  for (Index s = 0; s < values.size(); ++s) {
    const ModelState& state = states_[static_cast<size_t>(s)];
    const gp::PointPosterior p = state.regression->PredictWithGradient(u);
    const double deviation = std::sqrt(p.variance);
    const TruncatedTerm term =
        EvaluateTruncated(settings_, normalised_, p.mean, deviation, state.best, bounds.lower, bounds.upper);
    values(s) = term.value;
    gradients.col(s) = term.by_mean * p.mean_gradient + (0.5 * term.by_deviation / deviation) * p.variance_gradient;
    if (term.by_lower != 0.0) gradients.col(s) += term.by_lower * bounds.lower_gradient;
    if (term.by_upper != 0.0) gradients.col(s) += term.by_upper * bounds.upper_gradient;
  }
  VectorXd ignored;
  return AverageStates(values, gradients, IsLogarithm(settings_.kind), gradient == nullptr ? &ignored : gradient);
}

VectorXd AcceptRejectAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd lower, upper;
  bounds_->Evaluate(u, &lower, &upper);
  VectorXd values = g_->Values(u);
  int64_t rejected = 0;
  for (Index i = 0; i < u.rows(); ++i) {
    if (values(i) >= lower(i) && values(i) <= upper(i)) continue;
    values(i) = -kInfinity;
    ++rejected;
  }
  counter_.Add(u.rows(), rejected);
  return values;
}

double AcceptRejectAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  const PointBounds bounds = bounds_->At(u);
  const double value = g_->Value(u, gradient);
  const double margin = gradient == nullptr ? 0.0 : kBoundMargin * std::max(1.0, std::abs(value));
  if (value >= bounds.lower + margin && value <= bounds.upper - margin) return value;
  if (gradient != nullptr) gradient->setZero(u.size());
  return -kInfinity;
}

bool AcceptRejectAcquisition::Rejected(const VectorXd& u) const {
  return Value(u, nullptr) == -kInfinity;
}

}  // namespace luthier::search
