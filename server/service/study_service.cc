#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/harmonica/report.h"
#include "lib/search/lipschitz_certificate.h"
#include "lib/search/registry.h"
#include "lib/study/legal_settings.h"
#include "lib/study/project.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/yaml_spec.h"
#include "luthier/v1/study_service.pb.h"
#include "server/coordinator/messages/study_checks.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/service/lookup.h"
#include "server/service/methods.h"
#include "server/service/pages.h"
#include "server/service/spec_memory.h"
#include "server/service/standings.h"
#include "server/service/watch.h"
#include "server/service/worker_log.h"
#include "server/storage/damage.h"
#include "server/storage/rules.h"

namespace luthier::service {
namespace {

using coordinator::Control;

// Returns the checked spec. Errors name fields of the spec.
absl::StatusOr<study::StudySpec> Checked(const v1::StudySpec& message) {
  LUTHIER_RETURN_IF_ERROR(CheckSpecSize(message));
  LUTHIER_ASSIGN_OR_RETURN(study::StudySpec spec, wire::FromProto(message));
  LUTHIER_RETURN_IF_ERROR(coordinator::CheckNew(spec));
  spec.removed_options.clear();  // A new study, a copy of an older one perhaps, never had them.
  return spec;
}

// Fills in what follows from the spec, which the coordinator has. It may be large, and is not kept with each answer.
void FillSpec(const study::StudySpec& spec, v1::Study* message) {
  *message->mutable_spec() = wire::ToProto(spec);
  const search::Resolution resolution = search::Resolve(spec);
  if (resolution.reasons.empty()) return;
  *message->mutable_resolved_algorithm() = wire::ToProto(resolution.algorithm);
  for (const std::string& reason : resolution.reasons) message->add_algorithm_reasons(reason);
}

v1::Study AsMessage(const storage::StudyRecord& record, const storage::Storage::Summary& summary) {
  v1::Study message;
  message.set_name(wire::StudyName(record.id));
  FillSpec(record.spec, &message);
  message.set_state(wire::ToProto(record.state));
  message.set_state_reason(record.state_reason);
  v1::TrialCounts& counts = *message.mutable_trials();
  const auto of = [&](study::TrialState state) { return summary.by_state[static_cast<size_t>(state)]; };
  counts.set_pending(of(study::TrialState::kPending));
  counts.set_running(of(study::TrialState::kRunning));
  counts.set_complete(of(study::TrialState::kComplete));
  counts.set_pruned(of(study::TrialState::kPruned));
  counts.set_failed(of(study::TrialState::kFailed));
  counts.set_cancelled(of(study::TrialState::kCancelled));
  counts.set_paused(of(study::TrialState::kPaused));
  counts.set_deleted(summary.deleted);
  counts.set_retried(summary.retried);
  message.set_added_trials(record.added_trials);
  message.set_resource_spent(summary.resource_spent);
  v1::TrainingCounts& trainings = *message.mutable_trainings();
  const auto ended = [&](study::TrainingOutcome outcome) { return summary.trainings[static_cast<size_t>(outcome)]; };
  trainings.set_converged(ended(study::TrainingOutcome::kConverged));
  trainings.set_precision(ended(study::TrainingOutcome::kPrecision));
  trainings.set_target(ended(study::TrainingOutcome::kTarget));
  trainings.set_limit(ended(study::TrainingOutcome::kLimit));
  trainings.set_diverged(ended(study::TrainingOutcome::kDiverged));
  message.set_best_trial(summary.best_trial);
  if (summary.best_value) message.set_best_value(*summary.best_value);
  *message.mutable_create_time() = wire::ToProto(record.create_time);
  *message.mutable_update_time() = wire::ToProto(record.update_time);
  message.set_update_seq(record.update_seq);
  message.set_owner(record.owner);
  return message;
}

// Returns the study with values that are read from storage: counts, the best trial, workers with wrong gradients.
absl::StatusOr<v1::Study> StudyMessage(storage::Storage* storage, const storage::StudyRecord& record) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::Storage::Summary summary, storage->Summarize(record));
  v1::Study message = AsMessage(record, summary);
  std::map<std::string, int64_t> set_aside;
  for (int64_t last = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> page,
                             storage->ListSetAside(record.key, last, kMaxPage));
    for (const storage::SetAside& entry : page) ++set_aside[entry.worker];
    if (page.size() < kMaxPage) break;
    last = page.back().trial;
  }
  for (const auto& [worker, trials] : set_aside) {
    v1::GradientsSetAside* entry = message.add_gradients_set_aside();
    entry->set_worker(worker);
    entry->set_trials(trials);
  }
  return message;
}

