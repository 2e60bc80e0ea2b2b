#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_

#include <optional>

#include "absl/status/statusor.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"

// The harmless rule: one ask in `explore_every` takes a point that no model chooses, so that a quarter (say) of all
// trials is random search's own. docs/design/bo.md.
namespace luthier::search {

// Returns the suggestion where it is exploration's turn.
absl::StatusOr<std::optional<Suggestion>> ExplorationTurn(const BoStudy& study, const Ask& ask);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_
