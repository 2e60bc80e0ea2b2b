#include <grpcpp/grpcpp.h>
#include <sqlite3.h>

#include <set>
#include <utility>
#include <vector>

#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/catalogue/registry.h"
#include "lib/wire/convert.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

using study::Directive;

constexpr size_t kMaxInstance = 64;
const int kMaxTokens = coordinator::Limits().leases_per_worker;
constexpr int kMaxPoints = 1000;
constexpr size_t kTokenBytes = 16;
constexpr int kMaxDeclared = 100;
constexpr size_t kMaxDeclaredBytes = size_t{64} << 10;
constexpr size_t kMaxOutputTail = size_t{64} << 10;  // The core keeps the last 4 KiB of it.

v1::HeartbeatResponse::Directive EnumMessage(Directive directive) {
  switch (directive) {
    case Directive::kContinue:
      return v1::HeartbeatResponse::CONTINUE;
    case Directive::kStop:
      return v1::HeartbeatResponse::STOP;
    case Directive::kLost:
      return v1::HeartbeatResponse::LOST;
    case Directive::kPause:
      return v1::HeartbeatResponse::PAUSE;
    case Directive::kFinish:
      return v1::HeartbeatResponse::FINISH;
  }
  return v1::HeartbeatResponse::LOST;
}

v1::GradientUse EnumMessage(study::GradientUse use) {
  switch (use) {
    case study::GradientUse::kNone:
      return v1::GRADIENT_USE_NONE;
    case study::GradientUse::kFull:
      return v1::GRADIENT_USE_FULL;
    case study::GradientUse::kDirectional:
      return v1::GRADIENT_USE_DIRECTIONAL;
  }
  return v1::GRADIENT_USE_UNSPECIFIED;
}

void CheckToken(const std::string& token, base::Violations* violations) {
  if (token.size() != kTokenBytes) {
    violations->Add("token",
                    absl::StrCat("has ", token.size(), " bytes, not the ", kTokenBytes, " that came with the lease"));
  }
}

void Fill(const coordinator::Grant& grant, const access::Caller& caller, v1::Lease* lease) {
  *lease->mutable_trial() = wire::ToProto(grant.trial, grant.study_id);
  lease->set_token(caller.Lease(grant.token));
  *lease->mutable_ttl() = wire::ToProto(grant.spec->lease.ttl);
  *lease->mutable_spec() = wire::ToProto(*grant.spec);
  lease->set_resume_checkpoint(grant.resume_checkpoint);
  lease->set_attempt(grant.attempt);
  lease->set_target_step(grant.target_step);
  lease->set_resume_step(grant.resume_step);
  lease->set_gradient(catalogue::MayDifferentiate(*grant.spec) ? EnumMessage(grant.gradient) : v1::GRADIENT_USE_NONE);
}

// Sets which trial an operation is about, and checks its token.
template <typename Op, typename Request>
void TakeTrial(const Call& call, const Request& request, Op* op, base::Violations* violations) {
  absl::StatusOr<wire::TrialId> id = call.name().Trial();
  violations->AddAll("", id.status());
  CheckToken(request.token(), violations);
  if (!id.ok()) return;
  op->id = std::move(id->study);
  op->number = id->number;
}