// A study whose rows are damaged is listed by its name, without a state.
void MarkDamaged(const std::string& id, const absl::Status& damage, v1::Study* message) {
  message->set_name(wire::StudyName(id));
  message->set_state(v1::Study::STATE_UNSPECIFIED);
  message->set_state_reason(std::string(damage.message()));
}

// Returns one study of a list, which goes on if the study is damaged.
absl::StatusOr<v1::Study> ListedStudy(const Backend& backend, const storage::StudyRecord& record) {
  absl::Status damage = record.damage;
  absl::StatusOr<v1::Study> message = v1::Study();
  if (damage.ok()) message = StudyMessage(backend.storage, record);
  if (!message.ok() && !storage::IsDamage(message.status())) return message.status();
  if (damage.ok()) damage = message.status();
  if (damage.ok()) damage = backend.coordinator->DamageOf(record.id);
  if (damage.ok()) return message;
  v1::Study damaged;
  MarkDamaged(record.id, damage, &damaged);
  return damaged;
}

absl::Status FillStudy(storage::Storage* storage, const std::string& id, v1::Study* response) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(storage, id));
  LUTHIER_ASSIGN_OR_RETURN(*response, StudyMessage(storage, record));
  return absl::OkStatus();
}

// Sets the reason why nothing runs in an ACTIVE study, unless it has one. A study whose settings users ask for
// themselves waits for nobody.
void SayWhyNothingRuns(const Backend& backend, const std::string& id, v1::Study* study) {
  const bool idle = study->state() == v1::Study::ACTIVE && study->trials().running() == 0;
  if (!idle || !study->state_reason().empty() || backend.workers == nullptr) return;
  if (!study->spec().has_objective() || study->spec().objective().has_external()) return;
  const std::string& pool = study->spec().pool();
  const std::string project(study::ProjectOf(id));
  std::string why =
      backend.workers->WhyNobodyTakes(id, study::PoolKey(project, pool.empty() ? study::kDefaultPool : pool));
  if (why.empty() && backend.coordinator->HeldBack(project)) {
    why = absl::StrCat("waiting: project ", project, " runs as many trials as its quota (running_trials) allows");
  }
  study->set_state_reason(why);
}

// Fills in the share of legal settings.
void FillLegalShare(const study::StudySpec& spec, v1::Study* message) {
  if (!spec.constraints.empty()) {
    message->set_legal_share(study::LegalShareOf(spec.space, spec.constraints).share());
  }
}

// Fills in the study as a write left it, with present counts. NOT_FOUND: it was deleted since, even if another one has
// its name.
absl::Status FillWritten(storage::Storage* storage, const storage::StudyRecord& written, v1::Study* response) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, storage->GetStudy(written.id));
  if (record.key != written.key) return absl::NotFoundError("it was deleted meanwhile");
  LUTHIER_ASSIGN_OR_RETURN(*response, StudyMessage(storage, written));
  FillLegalShare(written.spec, response);
  return absl::OkStatus();
}

// Returns the answer to be kept, without what FillSpec and FillLegalShare add.
std::string KeptAnswer(v1::Study message) {
  message.clear_legal_share();
  message.clear_spec();
  message.clear_resolved_algorithm();
  message.clear_algorithm_reasons();
  return message.SerializeAsString();
}

