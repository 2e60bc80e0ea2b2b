// Rules by which a study ends or pauses by itself, and what happens to its trials.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/study/metrics.h"
#include "server/coordinator/messages/text.h"
#include "server/coordinator/studies/alike_failures.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/study.h"

namespace luthier::coordinator {

using storage::EventType;
using study::TrialState;

namespace {

// Largest number of failures that are compared. A study with more, which was resumed again and again, is left to the
// rule for many failures in a row.
constexpr size_t kMostFailures = 50;

EventType StudyEndOf(study::StudyState state) {
  if (state == study::StudyState::kStopped) return EventType::kStudyStopped;
  return state == study::StudyState::kCancelled ? EventType::kStudyCancelled : EventType::kStudyCompleted;
}

}  // namespace

// Returns the trials that end with their study, in order of number.
std::vector<int64_t> Study::TrialsToCancel(bool cancel_running) const {
  std::vector<int64_t> open(retries_.begin(), retries_.end());
  open.insert(open.end(), enqueued_.begin(), enqueued_.end());
  // A trial whose holder vanished will not be granted again.
  if (!cancel_running)
    std::copy_if(expired_.begin(), expired_.end(), std::back_inserter(open), [&](int64_t number) {
      return c_->leases->Expired(slot(number).record->grants.back().token, c_->batch.now);
    });
  else
    open.insert(open.end(), running_.begin(), running_.end());
  std::sort(open.begin(), open.end());
  return open;
}

std::string Study::EndedText() const {
  return absl::StrCat("the study ended (", record_.state_reason, ")");
}

bool Study::TimeIsUp() const {
  const std::optional<absl::Duration>& max_wall = spec_->budget.max_wall;
  return max_wall && c_->batch.uptime >= record_.create_uptime + *max_wall;
}

void Study::WatchTime() {
  const std::optional<absl::Duration>& max_wall = spec_->budget.max_wall;
  if (!max_wall || study::IsFinished(record_.state)) return;
  // The uptime is stored once a minute, so that a coordinator that is killed loses no more of the study's time.
  c_->batch.timed = true;
  const absl::Duration left = record_.create_uptime + *max_wall - c_->batch.uptime;
  SetTimer(c_->batch.now + std::min(left, absl::Minutes(1)));
}

std::string Study::ReasonToEnd() {
  const study::Budget& budget = spec_->budget;
  const bool reached =
      budget.target_value && best_score_ && *best_score_ >= study::Score(spec_->metric.goal, *budget.target_value);
  const bool waited = budget.patience > 0 && best_score_ && finished_since_best_ >= budget.patience;
  const bool by_value = (reached || waited) && !EndsByExpectation();
  if (reached && by_value) {
    return absl::StrCat("target_value reached by trial ", best_trial_);
  }
  const int64_t failed = counts_[static_cast<size_t>(TrialState::kFailed)] - removed_failed_;
  if (budget.max_failed_trials > 0 && failed >= budget.max_failed_trials) return "max_failed_trials reached";
  if (waited && by_value) {
    return absl::StrCat(study::ObjectiveCount(*spec_) == 1 ? "no better value in " : "no trial came onto the front in ",
                        finished_since_best_, " trials");
  }
  if (TimeIsUp()) return absl::StrCat("max_wall of ", absl::FormatDuration(*budget.max_wall), " reached");
  return "";
}

void Study::EndWhenDue() {
  const std::string reason = ReasonToEnd();
  if (!reason.empty()) {
    Finish(study::StudyState::kCompleted, reason, "", /*cancel_running=*/true);
  } else {
    CompleteWhenDone();
  }
}

void Study::Finish(study::StudyState state, const std::string& reason, const std::string& actor, bool cancel_running) {
  record_.state = state;
  record_.state_reason = reason;
  Wake();
  storage::Event& event = AddEvent(StudyEndOf(state));
  event.actor = actor;
  event.detail = reason;
  ready_.clear();
  ++generation_;
  SetComputing(absl::InfiniteDuration());
  c_->outbox.invalidated.push_back(record_.key);  // Nobody waits for suggestions under way.
  for (const int64_t number : TrialsToCancel(cancel_running)) {
    Cancel(slot(number), absl::StrCat("study ", reason));
  }
  for (const int64_t number : std::set<int64_t>(paused_)) {
    PrunePaused(slot(number), EndedText());
  }
}

void Study::CompleteWhenDone() {
  if (study::IsFinished(record_.state)) return;
  if (AnyOpenBesidesPaused()) return;
  // A PAUSED trial may yet be continued: the designer says when it has nothing more to suggest.
  if (!paused_.empty() && !exhausted_) return;
  if (size() >= spec_->budget.max_trials) {
    Finish(study::StudyState::kCompleted, "max_trials reached", "", /*cancel_running=*/false);
  } else if (exhausted_ && ready_.empty()) {
    const std::string reason =
        answered_.empty() ? "every setting has been tried" : absl::StrCat("answered: ", answered_);
    Finish(study::StudyState::kCompleted, reason, "", /*cancel_running=*/false);
  }
}

void Study::ApplyStoppingRules(const study::Trial& finished) {
  if (study::IsFinished(record_.state)) return;
  EndWhenDue();
  if (record_.state != study::StudyState::kActive) return;
  std::string why;
  if (failures_in_row_ >= c_->options.failures_to_pause) {
    why = absl::StrCat(failures_in_row_,
                       " trials failed in a row; the last: ", finished.failure ? finished.failure->reason : "");
  } else if (const std::optional<study::Failure> common = CommonFailure()) {
    why = absl::StrCat(failures_in_row_, " trials failed alike and none succeeded: ",
                       FailureText(common->reason, LastLine(common->message)));
  }
  if (why.empty()) return;
  absl::StrAppend(&why, "; mend the cause, then resume");
  Pause(why, "", why);
}

void Study::Pause(const std::string& reason, const std::string& actor, const std::string& detail) {
  record_.state = study::StudyState::kPaused;
  record_.state_reason = reason;
  Wake();
  storage::Event& event = AddEvent(EventType::kStudyPaused);
  event.actor = actor;
  event.detail = detail;
}

void Study::Resume(const std::string& actor, const std::string& detail) {
  record_.state = study::StudyState::kActive;
  record_.state_reason.clear();
  Wake();
  storage::Event& event = AddEvent(EventType::kStudyResumed);
  event.actor = actor;
  event.detail = detail;
  ForgetFailures();
}

void Study::ForgetFailures() {
  record_.resume_seq = c_->state.counters.seq;
  failures_in_row_ = 0;
}

bool Study::AnySucceeded() const {
  const auto count = [&](TrialState state) { return counts_[static_cast<size_t>(state)]; };
  return count(TrialState::kComplete) + count(TrialState::kPruned) + count(TrialState::kPaused) > 0;
}

// Returns true if the trial ended before it did any work that could depend on its setting.
bool Study::FailedAtOnce(TrialSlot& slot) {
  const study::Trial& trial = slot.record->trial;
  if (!trial.failure || trial.attempts.empty()) return false;
  const storage::GrantRecord& last = slot.record->grants.back();
  const study::Attempt& labels = trial.attempts.back();
  const bool known = last.end_uptime > absl::ZeroDuration();  // Not in rows of older programs.
  const absl::Duration took = known ? last.end_uptime - last.uptime : labels.end - labels.start;
  if (took > c_->options.alike_within) return false;
  return LoadCurve(slot).ok() && slot.curve->digests.empty();
}

std::optional<study::Failure> Study::CommonFailure() {
  if (failures_in_row_ != c_->options.alike_to_pause) return std::nullopt;
  if (!std::holds_alternative<study::CommandObjective>(spec_->objective) || AnySucceeded()) return std::nullopt;
  std::vector<int64_t> failed;
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].state == TrialState::kFailed) failed.push_back(static_cast<int64_t>(i) + 1);
  }
  if (failed.size() > kMostFailures) return std::nullopt;
  std::vector<const storage::TrialRecord*> seen;
  for (const int64_t number : failed) {
    const absl::StatusOr<TrialSlot*> slot = FindTrial(number);
    if (!slot.ok()) return std::nullopt;  // The row is damaged, which calls that need it report.
    const storage::TrialRecord& record = *(*slot)->record;
    if (record.finish_seq <= record_.resume_seq || study::IsRemoved(record.trial)) continue;
    if (!FailedAtOnce(**slot)) return std::nullopt;
    for (const storage::TrialRecord* other : seen) {
      if (other->trial.parameters == record.trial.parameters) return std::nullopt;
      if (!AreAlike(*other->trial.failure, *record.trial.failure)) return std::nullopt;
    }
    seen.push_back(&record);
  }
  if (static_cast<int>(seen.size()) != failures_in_row_) return std::nullopt;
  const auto newest = std::max_element(seen.begin(), seen.end(),
                                       [](const auto* a, const auto* b) { return a->finish_seq < b->finish_seq; });
  return (*newest)->trial.failure;
}

}  // namespace luthier::coordinator
