// Core: who gets which trial, and when a lease ends.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/suggest/registry.h"
#include "server/coordinator/core.h"
#include "server/coordinator/mutants.h"

namespace luthier::coordinator {
namespace {

using base::MakeError;
using base::Quote;
using storage::EventType;
using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

constexpr int kMaxProposals = 64;        // In one request to a designer.
constexpr size_t kMaxLastSeen = 10'000;  // Workers remembered.
// A message may have 4 MiB, a spec 2 MiB and the rest of a trial at most about 1.5 MiB: no further trial joins a reply
// that has grown to this.
constexpr size_t kFullReply = size_t{1} << 20;
const absl::Duration kRetryAfter = absl::Seconds(1);

}  // namespace

void Core::CheckDeadlines() {
  // If we were not running, no lease was renewed through us: that must not cost a worker its lease.
  const absl::Duration gap = now_ - last_tick_;
  if (gap > options_.stall) ExtendLeases(gap);
  last_tick_ = now_;
  for (auto& [key, s] : studies_) {
    if (s.running.empty() || now_ < s.next_expiry_check) continue;
    s.next_expiry_check = absl::InfiniteDuration();
    for (const int64_t number : std::set<int64_t>(s.running)) {
      TrialSlot& slot = s.trials[number - 1];
      if (slot.state != TrialState::kRunning) continue;  // Ended by a stopping rule within this loop.
      TrialRecord& record = *slot.record;
      const std::string token = record.grants.back().token;
      if (!leases_->Expired(token, now_)) {
        s.next_expiry_check = std::min(s.next_expiry_check, *leases_->Deadline(token));
        ClearExpired(s, number);  // It was given more time since.
        continue;
      }
      const bool exhausted = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
      if (!exhausted && !study::IsFinished(s.record.state)) {
        // Eligible for another worker; until then its holder may come back.
        if (MarkExpired(s, number)) slot.eligible_since = now_;
        continue;
      }
      EndLease(token, Directive::kLost);
      EndAttempt(record, study::AttemptOutcome::kExpired);
      if (exhausted) {
        RetryOrGiveUp(s, slot);
      } else {
        CancelTrial(s, slot, absl::StrCat("study ", s.record.state_reason));
      }
    }
  }
}

bool Core::MarkExpired(StudyState& s, int64_t number) {
  if (!s.expired.insert(number).second) return false;
  AddHeld(s.trials[number - 1].record->trial.attempts.back().worker, -1);
  return true;
}

bool Core::ClearExpired(StudyState& s, int64_t number) {
  if (s.expired.erase(number) == 0) return false;
  AddHeld(s.trials[number - 1].record->trial.attempts.back().worker, 1);
  return true;
}

std::map<std::string, int> Core::CountHeld() const {
  std::map<std::string, int> held;
  for (const auto& [key, s] : studies_) {
    for (const int64_t number : s.running) {
      if (s.expired.count(number) == 0) ++held[s.trials[number - 1].record->trial.attempts.back().worker];
    }
  }
  return held;
}

int Core::Held(const std::string& worker) const {
  const auto found = held_.find(worker);
  return found == held_.end() ? 0 : found->second;
}

void Core::AddHeld(const std::string& worker, int by) {
  const auto place = held_.try_emplace(worker, 0).first;
  place->second += by;
  LUTHIER_CHECK(place->second >= 0);
  if (place->second == 0) held_.erase(place);
}

void Core::ExtendLeases(absl::Duration by) {
  leases_->ShiftAll(by);
  for (auto& [key, s] : studies_) s.next_expiry_check = absl::ZeroDuration();
}

int64_t Core::RoomToRun(const StudyState& s) const {
  const int64_t limit =
      s.spec->budget.max_parallel > 0 ? s.spec->budget.max_parallel : options_.limits.leases_per_study;
  return limit - static_cast<int64_t>(s.running.size());
}

int64_t Core::RoomForNew(const StudyState& s) const {
  int64_t rows = static_cast<int64_t>(s.trials.size());
  if (Mutated(Mutant::kBudgetNotCounted)) {
    while (rows > 0 && s.trials[rows - 1].record && s.trials[rows - 1].record->create_seq > seq_at_begin_) --rows;
  }
  return s.spec->budget.max_trials - rows;
}

bool Core::OthersAskedSince(const std::string& worker, absl::Duration since) const {
  return std::any_of(last_seen_.begin(), last_seen_.end(),
                     [&](const auto& seen) { return seen.first != worker && seen.second >= since; });
}

std::vector<int64_t> Core::EligibleTrials(const StudyState& s, const std::string& worker, int count) const {
  std::vector<int64_t> candidates(s.retries.begin(), s.retries.end());
  candidates.insert(candidates.end(), s.expired.begin(), s.expired.end());
  std::sort(candidates.begin(), candidates.end());
  std::vector<int64_t> chosen;
  int64_t room = RoomToRun(s);
  const auto take = [&](int64_t number, bool runs_already) {
    if (static_cast<int>(chosen.size()) >= count) return;
    if (!runs_already && room <= 0) return;
    if (!runs_already) --room;
    chosen.push_back(number);
  };
  for (const int64_t number : candidates) {
    const TrialSlot& slot = s.trials[number - 1];
    const bool expired = slot.state == TrialState::kRunning;
    if (expired && !leases_->Expired(slot.record->grants.back().token, now_)) continue;
    // Another worker gets the first chance, for one TTL, if there is another: the fault may be the first one's. Who
    // gave the trial back was only shutting down, and may be there again.
    const absl::Duration ttl = s.spec->lease.ttl;
    const study::Attempt& last = slot.record->trial.attempts.back();
    if (last.outcome != study::AttemptOutcome::kReleased && last.worker == worker && now_ < slot.eligible_since + ttl &&
        OthersAskedSince(worker, now_ - ttl)) {
      continue;
    }
    take(number, expired);
  }
  for (const int64_t number : s.enqueued) take(number, false);
  return chosen;
}

Grant Core::GrantTrial(StudyState& s, int64_t number, const std::string& worker) {
  TrialSlot& slot = s.trials[number - 1];
  TrialRecord& record = *slot.record;
  if (slot.state == TrialState::kRunning) {
    EndLease(record.grants.back().token, Directive::kLost);
    EndAttempt(record, study::AttemptOutcome::kExpired);
  }
  Move(s, slot, study::TrialEvent::kGrant);
  // Once for all attempts, which so have the same result.
  if (record.trial.attempts.empty()) {
    record.trial.provenance.warm_start = study::NearestSource(s.models, record.trial.parameters);
  }
  study::Attempt attempt;
  attempt.number = static_cast<int32_t>(record.trial.attempts.size()) + 1;
  attempt.worker = worker;
  attempt.start = wall_;
  if (s.spec->resource && !record.trial.checkpoint.empty()) attempt.start_step = record.trial.checkpoint_step;
  record.trial.attempts.push_back(std::move(attempt));
  ++fence_;
  base::RandomStream random(options_.token_seed, "lease_token", fence_);
  storage::GrantRecord grant_record;
  grant_record.token = MakeToken(fence_, random.NextU64());
  record.grants.push_back(std::move(grant_record));
  AddHeld(worker, 1);
  slot.curve = std::make_unique<Curve>();
  storage::Event& granted = AddEvent(s, EventType::kTrialGranted, &record);
  granted.actor = worker;
  if (record.trial.provenance.warm_start > 0) {
    granted.detail = absl::StrCat("to start from the model of trial ", record.trial.provenance.warm_start);
  }
  MarkDirty(s, record);
  // A holder behind a long partition is not given up lightly when it is the last.
  const bool last = study::AttemptsUsed(record.trial) >= s.spec->lease.max_attempts;
  const absl::Duration ttl = s.spec->lease.ttl * (last ? 10 : 1);
  leases_->Grant(record.grants.back().token, {s.record.key, number, ttl, now_ + ttl});
  s.next_expiry_check = std::min(s.next_expiry_check, now_ + ttl);

  Grant grant;
  grant.study_id = s.record.id;
  grant.spec = s.spec;
  grant.trial = record.trial;
  grant.token = record.grants.back().token;
  grant.attempt = record.trial.attempts.back().number;
  grant.resume_checkpoint = record.trial.checkpoint;
  grant.target_step = record.trial.target();
  grant.resume_step = record.trial.checkpoint_step;
  grant.gradient = suggest::GradientUseOf(s.gradient, record.trial.provenance);
  return grant;
}

int64_t Core::StoreTrial(StudyState& s, study::Trial trial, EventType type) {
  const int64_t number = static_cast<int64_t>(s.trials.size()) + 1;
  trial.number = number;
  trial.state = TrialState::kPending;
  trial.create_time = wall_;
  TrialSlot slot;
  slot.record = std::make_unique<TrialRecord>();
  slot.record->trial = std::move(trial);
  slot.eligible_since = now_;
  TrialRecord& record = *slot.record;
  s.trials.push_back(std::move(slot));
  ++s.counts[static_cast<size_t>(TrialState::kPending)];
  AddEvent(s, type, &record);
  record.create_seq = seq_;
  MarkDirty(s, record);
  PushUpdate(s, HistoryUpdate::Kind::kStored, number,
             [&](HistoryUpdate& update) { update.trial = ToHistoryTrial(record.trial, s.spec->metric); });
  return number;
}

void Core::Run(SuggestOp op) {
  last_seen_[op.worker] = now_;
  if (last_seen_.size() > kMaxLastSeen) {
    for (auto it = last_seen_.begin(); it != last_seen_.end();) {
      it = it->second < now_ - absl::Hours(1) ? last_seen_.erase(it) : std::next(it);
    }
  }
  Waiter waiter;
  waiter.digest = DigestOf(op);
  const absl::StatusOr<std::optional<std::string>> replayed = Replayed(op.request_id, waiter.digest);
  if (!replayed.ok()) return Answer<SuggestReply>(op.done, replayed.status());
  if (replayed->has_value()) return Answer<SuggestReply>(op.done, RebuildSuggestReply(**replayed));
  if (!op.id.empty()) {
    const absl::StatusOr<StudyState*> found = FindStudy(op.id);
    if (!found.ok()) return Answer<SuggestReply>(op.done, found.status());
    waiter.study = (*found)->record.key;
    if (op.fail_if_paused && (*found)->record.state == study::StudyState::kPaused) {
      return Answer<SuggestReply>(
          op.done, MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyPaused,
                             absl::StrCat("study ", Quote(op.id), " is paused: ", (*found)->record.state_reason,
                                          "; `luthier study resume` lets it go on")));
    }
  }
  // The caller sent the request again: its first call is dead, and only one of the two may get trials.
  for (auto it = waiters_.begin(); !op.request_id.empty() && it != waiters_.end(); ++it) {
    if (it->op.request_id != op.request_id) continue;
    Answer<SuggestReply>(it->op.done, absl::CancelledError("the same request was sent again"));
    waiters_.erase(it);
    break;
  }
  waiter.op = std::move(op);
  waiters_.push_back(std::move(waiter));
}

