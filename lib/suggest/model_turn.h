#ifndef LUTHIER_LIB_SUGGEST_MODEL_TURN_H_
#define LUTHIER_LIB_SUGGEST_MODEL_TURN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"
#include "lib/suggest/bounded_acquisition.h"
#include "lib/suggest/designer.h"
#include "lib/suggest/fantasies.h"
#include "lib/suggest/feasibility.h"
#include "lib/suggest/finite_thompson.h"
#include "lib/suggest/hills.h"
#include "lib/suggest/lipschitz.h"
#include "lib/suggest/maximize.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/surrogate.h"
#include "lib/suggest/trust_box.h"

namespace luthier::suggest {

struct BoModel {
  Surrogate surrogate;               // Open trials taken for granted.
  std::vector<double> best;          // Value to beat under each of its states, in the regression's units.
  std::vector<Fantasies> fantasies;  // Of each state's open trials, where the acquisition averages over them; or none.
  std::vector<double> news;          // Of each state LeastNews, for UCB and TS with open trials in it; or none.
};

// Answers the asks of BoDesigner that are the model's turn: fits a model of the objective, and finds the setting that
// is best by it. Immutable; any thread. Functions that take a stop return CANCELLED once it is raised.
class ModelTurn {
 public:
  // Borrows encoding, models and table (null: the space is not small and finite).
  ModelTurn(const study::Encoding* encoding, const SettingTable* table, const SurrogateOptions* models,
            const study::BoOptions& options, study::Goal goal, uint64_t seed)
      : encoding_(encoding), table_(table), models_(models), options_(options), goal_(goal), seed_(seed) {}

  // carried: SurrogateCarry as text. hills: what the last ask knew of them: while proposals are of other hills
  // the model's hyperparameters are not renewed. Absent when no covariance could be factored.
  absl::StatusOr<std::optional<BoModel>> Fit(const Observations& data, const std::string& carried,
                                             const HillsCarry& hills, uint64_t ask_index,
                                             const base::StopToken& stop) const;
  // The setting that maximises the acquisition; details of the acquisition go to `suggestion`. feasible: null where
  // failures are not modelled. run: null where there is no trust box. hills: what the last ask knew of them, and the
  // next one will.
  absl::StatusOr<std::optional<MaximizeCandidate>> Propose(const BoModel& model, const Observations& data,
                                                           const FeasibilityModel* feasible, const TrustBoxRun* run,
                                                           uint64_t ask_index, HillsCarry* hills,
                                                           Suggestion* suggestion, const base::StopToken& stop) const;
  // Says of a candidate what is predicted there, on the average of the model and its alternatives (surrogate.h).
  absl::Status Describe(const BoModel& model, const MaximizeCandidate& candidate, const Observations& data,
                        Suggestion* suggestion, const base::StopToken& stop) const;

 private:
  // An acquisition and the lengthscales of the model it is of.
  using Maximizer =
      absl::FunctionRef<absl::StatusOr<MaximizeResult>(const AcquisitionFunction&, const Eigen::VectorXd&)>;

  // What an acquisition to maximise is of, and where.
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

  // Whether local steps see to the last digits.
  bool Polished() const;
  // By how much improvements must exceed the record to count, in output deviations.
  double Margin(const gp::Regression& state) const;

  // The setting that maximises `acquisition`: of a small finite space among all settings, by FINITE among its
  // candidates, else by a search, of other hills where those are wanted. Absent when no value is finite.
  absl::StatusOr<std::optional<MaximizeCandidate>> MaximumOf(const AcquisitionFunction& acquisition,
                                                             const Search& search, HillsCarry* hills,
                                                             Suggestion* suggestion, const base::StopToken& stop) const;

  // The derivatives that models use.
  gp::Slopes SlopesOf(const Observations& data) const;

  // Returns the maximum of the (log) expected improvement `acquisition`, which is that of `bounded` weighted by the
  // chance that trials succeed. Where it promises next to nothing the maximum is that of the improvement on other hills
  // than the known ones, to which the record's is added (hills.h).
  absl::StatusOr<MaximizeResult> MaximizeOnHills(const BoModel& model, const Observations& data,
                                                 const BoundedAcquisition& bounded,
                                                 const AcquisitionFunction& acquisition,
                                                 const FeasibilityModel* feasible, Maximizer maximize,
                                                 uint64_t ask_index, HillsCarry* hills, Suggestion* suggestion,
                                                 const base::StopToken& stop) const;

  // Of random settings at which a record is possible by the bounds the one with the largest mean.
  absl::StatusOr<MaximizeCandidate> BestAllowed(const std::vector<ModelState>& states, const OutputBounds& bounds,
                                                double record, const Observations& data, uint64_t ask_index,
                                                const base::StopToken& stop) const;

  const study::Encoding* encoding_;
  const SettingTable* table_;
  const SurrogateOptions* models_;
  study::BoOptions options_;
  study::Goal goal_;
  uint64_t seed_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_MODEL_TURN_H_
