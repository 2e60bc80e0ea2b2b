#include <utility>

#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "luthier/v1/admin_service.pb.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

constexpr int kMaxAuditPage = 1000;
constexpr int kDefaultAuditPage = 100;
constexpr absl::Duration kLongestBatch = absl::Seconds(10);

access::Role FromMessage(v1::Role role, base::Violations* violations) {
  switch (role) {
    case v1::VIEWER:
      return access::Role::kViewer;
    case v1::USER:
      return access::Role::kUser;
    case v1::WORKER:
      return access::Role::kWorker;
    case v1::ADMIN:
      return access::Role::kAdmin;
    case v1::MAINTAINER:
      return access::Role::kMaintainer;
    default:
      violations->Add("roles", absl::StrCat("has the unknown role ", static_cast<int>(role)));
      return access::Role::kViewer;
  }
}

v1::Role RoleMessage(access::Role role) {
  switch (role) {
    case access::Role::kViewer:
      return v1::VIEWER;
    case access::Role::kUser:
      return v1::USER;
    case access::Role::kWorker:
      return v1::WORKER;
    case access::Role::kAdmin:
      return v1::ADMIN;
    case access::Role::kMaintainer:
      return v1::MAINTAINER;
  }
  return v1::ROLE_UNSPECIFIED;
}

void Fill(const access::TokenRecord& token, v1::Token* message) {
  message->set_id(token.id);
  message->set_name(token.name);
  message->set_project(token.project);
  for (const std::string& project : token.all_projects()) message->add_projects(project);
  for (const access::Role role : token.roles) message->add_roles(RoleMessage(role));
  message->set_commands(token.commands);
  message->set_certificate_sha256(token.certificate);
  *message->mutable_create_time() = wire::ToProto(token.create_time);
  *message->mutable_expire_time() = wire::ToProto(token.expire_time);
  if (token.last_use_time != absl::InfinitePast()) {
    *message->mutable_last_use_time() = wire::ToProto(token.last_use_time);
  }
  if (token.revoke_time != absl::InfiniteFuture()) *message->mutable_revoke_time() = wire::ToProto(token.revoke_time);
  if (token.overlap_end != absl::InfinitePast()) {
    *message->mutable_overlap_end_time() = wire::ToProto(token.overlap_end);
  }
}

study::Quotas FromProto(const v1::Quotas& quotas) {
  return {quotas.studies(), quotas.running_trials(), quotas.waiting_asks(), quotas.suggest_cpu(), quotas.bytes()};
}

void Fill(const access::ProjectRecord& project, v1::Project* message) {
  message->set_id(project.id);
  v1::Quotas& quotas = *message->mutable_quotas();
  quotas.set_studies(project.quotas.studies);
  quotas.set_running_trials(project.quotas.running_trials);
  quotas.set_waiting_asks(project.quotas.waiting_asks);
  quotas.set_suggest_cpu(project.quotas.suggest_cpu);
  quotas.set_bytes(project.quotas.bytes);
  if (project.create_time != absl::UnixEpoch()) *message->mutable_create_time() = wire::ToProto(project.create_time);
}

void Fill(const access::AuditRecord& entry, v1::AuditEntry* message) {
  message->set_number(entry.number);
  *message->mutable_time() = wire::ToProto(entry.time);
  message->set_token(entry.token);
  message->set_name(entry.name);
  message->set_peer(entry.peer);
  message->set_method(entry.method);
  message->set_object(entry.object);
  message->set_request_id(entry.request_id);
  message->set_outcome(entry.outcome);
  message->set_times(entry.times);
  *message->mutable_last_time() = wire::ToProto(entry.last_time);
}

absl::StatusOr<access::AuditKind> FromMessage(v1::AuditKind kind) {
  switch (kind) {
    case v1::AUDIT_KIND_UNSPECIFIED:
      return access::AuditKind::kAll;
    case v1::CHANGES:
      return access::AuditKind::kChanges;
    case v1::REFUSALS:
      return access::AuditKind::kRefusals;
    default:
      return base::BadField("kind", absl::StrCat(static_cast<int>(kind), " is not CHANGES or REFUSALS"));
  }
}

// Returns UNAVAILABLE REPLY_LOST: changes that the token began before its end may still be stored.
absl::Status NotYetStored(const std::string& token) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kReplyLost;
  detail.retry_delay = absl::Seconds(1);
  return base::MakeError(absl::StatusCode::kUnavailable,
                         absl::StrCat("token ", token,
                                      " is revoked, but the disk is slow, and what was begun by it before may still be "
                                      "stored; send the same request again to learn when that is over"),
                         std::move(detail));
}

// Converts a duration; an absent one is zero.
absl::Duration DurationOf(bool present, const google::protobuf::Duration& message, absl::string_view field,
                          base::Violations* violations) {
  if (!present) return absl::ZeroDuration();
  const absl::StatusOr<absl::Duration> duration = wire::FromProto(message);
  violations->AddAll(field, duration.status());
  if (duration.ok() && *duration == absl::ZeroDuration()) violations->Add(field, "is 0; leave it out for the default");
  return duration.value_or(absl::ZeroDuration());
}

// Returns the right by which a change is made, and its id.
absl::StatusOr<access::Change> ChangeOf(const Call& call, const std::string& request_id) {
  LUTHIER_RETURN_IF_ERROR(CheckRequestId(request_id));
  return access::Change{call.permit(), call.caller().RequestId(request_id)};
}