// An ask may wait. It ends when it is answered, when its caller hangs up, or when its caller's token ends.
void Suggest(const CallPtr& call, const v1::SuggestRequest& request, v1::SuggestResponse* response) {
  base::Violations violations;
  coordinator::SuggestOp op;
  absl::StatusOr<std::string> project;
  if (request.study().empty()) {
    project = call->Project();
    violations.AddAll("", project.status());
  } else {
    const absl::StatusOr<std::string> id = call->name().Study();
    violations.AddAll("", id.status());
    if (id.ok()) op.id = *id;
    project = std::string(study::ProjectOf(op.id));
    if (id.ok() && !request.parent().empty() && request.parent() != wire::ProjectName(*project)) {
      violations.Add("parent", absl::StrCat(base::Quote(request.parent()),
                                            " is not the project of the study that is named; leave it out"));
    }
  }
  const access::Caller& caller = call->caller();
  if (!request.pool().empty()) violations.AddAll("", study::ValidateId("pool", request.pool()));
  violations.AddAll("", study::ValidateId("worker", request.worker()));
  violations.AddAll("", CheckRequestId(request.request_id(), /*required=*/true));
  if (request.count() < 0 || request.count() > kMaxTokens) {
    violations.Add("count", absl::StrCat(request.count(), " is not between 1 and ", kMaxTokens, " (0: 1)"));
  }
  if (request.instance().size() > kMaxInstance) {
    violations.Add("instance",
                   absl::StrCat("has ", request.instance().size(), " bytes; at most ", kMaxInstance, " are allowed"));
  }
  if (!violations.empty()) return call->Finish(violations.ToStatus());
  op.pool = study::PoolKey(*project, request.pool().empty() ? study::kDefaultPool : request.pool());
  op.worker = caller.Worker(request.worker(), *project);
  const Backend& backend = call->backend();
  if (backend.workers != nullptr) {
    backend.workers->Seen(op.worker, request.instance());
    backend.workers->Asked(op.worker, op.pool, op.id);
    op.rests = backend.workers->RestsOf(op.worker);
  }
  op.count = std::max(1, request.count());
  op.request_id = caller.RequestId(request.request_id());
  op.fail_if_paused = request.fail_if_paused();
  op.caller_gone = call->caller_gone();
  // The empty answer must leave before the caller gives up.
  op.deadline = call->deadline() - std::min(absl::Seconds(1), (call->deadline() - backend.clock->Monotonic()) / 5);
  op.done = [call, response](absl::StatusOr<coordinator::SuggestReply> reply) {
    if (reply.ok()) {
      for (const coordinator::Grant& grant : reply->grants) Fill(grant, call->caller(), response->add_leases());
      if (reply->grants.empty()) *response->mutable_retry_after() = wire::ToProto(reply->retry_after);
      response->set_study_done(reply->study_done);
      response->set_seq(reply->seq);
    }
    call->Finish(reply.status());
  };
  call->EndWithToken();
  backend.coordinator->Submit(std::move(op), call->deadline(), call->permit());
}

void Heartbeat(const CallPtr& call, const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response) {
  base::Violations violations;
  violations.AddAll("", study::ValidateId("worker", request.worker()));
  if (request.tokens_size() > kMaxTokens) {
    violations.Add("tokens",
                   absl::StrCat("has ", request.tokens_size(), " entries; at most ", kMaxTokens, " are allowed"));
  }
  if (!violations.empty()) return call->Finish(violations.ToStatus());
  const access::Caller& caller = call->caller();
  const std::string worker = caller.Worker(request.worker(), caller.project);
  if (call->backend().workers != nullptr) {
    // In each project in which it asked for trials: its leases may be of any.
    bool known = false;
    for (const std::string& project : caller.projects) {
      known |= call->backend().workers->SeenAgain(caller.Worker(request.worker(), project));
    }
    if (!known) call->backend().workers->Seen(worker);
  }
  std::vector<std::string> leases;
  for (const std::string& token : request.tokens()) leases.push_back(call->caller().Lease(token));
  call->backend().coordinator->Heartbeat(
      worker, std::move(leases),
      [call, response](absl::StatusOr<coordinator::HeartbeatReply> reply) {
        if (reply.ok()) {
          for (const Directive directive : reply->directives) response->add_directives(EnumMessage(directive));
        }
        call->Finish(reply.status());
      },
      call->permit());
}