std::vector<Core::StudyState*> Core::CandidatesFor(const Waiter& waiter) {
  std::vector<StudyState*> candidates;
  if (waiter.study != 0) {
    const auto found = studies_.find(waiter.study);
    if (found != studies_.end()) candidates.push_back(&found->second);
    return candidates;
  }
  for (auto& [key, s] : studies_) {
    if (s.record.state != study::StudyState::kActive) continue;
    if (std::holds_alternative<study::ExternalObjective>(s.spec->objective)) continue;
    candidates.push_back(&s);
  }
  // The study with the fewest running trials first, so that none starves.
  std::sort(candidates.begin(), candidates.end(), [](const StudyState* a, const StudyState* b) {
    return std::pair(a->running.size(), a->record.key) < std::pair(b->running.size(), b->record.key);
  });
  return candidates;
}

Core::Served Core::ServeFrom(StudyState& s, Waiter& waiter, int count, bool due) {
  if (s.record.state != study::StudyState::kActive) return Served::kNo;
  const std::vector<int64_t> eligible = EligibleTrials(s, waiter.op.worker, count);
  int64_t taken = 0;
  for (const int64_t number : eligible) taken += s.trials[number - 1].state == TrialState::kPending ? 1 : 0;
  // It can't be granted any more, and nothing behind it can be before it.
  if (s.spec->resource && !s.ready.empty() && !CanGrant(s, s.ready.front().second)) DropReady(s);
  // To continue a PAUSED trial takes no row: the designer says whether it will. Rows that earlier asks wait for are
  // spoken for.
  const int64_t rows = s.paused.empty() ? RoomForNew(s) : std::numeric_limits<int64_t>::max();
  const int64_t want = std::clamp<int64_t>(std::min(rows, RoomToRun(s) - taken) - s.demand, 0,
                                           count - static_cast<int64_t>(eligible.size()));
  const int64_t have = std::clamp<int64_t>(static_cast<int64_t>(s.ready.size()) - s.demand, 0, want);
  const bool more_may_come = !s.exhausted && !(s.blocked && !s.computing);
  if (have < want && more_may_come && (!due || (eligible.empty() && have == 0))) {
    s.demand += want;
    return Served::kNo;
  }
  if (eligible.empty() && have == 0) return Served::kNo;

  SuggestReply reply;
  std::string stored = absl::StrCat(s.record.key);
  size_t bytes = 0;
  const auto full = [&] { return bytes >= kFullReply; };
  const auto grant = [&](int64_t number) {
    reply.grants.push_back(GrantTrial(s, number, waiter.op.worker));
    bytes += BytesOf(reply.grants.back());
    absl::StrAppend(&stored, ",", number, ":", absl::BytesToHexString(reply.grants.back().token));
  };
  for (const int64_t number : eligible) {
    if (!full()) grant(number);
  }
  for (int64_t i = 0; i < have && !full() && CanGrant(s, s.ready.front().second); ++i) {
    suggest::Suggestion suggestion;
    study::Provenance provenance = TakeReady(s, &suggestion);
    if (suggestion.resume) {
      PromoteTrial(s, std::move(provenance), *suggestion.resume);
      grant(*suggestion.resume);
      continue;
    }
    study::Trial trial;
    trial.parameters = std::move(suggestion.parameters);
    trial.provenance = std::move(provenance);
    const std::vector<int64_t> set_aside = NewlySetAside(s, suggestion.set_aside);
    trial.provenance.set_aside = set_aside;
    const int64_t number = StoreTrial(s, std::move(trial), EventType::kTrialSuggested);
    NoteSetAside(s, set_aside);
    grant(number);
  }
  reply.seq = seq_;
  Remember(waiter.op.request_id, waiter.digest, std::move(stored));
  Answer<SuggestReply>(waiter.op.done, std::move(reply));
  return Served::kYes;
}

