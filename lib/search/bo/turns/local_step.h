#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_

#include <optional>

#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/model_turn.h"
#include "lib/search/designer.h"

// Local steps: trust-region steps from the most promising settings (local_search.h), in turns with proposals of the
// model. docs/design/trust_region.md.
namespace luthier::search {

// A step that could be made.
struct LocalMove {
  Suggestion suggestion;
  // The score that it promises: a gain on the best result of its climb, which need not be the incumbent.
  double predicted_end = 0.0;
  BoState state;  // The state once the step is made.
};

// Returns a step when it is its turn and there is a climb to go on with. A step that is likely to fail is not made: its
// climb goes on as though it had failed.
absl::StatusOr<std::optional<LocalMove>> LocalTurn(const BoStudy& study, const Ask& ask);

// Returns true if `move` promises more than the model's `candidate`. `away`: the candidate is of another basin than the
// incumbent's (basins.h), so that its promise cannot be compared.
bool PrefersStep(const BoStudy& study, const Ask& ask, const LocalMove& move, const BoModel& model,
                 const MaximizeCandidate& candidate, bool away);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_LOCAL_STEP_H_
