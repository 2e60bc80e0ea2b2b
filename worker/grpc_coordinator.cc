#include "worker/grpc_coordinator.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "lib/wire/addresses.h"
#include "lib/wire/channel.h"
#include "lib/wire/convert.h"
#include "lib/wire/deadline.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/status.h"
#include "lib/wire/text.h"

namespace luthier::worker {
namespace {

study::GradientUse GradientOf(const v1::Lease& message) {
  const bool directional = !message.trial().provenance().direction().empty();
  switch (message.gradient()) {
    case v1::GRADIENT_USE_NONE:
      return study::GradientUse::kNone;
    case v1::GRADIENT_USE_FULL:
      return study::GradientUse::kFull;
    default:  // An older coordinator says nothing, a newer one something unknown.
      return directional ? study::GradientUse::kDirectional : study::GradientUse::kFull;
  }
}

absl::StatusOr<Lease> FromProto(const v1::Lease& message) {
  Lease lease;
  RunRequest& run = lease.run;
  LUTHIER_ASSIGN_OR_RETURN(const wire::TrialId id, wire::ParseTrialName("trial.name", message.trial().name()));
  LUTHIER_ASSIGN_OR_RETURN(study::Trial trial, wire::FromProto(message.trial()));
  LUTHIER_ASSIGN_OR_RETURN(run.spec, wire::FromProto(message.spec()));
  LUTHIER_ASSIGN_OR_RETURN(lease.ttl, wire::FromProto(message.ttl()));
  LUTHIER_RETURN_IF_ERROR(run.spec.space.Validate(trial.parameters));
  lease.token = message.token();
  run.study = id.study;
  run.trial = id.number;
  run.attempt = message.attempt();
  run.parameters = std::move(trial.parameters);
  run.gradient = GradientOf(message);
  if (run.gradient == study::GradientUse::kDirectional) run.direction = std::move(trial.provenance.direction);
  run.tolerance = trial.provenance.tolerance;
  run.resume_checkpoint = message.resume_checkpoint();
  run.resume_step = message.resume_step();
  run.target_step = message.target_step();
  run.warm_start = trial.provenance.warm_start;
  return lease;
}

study::Directive FromProto(v1::HeartbeatResponse::Directive directive) {
  switch (directive) {
    case v1::HeartbeatResponse::STOP:
      return study::Directive::kStop;
    case v1::HeartbeatResponse::LOST:
      return study::Directive::kLost;
    case v1::HeartbeatResponse::PAUSE:
      return study::Directive::kPause;
    case v1::HeartbeatResponse::FINISH:
      return study::Directive::kFinish;
    default:
      return study::Directive::kContinue;  // An unknown directive ends no run.
  }
}

absl::StatusOr<FinishAnswer> FromProto(const v1::FinishResponse& response) {
  FinishAnswer reply;
  LUTHIER_ASSIGN_OR_RETURN(reply.state, wire::FromProto(response.state()));
  reply.warnings.assign(response.warnings().begin(), response.warnings().end());
  return reply;
}

// The stubs of one address.
struct Stubs {
  std::unique_ptr<v1::WorkerService::StubInterface> workers;
  std::unique_ptr<v1::StudyService::StubInterface> studies;
};

// Longest wait of an ask if other projects are asked, too.
constexpr absl::Duration kTurn = absl::Seconds(3);

class GrpcCoordinator final : public CoordinatorApi {
 public:
  GrpcCoordinator(std::vector<std::string> addresses, std::vector<Stubs> stubs, GrpcCoordinatorOptions options)
      : stubs_(std::move(stubs)),
        turns_(std::move(addresses)),
        options_(std::move(options)),
        projects_(options_.projects) {}

  absl::StatusOr<study::StudySpec> GetSpec(const std::string& study) override;
  absl::StatusOr<std::vector<std::string>> OwnProjects() override;
  absl::StatusOr<SuggestAnswer> Suggest(const SuggestRequest& request) override;
  void CancelSuggest() override;
  absl::StatusOr<std::vector<study::Directive>> Heartbeat(const std::string& worker,
                                                          const std::vector<std::string>& tokens) override;
  absl::StatusOr<study::Directive> Report(const ReportRequest& request) override;
  absl::StatusOr<FinishAnswer> Finish(const FinalResult& result) override;
  absl::StatusOr<FinishAnswer> Release(const std::string& study, int64_t trial, const std::string& token,
                                       const std::string& checkpoint, int64_t checkpoint_step) override;

 private:
  template <typename Request, typename Response>
  using Method = grpc::Status (v1::WorkerService::StubInterface::*)(grpc::ClientContext*, const Request&, Response*);

