#ifndef LUTHIER_LIB_STUDY_TRIAL_H_
#define LUTHIER_LIB_STUDY_TRIAL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lib/study/measurement.h"
#include "lib/study/parameters.h"
#include "lib/study/trial_state.h"

namespace luthier::study {

// Stable machine-readable reasons of failures and prunings. Objectives may send others.
namespace failure {
inline constexpr char kNonFinite[] = "NON_FINITE";
inline constexpr char kDiverged[] = "DIVERGED";
inline constexpr char kSingular[] = "SINGULAR";
inline constexpr char kExitCode[] = "EXIT_CODE";
inline constexpr char kSignal[] = "SIGNAL";
inline constexpr char kTimeout[] = "TIMEOUT";
inline constexpr char kMemoryLimit[] = "MEMORY_LIMIT";
inline constexpr char kBadOutput[] = "BAD_OUTPUT";
inline constexpr char kNoResult[] = "NO_RESULT";
inline constexpr char kBadObjective[] = "BAD_OBJECTIVE";
inline constexpr char kAttemptsExhausted[] = "ATTEMPTS_EXHAUSTED";
inline constexpr char kInjected[] = "INJECTED";
}  // namespace failure

struct Failure {
  FailureKind kind = FailureKind::kConfig;
  std::string reason;   // [A-Z][A-Z0-9_]{0,63}
  std::string message;  // For people: e.g. the tail of standard error. At most 4 KiB.
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Records why a setting was tried, what is asked of it, and all that is needed to compute it again.
struct Provenance {
  std::string designer;  // Registry name, or "user" for an enqueued trial.
  int32_t algorithm_version = 0;
  // The ask index within the study and the `seq` of the newest event the designer saw. With the study's spec and seed
  // they determine the suggestion: designer(history up to prefix_seq plus open asks of smaller index, ask_index).
  std::optional<uint64_t> ask_index;
  uint64_t prefix_seq = 0;
  std::string origin;                     // Branch of the designer: init, acq, explore, stuck_random, grid, …
  std::map<std::string, double> details;  // E.g. predicted_mean, predicted_sd (user units), acquisition.
  std::string designer_state;             // The state that the designer's next ask starts from.
  // Along which the designer would like a directional derivative; as Gradient::direction. Empty: none was asked for.
  std::vector<double> direction;
  // Trials whose gradients were first left out for this one, as their reporter's contradict the values; ascending.
  std::vector<int64_t> set_aside;
  // Accuracy that the inner problem and the gradient need (search::Suggestion::tolerance); absent: all
  // digits.
  std::optional<double> tolerance;
  int64_t resource = 0;  // Train until this step, then pause (search::Suggestion::resource); 0: no target.
  // Training may start from the model of this trial (warm_start.h), named with the first grant; 0: from zero.
  int64_t warm_start = 0;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

enum class AttemptOutcome { kRunning, kComplete, kPruned, kFailed, kReleased, kExpired, kCancelled, kPaused };
absl::string_view AttemptOutcomeName(AttemptOutcome outcome);

// One grant of a trial to a worker.
struct Attempt {
  int32_t number = 0;  // From 1 within the trial.
  std::string worker;
  absl::Time start;
  absl::Time end = absl::InfiniteFuture();  // InfiniteFuture while it runs.
  AttemptOutcome outcome = AttemptOutcome::kRunning;
  std::optional<Failure> failure;
  std::string output_tail;  // Last lines of a command's output; at most 4 KiB.
  // In studies with a resource: it went on from this step (0: it began afresh), and reported up to that one.
  int64_t start_step = 0;
  int64_t last_step = 0;
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

struct Trial {
  int64_t number = 0;  // From 1 within its study.
  TrialState state = TrialState::kPending;
  Parameters parameters;
  Provenance provenance;
  // Provenance of each promotion of the trial after it was PAUSED: each has an ask_index and a resource above the one
  // before. Oldest first.
  std::vector<Provenance> promotions;
  std::optional<Measurement> final_measurement;  // Set in COMPLETE, and in PRUNED when a value was reported.
  std::optional<Failure> failure;                // Set in FAILED.
  std::vector<Attempt> attempts;                 // Newest last.
  // Grants that were given back since the trial was last PAUSED; they do not count as attempts.
  int32_t releases = 0;
  std::string checkpoint;                         // Newest reference any attempt reported; opaque to the service.
  int64_t checkpoint_step = 0;                    // The step that it was reported at.
  std::map<std::string, std::string> attributes;  // The user's own notes.
  absl::Time create_time;
  absl::Time end_time = absl::InfiniteFuture();
  uint64_t update_seq = 0;  // The newest event that changed this trial.
  int64_t retry_of = 0;     // Number of the trial, with the same parameters, that this one replaced; 0: none.
  int64_t retried_by = 0;   // Number of the trial that replaced this one; 0: none.
  // In open spaces: the parameters that its objective named while it ran, which are part of `parameters`, and the
  // parameters of its setting that the objective did not ask for, which are no longer part of them.
  std::set<std::string> declared;
  Parameters unused;
  bool stop_requested = false;  // Somebody asked for its end: it is to end with what its holder has.
  bool deleted = false;         // A user deleted it: its row stays, and nobody is shown it.

  // The step until which it is to be trained now; 0: no target.
  int64_t target() const { return promotions.empty() ? provenance.resource : promotions.back().resource; }
  friend bool operator==(const Trial&, const Trial&) = default;
};

// Returns true for a trial whose result no longer counts: it was deleted, or another took its place.
inline bool IsRemoved(const Trial& trial) {
  return trial.deleted || trial.retried_by != 0;
}

// Returns the setting as it was suggested or enqueued, whatever the trial then declared and left unused.
Parameters SuggestedParameters(const Trial& trial);

// Returns the number of grants that ended in failure, silence or a result since the trial was last PAUSED, the newest
// included. LeaseOptions::max_attempts limits it. Training towards each rung has its own attempts.
int AttemptsUsed(const Trial& trial);

// Units of the study's resource that all attempts together were trained for, those that were lost included. At most
// 9 * kMaxResource, so that a study's trials have a sum.
int64_t ResourceSpent(const Trial& trial);

// The worker whose report made the trial final; "" when none did: a user or the service ended it, or it is open.
std::string ReporterOf(const Trial& trial);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_TRIAL_H_
