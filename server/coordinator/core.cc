#include "server/coordinator/core.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/mutants.h"

namespace luthier::coordinator {

using base::MakeError;
using base::Quote;
using storage::EventType;
using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

study::HistoryTrial ToHistoryTrial(const study::Trial& trial, const study::MetricSpec& metric) {
  study::HistoryTrial out;
  out.number = trial.number;
  out.ask_index = trial.provenance.ask_index;
  out.parameters = trial.parameters;
  out.state = trial.state;
  out.carry = trial.provenance.carry;
  if (trial.failure) out.failure = trial.failure->kind;
  if (trial.final_measurement) {
    const auto value = trial.final_measurement->metrics.find(metric.name);
    if (value != trial.final_measurement->metrics.end() && std::isfinite(value->second)) out.value = value->second;
    out.gradient = trial.final_measurement->gradient;
  }
  return out;
}

bool CancelledUnder(const TrialRecord& record, const std::string& token) {
  return record.trial.state == TrialState::kCancelled && !record.grants.empty() &&
         record.grants.back().token == token &&
         record.trial.attempts.back().outcome == study::AttemptOutcome::kCancelled;
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
  constexpr int kPage = 100;
  std::string after;
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page, storage_->ListStudies(after, kPage));
    for (const storage::StudyRecord& record : page) LUTHIER_RETURN_IF_ERROR(LoadStudy(record));
    if (page.size() < kPage) return absl::OkStatus();
    after = page.back().id;
  }
}