// UNAVAILABLE leaves the outcome open: the caller sends the same request again, which changes nothing more.
absl::Status NotReadBack(const absl::Status& cause) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kReplyLost;
  detail.retry_delay = absl::Seconds(1);
  return base::MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("the change is stored, but the study could not be read back: ", cause.message(),
                                      "; send the same request again"),
                         std::move(detail));
}

// Answers with the kept first answer.
void FinishAsBefore(const CallPtr& call, const std::string& kept, const study::StudySpec& spec) {
  auto* const response = call->reply<v1::Study>();
  response->Clear();
  if (!response->ParseFromString(kept)) {
    return call->Finish(
        absl::DataLossError("the stored reply to this request can't be read: it is no study; `luthier study get` shows "
                            "what became of it"));
  }
  FillSpec(spec, response);
  FillLegalShare(spec, response);
  call->Finish(absl::OkStatus());
}

// Computes the certificate from the results that are stored now.
absl::Status FillCertificate(storage::Storage* storage, const std::string& id, const v1::CertificateRequest& request,
                             v1::Study* response) {
  search::CertificateOptions options;
  options.epsilon = request.epsilon();
  if (request.has_lipschitz()) options.lipschitz = request.lipschitz();
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(storage, id));
  search::CertificateResults results;
  const bool any = options.lipschitz || search::HasLipschitzBounds(record.spec);
  const storage::TrialFilter complete = {{study::TrialState::kComplete}};
  for (int64_t last = 0; any;) {
    LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::TrialRecord> page,
                             storage->ListTrials(record.key, complete, last, kMaxPage));
    for (storage::TrialRecord& trial : page) {
      last = trial.trial.number;
      const std::optional<double> value = storage::RankedValue(trial, record.spec);
      if (value) results.emplace_back(std::move(trial.trial.parameters), *value);
    }
    search::KeepForCertificate(record.spec.metric.goal, &results);
    if (page.size() < kMaxPage) break;
  }
  base::Violations violations;
  const absl::StatusOr<std::optional<search::Certificate>> certificate =
      search::Certify(record.spec, std::move(results), options);
  violations.AddAll("certificate", certificate.status());
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  if (!certificate->has_value()) return absl::OkStatus();
  v1::Certificate& message = *response->mutable_certificate();
  message.set_best_value((*certificate)->best);
  message.set_epsilon((*certificate)->epsilon);
  message.set_lipschitz((*certificate)->lipschitz);
  message.set_steepest_slope((*certificate)->steepest_slope);
  message.set_excluded_share((*certificate)->share);
  message.set_standard_error((*certificate)->standard_error);
  message.set_points((*certificate)->points);
  message.set_results((*certificate)->results);
  return absl::OkStatus();
}

// Computes the recommendation from the results that are stored now.
absl::Status FillRecommendation(const Backend& backend, const std::string& id, v1::Study* response) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(backend.storage, id));
  const study::AlgorithmSpec algorithm = search::Resolve(record.spec).algorithm;
  const auto* bo = std::get_if<study::BoOptions>(&algorithm);
  if (bo == nullptr || !search::Recommends(record.spec, *bo)) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const MemoryGuard::Promise memory, backend.TakeForHistory(record));
  LUTHIER_ASSIGN_OR_RETURN(study::History history,
                           coordinator::HistoryAt(backend.storage, record.key, record.spec, UINT64_MAX));
  if (record.spec.open_space) history.ExtendGradients(record.spec.space.differentiable().size());
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<search::Recommendation> recommended,
                           search::CreateDesigner(record.spec)->Recommend(history, base::StopToken()));
  if (!recommended.has_value()) return absl::OkStatus();
  response->set_recommended_trial(recommended->trial);
  response->set_recommended_mean(recommended->mean);
  response->set_recommended_sd(recommended->sd);
  response->set_recommended_results(recommended->results);
  response->set_noise_sd(recommended->noise_sd);
  if (!recommended->found_by.has_value()) return absl::OkStatus();
  response->set_noise_found_by(*recommended->found_by);
  response->add_algorithm_reasons(absl::StrCat(
      "trial ", *recommended->found_by,
      " differs from an earlier one of its setting, so results are noisy: the model smooths them, one trial "
      "is recommended, and there are no local steps"));
  return absl::OkStatus();
}

