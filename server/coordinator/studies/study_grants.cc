// Trials of a study begin here: stored, suggested, granted.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/registry.h"
#include "server/coordinator/messages/text.h"
#include "server/coordinator/proposals/late.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/study.h"

namespace luthier::coordinator {

using storage::EventType;
using storage::TrialRecord;
using study::TrialState;

// Another worker, if there is one, gets the first chance for one TTL, because the fault may lie with the first worker.
// A worker that gave the trial back was only shutting down, and may have it again at once. Returns the end of that
// time; if it is not after now, `worker` may have the trial.
absl::Duration Study::KeptForOthersUntil(const TrialSlot& slot, const std::string& worker) const {
  const absl::Duration ttl = spec_->lease.ttl;
  const study::Attempt& last = slot.record->trial.attempts.back();
  if (last.outcome == study::AttemptOutcome::kReleased || last.worker != worker) return -absl::InfiniteDuration();
  // A worker that asked within the last TTL counts as present.
  const absl::Duration others_gone = c_->state.pools.at(pool_).LastBeside(worker) + ttl + absl::Nanoseconds(1);
  return std::min(slot.eligible_since + ttl, others_gone);
}

int64_t Study::RoomToRun() const {
  const int64_t limit =
      spec_->budget.max_parallel > 0 ? spec_->budget.max_parallel : c_->options.limits.leases_per_study;
  return limit - static_cast<int64_t>(running_.size());
}

int64_t Study::RoomForNew() const {
  return spec_->budget.max_trials - size();
}

std::vector<int64_t> Study::EligibleTrials(const std::string& worker, int count, absl::Duration* again) const {
  std::vector<int64_t> candidates(retries_.begin(), retries_.end());
  candidates.insert(candidates.end(), expired_.begin(), expired_.end());
  std::sort(candidates.begin(), candidates.end());
  std::vector<int64_t> chosen;
  int64_t room = RoomToRun();
  const auto take = [&](int64_t number, bool runs_already) {
    if (static_cast<int>(chosen.size()) >= count) return;
    if (!runs_already && room <= 0) return;
    if (!runs_already) --room;
    chosen.push_back(number);
  };
  for (const int64_t number : candidates) {
    const TrialSlot& slot = this->slot(number);
    const bool expired = slot.state == TrialState::kRunning;
    if (expired && !c_->leases->Expired(slot.record->grants.back().token, c_->batch.now)) continue;
    const absl::Duration kept_until = KeptForOthersUntil(slot, worker);
    if (kept_until > c_->batch.now)
      *again = std::min(*again, kept_until);
    else
      take(number, expired);
  }
  for (const int64_t number : enqueued_) take(number, false);
  return chosen;
}

int64_t Study::WantedSlots() const {
  if (record_.state != study::StudyState::kActive || !ForAnyWorker() || TimeIsUp()) return 0;
  int64_t trials = static_cast<int64_t>(retries_.size() + enqueued_.size());
  if (MoreMayCome()) {
    trials += std::max<int64_t>(0, RoomForNew()) + static_cast<int64_t>(paused_.size());
  } else {
    trials += static_cast<int64_t>(ready_.size());
  }
  return std::max<int64_t>(0, std::min(trials, RoomToRun())) + static_cast<int64_t>(expired_.size());
}

bool Study::MoreMayCome() const {
  return history_.ok() && !exhausted_ && !(blocked_ && !Computing());
}

bool Study::MayServe() const {
  if (record_.state != study::StudyState::kActive) return false;
  if (!expired_.empty()) return true;  // A worker that takes the place of an expired holder needs no room.
  const int64_t room = RoomToRun();
  if (room > 0 && (!retries_.empty() || !enqueued_.empty())) return true;
  if (demand_ >= room || (paused_.empty() && demand_ >= RoomForNew())) return false;
  const int64_t missing = demand_ - static_cast<int64_t>(ready_.size());
  return missing < 0 || (MoreMayCome() && missing < kMaxProposals);
}

// Appends the attempt and its grant, with a token of its own, to the row.
void Study::BeginAttempt(TrialRecord& record, const std::string& worker, const std::string& request_id) {
  study::Attempt attempt;
  attempt.number = static_cast<int32_t>(record.trial.attempts.size()) + 1;
  attempt.worker = worker;
  attempt.start = c_->batch.wall;
  if (spec_->resource && !record.trial.checkpoint.empty()) attempt.start_step = record.trial.checkpoint_step;
  record.trial.attempts.push_back(std::move(attempt));
  const uint64_t fence = ++c_->state.counters.fence;
  base::RandomStream random(c_->options.token_seed, "lease_token", fence);
  storage::GrantRecord grant;
  grant.token = MakeToken(fence, random.NextU64());
  grant.request_id = request_id;
  grant.uptime = c_->batch.uptime;
  grant.checkpoint_step = record.trial.checkpoint_step;
  record.grants.push_back(std::move(grant));
  last_turn_ = fence;
}

int64_t Study::Store(study::Trial trial, EventType type, const std::string& actor, const std::string& detail) {
  const int64_t number = size() + 1;
  trial.number = number;
  trial.state = TrialState::kPending;
  trial.create_time = c_->batch.wall;
  TrialSlot slot;
  slot.record = std::make_unique<TrialRecord>();
  slot.record->trial = std::move(trial);
  slot.eligible_since = c_->batch.now;
  TrialRecord& record = *slot.record;
  trials_.push_back(std::move(slot));
  ++counts_[static_cast<size_t>(TrialState::kPending)];
  ++c_->state.totals[static_cast<size_t>(TrialState::kPending)];
  Wake();
  storage::Event& event = AddEvent(type, &record);
  event.actor = actor;
  event.detail = detail;
  record.create_seq = event.seq;
  MarkDirty(record);
  Tell(HistoryUpdate::Kind::kStored, number, [&](HistoryUpdate& update) {
    update.trial = ToHistoryTrial(record.trial, *spec_);
    update.trial.parameters = study::SuggestedParameters(record.trial);
  });
  return number;
}

int64_t Study::Enqueue(study::Trial trial, EventType type, const std::string& actor, const std::string& detail) {
  const int64_t number = Store(std::move(trial), type, actor, detail);
  enqueued_.insert(number);
  return number;
}

Grant Study::Grant(int64_t number, const std::string& worker, const std::string& request_id) {
  TrialSlot& slot = this->slot(number);
  TrialRecord& record = *slot.record;
  if (slot.state == TrialState::kRunning) {
    EndLease(record.grants.back().token, study::Directive::kLost);
    EndAttempt(record, study::AttemptOutcome::kExpired);
  }
  Move(slot, study::TrialEvent::kGrant);
  // Chosen once, so that all attempts have the same result.
  if (record.trial.attempts.empty()) {
    record.trial.provenance.warm_start = study::NearestSource(models_, record.trial.parameters);
  }
  BeginAttempt(record, worker, request_id);
  AddHeld(worker, 1);
  slot.curve = std::make_unique<Curve>();
  storage::Event& granted = AddEvent(EventType::kTrialGranted, &record);
  granted.actor = worker;
  if (record.trial.provenance.warm_start > 0) {
    granted.detail = absl::StrCat("to start from the model of trial ", record.trial.provenance.warm_start);
  }
  MarkDirty(record);
  // The last attempt gets a longer lease: its holder may only be behind a long partition.
  const bool last = study::AttemptsUsed(record.trial) >= spec_->lease.max_attempts;
  const absl::Duration ttl = spec_->lease.ttl * (last ? 10 : 1);
  const std::string& token = record.grants.back().token;
  c_->leases->Grant(token, {record_.key, number, ttl, c_->batch.now + ttl, false, worker});
  SetTimer(c_->batch.now + ttl);
  return DescribeGrant(record_.id, spec_, gradient_, record.trial, token);
}

// Takes out the first ready suggestion. Returns its provenance as it is to be stored; the rest goes to `suggestion`.
study::Provenance Study::TakeReady(search::Suggestion* suggestion) {
  study::Provenance provenance;
  provenance.prefix_seq = ready_.front().first;
  *suggestion = std::move(ready_.front().second);
  ready_.pop_front();
  provenance.designer = study::AlgorithmName(spec_->algorithm);
  provenance.algorithm_version = search::VersionOf(*spec_);
  provenance.ask_index = asks_stored_++;
  provenance.origin = std::move(suggestion->origin);
  provenance.details = std::move(suggestion->details);
  provenance.designer_state = std::move(suggestion->designer_state);
  provenance.direction = std::move(suggestion->direction);
  provenance.tolerance = suggestion->tolerance;
  provenance.resource = suggestion->resource;
  return provenance;
}

// Returns those of the trials `numbers` that have a gradient and were not set aside before.
std::vector<int64_t> Study::NewlySetAside(const std::vector<int64_t>& numbers) {
  std::vector<int64_t> fresh;
  for (const int64_t number : numbers) {
    if (set_aside_.count(number) > 0) continue;
    const absl::StatusOr<TrialSlot*> slot = FindTrial(number);
    // Only a trial with a gradient can lose it. (A row that can't be read now is noted with a later suggestion.)
    if (!slot.ok() || !study::IsFinal((*slot)->state)) continue;
    const study::Trial& trial = (*slot)->record->trial;
    if (trial.final_measurement && trial.final_measurement->gradient) fresh.push_back(number);
  }
  return fresh;
}

void Study::NoteSetAside(const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    set_aside_.insert(number);
    const storage::TrialRecord* const record = slot(number).record.get();  // Loaded by NewlySetAside.
    storage::Event& event = AddEvent(EventType::kGradientSetAside, record);
    event.actor = study::ReporterOf(record->trial);
    event.detail = "the gradients of this worker contradict the losses it reported; the losses are kept";
  }
}