void Core::ServeWaiting() {
  Serve(/*answer_due=*/false);
}

void Core::Serve(bool answer_due) {
  for (auto& [key, s] : studies_) {
    s.demand = 0;
    if (s.exhausted) CompleteWhenDone(s);
  }
  std::deque<Waiter> still;
  for (Waiter& waiter : waiters_) {
    if (waiter.op.caller_gone && waiter.op.caller_gone->load()) {
      Answer<SuggestReply>(waiter.op.done, absl::CancelledError("the caller hung up"));
      continue;
    }
    const std::vector<StudyState*> candidates = CandidatesFor(waiter);
    if (waiter.study != 0 && candidates.empty()) {
      Answer<SuggestReply>(waiter.op.done, MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                                                     absl::StrCat("study ", Quote(waiter.op.id), " was deleted")));
      continue;
    }
    const int limit = options_.limits.leases_per_worker;
    const int room = limit - Held(waiter.op.worker);
    if (room <= 0) {
      Answer<SuggestReply>(
          waiter.op.done,
          LimitExceeded(
              "leases_per_worker", limit,
              absl::StrCat("worker ", Quote(waiter.op.worker), " holds ", limit - room, " leases, and ", limit,
                           " is the most one worker may hold; finish or release some, or ask under "
                           "another worker's name")));
      continue;
    }
    const int count = std::min(waiter.op.count, room);
    const bool due = answer_due && waiter.op.deadline <= now_;
    bool served = false;
    for (StudyState* s : candidates) {
      const int64_t demand_before = s->demand;
      served = ServeFrom(*s, waiter, count, due) == Served::kYes;
      // Once a study computes for this ask, the others need not.
      if (served || (!due && s->demand != demand_before)) break;
    }
    if (served) continue;
    SuggestReply nothing;
    nothing.seq = seq_;
    if (waiter.study != 0) {
      const StudyState& s = *candidates.front();
      nothing.study_done =
          study::IsFinished(s.record.state) && s.running.empty() && s.retries.empty() && s.enqueued.empty();
    }
    if (!due && !nothing.study_done) {
      still.push_back(std::move(waiter));
      continue;
    }
    nothing.retry_after = kRetryAfter;
    Answer<SuggestReply>(waiter.op.done, std::move(nothing));
  }
  waiters_ = std::move(still);
}

