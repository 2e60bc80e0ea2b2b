#include "lib/search/bo/model/metric_models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "lib/base/check.h"
#include "lib/math/special_functions.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kAim = 1.0;    // Deviations of the outputs.
constexpr double kClear = 3.0;  // Standard deviations of the results from a bound from which on it is left out.

}  // namespace

std::vector<size_t> BoundsInDoubt(absl::Span<const study::MetricSpec> metrics, const study::History& history) {
  std::vector<size_t> doubtful;
  for (size_t j = 0; j < metrics.size(); ++j) {
    if (!study::HasBounds(metrics[j])) continue;
    std::vector<double> values;
    for (const study::HistoryTrial& trial : history.trials()) {
      if (trial.state == study::TrialState::kComplete && j < trial.values.size()) values.push_back(trial.values[j]);
    }
    if (values.empty()) continue;
    // Values may be as large as doubles go, so that they are added in units of the largest.
    double unit = 0.0, mean = 0.0, squares = 0.0, excess = -std::numeric_limits<double>::infinity();
    const double n = static_cast<double>(values.size());
    for (const double value : values) unit = std::max(unit, std::abs(value));
    if (!(unit > 0.0)) unit = 1.0;
    for (const double value : values) mean += value / unit / n;
    for (const double value : values) squares += (value / unit - mean) * (value / unit - mean) / n;
    for (const double value : values) excess = std::max(excess, study::Excess(metrics[j], value));
    if (excess / unit > -kClear * std::sqrt(squares) || excess > 0.0) doubtful.push_back(j);
  }
  return doubtful;
}

study::Goal GoalOf(const study::MetricSpec& metric) {
  if (metric.objective) return metric.goal;
  return metric.at_most.has_value() && !metric.at_least.has_value() ? study::Goal::kMinimize : study::Goal::kMaximize;
}

Bend Bend::Around(const study::MetricSpec& metric, const VectorXd& scores) {
  const study::Goal goal = GoalOf(metric);
  Bend bend;
  if (metric.at_least.has_value() && metric.at_most.has_value()) {
    bend.centre_ = study::Score(goal, 0.5 * *metric.at_least + 0.5 * *metric.at_most);
  } else {
    bend.centre_ = study::Score(goal, metric.at_most.has_value() ? *metric.at_most : *metric.at_least);
  }
  std::vector<double> distances;
  for (const double score : scores) {
    const double distance = std::abs(score - bend.centre_);
    if (distance > 0.0 && std::isfinite(distance)) distances.push_back(distance);
  }
  if (distances.empty()) return bend;
  const auto quarter = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 4);
  std::nth_element(distances.begin(), quarter, distances.end());
  bend.scale_ = *quarter;
  return bend;
}

double Bend::Forward(double score) const {
  if (scale_ == 0.0) return score;
  const double distance = score - centre_;
  return std::copysign(std::log1p(std::min(std::abs(distance) / scale_, std::numeric_limits<double>::max())), distance);
}

double Bend::Inverse(double bent) const {
  if (scale_ == 0.0) return bent;
  return centre_ + std::copysign(scale_ * std::expm1(std::abs(bent)), bent);
}

double Bend::Slope(double score) const {
  return scale_ == 0.0 ? 1.0 : 1.0 / (scale_ + std::abs(score - centre_));
}

OutcomeBound BoundOf(const study::MetricSpec& metric, const Bend& bend, const OutputTransform& transform,
                     const VectorXd& scores, const gp::Regression* regression) {
  const bool minimize = GoalOf(metric) == study::Goal::kMinimize;
  const std::optional<double>& worst = minimize ? metric.at_most : metric.at_least;
  const std::optional<double>& best = minimize ? metric.at_least : metric.at_most;
  OutcomeBound bound{regression};
  if (best.has_value()) bound.upper = transform.Forward(bend.Forward(study::Score(GoalOf(metric), *best)));
  if (!worst.has_value()) return bound;
  const double score = bend.Forward(study::Score(GoalOf(metric), *worst));
  bound.lower = transform.Forward(score);
  if (transform.Slope(score) > 0.0) return bound;
  double nearest = std::numeric_limits<double>::infinity();
  for (const double other : scores) {
    if (other >= score) nearest = std::min(nearest, transform.Forward(other));
  }
  if (std::isfinite(nearest)) bound.lower = 0.5 * bound.lower + 0.5 * nearest;
  return bound;
}

std::vector<OutcomeBound> Attainable(std::vector<OutcomeBound> bounds) {
  for (OutcomeBound& bound : bounds) {
    const VectorXd& outputs = bound.regression->outputs();
    bound.lower = std::min(bound.lower, outputs.maxCoeff() + kAim);
    bound.upper = std::max(bound.upper, outputs.minCoeff() - kAim);
  }
  return bounds;
}

LogWithin LogProbabilityWithin(const OutcomeBound& bound, double mean, double deviation) {
  const double a = (bound.upper - mean) / deviation, b = (bound.lower - mean) / deviation;
  const math::LogCdfDifferenceValue within = math::LogNormalCdfDifference(a, b);
  LogWithin result{within.value, -(within.by_a + within.by_b) / deviation, 0.0};
  if (std::isfinite(a)) result.by_deviation -= a * within.by_a / deviation;
  if (std::isfinite(b)) result.by_deviation -= b * within.by_b / deviation;
  return result;
}

VectorXd LogProbabilitiesWithin(const std::vector<OutcomeBound>& bounds, const Eigen::Ref<const MatrixXd>& u) {
  VectorXd sum = VectorXd::Zero(u.rows());
  for (const OutcomeBound& bound : bounds) {
    const gp::Posterior posterior = bound.regression->Predict(u);
    for (Index i = 0; i < u.rows(); ++i) {
      sum(i) += LogProbabilityWithin(bound, posterior.mean(i), std::sqrt(posterior.variance(i))).value;
    }
  }
  return sum;
}

double LogProbabilityWithin(const std::vector<OutcomeBound>& bounds, const VectorXd& u, VectorXd* gradient) {
  double sum = 0.0;
  gradient->setZero(u.size());
  for (const OutcomeBound& bound : bounds) {
    const gp::PointPosterior p = bound.regression->PredictWithGradient(u);
    const double deviation = std::sqrt(p.variance);
    const LogWithin within = LogProbabilityWithin(bound, p.mean, deviation);
    sum += within.value;
    *gradient += within.by_mean * p.mean_gradient + (0.5 * within.by_deviation / deviation) * p.variance_gradient;
  }
  return sum;
}

absl::StatusOr<std::optional<Surrogate>> FitMetric(const SurrogateOptions& options, const SurrogateData& data,
                                                   const std::optional<SurrogateState>& carried, const AskKey& key,
                                                   const base::StopToken& stop) {
  SurrogateOptions plain = options;
  plain.sample = false;
  std::erase_if(plain.choices, [](const ModelChoice& choice) { return choice.warp != Warp::kNone; });
  std::optional<SurrogateState> state = carried;
  if (state.has_value() && state->choice >= static_cast<int>(plain.choices.size())) state.reset();
  return FitSurrogate(plain, data, state, key, /*renew=*/true, stop);
}

}  // namespace luthier::search
