#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/rung_schedule.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/index.h"

// Trials that no longer count: others take their place, or a user deletes them.
namespace luthier::coordinator {
namespace {

using base::MakeError;
using study::TrialState;

absl::Status NoSuchTrial(const Study& s, int64_t number) {
  return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                   absl::StrCat("trial ", number, " of study ", base::Quote(s.record().id), " does not exist"));
}

absl::Status CheckMayRetry(const Study& s, const study::Trial& trial) {
  if (trial.deleted) return NoSuchTrial(s, trial.number);
  if (trial.retried_by != 0) {
    return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialFinal,
                     absl::StrCat("trial ", trial.number, " was retried already, by trial ", trial.retried_by));
  }
  if (trial.state == TrialState::kFailed || trial.state == TrialState::kCancelled) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialFinal,
                   absl::StrCat("trial ", trial.number, " is ", study::TrialStateName(trial.state),
                                "; only FAILED and CANCELLED ones can be retried (enqueue its parameters instead)"));
}

// Returns the numbers of the trials to be tried again, and loads their rows. `sketches` has all trials.
absl::StatusOr<std::vector<int64_t>> TrialsToRetry(Study& s, const RetryOp& op,
                                                   const std::vector<storage::TrialSketch>& sketches) {
  std::vector<int64_t> numbers = op.numbers;
  if (numbers.empty()) {
    for (const storage::TrialSketch& trial : sketches) {
      const bool failed = trial.state == TrialState::kFailed && !trial.removed;
      if (failed && static_cast<int64_t>(numbers.size()) < op.limit) numbers.push_back(trial.number);
    }
  }
  std::set<int64_t> seen;
  for (const int64_t number : numbers) {
    if (!seen.insert(number).second) return base::BadField("numbers", absl::StrCat("has ", number, " twice"));
    const absl::StatusOr<TrialSlot*> slot = s.FindTrial(number);
    if (absl::IsNotFound(slot.status())) return NoSuchTrial(s, number);
    LUTHIER_RETURN_IF_ERROR(slot.status());
    LUTHIER_RETURN_IF_ERROR(CheckMayRetry(s, (*slot)->record->trial));
  }
  return numbers;
}

// Resumes a study that paused by itself after many failures.
void ResumeAfterFailures(Study& s, const std::string& why, const std::string& actor) {
  if (s.record().state != study::StudyState::kPaused || s.record().state_reason == kPausedByUser) return;
  s.Resume(actor, why);
}

int64_t StoreRetry(Study& s, int64_t old, const std::string& actor) {
  study::Trial trial;
  {
    const study::Trial& before = s.slot(old).record->trial;
    trial.parameters = before.parameters;
    trial.attributes = before.attributes;
  }
  trial.provenance.designer = "user";
  trial.provenance.origin = "retry";
  trial.provenance.resource = study::FirstTarget(*s.spec());
  trial.retry_of = old;
  const int64_t number =
      s.Enqueue(std::move(trial), storage::EventType::kTrialEnqueued, actor, absl::StrCat("in place of trial ", old));
  TrialSlot& slot = s.slot(old);
  slot.record->trial.retried_by = number;
  storage::Event& replaced = s.AddEvent(storage::EventType::kTrialReplaced, slot.record.get());
  replaced.actor = actor;
  replaced.detail = absl::StrCat("by trial ", number);
  s.Remove(slot);
  return number;
}

absl::StatusOr<EnqueueReply> Retry(Study& s, const RetryOp& op) {
  LUTHIER_RETURN_IF_ERROR(s.CheckMayGoOn());
  LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> sketches, s.ReadSketches());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, TrialsToRetry(s, op, sketches));
  EnqueueReply reply;
  if (!numbers.empty()) {
    const auto count = static_cast<int64_t>(numbers.size());
    LUTHIER_RETURN_IF_ERROR(s.AddRoom(count, op.actor));
    std::vector<int64_t> stored;
    for (const int64_t number : numbers) stored.push_back(StoreRetry(s, number, op.actor));
    s.RecountFinished(std::move(sketches));
    const std::string why = absl::StrCat(count, count == 1 ? " trial" : " trials", " to be tried again");
    ResumeAfterFailures(s, why, op.actor);
    s.GoOnOrEnd(why, op.actor);
    s.ForgetFailures();
    for (const int64_t number : stored) reply.trials.push_back(s.slot(number).record->trial);
  }
  reply.seq = s.record().update_seq;
  return reply;
}

