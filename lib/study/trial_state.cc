#include "lib/study/trial_state.h"

#include <array>

namespace luthier::study {
namespace {

struct Transition {
  TrialState from;
  TrialEvent event;
  TrialState to;
};

// A grant of a RUNNING trial happens when its lease has expired: the newest grant wins.
constexpr Transition kTransitions[] = {
    {TrialState::kPending, TrialEvent::kGrant, TrialState::kRunning},
    {TrialState::kRunning, TrialEvent::kGrant, TrialState::kRunning},
    {TrialState::kRunning, TrialEvent::kRetry, TrialState::kPending},
    {TrialState::kRunning, TrialEvent::kComplete, TrialState::kComplete},
    {TrialState::kRunning, TrialEvent::kPrune, TrialState::kPruned},
    {TrialState::kRunning, TrialEvent::kFail, TrialState::kFailed},
    {TrialState::kPending, TrialEvent::kCancel, TrialState::kCancelled},
    {TrialState::kRunning, TrialEvent::kCancel, TrialState::kCancelled},
    {TrialState::kRunning, TrialEvent::kPause, TrialState::kPaused},
    {TrialState::kPaused, TrialEvent::kPromote, TrialState::kPending},
    {TrialState::kPaused, TrialEvent::kPrune, TrialState::kPruned},
    {TrialState::kPaused, TrialEvent::kCancel, TrialState::kCancelled},
};

constexpr std::array<absl::string_view, kTrialStateCount> kTrialStates = {"PENDING", "RUNNING",   "COMPLETE", "PRUNED",
                                                                          "FAILED",  "CANCELLED", "PAUSED"};
constexpr std::array<absl::string_view, 5> kStudyStates = {"ACTIVE", "PAUSED", "STOPPED", "CANCELLED", "COMPLETED"};

template <typename E, size_t N>
std::optional<E> Parse(const std::array<absl::string_view, N>& names, absl::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<TrialState> Next(TrialState from, TrialEvent event) {
  for (const Transition& t : kTransitions) {
    if (t.from == from && t.event == event) return t.to;
  }
  return std::nullopt;
}

absl::string_view TrialStateName(TrialState state) {
  return kTrialStates[static_cast<size_t>(state)];
}
std::optional<TrialState> ParseTrialState(absl::string_view name) {
  return Parse<TrialState>(kTrialStates, name);
}
absl::string_view FailureKindName(FailureKind kind) {
  return kind == FailureKind::kConfig ? "CONFIG" : "INFRA";
}
absl::string_view StudyStateName(StudyState state) {
  return kStudyStates[static_cast<size_t>(state)];
}
std::optional<StudyState> ParseStudyState(absl::string_view name) {
  return Parse<StudyState>(kStudyStates, name);
}

}  // namespace luthier::study
