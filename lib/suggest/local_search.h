#ifndef LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_
#define LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/encoding.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/trust_region_step.h"

// Climbs by trust-region steps (trust_region_step.h), one at a time, from the most promising settings: the record
// first, and once its climb has ended, from the best settings that belong to no ended climb (multi-level single
// linkage, Rinnooy Kan & Timmer 1987). docs/algorithms/trust_region.md.
namespace luthier::suggest {

// What climbing hands from one suggestion to the next.
struct LocalSearchCarry {
  int64_t site = 0;             // Number of the trial that the last step's climb began at; 0: none yet.
  std::vector<int64_t> solved;  // Sites whose climbs have ended.
  TrustRegionState state;       // Of the last step.
};
// Reads back to the same bits; anything else is an empty carry.
std::string FormatCarry(const LocalSearchCarry& carry);
LocalSearchCarry ParseLocalSearchCarry(absl::string_view text);

struct LocalStep {
  study::Parameters parameters;  // Not tried before.
  double predicted_gain = 0.0;   // Score units.
  LocalSearchCarry next;
};

// The next step, in the space's active continuous parameters; the others keep the values of the climb's best setting.
// climbs: for each trial that was a step, the number of its site. `carry` learns which climbs have ended, step or not.
// Absent when there is no climb left, or nothing to climb on: no continuous parameter, fewer than two results.
// For objectives without noise. O(n^2) distances at most, and one TaylorModel fit.
std::optional<LocalStep> SuggestLocalStep(const Observations& data, const std::map<int64_t, int64_t>& climbs,
                                          const study::Encoding& encoding, LocalSearchCarry* carry);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_LOCAL_SEARCH_H_
