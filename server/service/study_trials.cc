#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "luthier/v1/study_service.pb.h"
#include "server/service/lookup.h"
#include "server/service/methods.h"
#include "server/service/pages.h"
#include "server/service/trial_filter.h"

// Calls of StudyService for trials.
namespace luthier::service {
namespace {

constexpr size_t kMaxReplyBytes = size_t{4} << 20;
constexpr size_t kMaxCurveBytes = size_t{2} << 20;  // Beyond it points are cut short: 10,000 take below 1.1 MiB then.
constexpr size_t kMostJoined = 10'000;              // Points of a curve over several attempts.
constexpr int kMaxEnqueued = 1000;
constexpr int kMaxAttributeBytes = 64 << 10;
constexpr size_t kMaxListedAttribute = 1024;

// Marks the trials, which are in order of number, whose gradients were set aside.
absl::Status MarkSetAside(storage::Storage* storage, storage::StudyKey study,
                          google::protobuf::RepeatedPtrField<v1::Trial>* trials) {
  if (trials->empty()) return absl::OkStatus();
  std::set<int64_t> numbers;
  // A page of trials may span many numbers, but seldom many that were set aside.
  for (int64_t last = trials->begin()->number() - 1; last < trials->rbegin()->number();) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page, storage->ListSetAside(study, last, kMaxPage));
    for (const storage::SetAside& entry : page) numbers.insert(last = entry.trial);
    if (page.size() < kMaxPage) break;
  }
  for (v1::Trial& trial : *trials) trial.set_gradient_set_aside(numbers.count(trial.number()) > 0);
  return absl::OkStatus();
}

// Returns the trial as lists show it: without long attributes.
v1::Trial ListedTrial(const storage::StudyRecord& study, const study::Trial& row) {
  v1::Trial message = wire::ToProto(row, study.id);
  if (const std::optional<bool> feasible = FeasibleOf(study.spec, row)) message.set_feasible(*feasible);
  v1::Trial* const trial = &message;
  for (auto it = trial->mutable_attributes()->begin(); it != trial->mutable_attributes()->end();) {
    if (it->second.size() <= kMaxListedAttribute) {
      ++it;
      continue;
    }
    trial->add_attributes_left_out(it->first);
    it = trial->mutable_attributes()->erase(it);
  }
  std::sort(trial->mutable_attributes_left_out()->begin(), trial->mutable_attributes_left_out()->end());
  return message;
}

// Adds trials with numbers above `after` until `page_size` or the bytes of a page are reached. Reads few rows at a
// time, so that memory holds no more of them than the page will have. True: there are more.
absl::StatusOr<bool> FillPage(storage::Storage* storage, const storage::StudyRecord& study,
                              const storage::TrialFilter& filter, int64_t after, int page_size,
                              v1::ListTrialsResponse* response) {
  constexpr int kAtATime = 16;
  PageFill fill(page_size);
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> rows,
                             storage->ListTrials(study.key, filter, after, kAtATime));
    for (const storage::TrialRecord& row : rows) {
      after = row.trial.number;
      if (row.trial.deleted) continue;
      v1::Trial trial = ListedTrial(study, row.trial);
      if (!fill.Takes(trial)) return true;
      *response->add_trials() = std::move(trial);
    }
    if (rows.size() < kAtATime) return false;
  }
}

// Adds the trials that a filter selects, in its order. Returns the place of the last one if there are more, else "".
// Each trial is read a moment after it was selected.
absl::StatusOr<std::string> FillSelected(storage::Storage* storage, const storage::StudyRecord& study,
                                         const std::vector<TrialTable::Selected>& selected, int page_size,
                                         v1::ListTrialsResponse* response) {
  PageFill fill(page_size);
  std::string last;
  for (const TrialTable::Selected& entry : selected) {
    const absl::StatusOr<storage::TrialRecord> row = storage->GetTrial(study.key, entry.number);
    if (absl::IsNotFound(row.status())) continue;
    LUTHIER_RETURN_IF_ERROR(row.status());
    if (row->trial.deleted) continue;
    v1::Trial trial = ListedTrial(study, row->trial);
    if (!fill.Takes(trial)) return last;
    last = entry.place;
    *response->add_trials() = std::move(trial);
  }
  // One trial more than the page has was selected, and some may have been deleted meanwhile.
  if (selected.size() > static_cast<size_t>(page_size)) return selected.back().place;
  return std::string();
}

