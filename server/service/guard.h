#ifndef LUTHIER_SERVER_SERVICE_GUARD_H_
#define LUTHIER_SERVER_SERVICE_GUARD_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "absl/strings/strip.h"
#include "luthier/v1/admin_service.grpc.pb.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/access/access.h"
#include "server/service/admin_service.h"
#include "server/service/call_memory.h"
#include "server/service/memory_guard.h"
#include "server/service/study_service.h"
#include "server/service/worker_service.h"

// The services as callers see them: every request is weighed (CallMemory) before it is parsed, and every call passes
// access::Access::Admit before its handler. A call must be listed here with its right; otherwise it is UNIMPLEMENTED,
// whatever its handler.
namespace luthier::service {

// Returns the resource that a request is about. The fields that name it are the same in all requests.
template <typename Message>
access::Request RequestOf(const char* method, access::Right right, const Message& message) {
  access::Request request;
  request.method = method;
  request.right = right;
  if constexpr (requires { message.parent(); }) request.object = message.parent();
  if constexpr (requires { message.name(); }) request.object = message.name();
  if constexpr (requires { message.id(); }) request.object = message.id();
  if constexpr (requires { message.study(); }) {
    if (!message.study().empty()) request.object = message.study();
  }
  if constexpr (requires { message.trial(); }) request.object = message.trial();
  if constexpr (requires { message.request_id(); }) request.request_id = message.request_id();
  if constexpr (requires { message.spec().objective(); }) request.command = message.spec().objective().has_command();
  constexpr absl::string_view kProjects = "projects/";
  absl::string_view rest = request.object;
  if (absl::ConsumePrefix(&rest, kProjects)) request.project = std::string(rest.substr(0, rest.find('/')));
  if constexpr (requires { message.study_id(); }) request.object = message.study_id();
  return request;
}

// Finishes the call after the refusal's delay.
grpc::ServerUnaryReactor* FinishRefused(grpc::CallbackServerContext* context, const access::Refusal& refusal);
grpc::ServerWriteReactor<v1::Event>* StreamRefused(const access::Refusal& refusal);

// Returns kEnding for results, heartbeats, and what ends studies or trials, else kWork.
MemoryGuard::Kind MemoryKindOf(absl::string_view method);

// The first base of guarded services, which their members look at while they are made.
class WithMemory {
 protected:
  explicit WithMemory(const MemoryGuard* memory) : memory_(memory) {}
  const MemoryGuard* const memory_;
};

// A request that was too large to be parsed is refused once its caller is known; its content is not used.
#define LUTHIER_GUARDED(Service, Method, RequestType, ResponseType, right)                                 \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context, const v1::RequestType* request,   \
                                   v1::ResponseType* response) override {                                  \
    const access::Refusal refusal =                                                                        \
        access_->Admit(context, RequestOf(#Service "/" #Method, access::Right::right, *request));          \
    if (!refusal.status.ok()) return FinishRefused(context, refusal);                                      \
    const CallMemory* const memory = CallMemory::Of(context);                                              \
    if (memory != nullptr && !memory->refusal().ok()) {                                                    \
      return FinishWith(context, inner_->backend().Refused(memory->refusal()));                            \
    }                                                                                                      \
    return inner_->Method(context, request, response);                                                     \
  }                                                                                                        \
  CallMessages<v1::RequestType, v1::ResponseType> messages_of_##Method##_{memory_, MemoryKindOf(#Method)}; \
  const bool weighs_##Method##_ = (SetMessageAllocatorFor_##Method(&messages_of_##Method##_), true);

// `access` and `inner` must outlive the services, and `memory`, which may be null.
class GuardedStudyService final : private WithMemory, public v1::StudyService::CallbackService {
 public:
  GuardedStudyService(access::Access* access, const MemoryGuard* memory, StudyService* inner)
      : WithMemory(memory), access_(access), inner_(inner) {}

  LUTHIER_GUARDED(StudyService, CreateStudy, CreateStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, GetStudy, GetStudyRequest, Study, kSee)
  LUTHIER_GUARDED(StudyService, ListStudies, ListStudiesRequest, ListStudiesResponse, kRead)
  LUTHIER_GUARDED(StudyService, UpdateStudy, UpdateStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, PauseStudy, ControlStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, ResumeStudy, ControlStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, StopStudy, ControlStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, CancelStudy, ControlStudyRequest, Study, kWrite)
  LUTHIER_GUARDED(StudyService, DeleteStudy, ControlStudyRequest, DeleteStudyResponse, kWrite)
  LUTHIER_GUARDED(StudyService, GetTrial, GetTrialRequest, Trial, kSee)
  LUTHIER_GUARDED(StudyService, ListTrials, ListTrialsRequest, ListTrialsResponse, kRead)
  LUTHIER_GUARDED(StudyService, EnqueueTrials, EnqueueTrialsRequest, EnqueueTrialsResponse, kWrite)
  LUTHIER_GUARDED(StudyService, ImportTrials, ImportTrialsRequest, ImportTrialsResponse, kWrite)
  LUTHIER_GUARDED(StudyService, RetryTrials, RetryTrialsRequest, EnqueueTrialsResponse, kWrite)
  LUTHIER_GUARDED(StudyService, DeleteTrial, DeleteTrialRequest, DeleteTrialResponse, kWrite)
  LUTHIER_GUARDED(StudyService, SetAttributes, SetAttributesRequest, Trial, kWrite)
  LUTHIER_GUARDED(StudyService, CancelTrial, CancelTrialRequest, Trial, kWrite)
  LUTHIER_GUARDED(StudyService, StopTrial, StopTrialRequest, Trial, kWrite)
  LUTHIER_GUARDED(StudyService, GetTrialTable, GetTrialTableRequest, GetTrialTableResponse, kRead)
  LUTHIER_GUARDED(StudyService, ListEvents, ListEventsRequest, ListEventsResponse, kRead)
  LUTHIER_GUARDED(StudyService, GetImportance, GetImportanceRequest, GetImportanceResponse, kRead)
  LUTHIER_GUARDED(StudyService, Predict, PredictRequest, PredictResponse, kRead)
  LUTHIER_GUARDED(StudyService, ExplainTrial, ExplainTrialRequest, ExplainTrialResponse, kSee)
  LUTHIER_GUARDED(StudyService, ListWorkers, ListWorkersRequest, ListWorkersResponse, kRead)

  grpc::ServerWriteReactor<v1::Event>* WatchStudy(grpc::CallbackServerContext* context,
                                                  const v1::WatchStudyRequest* request) override {
    const access::Refusal refusal =
        access_->Admit(context, RequestOf("StudyService/WatchStudy", access::Right::kRead, *request));
    if (!refusal.status.ok()) return StreamRefused(refusal);
    return inner_->WatchStudy(context, request);
  }

 private:
  access::Access* const access_;
  StudyService* const inner_;
};

class GuardedWorkerService final : private WithMemory, public v1::WorkerService::CallbackService {
 public:
  GuardedWorkerService(access::Access* access, const MemoryGuard* memory, WorkerService* inner)
      : WithMemory(memory), access_(access), inner_(inner) {}

  LUTHIER_GUARDED(WorkerService, Suggest, SuggestRequest, SuggestResponse, kWork)
  LUTHIER_GUARDED(WorkerService, Heartbeat, HeartbeatRequest, HeartbeatResponse, kWork)
  LUTHIER_GUARDED(WorkerService, Report, ReportRequest, ReportResponse, kWork)
  LUTHIER_GUARDED(WorkerService, Complete, CompleteRequest, FinishResponse, kWork)
  LUTHIER_GUARDED(WorkerService, Fail, FailRequest, FinishResponse, kWork)
  LUTHIER_GUARDED(WorkerService, Release, ReleaseRequest, FinishResponse, kWork)
  LUTHIER_GUARDED(WorkerService, DeclareParameters, DeclareParametersRequest, DeclareParametersResponse, kWork)
  LUTHIER_GUARDED(WorkerService, GetServerInfo, GetServerInfoRequest, ServerInfo, kSee)

 private:
  access::Access* const access_;
  WorkerService* const inner_;
};

class GuardedAdminService final : private WithMemory, public v1::AdminService::CallbackService {
 public:
  GuardedAdminService(access::Access* access, const MemoryGuard* memory, AdminService* inner)
      : WithMemory(memory), access_(access), inner_(inner) {}

  LUTHIER_GUARDED(AdminService, CreateToken, CreateTokenRequest, CreateTokenResponse, kAdmin)
  LUTHIER_GUARDED(AdminService, ListTokens, ListTokensRequest, ListTokensResponse, kAdmin)
  LUTHIER_GUARDED(AdminService, RotateToken, RotateTokenRequest, CreateTokenResponse, kAdmin)
  LUTHIER_GUARDED(AdminService, RevokeToken, RevokeTokenRequest, Token, kAdmin)
  LUTHIER_GUARDED(AdminService, CreateProject, CreateProjectRequest, Project, kAdmin)
  LUTHIER_GUARDED(AdminService, UpdateProject, UpdateProjectRequest, Project, kAdmin)
  LUTHIER_GUARDED(AdminService, ListProjects, ListProjectsRequest, ListProjectsResponse, kAdmin)
  LUTHIER_GUARDED(AdminService, ListAudit, ListAuditRequest, ListAuditResponse, kAdmin)

 private:
  access::Access* const access_;
  AdminService* const inner_;
};

#undef LUTHIER_GUARDED

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_GUARD_H_
