#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/search/registry.h"
#include "lib/wire/convert.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/service/explanation.h"
#include "server/service/lookup.h"
#include "server/service/methods.h"
#include "server/service/pages.h"
#include "server/service/trial_table.h"
#include "server/service/watch.h"

// Calls of StudyService that only read: tables, the log, importance, predictions.
namespace luthier::service {
namespace {

// Returns the study and, if `name` is that of a trial, its number; else 0.
absl::StatusOr<wire::TrialId> StudyOrTrial(const wire::ResourceName& name) {
  absl::StatusOr<wire::TrialId> trial = name.Trial();
  if (trial.ok()) return trial;
  LUTHIER_ASSIGN_OR_RETURN(std::string id, name.Study());
  return wire::TrialId{std::move(id), 0};
}

constexpr size_t kMostEventsLooked = 20'000;  // Largest number of events that one call reads to find those of a trial.

// Fills a page with events; returns the position of the next one, or 0.
absl::StatusOr<uint64_t> FillEvents(storage::Storage* storage, storage::StudyKey study, int64_t trial,
                                    bool oldest_first, uint64_t position, int page_size,
                                    v1::ListEventsResponse* response) {
  for (size_t looked = 0; looked < kMostEventsLooked;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::Event> events,
                             oldest_first ? storage->ListEvents(study, position, kMaxPage)
                                          : storage->ListEventsBefore(study, position, kMaxPage));
    for (const storage::Event& event : events) {
      if (trial == 0 || event.trial == trial) {
        if (response->events_size() == page_size) return position;
        *response->add_events() = ToMessage(event);
      }
      position = event.seq;
    }
    looked += events.size();
    if (events.size() < static_cast<size_t>(kMaxPage)) return 0;
  }
  return position;
}

// Returns the settings in their canonical form. In an open space they have only the parameters that were given.
absl::StatusOr<std::vector<study::Parameters>> ReadSettings(
    const study::SearchSpace& space, const google::protobuf::RepeatedPtrField<google::protobuf::Struct>& settings) {
  base::Violations violations;
  std::vector<study::Parameters> out;
  for (int i = 0; i < settings.size(); ++i) {
    const std::string at = absl::StrCat("settings[", i, "]");
    absl::StatusOr<study::Parameters> setting = wire::FromProto(settings[i]);
    if (setting.ok()) setting = space.Canonical(*setting);
    if (!setting.ok()) {
      violations.AddAll(at, setting.status());
      continue;
    }
    out.push_back(*std::move(setting));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return out;
}

constexpr int kMaxSettings = 1000;

absl::Status Predict(const Call& call, const v1::PredictRequest& request, v1::PredictResponse* response) {
  const Backend& backend = call.backend();
  storage::Storage* const storage = backend.storage;
  LUTHIER_ASSIGN_OR_RETURN(const std::string id, call.name().Study());
  if (request.settings_size() < 1 || request.settings_size() > kMaxSettings) {
    return base::BadField("settings",
                          absl::StrCat("has ", request.settings_size(), " entries, not 1 to ", kMaxSettings));
  }
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id));
  const uint64_t seq = request.at_seq() == 0 ? study.update_seq : request.at_seq();
  if (seq > study.update_seq || seq < study.create_seq) {
    return base::BadField("at_seq", absl::StrCat(seq, " is not between the study's first event, ", study.create_seq,
                                                 ", and its newest, ", study.update_seq));
  }
  LUTHIER_ASSIGN_OR_RETURN(const coordinator::SpecHistory specs, coordinator::SpecHistory::Read(storage, study));
  const study::StudySpec spec = specs.At(seq);
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<study::Parameters> settings, ReadSettings(spec.space, request.settings()));
  LUTHIER_ASSIGN_OR_RETURN(const MemoryGuard::Promise memory, backend.TakeForHistory(study));
  LUTHIER_ASSIGN_OR_RETURN(study::History history, coordinator::HistoryAt(storage, study.key, spec, seq));
  if (spec.open_space) history.ExtendGradients(spec.space.differentiable().size());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<search::Prediction> predictions,
                           search::CreateDesigner(spec)->Predict(history, settings, base::StopToken()));
  for (const search::Prediction& prediction : predictions) {
    v1::PredictResponse::Prediction& out = *response->add_predictions();
    out.set_mean(prediction.mean);
    out.set_sd(prediction.sd);
    if (prediction.p_success) out.set_p_success(*prediction.p_success);
  }
  response->set_seq(seq);
  return absl::OkStatus();
}

absl::Status GetTrialTable(const Call& call, const v1::GetTrialTableRequest& request,
                           v1::GetTrialTableResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string id, call.name().Study());
  return call.kept().tables.Read(call.backend().storage, id, request, response);
}

