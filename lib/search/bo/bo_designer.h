#ifndef LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/local_step.h"
#include "lib/search/bo/turns/model_turn.h"
#include "lib/search/designer.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Bayesian optimisation with a Gaussian process: presets bo, hbo (harmless) and lbo (Lipschitz) of one optimizer.
// docs/design/bo.md has the equations and the reasons.
//
//   initial design  the user's defaults, then scrambled Sobol points, until `initial_points` asks and 2 results; where
//                   there is exploration, but FARTHEST, its first points instead of Sobol's
//   exploration     one ask in explore_every, so that a quarter (say) of all trials is random search's own
//   derivatives     reported ones, with option gradients; those of a reporter who contradicts the values are left out
//                   (gradients.h, gradient_check.h)
//   local step      every second of the other asks, up to three in a row while each improves the incumbent, while there
//                   is a climb to go on with (local_search.h); with gradients two of three, up to six in a row. Each
//                   improvement by a step since the model's last one earns one more, up to five (six) in a row. With
//                   labels or switches the model's proposal is made instead where it is expected to gain more
//   quasi-Newton    in the place of local steps, with more than 20 continuous parameters and gradients
//                   (quasi_newton.h)
//   data            COMPLETE values; PRUNED values, no better than the median
//   failures        a model of where settings fail weights the acquisition (feasibility.h); or, with that switched off,
//                   FAILED settings count as the worst value
//   model           kernel, output warp and MAP hyperparameters by posterior density, or hyperparameters drawn from it
//                   (surrogate.h)
//   pending trials  believed to give what the model predicts, or averaged over draws of it (fantasies.h)
//   proposal        an acquisition, inside Lipschitz bounds where asked for (bounded_acquisition.h), maximised by Sobol
//                   screening and multi-start L-BFGS, or exhaustively in small spaces
//   trust box       with many parameters the proposal stays in a box around the best setting (trust_box.h)
//   stuck           a proposal within 1e-12 of a tried setting becomes a random point
//
// Origins: init, explore, trust_region, quasi_newton, acq, stuck_random, all_random (no proposal could be computed),
// ar_empty (the bounds rejected everything: a point that they allow), gp_failed, repeat (a noisy objective whose
// settings were all tried). Details: docs/reference/bo.md.
class BoDesigner final : public Designer {
 public:
  BoDesigner(const study::StudySpec& spec, const study::BoOptions& options) : study_(spec, options), model_(&study_) {}

  // Besides OUT_OF_RANGE SPACE_EXHAUSTED (every setting of a finite space was tried and the objective is not noisy) no
  // error: each stage that fails falls back on a point inside the space.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // The suggestion without what it says of derivatives; changes ask->state.
  absl::StatusOr<Suggestion> Choose(Ask* ask) const;
  // Fills in `box` where there are many parameters. Returns the suggestion where a new box begins.
  absl::StatusOr<std::optional<Suggestion>> BoxTurn(Ask* ask) const;
  // Returns what the model proposes, or makes `move`.
  absl::StatusOr<Suggestion> Propose(const Ask& ask, std::optional<LocalMove> move) const;
  // Turns the model's candidate into the suggestion, or replaces it where it was tried already.
  absl::Status Settle(const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                      Suggestion* suggestion) const;

  const BoStudy study_;
  const ModelTurn model_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_BO_DESIGNER_H_