// Computes the stages from the results that are stored now.
absl::Status FillHarmonicaStages(const Backend& backend, const std::string& id, v1::Study* response) {
  storage::Storage* const storage = backend.storage;
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(storage, id));
  if (!std::holds_alternative<study::HarmonicaOptions>(record.spec.algorithm)) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const MemoryGuard::Promise memory, backend.TakeForHistory(record));
  LUTHIER_ASSIGN_OR_RETURN(const study::History history,
                           coordinator::HistoryAt(storage, record.key, record.spec, UINT64_MAX));
  const search::HarmonicaReport report = search::ReportHarmonica(record.spec, history, search::kHarmonicaResamples);
  for (const search::HarmonicaStageReport& stage : report.stages) {
    v1::HarmonicaStage& out = *response->add_harmonica_stages();
    out.set_intercept(stage.intercept);
    for (const search::HarmonicaTerm& term : stage.terms) {
      v1::HarmonicaStage::Term& t = *out.add_terms();
      for (const search::HarmonicaFactor& factor : term.factors) {
        v1::HarmonicaStage::Factor& f = *t.add_factors();
        f.set_parameter(factor.parameter);
        f.set_bit(factor.bit);
        f.set_name(factor.name);
      }
      t.set_weight(term.weight);
      t.set_better_sign(term.better_sign);
      t.set_better_values(term.better_values);
      t.set_variance_share(term.variance_share);
      if (term.bootstrap_frequency) t.set_bootstrap_frequency(*term.bootstrap_frequency);
    }
    out.set_believed(stage.believed);
    for (const search::HarmonicaRestriction& restriction : stage.restrictions) {
      v1::HarmonicaStage::Restriction& r = *out.add_restrictions();
      for (const auto& [parameter, values] : restriction.values) (*r.mutable_values())[parameter] = values;
      r.set_value(restriction.value);
    }
    out.set_samples(stage.samples);
    out.set_failed(stage.failed);
    out.set_r2(stage.r2);
    out.set_cross_validated_r2(stage.cv_r2);
    for (const std::string& warning : stage.warnings) out.add_warnings(warning);
  }
  for (const std::string& name : report.never_selected) response->add_parameters_never_selected(name);
  return absl::OkStatus();
}

// Serializes a message so that equal messages have equal bytes, whatever the order of their maps.
std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Ids are listed in the order of their bytes. All ids of a project other than the default lie between these two, so
// that a whole project can be skipped in one step.
std::string FirstIdOf(absl::string_view project) {
  return project == study::kDefaultProject ? "" : absl::StrCat(project, "/");
}
std::string LastIdOf(absl::string_view project) {
  return absl::StrCat(project, "/\x7f");
}

absl::StatusOr<coordinator::CreateStudyOp> ParseCreate(const Call& call, const v1::CreateStudyRequest& request) {
  base::Violations violations;
  violations.AddAll("", study::ValidateId("study_id", request.study_id()));
  const absl::StatusOr<std::string> project = call.Project();
  violations.AddAll("", project.status());
  if (!request.has_spec()) violations.Add("spec", "is required");
  absl::StatusOr<study::StudySpec> spec = study::StudySpec();
  if (request.has_spec()) {
    spec = Checked(request.spec());
    violations.AddAll("spec", spec.status());
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  coordinator::CreateStudyOp op;
  op.id = study::IdWithin(*project, request.study_id());
  op.spec = *std::move(spec);
  op.digest = base::Sha256Hex(Deterministic(wire::ToProto(op.spec)));
  return op;
}

// Fills in how the results of a study with `metrics` stand now.
absl::Status FillPresentStandings(const Call& call, const std::string& id, v1::Study* response) {
  if (response->spec().metrics().empty()) return absl::OkStatus();
  storage::Storage* const storage = call.backend().storage;
  LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(storage, id));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialValues> results, call.kept().tables.Results(storage, record));
  FillStandings(record.spec, results, response);
  return absl::OkStatus();
}