const study::Trial* Study::SuggestedBefore(int64_t number) {
  for (int64_t before = number - 1; before > 0; --before) {
    const absl::StatusOr<TrialSlot*> slot = FindTrial(before);
    if (!slot.ok()) return nullptr;  // The row is damaged, which calls that need it report.
    if ((*slot)->record->trial.provenance.ask_index) return &(*slot)->record->trial;
  }
  return nullptr;
}

void Study::NoteNoise(int64_t number) {
  const storage::TrialRecord& record = *slot(number).record;
  const auto found = record.trial.provenance.details.find(search::kNoiseFoundBy);
  if (noise_found_ || found == record.trial.provenance.details.end()) return;
  noise_found_ = true;
  const study::Trial* const before = SuggestedBefore(number);
  if (before != nullptr && before->provenance.details.contains(search::kNoiseFoundBy)) return;
  AddEvent(EventType::kNoiseFound, &record).detail =
      absl::StrCat("trial ", static_cast<int64_t>(found->second), " differs from an earlier one of its setting");
}

bool Study::EndsByExpectation() {
  const study::AlgorithmSpec algorithm = search::Resolve(*spec_).algorithm;
  const auto* bo = std::get_if<study::BoOptions>(&algorithm);
  if (bo == nullptr || !search::Recommends(*spec_, *bo)) return false;
  if (noise_found_ || bo->SaidNoisy()) return true;
  const study::Trial* const newest = SuggestedBefore(size() + 1);
  return newest != nullptr && newest->provenance.details.contains(search::kNoiseFoundBy);
}

