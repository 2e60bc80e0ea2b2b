#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/gradients.h"
#include "lib/study/metrics.h"
#include "lib/study/parameters.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/messages/text.h"
#include "server/coordinator/operations/finish_checks.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/holder.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;
using storage::GrantRecord;
using storage::TrialRecord;

constexpr int kMaxIdleReleases = 20;     // Releases without progress that do not count as attempts.
constexpr size_t kMaxFreeGrants = 1000;  // Grants of a trial beyond which every release counts.
constexpr size_t kKeptTails = 32;        // Newest attempts whose output is kept: each grant writes the whole row.

// The attempt under way, and the answer to the call that ends it.
struct Ending {
  Study& s;
  TrialSlot& slot;
  FinishReply reply;
  std::string training_warning = "";  // Says which part of the result's training was dropped; empty: none.

  TrialRecord& record() const { return *slot.record; }
  study::Attempt& attempt() const { return slot.record->trial.attempts.back(); }
};

// Returns the index of the attempt that `token` belongs to; the number of attempts if it belongs to none.
size_t HolderOf(const TrialRecord& record, const std::string& token) {
  size_t holder = record.grants.size();
  for (size_t i = 0; i < record.grants.size(); ++i) {
    if (record.grants[i].token == token) holder = i;
  }
  return holder;
}

// Returns the answer to a call that was answered before; absent: it was not. FAILED_PRECONDITION CONFLICTING_REPORT for
// a call of other content. `holder` is from HolderOf.
absl::StatusOr<std::optional<FinishReply>> Repeated(const TrialRecord& record, size_t holder,
                                                    const std::string& digest) {
  if (holder == record.grants.size() || record.grants[holder].digest.empty()) return std::nullopt;
  const GrantRecord& grant = record.grants[holder];
  if (grant.digest == digest) return FinishReply{grant.reply_state, grant.reply_warnings, grant.reply_seq};
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, base::reason::kConflictingReport,
      absl::StrCat("attempt ", holder + 1, " of trial ", record.trial.number, " was ended with other content"));
}

// A result that comes too late is kept for people; models never see it.
void NoteRefused(Study& s, const TrialRecord& record, size_t holder, const study::Measurement& measurement) {
  if (!CheckMeasurement(measurement, "measurement").ok()) return;
  storage::Event& event = s.AddEvent(EventType::kReportRefused, &record);
  event.attempt = static_cast<int32_t>(holder + 1);
  event.actor = record.trial.attempts[holder].worker;
  event.detail = MetricsText(measurement);
  const auto value = measurement.metrics.find(s.spec()->metric.name);
  if (value != measurement.metrics.end()) event.value = value->second;
}

// Returns the largest step that the attempt reported to this program; 0: none.
int64_t LastReported(const TrialSlot& slot) {
  return slot.curve && !slot.curve->digests.empty() ? slot.curve->digests.rbegin()->first : 0;
}

// Writes what every ending leaves in the row: checkpoint, output and the last step.
void NoteLastWords(const Ending& e, const FinishOp& op) {
  if (const auto* complete = std::get_if<CompleteContent>(&op.content)) {
    // Many objectives give no step with their result.
    const int64_t step = complete->measurement.step;
    e.s.NoteTraining(e.slot, op.start_step, step > 0 ? step : std::numeric_limits<int64_t>::max(), step);
  }
  e.attempt().output_tail = Tail(op.output_tail);
  const int64_t reported = e.s.spec()->resource ? e.attempt().last_step : LastReported(e.slot);
  NoteCheckpoint(op.checkpoint, op.checkpoint_step, reported, &e.record().trial);
  e.s.EndLease(op.token, study::Directive::kLost);
}

// Makes the trial final by a failure of its setting.
void FailTrial(const Ending& e, const study::Failure& failure) {
  e.record().trial.failure = failure;
  e.attempt().failure = failure;
  e.s.End(e.slot, {.event = study::TrialEvent::kFail,
                   .attempt = study::AttemptOutcome::kFailed,
                   .actor = e.attempt().worker,
                   .detail = FailureText(failure.reason, failure.message)});
}

