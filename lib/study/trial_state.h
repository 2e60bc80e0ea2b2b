#ifndef LUTHIER_LIB_STUDY_TRIAL_STATE_H_
#define LUTHIER_LIB_STUDY_TRIAL_STATE_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace luthier::study {

// PENDING, RUNNING and PAUSED are open; the other four are final: the trial never changes again.
enum class TrialState {
  kPending,
  kRunning,
  kComplete,
  kPruned,
  kFailed,
  kCancelled,
  kPaused,  // Trained up to its target; the designer may have it continued (Suggestion::resume).
};
inline constexpr size_t kTrialStateCount = 7;

// Events in the life of a trial. Numbers of attempts and releases decide between kRetry and kGiveUp.
enum class TrialEvent {
  kGrant,     // A worker got it (also: the holder of an expired lease took it back, or a new holder replaces it).
  kRetry,     // Released, failed for no fault of the setting, or its holder vanished, with attempts left.
  kComplete,  // Finite final value.
  kPause,     // Its target was reached: no worker holds it until it is promoted.
  kPromote,   // A designer wants it continued; it waits for its grant.
  kPrune,     // Stopped early, or PAUSED when the study ended; its last value stands.
  kFail,      // The setting is bad, the value is not finite, or attempts are used up.
  kCancel,    // A user cancelled the trial or its study.
};

// The one transition table. Absent: the event is not allowed in that state.
std::optional<TrialState> Next(TrialState from, TrialEvent event);

inline bool IsFinal(TrialState state) {
  return state != TrialState::kPending && state != TrialState::kRunning && state != TrialState::kPaused;
}

// "PENDING", "RUNNING", "COMPLETE", "PRUNED", "FAILED", "CANCELLED", "PAUSED".
absl::string_view TrialStateName(TrialState state);
std::optional<TrialState> ParseTrialState(absl::string_view name);

// CONFIG: this setting is bad, designers learn from it. INFRA: says nothing about the setting.
enum class FailureKind { kConfig, kInfra };
absl::string_view FailureKindName(FailureKind kind);

// ACTIVE; PAUSED: nothing new is granted, running trials go on; STOPPED: no more asks, running trials may finish;
// CANCELLED: running trials are told to stop; COMPLETED: budget, target or stopping rule reached.
enum class StudyState { kActive, kPaused, kStopped, kCancelled, kCompleted };
absl::string_view StudyStateName(StudyState state);
std::optional<StudyState> ParseStudyState(absl::string_view name);
// No new trial will ever be granted.
inline bool IsFinished(StudyState s) {
  return s != StudyState::kActive && s != StudyState::kPaused;
}

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_TRIAL_STATE_H_
