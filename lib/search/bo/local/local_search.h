#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_LOCAL_SEARCH_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_LOCAL_SEARCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/local/trust_region_step.h"
#include "lib/search/bo/model/observations.h"
#include "lib/study/encoding.h"

// Local search by trust-region steps (trust_region_step.h). Each call suggests one step of one
// climb. The first climb starts at the incumbent. Other climbs start at the best settings that
// belong to no ended climb (multi-level single linkage, Rinnooy Kan & Timmer 1987). For objectives
// without noise. docs/design/trust_region.md.
namespace luthier::search {

// One climb.
struct Climb {
  int64_t site = 0;        // Number of the trial at which it began; 0 if there is no climb.
  TrustRegionState state;  // State of its last step.
};

// The designer state of the local search.
struct LocalSearchState {
  Climb incumbent;              // The climb that the incumbent belongs to.
  Climb other;                  // The other climb in progress.
  bool other_last = false;      // True if `other` made the last step.
  std::vector<int64_t> solved;  // Sites whose climbs have ended.

  const Climb& last() const { return other_last ? other : incumbent; }
};
struct LocalStep {
  study::Parameters parameters;  // A setting that was not tried before.
  double predicted_gain = 0.0;   // Predicted gain on the climb's best score, score units.
  LocalSearchState next;         // The state once the step is made.
};

// Returns the next step. It changes the active continuous parameters; all others keep the values of
// the climb's best setting. Climbs take turns by these rules:
//   - The incumbent's climb comes first. Once its step gains less than a millionth of the spread of
//     the scores, every second step belongs to another climb. Once it has ended, all steps do.
//   - Another climb begins at the best setting that belongs to no ended climb and has no better
//     result within one lengthscale.
//   - `elsewhere` is given while the designer searches other basins than the incumbent's
//     (basins.h). It is the best trial in none of the known basins, or 0. Other climbs then begin
//     at that trial alone, once it is better than 2(d+1) results. The incumbent's climb gives up
//     every second turn, even if no other climb can take it, once its step gains less than a
//     millionth of the spread.
//
// `climbs` has the site of each trial that was a step. `lengthscales` has one entry a compact
// coordinate; distances between climbs are measured in them, because a long valley is one basin.
// `last` is the state of the last ask; climbs that have ended are noted in it, with or without a
// step.
//
// Returns std::nullopt if no climb is left, with fewer than two results, and unless the number of
// continuous coordinates is from 1 to 50. At most O(n^2) distances and a few TaylorModel fits.
// Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::optional<LocalStep>> SuggestLocalStep(const Observations& data,
                                                          const std::map<int64_t, int64_t>& climbs,
                                                          const study::Encoding& encoding,
                                                          const Eigen::VectorXd& lengthscales, LocalSearchState* last,
                                                          std::optional<int64_t> elsewhere,
                                                          const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_LOCAL_SEARCH_H_