// `wrong`: from NonFiniteMetrics.
void FailNonFinite(Ending& e, const std::string& wrong) {
  study::Failure failure;
  failure.reason = study::failure::kNonFinite;
  failure.message = wrong;
  e.reply.warnings.push_back(absl::StrCat(failure.message, ": the trial counts as FAILED(CONFIG, NON_FINITE)"));
  FailTrial(e, failure);
}

// Returns the result without the parts of its training that are not legal; a warning then says so.
study::Measurement WithLegalTraining(Ending& e, const CompleteContent& content) {
  study::Measurement measurement = content.measurement;
  std::string problem = content.training_problem;
  if (const absl::Status valid = CheckTraining(measurement); !valid.ok()) {
    problem = std::string(valid.message());
    measurement.training.reset();
    measurement.gradient_seconds.reset();
  }
  if (problem.empty()) return measurement;
  e.training_warning = absl::StrCat("what it says about its training dropped, the loss is kept: ", problem);
  e.reply.warnings.push_back(e.training_warning);
  return measurement;
}

void Pause(const Ending& e, const FinishOp& op, study::Measurement measurement) {
  // The same point was often reported before.
  if (e.slot.curve->digests.count(measurement.step) == 0) {
    study::Measurement point = measurement;
    study::ClearGradients(&point);
    point.training.reset();
    e.s.AddPoint(e.slot, point);
    e.s.TellRule(op.number, point);
  }
  const bool with_checkpoint =
      !op.checkpoint.empty() && op.checkpoint_step.value_or(measurement.step) == measurement.step;
  e.s.PauseTrial(e.slot, std::move(measurement), with_checkpoint);
}

// Tells that gradients were dropped.
void NoteDropped(Ending& e, absl::string_view which, const std::string& problem) {
  e.reply.warnings.push_back(absl::StrCat(which, " dropped, the loss is kept: ", problem));
  storage::Event& event = e.s.AddEvent(EventType::kGradientDropped, &e.record());
  event.actor = e.attempt().worker;
  event.detail = problem;
}

// Returns the measurement as it is kept: gradients that can't be used are dropped, with a warning.
study::Measurement WithLegalGradients(Ending& e, const CompleteContent& content, study::Measurement measurement) {
  std::string problem = content.gradient_problem;
  if (measurement.gradient && !measurement.gradient->by_name.empty()) {
    absl::StatusOr<study::Gradient> known =
        study::FromNames(e.s.spec()->space, e.record().trial.parameters, *measurement.gradient);
    if (known.ok()) {
      measurement.gradient = *std::move(known);
    } else {
      problem = std::string(known.status().message());
    }
  }
  if (measurement.gradient && problem.empty()) {
    const int dimensions = static_cast<int>(e.s.spec()->space.differentiable().size());
    const absl::Status valid = ValidateGradient(*measurement.gradient, dimensions);
    if (!valid.ok()) problem = std::string(valid.message());
  }
  if (!problem.empty()) {
    measurement.gradient.reset();
    NoteDropped(e, "gradient", problem);
  }
  std::string of_others = content.gradients_problem;
  const absl::Status taken = study::TakeGradients(*e.s.spec(), e.record().trial.parameters, &measurement);
  if (!taken.ok()) absl::StrAppend(&of_others, of_others.empty() ? "" : "; ", std::string(taken.message()));
  if (!of_others.empty()) NoteDropped(e, "some gradients", of_others);
  return measurement;
}

std::string MissedBoundsOf(const study::StudySpec& spec, const study::Measurement& measurement) {
  const std::optional<std::vector<double>> values = study::ValuesOf(spec, measurement);
  return values ? study::MissedBounds(study::MetricsOf(spec), *values) : "";
}