  // Tries each address once at most.
  template <typename Request, typename Response>
  absl::Status Call(Method<Request, Response> method, const Request& request, Response* response) {
    return turns_.Try([&](size_t address) {
      grpc::ClientContext context;
      SetDeadline(options_.call_timeout, &context);
      return wire::FromGrpc((stubs_[address].workers.get()->*method)(&context, request, response));
    });
  }
  static void SetDeadline(absl::Duration timeout, grpc::ClientContext* context) {
    context->set_deadline(wire::DeadlineIn(timeout));
  }
  void Refuse(const v1::Lease& message, const absl::Status& why);

  const std::vector<Stubs> stubs_;  // By address.
  wire::Turns turns_;
  const GrpcCoordinatorOptions options_;
  // These are used by the asking thread alone.
  std::vector<std::string> projects_;  // Whose studies are asked for; empty: not known yet, or one study is named.
  size_t turn_ = SIZE_MAX;             // Index in `projects_`, modulo their number.
  std::string turn_of_;                // The request id of the newest ask.
  base::Mutex mutex_;
  grpc::ClientContext* asking_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Context of the running Suggest.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<study::StudySpec> GrpcCoordinator::GetSpec(const std::string& study) {
  v1::GetStudyRequest request;
  request.set_name(wire::StudyName(study));
  v1::Study response;
  LUTHIER_RETURN_IF_ERROR(turns_.Try([&](size_t address) {
    grpc::ClientContext context;
    SetDeadline(options_.call_timeout, &context);
    return wire::FromGrpc(stubs_[address].studies->GetStudy(&context, request, &response));
  }));
  absl::StatusOr<study::StudySpec> spec = wire::FromProto(response.spec());
  if (spec.ok()) return spec;
  return absl::FailedPreconditionError(absl::StrCat("this worker cannot read the study; is it older than the server? ",
                                                    std::string(spec.status().message())));
}

absl::StatusOr<std::vector<std::string>> GrpcCoordinator::OwnProjects() {
  v1::ServerInfo info;
  LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::GetServerInfo, v1::GetServerInfoRequest(), &info));
  std::vector<std::string> projects(info.projects().begin(), info.projects().end());
  // Older coordinators know one project for each token, and still older ones none.
  if (projects.empty()) projects.push_back(info.project().empty() ? study::kDefaultProject : info.project());
  return projects;
}

absl::StatusOr<SuggestAnswer> GrpcCoordinator::Suggest(const SuggestRequest& request) {
  v1::SuggestRequest message;
  if (!request.study.empty()) message.set_study(wire::StudyName(request.study));
  message.set_worker(request.worker);
  message.set_pool(options_.pool);
  if (projects_.empty() && request.study.empty()) {
    absl::StatusOr<std::vector<std::string>> own = OwnProjects();
    if (absl::IsUnimplemented(own.status())) own = std::vector<std::string>{study::kDefaultProject};
    LUTHIER_RETURN_IF_ERROR(own.status());
    projects_ = *std::move(own);
    if (projects_.size() > 1) base::LogInfo("projects", {{"names", absl::StrJoin(projects_, ",")}});
  }
  const bool several = projects_.size() > 1;
  if (several && request.request_id != turn_of_) ++turn_;  // A repetition is the same request, project included.
  turn_of_ = request.request_id;
  // A token of one project says which by itself.
  if (several || !options_.projects.empty()) {
    message.set_parent(wire::ProjectName(projects_[turn_ % projects_.size()]));
  }
  message.set_count(request.count);
  message.set_request_id(request.request_id);
  message.set_instance(options_.instance);
  v1::SuggestResponse response;
  const absl::Duration longest = std::min(options_.ask_timeout, request.longest_wait);
  const absl::Status status = turns_.Try([&](size_t address) {
    grpc::ClientContext context;
    SetDeadline(several ? std::min(longest, kTurn) : longest, &context);
    if (!request.last) {
      const base::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("no more trials are asked for");
      asking_ = &context;
    }
    const absl::Status answered = wire::FromGrpc(stubs_[address].workers->Suggest(&context, message, &response));
    const base::MutexLock lock(&mutex_);
    asking_ = nullptr;
    return answered;
  });
  LUTHIER_RETURN_IF_ERROR(status);
  SuggestAnswer reply;
  reply.study_done = response.study_done();
  if (response.has_retry_after()) {
    LUTHIER_ASSIGN_OR_RETURN(reply.retry_after, wire::FromProto(response.retry_after()));
    if (several) reply.retry_after = absl::ZeroDuration();  // This project has nothing; the next one is asked at once.
  }
  for (const v1::Lease& lease : response.leases()) {
    absl::StatusOr<Lease> converted = FromProto(lease);
    if (converted.ok())
      reply.leases.push_back(*std::move(converted));
    else
      Refuse(lease, converted.status());
  }
  return reply;
}

void GrpcCoordinator::Refuse(const v1::Lease& message, const absl::Status& why) {
  base::LogError("lease_unreadable", {{"trial", message.trial().name()}, {"error", std::string(why.message())}});
  v1::FailRequest request;
  request.set_trial(message.trial().name());
  request.set_token(message.token());
  request.mutable_failure()->set_kind(v1::Failure::INFRA);
  request.mutable_failure()->set_reason("WORKER_ERROR");
  request.mutable_failure()->set_message(
      absl::StrCat("this worker cannot read the trial; is it older than the server? ", why.message()));
  v1::FinishResponse response;
  // If this fails, too, the lease expires.
  Call(&v1::WorkerService::StubInterface::Fail, request, &response).IgnoreError();
}

void GrpcCoordinator::CancelSuggest() {
  const base::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (asking_ != nullptr) asking_->TryCancel();
}

absl::StatusOr<std::vector<study::Directive>> GrpcCoordinator::Heartbeat(const std::string& worker,
                                                                         const std::vector<std::string>& tokens) {
  v1::HeartbeatRequest request;
  request.set_worker(worker);
  for (const std::string& token : tokens) request.add_tokens(token);
  v1::HeartbeatResponse response;
  LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::Heartbeat, request, &response));
  std::vector<study::Directive> directives;
  for (const int directive : response.directives()) {
    directives.push_back(FromProto(static_cast<v1::HeartbeatResponse::Directive>(directive)));
  }
  return directives;
}

