#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"

// Settings that no model chooses: the initial design, and random settings that replace one that was
// tried already.
namespace luthier::search {

// Returns true while the initial design goes on: fewer asks than its length, or fewer than two
// results. A design of length 0 is over as soon as quasi-Newton steps are taken.
bool InDesign(const BoStudy& study, const Ask& ask);
// Returns this ask's point of the initial design: the default setting at ask 0, then a Sobol
// sequence. If that was tried already, returns a Replacement and its errors. With constraints on parameters illegal
// points are skipped.
absl::StatusOr<Suggestion> InitialPoint(const BoStudy& study, const Ask& ask, const std::string& origin);

// Returns a random setting that was not tried. Unless `feasible` is null, the first half of the
// draws accepts only settings that are likely to succeed. If no setting is found, returns
// OUT_OF_RANGE SPACE_EXHAUSTED; for a noisy objective returns a random setting of origin "repeat"
// instead.
absl::StatusOr<Suggestion> Replacement(const BoStudy& study, const Ask& ask, const std::string& origin,
                                       const FeasibilityModel* feasible = nullptr);

// Returns a random setting near the best result: each continuous parameter differs from it by at most a distance that
// is drawn between 1/32 and 1/4 of a side of the unit cube. Returns a Replacement if there is no result or the setting
// was tried already.
absl::StatusOr<Suggestion> NearBest(const BoStudy& study, const Ask& ask, const std::string& origin);

// Returns the only setting of a space without free parameters. Once it was suggested, returns
// OUT_OF_RANGE SPACE_EXHAUSTED, unless the objective is noisy.
absl::StatusOr<Suggestion> OnlySetting(const BoStudy& study, const study::History& history);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_INITIAL_H_