absl::Status CreateToken(const Call& call, const v1::CreateTokenRequest& request, v1::CreateTokenResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const access::Change change, ChangeOf(call, request.request_id()));
  base::Violations violations;
  access::TokenRecord wanted;
  wanted.name = request.name();
  wanted.project = request.project();
  wanted.projects.assign(request.projects().begin(), request.projects().end());
  for (const int role : request.roles()) wanted.roles.insert(FromMessage(static_cast<v1::Role>(role), &violations));
  wanted.commands = request.commands();
  wanted.certificate = request.certificate_sha256();
  wanted.lifetime = DurationOf(request.has_lifetime(), request.lifetime(), "lifetime", &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  LUTHIER_ASSIGN_OR_RETURN(const auto made, call.backend().access->registry().CreateToken(std::move(wanted), change));
  Fill(made.first, response->mutable_token());
  response->set_secret(made.second);
  return absl::OkStatus();
}

absl::Status ListTokens(const Call& call, const v1::ListTokensRequest& request, v1::ListTokensResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const auto tokens, call.backend().access->registry().ListTokens(request.project()));
  for (const access::TokenRecord& token : tokens) Fill(token, response->add_tokens());
  return absl::OkStatus();
}

absl::Status RotateToken(const Call& call, const v1::RotateTokenRequest& request, v1::CreateTokenResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const access::Change change, ChangeOf(call, request.request_id()));
  base::Violations violations;
  const absl::Duration overlap = DurationOf(request.has_overlap(), request.overlap(), "overlap", &violations);
  const absl::Duration lifetime = DurationOf(request.has_lifetime(), request.lifetime(), "lifetime", &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  LUTHIER_ASSIGN_OR_RETURN(const auto made,
                           call.backend().access->registry().RotateToken(request.id(), overlap, lifetime, change));
  Fill(made.first, response->mutable_token());
  response->set_secret(made.second);
  return absl::OkStatus();
}

absl::Status RevokeToken(const Call& call, const v1::RevokeTokenRequest& request, v1::Token* response) {
  LUTHIER_ASSIGN_OR_RETURN(const access::TokenRecord token,
                           call.backend().access->registry().RevokeToken(request.id(), {call.permit(), ""}));
  if (!call.backend().coordinator->AwaitBatch(kLongestBatch)) return NotYetStored(token.id);
  Fill(token, response);
  return absl::OkStatus();
}

absl::Status CreateProject(const Call& call, const v1::CreateProjectRequest& request, v1::Project* response) {
  LUTHIER_ASSIGN_OR_RETURN(const access::Change change, ChangeOf(call, request.request_id()));
  LUTHIER_ASSIGN_OR_RETURN(const access::ProjectRecord project, call.backend().access->registry().CreateProject(
                                                                    request.id(), FromProto(request.quotas()), change));
  Fill(project, response);
  return absl::OkStatus();
}

absl::Status UpdateProject(const Call& call, const v1::UpdateProjectRequest& request, v1::Project* response) {
  LUTHIER_ASSIGN_OR_RETURN(const access::Change change, ChangeOf(call, request.request_id()));
  LUTHIER_ASSIGN_OR_RETURN(const access::ProjectRecord project, call.backend().access->registry().UpdateProject(
                                                                    request.id(), FromProto(request.quotas()), change));
  Fill(project, response);
  return absl::OkStatus();
}

absl::Status ListProjects(const Call& call, const v1::ListProjectsRequest&, v1::ListProjectsResponse* response) {
  LUTHIER_ASSIGN_OR_RETURN(const auto projects, call.backend().access->registry().ListProjects());
  for (const access::ProjectRecord& project : projects) Fill(project, response->add_projects());
  return absl::OkStatus();
}

absl::Status ListAudit(const Call& call, const v1::ListAuditRequest& request, v1::ListAuditResponse* response) {
  const int size = request.page_size() == 0 ? kDefaultAuditPage : request.page_size();
  if (size < 1 || size > kMaxAuditPage) {
    return base::BadField("page_size",
                          absl::StrCat(size, " is not between 1 and ", kMaxAuditPage, " (0: ", kDefaultAuditPage, ")"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const access::AuditKind kind, FromMessage(request.kind()));
  LUTHIER_ASSIGN_OR_RETURN(const auto entries,
                           call.backend().access->registry().ListAudit(request.before(), size, kind));
  for (const access::AuditRecord& entry : entries) Fill(entry, response->add_entries());
  return absl::OkStatus();
}

absl::Status OpenPage(const Call& call, const v1::OpenPageRequest&, v1::OpenPageResponse* response) {
  const Backend& backend = call.backend();
  std::string url = backend.page_url ? backend.page_url() : "";
  if (url.empty() && (!call.peer().own_user || !backend.open_page)) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kNotOpen,
                           "this coordinator has no page: start luthierd with --http-listen 127.0.0.1:7792, or call "
                           "through the socket in its data directory");
  }
  if (url.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(url, backend.open_page());
  }
  response->set_url(std::move(url));
  if (backend.access->auth() == access::Auth::kOff) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(std::string token, backend.access->registry().PageToken());
  response->set_token(std::move(token));
  return absl::OkStatus();
}

}  // namespace

std::vector<Method> AdminMethods() {
  using access::Right;
  return {
      AdminChange("AdminService/CreateToken", CreateToken),
      Read("AdminService/ListTokens", Right::kAdmin, ListTokens),
      AdminChange("AdminService/RotateToken", RotateToken),
      AdminChange("AdminService/RevokeToken", RevokeToken),
      AdminChange("AdminService/CreateProject", CreateProject),
      AdminChange("AdminService/UpdateProject", UpdateProject),
      Read("AdminService/ListProjects", Right::kAdmin, ListProjects),
      Read("AdminService/ListAudit", Right::kAdmin, ListAudit),
      AdminChange("AdminService/OpenPage", OpenPage),
  };
}

}  // namespace luthier::service
