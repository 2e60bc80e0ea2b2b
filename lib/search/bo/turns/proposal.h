#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_PROPOSAL_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_PROPOSAL_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"
#include "lib/search/bo/turns/labels.h"

// The setting that a model proposes: the maximum of the acquisition function that the options name.
namespace luthier::search {

struct Proposal {
  std::optional<MaximizeCandidate> candidate;  // The setting; std::nullopt if none has a finite value.
  // "ar_empty" for a candidate that stands in for those that bounds reject, "spread" for one in place of a repetition.
  std::string origin = "acq";
  std::map<std::string, double> details;  // For Suggestion::details.
  BasinsState basins;                     // The state once the candidate is suggested.
};

// Maximises the acquisition under `model`. A small finite space is enumerated; otherwise a search
// maximises it, inside the ask's trust box if there is one, and may go on to other basins. If
// Lipschitz bounds reject every candidate, the candidate is the best in the model's mean of 256
// random settings that are untried and at which the bounds allow an improvement, or a LipoPoint. From the second rules
// of the search on, a candidate that nothing is expected of, next to a setting that was tried, gives way to a
// FarthestPoint: what is left to learn is elsewhere.
absl::StatusOr<Proposal> Propose(const BoStudy& study, const Ask& ask, const BoModel& model);

// Does the same among the settings with a label that is due: the value to beat is the best one with the label, so that
// the search finds out how good the label can be. Without bounds on slopes. No candidate was tried.
absl::StatusOr<Proposal> ProposeLabel(const BoStudy& study, const Ask& ask, const BoModel& model, const DueLabel& due);

// Adds details to `suggestion`, such as the predicted mean and deviation at `candidate`, averaged
// over the model and its alternatives (surrogate.h).
absl::Status Describe(const BoStudy& study, const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                      Suggestion* suggestion);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_PROPOSAL_H_
