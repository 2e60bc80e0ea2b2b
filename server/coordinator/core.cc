#include "server/coordinator/core.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/suggest/registry.h"
#include "server/coordinator/mutants.h"

namespace luthier::coordinator {

using base::MakeError;
using base::Quote;
using storage::EventType;
using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

bool StoppedUnder(const TrialRecord& record, const std::string& token) {
  if (record.grants.empty() || record.grants.back().token != token) return false;
  const study::AttemptOutcome outcome = record.trial.attempts.back().outcome;
  if (record.trial.state == TrialState::kCancelled) return outcome == study::AttemptOutcome::kCancelled;
  // Pruned, and not by its holder's word.
  return record.trial.state == TrialState::kPruned && outcome == study::AttemptOutcome::kPruned &&
         record.grants.back().digest.empty();
}

Core::Core(storage::Storage* storage, const base::Clock* clock, LeaseTable* leases, Options options)
    : storage_(storage), clock_(clock), leases_(leases), options_(options) {}

Core::~Core() = default;

// --- Reading from storage ---

absl::Status Core::Load() {
  LUTHIER_ASSIGN_OR_RETURN(seq_, storage_->LastSeq());
  LUTHIER_ASSIGN_OR_RETURN(fence_, storage_->LastFence());
  if (Mutated(Mutant::kFenceResetAtStart)) fence_ = 0;
  LUTHIER_ASSIGN_OR_RETURN(last_key_, storage_->LastStudyKey());
  now_ = last_tick_ = clock_->Monotonic();
  wall_ = clock_->Wall();
  constexpr int kPage = 100;
  std::string after;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page, storage_->ListStudies(after, kPage));
    for (const storage::StudyRecord& record : page) LUTHIER_RETURN_IF_ERROR(LoadStudy(record));
    if (page.size() < kPage) break;
    after = page.back().id;
  }
  held_ = CountHeld();
  return absl::OkStatus();
}

absl::Status Core::LoadStudy(const storage::StudyRecord& record) {
  uint64_t generation = 0;
  if (const auto old = studies_.find(record.key); old != studies_.end()) generation = old->second.generation + 1;
  StudyState s;
  s.record = record;
  s.spec = std::make_shared<const study::StudySpec>(record.spec);
  s.gradient = suggest::GradientUseOf(*s.spec);
  s.generation = generation;
  leases_->DropStudy(record.key);
  std::vector<std::pair<uint64_t, study::Trial>> finished;
  constexpr int kPage = 1000;
  int64_t after = 0;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<TrialRecord> page, storage_->ListTrials(record.key, {}, after, kPage));
    for (TrialRecord& trial : page) {
      after = trial.trial.number;
      if (after != static_cast<int64_t>(s.trials.size()) + 1) {
        return absl::DataLossError(
            absl::StrCat("study ", Quote(record.id), ": trial ", s.trials.size() + 1, " is missing"));
      }
      TrialSlot slot;
      slot.state = trial.trial.state;
      ++s.counts[static_cast<size_t>(slot.state)];
      if (trial.trial.provenance.ask_index) ++s.asks_stored;
      s.asks_stored += trial.trial.promotions.size();
      if (study::IsFinal(slot.state)) {
        if (StoppedUnder(trial, trial.grants.empty() ? "" : trial.grants.back().token)) {
          leases_->End(trial.grants.back().token, Directive::kStop);
        }
        finished.emplace_back(trial.finish_seq, std::move(trial.trial));
      } else {
        if (slot.state == TrialState::kRunning) {
          s.running.insert(after);
          const bool last = study::AttemptsUsed(trial.trial) >= s.spec->lease.max_attempts;
          const absl::Duration ttl = s.spec->lease.ttl * (last ? 10 : 1);
          const absl::Duration deadline = Mutated(Mutant::kNoFreshTtl) ? now_ : now_ + ttl;
          leases_->Grant(trial.grants.back().token, {record.key, after, ttl, deadline});
        } else if (slot.state == TrialState::kPaused) {
          s.paused.insert(after);
        } else {
          (trial.trial.attempts.empty() ? s.enqueued : s.retries).insert(after);
          slot.eligible_since = now_;
        }
        slot.record = std::make_unique<TrialRecord>(std::move(trial));
      }
      s.trials.push_back(std::move(slot));
    }
    if (page.size() < kPage) break;
  }
  for (int64_t last = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page,
                             storage_->ListSetAside(record.key, last, kPage));
    for (const storage::SetAside& entry : page) s.set_aside.insert(last = entry.trial);
    if (page.size() < kPage) break;
  }
  if (!study::IsFinished(record.state) || !s.running.empty()) s.stopper = options_.stoppers(record.spec);
  if (s.stopper) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> updates,
                             ReadTimeline(storage_, record.key, record.spec, seq_));
    for (const HistoryUpdate& u : updates) {
      if (u.kind == HistoryUpdate::Kind::kReported) s.stopper->Report(u.trial.number, u.point.step, u.point.value);
      if (u.kind == HistoryUpdate::Kind::kFinished) s.stopper->Finish(u.trial.number, u.trial.state, u.trial.value);
    }
  }
  std::sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [finish_seq, trial] : finished) CountFinished(s, trial, finish_seq);
  by_id_[record.id] = record.key;
  studies_[record.key] = std::move(s);
  return absl::OkStatus();
}

