#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_MODEL_TURN_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_MODEL_TURN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/acquisition/fantasies.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "lib/search/bo/acquisition/finite_thompson.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/bo/local/trust_box.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

struct BoModel {
  // The model of the objective. Its states include the pending trials with believed values, unless
  // outcomes of these are drawn.
  Surrogate surrogate;
  std::vector<double> best;  // Value to beat under each state, in the regression's units.
  // Drawn outcomes of the pending trials, for each state; empty if the acquisition does not use
  // them.
  std::vector<Fantasies> fantasies;
  // LeastInformation of each state, for UCB and TS with pending trials in the state; else empty.
  std::vector<double> information;
};

// Answers the asks of BoDesigner that are the model's turn. Fit fits a model of the objective, and
// Propose maximises the acquisition function under it. The class is immutable and may be used by
// any thread. Functions that take a stop return CANCELLED once it is raised.
class ModelTurn {
 public:
  // Borrows `study`.
  explicit ModelTurn(const BoStudy* study)
      : encoding_(&study->encoding),
        table_(study->Table()),
        models_(&study->surrogate),
        options_(study->options),
        goal_(study->goal),
        seed_(study->seed),
        one_slope_each_(study->options.gradients == study::BoGradients::kDirectional || study->many_gradients) {}

  // Fits the model. `last` and `basins` are the states of the last ask. While other basins are
  // searched, the hyperparameters in `last` are reused, until the whole space has its turn again.
  // Returns std::nullopt if no covariance could be factored.
  absl::StatusOr<std::optional<BoModel>> Fit(const Observations& data, const std::optional<SurrogateState>& last,
                                             const BasinsState& basins, uint64_t ask_index,
                                             const base::StopToken& stop) const;
  // Returns the setting that maximises the acquisition, and adds details of it to `suggestion`.
  // `feasible` is null if failures are not modelled. `run` is null if there is no trust box.
  // `basins` is the state of the last ask and becomes that of this one. If Lipschitz bounds reject
  // every candidate, the result comes from BestAllowed and has origin "ar_empty". Returns
  // std::nullopt if there is no candidate.
  absl::StatusOr<std::optional<MaximizeCandidate>> Propose(const BoModel& model, const Observations& data,
                                                           const FeasibilityModel* feasible, const TrustBoxRun* run,
                                                           uint64_t ask_index, BasinsState* basins,
                                                           Suggestion* suggestion, const base::StopToken& stop) const;
  // Returns the models that predictions at settings are averaged over (surrogate.h).
  absl::StatusOr<std::vector<Alternative>> AlternativesTo(const BoModel& model, const Observations& data,
                                                          const base::StopToken& stop) const;
  // Returns what the mixture of the model and its alternatives expects of the metric at `u`, in user units.
  static Prediction PredictAt(const BoModel& model, const std::vector<Alternative>& alternatives, study::Goal goal,
                              const Eigen::VectorXd& u);
  // Adds details to `suggestion`, such as the predicted mean and deviation at `candidate`, averaged
  // over the model and its alternatives (surrogate.h).
  absl::Status Describe(const BoModel& model, const MaximizeCandidate& candidate, const Observations& data,
                        Suggestion* suggestion, const base::StopToken& stop) const;

 private:
  // Maximises an acquisition function, given the lengthscales of its model.
  using Maximizer =
      absl::FunctionRef<absl::StatusOr<MaximizeResult>(const AcquisitionFunction&, const Eigen::VectorXd&)>;

  // One search for the maximum of an acquisition: the models, and the part of the space.
  struct Search {
    const BoModel& model;
    const Observations& data;
    const BoundedAcquisition& bounded;
    const FeasibilityModel* feasible;   // Null if failures are not modelled.
    const TrustBox* box;                // Null for the whole space.
    const FiniteSet* finite;            // The points of a finite draw, or null.
    const std::vector<bool>& excluded;  // True for each row of the table that must not be proposed.
    uint64_t ask_index;
  };

  // Returns true if local steps refine the incumbent, so that the model need not.
  bool Polished() const;
  // Returns the smallest improvement on the incumbent that counts, in output deviations.
  double Margin(const gp::Regression& state) const;

  // Returns the setting that maximises `acquisition`. A small finite space is enumerated; FINITE looks at its
  // candidates; otherwise a search, which may go to other basins, maximises it. Returns std::nullopt if no value is
  // finite.
  absl::StatusOr<std::optional<MaximizeCandidate>> MaximumOf(const AcquisitionFunction& acquisition,
                                                             const Search& search, BasinsState* basins,
                                                             Suggestion* suggestion, const base::StopToken& stop) const;

  // Returns the derivatives that models use.
  gp::Slopes SlopesOf(const Observations& data) const;

  // Returns the maximum of `acquisition`: the (log) expected improvement of `bounded`, weighted by the probability that
  // a trial succeeds. If the expected improvement is negligible, adds the incumbent's basin to the known ones and
  // returns the maximum of the improvement in all other basins (basins.h).
  absl::StatusOr<MaximizeResult> MaximizeOverBasins(const BoModel& model, const Observations& data,
                                                    const BoundedAcquisition& bounded,
                                                    const AcquisitionFunction& acquisition,
                                                    const FeasibilityModel* feasible, Maximizer maximize,
                                                    uint64_t ask_index, BasinsState* basins, Suggestion* suggestion,
                                                    const base::StopToken& stop) const;

  // Draws 256 random settings. Returns the one with the largest posterior mean of those that are
  // untried and at which the bounds allow an improvement. If there is none, returns a LipoPoint.
  absl::StatusOr<MaximizeCandidate> BestAllowed(const std::vector<ModelState>& states, const OutputBounds& bounds,
                                                double incumbent, const Observations& data, uint64_t ask_index,
                                                const base::StopToken& stop) const;

  const study::Encoding* encoding_;
  const SettingTable* table_;
  const SurrogateOptions* models_;
  study::BoOptions options_;
  study::Goal goal_;
  uint64_t seed_;
  bool one_slope_each_;  // True if models use one slope a point, so as not to have too many rows.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_MODEL_TURN_H_
