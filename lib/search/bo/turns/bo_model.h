#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/fantasies.h"
#include "lib/search/bo/model/metric_models.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Noise variance above which an objective counts as noisy, even if it was not declared so.
inline constexpr double kFoundNoise = 1e-4;

// The model of a metric beside that of the objective, or of one of several objectives. `scores` are study::Score by
// GoalOf, and those of a metric without a goal are bent around its bounds.
struct MetricModel {
  size_t position = 0;  // In StudySpec::metrics.
  Bend bend;
  Eigen::VectorXd scores;
  Surrogate surrogate;

  // Returns the bounds of the metric, which borrow the model.
  OutcomeBound Bound(const BoStudy& study) const {
    return BoundOf(study.spec.metrics[position], bend, surrogate.transform, scores, &surrogate.states.front());
  }
};

// Adds to the details what the model of a metric expects at model point u, in units of the metric: mean.NAME and
// sd.NAME (half of what one deviation of the outputs to either side is apart), as far as they are finite.
void AddExpectation(const BoStudy& study, const MetricModel& metric, const Eigen::VectorXd& u,
                    std::map<std::string, double>* details);
// Adds kept.NAME: the probability that the metric at `position` keeps its bounds at u.
void AddBoundKept(const BoStudy& study, size_t position, const OutcomeBound& bound, const Eigen::VectorXd& u,
                  std::map<std::string, double>* details);

// Fits the model of the metric at `position` to the results in rows `rows` of the ask's data, all of which report it.
// Its pending trials are assumed to give the predicted mean, unless they are to be drawn (`believe` is false). Returns
// std::nullopt if no covariance could be factored.
absl::StatusOr<std::optional<MetricModel>> FitMetricModel(const BoStudy& study, const Ask& ask,
                                                          const std::vector<Eigen::Index>& rows, size_t position,
                                                          bool believe);
// Returns the rows of measured results of all metrics.
std::vector<Eigen::Index> MeasuredRows(const BoStudy& study, const Ask& ask);
// Keeps the models' states for the next ask.
void KeepMetrics(const std::vector<MetricModel>& models, BoState* state);

// ln P from which on bounds are expected to be kept.
inline const double kLikelyWithin = std::log(0.5);

struct BoModel {
  // The model of the objective. Its states include the pending trials with believed values, unless
  // outcomes of these are drawn.
  Surrogate surrogate;
  // Value to beat under each state, in the regression's units; -infinity if no result keeps `bounds`.
  std::vector<double> best = {};
  // Drawn outcomes of the pending trials, for each state; empty if the acquisition does not use
  // them.
  std::vector<Fantasies> fantasies = {};
  // The models of further metrics whose bounds are in doubt, and these bounds, which borrow the models. The objective's
  // own bounds are of the first state.
  std::vector<MetricModel> metrics = {};
  std::vector<OutcomeBound> bounds = {};
  // LeastInformation of each state, for UCB and TS with pending trials in the state; else empty.
  std::vector<double> information = {};

  // Returns true if there is a value to beat.
  bool HasIncumbent() const;
};

// Passes the models on to the next ask.
void KeepModels(const BoModel& model, BoState* state);

// Fits the model to the ask's data. While other basins are searched, the hyperparameters of the last
// ask are reused, until the whole space has its turn again. Returns std::nullopt if no covariance
// could be factored.
absl::StatusOr<std::optional<BoModel>> FitBoModel(const BoStudy& study, const Ask& ask);

// Returns the models that predictions at settings are averaged over (surrogate.h).
absl::StatusOr<std::vector<Alternative>> AlternativesTo(const BoStudy& study, const Ask& ask, const BoModel& model);

// Says how far beyond the results a warp may lead a prediction: anywhere, as suggestions store it, or at most a range
// of the results beyond them (OutputTransform::InverseWithin), with a deviation of a range at least.
enum class Extrapolation { kAny, kWithinARange };

// Returns what the mixture of the model and its alternatives expects of the metric at `u`, in user units.
Prediction PredictAt(const BoModel& model, const std::vector<Alternative>& alternatives, study::Goal goal,
                     const Eigen::VectorXd& u, Extrapolation beyond);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_