// --- Batches ---

void Core::BeginBatch() {
  const absl::Time wall = clock_->Wall();
  now_ = Mutated(Mutant::kLeasesOnWallClock) ? now_ + (wall - wall_) : clock_->Monotonic();
  wall_ = wall;
  batch_.clear();
  seq_at_begin_ = seq_;
  fence_at_begin_ = fence_;
  key_at_begin_ = last_key_;
  CheckDeadlines();
}

void Core::Apply(Operation operation) {
  std::visit([this](auto& op) { Run(std::move(op)); }, operation);
}

const storage::WriteBatch& Core::Seal() {
  if (std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter& w) { return w.op.deadline <= now_; })) {
    Serve(/*answer_due=*/true);
  }
  if (now_ >= next_forget_) {
    next_forget_ = now_ + absl::Hours(1);
    batch_.push_back(storage::ForgetRequestsBefore{wall_ - options_.request_lifetime});
  }
  for (const StudyKey key : deleted_) batch_.push_back(storage::DeleteStudy{key});
  for (const StudyKey key : touched_) {
    const auto found = studies_.find(key);
    if (found != studies_.end()) batch_.push_back(storage::PutStudy{found->second.record});
  }
  for (const auto& [key, number] : dirty_trials_) {
    const auto found = studies_.find(key);
    if (found != studies_.end()) batch_.push_back(storage::PutTrial{key, *found->second.trials[number - 1].record});
  }
  for (const storage::MeasurementRecord& point : measurements_) {
    if (studies_.count(point.study) > 0) batch_.push_back(storage::PutMeasurement{point});
  }
  for (const auto& [id, request] : batch_requests_) batch_.push_back(storage::PutRequest{request});
  for (const storage::Event& event : events_) batch_.push_back(storage::AppendEvent{event});
  if (fence_ != fence_at_begin_) batch_.push_back(storage::SetFence{fence_});
  return batch_;
}

