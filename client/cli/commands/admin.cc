#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/commands.h"
#include "client/cli/pki.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/certificate.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeText(bool present, const google::protobuf::Timestamp& time) {
  if (!present) return "";
  const absl::StatusOr<absl::Time> parsed = wire::FromProto(time);
  return parsed.ok() ? absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", *parsed, absl::UTCTimeZone()) : "";
}

std::string RolesText(const v1::Token& token) {
  std::string text = absl::StrJoin(token.roles(), "+", [](std::string* out, int role) {
    absl::StrAppend(out, absl::AsciiStrToLower(v1::Role_Name(static_cast<v1::Role>(role))));
  });
  if (token.commands()) absl::StrAppend(&text, "+commands");
  if (!token.certificate_sha256().empty()) absl::StrAppend(&text, "+certificate");
  return text;
}

// True if a token in force ends within 14 days, and was not made for so short a time.
bool EndsSoon(const v1::Token& token) {
  constexpr absl::Duration kSoon = absl::Hours(14 * 24);
  const absl::StatusOr<absl::Time> begin = wire::FromProto(token.create_time());
  const absl::StatusOr<absl::Time> end = wire::FromProto(token.expire_time());
  if (!begin.ok() || !end.ok() || token.has_revoke_time()) return false;
  const absl::Duration left = *end - absl::Now();
  return left > absl::ZeroDuration() && left <= kSoon && *end - *begin > kSoon;
}

std::string StateOf(const v1::Token& token) {
  if (token.has_revoke_time()) return "revoked";
  const absl::StatusOr<absl::Time> end = wire::FromProto(token.expire_time());
  return end.ok() && *end <= absl::Now() ? "expired" : "in force";
}

// Coordinators of older versions name the project alone.
std::vector<std::string> ProjectsOf(const v1::Token& token) {
  std::vector<std::string> projects(token.projects().begin(), token.projects().end());
  return projects.empty() ? std::vector{token.project()} : projects;
}

Json TokenJson(const v1::Token& token) {
  Json json;
  json["id"] = token.id();
  json["name"] = token.name();
  json["project"] = token.project();
  json["projects"] = ProjectsOf(token);
  json["roles"] = Json::array();
  for (const int role : token.roles()) {
    json["roles"].push_back(absl::AsciiStrToLower(v1::Role_Name(static_cast<v1::Role>(role))));
  }
  json["commands"] = token.commands();
  json["certificate_sha256"] = token.certificate_sha256();
  json["state"] = StateOf(token);
  json["create_time"] = TimeText(token.has_create_time(), token.create_time());
  json["expire_time"] = TimeText(token.has_expire_time(), token.expire_time());
  json["last_use_time"] = TimeText(token.has_last_use_time(), token.last_use_time());
  json["revoke_time"] = TimeText(token.has_revoke_time(), token.revoke_time());
  return json;
}

// Prints the secret alone to standard output, so that it can be sent to a file, and everything else for people.
absl::StatusOr<int> PrintSecret(Context& context, const v1::CreateTokenResponse& made) {
  if (context.structured()) {
    Json json = TokenJson(made.token());
    json["secret"] = made.secret();
    context.Print(json);
    return kExitDone;
  }
  context.out() << made.secret() << "\n";
  context.err() << "token " << made.token().id() << " (" << made.token().name() << ", " << RolesText(made.token())
                << ", project " << absl::StrJoin(ProjectsOf(made.token()), ",") << ") until "
                << TimeText(made.token().has_expire_time(), made.token().expire_time()) << "; it is not shown again\n";
  return kExitDone;
}

absl::StatusOr<v1::Role> RoleOf(const std::string& text) {
  v1::Role role = v1::ROLE_UNSPECIFIED;
  if (!v1::Role_Parse(absl::AsciiStrToUpper(text), &role) || role == v1::ROLE_UNSPECIFIED) {
    return UsageError("--role", absl::StrCat(base::Quote(text), " is not viewer, user, maintainer, worker or admin"));
  }
  return role;
}

absl::StatusOr<int> PrintCertificate(Context& context, const IssuedCertificate& made) {
  if (context.structured()) {
    Json json;
    json["certificate"] = made.cert_file;
    json["key"] = made.key_file;
    json["sha256"] = made.fingerprint;
    json["not_after"] = made.not_after;
    context.Print(json);
    return kExitDone;
  }
  context.out() << made.cert_file << "\n  key: " << made.key_file
                << " (keep it secret)\n  SHA-256: " << made.fingerprint << "\n  valid until " << made.not_after << "\n";
  return kExitDone;
}

// Turns fields of errors into options.
template <typename T>
absl::StatusOr<T> AsUsage(absl::StatusOr<T> result) {
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(result.status());
  if (result.ok() || !detail || detail->violations.empty()) return result;
  return UsageError("--" + detail->violations[0].field, detail->violations[0].description);
}

}  // namespace