absl::StatusOr<coordinator::ReportOp> ParseReport(const Call& call, const v1::ReportRequest& request) {
  base::Violations violations;
  coordinator::ReportOp op;
  TakeTrial(call, request, &op, &violations);
  if (request.measurements_size() < 1 || request.measurements_size() > kMaxPoints) {
    violations.Add("measurements",
                   absl::StrCat("has ", request.measurements_size(), " entries, not 1 to ", kMaxPoints));
  } else {
    for (int i = 0; i < request.measurements_size(); ++i) {
      absl::StatusOr<study::Measurement> m = wire::FromProto(request.measurements(i));
      if (!m.ok())
        violations.AddAll(absl::StrCat("measurements[", i, "]"), m.status());
      else
        op.measurements.push_back(*std::move(m));
    }
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  op.checkpoint = request.checkpoint();
  if (request.has_start_step()) op.start_step = request.start_step();
  if (request.has_checkpoint_step()) op.checkpoint_step = request.checkpoint_step();
  return op;
}

void FillReported(const std::string&, const coordinator::ReportReply& reply, v1::ReportResponse* response) {
  response->set_directive(EnumMessage(reply.directive));
  response->set_seq(reply.seq);
}

// Takes over what the ends of a grant share. `violations` has those of the rest.
template <typename Request>
absl::StatusOr<coordinator::FinishOp> FinishedBy(const Call& call, const Request& request, coordinator::FinishOp op,
                                                 base::Violations violations) {
  if constexpr (requires { request.unused(); }) {
    if (request.unused_size() > static_cast<int>(study::kMaxParameters))
      violations.Add("unused", absl::StrCat("has more than ", study::kMaxParameters, " entries"));
    else
      op.unused.assign(request.unused().begin(), request.unused().end());
  }
  if constexpr (requires { request.checkpoint(); }) {
    op.checkpoint = request.checkpoint();
    if (request.has_checkpoint_step()) op.checkpoint_step = request.checkpoint_step();
  }
  if constexpr (requires { request.output_tail(); }) {
    const size_t size = request.output_tail().size();
    op.output_tail = request.output_tail().substr(size - std::min(size, kMaxOutputTail));
  }
  TakeTrial(call, request, &op, &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return op;
}

absl::StatusOr<coordinator::FinishOp> ParseComplete(const Call& call, const v1::CompleteRequest& request) {
  base::Violations violations;
  coordinator::FinishOp op;
  coordinator::CompleteContent content;
  if (!request.has_measurement()) {
    violations.Add("measurement", "is required");
  } else {
    wire::LeftOut left_out;
    absl::StatusOr<study::Measurement> m = wire::FromProto(request.measurement(), &left_out);
    if (!m.ok())
      violations.AddAll("measurement", m.status());
    else
      content.measurement = *std::move(m);
    if (!left_out.gradient.ok()) content.gradient_problem = std::string(left_out.gradient.message());
    if (!left_out.gradients.ok()) content.gradients_problem = std::string(left_out.gradients.message());
    if (!left_out.training.ok()) content.training_problem = std::string(left_out.training.message());
  }
  content.pruned = request.pruned();
  content.paused = request.paused();
  if (request.has_start_step()) op.start_step = request.start_step();
  op.content = std::move(content);
  return FinishedBy(call, request, std::move(op), std::move(violations));
}

absl::StatusOr<coordinator::FinishOp> ParseFail(const Call& call, const v1::FailRequest& request) {
  base::Violations violations;
  coordinator::FinishOp op;
  absl::StatusOr<study::Failure> failure = wire::FromProto(request.failure());
  if (!failure.ok())
    violations.AddAll("failure", failure.status());
  else
    op.content = *std::move(failure);
  return FinishedBy(call, request, std::move(op), std::move(violations));
}

absl::StatusOr<coordinator::FinishOp> ParseRelease(const Call& call, const v1::ReleaseRequest& request) {
  coordinator::FinishOp op;
  op.content = coordinator::ReleaseContent{};
  return FinishedBy(call, request, std::move(op), {});
}

void FillFinished(const std::string&, const coordinator::FinishReply& reply, v1::FinishResponse* response) {
  response->set_state(wire::ToProto(reply.state));
  for (const std::string& warning : reply.warnings) response->add_warnings(warning);
  response->set_seq(reply.seq);
}

absl::StatusOr<coordinator::DeclareOp> ParseDeclare(const Call& call, const v1::DeclareParametersRequest& request) {
  base::Violations violations;
  coordinator::DeclareOp op;
  TakeTrial(call, request, &op, &violations);
  if (request.parameters_size() < 1 || request.parameters_size() > kMaxDeclared) {
    violations.Add("parameters", absl::StrCat("has ", request.parameters_size(), " entries, not 1 to ", kMaxDeclared));
  } else if (request.ByteSizeLong() > kMaxDeclaredBytes) {
    violations.Add("parameters", absl::StrCat("have ", request.ByteSizeLong(), " bytes; at most ", kMaxDeclaredBytes,
                                              " are allowed"));
  } else {
    std::set<std::string> names;
    for (int i = 0; i < request.parameters_size(); ++i) {
      const std::string at = absl::StrCat("parameters[", i, "]");
      absl::StatusOr<study::ParameterSpec> parameter = wire::FromProto(request.parameters(i));
      violations.AddAll(at, parameter.status());
      if (!parameter.ok()) continue;
      if (!names.insert(parameter->name).second) {
        violations.Add(at + ".name", absl::StrCat(base::Quote(parameter->name), " is there twice"));
      }
      violations.AddAll(at, study::ValidateText("display_name", parameter->display_name, 200, false));
      op.parameters.push_back(*std::move(parameter));
    }
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return op;
}

void FillDeclared(const std::string&, const coordinator::DeclareReply& reply, v1::DeclareParametersResponse* response) {
  *response->mutable_parameters() = wire::ToProto(reply.parameters);
  response->set_seq(reply.seq);
}

void GetServerInfo(const CallPtr& call, const v1::GetServerInfoRequest&, v1::ServerInfo* response) {
  const Backend& backend = call->backend();
  response->set_version(base::kVersion);
  response->set_seq(backend.coordinator->committed_seq());
  response->set_serving(backend.coordinator->serving());
  response->set_grpc_version(grpc::Version());
  response->set_sqlite_version(sqlite3_libversion());
  response->set_plaintext(!call->peer().secret);
  response->set_open(backend.access == nullptr || backend.access->auth() == access::Auth::kOff);
  response->set_project(call->caller().project);
  for (const std::string& project : call->caller().projects) response->add_projects(project);
  response->set_caller(call->caller().name);
  if (backend.page_url) response->set_page_url(backend.page_url());
  for (const access::Role role : call->caller().roles) response->add_roles(std::string(access::ToString(role)));
  call->Finish(absl::OkStatus());
}

}  // namespace

std::vector<Method> WorkerMethods() {
  using access::Right;
  return {
      Direct("WorkerService/Suggest", Right::kWork, Admission::kWork, Suggest),
      Direct("WorkerService/Heartbeat", Right::kWork, Admission::kResult, Heartbeat),
      Operation("WorkerService/Report", Right::kWork, Admission::kResult, ParseReport, FillReported),
      Operation("WorkerService/Complete", Right::kWork, Admission::kResult, ParseComplete, FillFinished),
      Operation("WorkerService/Fail", Right::kWork, Admission::kResult, ParseFail, FillFinished),
      Operation("WorkerService/Release", Right::kWork, Admission::kResult, ParseRelease, FillFinished),
      Operation("WorkerService/DeclareParameters", Right::kWork, Admission::kResult, ParseDeclare, FillDeclared),
      Direct("WorkerService/GetServerInfo", Right::kSee, Admission::kAlways, GetServerInfo),
  };
}

}  // namespace luthier::service