absl::Status Core::LoadStudy(const storage::StudyRecord& record) {
  uint64_t generation = 0;
  if (const auto old = studies_.find(record.key); old != studies_.end()) generation = old->second.generation + 1;
  StudyState s;
  s.record = record;
  s.spec = std::make_shared<const study::StudySpec>(record.spec);
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
      if (study::IsFinal(slot.state)) {
        if (CancelledUnder(trial, trial.grants.empty() ? "" : trial.grants.back().token)) {
          leases_->End(trial.grants.back().token, Directive::kStop);
        }
        finished.emplace_back(trial.finish_seq, std::move(trial.trial));
      } else {
        if (slot.state == TrialState::kRunning) {
          s.running.insert(after);
          const bool last = AttemptsUsed(trial) >= s.spec->lease.max_attempts;
          const absl::Duration ttl = s.spec->lease.ttl * (last ? 10 : 1);
          const absl::Duration deadline = Mutated(Mutant::kNoFreshTtl) ? now_ : now_ + ttl;
          leases_->Grant(trial.grants.back().token, {record.key, after, ttl, deadline});
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
  std::sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [finish_seq, trial] : finished) CountFinished(s, trial, finish_seq);
  by_id_[record.id] = record.key;
  studies_[record.key] = std::move(s);
  return absl::OkStatus();
}

// --- Batches ---

void Core::BeginBatch() {
  now_ = clock_->Monotonic();
  wall_ = clock_->Wall();
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
  }
  for (const auto& [key, number] : pinned_) {
    const auto found = studies_.find(key);
    if (found == studies_.end() || number > static_cast<int64_t>(found->second.trials.size())) continue;
    TrialSlot& slot = found->second.trials[number - 1];
    if (study::IsFinal(slot.state)) {
      slot.record.reset();
      slot.reported.reset();
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

// --- Studies ---

absl::StatusOr<Core::StudyState*> Core::FindStudy(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("study ", Quote(id), " does not exist; `luthier study list` shows those that do"));
  }
  return &studies_.at(found->second);
}

void Core::Run(CreateStudyOp op) {
  if (const auto found = by_id_.find(op.id); found != by_id_.end()) {
    const StudyState& s = studies_.at(found->second);
    const std::string field = study::FirstDifference(s.record.spec, op.spec);
    if (field.empty()) return Answer<StudyReply>(op.done, StudyReply{s.record, s.record.update_seq});
    base::ErrorDetail detail;
    detail.reason = base::reason::kStudyExists;
    detail.metadata["field"] = field;
    return Answer<StudyReply>(
        op.done,
        MakeError(absl::StatusCode::kAlreadyExists,
                  absl::StrCat("study ", Quote(op.id), " exists with another specification; they first differ in ",
                               field, "; choose another name, or delete that study"),
                  std::move(detail)));
  }
  StudyState s;
  s.record.key = ++last_key_;
  s.record.id = op.id;
  s.record.spec = std::move(op.spec);
  s.record.create_time = wall_;
  s.spec = std::make_shared<const study::StudySpec>(s.record.spec);
  const StudyKey key = s.record.key;
  by_id_[op.id] = key;
  StudyState& stored = studies_[key] = std::move(s);
  storage::Event& event = AddEvent(stored, EventType::kStudyCreated);
  event.actor = op.actor;
  event.detail = study::AlgorithmName(stored.spec->algorithm);
  stored.record.create_seq = seq_;
  Answer<StudyReply>(op.done, StudyReply{stored.record, seq_});
}

void Core::Run(ControlOp op) {
  const std::string digest = DigestOf(op);
  const absl::StatusOr<std::optional<std::string>> replayed = Replayed(op.request_id, digest);
  if (!replayed.ok()) return Answer<StudyReply>(op.done, replayed.status());
  const absl::StatusOr<StudyState*> found = FindStudy(op.id);
  if (replayed->has_value()) {
    StudyReply reply;
    if (found.ok()) reply = {(*found)->record, (*found)->record.update_seq};
    return Answer<StudyReply>(op.done, std::move(reply));
  }
  if (!found.ok()) return Answer<StudyReply>(op.done, found.status());
  StudyState& s = **found;
  const study::StudyState state = s.record.state;
  const auto finished_error = [&] {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
        absl::StrCat("study ", Quote(op.id), " is ", study::StudyStateName(state), "; it can't change any more"));
  };
  switch (op.control) {
    case Control::kPause:
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      if (state == study::StudyState::kActive) {
        s.record.state = study::StudyState::kPaused;
        s.record.state_reason = "paused by a user";
        AddEvent(s, EventType::kStudyPaused).actor = op.actor;
      }
      break;
    case Control::kResume:
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      if (state == study::StudyState::kPaused) {
        s.record.state = study::StudyState::kActive;
        s.record.state_reason.clear();
        AddEvent(s, EventType::kStudyResumed).actor = op.actor;
        s.record.resume_seq = seq_;
        s.failures_in_row = 0;
      }
      break;
    case Control::kStop:
      if (state == study::StudyState::kStopped) break;
      if (study::IsFinished(state)) return Answer<StudyReply>(op.done, finished_error());
      FinishStudy(s, study::StudyState::kStopped, "stopped by a user", op.actor, /*cancel_running=*/false);
      break;
    case Control::kCancel:
      if (state == study::StudyState::kCancelled) break;
      if (state == study::StudyState::kCompleted) return Answer<StudyReply>(op.done, finished_error());
      FinishStudy(s, study::StudyState::kCancelled, "cancelled by a user", op.actor, /*cancel_running=*/true);
      break;
    case Control::kDelete: {
      if (!s.running.empty()) {
        return Answer<StudyReply>(op.done,
                                  MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialsRunning,
                                            absl::StrCat("study ", Quote(op.id), " has ", s.running.size(),
                                                         " running trials; cancel the study first")));
      }
      AddEvent(s, EventType::kStudyDeleted).actor = op.actor;
      const StudyReply reply{s.record, seq_};
      Remember(op.request_id, digest, "");
      const StudyKey key = s.record.key;
      deleted_.insert(key);
      by_id_.erase(op.id);
      studies_.erase(key);
      leases_->DropStudy(key);
      return Answer<StudyReply>(op.done, reply);
    }
  }
  Remember(op.request_id, digest, "");
  Answer<StudyReply>(op.done, StudyReply{s.record, s.record.update_seq});
}