absl::StatusOr<int> ServerInfo(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::ServerInfo info, client->GetServerInfo());
  const std::vector<std::string> roles(info.roles().begin(), info.roles().end());
  if (context.structured()) {
    Json json;
    json["version"] = info.version();
    json["seq"] = info.seq();
    json["serving"] = info.serving();
    json["plaintext"] = info.plaintext();
    json["open"] = info.open();
    json["caller"] = info.caller();
    json["roles"] = roles;
    json["project"] = info.project();
    json["grpc_version"] = info.grpc_version();
    json["sqlite_version"] = info.sqlite_version();
    context.Print(json);
    return kExitDone;
  }
  Table table({"server", ""});
  const auto add = [&](const char* name, const std::string& value) {
    table.Add({Cell::Text(name), Cell::Text(value)});
  };
  add("version", info.version());
  add("state", info.serving() ? "serving" : "not serving");
  add("connection", info.plaintext() ? "plain text: whoever is between can read it" : "private");
  add("tokens", info.open() ? "not asked for: everybody is an admin" : "asked for");
  add("you are", absl::StrCat(info.caller(), " (", absl::StrJoin(roles, ", "), ")"));
  add("project", info.project());
  context.Print(table);
  return kExitDone;
}

absl::StatusOr<int> AdminPkiInit(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const IssuedCertificate made, MakeAuthority(context.options().out));
  return PrintCertificate(context, made);
}

absl::StatusOr<int> AdminPkiIssue(Context& context) {
  const Options& options = context.options();
  if (options.hosts.empty() == options.name.empty()) {
    return UsageError("--server", "give --server HOST for a server's certificate, or --client NAME for another's");
  }
  LUTHIER_ASSIGN_OR_RETURN(const IssuedCertificate made,
                           AsUsage(options.hosts.empty() ? IssueClient(options.out, options.name)
                                                         : IssueServer(options.out, options.hosts)));
  return PrintCertificate(context, made);
}

absl::StatusOr<int> AdminTokenCreate(Context& context) {
  const Options& options = context.options();
  v1::CreateTokenRequest request;
  request.set_name(options.name);
  if (absl::StrContains(options.project, ',')) {
    for (const absl::string_view project : absl::StrSplit(options.project, ',')) {
      request.add_projects(std::string(project));
    }
  } else {
    request.set_project(options.project);
  }
  for (const std::string& text : options.roles) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::Role role, RoleOf(text));
    request.add_roles(role);
  }
  request.set_commands(options.commands);
  if (!options.certificate.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string pem, context.ReadFile(options.certificate));
    const absl::StatusOr<std::string> fingerprint = wire::CertificateSha256(pem);
    if (!fingerprint.ok()) {
      return UsageError("--certificate", absl::StrCat(base::Quote(options.certificate), ": ",
                                                      std::string(fingerprint.status().message())));
    }
    request.set_certificate_sha256(*fingerprint);
  }
  if (options.lifetime != absl::ZeroDuration()) *request.mutable_lifetime() = wire::ToProto(options.lifetime);
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::CreateTokenResponse made, client->CreateToken(request));
  return PrintSecret(context, made);
}

absl::StatusOr<int> AdminTokenList(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Token> tokens, client->ListTokens(context.options().project));
  if (context.structured()) {
    Json all = Json::array();
    for (const v1::Token& token : tokens) all.push_back(TokenJson(token));
    context.Print(all);
    return kExitDone;
  }
  Table table({"id", "name", "project", "roles", "state", "expires", "last use"});
  int ending = 0;
  for (const v1::Token& token : tokens) {
    if (EndsSoon(token)) ++ending;
    table.Add({Cell::Text(token.id()), Cell::Text(token.name()), Cell::Text(absl::StrJoin(ProjectsOf(token), ",")),
               Cell::Text(RolesText(token)), Cell::Text(EndsSoon(token) ? "ends soon" : StateOf(token)),
               Cell::Text(TimeText(token.has_expire_time(), token.expire_time()).substr(0, 10)),
               Cell::Text(TimeText(token.has_last_use_time(), token.last_use_time()).substr(0, 16))});
  }
  context.Print(table);
  if (ending > 0) {
    context.err() << "warning: " << ending << (ending == 1 ? " token ends" : " tokens end")
                  << " within 14 days; luthier admin token rotate ID --overlap 24h makes a new one\n";
  }
  return kExitDone;
}

