#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_

#include <optional>

#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"
#include "lib/search/designer.h"

// Local steps, in turns with proposals of the model: trust-region steps from the best settings
// (local_search.h), or quasi-Newton steps (quasi_newton.h). docs/design/trust_region.md.
namespace luthier::search {

// A local step, and the state of the designer once it is made.
struct LocalMove {
  Suggestion suggestion;
  // Predicted score at the end of the step. The step starts at the best result of its climb, which need not be the
  // incumbent.
  double predicted_end = 0.0;
  BoState state;  // The state once the step is made.
};

// Returns a step when it is a local step's turn and a climb is left. Steps with a low probability of success are
// rejected; the trust region then shrinks as after a failed step.
absl::StatusOr<std::optional<LocalMove>> LocalTurn(const BoStudy& study, const Ask& ask);

// Returns true if the predicted improvement of `move`, in output units, exceeds the expected improvement of the model's
// `candidate`. If `away`, the candidate is in another basin than the incumbent (basins.h) and the two cannot be
// compared; the result is then true if the step's improvement is not negligible, or if the model has had several turns
// since the last step.
bool PrefersStep(const BoStudy& study, const Ask& ask, const LocalMove& move, const BoModel& model,
                 const MaximizeCandidate& candidate, bool away);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_