// Returns the number of suggestions to ask of the designer now.
int64_t Study::Missing() const {
  if (Computing() || exhausted_ || blocked_ || !history_.ok()) return 0;
  if (record_.state != study::StudyState::kActive) return 0;
  return demand_ - static_cast<int64_t>(ready_.size());
}

bool Study::CanGrantReady() const {
  const search::Suggestion& suggestion = ready_.front().second;
  return suggestion.resume ? paused_.count(*suggestion.resume) > 0 : RoomForNew() > 0;
}

int64_t Study::StoreReady() {
  search::Suggestion suggestion;
  study::Provenance provenance = TakeReady(&suggestion);
  if (suggestion.resume) {
    Promote(std::move(provenance), *suggestion.resume);
    return *suggestion.resume;
  }
  study::Trial trial;
  trial.parameters = std::move(suggestion.parameters);
  trial.provenance = std::move(provenance);
  const std::vector<int64_t> set_aside = NewlySetAside(suggestion.set_aside);
  trial.provenance.set_aside = set_aside;
  const int64_t number = Store(std::move(trial), EventType::kTrialSuggested);
  NoteSetAside(set_aside);
  NoteNoise(number);
  return number;
}

void Study::Promote(study::Provenance promotion, int64_t number) {
  TrialSlot& slot = this->slot(number);
  TrialRecord& record = *slot.record;
  const uint64_t ask_index = *promotion.ask_index;
  const int64_t resource = promotion.resource;
  record.trial.promotions.push_back(std::move(promotion));
  record.trial.final_measurement.reset();
  Move(slot, study::TrialEvent::kPromote);
  storage::Event& event = AddEvent(EventType::kTrialPromoted, &record);
  event.step = resource;
  event.ask_index = ask_index;
  event.detail = StepDetail(resource, absl::StrCat("ask=", ask_index));
  MarkDirty(record);
  Tell(HistoryUpdate::Kind::kPromoted, number, [&](HistoryUpdate& update) {
    update.ask_index = ask_index;
    update.resource = resource;
  });
}

