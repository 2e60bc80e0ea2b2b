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
  Surrogate surrogate;       // Open trials taken for granted.
  std::vector<double> best;  // Value to beat under each of its states, in the regression's units.
  std::vector<Fantasies>
      fantasies;  // Draws for each state's pending trials, if the acquisition averages over them; else empty.
  std::vector<double>
      information;  // LeastInformation of each state, for UCB and TS with pending trials in it; else empty.
};

// Answers the asks of BoDesigner that are the model's turn: fits a model of the objective, and finds the setting that
// is best by it. Immutable; any thread. Functions that take a stop return CANCELLED once it is raised.
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

  // Fits the model, whose hyperparameters were `last` at the last ask. While proposals are of other basins, by the last
  // ask's `basins`, hyperparameters are reused. Returns std::nullopt if no covariance could be factored.
  absl::StatusOr<std::optional<BoModel>> Fit(const Observations& data, const std::optional<SurrogateState>& last,
                                             const BasinsState& basins, uint64_t ask_index,
                                             const base::StopToken& stop) const;
  // The setting that maximises the acquisition; details of the acquisition go to `suggestion`. feasible: null where
  // failures are not modelled. run: null where there is no trust box. basins: what the last ask knew of them, and the
  // next one will.
  absl::StatusOr<std::optional<MaximizeCandidate>> Propose(const BoModel& model, const Observations& data,
                                                           const FeasibilityModel* feasible, const TrustBoxRun* run,
                                                           uint64_t ask_index, BasinsState* basins,
                                                           Suggestion* suggestion, const base::StopToken& stop) const;
  // Says of a candidate what is predicted there, on the average of the model and its alternatives (surrogate.h).
  absl::Status Describe(const BoModel& model, const MaximizeCandidate& candidate, const Observations& data,
                        Suggestion* suggestion, const base::StopToken& stop) const;

 private:
  // An acquisition and the lengthscales of the model it is of.
  using Maximizer =
      absl::FunctionRef<absl::StatusOr<MaximizeResult>(const AcquisitionFunction&, const Eigen::VectorXd&)>;

  // A search for the maximum of an acquisition: the models that it is of, and where it looks.
  struct Search {
    const BoModel& model;
    const Observations& data;
    const BoundedAcquisition& bounded;
    const FeasibilityModel* feasible;   // Null: failures are not modelled.
    const TrustBox* box;                // Null: the whole space.
    const FiniteSet* finite;            // The points of a finite draw; null: there is none.
    const std::vector<bool>& excluded;  // Rows of the table.
    uint64_t ask_index;
  };

  // Returns true if local steps refine the incumbent, so that the model need not.
  bool Polished() const;
  // Smallest improvement on the incumbent that counts, in output deviations.
  double Margin(const gp::Regression& state) const;

  // Returns the setting that maximises `acquisition`. A small finite space is enumerated; FINITE looks at its
  // candidates; otherwise a search, which may go to other basins, maximises it. Returns std::nullopt if no value is
  // finite.
  absl::StatusOr<std::optional<MaximizeCandidate>> MaximumOf(const AcquisitionFunction& acquisition,
                                                             const Search& search, BasinsState* basins,
                                                             Suggestion* suggestion, const base::StopToken& stop) const;

  // The derivatives that models use.
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

  // Returns the random setting with the largest mean of those at which the bounds allow an improvement.
  absl::StatusOr<MaximizeCandidate> BestAllowed(const std::vector<ModelState>& states, const OutputBounds& bounds,
                                                double incumbent, const Observations& data, uint64_t ask_index,
                                                const base::StopToken& stop) const;

  const study::Encoding* encoding_;
  const SettingTable* table_;
  const SurrogateOptions* models_;
  study::BoOptions options_;
  study::Goal goal_;
  uint64_t seed_;
  bool one_slope_each_;  // A model of many gradients would have too many rows.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_MODEL_TURN_H_
