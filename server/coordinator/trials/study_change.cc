#include "server/coordinator/trials/study_change.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "lib/study/spec_change.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/index.h"
#include "server/coordinator/state/load.h"
#include "server/coordinator/trials/study_end.h"
#include "server/storage/rules.h"

namespace luthier::coordinator {
namespace {

// Applies the trials that the batch has changed and added. Trials are numbered without a gap.
void TakeFromBatch(const Context& c, const StudyState& s, std::vector<storage::TrialSketch>* sketches) {
  for (auto it = c.batch.dirty_trials.lower_bound({s.record.key, 0});
       it != c.batch.dirty_trials.end() && it->first == s.record.key; ++it) {
    const auto place = static_cast<size_t>(it->second - 1);
    const storage::TrialRecord& record = *s.trials[place].record;
    if (place >= sketches->size()) sketches->resize(place + 1);
    (*sketches)[place] = storage::SketchOf(record, s.spec->metric.name);
    (*sketches)[place].record = record;
  }
}

}  // namespace

namespace {

// Replaces the spec. `event` is the one that says so.
void Replace(Context& c, StudyState& s, study::StudySpec next, storage::Event& event) {
  const study::StudySpec& before = s.record.spec;
  event.detail = study::DescribeChange(before, next);
  storage::FormerSpec former;
  former.until_seq = event.seq;
  former.max_trials = before.budget.max_trials;
  if (study::SameButMaxTrials(before, next)) {
    former.back = study::WayBack(before, next);
  } else {
    former.spec = before;
  }
  c.batch.former_specs.emplace_back(s.record.key, std::move(former));
  s.record.spec = std::move(next);
  s.spec = std::make_shared<const study::StudySpec>(search::Effective(s.record.spec));
  s.gradient = search::GradientUseOf(*s.spec);
  DropReady(c, s);
}

}  // namespace

void ChangeSpec(Context& c, StudyState& s, study::StudySpec next, const std::string& actor) {
  storage::Event& event = AddEvent(c, s, storage::EventType::kStudyUpdated);
  event.actor = actor;
  Replace(c, s, std::move(next), event);
}

void GrowSpace(Context& c, StudyState& s, study::SearchSpace space, TrialSlot& slot) {
  storage::Event& event = AddEvent(c, s, storage::EventType::kParametersDeclared, slot.record.get());
  event.actor = slot.record->trial.attempts.back().worker;
  study::StudySpec next = s.record.spec;
  next.space = std::move(space);
  Replace(c, s, std::move(next), event);
}

absl::Status AddRoom(Context& c, StudyState& s, int64_t trials, const std::string& actor) {
  study::StudySpec next = s.record.spec;
  next.budget.max_trials += trials;
  if (next.budget.max_trials > study::kMaxTrials) {
    return LimitExceeded("max_trials", study::kMaxTrials,
                         absl::StrCat("a study has at most ", study::kMaxTrials, " trials, and ", trials,
                                      " more would raise max_trials above that"));
  }
  s.record.added_trials += trials;
  ChangeSpec(c, s, std::move(next), actor);
  return absl::OkStatus();
}

absl::Status CheckMayGoOn(const StudyState& s) {
  if (!study::IsFinished(s.record.state) || s.record.state == study::StudyState::kCompleted) return absl::OkStatus();
  return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
                         absl::StrCat("study ", base::Quote(s.record.id), " is ", study::StudyStateName(s.record.state),
                                      "; that can't be undone (`luthier study clone` makes another like it)"));
}

void GoOnOrEnd(Context& c, StudyState& s, const std::string& why, const std::string& actor) {
  if (s.record.state != study::StudyState::kCompleted) {
    if (!study::IsFinished(s.record.state)) EndWhenDue(c, s);
    WatchTime(c, s);
    return;
  }
  const bool room = static_cast<int64_t>(s.trials.size()) < s.spec->budget.max_trials;
  if (!ReasonToEnd(c, s).empty() || (!room && !AnyOpenBesidesPaused(s))) return;
  s.record.state = study::StudyState::kActive;
  s.record.state_reason.clear();
  storage::Event& event = AddEvent(c, s, storage::EventType::kStudyResumed);
  event.actor = actor;
  event.detail = why;
  s.record.resume_seq = event.seq;
  s.failures_in_row = 0;
  WatchTime(c, s);
  DropReady(c, s);
  const absl::Status stopper = LoadStopper(SourceOf(c), c.batch.at_begin.seq, s);
  if (!stopper.ok()) base::LogError("stopping_rule_unreadable", {{"error", std::string(stopper.message())}});
}

void Remove(Context& c, StudyState& s, TrialSlot& slot) {
  slot.record->removed_seq = c.state.counters.seq;
  MarkDirty(c, s, *slot.record);
  DropReady(c, s);
}

absl::StatusOr<std::vector<storage::TrialSketch>> ReadSketches(Context& c, const StudyState& s) {
  std::vector<study::TrialState> whole;
  if (study::WarmStarts(*s.spec)) whole.push_back(study::TrialState::kComplete);
  std::vector<storage::TrialSketch> sketches;
  constexpr int kPage = 1000;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> page,
                             c.storage->SketchTrials(s.record, whole, after, kPage));
    for (storage::TrialSketch& trial : page) {
      after = trial.number;
      sketches.push_back(std::move(trial));
    }
    if (page.size() < kPage) break;
  }
  TakeFromBatch(c, s, &sketches);
  return sketches;
}

void RecountFinished(Context& c, StudyState& s, std::vector<storage::TrialSketch> before) {
  TakeFromBatch(c, s, &before);
  before.erase(std::remove_if(before.begin(), before.end(),
                              [](const storage::TrialSketch& trial) { return !study::IsFinal(trial.state); }),
               before.end());
  CountAllFinished(s, std::move(before));
}

}  // namespace luthier::coordinator