void Complete(Ending& e, const CompleteContent& content, study::Measurement measurement, std::optional<double> value) {
  const bool pruned = content.pruned || e.record().trial.stop_requested;
  e.record().trial.final_measurement = WithLegalGradients(e, content, std::move(measurement));
  TrialEnd end{.event = pruned ? study::TrialEvent::kPrune : study::TrialEvent::kComplete};
  end.attempt = pruned ? study::AttemptOutcome::kPruned : study::AttemptOutcome::kComplete;
  end.actor = e.attempt().worker;
  end.detail = MetricsText(content.measurement);
  const std::string missed_bounds = MissedBoundsOf(*e.s.spec(), content.measurement);
  if (!missed_bounds.empty()) absl::StrAppend(&end.detail, "; not feasible: ", missed_bounds);
  if (!e.training_warning.empty()) absl::StrAppend(&end.detail, "; WARNING: ", e.training_warning);
  end.value = value;
  const size_t reports = e.slot.curve ? e.slot.curve->digests.size() : 0;
  const std::string missed = pruned ? "" : MissedTarget(e.record().trial, *e.s.spec(), reports);
  if (!missed.empty()) {
    absl::StrAppend(&end.detail, "; WARNING: ", missed);
    e.reply.warnings.push_back(missed);
  }
  e.s.End(e.slot, end);
}

// Lets the trial be tried again after a failure that is not its setting's.
void Retry(const Ending& e, const study::Failure& failure) {
  e.attempt().failure = failure;
  e.attempt().failure->message = Tail(failure.message);
  e.s.EndAttempt(e.record(), study::AttemptOutcome::kFailed);
  storage::Event& event = e.s.AddEvent(EventType::kTrialRetried, &e.record());
  event.actor = e.attempt().worker;
  event.detail = FailureText(failure.reason, failure.message);
  e.s.Retry(e.slot);
}

// Returns how many releases since the trial was last PAUSED came with a checkpoint of a later step than the one that
// their attempt was given.
int ReleasesWithProgress(const TrialRecord& record) {
  int progressed = 0;
  int64_t after = record.trial.checkpoint_step;
  for (size_t i = record.grants.size(); i-- > 0;) {
    const study::AttemptOutcome outcome = record.trial.attempts[i].outcome;
    if (outcome == study::AttemptOutcome::kPaused) break;
    const int64_t before = record.grants[i].checkpoint_step;
    if (outcome == study::AttemptOutcome::kReleased && after > before) ++progressed;
    after = before;
  }
  return progressed;
}

// Ends the attempt without counting it, if its checkpoint is of a later step than the one that it was given, or so few
// releases were without such progress that it need not be counted: a worker that always drains must not keep the trial
// for ever.
void Release(const Ending& e) {
  TrialRecord& record = e.record();
  e.s.EndAttempt(record, study::AttemptOutcome::kReleased);
  const bool progress = record.trial.checkpoint_step > record.grants.back().checkpoint_step;
  const int idle = record.trial.releases - ReleasesWithProgress(record) + (progress ? 1 : 0);
  const bool free = progress || idle < kMaxIdleReleases;
  if (free && record.grants.size() < kMaxFreeGrants) ++record.trial.releases;
  if (record.trial.attempts.size() > kKeptTails) {
    study::Attempt& old = record.trial.attempts[record.trial.attempts.size() - 1 - kKeptTails];
    if (old.outcome == study::AttemptOutcome::kReleased) old.output_tail.clear();
  }
  e.s.AddEvent(EventType::kTrialReleased, &record).actor = e.attempt().worker;
  e.s.Retry(e.slot);
}

// True if the trial pauses. At the last target its training is complete, and so is the trial.
bool Pauses(const Ending& e, const CompleteContent& content, std::optional<double> value) {
  if (e.record().trial.stop_requested) return false;
  return content.paused && std::isfinite(*value) && e.record().trial.target() < e.s.spec()->resource->max;
}

// Makes parameters inactive that the objective of a final trial did not ask for.
void LeaveOut(const Ending& e, const std::vector<std::string>& unused) {
  study::Trial& trial = e.record().trial;
  for (const std::string& name : unused) {
    auto node = trial.parameters.extract(name);
    if (!node.empty()) trial.unused.insert(std::move(node));
  }
}