absl::StatusOr<TrialReply> Delete(Context& c, const DeleteTrialOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrialToChange(c, op.id, op.number, op.by));
  Study& s = *found.study;
  TrialSlot& slot = *found.slot;
  study::Trial& trial = slot.record->trial;
  // Deleting again has no further effect, so it may be repeated.
  if (trial.deleted) return TrialReply{trial, trial.update_seq};
  if (!study::IsFinal(slot.state)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialOpen,
                     absl::StrCat("trial ", op.number, " is ", study::TrialStateName(slot.state), "; cancel it first"));
  }
  LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialSketch> sketches, s.ReadSketches());
  const bool counted = trial.retried_by == 0;
  trial.deleted = true;
  s.AddEvent(storage::EventType::kTrialDeleted, slot.record.get()).actor = op.actor;
  if (counted) {
    s.Remove(slot);
    s.RecountFinished(std::move(sketches));
  } else {
    s.MarkDirty(*slot.record);
  }
  return TrialReply{trial, c.state.counters.seq};
}

constexpr size_t kMostAttributes = 64;
constexpr size_t kMostAttributeBytes = size_t{256} << 10;

// True if a worker of the caller holds the trial, or held it last.
bool IsHolder(const study::Trial& trial, const Authority& by) {
  return !by.worker.empty() && !trial.attempts.empty() && absl::StartsWith(trial.attempts.back().worker, by.worker);
}

absl::StatusOr<TrialReply> SetAttributes(Context& c, const SetAttributesOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrial(c, op.id, op.number));
  study::Trial& trial = found.slot->record->trial;
  if (!IsHolder(trial, op.by)) LUTHIER_RETURN_IF_ERROR(CheckOwner(found.study->record(), op.by));
  if (trial.deleted) return NoSuchTrial(*found.study, op.number);
  std::map<std::string, std::string> next = trial.attributes;
  for (const auto& [key, value] : op.attributes) {
    if (value.empty()) {
      next.erase(key);
    } else {
      next[key] = value;
    }
  }
  if (next == trial.attributes) return TrialReply{trial, trial.update_seq};
  size_t bytes = 0;
  for (const auto& [key, value] : next) bytes += key.size() + value.size();
  if (next.size() > kMostAttributes) {
    return LimitExceeded(
        "attributes", kMostAttributes,
        absl::StrCat("the trial would have ", next.size(), " attributes, at most ", kMostAttributes, " are allowed"));
  }
  if (bytes > kMostAttributeBytes) {
    return LimitExceeded("attribute_bytes", kMostAttributeBytes,
                         absl::StrCat("the trial's attributes would have ", bytes, " bytes, at most ",
                                      kMostAttributeBytes, " are allowed"));
  }
  trial.attributes = std::move(next);
  storage::Event& event = found.study->AddEvent(storage::EventType::kTrialNoted, found.slot->record.get());
  event.actor = op.actor;
  found.study->MarkDirty(*found.slot->record);
  return TrialReply{trial, c.state.counters.seq};
}

}  // namespace

void Run(Context& c, RetryOp op) {
  RunOnce<storage::StoredTrials, EnqueueReply>(
      c, op, [&](const auto& stored) { return RebuildTrials(c, op.id, op.request_id, stored); },
      [&](Study& s, storage::StoredTrials* stored) {
        absl::StatusOr<EnqueueReply> reply = Retry(s, op);
        if (!reply.ok()) return reply;
        *stored = {s.record().key, {}, reply->seq, reply->trials};
        for (const study::Trial& trial : reply->trials) stored->trials.push_back(trial.number);
        return reply;
      });
}

void Run(Context& c, DeleteTrialOp op) {
  Answer<TrialReply>(c, op.done, Delete(c, op));
}

void Run(Context& c, SetAttributesOp op) {
  Answer<TrialReply>(c, op.done, SetAttributes(c, op));
}

}  // namespace luthier::coordinator