std::vector<ProposalRequest> Core::TakeProposalRequests(const std::function<bool(StudyKey)>& which) {
  std::vector<ProposalRequest> requests;
  for (auto& [key, s] : studies_) {
    const int64_t missing = s.demand - static_cast<int64_t>(s.ready.size());
    if (missing <= 0 || s.computing || s.exhausted || s.blocked || s.record.state != study::StudyState::kActive)
      continue;
    if (!which(key)) continue;
    s.computing = true;
    ProposalRequest request;
    request.study = key;
    request.generation = s.generation;
    request.prefix_seq = s.record.update_seq;
    request.first_ask_index = s.asks_stored + s.ready.size();
    request.count = static_cast<int>(std::min<int64_t>(missing, kMaxProposals));
    requests.push_back(request);
  }
  return requests;
}

void Core::Run(ProposalsOp op) {
  const auto found = studies_.find(op.study);
  if (found == studies_.end()) return;
  StudyState& s = found->second;
  if (op.generation != s.generation || op.first_ask_index != s.asks_stored + s.ready.size()) return;
  s.computing = false;
  for (suggest::Suggestion& suggestion : op.suggestions) s.ready.emplace_back(op.prefix_seq, std::move(suggestion));
  if (op.exhausted) s.exhausted = true;
  // A trial may have finished or paused while the designer was looking; then it must look again.
  if (!op.blocked || s.unblocked > op.prefix_seq) return;
  s.blocked = true;
  if (AnyOpenBesidesPaused(s) || !s.ready.empty()) return;
  base::LogError("designer_waits_for_nothing", {{"study", s.record.id}});
  s.exhausted = true;
}

