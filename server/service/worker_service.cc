#include "server/service/worker_service.h"

#include <grpcpp/grpcpp.h>
#include <sqlite3.h>

#include <atomic>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/base/version.h"
#include "lib/catalogue/registry.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"

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

void TakeUnused(const google::protobuf::RepeatedPtrField<std::string>& unused, coordinator::FinishOp* op,
                base::Violations* violations) {
  if (unused.size() > study::kMaxParameters) {
    violations->Add("unused", absl::StrCat("has more than ", study::kMaxParameters, " entries"));
    return;
  }
  op->unused.assign(unused.begin(), unused.end());
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

// A waiting ask. It ends when it is answered, when its caller hangs up, or when its caller's token ends; later answers
// are not sent.
class Ask final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<Ask> {
 public:
  // The call keeps it alive until OnDone.
  static std::shared_ptr<Ask> Begin() {
    auto ask = std::make_shared<Ask>();
    ask->self_ = ask;
    return ask;
  }
  // To be called before the ask is submitted.
  void EndWithToken(const Backend& backend, const grpc::CallbackServerContext& context) {
    access::Access::Ending ending = backend.OnTokenEnd(context, [weak = weak_from_this()](const absl::Status& why) {
      if (const std::shared_ptr<Ask> self = weak.lock()) self->Answer(why);
    });
    base::MutexLock lock(&mutex_);
    if (!done_) ending_ = std::move(ending);
  }
  base::StopToken caller_gone() const { return gone_.token(); }
  // True for the first caller, whose answer Finish then sends.
  bool Take() { return !taken_.exchange(true); }
  void OnCancel() override { gone_.RequestStop(); }
  void OnDone() override {
    access::Access::Ending ending;
    {
      base::MutexLock lock(&mutex_);
      done_ = true;
      ending = std::exchange(ending_, nullptr);
    }
    self_.reset();  // May delete this.
  }

 private:
  void Answer(const absl::Status& status) {
    gone_.RequestStop();
    if (Take()) Finish(wire::ToGrpc(status));
  }

  const base::StopSource gone_;
  std::atomic<bool> taken_{false};
  std::shared_ptr<Ask> self_;
  base::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  access::Access::Ending ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerUnaryReactor* WorkerService::Suggest(grpc::CallbackServerContext* context,
                                                 const v1::SuggestRequest* request, v1::SuggestResponse* response) {
  if (const absl::Status admitted = backend_.AdmitWork(); !admitted.ok()) return FinishWith(context, admitted);
  base::Violations violations;
  coordinator::SuggestOp op;
  if (!request->study().empty()) {
    const absl::StatusOr<std::string> id = wire::ParseStudyName("study", request->study());
    violations.AddAll("", id.status());
    if (id.ok()) op.id = *id;
  }
  const access::Caller caller = backend_.CallerOf(*context);
  std::string project = caller.project;
  if (!request->parent().empty()) {
    const absl::StatusOr<std::string> parent = wire::ParseProjectName("parent", request->parent());
    violations.AddAll("", parent.status());
    if (parent.ok()) project = *parent;
  }
  if (!request->pool().empty()) violations.AddAll("", study::ValidateId("pool", request->pool()));
  op.pool = study::PoolKey(project, request->pool().empty() ? study::kDefaultPool : request->pool());
  violations.AddAll("", study::ValidateId("worker", request->worker()));
  violations.AddAll("", CheckRequestId(request->request_id(), /*required=*/true));
  if (request->count() < 0 || request->count() > kMaxTokens) {
    violations.Add("count", absl::StrCat(request->count(), " is not between 1 and ", kMaxTokens, " (0: 1)"));
  }
  if (request->instance().size() > kMaxInstance) {
    violations.Add("instance",
                   absl::StrCat("has ", request->instance().size(), " bytes; at most ", kMaxInstance, " are allowed"));
  }
  if (!violations.empty()) return FinishWith(context, violations.ToStatus());
  op.worker = caller.Worker(request->worker());
  if (backend_.workers != nullptr) {
    backend_.workers->Seen(op.worker, request->instance());
    backend_.workers->Asked(op.worker, op.pool, op.id);
    op.rests = backend_.workers->RestsOf(op.worker);
  }
  const std::shared_ptr<Ask> reactor = Ask::Begin();
  op.count = std::max(1, request->count());
  op.request_id = caller.RequestId(request->request_id());
  op.fail_if_paused = request->fail_if_paused();
  op.caller_gone = reactor->caller_gone();
  // The empty answer must leave before the caller gives up.
  const absl::Duration now = backend_.clock->Monotonic();
  const absl::Duration deadline = DeadlineOf(*context, *backend_.clock);
  op.deadline = deadline - std::min(absl::Seconds(1), (deadline - now) / 5);
  op.done = [reactor, response, caller](absl::StatusOr<coordinator::SuggestReply> reply) {
    if (!reactor->Take()) return;
    if (reply.ok()) {
      for (const coordinator::Grant& grant : reply->grants) Fill(grant, caller, response->add_leases());
      if (reply->grants.empty()) *response->mutable_retry_after() = wire::ToProto(reply->retry_after);
      response->set_study_done(reply->study_done);
      response->set_seq(reply->seq);
    }
    reactor->Finish(wire::ToGrpc(reply.status()));
  };
  reactor->EndWithToken(backend_, *context);
  backend_.coordinator->Submit(std::move(op), deadline, backend_.PermitOf(*context));
  return reactor.get();
}

grpc::ServerUnaryReactor* WorkerService::Heartbeat(grpc::CallbackServerContext* context,
                                                   const v1::HeartbeatRequest* request,
                                                   v1::HeartbeatResponse* response) {
  if (const absl::Status admitted = backend_.AdmitResult(); !admitted.ok()) return FinishWith(context, admitted);
  base::Violations violations;
  violations.AddAll("", study::ValidateId("worker", request->worker()));
  if (request->tokens_size() > kMaxTokens) {
    violations.Add("tokens",
                   absl::StrCat("has ", request->tokens_size(), " entries; at most ", kMaxTokens, " are allowed"));
  }
  if (!violations.empty()) return FinishWith(context, violations.ToStatus());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const access::Caller caller = backend_.CallerOf(*context);
  if (backend_.workers != nullptr) backend_.workers->Seen(caller.Worker(request->worker()));
  std::vector<std::string> leases;
  for (const std::string& token : request->tokens()) leases.push_back(caller.Lease(token));
  backend_.coordinator->Heartbeat(
      caller.Worker(request->worker()), std::move(leases),
      [reactor, response](absl::StatusOr<coordinator::HeartbeatReply> reply) {
        if (reply.ok()) {
          for (const Directive directive : reply->directives) response->add_directives(EnumMessage(directive));
        }
        reactor->Finish(wire::ToGrpc(reply.status()));
      },
      backend_.PermitOf(*context));
  return reactor;
}

grpc::ServerUnaryReactor* WorkerService::Report(grpc::CallbackServerContext* context, const v1::ReportRequest* request,
                                                v1::ReportResponse* response) {
  if (const absl::Status admitted = backend_.AdmitResult(); !admitted.ok()) return FinishWith(context, admitted);
  base::Violations violations;
  coordinator::ReportOp op;
  const absl::StatusOr<wire::TrialId> id = wire::ParseTrialName("trial", request->trial());
  violations.AddAll("", id.status());
  CheckToken(request->token(), &violations);
  if (request->measurements_size() < 1 || request->measurements_size() > kMaxPoints) {
    violations.Add("measurements",
                   absl::StrCat("has ", request->measurements_size(), " entries, not 1 to ", kMaxPoints));
  } else {
    for (int i = 0; i < request->measurements_size(); ++i) {
      absl::StatusOr<study::Measurement> m = wire::FromProto(request->measurements(i));
      if (!m.ok())
        violations.AddAll(absl::StrCat("measurements[", i, "]"), m.status());
      else
        op.measurements.push_back(*std::move(m));
    }
  }
  if (!violations.empty()) return FinishWith(context, violations.ToStatus());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  op.id = id->study;
  op.number = id->number;
  op.token = backend_.CallerOf(*context).Lease(request->token());
  op.checkpoint = request->checkpoint();
  if (request->has_start_step()) op.start_step = request->start_step();
  if (request->has_checkpoint_step()) op.checkpoint_step = request->checkpoint_step();
  op.done = [reactor, response](absl::StatusOr<coordinator::ReportReply> reply) {
    if (reply.ok()) {
      response->set_directive(EnumMessage(reply->directive));
      response->set_seq(reply->seq);
    }
    reactor->Finish(wire::ToGrpc(reply.status()));
  };
  SubmitFor(backend_, *context, std::move(op));
  return reactor;
}

grpc::ServerUnaryReactor* WorkerService::Finish(grpc::CallbackServerContext* context, const std::string& trial,
                                                const std::string& token, coordinator::FinishOp op,
                                                base::Violations violations, v1::FinishResponse* response) {
  if (const absl::Status admitted = backend_.AdmitResult(); !admitted.ok()) return FinishWith(context, admitted);
  const absl::StatusOr<wire::TrialId> id = wire::ParseTrialName("trial", trial);
  violations.AddAll("", id.status());
  CheckToken(token, &violations);
  if (op.output_tail.size() > kMaxOutputTail)
    op.output_tail = op.output_tail.substr(op.output_tail.size() - kMaxOutputTail);
  if (!violations.empty()) return FinishWith(context, violations.ToStatus());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  op.id = id->study;
  op.number = id->number;
  op.token = backend_.CallerOf(*context).Lease(token);
  op.done = [reactor, response](absl::StatusOr<coordinator::FinishReply> reply) {
    if (reply.ok()) {
      response->set_state(wire::ToProto(reply->state));
      for (const std::string& warning : reply->warnings) response->add_warnings(warning);
      response->set_seq(reply->seq);
    }
    reactor->Finish(wire::ToGrpc(reply.status()));
  };
  SubmitFor(backend_, *context, std::move(op));
  return reactor;
}

grpc::ServerUnaryReactor* WorkerService::Complete(grpc::CallbackServerContext* context,
                                                  const v1::CompleteRequest* request, v1::FinishResponse* response) {
  base::Violations violations;
  coordinator::FinishOp op;
  coordinator::CompleteContent content;
  if (!request->has_measurement()) {
    violations.Add("measurement", "is required");
  } else {
    wire::LeftOut left_out;
    absl::StatusOr<study::Measurement> m = wire::FromProto(request->measurement(), &left_out);
    if (!m.ok())
      violations.AddAll("measurement", m.status());
    else
      content.measurement = *std::move(m);
    if (!left_out.gradient.ok()) content.gradient_problem = std::string(left_out.gradient.message());
    if (!left_out.training.ok()) content.training_problem = std::string(left_out.training.message());
  }
  content.pruned = request->pruned();
  content.paused = request->paused();
  if (request->has_start_step()) op.start_step = request->start_step();
  op.content = std::move(content);
  op.checkpoint = request->checkpoint();
  if (request->has_checkpoint_step()) op.checkpoint_step = request->checkpoint_step();
  op.output_tail = request->output_tail();
  TakeUnused(request->unused(), &op, &violations);
  return Finish(context, request->trial(), request->token(), std::move(op), std::move(violations), response);
}

grpc::ServerUnaryReactor* WorkerService::Fail(grpc::CallbackServerContext* context, const v1::FailRequest* request,
                                              v1::FinishResponse* response) {
  base::Violations violations;
  coordinator::FinishOp op;
  absl::StatusOr<study::Failure> failure = wire::FromProto(request->failure());
  if (!failure.ok())
    violations.AddAll("failure", failure.status());
  else
    op.content = *std::move(failure);
  op.output_tail = request->output_tail();
  TakeUnused(request->unused(), &op, &violations);
  return Finish(context, request->trial(), request->token(), std::move(op), std::move(violations), response);
}

grpc::ServerUnaryReactor* WorkerService::DeclareParameters(grpc::CallbackServerContext* context,
                                                           const v1::DeclareParametersRequest* request,
                                                           v1::DeclareParametersResponse* response) {
  if (const absl::Status admitted = backend_.AdmitResult(); !admitted.ok()) return FinishWith(context, admitted);
  base::Violations violations;
  coordinator::DeclareOp op;
  const absl::StatusOr<wire::TrialId> id = wire::ParseTrialName("trial", request->trial());
  violations.AddAll("", id.status());
  CheckToken(request->token(), &violations);
  if (request->parameters_size() < 1 || request->parameters_size() > kMaxDeclared) {
    violations.Add("parameters", absl::StrCat("has ", request->parameters_size(), " entries, not 1 to ", kMaxDeclared));
  } else if (request->ByteSizeLong() > kMaxDeclaredBytes) {
    violations.Add("parameters", absl::StrCat("have ", request->ByteSizeLong(), " bytes; at most ", kMaxDeclaredBytes,
                                              " are allowed"));
  } else {
    std::set<std::string> names;
    for (int i = 0; i < request->parameters_size(); ++i) {
      const std::string at = absl::StrCat("parameters[", i, "]");
      absl::StatusOr<study::ParameterSpec> parameter = wire::FromProto(request->parameters(i));
      violations.AddAll(at, parameter.status());
      if (!parameter.ok()) continue;
      if (!names.insert(parameter->name).second) {
        violations.Add(at + ".name", absl::StrCat(base::Quote(parameter->name), " is there twice"));
      }
      violations.AddAll(at, study::ValidateText("display_name", parameter->display_name, 200, false));
      op.parameters.push_back(*std::move(parameter));
    }
  }
  if (!violations.empty()) return FinishWith(context, violations.ToStatus());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  op.id = id->study;
  op.number = id->number;
  op.token = backend_.CallerOf(*context).Lease(request->token());
  op.done = [reactor, response](absl::StatusOr<coordinator::DeclareReply> reply) {
    if (reply.ok()) {
      *response->mutable_parameters() = wire::ToProto(reply->parameters);
      response->set_seq(reply->seq);
    }
    reactor->Finish(wire::ToGrpc(reply.status()));
  };
  SubmitFor(backend_, *context, std::move(op));
  return reactor;
}

grpc::ServerUnaryReactor* WorkerService::Release(grpc::CallbackServerContext* context,
                                                 const v1::ReleaseRequest* request, v1::FinishResponse* response) {
  coordinator::FinishOp op;
  op.content = coordinator::ReleaseContent{};
  op.checkpoint = request->checkpoint();
  if (request->has_checkpoint_step()) op.checkpoint_step = request->checkpoint_step();
  return Finish(context, request->trial(), request->token(), std::move(op), {}, response);
}

grpc::ServerUnaryReactor* WorkerService::GetServerInfo(grpc::CallbackServerContext* context,
                                                       const v1::GetServerInfoRequest*, v1::ServerInfo* response) {
  response->set_version(base::kVersion);
  response->set_seq(backend_.coordinator->committed_seq());
  response->set_serving(backend_.coordinator->serving());
  response->set_grpc_version(grpc::Version());
  response->set_sqlite_version(sqlite3_libversion());
  response->set_plaintext(!access::Private(*context));
  response->set_open(backend_.access == nullptr || backend_.access->auth() == access::Auth::kOff);
  const access::Caller caller = backend_.CallerOf(*context);
  response->set_project(caller.project);
  response->set_caller(caller.name);
  for (const access::Role role : caller.roles) response->add_roles(std::string(access::ToString(role)));
  return FinishWith(context, absl::OkStatus());
}

}  // namespace luthier::service