// Answers ListTrials with a filter or an order. `query` identifies the query in page tokens.
absl::Status ListSelected(storage::Storage* storage, TrialTables* tables, const storage::StudyRecord& study,
                          const v1::ListTrialsRequest& request, const storage::TrialFilter& states,
                          const std::string& query, v1::ListTrialsResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LUTHIER_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(request.filter()));
  LUTHIER_RETURN_IF_ERROR(filter.Check(study.spec.space));
  TrialTable::Wanted wanted;
  wanted.filter = &filter;
  wanted.states = states.states;
  LUTHIER_ASSIGN_OR_RETURN(wanted.order, ParseOrder(request.order_by(), study.spec.space));
  LUTHIER_ASSIGN_OR_RETURN(wanted.after, ParsePageToken(query, request.page_token()));
  wanted.limit = static_cast<size_t>(page_size) + 1;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialTable::Selected> selected, tables->Select(storage, study, wanted));
  LUTHIER_ASSIGN_OR_RETURN(const std::string last, FillSelected(storage, study, selected, page_size, response));
  if (!last.empty()) response->set_next_page_token(MakePageToken(query, last));
  return absl::OkStatus();
}

absl::Status TrialsHaveGrown() {
  return base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kMessageTooLarge,
                         "these trials were added before, and what is known of them by now is larger than a message; "
                         "list the study's trials instead");
}

absl::Status FillTrials(const std::string& study, const coordinator::EnqueueReply& reply,
                        v1::EnqueueTrialsResponse* response) {
  for (const study::Trial& trial : reply.trials) *response->add_trials() = wire::ToProto(trial, study);
  response->set_seq(reply.seq);
  // A repeated call gets the trials as they are now: they may have grown.
  return response->ByteSizeLong() <= kMaxReplyBytes ? absl::OkStatus() : TrialsHaveGrown();
}

// Checks names and values. The limit on all attributes of a trial together is checked with the operation.
void TakeAttributes(const google::protobuf::Map<std::string, std::string>& attributes, const std::string& at,
                    std::map<std::string, std::string>* taken, base::Violations* violations) {
  if (attributes.size() > 64) violations->Add(at, "has more than 64 entries");
  size_t bytes = 0;
  for (const auto& [key, value] : attributes) {
    violations->AddAll("", study::ValidateText(at, key, 64, false));
    violations->AddAll(
        "", study::ValidateText(absl::StrCat(at, " (", base::Quote(key), ")"), value, kMaxAttributeBytes, true));
    bytes += key.size() + value.size();
    (*taken)[key] = value;
  }
  if (bytes > 4 * kMaxAttributeBytes) {
    violations->Add(at, absl::StrCat("has ", bytes, " bytes; at most ", 4 * kMaxAttributeBytes, " are allowed"));
  }
}

// Reads the fields of an imported trial.
coordinator::ImportedTrial Imported(const v1::Trial& message, const std::string& source, const std::string& at,
                                    base::Violations* violations) {
  coordinator::ImportedTrial trial;
  const auto take = [&](auto value, const char* field, auto* out) {
    if (value.ok()) {
      *out = *std::move(value);
    } else {
      violations->AddAll(absl::StrCat(at, ".", field), value.status());
    }
  };
  take(wire::FromProto(message.parameters()), "parameters", &trial.parameters);
  const absl::StatusOr<study::TrialState> state = wire::FromProto(message.state());
  if (state.ok() && (*state == study::TrialState::kComplete || *state == study::TrialState::kPruned ||
                     *state == study::TrialState::kFailed)) {
    trial.state = *state;
  } else {
    violations->Add(at + ".state", "is not COMPLETE, PRUNED or FAILED; only results can be imported");
  }
  if (message.has_final_measurement()) {
    take(wire::FromProto(message.final_measurement()), "final_measurement", &trial.measurement);
  }
  for (int k = 0; k < message.measurements_size(); ++k) {
    study::Measurement point;
    take(wire::FromProto(message.measurements(k)), absl::StrCat("measurements[", k, "]").c_str(), &point);
    point.gradient.reset();
    trial.curve.push_back(std::move(point));
  }
  if (trial.state == study::TrialState::kFailed) {
    trial.failure = study::Failure{study::FailureKind::kConfig, "IMPORTED", ""};
    if (message.has_failure()) take(wire::FromProto(message.failure()), "failure", &trial.failure);
    if (trial.failure) trial.failure->kind = study::FailureKind::kConfig;
  }
  TakeAttributes(message.attributes(), at + ".attributes", &trial.attributes, violations);
  if (!source.empty()) trial.attributes.try_emplace("luthier.source", source);
  if (message.has_create_time()) take(wire::FromProto(message.create_time()), "create_time", &trial.create_time);
  if (message.has_end_time()) take(wire::FromProto(message.end_time()), "end_time", &trial.end_time);
  return trial;
}