absl::StatusOr<int> AdminTokenRotate(Context& context) {
  const Options& options = context.options();
  v1::RotateTokenRequest request;
  request.set_id(options.token);
  if (options.overlap != absl::ZeroDuration()) *request.mutable_overlap() = wire::ToProto(options.overlap);
  if (options.lifetime != absl::ZeroDuration()) *request.mutable_lifetime() = wire::ToProto(options.lifetime);
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::CreateTokenResponse made, client->RotateToken(request));
  return PrintSecret(context, made);
}

absl::StatusOr<int> AdminTokenRevoke(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Token token, client->RevokeToken(context.options().token));
  if (context.structured()) {
    context.Print(TokenJson(token));
  } else {
    context.out() << "token " << token.id() << " (" << token.name() << ") is refused from now on\n";
  }
  return kExitDone;
}

namespace {

Json ProjectJson(const v1::Project& project) {
  Json json;
  json["id"] = project.id();
  json["create_time"] = TimeText(project.has_create_time(), project.create_time());
  json["quotas"] = wire::ToJson(project.quotas());
  return json;
}

Table ProjectTable(const std::vector<v1::Project>& projects) {
  const auto limit = [](double value) { return value > 0 ? Cell::Number(value) : Cell::Text("-"); };
  Table table({"project", "created", "studies", "running", "asks", "cpu", "bytes"});
  for (const v1::Project& project : projects) {
    const v1::Quotas& quotas = project.quotas();
    table.Add({Cell::Text(project.id()), Cell::Text(TimeText(project.has_create_time(), project.create_time())),
               limit(static_cast<double>(quotas.studies())), limit(static_cast<double>(quotas.running_trials())),
               limit(static_cast<double>(quotas.waiting_asks())), limit(quotas.suggest_cpu()),
               limit(static_cast<double>(quotas.bytes()))});
  }
  return table;
}

// Returns the quotas with those of the command line in place.
v1::Quotas GivenQuotas(const Options& options, v1::Quotas quotas) {
  if (options.quota_studies) quotas.set_studies(*options.quota_studies);
  if (options.quota_running) quotas.set_running_trials(*options.quota_running);
  if (options.quota_waiting) quotas.set_waiting_asks(*options.quota_waiting);
  if (options.quota_bytes) quotas.set_bytes(*options.quota_bytes);
  if (options.quota_cpu) quotas.set_suggest_cpu(*options.quota_cpu);
  return quotas;
}

}  // namespace

absl::StatusOr<int> AdminProjectCreate(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Project project, client->CreateProject(options.name, GivenQuotas(options, {})));
  if (context.structured()) {
    context.Print(ProjectJson(project));
  } else {
    context.out() << "project " << project.id() << "; luthier admin token create --project " << project.id()
                  << " --role user --name NAME lets somebody in\n";
  }
  return kExitDone;
}

absl::StatusOr<int> AdminProjectUpdate(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Project> projects, client->ListProjects());
  v1::Quotas quotas;
  for (const v1::Project& project : projects) {
    if (project.id() == options.name) quotas = project.quotas();
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Project project,
                           client->UpdateProject(options.name, GivenQuotas(options, quotas)));
  if (context.structured()) {
    context.Print(ProjectJson(project));
  } else {
    context.Print(ProjectTable({project}));
  }
  return kExitDone;
}

absl::StatusOr<int> AdminProjectList(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Project> projects, client->ListProjects());
  if (context.structured()) {
    Json all = Json::array();
    for (const v1::Project& project : projects) all.push_back(ProjectJson(project));
    context.Print(all);
  } else {
    context.Print(ProjectTable(projects));
  }
  return kExitDone;
}

absl::StatusOr<int> AdminAudit(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.admin_client());
  constexpr int kPage = 1000;
  const v1::AuditKind kind = options.audit_kind == "changes"    ? v1::CHANGES
                             : options.audit_kind == "refusals" ? v1::REFUSALS
                                                                : v1::AUDIT_KIND_UNSPECIFIED;
  int64_t left = options.entries;
  for (int64_t before = 0; left > 0;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::AuditEntry> entries,
                             client->ListAudit(before, static_cast<int>(std::min<int64_t>(left, kPage)), kind));
    for (const v1::AuditEntry& entry : entries) {
      Json json;
      json["number"] = entry.number();
      json["time"] = TimeText(entry.has_time(), entry.time());
      json["token"] = entry.token();
      json["name"] = entry.name();
      json["peer"] = entry.peer();
      json["method"] = entry.method();
      json["object"] = entry.object();
      json["request_id"] = entry.request_id();
      json["outcome"] = entry.outcome();
      json["times"] = entry.times();
      json["last_time"] = TimeText(entry.has_last_time(), entry.last_time());
      context.out() << JsonText(json) << "\n";
      before = entry.number();
    }
    left -= static_cast<int64_t>(entries.size());
    if (entries.empty() || before <= 1) break;
  }
  return kExitDone;
}

}  // namespace luthier::cli
