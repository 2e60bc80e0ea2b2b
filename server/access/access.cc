#include "server/access/access.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::access {
namespace {

namespace reason = base::reason;
using base::MakeError;
using base::Quote;

constexpr size_t kMaxAuditText = 256;
constexpr char kDone[] = "OK";  // Outcomes in the audit.
constexpr char kHungUp[] = "CANCELLED";

absl::Status NoToken() {
  return MakeError(
      absl::StatusCode::kUnauthenticated, reason::kNoToken,
      "this coordinator asks for a token. On its machine: luthier admin token create --role user --name NAME "
      "--db DIR > NAME.token; then give it with --token-file or LUTHIER_TOKEN_FILE. Who trusts everybody "
      "who reaches the port starts luthierd with --auth off");
}

// Returns the beginning of a text in UTF-8. No character is cut in two, since no reply could carry that.
std::string Cut(absl::string_view text) {
  size_t size = std::min(text.size(), kMaxAuditText);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return std::string(text.substr(0, size));
}

// True if the call changed nothing: it ended with an error other than REPLY_LOST. The effect of a call that hung up is
// unknown.
bool ChangedNothing(absl::string_view outcome) {
  return outcome != kDone && outcome != kHungUp && outcome != reason::kReplyLost;
}

// Returns the name of what a call is about. A study that is to be made is where the caller means it to be; who has no
// valid token means a project only by naming it.
std::string ObjectOf(const Request& request, const Caller& caller) {
  const std::string& project = request.project.empty() ? caller.project : request.project;
  if (request.new_study.empty() || project.empty()) return request.object;
  return absl::StrCat("projects/", project, "/studies/", request.new_study);
}

}  // namespace

absl::StatusOr<Holder> Access::Identify(const Peer& peer) const {
  absl::StatusOr<Holder> holder = NoToken();
  if (!peer.authorization) {
    holder =
        MakeError(absl::StatusCode::kUnauthenticated, reason::kBadToken, "the call has more than one token; send one");
  } else if (!peer.authorization->empty()) {
    holder = registry_->HolderOf(*peer.authorization, peer.certificate);
  }
  if (holder.ok()) return holder;
  // A caller who needs no token may still send one, even one that is unknown here: programs take it from their
  // environment.
  Caller caller;
  caller.name = auth_ == Auth::kOff ? "anyone" : "socket";
  if (auth_ == Auth::kOff || (auth_ == Auth::kAuto && peer.own_user)) return Holder{std::move(caller), nullptr, false};
  return holder;
}

AuditRecord Access::EntryOf(const std::string& address, const Request& request, const Caller& caller) {
  AuditRecord entry;
  entry.token = caller.token;
  entry.name = caller.name;
  entry.peer = address;
  entry.method = request.method;
  entry.object = Cut(ObjectOf(request, caller));
  entry.request_id = Cut(request.request_id);
  return entry;
}

Refusal Access::Refuse(const std::string& address, const Request& request, const Caller& caller, absl::Status status) {
  AuditRecord entry = EntryOf(address, request, caller);
  entry.outcome = base::GetReason(status);
  entry.refused = true;
  Refusal refusal{std::move(status)};
  if (absl::IsUnauthenticated(refusal.status)) {
    if (on_failure_) on_failure_(entry.outcome);
    // A caller without a token does not guess secrets, and is not delayed.
    const absl::Duration delay = refusals_.Count(entry.peer);
    if (entry.outcome != reason::kNoToken) refusal.delay = delay;
  }
  if (registry_->audit() != nullptr) registry_->audit()->Add(std::move(entry));
  return refusal;
}

Refusal Access::Admit(const Peer& peer, const Request& request, Admitted* admitted) {
  const absl::StatusOr<Holder> identified = Identify(peer);
  if (!identified.ok())
    return Refuse(peer.address, request,
                  Caller{.token = "", .name = "", .project = "", .projects = {}, .roles = {}, .commands = false},
                  identified.status());
  admitted->caller = identified->caller;
  admitted->standing = identified->standing;
  admitted->method = request.method;
  admitted->address = peer.address;
  const Caller& caller = admitted->caller;
  const std::string project = request.project.empty() ? caller.project : request.project;
  if (!caller.has(project) && !caller.any_project()) {
    const std::string what = request.object.empty() ? absl::StrCat("project ", project) : request.object;
    return Refuse(
        peer.address, request, caller,
        MakeError(absl::StatusCode::kNotFound, reason::kNotFound, absl::StrCat(Quote(what), " does not exist")));
  }
  if (!caller.may(request.right)) {
    std::string roles;
    for (const Role role : caller.roles) absl::StrAppend(&roles, roles.empty() ? "" : ", ", ToString(role));
    return Refuse(peer.address, request, caller,
                  MakeError(absl::StatusCode::kPermissionDenied, reason::kRole,
                            absl::StrCat("the token ", caller.name, " is for the role ", roles, ", which may not call ",
                                         request.method, "; ask an admin for another (docs/guide/security.md)")));
  }
  if (request.command && !caller.commands) {
    return Refuse(peer.address, request, caller,
                  MakeError(absl::StatusCode::kPermissionDenied, reason::kRole,
                            absl::StrCat("the token ", caller.name,
                                         " may not create or change studies with a command: commands run on workers "
                                         "with their rights; ask an admin for a token made with --commands")));
  }
  registry_->NoteCall(*identified);
  const bool told = request.right == Right::kWrite || request.right == Right::kAdmin;
  if (registry_->audit() != nullptr && told) {
    admitted->entry = EntryOf(peer.address, request, caller);
    if (caller.token.empty()) admitted->entry->token = caller.name;
  }
  return {};
}

void Access::Ended(Admitted* admitted, const absl::Status& status) {
  const std::string why = base::GetReason(status);
  // The token ended while the call was under way.
  const bool midway = admitted->standing != nullptr && absl::IsUnauthenticated(status);
  if (midway && on_failure_) on_failure_(why);
  if (midway && !admitted->entry) {
    Request request;
    request.method = admitted->method;
    admitted->entry = EntryOf(admitted->address, request, admitted->caller);
  }
  if (!admitted->entry || registry_->audit() == nullptr) return;
  AuditRecord entry = *std::exchange(admitted->entry, std::nullopt);
  entry.outcome = status.ok() ? kDone : why.empty() ? absl::StatusCodeToString(status.code()) : why;
  entry.refused = ChangedNothing(entry.outcome);
  registry_->audit()->Add(std::move(entry));
}

}  // namespace luthier::access
