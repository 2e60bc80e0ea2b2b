#include "server/coordinator/studies/study.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "lib/study/metrics.h"
#include "lib/study/project.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {

using study::TrialState;

Study::Study(Context* context, storage::StudyRecord record)
    : c_(context),
      record_(std::move(record)),
      spec_(std::make_shared<const study::StudySpec>(search::Effective(record_.spec))),
      gradient_(search::GradientUseOf(*spec_)),
      pool_(study::PoolKey(study::ProjectOf(record_.id), spec_->pool)) {}

Study Study::New(Context* context, storage::StudyRecord record) {
  Study made(context, std::move(record));
  made.stopper_ = context->options.stoppers(*made.spec_);
  return made;
}

Study Study::Outline(Context* context, storage::StudyRecord record) {
  return Study(context, std::move(record));
}

void Study::Join() {
  CountTrials(1);
  SetTimer(std::exchange(timer_, absl::InfiniteDuration()));
  Wake();
}

void Study::Leave() {
  CountTrials(-1);
  Recount();
  PlaceAt(std::nullopt, /*fresh=*/false);
  ClearTimer();
  SetComputing(absl::InfiniteDuration());
}

absl::StatusOr<TrialSlot*> Study::FindTrial(int64_t number) {
  if (number < 1 || number > size()) {
    return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                           absl::StrCat("trial ", number, " of study ", base::Quote(record_.id),
                                        " does not exist; it has ", size(), " trials"));
  }
  TrialSlot& found = slot(number);
  if (!found.record) {
    LUTHIER_ASSIGN_OR_RETURN(storage::TrialRecord record, c_->storage->GetTrial(record_.key, number));
    found.record = std::make_unique<storage::TrialRecord>(std::move(record));
    c_->batch.pinned_trials.emplace(record_.key, number);
  }
  return &found;
}

void Study::DropRow(int64_t number) {
  TrialSlot& dropped = slot(number);
  if (!study::IsFinal(dropped.state)) return;
  dropped.record.reset();
  dropped.curve.reset();
}

void Study::Wake() {
  coordinator::Wake(c_->state, record_.key);
}

void Study::EndLease(const std::string& token, study::Directive directive) {
  c_->batch.ending_leases.emplace_back(token, directive);
}

storage::Event& Study::AddEvent(storage::EventType type, const storage::TrialRecord* record) {
  storage::Event& event = coordinator::AddEvent(*c_, record_.key, record_.id, type);
  if (record != nullptr) {
    event.trial = record->trial.number;
    event.attempt = record->trial.attempts.empty() ? 0 : record->trial.attempts.back().number;
  }
  record_.update_seq = event.seq;
  record_.update_time = c_->batch.wall;
  return event;
}

void Study::MarkDirty(storage::TrialRecord& record) {
  record.trial.update_seq = c_->state.counters.seq;
  c_->batch.touched.try_emplace(record_.key, record_.id);
  c_->batch.dirty_trials.emplace(record_.key, record.trial.number);
}

void Study::Tell(HistoryUpdate::Kind kind, int64_t number, const std::function<void(HistoryUpdate&)>& fill) {
  HistoryUpdate update;
  update.study = record_.key;
  update.seq = c_->state.counters.seq;
  update.kind = kind;
  update.trial.number = number;
  if (fill) fill(update);
  c_->batch.updates.push_back(std::move(update));
}

void Study::DropReady() {
  Wake();
  c_->state.wanting.insert(record_.key);  // Asks may wait for the suggestions that replace them.
  ready_.clear();
  ++generation_;
  SetComputing(absl::InfiniteDuration());
  blocked_ = false;
  exhausted_ = false;
  answered_.clear();
  // The designer's history holds suggestions that were dropped.
  c_->outbox.invalidated.push_back(record_.key);
}

// Counts that a trial went from one state to another.
void Study::CountMove(TrialState from, TrialState to) {
  for (auto* counts : {&counts_, &c_->state.totals}) {
    --(*counts)[static_cast<size_t>(from)];
    ++(*counts)[static_cast<size_t>(to)];
  }
}

void Study::Move(TrialSlot& slot, study::TrialEvent event) {
  const std::optional<TrialState> next = study::Next(slot.state, event);
  LUTHIER_CHECK(next.has_value());
  CountMove(slot.state, *next);
  Wake();
  slot.state = *next;
  slot.record->trial.state = *next;
  const int64_t number = slot.record->trial.number;
  ClearExpired(number);
  if (running_.erase(number) > 0) AddHeld(slot.record->trial.attempts.back().worker, -1);
  retries_.erase(number);
  enqueued_.erase(number);
  paused_.erase(number);
  if (*next == TrialState::kPaused) paused_.insert(number);
  if (*next == TrialState::kRunning) running_.insert(number);
  if (*next == TrialState::kPending) retries_.insert(number);
}

// Adds the trial to the front, and returns true if that changed. A damaged row changes nothing.
bool Study::JoinsFront(const study::Trial* row) {
  if (row == nullptr || !row->final_measurement) return false;
  const std::optional<std::vector<double>> values = study::ValuesOf(*spec_, *row->final_measurement);
  return values && front_.Add(row->number, study::ScoresOf(*spec_, *values));
}