absl::Status CheckStudyFile(const Call&, const v1::CheckStudyFileRequest& request,
                            v1::CheckStudyFileResponse* response) {
  if (request.text().size() > wire::kMaxYamlBytes) {
    return base::BadField("text",
                          absl::StrCat("has ", request.text().size(), " bytes; a study file has at most 1 MiB"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const wire::StudyFile file, wire::StudyFile::Parse(request.text(), "line"));
  const absl::StatusOr<study::StudySpec> spec = Checked(file.spec());
  if (!spec.ok()) return file.Locate(spec.status());
  v1::Study study;
  FillSpec(*spec, &study);
  *response->mutable_spec() = file.spec();
  *response->mutable_algorithm_reasons() = study.algorithm_reasons();
  if (study.has_resolved_algorithm()) *response->mutable_resolved_algorithm() = study.resolved_algorithm();
  return absl::OkStatus();
}

absl::Status GetStudy(const Call& call, const v1::GetStudyRequest& request, v1::Study* response) {
  const Backend& backend = call.backend();
  LUTHIER_ASSIGN_OR_RETURN(const std::string id, call.name().Study());
  LUTHIER_RETURN_IF_ERROR(backend.coordinator->DamageOf(id));
  LUTHIER_RETURN_IF_ERROR(FillStudy(backend.storage, id, response));
  if (!response->spec().constraints().empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord record, FindStudy(backend.storage, id));
    response->set_legal_share(call.kept().legal_shares.Of(record.spec));
  }
  SayWhyNothingRuns(backend, id, response);
  LUTHIER_RETURN_IF_ERROR(FillPresentStandings(call, id, response));
  if (request.has_certificate()) {
    LUTHIER_RETURN_IF_ERROR(FillCertificate(backend.storage, id, request.certificate(), response));
  }
  if (request.recommendation()) LUTHIER_RETURN_IF_ERROR(FillRecommendation(backend, id, response));
  return request.harmonica_stages() ? FillHarmonicaStages(backend, id, response) : absl::OkStatus();
}

bool LooksAtAllOf(const v1::GetStudyRequest& request) {
  return request.has_certificate() || request.harmonica_stages() || request.recommendation();
}

// Lists the project's deleted studies, in order of key.
absl::Status ListDeleted(const Call& call, const v1::ListStudiesRequest& request, const std::string& project,
                         int page_size, v1::ListStudiesResponse* response) {
  const Backend& backend = call.backend();
  LUTHIER_ASSIGN_OR_RETURN(const std::string after, ParsePageToken("deleted", request.page_token()));
  storage::StudyKey last = 0;
  if (!after.empty() && !absl::SimpleAtoi(after, &last)) return base::BadField("page_token", "is of another list");
  PageFill fill(page_size);
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> next, backend.storage->ListDeleted(last, 1));
    if (next.empty()) return absl::OkStatus();
    const storage::StudyRecord& record = next[0];
    if (study::ProjectOf(record.id) == project) {
      absl::StatusOr<v1::Study> study = v1::Study();
      if (record.damage.ok()) study = StudyMessage(backend.storage, record);
      if (!study.ok() && !storage::IsDamage(study.status())) return study.status();
      const absl::Status& damage = record.damage.ok() ? study.status() : record.damage;
      if (!damage.ok()) {
        v1::Study damaged;
        MarkDamaged(record.id, damage, &damaged);
        study = std::move(damaged);
      }
      if (record.deletion) {
        const absl::Duration left =
            record.deletion->uptime + coordinator::kDeletionLifetime - backend.coordinator->uptime();
        *study->mutable_delete_time() = wire::ToProto(record.deletion->time);
        *study->mutable_purge_time() = wire::ToProto(backend.clock->Wall() + std::max(left, absl::ZeroDuration()));
      }
      if (!fill.Takes(*study)) {
        response->set_next_page_token(MakePageToken("deleted", absl::StrCat(last)));
        return absl::OkStatus();
      }
      *response->add_studies() = *std::move(study);
    }
    last = record.key;
  }
}

