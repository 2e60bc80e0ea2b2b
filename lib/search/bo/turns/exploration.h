#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_

#include <optional>

#include "absl/status/statusor.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"

// The harmless rule: one ask in `explore_every` takes a point that no model chooses. With 4, say, a
// quarter of all trials are random search's own. docs/design/bo.md.
namespace luthier::search {

// Returns a suggestion, and sets kind and index of the state, if it is exploration's turn. Returns
// std::nullopt otherwise. With farthest points, returns the errors of Replacement (initial.h), too.
absl::StatusOr<std::optional<Suggestion>> ExplorationTurn(const BoStudy& study, const Ask& ask);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_H_