void Core::FinishStudy(StudyState& s, study::StudyState state, const std::string& reason, const std::string& actor,
                       bool cancel_running) {
  s.record.state = state;
  s.record.state_reason = reason;
  const EventType type = state == study::StudyState::kStopped     ? EventType::kStudyStopped
                         : state == study::StudyState::kCancelled ? EventType::kStudyCancelled
                                                                  : EventType::kStudyCompleted;
  storage::Event& event = AddEvent(s, type);
  event.actor = actor;
  event.detail = reason;
  s.ready.clear();
  ++s.generation;
  s.computing = false;
  std::vector<int64_t> open(s.retries.begin(), s.retries.end());
  open.insert(open.end(), s.enqueued.begin(), s.enqueued.end());
  // A trial whose holder vanished will not be granted again.
  if (!cancel_running)
    open.insert(open.end(), s.expired.begin(), s.expired.end());
  else
    open.insert(open.end(), s.running.begin(), s.running.end());
  std::sort(open.begin(), open.end());
  for (const int64_t number : open) CancelTrial(s, s.trials[number - 1], absl::StrCat("study ", reason));
}

void Core::CompleteWhenDone(StudyState& s) {
  if (study::IsFinished(s.record.state)) return;
  if (!s.running.empty() || !s.retries.empty() || !s.enqueued.empty()) return;
  if (static_cast<int64_t>(s.trials.size()) >= s.spec->budget.max_trials) {
    FinishStudy(s, study::StudyState::kCompleted, "max_trials reached", "", false);
  } else if (s.exhausted && s.ready.empty()) {
    FinishStudy(s, study::StudyState::kCompleted, "every setting has been tried", "", false);
  }
}

void Core::CountFinished(StudyState& s, const study::Trial& trial, uint64_t finish_seq) {
  if (trial.state == TrialState::kCancelled) return;
  if (trial.state == TrialState::kFailed) {
    if (finish_seq > s.record.resume_seq) ++s.failures_in_row;
  } else {
    s.failures_in_row = 0;
  }
  ++s.finished_since_best;
  if (trial.state != TrialState::kComplete) return;
  const double score = study::Score(s.spec->metric.goal, trial.final_measurement->metrics.at(s.spec->metric.name));
  if (!s.best_score || score > *s.best_score) {
    s.best_score = score;
    s.finished_since_best = 0;
  }
}

void Core::ApplyStoppingRules(StudyState& s, const study::Trial& finished) {
  if (study::IsFinished(s.record.state)) return;
  const study::Budget& budget = s.spec->budget;
  std::string reason;
  if (budget.target_value && s.best_score && *s.best_score >= study::Score(s.spec->metric.goal, *budget.target_value)) {
    reason = absl::StrCat("target_value reached by trial ", finished.number);
  } else if (budget.max_failed_trials > 0 &&
             s.counts[static_cast<size_t>(TrialState::kFailed)] >= budget.max_failed_trials) {
    reason = "max_failed_trials reached";
  } else if (budget.patience > 0 && s.best_score && s.finished_since_best >= budget.patience) {
    reason = absl::StrCat("no better value in ", s.finished_since_best, " trials");
  }
  if (!reason.empty()) {
    FinishStudy(s, study::StudyState::kCompleted, reason, "", /*cancel_running=*/true);
    return;
  }
  CompleteWhenDone(s);
  if (s.record.state == study::StudyState::kActive && s.failures_in_row >= options_.failures_to_pause) {
    s.record.state = study::StudyState::kPaused;
    s.record.state_reason = absl::StrCat(
        s.failures_in_row, " trials failed in a row; the last: ", finished.failure ? finished.failure->reason : "",
        "; mend the cause, then resume");
    AddEvent(s, EventType::kStudyPaused).detail = s.record.state_reason;
  }
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
    std::array<int64_t, 6> counts{};
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
        if (AttemptsUsed(record) > s.spec->lease.max_attempts) return broken("more attempts than max_attempts (I7)");
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
    if (counts[0] != static_cast<int64_t>(s.retries.size() + s.enqueued.size()))
      return broken("pending sets differ (I2)");
  }
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