// Adds a warning for each value of a user's setting that was not tried, because the objective did not ask for it or its
// range lacks it. The explanation of the trial says the same.
void NoteNotUsed(Ending& e) {
  const study::Trial& trial = e.record().trial;
  if (trial.provenance.origin != "enqueued" || trial.unused.empty()) return;
  constexpr size_t kMostBytes = 1000;
  std::string text;
  for (const auto& [name, value] : trial.unused) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " = ", study::FormatValue(value));
  }
  if (text.size() > kMostBytes) text = absl::StrCat(trial.unused.size(), " values");
  e.reply.warnings.push_back(absl::StrCat("the user's setting was not tried as it was added; not used: ", text,
                                          ", as the objective did not ask for it or its range lacks it"));
}

// Moves the trial to the state that the call leads to. False: the trial may go on, PENDING or PAUSED.
bool Conclude(Ending& e, const FinishOp& op, std::optional<double> value) {
  if (const auto* content = std::get_if<CompleteContent>(&op.content)) {
    study::Measurement measurement = WithLegalTraining(e, *content);
    const std::string wrong = NonFiniteMetrics(*e.s.spec(), measurement);
    if (!wrong.empty() || !Pauses(e, *content, value)) {
      LeaveOut(e, op.unused);
      NoteNotUsed(e);
    }
    if (!wrong.empty()) {
      FailNonFinite(e, wrong);
    } else if (Pauses(e, *content, value)) {
      Pause(e, op, std::move(measurement));
      return false;
    } else {
      Complete(e, *content, std::move(measurement), value);
    }
    return true;
  }
  if (const auto* failure = std::get_if<study::Failure>(&op.content)) {
    if (failure->kind != study::FailureKind::kConfig) {
      Retry(e, *failure);
      return false;
    }
    LeaveOut(e, op.unused);
    NoteNotUsed(e);
    study::Failure kept = *failure;
    kept.message = Tail(std::move(kept.message));
    FailTrial(e, kept);
    return true;
  }
  Release(e);
  return false;
}

// True if the points reported so far decide how the trial ends.
bool NeedsCurve(const Ending& e, const FinishOp& op, std::optional<double> value) {
  const auto* content = std::get_if<CompleteContent>(&op.content);
  if (content == nullptr) return e.record().trial.stop_requested;
  return e.s.spec()->stopping || e.s.spec()->resource || Pauses(e, *content, value);
}

// Keeps the reply, so that the same call gets the same answer.
void RememberReply(const Ending& e, const std::string& digest) {
  GrantRecord& grant = e.record().grants.back();
  grant.digest = digest;
  grant.reply_state = e.reply.state;
  grant.reply_warnings = e.reply.warnings;
  grant.reply_seq = e.reply.seq;
}

absl::StatusOr<FinishReply> Finish(Context& c, const FinishOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrial(c, op.id, op.number));
  Ending e{*found.study, *found.slot, {}};
  const std::string digest = DigestOf(op);
  const size_t holder = HolderOf(e.record(), op.token);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<FinishReply> repeated, Repeated(e.record(), holder, digest));
  if (repeated) return *repeated;
  if (absl::Status status = CheckHolder(e.slot, op.token); !status.ok()) {
    const auto* late = std::get_if<CompleteContent>(&op.content);
    if (late != nullptr && holder < e.record().grants.size()) {
      NoteRefused(e.s, e.record(), holder, late->measurement);
    }
    return status;
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<double> value, CheckFinish(op, e.record().trial, *e.s.spec()));
  if (!op.unused.empty() && !e.s.spec()->open_space) {
    return base::BadField("unused", "is for studies with open_space; leave it out");
  }
  if (NeedsCurve(e, op, value)) LUTHIER_RETURN_IF_ERROR(e.s.LoadCurve(e.slot));
  NoteLastWords(e, op);
  const bool ended = Conclude(e, op, value);
  e.reply.state = e.slot.state;
  e.reply.seq = c.state.counters.seq;
  RememberReply(e, digest);
  if (!ended) e.s.CompleteWhenDone();
  return e.reply;
}

}  // namespace

void Run(Context& c, FinishOp op) {
  Answer<FinishReply>(c, op.done, Finish(c, op));
}

}  // namespace luthier::coordinator
