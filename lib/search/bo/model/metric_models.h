#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_METRIC_MODELS_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_METRIC_MODELS_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/model/ask_key.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Models of the metrics of studies with StudySpec::metrics: one surrogate a metric (surrogate.h), independent of the
// others. docs/design/several_metrics.md.
namespace luthier::search {

// Returns the positions of the metrics whose bounds a model must know. Where every COMPLETE result keeps a distance of
// at least three standard deviations of the results from a bound, on its feasible side, the bound is left out: it costs
// no fit and changes nothing.
std::vector<size_t> BoundsInDoubt(absl::Span<const study::MetricSpec> metrics, const study::History& history);

// Returns the goal by which a model scores the metric's values: that of an objective, else the side away from the
// bound.
study::Goal GoalOf(const study::MetricSpec& metric);

// Bounds of a metric in the outputs of its model.
struct OutcomeBound {
  const gp::Regression* regression = nullptr;  // Borrowed.
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
};

// An increasing map of scores around a bound, in the form of a logarithm on both of its sides (Eriksson & Poloczek
// 2021, "Scalable constrained Bayesian optimization"):
//   b(s) = sgn(s - c) ln(1 + |s - c|/scale)
// with the bound c, or the middle of two, and the lower quartile of |s - c| over the results. How far results violate a
// bound may span decades; what counts is where they keep it. A default object changes nothing.
class Bend {
 public:
  Bend() = default;
  // `metric` has bounds.
  static Bend Around(const study::MetricSpec& metric, const Eigen::VectorXd& scores);
  double Forward(double score) const;
  double Inverse(double bent) const;
  // Returns the derivative of Forward.
  double Slope(double score) const;

 private:
  double centre_ = 0.0;
  double scale_ = 0.0;  // 0: nothing is changed.
};

// Returns the bounds of the metric, given its bend, the transform of its bent scores, and these. A bound among the
// worst scores, which the transform clips, lies half way between them and the worst score that is feasible.
OutcomeBound BoundOf(const study::MetricSpec& metric, const Bend& bend, const OutputTransform& transform,
                     const Eigen::VectorXd& scores, const gp::Regression* regression);

// Returns the bounds with those that no result keeps moved towards the results: to one deviation of the outputs beyond
// the nearest. Far beyond them the largest probability is where the least is known, not where results come closer.
std::vector<OutcomeBound> Attainable(std::vector<OutcomeBound> bounds);

// ln P(lower <= f <= upper) for f ~ N(mean, deviation^2), and its derivatives by both.
struct LogWithin {
  double value = 0.0, by_mean = 0.0, by_deviation = 0.0;
};
LogWithin LogProbabilityWithin(const OutcomeBound& bound, double mean, double deviation);
// Returns the sum of these over the bounds for each row of u.
Eigen::VectorXd LogProbabilitiesWithin(const std::vector<OutcomeBound>& bounds,
                                       const Eigen::Ref<const Eigen::MatrixXd>& u);
// The same at one point. Sets `gradient` to its derivatives.
double LogProbabilityWithin(const std::vector<OutcomeBound>& bounds, const Eigen::VectorXd& u,
                            Eigen::VectorXd* gradient);

// Fits the model of one metric, of scores in units of the metric or bent around its bounds. Its outputs are not warped:
// hypervolumes of outputs are then those of the metrics, up to a factor. `carried` is the state that the metric's last
// fit left. Returns as FitSurrogate does.
absl::StatusOr<std::optional<Surrogate>> FitMetric(const SurrogateOptions& options, const SurrogateData& data,
                                                   const std::optional<SurrogateState>& carried, const AskKey& key,
                                                   const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_METRIC_MODELS_H_
