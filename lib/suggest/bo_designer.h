#ifndef LUTHIER_LIB_SUGGEST_BO_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_BO_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/math/sobol.h"
#include "lib/study/encoding.h"
#include "lib/suggest/bo_carry.h"
#include "lib/suggest/designer.h"
#include "lib/suggest/feasibility.h"
#include "lib/suggest/gradients.h"
#include "lib/suggest/maximize.h"
#include "lib/suggest/model_turn.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/surrogate.h"

namespace luthier::suggest {

// Bayesian optimisation with a Gaussian process: presets bo, hbo (harmless) and lbo (Lipschitz) of one optimizer.
// docs/design/bo.md has the equations and the reasons.
//
//   initial design  the user's defaults, then scrambled Sobol points, until `initial_points` asks and 2 results; where
//                   there is exploration, but FARTHEST, its first points instead of Sobol's
//   exploration     one ask in explore_every, so that a quarter (say) of all trials is random search's own
//   derivatives     reported ones, with option gradients; those of a reporter who contradicts the values are left out
//                   (gradients.h, gradient_check.h)
//   local step      every second of the other asks, up to three in a row while each gives a record, while there is a
//                   climb to go on with (local_search.h); with gradients two of three, up to six in a row. Each record
//                   of a step since the model's last one earns one more, up to five (six) in a row. With labels or
//                   switches the model's proposal is made instead where it promises more than the step
//   data            COMPLETE values; PRUNED values, no better than the median
//   failures        a model of where settings fail weights the acquisition (feasibility.h); or, with that switched off,
//                   FAILED settings count as the worst value
//   model           kernel, output warp and MAP hyperparameters by posterior density, or hyperparameters drawn from it
//                   (surrogate.h)
//   open trials     believed to give what the model predicts, or averaged over draws of it (fantasies.h)
//   proposal        an acquisition, inside Lipschitz bounds where asked for (bounded_acquisition.h), maximised by Sobol
//   screening
//                   and multi-start L-BFGS, or exhaustively in small spaces
//   trust box       with many parameters the proposal stays in a box around the best setting (trust_box.h)
//   stuck           a proposal within 1e-12 of a tried setting becomes a random point
//
// Origins: init, explore, trust_region, acq, stuck_random, all_random (no proposal could be computed), ar_empty (the
// bounds rejected everything: a point that they allow), gp_failed, repeat (a noisy objective whose settings were all
// tried). Details: docs/reference/bo.md.
class BoDesigner final : public Designer {
 public:
  BoDesigner(const study::StudySpec& spec, const study::BoOptions& options);

  // Besides OUT_OF_RANGE SPACE_EXHAUSTED (every setting of a finite space was tried and the objective is not noisy) no
  // error: each stage that fails falls back on a point inside the space.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // Exploration's turn by the harmless rule, and the index of its point in random search's stream. design: whether the
  // initial design is not over yet.
  absl::StatusOr<std::optional<int64_t>> ExplorationTurn(const study::History& history, const Observations& data,
                                                         bool design, const base::StopToken& stop) const;
  absl::StatusOr<Suggestion> Explore(const Observations& data, int64_t index, const base::StopToken& stop) const;
  // A trust-region step that could be made.
  struct LocalMove {
    Suggestion suggestion;
    // The score that it promises: a gain on the best result of its climb, which need not be the record.
    double predicted_end = 0.0;
    BoCarry carry;  // The state once the step is made.
  };
  // An ask, with what its turns look at and the state that they change.
  struct Ask {
    const study::History& history;
    const uint64_t index;
    BoCarry* const carry;
    const base::StopToken& stop;
    bool failures = false;   // Failures are modelled, and there are some.
    Observations all = {};   // Every result.
    Observations data = {};  // The results that models are fitted to.
    std::optional<FeasibilityModel> feasible = std::nullopt;
    std::optional<TrustBoxRun> box = std::nullopt;
    const FeasibilityModel* Feasible() const { return feasible.has_value() ? &*feasible : nullptr; }
  };

  // Fills in `all`.
  absl::Status CollectResults(Ask* ask) const;
  // Fills in `data`, with slopes.
  absl::Status TakeData(Ask* ask) const;
  // Fills in `feasible` where failures are modelled.
  absl::Status FitFeasibility(Ask* ask) const;
  // Returns the suggestion where it is the turn of the initial design or of an exploration.
  absl::StatusOr<std::optional<Suggestion>> PlannedTurn(const Ask& ask) const;
  // Returns a trust-region step when it is its turn and there is one.
  absl::StatusOr<std::optional<LocalMove>> LocalTurn(const Ask& ask) const;
  // Fills in `box` where there are many parameters. Returns the suggestion where a new box begins.
  absl::StatusOr<std::optional<Suggestion>> BoxTurn(Ask* ask) const;
  // Returns what the model proposes, or makes `move`.
  absl::StatusOr<Suggestion> Propose(const Ask& ask, std::optional<LocalMove> move);
  // Turns the model's candidate into the suggestion, or replaces it where it was tried already.
  absl::Status Settle(const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                      Suggestion* suggestion) const;
  // True if `move` is made where the model proposes `candidate`: always, but in spaces of many landscapes
  // (weighs_steps_), where it has to promise more.
  bool PrefersStep(const Ask& ask, const LocalMove& move, const BoModel& model, const MaximizeCandidate& candidate,
                   bool away) const;
  // Returns a setting that no model chose, and that was not tried.
  absl::StatusOr<Suggestion> Replacement(const Ask& ask, const std::string& origin) const;
  // Returns this ask's point of the initial design, or a replacement where it was tried.
  absl::StatusOr<Suggestion> InitialOr(const Ask& ask, const std::string& origin) const;
  // Takes up the reported derivatives of the rows of `data`, but those of reporters who are set aside, whom it checks
  // when it is time to.
  absl::Status TakeSlopes(const study::History& history, Observations* data, BoCarry* carry, uint64_t ask_index,
                          const base::StopToken& stop) const;
  // What a suggestion says of derivatives: where one would be welcome, and whose were left out.
  absl::Status AddGradients(const study::History& history, const BoCarry& carry, uint64_t ask_index,
                            Suggestion* suggestion, const base::StopToken& stop) const;
  // The suggestion itself, without that.
  absl::StatusOr<Suggestion> Choose(const study::History& history, uint64_t ask_index, BoCarry* carry,
                                    const base::StopToken& stop);
  // The suggestion when nothing can be chosen: the space has no free parameter.
  absl::StatusOr<Suggestion> OnlySetting(const study::History& history) const;
  // The suggestion for a setting that no model chose, and for the replacement of one that was tried already.
  Suggestion Initial(uint64_t ask_index) const;
  absl::StatusOr<Suggestion> Untried(const Observations& data, uint64_t ask_index, const std::string& origin,
                                     const FeasibilityModel* feasible, const base::StopToken& stop) const;

  study::Encoding encoding_;
  study::Goal goal_;
  uint64_t seed_;
  study::BoOptions options_;
  int initial_points_;
  bool weighs_steps_;    // There are labels or switches, and the acquisition says how much it expects.
  bool explores_first_;  // The first explorations are the initial design, but for the first trial.
  math::SobolSequence design_;
  SurrogateOptions surrogate_;
  GradientUnits units_;
  std::optional<SettingTable> table_;  // Of a small finite space.
  ModelTurn model_turn_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_BO_DESIGNER_H_