// Leaves `most` points of a curve, spread evenly, the first and the last among them; 0: all.
void Thin(size_t most, std::vector<study::Measurement>* curve) {
  if (most == 0 || curve->size() <= most) return;
  const size_t last = curve->size() - 1;
  for (size_t i = 0; i < most; ++i) {
    const size_t from = i * last / (most - 1);
    if (from != i) (*curve)[i] = std::move((*curve)[from]);
  }
  curve->resize(most);
}

// Returns the learning curve of the newest attempt. Where that one went on from a step of an earlier attempt, the
// points up to that step come first, so that the curve of a trial that was paused and promoted is whole.
absl::StatusOr<std::vector<study::Measurement>> CurveOf(storage::Storage* storage, const storage::StudyRecord& study,
                                                        const study::Trial& trial) {
  // An imported trial has no attempts; its curve is that of number 0.
  if (trial.attempts.empty()) return storage->ListMeasurements(study.key, trial.number, 0);
  std::vector<std::vector<study::Measurement>> parts;  // The last one first.
  int64_t below = std::numeric_limits<int64_t>::max();
  for (auto attempt = trial.attempts.rbegin(); attempt != trial.attempts.rend() && below > 0; ++attempt) {
    if (study.spec.resource && attempt->last_step == 0) continue;  // It has reported nothing.
    LUTHIER_ASSIGN_OR_RETURN(std::vector<study::Measurement> part,
                             storage->ListMeasurements(study.key, trial.number, attempt->number));
    std::erase_if(part, [&](const study::Measurement& m) { return m.step > below; });
    parts.push_back(std::move(part));
    below = std::min(below, attempt->start_step);
  }
  std::vector<study::Measurement> curve;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::move(part->begin(), part->end(), std::back_inserter(curve));
  }
  if (parts.size() > 1) Thin(kMostJoined, &curve);  // Imports take no more.
  return curve;
}