void Study::CountFinished(const storage::TrialSketch& trial, const study::Trial* row) {
  if (trial.removed) {
    if (trial.state == TrialState::kFailed) ++removed_failed_;
    return;
  }
  if (trial.state == TrialState::kCancelled) return;
  if (trial.state == TrialState::kFailed) {
    if (trial.finish_seq > record_.resume_seq) ++failures_in_row_;
  } else {
    failures_in_row_ = 0;
  }
  if (trial.state == TrialState::kComplete && !trial.value) return;  // It is not feasible.
  ++finished_since_best_;
  if (!trial.value) return;
  const double score = study::Score(spec_->metric.goal, *trial.value);
  if (study::ObjectiveCount(*spec_) == 1 ? !best_score_ || score > *best_score_ : JoinsFront(row)) {
    best_score_ = score;
    best_trial_ = trial.number;
    finished_since_best_ = 0;
  }
}

void Study::CountAllFinished(std::vector<storage::TrialSketch> finished) {
  failures_in_row_ = 0;
  best_score_.reset();
  best_trial_ = 0;
  front_ = study::Front();
  removed_failed_ = 0;
  finished_since_best_ = 0;
  models_.clear();
  std::sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.finish_seq < b.finish_seq; });
  for (const storage::TrialSketch& trial : finished) {
    CountFinished(trial, trial.record ? &trial.record->trial : nullptr);
    if (trial.record) CountModel(trial.record->trial);
  }
}

void Study::CountModel(const study::Trial& trial) {
  if (trial.state != TrialState::kComplete || study::IsRemoved(trial) || !study::WarmStarts(*spec_)) return;
  models_.emplace_back(trial.number, trial.parameters);
}

void Study::AddHeld(const std::string& worker, int by) {
  AddUse(c_->state, study::ProjectOf(record_.id), &ProjectUse::running, by);
  const auto place = c_->state.held.try_emplace(worker, 0).first;
  place->second += by;
  LUTHIER_CHECK(place->second >= 0);
  if (place->second == 0) c_->state.held.erase(place);
}

bool Study::MarkExpired(int64_t number) {
  if (!expired_.insert(number).second) return false;
  c_->state.expired.insert(record_.key);
  Wake();
  AddHeld(slot(number).record->trial.attempts.back().worker, -1);
  return true;
}

bool Study::ClearExpired(int64_t number) {
  if (expired_.erase(number) == 0) return false;
  if (expired_.empty()) c_->state.expired.erase(record_.key);
  Wake();
  AddHeld(slot(number).record->trial.attempts.back().worker, 1);
  return true;
}

void Study::CountTrials(int by) {
  AddUse(c_->state, study::ProjectOf(record_.id), &ProjectUse::studies, by);
  AddUse(c_->state, study::ProjectOf(record_.id), &ProjectUse::bytes, by * record_.bytes);
  for (size_t i = 0; i < c_->state.totals.size(); ++i) c_->state.totals[i] += by * counts_[i];
  for (const int64_t number : running_) {
    if (expired_.count(number) > 0) continue;
    AddHeld(slot(number).record->trial.attempts.back().worker, by);
  }
}

void Study::SetTimer(absl::Duration when) {
  if (when >= timer_) return;
  ClearTimer();
  timer_ = when;
  c_->state.timers.emplace(when, record_.key);
}

void Study::ClearTimer() {
  c_->state.timers.erase({timer_, record_.key});
  timer_ = absl::InfiniteDuration();
}

void Study::PlaceAt(std::optional<Rank> rank, bool fresh) {
  if (!rank && !rank_) return;
  Pool& pool = c_->state.pools[pool_];
  if (rank_ && pool.Take(*rank_)) fresh = true;
  rank_ = rank;
  if (rank) pool.Put(*rank, fresh);
}

void Study::SetComputing(absl::Duration since) {
  if (Computing()) c_->state.computing.erase({computing_since_, record_.key});
  computing_since_ = since;
  if (Computing()) c_->state.computing.emplace(since, record_.key);
}

void Study::Count(uint64_t number, int64_t wanted) {
  coordinator::Uncount(c_->state, number);
  Waiter& waiter = *c_->state.waiters.Find(number);
  waiter.counted_for = record_.key;
  waiter.counted = wanted;
  counted_.insert(number);
  demand_ += wanted;
  c_->state.wanting.insert(record_.key);
}

void Study::CountDeparted(int64_t wanted) {
  demand_ += wanted;
  departed_ += wanted;
  c_->state.departed.insert(record_.key);
  c_->state.wanting.insert(record_.key);
}

void Study::Recount() {
  for (const uint64_t number : counted_) {
    c_->state.waiters.Find(number)->counted_for = 0;
    c_->state.unsettled.insert(number);
  }
  counted_.clear();
  demand_ = departed_;
}

void Study::AddBytes(size_t bytes) {
  record_.bytes += static_cast<int64_t>(bytes);
  AddUse(c_->state, study::ProjectOf(record_.id), &ProjectUse::bytes, static_cast<int64_t>(bytes));
}

// True if asks for any study may get trials of this one: those of an external objective go only to asks that name it.
bool Study::ForAnyWorker() const {
  return !std::holds_alternative<study::ExternalObjective>(spec_->objective);
}

void Study::Place(bool fresh) {
  std::optional<Rank> rank;
  if (ForAnyWorker() && MayServe()) rank = RankNow();
  PlaceAt(rank, fresh);
}

Rank Study::RankNow() const {
  return {static_cast<double>(running_.size()) / spec_->weight, last_turn_, record_.key};
}

void Study::KeepLease(int64_t number) {
  ClearExpired(number);
  SetTimer(c_->batch.now + spec_->lease.ttl);
}

void Study::Uncount(uint64_t number, int64_t wanted) {
  demand_ -= wanted;
  counted_.erase(number);
  Wake();
}

void Study::ForgetDeparted() {
  departed_ = 0;
  Wake();
}

}  // namespace luthier::coordinator
