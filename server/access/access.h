#ifndef LUTHIER_SERVER_ACCESS_ACCESS_H_
#define LUTHIER_SERVER_ACCESS_ACCESS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "server/access/refusals.h"
#include "server/access/registry.h"

namespace luthier::access {

// Callers that need a token.
enum class Auth {
  kAuto,      // Everybody but the coordinator's own user on a Unix socket.
  kRequired,  // Everybody.
  kOff,       // Nobody: all are admins.
};

// The caller of a call, as far as the transport knows it.
struct Peer {
  std::string address;  // "ipv4:10.0.0.7", "unix:": without a port.
  // The value of "authorization", as in "Bearer TOKEN". Empty: the call has none; absent: it has several.
  std::optional<std::string> authorization = "";
  bool own_user = false;  // True for a listener that only the coordinator's own user can connect to.
  bool secret = false;    // True if nobody in between can read the call: TLS, or a Unix socket.
  // Returns the SHA-256 of the certificate that the client showed, in 64 hexadecimal digits; empty without one.
  std::function<std::string()> certificate = [] { return std::string(); };
};

// The action of a call that asks to be admitted.
struct Request {
  const char* method = "";  // "StudyService/GetStudy".
  Right right = Right::kRead;
  std::string project;  // Empty: the caller's own.
  std::string object;   // As the caller named it, for errors and the audit.
  // Id of a study that is to be made, which the audit names with its project. Empty: `object` is all there is to say.
  std::string new_study;
  std::string request_id;
  bool command = false;  // True if a study with a command is created or changed.
};

// The answer to a call that may not go on.
struct Refusal {
  absl::Status status;
  absl::Duration delay = absl::ZeroDuration();  // Time to wait before it is sent.
};

// A call that was admitted.
struct Admitted {
  Caller caller;
  std::shared_ptr<const Standing> standing;  // The caller's right to have the call go on; null: none is needed.
  // Used by Access alone, which may change them while the call is under way.
  const char* method = "";
  std::string address;
  std::optional<AuditRecord> entry;  // Present until the call's outcome is known.
};

// Finds out who calls, decides whether the call may go on, and tells the audit what came of it. Thread-safe.
//
// A call is judged when it arrives, and again whenever it would later change or return something: Admitted::standing
// says whether its token is still in force, and Registry::OnEnd tells lasting calls when it no longer is. The token is
// checked
//  * for a change, when it is applied (coordinator::Core::Apply; Registry, under the lock of changes);
//  * for a waiting ask, when it would be granted a trial; its caller hears of the token's end at once;
//  * for a read, before it begins and before it is answered;
//  * for a watch, all the time: it ends at once;
//  * for each page of a list, which is a call of its own.
class Access {
 public:
  // `clock` must outlive this.
  Access(std::unique_ptr<Registry> registry, Auth auth, const base::Clock* clock)
      : auth_(auth), registry_(std::move(registry)), refusals_(clock) {}

  // Tells `observer` the reason of every call without a valid token. To be called before the server starts.
  void OnFailure(std::function<void(absl::string_view)> observer) { on_failure_ = std::move(observer); }

  // Decides about a call. OK: it may go on, and `admitted` says who calls. Otherwise UNAUTHENTICATED NO_TOKEN,
  // BAD_TOKEN, EXPIRED, REVOKED; PERMISSION_DENIED ROLE; NOT_FOUND for anything in another project.
  Refusal Admit(const Peer& peer, const Request& request, Admitted* admitted);
  // Records in the audit how an admitted call ended. To be called once, before the answer leaves.
  void Ended(Admitted* admitted, const absl::Status& status);

  Registry& registry() const { return *registry_; }
  Auth auth() const { return auth_; }

 private:
  // Finds out who calls.
  absl::StatusOr<Holder> Identify(const Peer& peer) const;
  static AuditRecord EntryOf(const std::string& address, const Request& request, const Caller& caller);
  Refusal Refuse(const std::string& address, const Request& request, const Caller& caller, absl::Status status);

  const Auth auth_;
  const std::unique_ptr<Registry> registry_;
  Refusals refusals_;
  std::function<void(absl::string_view)> on_failure_;  // May be null.
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_ACCESS_H_