absl::Status ListStudies(const Call& call, const v1::ListStudiesRequest& request, v1::ListStudiesResponse* response) {
  storage::Storage* const storage = call.backend().storage;
  LUTHIER_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LUTHIER_ASSIGN_OR_RETURN(const std::string project, call.Project());
  if (request.deleted()) return ListDeleted(call, request, project, page_size, response);
  LUTHIER_ASSIGN_OR_RETURN(const std::string after, ParsePageToken("studies", request.page_token()));
  PageFill fill(page_size);
  for (std::string last = std::max(after, FirstIdOf(project));;) {
    // Studies are read one at a time: a spec of 2 MiB takes twenty times as much in memory.
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> next, storage->ListStudies(last, 1));
    if (next.empty()) return absl::OkStatus();
    const std::string& id = next[0].id;
    if (study::ProjectOf(id) != project) {
      if (project != study::kDefaultProject) return absl::OkStatus();
      last = LastIdOf(study::ProjectOf(id));
      continue;
    }
    LUTHIER_ASSIGN_OR_RETURN(v1::Study study, ListedStudy(call.backend(), next[0]));
    SayWhyNothingRuns(call.backend(), id, &study);
    if (!fill.Takes(study)) {
      response->set_next_page_token(MakePageToken("studies", last));
      return absl::OkStatus();
    }
    *response->add_studies() = std::move(study);
    last = id;
  }
}

template <Control control>
absl::StatusOr<coordinator::ControlOp> ParseControl(const Call& call, const v1::ControlStudyRequest& request) {
  coordinator::ControlOp op;
  LUTHIER_ASSIGN_OR_RETURN(op.id, call.name().Study());
  LUTHIER_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  op.control = control;
  return op;
}

absl::StatusOr<coordinator::ControlOp> ParseUndelete(const Call& call, const v1::UndeleteStudyRequest& request) {
  coordinator::ControlOp op;
  LUTHIER_ASSIGN_OR_RETURN(op.id, call.name().Study());
  LUTHIER_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  if (!request.new_id().empty()) {
    base::Violations violations;
    violations.AddAll("", study::ValidateId("new_id", request.new_id()));
    LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
    op.new_id = study::IdWithin(std::string(study::ProjectOf(op.id)), request.new_id());
  }
  op.control = Control::kUndelete;
  return op;
}

void FillDeleted(const std::string&, const coordinator::StudyReply& reply, v1::DeleteStudyResponse* response) {
  response->set_seq(reply.seq);
}

