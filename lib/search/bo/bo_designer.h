#ifndef LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"
#include "lib/search/bo/turns/local_step.h"
#include "lib/search/designer.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Bayesian optimisation with a Gaussian process. The algorithms bo, hbo (harmless) and lbo (Lipschitz) are presets of
// its options. docs/design/bo.md has the equations and the reasons.
//
// Each ask is one turn. The first turn of this list that applies answers it:
//   exploration     One ask in `explore_every`: a point that no model chooses (exploration.h).
//   probe           In studies that find out whether results are noisy, the best setting once more after the initial
//                   design (noise.h). If its results differ, the study goes on as one of noisy results.
//   initial design  Until `initial_points` asks and 2 results: the default setting, then scrambled Sobol points. With
//                   exploration, except of farthest points, the first explorations are the design.
//   local step      Every second of the other asks, while a climb is left (local_search.h); with gradients two of
//                   three. Steps that improve the incumbent are followed by more of them (local_step.cc).
//   quasi-Newton    In place of local steps, with gradients of more than 20 continuous parameters (quasi_newton.h).
//   model           The maximum of an acquisition under a model of the objective (proposal.h). With labels or
//                   switches the model competes with the local step: the larger expected gain is taken.
// In studies of several objectives there are no local steps, and the model's turn is that of front_turn.h. While a
// metric's bounds are in doubt (metric_models.h) there are no local steps either.
//
// The model's turn:
//   data            The values of COMPLETE trials; PRUNED trials count as no better than the median.
//   derivatives     With option `gradients`, the reported ones. Reporters whose gradients disagree with the values are
//                   set aside (gradients.h, gradient_check.h).
//   bounds          Metrics whose bounds are in doubt have models of their own; the probability that a result keeps
//   them
//                   weights the acquisition, and only results that keep them are incumbents (feasible_acquisition.h).
//   failures        A model of the probability of failure weights the acquisition (feasibility.h). With
//                   `feasibility: off`, FAILED settings count as the worst value instead.
//   model           Kernel, output warp and hyperparameters have the largest posterior density, or the hyperparameters
//                   are drawn from the posterior (surrogate.h).
//   pending trials  Take the value that the model predicts, or the acquisition is averaged over drawn outcomes
//                   (fantasies.h).
//   acquisition     May be restricted by Lipschitz bounds (bounded_acquisition.h). It is maximised by Sobol screening
//                   and multi-start L-BFGS; small finite spaces are enumerated (maximize.h).
//   trust box       With many parameters the proposal stays in a box around the best setting (trust_box.h).
//   duplicates      A proposal within 1e-12 of a tried setting is replaced by a random one.
//
// Origins of suggestions: init, probe, explore, trust_region, quasi_newton, acq; restart (a point of a new trust box,
// or with too many scalars for a model a new start); stuck_random (in place of a duplicate); all_random (no proposal
// could be computed); ar_empty (the bounds rejected every candidate; the suggestion is a point that they allow);
// gp_failed (no covariance could be factored); repeat (a noisy objective in a space whose settings were all tried).
// Details: docs/reference/bo.md.
class BoDesigner final : public Designer {
 public:
  BoDesigner(const study::StudySpec& spec, const study::BoOptions& options) : declared_(spec, options) {}

  // Returns OUT_OF_RANGE SPACE_EXHAUSTED if every setting of a finite space was tried and the objective is not noisy,
  // and CANCELLED once `stop` is raised. There is no other error: if a turn fails, a point inside the space is
  // suggested.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;
  // Predicts with the model of the next ask, which assumes that pending trials give what it predicts for them. Spaces
  // of more scalars than a model can be fitted to have no model.
  absl::StatusOr<std::vector<Prediction>> Predict(const study::History& history,
                                                  const std::vector<study::Parameters>& settings,
                                                  const base::StopToken& stop) override;
  absl::StatusOr<std::optional<Recommendation>> Recommend(const study::History& history,
                                                          const base::StopToken& stop) override;

 private:
  // Returns the state that the last ask before `ask_index` left, with noise that the results show since.
  BoState StateBefore(const study::History& history, uint64_t ask_index) const;
  // Returns the study, as one of noisy results if noise was found.
  const BoStudy& StudyFor(const BoState& state);
  // Returns the suggestion of the ask's turn, still without AddGradients, and sets ask->state.
  absl::StatusOr<Suggestion> Choose(const BoStudy& study, Ask* ask) const;
  // Fills in ask->box if there are many parameters. While a new box has few trials, returns a point of its initial
  // design.
  absl::StatusOr<std::optional<Suggestion>> BoxTurn(const BoStudy& study, Ask* ask) const;
  // Returns the model's proposal, or makes `move` if that is expected to gain more or the model has no proposal.
  absl::StatusOr<Suggestion> Propose(const BoStudy& study, const Ask& ask, std::optional<LocalMove> move) const;
  // Fills in `suggestion` with the model's candidate, or with a random setting if the candidate was tried already.
  absl::Status Settle(const BoStudy& study, const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                      Suggestion* suggestion) const;

  const BoStudy declared_;          // The study with the options that it was created with.
  std::unique_ptr<BoStudy> noisy_;  // The same with `noisy`; null until noise is found.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_