absl::StatusOr<study::Directive> GrpcCoordinator::Report(const ReportRequest& request) {
  v1::ReportRequest message;
  message.set_trial(wire::TrialName(request.study, request.trial));
  message.set_token(request.token);
  for (const study::Measurement& m : request.measurements) *message.add_measurements() = wire::ToProto(m);
  message.set_checkpoint(request.checkpoint);
  if (!request.checkpoint.empty()) message.set_checkpoint_step(request.checkpoint_step);
  if (request.start_step) message.set_start_step(*request.start_step);
  v1::ReportResponse response;
  LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::Report, message, &response));
  return FromProto(response.directive());
}

absl::StatusOr<FinishAnswer> GrpcCoordinator::Finish(const FinalResult& result) {
  const std::string trial = wire::TrialName(result.study, result.trial);
  const std::string tail = wire::ValidUtf8(result.output_tail);
  v1::FinishResponse response;
  if (result.failed) {
    v1::FailRequest request;
    request.set_trial(trial);
    request.set_token(result.token);
    *request.mutable_failure() = wire::ToProto(result.failure);
    request.set_output_tail(tail);
    LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::Fail, request, &response));
    return FromProto(response);
  }
  v1::CompleteRequest request;
  request.set_trial(trial);
  request.set_token(result.token);
  *request.mutable_measurement() = wire::ToProto(result.measurement);
  request.set_pruned(result.pruned);
  request.set_paused(result.paused);
  if (result.start_step) request.set_start_step(*result.start_step);
  request.set_checkpoint(result.checkpoint);
  if (result.checkpoint_step) request.set_checkpoint_step(*result.checkpoint_step);
  request.set_output_tail(tail);
  LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::Complete, request, &response));
  return FromProto(response);
}

absl::StatusOr<FinishAnswer> GrpcCoordinator::Release(const std::string& study, int64_t trial, const std::string& token,
                                                      const std::string& checkpoint, int64_t checkpoint_step) {
  v1::ReleaseRequest request;
  request.set_trial(wire::TrialName(study, trial));
  request.set_token(token);
  request.set_checkpoint(checkpoint);
  if (!checkpoint.empty()) request.set_checkpoint_step(checkpoint_step);
  v1::FinishResponse response;
  LUTHIER_RETURN_IF_ERROR(Call(&v1::WorkerService::StubInterface::Release, request, &response));
  return FromProto(response);
}

}  // namespace

std::unique_ptr<CoordinatorApi> MakeGrpcCoordinator(std::unique_ptr<v1::WorkerService::StubInterface> stub,
                                                    std::unique_ptr<v1::StudyService::StubInterface> studies,
                                                    GrpcCoordinatorOptions options) {
  std::vector<Stubs> stubs;
  stubs.push_back({std::move(stub), std::move(studies)});
  return std::make_unique<GrpcCoordinator>(std::vector<std::string>{""}, std::move(stubs), std::move(options));
}

absl::StatusOr<std::unique_ptr<CoordinatorApi>> ConnectCoordinator(const std::string& address,
                                                                   const wire::ChannelSecurity& security,
                                                                   GrpcCoordinatorOptions options) {
  LUTHIER_ASSIGN_OR_RETURN(const auto channels, wire::CreateChannels(address, security));
  std::vector<std::string> addresses;
  std::vector<Stubs> stubs;
  for (const auto& [one, channel] : channels) {
    addresses.push_back(one);
    stubs.push_back({v1::WorkerService::NewStub(channel), v1::StudyService::NewStub(channel)});
  }
  return std::make_unique<GrpcCoordinator>(std::move(addresses), std::move(stubs), std::move(options));
}

}  // namespace luthier::worker