absl::StatusOr<coordinator::UpdateStudyOp> ParseUpdate(const Call& call, const v1::UpdateStudyRequest& request) {
  base::Violations violations;
  const absl::StatusOr<std::string> id = call.name().Study();
  violations.AddAll("", id.status());
  violations.AddAll("", CheckRequestId(request.request_id()));
  absl::StatusOr<study::SpecChange> change = study::SpecChange();
  if (const absl::Status fits = CheckSpecSize(request.spec()); !fits.ok()) {
    violations.AddAll("spec", fits);
  } else {
    change = wire::FromProto(request.spec(), request.update_mask());
    violations.AddAll("", change.status());
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  coordinator::UpdateStudyOp op;
  op.id = *id;
  op.change = *std::move(change);
  v1::UpdateStudyRequest content = request;
  content.clear_request_id();
  op.content = Deterministic(content);
  op.fits = [](const study::StudySpec& spec) {
    base::Violations wrong;
    wrong.AddAll("spec", CheckSpecSize(wire::ToProto(spec)));
    return wrong.ToStatus();
  };
  return op;
}

// Finishes the call with the study as the write left it, with the counts at the time of reading, and keeps that answer
// for repetitions of `request_id` (unless empty) before it leaves. UNAVAILABLE if the study can't be read back.
void ReadBack(const CallPtr& call, const coordinator::StudyReply& reply, const std::string& request_id) {
  if (!reply.message.empty()) return FinishAsBefore(call, reply.message, reply.record.spec);
  auto* const response = call->reply<v1::Study>();
  const absl::Status read = FillWritten(call->backend().storage, reply.record, response);
  if (!read.ok() || request_id.empty()) return call->Finish(read.ok() ? read : NotReadBack(read));
  coordinator::KeepAnswerOp keep;
  keep.request_id = request_id;
  keep.message = KeptAnswer(*response);
  keep.done = [call, spec = reply.record.spec](absl::StatusOr<std::string> kept) {
    if (!kept.ok()) return call->Finish(NotReadBack(kept.status()));
    FinishAsBefore(call, *kept, spec);
  };
  call->backend().coordinator->Submit(std::move(keep));
}

// An operation that is answered by its study. The place for reading the study is reserved before the write, so that
// busy readers refuse the call before anything has changed.
template <typename Op, typename Request>
Method StudyOperation(const char* name, Admission admission,
                      absl::StatusOr<Op> (*parse)(const Call& call, const Request& request)) {
  return Row<Request, v1::Study>(name, access::Right::kWrite, admission, [parse](const CallPtr& call) {
    absl::StatusOr<Op> op = parse(*call, call->request<Request>());
    if (!op.ok()) return call->Finish(op.status());
    base::Executor* const readers = call->backend().readers;
    base::Executor::Place place = readers->Reserve();
    if (!place) return call->Finish(Busy(call->backend(), "reads"));
    TakeCaller(*call, call->request<Request>(), &*op);
    std::string request_id;
    if constexpr (requires { op->request_id; }) request_id = op->request_id;
    op->done = [call, readers, request_id,
                place = std::move(place)](absl::StatusOr<coordinator::StudyReply> reply) mutable {
      if (!reply.ok()) return call->Finish(reply.status());
      // Counts come from storage, which this thread may not read.
      readers->Schedule(std::move(place),
                        [call, request_id, reply = *std::move(reply)] { ReadBack(call, reply, request_id); });
    };
    call->backend().coordinator->Submit(*std::move(op), call->deadline(), call->permit());
  });
}

}  // namespace

std::vector<Method> StudyMethods() {
  using access::Right;
  return {
      StudyOperation("StudyService/CreateStudy", Admission::kWork, ParseCreate),
      Read("StudyService/CheckStudyFile", Right::kRead, CheckStudyFile),
      Read("StudyService/GetStudy", Right::kSee, GetStudy, LooksAtAllOf),
      Read("StudyService/ListStudies", Right::kRead, ListStudies),
      StudyOperation("StudyService/UpdateStudy", Admission::kWork, ParseUpdate),
      StudyOperation("StudyService/PauseStudy", Admission::kEnding, ParseControl<Control::kPause>),
      StudyOperation("StudyService/ResumeStudy", Admission::kEnding, ParseControl<Control::kResume>),
      StudyOperation("StudyService/StopStudy", Admission::kEnding, ParseControl<Control::kStop>),
      StudyOperation("StudyService/CancelStudy", Admission::kEnding, ParseControl<Control::kCancel>),
      Operation("StudyService/DeleteStudy", Right::kWrite, Admission::kEnding, ParseControl<Control::kDelete>,
                FillDeleted),
      StudyOperation("StudyService/UndeleteStudy", Admission::kWork, ParseUndelete),
      Stream<v1::Event>("StudyService/WatchStudy", Right::kRead, WatchStudy),
  };
}

}  // namespace luthier::service