absl::Status ListEvents(const Call& call, const v1::ListEventsRequest& request, v1::ListEventsResponse* response) {
  storage::Storage* const storage = call.backend().storage;
  LUTHIER_ASSIGN_OR_RETURN(const wire::TrialId id, StudyOrTrial(call.name()));
  LUTHIER_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  const std::string query = absl::StrCat("events ", request.name(), request.oldest_first() ? " oldest" : "");
  LUTHIER_ASSIGN_OR_RETURN(const std::string position, ParsePageToken(query, request.page_token()));
  uint64_t from = request.oldest_first() ? 0 : std::numeric_limits<uint64_t>::max();
  if (!position.empty() && !absl::SimpleAtoi(position, &from)) {
    return base::BadField("page_token", absl::StrCat(base::Quote(request.page_token()), " is not a token of ours"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id.study));
  LUTHIER_ASSIGN_OR_RETURN(const uint64_t next, FillEvents(storage, study.key, id.number, request.oldest_first(), from,
                                                           page_size, response));
  if (next != 0) response->set_next_page_token(MakePageToken(query, absl::StrCat(next)));
  return absl::OkStatus();
}

absl::Status GetImportance(const Call& call, const v1::GetImportanceRequest& request,
                           v1::GetImportanceResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string id, call.name().Study());
  return call.kept().importances.Read(call.backend().storage, id, request, response);
}

// Computing takes seconds, so only one thread does it, and the others go on.
template <auto compute, typename Request, typename Response>
absl::Status OneAtATime(const Call& call, const Request& request, Response* response) {
  if (call.kept().computing.exchange(true)) return Busy(call.backend(), "models");
  const absl::Status status = compute(call, request, response);
  call.kept().computing = false;
  return status;
}

absl::Status ExplainTrial(const Call& call, const v1::ExplainTrialRequest&, v1::ExplainTrialResponse* response) {
  storage::Storage* const storage = call.backend().storage;
  LUTHIER_ASSIGN_OR_RETURN(const wire::TrialId id, call.name().Trial());
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord study, FindStudy(storage, id.study));
  LUTHIER_ASSIGN_OR_RETURN(const storage::TrialRecord record, FindTrial(storage, study, id.number));
  LUTHIER_ASSIGN_OR_RETURN(v1::Trial trial, ReadTrial(storage, study, record));
  *response = Explain(study.spec.metric.name, std::move(trial), UnusedOf(study.spec, record.trial));
  ExplainMetrics(study.spec, record.trial, response);
  return absl::OkStatus();
}

absl::Status ListWorkers(const Call& call, const v1::ListWorkersRequest& request, v1::ListWorkersResponse* response) {
  const Backend& backend = call.backend();
  LUTHIER_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LUTHIER_ASSIGN_OR_RETURN(const std::string project, call.Project());
  LUTHIER_ASSIGN_OR_RETURN(const std::string after, ParsePageToken("workers", request.page_token()));
  if (backend.workers == nullptr) return absl::OkStatus();
  const auto limit = static_cast<size_t>(page_size);
  std::vector<WorkerLog::Worker> workers = backend.workers->List(project, after, limit + 1);
  if (workers.size() > limit) {
    workers.pop_back();
    response->set_next_page_token(MakePageToken("workers", workers.back().name));
  }
  const std::unordered_map<std::string, int> leases = backend.coordinator->CountLeases();
  for (const WorkerLog::Worker& worker : workers) {
    v1::Worker& out = *response->add_workers();
    out.set_name(worker.name);
    *out.mutable_first_seen() = wire::ToProto(worker.first_seen);
    *out.mutable_last_seen() = wire::ToProto(worker.last_seen);
    const auto held = leases.find(worker.name);
    out.set_leases(held == leases.end() ? 0 : held->second);
    const auto ended = [&](WorkerLog::Outcome outcome) { return worker.ended[static_cast<size_t>(outcome)]; };
    out.set_granted(worker.granted);
    out.set_completed(ended(WorkerLog::Outcome::kCompleted));
    out.set_pruned(ended(WorkerLog::Outcome::kPruned));
    out.set_paused(ended(WorkerLog::Outcome::kPaused));
    out.set_failed(ended(WorkerLog::Outcome::kFailed));
    out.set_released(ended(WorkerLog::Outcome::kReleased));
    out.set_expired(ended(WorkerLog::Outcome::kExpired));
    out.set_cancelled(ended(WorkerLog::Outcome::kCancelled));
    for (const LoneFailures::Rest& rest : worker.rests) {
      v1::Worker::Rest& shown = *out.add_rests();
      shown.set_study(wire::StudyName(rest.study_id));
      *shown.mutable_until() = wire::ToProto(backend.clock->Wall() + (rest.until - backend.clock->Monotonic()));
      shown.set_failure(rest.failure);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Method> StudyReadMethods() {
  using access::Right;
  return {
      Read("StudyService/GetTrialTable", Right::kRead, GetTrialTable, Always),
      Read("StudyService/ListEvents", Right::kRead, ListEvents),
      Read("StudyService/GetImportance", Right::kRead,
           OneAtATime<GetImportance, v1::GetImportanceRequest, v1::GetImportanceResponse>, Always),
      Read("StudyService/Predict", Right::kRead, OneAtATime<Predict, v1::PredictRequest, v1::PredictResponse>, Always),
      Read("StudyService/ExplainTrial", Right::kSee, ExplainTrial),
      Read("StudyService/ListWorkers", Right::kRead, ListWorkers),
  };
}

}  // namespace luthier::service
