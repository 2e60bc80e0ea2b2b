#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"

// Settings that no model chooses: the initial design, and what replaces a setting that was tried already.
namespace luthier::search {

// Returns true if the initial design is not over yet: too few asks, or too few results.
bool InDesign(const BoStudy& study, const Ask& ask);
// Returns this ask's point of the initial design, or a replacement where it was tried. Errors as Replacement.
absl::StatusOr<Suggestion> InitialPoint(const BoStudy& study, const Ask& ask, const std::string& origin);

// Returns a random setting that was not tried. `feasible`: null, or half of the tries are for one that is likely to
// succeed. OUT_OF_RANGE SPACE_EXHAUSTED where none is found, unless the objective is noisy: then a random setting, of
// origin "repeat".
absl::StatusOr<Suggestion> Replacement(const BoStudy& study, const Ask& ask, const std::string& origin,
                                       const FeasibilityModel* feasible = nullptr);

// Returns the only setting of a space without free parameters: OUT_OF_RANGE SPACE_EXHAUSTED once it was tried, unless
// the objective is noisy.
absl::StatusOr<Suggestion> OnlySetting(const BoStudy& study, const study::History& history);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_
