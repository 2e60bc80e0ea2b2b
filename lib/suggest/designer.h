#ifndef LUTHIER_LIB_SUGGEST_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_DESIGNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

namespace luthier::suggest {

struct Suggestion {
  // Number of a PAUSED trial to continue rather than to try a new setting: `resource` is above its target then, and
  // parameters, direction and set_aside are empty. The ask stores no new trial.
  std::optional<int64_t> resume;
  // Train until this step of the intermediate reports, in units of StudySpec::resource, then pause: 1 … resource.max.
  // A trial that reaches resource.max is COMPLETE. 0: no target, as long as the objective likes.
  int64_t resource = 0;
  study::Parameters parameters;           // Valid and canonical for the study's space.
  std::string origin;                     // init, acq, explore, stuck_random, grid, …
  std::map<std::string, double> details;  // Finite numbers for `explain`: predicted_mean, predicted_sd, acquisition, ….
  std::string carry;                      // At most 16 KiB; comes back as HistoryTrial::carry.
  // Along which a directional derivative would be welcome: coordinates and meaning of study::Gradient::direction;
  // empty: none is asked for.
  std::vector<double> direction;
  // Trials whose gradients were left out because those of their reporter contradict the values; ascending.
  std::vector<int64_t> set_aside;
};

// A suggestion algorithm for one study. Pure: no clock, no I/O, no global state; randomness only from
// RandomStream(spec.seed, purpose, ask_index). Used by one thread at a time.
class Designer {
 public:
  virtual ~Designer() = default;

  // The setting to try as ask number `ask_index` (from 0). A function of (spec, history, ask_index) alone: caches kept
  // in the object may speed it up, never change a bit of it. `history` holds every ask of smaller index, the unfinished
  // ones as open trials. Never fails on any history the service can produce except:
  //   OUT_OF_RANGE, reason SPACE_EXHAUSTED: every setting has been tried and repeating is pointless; in studies with a
  //     `resource`: no result that is still to come can lead to another suggestion.
  //   UNAVAILABLE, reason AWAITING_RESULTS, in studies with a `resource` only: nothing can be suggested until a trial
  //     pauses or ends, and one is open that is not PAUSED.
  //   CANCELLED: `stop` was raised. The fit it interrupted is given up, caches stay right, and the next ask answers as
  //     if this one had not been made.
  // Looks at `stop` every few milliseconds of work. In studies with a `resource` a full budget does not end the asking:
  // once history.trials() has spec.budget.max_trials entries, only PAUSED trials are continued.
  virtual absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) = 0;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_DESIGNER_H_
