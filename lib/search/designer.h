#ifndef LUTHIER_LIB_SEARCH_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_DESIGNER_H_

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

namespace luthier::search {

struct Suggestion {
  // Number of a PAUSED trial to continue instead of trying a new setting. Then `resource` is above the trial's target,
  // parameters, direction and set_aside are empty, and the ask stores no new trial.
  std::optional<int64_t> resume;
  // Train until this step of the intermediate reports, in units of StudySpec::resource, then pause: 1 … resource.max.
  // A trial that reaches resource.max is COMPLETE. 0: no target; the objective decides when to end.
  int64_t resource = 0;
  study::Parameters parameters;           // Valid and canonical for the study's space.
  std::string origin;                     // init, acq, explore, stuck_random, grid, …
  std::map<std::string, double> details;  // Finite numbers for `explain`: predicted_mean, predicted_sd, acquisition, ….
  std::string designer_state;             // At most 16 KiB; comes back as HistoryTrial::designer_state.
  // Direction in which the designer asks for a directional derivative, in the coordinates of
  // study::Gradient::direction. Empty: none is asked for.
  std::vector<double> direction;
  // Accuracy that an implicit gradient needs of its inner problem and its linear system: the Euclidean distance of the
  // weights from their optimum, and the residual (Pedregosa 2016, algorithm 1). Above 0. Objectives treat it as a
  // request, and report with the gradient the accuracy that they reached (study::ImplicitSolve). Without it, full
  // precision is asked for.
  std::optional<double> tolerance;
  // Trials whose gradients the designer left out because their reporter's gradients contradict the values; ascending.
  std::vector<int64_t> set_aside;
};

// The value that a model expects of a setting, in units of the study's metric.
struct Prediction {
  double mean = 0.0;
  // Standard deviation of the metric's mean at the setting; the noise of a single trial is not included.
  double sd = 0.0;
  // Probability that a trial of the setting does not fail; std::nullopt if failures are not modelled.
  std::optional<double> p_success;
  int models = 1;  // Number of models that are averaged.
};

// Suggestion::details of a study in which noise was found: the number of the trial whose result showed it.
inline constexpr char kNoiseFoundBy[] = "noise_found_by";

// The trial whose setting is expected to be the best, in a study whose results are noisy. Values are in units of the
// study's metric.
struct Recommendation {
  int64_t trial = 0;                // COMPLETE and feasible: the first one of its setting.
  double mean = 0.0, sd = 0.0;      // Expected mean of the metric at the setting, and its standard deviation.
  int64_t results = 0;              // Number of results of the setting.
  double noise_sd = 0.0;            // Standard deviation of the noise of one result near the setting.
  std::optional<int64_t> found_by;  // The trial whose result showed the noise; std::nullopt: noise is stated.
};

// A suggestion algorithm for one study. It uses no clock, no I/O and no global state, and takes randomness from
// RandomStream(spec.seed, purpose, ask_index) alone. One thread uses it at a time.
class Designer {
 public:
  virtual ~Designer() = default;

  // Returns the setting to try as ask number `ask_index` (from 0). The answer is a function of (spec, history,
  // ask_index) alone: caches in the object may speed it up and never change a bit of it. `history` holds every ask of
  // smaller index, the unfinished ones as pending trials. On histories that the service can produce it fails only with:
  //   OUT_OF_RANGE, reason SPACE_EXHAUSTED: every setting has been tried and repeating is pointless; in studies with a
  //     `resource`: no result still to come can lead to another suggestion.
  //   OUT_OF_RANGE, reason ANSWERED: what is left to gain does not matter (Budget::until_answered), or, where results
  //     are noisy, the recommended trial reaches the target or has not changed for as long as the patience says.
  //   UNAVAILABLE, reason AWAITING_RESULTS: nothing can be suggested until a trial pauses or ends, and some trial is
  //     pending and not PAUSED.
  //   CANCELLED: `stop` was raised. The interrupted fit is discarded, caches stay valid, and the next ask answers as if
  //     this one had not been made.
  // Polls `stop` every few milliseconds of work. In studies with a `resource` asks go on after the budget is full: once
  // history.trials() has spec.budget.max_trials entries, only PAUSED trials are continued.
  virtual absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) = 0;

  // Returns what the designer's model expects of each setting, all of them valid for the study's space. Like a
  // suggestion it is a function of (spec, history, settings) alone, and it changes nothing. Errors:
  //   FAILED_PRECONDITION, reason NO_MODEL: the algorithm has no model of the metric; reason TOO_FEW_RESULTS: not yet.
  //   CANCELLED: `stop` was raised.
  virtual absl::StatusOr<std::vector<Prediction>> Predict(const study::History& history,
                                                          const std::vector<study::Parameters>& settings,
                                                          const base::StopToken& stop);

  // Returns the trial that the designer recommends where results are noisy, as is stated or was found; std::nullopt
  // while results repeat exactly as far as is known, so that the best value is the best setting's, while there are too
  // few results, and where the designer recommends nothing. A function of (spec, history) alone, which changes nothing.
  // Returns CANCELLED if `stop` was raised.
  virtual absl::StatusOr<std::optional<Recommendation>> Recommend(const study::History& history,
                                                                  const base::StopToken& stop);
};

// Access to all algorithms for an algorithm that delegates work to others. It is passed as an argument, so that no
// algorithm includes the registry (registry.h), which knows them all. Immutable; any thread.
class NestedAlgorithms {
 public:
  virtual ~NestedAlgorithms() = default;

  // Checks the options of spec.algorithm against its study. Returns the errors of search::Validate.
  virtual absl::Status Validate(const study::StudySpec& spec) const = 0;
  // Returns false if suggestions for the study depend on spec and ask index alone.
  virtual bool UsesHistory(const study::StudySpec& spec) const = 0;
  // Returns a designer for a valid study.
  virtual std::unique_ptr<Designer> Create(const study::StudySpec& spec) const = 0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_DESIGNER_H_