void Core::EndBatch(const absl::Status& committed) {
  batch_.clear();
  batch_requests_.clear();
  measurements_.clear();
  std::vector<std::function<void(const absl::Status&)>> answers;
  answers.swap(answers_);
  pinned_.insert(dirty_trials_.begin(), dirty_trials_.end());
  if (committed.ok()) {
    for (const auto& [token, directive] : ending_) leases_->End(token, directive);
    std::move(events_.begin(), events_.end(), std::back_inserter(committed_events_));
    std::move(updates_.begin(), updates_.end(), std::back_inserter(committed_updates_));
    for (const StudyKey key : deleted_) invalidated_.push_back(key);
  } else {
    // Nothing of this batch happened: memory goes back to what storage holds.
    seq_ = seq_at_begin_;
    fence_ = fence_at_begin_;
    last_key_ = key_at_begin_;
    std::set<StudyKey> changed = touched_;
    changed.insert(deleted_.begin(), deleted_.end());
    for (const StudyKey key : changed) {
      const auto found = studies_.find(key);
      if (found != studies_.end()) {
        by_id_.erase(found->second.record.id);
        leases_->DropStudy(key);
      }
      invalidated_.push_back(key);
    }
    std::string after;
    constexpr int kPage = 100;
    std::set<StudyKey> present;
    while (true) {
      const absl::StatusOr<std::vector<storage::StudyRecord>> page = storage_->ListStudies(after, kPage);
      LUTHIER_CHECK(page.ok());  // Storage that can't be read after a rolled-back commit: only a restart helps.
      for (const storage::StudyRecord& record : *page) {
        present.insert(record.key);
        if (changed.count(record.key) > 0) LUTHIER_CHECK(LoadStudy(record).ok());
      }
      if (page->size() < kPage) break;
      after = page->back().id;
    }
    for (const StudyKey key : changed) {
      if (present.count(key) == 0) studies_.erase(key);
    }
    held_ = CountHeld();
    RefuseWaiting(committed,
                  [&](const Waiter& waiter) { return waiter.study != 0 && studies_.count(waiter.study) == 0; });
  }
  for (const auto& [key, number] : pinned_) {
    const auto found = studies_.find(key);
    if (found == studies_.end() || number > static_cast<int64_t>(found->second.trials.size())) continue;
    TrialSlot& slot = found->second.trials[number - 1];
    if (study::IsFinal(slot.state)) {
      slot.record.reset();
      slot.curve.reset();
    }
  }
  events_.clear();
  updates_.clear();
  touched_.clear();
  deleted_.clear();
  dirty_trials_.clear();
  pinned_.clear();
  ending_.clear();
  const absl::Status outcome = Mutated(Mutant::kReplyBeforeCommit) ? absl::OkStatus() : committed;
  for (const auto& answer : answers) answer(outcome);
}

template <typename Reply>
void Core::Answer(Done<Reply> done, absl::StatusOr<Reply> reply) {
  if (!done) return;
  answers_.push_back([done = std::move(done), reply = std::move(reply)](const absl::Status& committed) mutable {
    // After a rollback even an error may be about something that never happened.
    if (committed.ok())
      done(std::move(reply));
    else
      done(committed);
  });
}
// The other source files of this class.
template void Core::Answer(Done<StudyReply>, absl::StatusOr<StudyReply>);
template void Core::Answer(Done<EnqueueReply>, absl::StatusOr<EnqueueReply>);
template void Core::Answer(Done<TrialReply>, absl::StatusOr<TrialReply>);
template void Core::Answer(Done<SuggestReply>, absl::StatusOr<SuggestReply>);
template void Core::Answer(Done<ReportReply>, absl::StatusOr<ReportReply>);
template void Core::Answer(Done<FinishReply>, absl::StatusOr<FinishReply>);
template void Core::Answer(Done<HeartbeatReply>, absl::StatusOr<HeartbeatReply>);

storage::Event& Core::AddEvent(StudyState& s, EventType type, const TrialRecord* record) {
  storage::Event event;
  event.seq = ++seq_;
  event.time = wall_;
  event.study = s.record.key;
  event.study_id = s.record.id;
  event.type = type;
  if (record != nullptr) {
    event.trial = record->trial.number;
    event.attempt = record->trial.attempts.empty() ? 0 : record->trial.attempts.back().number;
  }
  s.record.update_seq = seq_;
  s.record.update_time = wall_;
  touched_.insert(s.record.key);
  events_.push_back(std::move(event));
  return events_.back();
}

void Core::MarkDirty(StudyState& s, TrialRecord& record) {
  record.trial.update_seq = seq_;
  touched_.insert(s.record.key);
  dirty_trials_.emplace(s.record.key, record.trial.number);
}

absl::StatusOr<std::optional<std::string>> Core::Replayed(const std::string& request_id, const std::string& digest) {
  if (request_id.empty()) return std::nullopt;
  const auto reused = [&] {
    base::ErrorDetail detail;
    detail.reason = base::reason::kRequestIdReused;
    detail.violations.push_back({"request_id", "was used for another request; make a fresh one for each call"});
    return MakeError(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("request_id: ", Quote(request_id),
                                  " was used for another request; make a fresh one "
                                  "for each call"),
                     std::move(detail));
  };
  // An ask that waits owns its id already.
  for (const Waiter& waiter : waiters_) {
    if (waiter.op.request_id == request_id && waiter.digest != digest) return reused();
  }
  std::optional<storage::RequestRecord> record;
  if (const auto found = batch_requests_.find(request_id); found != batch_requests_.end()) {
    record = found->second;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(record, storage_->FindRequest(request_id));
  }
  if (!record) return std::nullopt;
  if (record->digest != digest) return reused();
  return record->reply;
}