void Study::StoreLate() {
  SetComputing(c_->batch.now);
  if (!MayBeLate(*spec_) || record_.state != study::StudyState::kActive) return;
  const int64_t count = std::min({demand_ - ready(), RoomForNew(), RoomToRun()});
  for (int64_t i = 0; i < count; ++i) {
    study::Trial trial;
    trial.parameters = LatePoint(*spec_, size() + 1);
    trial.provenance.prefix_seq = record_.update_seq;
    trial.provenance.designer = study::AlgorithmName(spec_->algorithm);
    trial.provenance.algorithm_version = search::VersionOf(*spec_);
    trial.provenance.origin = kLateOrigin;
    Enqueue(std::move(trial), EventType::kTrialSuggested);
  }
  if (count > 0) Wake();
}

ProposalRequest Study::Request(int64_t most) {
  ProposalRequest request;
  request.count = static_cast<int>(std::min(Missing(), most));
  SetComputing(c_->batch.now);
  request.project = std::string(study::ProjectOf(record_.id));
  request.study = record_.key;
  request.generation = generation_;
  request.prefix_seq = record_.update_seq;
  request.first_ask_index = asks_stored_ + ready_.size();
  return request;
}

void Study::TakeProposals(ProposalsOp op) {
  if (op.generation != generation_ || op.first_ask_index != asks_stored_ + ready_.size()) return;
  Wake();
  SetComputing(op.more ? c_->batch.now : absl::InfiniteDuration());
  history_ = op.history;
  for (search::Suggestion& suggestion : op.suggestions) ready_.emplace_back(op.prefix_seq, std::move(suggestion));
  if (op.exhausted) {
    exhausted_ = true;
    answered_ = std::move(op.answered);
  }
  // If a trial finished or paused while the designer computed, the designer must be asked again.
  if (!op.blocked || unblocked_ > op.prefix_seq) return;
  blocked_ = true;
  if (AnyOpenBesidesPaused() || !ready_.empty()) return;
  base::LogError("designer_waits_for_nothing", {{"study", record_.id}});
  exhausted_ = true;
}

Grant DescribeGrant(const std::string& study_id, std::shared_ptr<const study::StudySpec> spec, study::GradientUse use,
                    study::Trial trial, const std::string& token) {
  Grant grant;
  grant.study_id = study_id;
  grant.token = token;
  grant.attempt = static_cast<int32_t>(trial.attempts.size());
  grant.resume_checkpoint = trial.checkpoint;
  grant.target_step = trial.target();
  grant.resume_step = trial.checkpoint_step;
  grant.gradient = search::GradientUseOf(use, trial.provenance);
  grant.spec = std::move(spec);
  grant.trial = std::move(trial);
  return grant;
}

}  // namespace luthier::coordinator
