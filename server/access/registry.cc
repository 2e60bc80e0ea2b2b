#include "server/access/registry.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"
#include "lib/wire/certificate.h"
#include "server/access/token.h"

namespace luthier::access {
namespace {

namespace reason = base::reason;
using base::MakeError;
using base::Quote;

constexpr size_t kMaxTokens = 10'000;  // Including those that are no longer in force.
constexpr absl::Duration kToldFor = absl::Minutes(10);
constexpr size_t kMaxTold = 1000;
// Longest delay after which lasting calls hear that their token has expired.
constexpr absl::Duration kTick = absl::Milliseconds(250);
constexpr absl::string_view kBearer = "Bearer ";
constexpr absl::string_view kPageName = "page-";  // Names of pages' tokens begin with it.
constexpr size_t kMostWarnings = 20;              // Lines of the log each day about tokens that end.
constexpr size_t kMostProjects = 32;              // A token has no more.

// Returns the text that identifies the wanted token. No part of it has a space.
std::string ContentOf(const TokenRecord& wanted) {
  std::string content = absl::StrCat("create ", wanted.name, " ", wanted.project, " ", wanted.commands, " ",
                                     wanted.certificate, " ", absl::FormatDuration(wanted.lifetime));
  for (const Role role : wanted.roles) absl::StrAppend(&content, " ", ToString(role));
  for (const std::string& project : wanted.projects) absl::StrAppend(&content, " in ", project);
  return content;
}

// Checks that `project` is the first of `projects`, if there are any, and that none is there twice.
void CheckProjects(const TokenRecord& wanted, base::Violations* violations) {
  const std::vector<std::string>& projects = wanted.projects;
  if (projects.empty()) return;
  if (projects[0] != wanted.project) {
    violations->Add("project", absl::StrCat(Quote(wanted.project), " is not the first of projects; leave it out"));
  }
  if (projects.size() > kMostProjects) {
    violations->Add("projects", absl::StrCat("has ", projects.size(), " entries; at most ", kMostProjects,
                                             " are allowed: make several tokens"));
  }
  const std::set<std::string> different(projects.begin(), projects.end());
  if (different.size() != projects.size()) violations->Add("projects", "names a project twice");
}

// Writes a file that its owner alone can read. Existing files are replaced, and links not followed.
absl::Status WriteSecret(const std::string& path, const std::string& text) {
  const std::string made = path + ".new";
  unlink(made.c_str());
  const base::Descriptor file(open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string line = text + "\n";
  if (file.get() < 0 || write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      fsync(file.get()) != 0 || rename(made.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("can't write ", path, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

Caller CallerWith(const TokenRecord& token) {
  Caller caller;
  caller.token = token.id;
  caller.name = token.name;
  caller.project = token.project;
  caller.projects = token.all_projects();
  caller.page = absl::StartsWith(token.name, kPageName) && token.roles.count(Role::kAdmin) > 0;
  caller.roles = token.roles;
  caller.commands = token.commands || caller.any_project();
  return caller;
}

}  // namespace

Registry::Ending Registry::OnEnd(std::shared_ptr<const Standing> standing, WaitingCalls::Listener ended) const {
  if (standing == nullptr) return nullptr;
  WaitingCalls* const waiting = waiting_.get();
  const uint64_t number = waiting->Add(std::move(standing), std::move(ended));
  return Ending(nullptr, [waiting, number](void*) { waiting->Remove(number); });
}

absl::StatusOr<std::unique_ptr<Registry>> Registry::Open(const std::string& directory, const base::Clock* clock) {
  std::unique_ptr<Registry> registry(new Registry(directory, clock));
  if (!directory.empty()) LUTHIER_RETURN_IF_ERROR(registry->Load());
  return registry;
}

absl::Status Registry::Load() {
  LUTHIER_ASSIGN_OR_RETURN(store_, AccessStore::Open(directory_));
  LUTHIER_ASSIGN_OR_RETURN(std::vector<TokenRecord> tokens, store_->Tokens());
  LUTHIER_ASSIGN_OR_RETURN(std::vector<ProjectRecord> projects, store_->Projects());
  audit_ = std::make_unique<Audit>(store_.get(), clock_);
  waiting_ = std::make_unique<WaitingCalls>(clock_, kTick);
  base::MutexLock lock(&mutex_);
  for (const TokenRecord& token : tokens) Become(token, &tokens_[token.id]);
  for (ProjectRecord& project : projects) projects_.emplace(project.id, std::move(project));
  return absl::OkStatus();
}

absl::Status Registry::CheckStore() const {
  if (store_) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kNoStore,
      "this coordinator has no tokens and no projects: it listens for its own user alone, or keeps nothing on "
      "disk; start luthierd with --data-dir and --listen HOST:PORT");
}

absl::StatusOr<std::string> Registry::MakeFirstToken() {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  {
    base::MutexLock lock(&mutex_);
    if (!tokens_.empty()) return std::string();
  }
  TokenRecord admin;
  admin.name = "admin";
  admin.roles = {Role::kAdmin};
  admin.commands = true;
  admin.lifetime = kLongestLifetime;
  LUTHIER_ASSIGN_OR_RETURN(const auto made, CreateToken(std::move(admin)));
  const std::string path = absl::StrCat(directory_, "/admin.token");
  LUTHIER_RETURN_IF_ERROR(WriteSecret(path, made.second));
  return path;
}

absl::StatusOr<std::string> Registry::PageToken() {
  constexpr absl::Duration kLifetime = absl::Hours(12);
  const base::MutexLock paging(&paging_);
  const absl::Time now = StoredTime(clock_->Wall());
  if (const std::optional<TokenText> before = ParseToken(page_token_)) {
    const absl::StatusOr<TokenRecord> record = FindToken(before->id);
    if (record.ok() && record->in_force(now + kLifetime / 2)) return page_token_;
  }
  const TokenText text = NewToken();
  TokenRecord page;
  page.name = absl::StrCat(kPageName, text.id);
  page.project = study::kDefaultProject;
  page.roles = {Role::kAdmin};
  page.commands = true;
  page.lifetime = kLifetime;
  if (store_ != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(const auto made, CreateToken(std::move(page)));
    page_token_ = made.second;
    return page_token_;
  }
  page.id = text.id;
  page.hash = HashOf(text.secret);
  page.create_time = now;
  page.expire_time = now + kLifetime;
  if (waiting_ == nullptr) waiting_ = std::make_unique<WaitingCalls>(clock_, kTick);
  const base::MutexLock lock(&mutex_);
  Become(page, &tokens_[page.id]);
  page_token_ = text.ToString();
  return page_token_;
}

absl::StatusOr<Holder> Registry::HolderOf(const std::string& authorization,
                                          absl::FunctionRef<std::string()> certificate) const {
  const absl::Status bad =
      MakeError(absl::StatusCode::kUnauthenticated, reason::kBadToken, "this coordinator does not know the token");
  if (!absl::StartsWithIgnoreCase(authorization, kBearer)) return bad;
  const std::optional<TokenText> text = ParseToken(absl::string_view(authorization).substr(kBearer.size()));
  if (!text) return bad;
  const std::string hash = HashOf(text->secret);
  const absl::Time now = clock_->Wall();
  base::MutexLock lock(&mutex_);
  const auto found = tokens_.find(text->id);
  if (found == tokens_.end()) return bad;
  const TokenRecord& token = found->second.record;
  const bool newest = SameHash(hash, token.hash);
  if (!newest && !SameHash(hash, token.previous_hash)) return bad;
  if (!token.certificate.empty() && token.certificate != certificate()) {
    return MakeError(absl::StatusCode::kUnauthenticated, reason::kBadToken,
                     absl::StrCat("token ", token.id,
                                  " is bound to a client certificate, which this connection does not show; give "
                                  "it with --tls-cert and --tls-key"));
  }
  const std::shared_ptr<Standing>& standing = newest ? found->second.newest : found->second.previous;
  LUTHIER_RETURN_IF_ERROR(standing->Check(now));
  return Holder{CallerWith(token), standing, newest && token.unclaimed};
}

std::vector<std::shared_ptr<Standing>> Registry::Become(const TokenRecord& token, Known* known) {
  const auto known_as = [&](const std::string& hash) {
    return hash.empty()                          ? nullptr
           : hash == known->record.hash          ? known->newest
           : hash == known->record.previous_hash ? known->previous
                                                 : std::make_shared<Standing>(token.id, token.expire_time);
  };
  std::vector<std::shared_ptr<Standing>> before;
  const auto newest = known_as(token.hash), previous = known_as(token.previous_hash);
  for (const std::shared_ptr<Standing>& standing : {known->newest, known->previous}) {
    if (standing == nullptr) continue;
    before.push_back(standing);
    if (standing != newest && standing != previous) standing->Replace();
  }
  known->newest = newest;
  known->previous = previous;
  known->newest->SetEnd(token.expire_time);
  if (known->previous != nullptr) known->previous->GiveWay(std::min(token.overlap_end, token.expire_time));
  if (token.revoked()) {
    known->newest->Revoke();
    if (known->previous != nullptr) known->previous->Revoke();
  }
  known->record = token;
  return before;
}

std::map<std::string, int64_t> Registry::TokensInForce() const {
  std::map<std::string, int64_t> counts;
  for (const Role role : kRoles) {
    counts[std::string(ToString(role))] = 0;
  }
  const absl::Time now = clock_->Wall();
  base::MutexLock lock(&mutex_);
  for (const auto& [id, token] : tokens_) {
    if (!token.record.in_force(now)) continue;
    for (const Role role : token.record.roles) ++counts[std::string(ToString(role))];
  }
  return counts;
}

std::vector<TokenRecord> Registry::EndingSoon() const {
  const absl::Time now = clock_->Wall();
  std::vector<TokenRecord> ending;
  {
    base::MutexLock lock(&mutex_);
    for (const auto& [id, token] : tokens_) {
      const TokenRecord& record = token.record;
      if (record.in_force(now) && record.expire_time - now <= kEndsSoon && record.lifetime > kEndsSoon) {
        ending.push_back(record);
      }
    }
  }
  std::sort(ending.begin(), ending.end(),
            [](const TokenRecord& a, const TokenRecord& b) { return a.expire_time < b.expire_time; });
  return ending;
}

void Registry::WarnOfEnds() {
  const absl::Duration now = clock_->Monotonic();
  {
    base::MutexLock lock(&mutex_);
    if (now < next_warning_) return;
    next_warning_ = now + absl::Hours(24);
  }
  const std::vector<TokenRecord> ending = EndingSoon();
  for (size_t i = 0; i < std::min(ending.size(), kMostWarnings); ++i) {
    const TokenRecord& token = ending[i];
    base::LogWarning(
        "token_ends",
        {{"token", token.id},
         {"name", token.name},
         {"project", token.project},
         {"until", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", token.expire_time, absl::UTCTimeZone())},
         {"days", absl::StrCat((token.expire_time - clock_->Wall()) / absl::Hours(24))},
         {"others", absl::StrCat(ending.size() - 1)},
         {"warning", absl::StrCat("luthier admin token rotate ", token.id, " --overlap 24h makes a new one")}});
  }
}

absl::StatusOr<TokenRecord> Registry::FindToken(const std::string& id) const {
  base::MutexLock lock(&mutex_);
  const auto found = tokens_.find(id);
  if (found != tokens_.end()) return found->second.record;
  return MakeError(absl::StatusCode::kNotFound, reason::kNotFound,
                   absl::StrCat("token ", Quote(id), " does not exist; luthier admin token list shows those that do"));
}

void Registry::NoteCall(const Holder& holder) {
  const std::string& token = holder.caller.token;
  if (token.empty() || audit_ == nullptr) return;
  audit_->NoteUse(token);
  if (!holder.first_use) return;
  std::string hash;
  {
    base::MutexLock lock(&mutex_);
    TokenRecord& record = tokens_.at(token).record;
    if (!record.unclaimed) return;
    record.unclaimed = false;
    hash = record.hash;
  }
  audit_->NoteClaim(token, hash);
}

absl::StatusOr<std::pair<ChangeRecord, bool>> Registry::Begin(const Change& change, const std::string& content) {
  if (change.permit != nullptr) LUTHIER_RETURN_IF_ERROR(change.permit->Check(clock_->Wall()));
  const ChangeRecord request{change.request_id, base::Sha256Hex(content), ""};
  if (request.id.empty()) return std::make_pair(request, false);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<ChangeRecord> before, store_->FindRequest(request.id));
  if (!before) return std::make_pair(request, false);
  if (before->digest == request.digest) return std::make_pair(*before, true);
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kRequestIdReused,
                   "request_id was used for another change before; a fresh UUID for each change is safe");
}

absl::StatusOr<std::pair<TokenRecord, std::string>> Registry::NewSecretFor(TokenRecord token,
                                                                           const ChangeRecord& request) {
  const TokenText text{token.id, NewSecret()};
  token.hash = HashOf(text.secret);
  token.request = request.id;
  token.unclaimed = true;
  LUTHIER_RETURN_IF_ERROR(Keep(token, request));
  const absl::Duration now = clock_->Monotonic();
  for (auto it = told_.begin(); it != told_.end();) it = it->second.until <= now ? told_.erase(it) : std::next(it);
  if (!request.id.empty() && told_.size() < kMaxTold) told_[request.id] = {text.ToString(), now + kToldFor};
  return std::make_pair(std::move(token), text.ToString());
}

absl::StatusOr<std::pair<TokenRecord, std::string>> Registry::SecretAgain(const ChangeRecord& request) {
  LUTHIER_ASSIGN_OR_RETURN(TokenRecord token, FindToken(request.object));
  if (token.revoked()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kRevoked,
                     absl::StrCat("this request was answered before with token ", token.id,
                                  ", which was revoked since; create another under a new request_id"));
  }
  if (token.request == request.id) {
    const auto told = told_.find(request.id);
    if (told != told_.end() && clock_->Monotonic() < told->second.until)
      return std::make_pair(token, told->second.text);
    if (token.unclaimed) return NewSecretFor(std::move(token), request);
  }
  return MakeError(absl::StatusCode::kAlreadyExists, reason::kTokenExists,
                   absl::StrCat("this request was answered before with token ", token.id,
                                ", whose secret is in use and was not kept; luthier admin token rotate ", token.id,
                                " makes another"));
}

absl::Status Registry::Keep(const TokenRecord& token, const ChangeRecord& request) {
  LUTHIER_RETURN_IF_ERROR(store_->Put(token, request));
  std::vector<std::shared_ptr<Standing>> changed;
  {
    base::MutexLock lock(&mutex_);
    changed = Become(token, &tokens_[token.id]);
  }
  for (const std::shared_ptr<Standing>& standing : changed) waiting_->Look(standing.get());
  return absl::OkStatus();
}

absl::StatusOr<std::pair<TokenRecord, std::string>> Registry::CreateToken(TokenRecord wanted, const Change& change) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  base::Violations violations;
  if (wanted.project.empty()) wanted.project = wanted.projects.empty() ? study::kDefaultProject : wanted.projects[0];
  CheckProjects(wanted, &violations);
  if (wanted.projects.size() == 1) wanted.projects.clear();
  if (wanted.lifetime == absl::ZeroDuration()) wanted.lifetime = kDefaultLifetime;
  violations.AddAll("", study::ValidateId("name", wanted.name));
  if (wanted.roles.empty()) violations.Add("roles", "is empty; give viewer, user, maintainer, worker or admin");
  if (wanted.roles.count(Role::kAdmin) > 0 && (wanted.project != study::kDefaultProject || !wanted.projects.empty())) {
    violations.Add("project", "does not go with the role admin, which is for all projects; leave it out");
  }
  if (wanted.lifetime < kShortestLifetime || wanted.lifetime > kLongestLifetime) {
    violations.Add("lifetime", absl::StrCat(absl::FormatDuration(wanted.lifetime), " is not between 1m and 10 years"));
  }
  if (!wanted.certificate.empty()) {
    const absl::StatusOr<std::string> certificate = wire::ParseFingerprint(wanted.certificate);
    if (certificate.ok())
      wanted.certificate = *certificate;
    else
      violations.Add("certificate_sha256", certificate.status().message());
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  base::MutexLock changing(&changing_);
  const absl::Time now = StoredTime(clock_->Wall());
  LUTHIER_ASSIGN_OR_RETURN(auto begun, Begin(change, ContentOf(wanted)));
  if (begun.second) return SecretAgain(begun.first);
  {
    base::MutexLock lock(&mutex_);
    for (const std::string& project : wanted.all_projects()) {
      if (project != study::kDefaultProject && projects_.count(project) == 0) {
        return MakeError(absl::StatusCode::kNotFound, reason::kNotFound,
                         absl::StrCat("project ", Quote(project), " does not exist; luthier admin project create ",
                                      project, " makes it"));
      }
      const auto taken = std::find_if(tokens_.begin(), tokens_.end(), [&](const auto& entry) {
        const TokenRecord& other = entry.second.record;
        const std::vector<std::string> all = other.all_projects();
        return other.name == wanted.name && std::find(all.begin(), all.end(), project) != all.end() &&
               other.in_force(now);
      });
      if (taken != tokens_.end()) {
        return MakeError(
            absl::StatusCode::kAlreadyExists, reason::kTokenExists,
            absl::StrCat("project ", project, " has a token ", Quote(wanted.name), " already, ", taken->first,
                         "; choose another name, or luthier admin token rotate or revoke ", taken->first));
      }
    }
    if (tokens_.size() >= kMaxTokens) {
      return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                       absl::StrCat("there are ", kMaxTokens, " tokens already; rotate one instead"));
    }
  }
  wanted.id = begun.first.object = NewToken().id;
  wanted.create_time = now;
  wanted.lifetime = absl::Trunc(wanted.lifetime, absl::Microseconds(1));
  wanted.expire_time = now + wanted.lifetime;
  return NewSecretFor(std::move(wanted), begun.first);
}

absl::StatusOr<std::pair<TokenRecord, std::string>> Registry::RotateToken(const std::string& id, absl::Duration overlap,
                                                                          absl::Duration lifetime,
                                                                          const Change& change) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  base::MutexLock changing(&changing_);
  const std::string content =
      absl::StrCat("rotate ", id, " ", absl::FormatDuration(overlap), " ", absl::FormatDuration(lifetime));
  LUTHIER_ASSIGN_OR_RETURN(auto begun, Begin(change, content));
  if (begun.second) return SecretAgain(begun.first);
  LUTHIER_ASSIGN_OR_RETURN(TokenRecord token, FindToken(id));
  if (lifetime == absl::ZeroDuration()) lifetime = token.lifetime;
  lifetime = absl::Trunc(lifetime, absl::Microseconds(1));
  overlap = absl::Trunc(overlap, absl::Microseconds(1));
  base::Violations violations;
  if (overlap < absl::ZeroDuration() || overlap > kLongestOverlap) {
    violations.Add("overlap", absl::StrCat(absl::FormatDuration(overlap), " is not between 0 and 30 days"));
  }
  if (lifetime < kShortestLifetime || lifetime > kLongestLifetime) {
    violations.Add("lifetime", absl::StrCat(absl::FormatDuration(lifetime), " is not between 1m and 10 years"));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  const absl::Time now = StoredTime(clock_->Wall());
  if (token.revoked()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kRevoked,
                     absl::StrCat("token ", id, " was revoked; create another"));
  }
  // An old secret that has expired does not become valid again.
  token.previous_hash = token.in_force(now) && overlap > absl::ZeroDuration() ? token.hash : "";
  token.overlap_end = token.previous_hash.empty() ? absl::InfinitePast() : std::min(now + overlap, token.expire_time);
  token.expire_time = now + lifetime;
  token.lifetime = lifetime;
  begun.first.object = id;
  return NewSecretFor(std::move(token), begun.first);
}

absl::StatusOr<TokenRecord> Registry::RevokeToken(const std::string& id, const Change& change) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  base::MutexLock changing(&changing_);
  LUTHIER_RETURN_IF_ERROR(Begin({change.permit, ""}, "").status());
  LUTHIER_ASSIGN_OR_RETURN(TokenRecord token, FindToken(id));
  if (token.revoked()) return token;
  token.revoke_time = StoredTime(clock_->Wall());
  LUTHIER_RETURN_IF_ERROR(Keep(token));
  return token;
}

absl::StatusOr<std::vector<TokenRecord>> Registry::ListTokens(const std::string& project) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  audit_->Flush();  // Writes the last uses.
  LUTHIER_ASSIGN_OR_RETURN(std::vector<TokenRecord> tokens, store_->Tokens());
  if (!project.empty()) {
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                                [&](const auto& token) {
                                  const std::vector<std::string> all = token.all_projects();
                                  return std::find(all.begin(), all.end(), project) == all.end();
                                }),
                 tokens.end());
  }
  return tokens;
}

absl::StatusOr<std::vector<AuditRecord>> Registry::ListAudit(int64_t before, int limit, AuditKind kind) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  audit_->Flush();
  return store_->Audit(before, limit, kind);
}

}  // namespace luthier::access
