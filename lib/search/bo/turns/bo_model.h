#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/fantasies.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Noise variance above which an objective counts as noisy, even if it was not declared so.
inline constexpr double kFoundNoise = 1e-4;

struct BoModel {
  // The model of the objective. Its states include the pending trials with believed values, unless
  // outcomes of these are drawn.
  Surrogate surrogate;
  std::vector<double> best = {};  // Value to beat under each state, in the regression's units.
  // Drawn outcomes of the pending trials, for each state; empty if the acquisition does not use
  // them.
  std::vector<Fantasies> fantasies = {};
  // LeastInformation of each state, for UCB and TS with pending trials in the state; else empty.
  std::vector<double> information = {};
};

// Fits the model to the ask's data. While other basins are searched, the hyperparameters of the last
// ask are reused, until the whole space has its turn again. Returns std::nullopt if no covariance
// could be factored.
absl::StatusOr<std::optional<BoModel>> FitBoModel(const BoStudy& study, const Ask& ask);

// Returns the models that predictions at settings are averaged over (surrogate.h).
absl::StatusOr<std::vector<Alternative>> AlternativesTo(const BoStudy& study, const Ask& ask, const BoModel& model);

// Returns what the mixture of the model and its alternatives expects of the metric at `u`, in user units.
Prediction PredictAt(const BoModel& model, const std::vector<Alternative>& alternatives, study::Goal goal,
                     const Eigen::VectorXd& u);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_BO_MODEL_H_
