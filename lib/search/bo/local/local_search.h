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

// Climbs by trust-region steps (trust_region_step.h), one at a time, from the most promising settings: the incumbent
// first, and once its climb has ended, from the best settings that belong to no ended climb (multi-level single
// linkage, Rinnooy Kan & Timmer 1987). docs/design/trust_region.md.
namespace luthier::search {

// One climb: the number of the trial it began at (0: none) and the state of its last step.
struct Climb {
  int64_t site = 0;
  TrustRegionState state;
};

// The designer state of climbing.
struct LocalSearchState {
  Climb incumbent;              // The climb that the incumbent belongs to.
  Climb other;                  // The one besides it.
  bool other_last = false;      // True if `other` made the last step.
  std::vector<int64_t> solved;  // Sites whose climbs have ended.

  const Climb& last() const { return other_last ? other : incumbent; }
};
struct LocalStep {
  study::Parameters parameters;  // Not tried before.
  double predicted_gain = 0.0;   // On its climb's best score, score units.
  LocalSearchState next;
};

// Returns the next step, in the active continuous parameters; the others keep the values of the climb's best setting.
//   the incumbent's climb   comes first; once its steps gain no more than a millionth of the results' spread, every
//                           second step is another climb's, and once it has ended all are
//   other climbs            begin at the best settings that belong to no ended climb
//   `elsewhere`             given while the designer searches other basins than the incumbent's (basins.h): the best
//                           trial in none of the known basins, or 0. Other climbs then begin at that trial alone, once
//                           it is better than 2(d+1) results, and the incumbent's climb takes at most every second turn
//                           as soon as it gains less than a ten-thousandth of the spread
// `climbs`: the site of each trial that was a step. `lengthscales`: of the compact coordinates; distances between
// climbs are measured in them, as a long valley is one basin. `last`: the state of the last ask, which learns which
// climbs have ended, step or not. Returns std::nullopt if no climb is left, or if there is nothing to climb on: no
// continuous parameter, or fewer than two results. For objectives without noise. O(n^2) distances at most, and a few
// TaylorModel fits. CANCELLED: `stop` was raised.
absl::StatusOr<std::optional<LocalStep>> SuggestLocalStep(const Observations& data,
                                                          const std::map<int64_t, int64_t>& climbs,
                                                          const study::Encoding& encoding,
                                                          const Eigen::VectorXd& lengthscales, LocalSearchState* last,
                                                          std::optional<int64_t> elsewhere,
                                                          const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_LOCAL_SEARCH_H_
