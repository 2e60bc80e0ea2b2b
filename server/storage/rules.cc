#include "server/storage/rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"

namespace luthier::storage {
namespace {

constexpr uint64_t kMaxStoredUnsigned = std::numeric_limits<int64_t>::max();  // SQL integers are signed.
constexpr size_t kMaxRequestId = 64;

absl::Status CheckSeq(absl::string_view what, uint64_t seq) {
  if (seq <= kMaxStoredUnsigned) return absl::OkStatus();
  return Violation(absl::StrCat(what, " ", seq, " is above 2^63 - 1"));
}

template <typename E>
absl::Status CheckEnum(absl::string_view what, E value, E first, E last) {
  if (value >= first && value <= last) return absl::OkStatus();
  return Violation(absl::StrCat(what, " has no value ", static_cast<int>(value)));
}

absl::Status CheckKey(StudyKey key) {
  return key >= 1 ? absl::OkStatus() : Violation(absl::StrCat("study key ", key, " is below 1"));
}

absl::Status CheckTrialNumber(int64_t number) {
  return number >= 1 ? absl::OkStatus() : Violation(absl::StrCat("trial number ", number, " is below 1"));
}

absl::Status Check(const PutStudy& put) {
  const StudyRecord& r = put.record;
  LUTHIER_RETURN_IF_ERROR(CheckKey(r.key));
  if (r.id.empty()) return Violation("a study's id is empty");
  LUTHIER_RETURN_IF_ERROR(CheckEnum("StudyState", r.state, study::StudyState::kActive, study::StudyState::kCompleted));
  LUTHIER_RETURN_IF_ERROR(CheckSeq("create_seq", r.create_seq));
  LUTHIER_RETURN_IF_ERROR(CheckSeq("update_seq", r.update_seq));
  return CheckSeq("resume_seq", r.resume_seq);
}

absl::Status Check(const DeleteStudy& deletion) {
  return CheckKey(deletion.key);
}

absl::Status Check(const HideStudy& hiding) {
  return CheckKey(hiding.key);
}

absl::Status Check(const UnhideStudy& unhiding) {
  if (unhiding.id.empty()) return Violation("a study's id is empty");
  return CheckKey(unhiding.key);
}

absl::Status Check(const PutFormerSpec& put) {
  LUTHIER_RETURN_IF_ERROR(CheckKey(put.study));
  return CheckSeq("until_seq", put.former.until_seq);
}

absl::Status Check(const PutTrial& put) {
  LUTHIER_RETURN_IF_ERROR(CheckTrialNumber(put.record.trial.number));
  LUTHIER_RETURN_IF_ERROR(
      CheckEnum("TrialState", put.record.trial.state, study::TrialState::kPending, study::TrialState::kPaused));
  LUTHIER_RETURN_IF_ERROR(CheckSeq("create_seq", put.record.create_seq));
  return CheckSeq("finish_seq", put.record.finish_seq);
}

absl::Status Check(const PutMeasurement& put) {
  return CheckTrialNumber(put.record.trial);
}

absl::Status Check(const AppendEvent& append) {
  LUTHIER_RETURN_IF_ERROR(CheckSeq("event seq", append.event.seq));
  if (append.event.type == EventType::kStudyUndeleted) return absl::OkStatus();
  return CheckEnum("EventType", append.event.type, EventType::kStudyCreated, EventType::kNoiseFound);
}

absl::Status CheckRequest(const RequestRecord& record) {
  const StoredReply& reply = record.reply;
  if (std::holds_alternative<LegacyReply>(reply) || std::holds_alternative<DamagedReply>(reply)) {
    return Violation("a reply without a type");
  }
  if (!record.id.empty() && record.id.size() <= kMaxRequestId) return absl::OkStatus();
  return Violation(absl::StrCat("a request's id has ", record.id.size(), " bytes, not 1 to ", kMaxRequestId));
}

absl::Status Check(const PutRequest& put) {
  return CheckRequest(put.record);
}

absl::Status Check(const ChangeRequest& change) {
  return CheckRequest(change.record);
}

absl::Status Check(const ForgetRequestsBefore&) {
  return absl::OkStatus();
}

absl::Status Check(const SetUptime&) {
  return absl::OkStatus();
}

absl::Status Check(const SetFence& set) {
  return CheckSeq("fence", set.fence);
}

}  // namespace

absl::Status Violation(absl::string_view what) {
  return base::MakeError(absl::StatusCode::kInternal, base::reason::kBug, absl::StrCat("storage: ", what));
}

absl::Status CheckMutation(const Mutation& mutation) {
  return std::visit([](const auto& m) { return Check(m); }, mutation);
}

absl::Status Counters::TakeSeq(uint64_t next) {
  if (next <= seq) return Violation(absl::StrCat("event seq ", next, " is not above ", seq));
  seq = next;
  return absl::OkStatus();
}

absl::Status Counters::TakeFence(uint64_t next) {
  if (next < fence) return Violation(absl::StrCat("the fence would go down from ", fence, " to ", next));
  fence = next;
  return absl::OkStatus();
}

absl::Status Counters::TakeUptime(absl::Duration next) {
  if (next < uptime) {
    return Violation(absl::StrCat("the uptime would go down from ", absl::FormatDuration(uptime), " to ",
                                  absl::FormatDuration(next)));
  }
  uptime = next;
  return absl::OkStatus();
}

absl::Status Counters::TakeNewStudy(StudyKey next, StudyKey before) {
  if (next <= before) return Violation(absl::StrCat("study key ", next, " was used before"));
  key = std::max(key, next);
  return absl::OkStatus();
}

void Counters::TakeDeletedStudy(StudyKey deleted) {
  key = std::max(key, deleted);
}

absl::Status CheckSameStudy(const std::string& stored_id, const study::StudySpec& stored_spec,
                            const StudyRecord& next) {
  const bool same = stored_spec.metric.name == next.spec.metric.name && stored_spec.metrics == next.spec.metrics;
  if (stored_id == next.id && same) return absl::OkStatus();
  return Violation(absl::StrCat("the id or the metrics of study ", base::Quote(stored_id), " would change"));
}

absl::Status NoSuchRequest(const std::string& id) {
  return Violation(absl::StrCat("request id ", base::Quote(id), " is not stored"));
}

absl::Status NotThereToHide(StudyKey study) {
  return Violation(absl::StrCat("study key ", study, " is not there to be hidden"));
}

absl::Status NotHidden(StudyKey study) {
  return Violation(absl::StrCat("study key ", study, " is not hidden"));
}

absl::Status TrialWithoutStudy(StudyKey study) {
  return Violation(absl::StrCat("a trial of study key ", study, ", which is not stored"));
}

absl::Status MeasurementWithoutTrial(int64_t trial) {
  return Violation(absl::StrCat("a measurement of trial ", trial, ", which is not stored"));
}

absl::Status FinalTrialWouldChange(int64_t number) {
  return Violation(absl::StrCat("the state of final trial ", number, " would change"));
}

std::optional<double> RankedValue(const TrialRecord& record, const study::StudySpec& spec) {
  if (record.trial.state != study::TrialState::kComplete || !record.trial.final_measurement) return std::nullopt;
  if (study::IsRemoved(record.trial)) return std::nullopt;
  const std::optional<std::vector<double>> values = study::ValuesOf(spec, *record.trial.final_measurement);
  if (!values || !study::IsFeasible(study::MetricsOf(spec), *values)) return std::nullopt;
  return record.trial.final_measurement->metrics.at(spec.metric.name) + 0.0;  // -0.0 becomes 0.0, as in SQL's columns.
}

TrialSketch SketchOf(const TrialRecord& record, const study::StudySpec& spec) {
  TrialSketch sketch;
  sketch.number = record.trial.number;
  sketch.state = record.trial.state;
  sketch.finish_seq = record.finish_seq;
  sketch.value = RankedValue(record, spec);
  sketch.removed = study::IsRemoved(record.trial);
  sketch.asks = static_cast<int64_t>(record.trial.promotions.size()) + (record.trial.provenance.ask_index ? 1 : 0);
  return sketch;
}

std::optional<study::TrainingOutcome> CountedTraining(const TrialRecord& record) {
  if (record.trial.state != study::TrialState::kComplete || !record.trial.final_measurement) return std::nullopt;
  if (study::IsRemoved(record.trial)) return std::nullopt;
  const std::optional<study::TrainingReport>& training = record.trial.final_measurement->training;
  return training ? std::optional(training->outcome) : std::nullopt;
}

absl::Status NoSuchStudy(const std::string& id) {
  return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                         absl::StrCat("there is no study ", base::Quote(id)));
}

absl::Status NoSuchTrial(StudyKey study, int64_t number) {
  return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                         absl::StrCat("the study (key ", study, ") has no trial ", number));
}

}  // namespace luthier::storage
