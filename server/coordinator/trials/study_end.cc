#include "server/coordinator/trials/study_end.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/state/index.h"
#include "server/coordinator/trials/alike_failures.h"
#include "server/coordinator/trials/ending.h"
#include "server/coordinator/trials/text.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;
using study::TrialState;

EventType EndOf(study::StudyState state) {
  if (state == study::StudyState::kStopped) return EventType::kStudyStopped;
  return state == study::StudyState::kCancelled ? EventType::kStudyCancelled : EventType::kStudyCompleted;
}

// Returns the trials that end with their study, in order of number.
std::vector<int64_t> TrialsToCancel(const Context& c, const StudyState& s, bool cancel_running) {
  std::vector<int64_t> open(s.retries.begin(), s.retries.end());
  open.insert(open.end(), s.enqueued.begin(), s.enqueued.end());
  // A trial whose holder vanished will not be granted again.
  if (!cancel_running)
    std::copy_if(s.expired.begin(), s.expired.end(), std::back_inserter(open), [&](int64_t number) {
      return c.leases->Expired(s.trials[number - 1].record->grants.back().token, c.batch.now);
    });
  else
    open.insert(open.end(), s.running.begin(), s.running.end());
  std::sort(open.begin(), open.end());
  return open;
}

}  // namespace

std::string StudyEnded(const StudyState& s) {
  return absl::StrCat("the study ended (", s.record.state_reason, ")");
}

bool TimeIsUp(const Context& c, const StudyState& s) {
  const std::optional<absl::Duration>& max_wall = s.spec->budget.max_wall;
  return max_wall && c.batch.uptime >= s.record.create_uptime + *max_wall;
}

void WatchTime(Context& c, StudyState& s) {
  const std::optional<absl::Duration>& max_wall = s.spec->budget.max_wall;
  if (!max_wall || study::IsFinished(s.record.state)) return;
  // The uptime is stored once a minute, so that a coordinator that is killed loses no more of the study's time.
  c.batch.timed = true;
  const absl::Duration left = s.record.create_uptime + *max_wall - c.batch.uptime;
  SetTimer(c.state, s, c.batch.now + std::min(left, absl::Minutes(1)));
}

std::string ReasonToEnd(const Context& c, const StudyState& s) {
  const study::Budget& budget = s.spec->budget;
  if (budget.target_value && s.best_score && *s.best_score >= study::Score(s.spec->metric.goal, *budget.target_value)) {
    return absl::StrCat("target_value reached by trial ", s.best_trial);
  }
  const int64_t failed = s.counts[static_cast<size_t>(TrialState::kFailed)] - s.removed_failed;
  if (budget.max_failed_trials > 0 && failed >= budget.max_failed_trials) return "max_failed_trials reached";
  if (budget.patience > 0 && s.best_score && s.finished_since_best >= budget.patience) {
    return absl::StrCat("no better value in ", s.finished_since_best, " trials");
  }
  if (TimeIsUp(c, s)) return absl::StrCat("max_wall of ", absl::FormatDuration(*budget.max_wall), " reached");
  return "";
}

void EndWhenDue(Context& c, StudyState& s) {
  const std::string reason = ReasonToEnd(c, s);
  if (!reason.empty()) {
    FinishStudy(c, s, study::StudyState::kCompleted, reason, "", /*cancel_running=*/true);
  } else {
    CompleteWhenDone(c, s);
  }
}

void FinishStudy(Context& c, StudyState& s, study::StudyState state, const std::string& reason,
                 const std::string& actor, bool cancel_running) {
  s.record.state = state;
  s.record.state_reason = reason;
  Wake(c.state, s.record.key);
  storage::Event& event = AddEvent(c, s, EndOf(state));
  event.actor = actor;
  event.detail = reason;
  s.ready.clear();
  ++s.generation;
  SetComputing(c.state, s, absl::InfiniteDuration());
  c.outbox.invalidated.push_back(s.record.key);  // Nobody waits for suggestions under way.
  for (const int64_t number : TrialsToCancel(c, s, cancel_running)) {
    CancelTrial(c, s, s.trials[number - 1], absl::StrCat("study ", reason));
  }
  for (const int64_t number : std::set<int64_t>(s.paused)) {
    PrunePaused(c, s, s.trials[number - 1], StudyEnded(s));
  }
}

void CompleteWhenDone(Context& c, StudyState& s) {
  if (study::IsFinished(s.record.state)) return;
  if (AnyOpenBesidesPaused(s)) return;
  // A PAUSED trial may yet be continued: the designer says when it has nothing more to suggest.
  if (!s.paused.empty() && !s.exhausted) return;
  if (static_cast<int64_t>(s.trials.size()) >= s.spec->budget.max_trials) {
    FinishStudy(c, s, study::StudyState::kCompleted, "max_trials reached", "", /*cancel_running=*/false);
  } else if (s.exhausted && s.ready.empty()) {
    FinishStudy(c, s, study::StudyState::kCompleted, "every setting has been tried", "", /*cancel_running=*/false);
  }
}

void ApplyStoppingRules(Context& c, StudyState& s, const study::Trial& finished) {
  if (study::IsFinished(s.record.state)) return;
  EndWhenDue(c, s);
  if (s.record.state != study::StudyState::kActive) return;
  std::string why;
  if (s.failures_in_row >= c.options.failures_to_pause) {
    why = absl::StrCat(s.failures_in_row,
                       " trials failed in a row; the last: ", finished.failure ? finished.failure->reason : "");
  } else if (const std::optional<study::Failure> common = CommonFailure(c, s)) {
    why = absl::StrCat(s.failures_in_row, " trials failed alike and none succeeded: ",
                       FailureText(common->reason, LastLine(common->message)));
  }
  if (why.empty()) return;
  s.record.state = study::StudyState::kPaused;
  Wake(c.state, s.record.key);
  s.record.state_reason = absl::StrCat(why, "; mend the cause, then resume");
  AddEvent(c, s, EventType::kStudyPaused).detail = s.record.state_reason;
}

}  // namespace luthier::coordinator
