#ifndef LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_
#define LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/study/encoding.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/trust_region_step.h"

// Climbs by trust-region steps (trust_region_step.h), one at a time, from the most promising settings: the record
// first, and once its climb has ended, from the best settings that belong to no ended climb (multi-level single
// linkage, Rinnooy Kan & Timmer 1987). docs/design/trust_region.md.
namespace luthier::suggest {

// One climb: the number of the trial it began at (0: none) and the state of its last step.
struct Climb {
  int64_t site = 0;
  TrustRegionState state;
};

// What climbing hands from one suggestion to the next.
struct LocalSearchCarry {
  Climb record;                 // The climb that the record belongs to.
  Climb other;                  // The one besides it.
  bool other_last = false;      // Which of the two made the last step.
  std::vector<int64_t> solved;  // Sites whose climbs have ended.

  const Climb& last() const { return other_last ? other : record; }
};
// Reads back to the same bits; anything else is an empty carry.
std::string FormatCarry(const LocalSearchCarry& carry);
LocalSearchCarry ParseLocalSearchCarry(absl::string_view text);

struct LocalStep {
  study::Parameters parameters;  // Not tried before.
  double predicted_gain = 0.0;   // On its climb's best score, score units.
  LocalSearchCarry next;
};

// The next step, in the space's active continuous parameters; the others keep the values of the climb's best setting.
// The record's climb comes first; once its steps promise no more than a millionth of the results' spread, every second
// step is another climb's, and when it has ended all are.
// climbs: for each trial that was a step, the number of its site. lengthscales: of the compact coordinates, in which
// distances between climbs are measured (a long valley is one basin). `carry` learns which climbs have ended, step or
// not. Absent when there is no climb left, or nothing to climb on: no continuous parameter, fewer than two results.
// elsewhere: given when the record's hill is known to the last digit that matters and the designer looks for others
// (hills.h): the best trial on none of the known hills (0: none). Other climbs then begin at that trial alone, once it
// is better than 2(d+1) results; and the record's climb takes every second turn at most as soon as it promises less
// than a ten-thousandth of the spread. For objectives without noise. O(n^2) distances at most, and a few TaylorModel
// fits. CANCELLED: `stop` was raised.
absl::StatusOr<std::optional<LocalStep>> SuggestLocalStep(const Observations& data,
                                                          const std::map<int64_t, int64_t>& climbs,
                                                          const study::Encoding& encoding,
                                                          const Eigen::VectorXd& lengthscales, LocalSearchCarry* carry,
                                                          std::optional<int64_t> elsewhere,
                                                          const base::StopToken& stop);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_