void Core::Remember(const std::string& request_id, const std::string& digest, std::string reply) {
  if (request_id.empty()) return;
  batch_requests_[request_id] = {request_id, digest, std::move(reply), wall_};
}

// --- What the caller collects ---

std::vector<HistoryUpdate> Core::TakeHistoryUpdates() {
  return std::exchange(committed_updates_, {});
}
std::vector<storage::Event> Core::TakeEvents() {
  return std::exchange(committed_events_, {});
}
std::vector<StudyKey> Core::TakeInvalidated() {
  return std::exchange(invalidated_, {});
}

std::shared_ptr<const study::StudySpec> Core::SpecOf(StudyKey key) const {
  const auto found = studies_.find(key);
  return found == studies_.end() ? nullptr : found->second.spec;
}

std::vector<StudyKey> Core::Studies() const {
  std::vector<StudyKey> keys;
  for (const auto& [key, s] : studies_) keys.push_back(key);
  return keys;
}

std::array<int64_t, study::kTrialStateCount> Core::CountTrials() const {
  std::array<int64_t, study::kTrialStateCount> counts{};
  for (const auto& [key, study] : studies_) {
    for (size_t state = 0; state < counts.size(); ++state) counts[state] += study.counts[state];
  }
  return counts;
}

absl::Duration Core::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.op.deadline);
  return next;
}

absl::Status Core::CheckInvariants() {
  for (auto& [key, s] : studies_) {
    const auto broken = [&, id = s.record.id](absl::string_view what) {
      return absl::InternalError(absl::StrCat("study ", Quote(id), ": ", what));
    };
    LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord stored, storage_->GetStudy(s.record.id));
    if (!(stored == s.record)) return broken("record in memory differs from storage");
    std::array<int64_t, study::kTrialStateCount> counts{};
    std::set<std::string> tokens;
    int64_t rows = 0;
    int64_t after = 0;
    while (true) {
      LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialRecord> page, storage_->ListTrials(key, {}, after, 1000));
      for (const TrialRecord& record : page) {
        after = record.trial.number;
        ++rows;
        ++counts[static_cast<size_t>(record.trial.state)];
        if (record.trial.number != rows) return broken("numbers have a hole");
        if (s.trials[rows - 1].state != record.trial.state) return broken("state in memory differs from storage");
        if (s.trials[rows - 1].record && !(*s.trials[rows - 1].record == record))
          return broken("trial differs from storage");
        if (study::AttemptsUsed(record.trial) > s.spec->lease.max_attempts)
          return broken("more attempts than max_attempts (I7)");
        if (record.grants.size() != record.trial.attempts.size()) return broken("grants and attempts differ");
        for (const storage::GrantRecord& grant : record.grants) {
          if (!tokens.insert(grant.token).second) return broken("a token was given twice (I5)");
        }
        if (study::IsFinal(record.trial.state) != (record.finish_seq != 0))
          return broken("finish_seq does not fit the state");
      }
      if (page.size() < 1000) break;
    }
    if (rows != static_cast<int64_t>(s.trials.size())) return broken("rows in memory differ from storage");
    if (rows > s.spec->budget.max_trials) return broken("more rows than max_trials (I1)");
    if (counts != s.counts) return broken("counts differ from a recount (I2)");
    if (counts[1] != static_cast<int64_t>(s.running.size())) return broken("running set differs (I2)");
    if (counts[static_cast<size_t>(TrialState::kPaused)] != static_cast<int64_t>(s.paused.size()))
      return broken("paused set differs (I2)");
    if (counts[0] != static_cast<int64_t>(s.retries.size() + s.enqueued.size()))
      return broken("pending sets differ (I2)");
  }
  if (held_ != CountHeld()) return absl::InternalError("counts of held leases differ from a recount (I2)");
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