absl::Status GetTrial(const Call& call, const v1::GetTrialRequest& request, v1::Trial* response) {
  storage::Storage* const storage = call.backend().storage;
  LUTHIER_ASSIGN_OR_RETURN(const wire::TrialId id, call.name().Trial());
  if (request.max_measurements() < 0 || request.max_measurements() == 1) {
    return base::BadField("max_measurements",
                          absl::StrCat(request.max_measurements(), " is neither 0, for all, nor at least 2"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id.study));
  LUTHIER_ASSIGN_OR_RETURN(const storage::TrialRecord record, FindTrial(storage, study, id.number));
  LUTHIER_ASSIGN_OR_RETURN(*response, ReadTrial(storage, study, record));
  if (!request.with_measurements()) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(std::vector<study::Measurement> curve, CurveOf(storage, study, record.trial));
  Thin(static_cast<size_t>(request.max_measurements()), &curve);
  size_t bytes = response->ByteSizeLong();
  for (const study::Measurement& m : curve) {
    v1::Measurement point = wire::ToProto(m);
    // Gradients and many metrics along a long curve may not fit; the values of the study's first objective do.
    if (bytes + point.ByteSizeLong() > kMaxCurveBytes) {
      point.clear_gradient();
      point.clear_gradients();
    }
    if (bytes + point.ByteSizeLong() > kMaxCurveBytes) {
      const auto value = m.metrics.find(study.spec.metric.name);
      point.clear_metrics();
      if (value != m.metrics.end()) (*point.mutable_metrics())[value->first] = value->second;
    }
    bytes += point.ByteSizeLong();
    *response->add_measurements() = std::move(point);
  }
  return absl::OkStatus();
}

bool Selects(const v1::ListTrialsRequest& request) {
  return !request.filter().empty() || !request.order_by().empty();
}

absl::Status ListTrials(const Call& call, const v1::ListTrialsRequest& request, v1::ListTrialsResponse* response) {
  storage::Storage* const storage = call.backend().storage;
  const bool selects = Selects(request);
  LUTHIER_ASSIGN_OR_RETURN(const std::string id, call.name().Study());
  LUTHIER_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  storage::TrialFilter filter;
  std::string query = absl::StrCat("trials ", id);
  for (const int state : request.states()) {
    const absl::StatusOr<study::TrialState> parsed = wire::FromProto(static_cast<v1::Trial::State>(state));
    if (!parsed.ok()) return base::BadField("states", absl::StrCat(state, " is not a state of a trial"));
    filter.states.push_back(*parsed);
    absl::StrAppend(&query, " ", state);
  }
  if (selects) absl::StrAppend(&query, " filter ", request.filter(), " order ", request.order_by());
  LUTHIER_ASSIGN_OR_RETURN(const std::string position, ParsePageToken(query, request.page_token()));
  int64_t after = 0;
  if (!selects && !position.empty() && !absl::SimpleAtoi(position, &after)) {
    return base::BadField("page_token", absl::StrCat(base::Quote(request.page_token()), " is not a token of ours"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id));
  if (selects) {
    LUTHIER_RETURN_IF_ERROR(ListSelected(storage, &call.kept().tables, study, request, filter, query, response));
    return MarkSetAside(storage, study.key, response->mutable_trials());
  }
  LUTHIER_ASSIGN_OR_RETURN(const bool more, FillPage(storage, study, filter, after, page_size, response));
  if (more) {
    response->set_next_page_token(MakePageToken(query, absl::StrCat(response->trials().rbegin()->number())));
  }
  return MarkSetAside(storage, study.key, response->mutable_trials());
}

// Checks the fields that EnqueueTrials and ImportTrials share.
template <typename Request>
absl::StatusOr<std::string> ParseNewTrials(const Call& call, const Request& request, base::Violations* violations) {
  absl::StatusOr<std::string> id = call.name().Study();
  violations->AddAll("", id.status());
  violations->AddAll("", CheckRequestId(request.request_id()));
  if (request.trials_size() < 1 || request.trials_size() > kMaxEnqueued) {
    violations->Add("trials", absl::StrCat("has ", request.trials_size(), " entries, not 1 to ", kMaxEnqueued));
  }
  return id;
}

absl::StatusOr<coordinator::EnqueueOp> ParseEnqueue(const Call& call, const v1::EnqueueTrialsRequest& request) {
  base::Violations violations;
  const absl::StatusOr<std::string> id = ParseNewTrials(call, request, &violations);
  coordinator::EnqueueOp op;
  for (int i = 0; i < request.trials_size() && i < kMaxEnqueued; ++i) {
    const std::string at = absl::StrCat("trials[", i, "]");
    coordinator::NewTrial trial;
    absl::StatusOr<study::Parameters> parameters = wire::FromProto(request.trials(i).parameters());
    if (!parameters.ok())
      violations.AddAll(at + ".parameters", parameters.status());
    else
      trial.parameters = *std::move(parameters);
    TakeAttributes(request.trials(i).attributes(), at + ".attributes", &trial.attributes, &violations);
    op.trials.push_back(std::move(trial));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  op.id = *id;
  return op;
}

absl::StatusOr<coordinator::ImportOp> ParseImport(const Call& call, const v1::ImportTrialsRequest& request) {
  base::Violations violations;
  const absl::StatusOr<std::string> id = ParseNewTrials(call, request, &violations);
  violations.AddAll("", study::ValidateText("source", request.source(), 1024, false));
  coordinator::ImportOp op;
  for (int i = 0; i < request.trials_size() && i < kMaxEnqueued; ++i) {
    op.trials.push_back(Imported(request.trials(i), request.source(), absl::StrCat("trials[", i, "]"), &violations));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  op.id = *id;
  return op;
}

void FillImported(const std::string&, const coordinator::ImportReply& reply, v1::ImportTrialsResponse* response) {
  response->mutable_numbers()->Assign(reply.numbers.begin(), reply.numbers.end());
  response->set_seq(reply.seq);
}

absl::StatusOr<coordinator::RetryOp> ParseRetry(const Call& call, const v1::RetryTrialsRequest& request) {
  base::Violations violations;
  const absl::StatusOr<std::string> id = call.name().Study();
  violations.AddAll("", id.status());
  violations.AddAll("", CheckRequestId(request.request_id()));
  if (request.numbers_size() > kMaxEnqueued) {
    violations.Add("numbers", absl::StrCat("has ", request.numbers_size(), " entries, at most ", kMaxEnqueued));
  }
  if (request.numbers().empty() != request.all_failed()) {
    violations.Add("numbers", request.all_failed() ? "and all_failed exclude each other"
                                                   : "is empty; name the trials, or set all_failed");
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  coordinator::RetryOp op;
  op.id = *id;
  op.numbers.assign(request.numbers().begin(), request.numbers().end());
  op.limit = kMaxEnqueued;
  return op;
}

// An operation on one trial.
template <typename Op, typename Request>
absl::StatusOr<Op> ParseOnTrial(const Call& call, const Request&) {
  LUTHIER_ASSIGN_OR_RETURN(wire::TrialId id, call.name().Trial());
  Op op;
  op.id = std::move(id.study);
  op.number = id.number;
  return op;
}

absl::StatusOr<coordinator::SetAttributesOp> ParseSetAttributes(const Call& call,
                                                                const v1::SetAttributesRequest& request) {
  base::Violations violations;
  absl::StatusOr<coordinator::SetAttributesOp> op = ParseOnTrial<coordinator::SetAttributesOp>(call, request);
  violations.AddAll("", op.status());
  std::map<std::string, std::string> attributes;
  TakeAttributes(request.attributes(), "attributes", &attributes, &violations);
  if (request.attributes().empty()) violations.Add("attributes", "is empty; give at least one");
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  op->attributes = std::move(attributes);
  return op;
}

void FillTrial(const std::string& study, const coordinator::TrialReply& reply, v1::Trial* response) {
  *response = wire::ToProto(reply.trial, study);
}

void FillDeletedTrial(const std::string&, const coordinator::TrialReply& reply, v1::DeleteTrialResponse* response) {
  response->set_seq(reply.seq);
}

}  // namespace

std::vector<Method> TrialMethods() {
  using access::Right;
  using coordinator::CancelTrialOp, coordinator::DeleteTrialOp, coordinator::StopTrialOp;
  return {
      Read("StudyService/GetTrial", Right::kSee, GetTrial),
      Read("StudyService/ListTrials", Right::kRead, ListTrials, Selects),
      Operation("StudyService/EnqueueTrials", Right::kWrite, Admission::kWork, ParseEnqueue, FillTrials),
      Operation("StudyService/ImportTrials", Right::kWrite, Admission::kWork, ParseImport, FillImported),
      Operation("StudyService/RetryTrials", Right::kWrite, Admission::kWork, ParseRetry, FillTrials),
      Operation("StudyService/SetAttributes", Right::kWrite, Admission::kWork, ParseSetAttributes, FillTrial),
      Operation("StudyService/DeleteTrial", Right::kWrite, Admission::kEnding,
                ParseOnTrial<DeleteTrialOp, v1::DeleteTrialRequest>, FillDeletedTrial),
      Operation("StudyService/CancelTrial", Right::kWrite, Admission::kEnding,
                ParseOnTrial<CancelTrialOp, v1::CancelTrialRequest>, FillTrial),
      Operation("StudyService/StopTrial", Right::kWrite, Admission::kEnding,
                ParseOnTrial<StopTrialOp, v1::StopTrialRequest>, FillTrial),
  };
}

}  // namespace luthier::service
