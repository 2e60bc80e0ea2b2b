// Changes of a study that goes on.
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
#include "lib/study/metrics.h"
#include "lib/study/spec_change.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/study.h"
#include "server/storage/rules.h"

namespace luthier::coordinator {

void Study::NoteCreated(const std::string& actor) {
  storage::Event& event = AddEvent(storage::EventType::kStudyCreated);
  event.actor = actor;
  event.detail = study::AlgorithmName(record_.spec.algorithm);
  record_.create_seq = event.seq;
  WatchTime();
}

absl::StatusOr<int64_t> Study::CountSpecChanges() const {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::FormerSpec> former, c_->storage->ListFormerSpecs(record_.key));
  int64_t changes = std::count_if(former.begin(), former.end(), [](const auto& f) { return f.spec.has_value(); });
  for (const auto& [key, fresh] : c_->batch.former_specs) changes += key == record_.key && fresh.spec ? 1 : 0;
  return changes;
}

// Applies the trials that the batch has changed and added. Trials are numbered without a gap.
void Study::TakeFromBatch(std::vector<storage::TrialSketch>* sketches) const {
  for (auto it = c_->batch.dirty_trials.lower_bound({record_.key, 0});
       it != c_->batch.dirty_trials.end() && it->first == record_.key; ++it) {
    const auto place = static_cast<size_t>(it->second - 1);
    const storage::TrialRecord& record = *trials_[place].record;
    if (place >= sketches->size()) sketches->resize(place + 1);
    (*sketches)[place] = storage::SketchOf(record, *spec_);
    (*sketches)[place].record = record;
  }
}

// Replaces the spec. `event` is the one that says so.
void Study::Replace(study::StudySpec next, storage::Event& event) {
  const study::StudySpec& before = record_.spec;
  event.detail = study::DescribeChange(before, next);
  storage::FormerSpec former;
  former.until_seq = event.seq;
  former.max_trials = before.budget.max_trials;
  if (study::SameButMaxTrials(before, next)) {
    former.back = study::WayBack(before, next);
  } else {
    former.spec = before;
  }
  c_->batch.former_specs.emplace_back(record_.key, std::move(former));
  record_.spec = std::move(next);
  spec_ = std::make_shared<const study::StudySpec>(search::Effective(record_.spec));
  gradient_ = search::GradientUseOf(*spec_);
  DropReady();
}

void Study::ChangeSpec(study::StudySpec next, const std::string& actor) {
  storage::Event& event = AddEvent(storage::EventType::kStudyUpdated);
  event.actor = actor;
  Replace(std::move(next), event);
}

void Study::GrowSpace(study::SearchSpace space, TrialSlot& slot) {
  storage::Event& event = AddEvent(storage::EventType::kParametersDeclared, slot.record.get());
  event.actor = slot.record->trial.attempts.back().worker;
  study::StudySpec next = record_.spec;
  next.space = std::move(space);
  Replace(std::move(next), event);
}

absl::Status Study::AddRoom(int64_t trials, const std::string& actor) {
  study::StudySpec next = record_.spec;
  next.budget.max_trials += trials;
  if (next.budget.max_trials > study::kMaxTrials) {
    return LimitExceeded("max_trials", study::kMaxTrials,
                         absl::StrCat("a study has at most ", study::kMaxTrials, " trials, and ", trials,
                                      " more would raise max_trials above that"));
  }
  record_.added_trials += trials;
  ChangeSpec(std::move(next), actor);
  return absl::OkStatus();
}

absl::Status Study::CheckMayGoOn() const {
  if (!study::IsFinished(record_.state) || record_.state == study::StudyState::kCompleted) return absl::OkStatus();
  return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
                         absl::StrCat("study ", base::Quote(record_.id), " is ", study::StudyStateName(record_.state),
                                      "; that can't be undone (`luthier study clone` makes another like it)"));
}

void Study::GoOnOrEnd(const std::string& why, const std::string& actor) {
  if (record_.state != study::StudyState::kCompleted) {
    if (!study::IsFinished(record_.state)) EndWhenDue();
    WatchTime();
    return;
  }
  const bool room = size() < spec_->budget.max_trials;
  if (!ReasonToEnd().empty() || (!room && !AnyOpenBesidesPaused())) return;
  Resume(actor, why);
  WatchTime();
  DropReady();
  const absl::Status stopper = LoadStopper(c_->batch.at_begin.seq);
  if (!stopper.ok()) base::LogError("stopping_rule_unreadable", {{"error", std::string(stopper.message())}});
}

void Study::Remove(TrialSlot& slot) {
  slot.record->removed_seq = c_->state.counters.seq;
  MarkDirty(*slot.record);
  DropReady();
}

absl::StatusOr<std::vector<storage::TrialSketch>> Study::ReadSketches() const {
  std::vector<study::TrialState> whole;
  if (study::WarmStarts(*spec_) || study::ObjectiveCount(*spec_) > 1) whole.push_back(study::TrialState::kComplete);
  std::vector<storage::TrialSketch> sketches;
  constexpr int kPage = 1000;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> page,
                             c_->storage->SketchTrials(record_, whole, after, kPage));
    for (storage::TrialSketch& trial : page) {
      after = trial.number;
      sketches.push_back(std::move(trial));
    }
    if (page.size() < kPage) break;
  }
  TakeFromBatch(&sketches);
  return sketches;
}

void Study::RecountFinished(std::vector<storage::TrialSketch> before) {
  TakeFromBatch(&before);
  before.erase(std::remove_if(before.begin(), before.end(),
                              [](const storage::TrialSketch& trial) { return !study::IsFinal(trial.state); }),
               before.end());
  CountAllFinished(std::move(before));
}

}  // namespace luthier::coordinator