absl::StatusOr<SuggestReply> Core::RebuildSuggestReply(const std::string& stored) {
  const std::vector<std::string> parts = absl::StrSplit(stored, ',');
  StudyKey key = 0;
  LUTHIER_CHECK(absl::SimpleAtoi(parts[0], &key));
  const auto found = studies_.find(key);
  if (found == studies_.end()) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound, "the study was deleted");
  }
  StudyState& s = found->second;
  SuggestReply reply;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::string> pair = absl::StrSplit(parts[i], ':');
    int64_t number = 0;
    LUTHIER_CHECK(pair.size() == 2 && absl::SimpleAtoi(pair[0], &number));
    LUTHIER_ASSIGN_OR_RETURN(const TrialSlot* slot, FindTrial(s, number));
    Grant grant;
    grant.study_id = s.record.id;
    grant.spec = s.spec;
    grant.trial = slot->record->trial;
    grant.token = absl::HexStringToBytes(pair[1]);
    for (size_t k = 0; k < slot->record->grants.size(); ++k) {
      if (slot->record->grants[k].token == grant.token) grant.attempt = static_cast<int32_t>(k + 1);
    }
    grant.resume_checkpoint = slot->record->trial.checkpoint;
    grant.target_step = slot->record->trial.target();
    grant.resume_step = slot->record->trial.checkpoint_step;
    grant.gradient = suggest::GradientUseOf(s.gradient, grant.trial.provenance);
    reply.grants.push_back(std::move(grant));
  }
  reply.seq = s.record.update_seq;
  return reply;
}

void Core::RefuseWaiting(const absl::Status& status, const std::function<bool(const Waiter&)>& which) {
  std::deque<Waiter> gone;
  std::deque<Waiter> still;
  for (Waiter& waiter : waiters_) (which(waiter) ? gone : still).push_back(std::move(waiter));
  waiters_ = std::move(still);
  for (Waiter& waiter : gone) {
    if (waiter.op.done) waiter.op.done(status);
  }
}

}  // namespace luthier::coordinator
