#ifndef LUTHIER_SERVER_ACCESS_REGISTRY_H_
#define LUTHIER_SERVER_ACCESS_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/access/access_store.h"
#include "server/access/audit.h"
#include "server/access/caller.h"
#include "server/access/standing.h"
#include "server/access/waiting_calls.h"

namespace luthier::access {

inline constexpr absl::Duration kDefaultLifetime = absl::Hours(90 * 24);
inline constexpr absl::Duration kShortestLifetime = absl::Minutes(1);
inline constexpr absl::Duration kLongestLifetime = absl::Hours(3653 * 24);
inline constexpr absl::Duration kLongestOverlap = absl::Hours(30 * 24);
inline constexpr absl::Duration kEndsSoon = absl::Hours(14 * 24);  // Before the end of a token, warnings begin.

// The caller that a token in force names, and until when it is in force.
struct Holder {
  Caller caller;
  std::shared_ptr<const Standing> standing;  // Null: no token was needed.
  bool first_use = false;                    // True if nobody used the token's newest secret before.
};

using PermitPtr = std::shared_ptr<const base::Permit>;

// The right by which tokens and projects are changed, and the id by which a repeated change is recognised.
struct Change {
  PermitPtr permit;        // Null: the coordinator's own.
  std::string request_id;  // Caller::RequestId. Empty: each call is a new change.
};

// The tokens and projects that there are: who holds a token, and how admins change them. Thread-safe.
class Registry {
 public:
  // `directory` holds the tokens; empty: there are none. `clock` must outlive the result. Errors: as AccessStore::Open.
  static absl::StatusOr<std::unique_ptr<Registry>> Open(const std::string& directory, const base::Clock* clock);

  // When the secret ends, calls `ended` once, with the status that the call is to end with: on any thread, or on this
  // one if it has ended by now. Once the last copy of the result is gone, `ended` is not called any more, but it may
  // still be running.
  using Ending = std::shared_ptr<void>;
  Ending OnEnd(std::shared_ptr<const Standing> standing, WaitingCalls::Listener ended) const;
  // Records a call of the holder.
  void NoteCall(const Holder& holder);
  // Ends at once what otherwise ends within a quarter of a second: for tests.
  void EndExpired() { waiting_->Tick(); }
  // Returns the holder of the token in a value of "authorization". `certificate` returns the SHA-256 of the
  // connection's client certificate. Errors are those of Access::Admit.
  absl::StatusOr<Holder> HolderOf(const std::string& authorization, absl::FunctionRef<std::string()> certificate) const;

  // Makes a first admin's token, unless there are tokens, and writes it to DIR/admin.token for its owner alone. Returns
  // the path of the file; empty if none was made.
  absl::StatusOr<std::string> MakeFirstToken();
  // Returns a token for a page that is opened for an admin, which ends within twelve hours. It is the same one for some
  // hours, and does not outlive this object where nothing is kept.
  absl::StatusOr<std::string> PageToken();
  // Counts the tokens in force by role, "viewer", "user", …; one with several roles counts for each.
  std::map<std::string, int64_t> TokensInForce() const;
  // Returns the tokens in force that end within kEndsSoon, the first to end first. Those that were made for no longer
  // than that, as are those of pages, are left out: they end soon on purpose.
  std::vector<TokenRecord> EndingSoon() const;
  // Logs EndingSoon at the first call, and once a day after it.
  void WarnOfEnds();
  // Keeps the quotas of all projects in `table`, which must outlive this.
  void KeepQuotas(study::QuotaTable* table);
  // Returns the audit; null where nothing is kept.
  Audit* audit() const { return audit_.get(); }

  // The rest is for admins. Errors: FAILED_PRECONDITION NO_STORE without a directory; else as admin_service.proto says,
  // and those of the permit.
  //
  // A change that is sent again with the same id and content is made once, and answered with what it made, as that is
  // now; INVALID_ARGUMENT REQUEST_ID_REUSED for other content. The second of a pair is the token's whole text, of which
  // only a hash is stored. A repetition returns a secret that works all the same. For ten minutes it is the first one,
  // which is remembered in memory. Later, or after a restart, a new secret replaces it, if nobody has used it yet; else
  // ALREADY_EXISTS TOKEN_EXISTS.
  absl::StatusOr<std::pair<TokenRecord, std::string>> CreateToken(TokenRecord wanted, const Change& change = {});
  absl::StatusOr<std::pair<TokenRecord, std::string>> RotateToken(const std::string& id, absl::Duration overlap,
                                                                  absl::Duration lifetime, const Change& change = {});
  // When it returns, no call is admitted by the token, lasting calls have been told, and every permit by it is over. A
  // batch of the coordinator that began before may still be on its way to the disk: Coordinator::AwaitBatch. OK for a
  // token that was revoked before.
  absl::StatusOr<TokenRecord> RevokeToken(const std::string& id, const Change& change = {});
  absl::StatusOr<ProjectRecord> CreateProject(const std::string& id, const study::Quotas& quotas = {},
                                              const Change& change = {});
  absl::StatusOr<ProjectRecord> UpdateProject(const std::string& id, const study::Quotas& quotas,
                                              const Change& change = {});
  absl::StatusOr<std::vector<TokenRecord>> ListTokens(const std::string& project);
  absl::StatusOr<std::vector<ProjectRecord>> ListProjects() const;
  absl::StatusOr<std::vector<AuditRecord>> ListAudit(int64_t before, int limit, AuditKind kind);

  // OK while the store's files are where they were, or nothing is kept: AccessStore::CheckHeld.
  absl::Status CheckHeld() const { return store_ ? store_->CheckHeld() : absl::OkStatus(); }

 private:
  // A token and the standing of its secrets.
  struct Known {
    TokenRecord record;
    std::shared_ptr<Standing> newest, previous;  // `previous` is null if no secret was replaced.
  };

  Registry(std::string directory, const base::Clock* clock) : directory_(std::move(directory)), clock_(clock) {}
  absl::Status Load();
  absl::Status CheckStore() const;
  // Takes over the record, and brings the standings in line with it. Returns those that may have ended.
  static std::vector<std::shared_ptr<Standing>> Become(const TokenRecord& token, Known* known);
  absl::StatusOr<TokenRecord> FindToken(const std::string& id) const;
  // Stores the record, then uses it.
  absl::Status Keep(const TokenRecord& token, const ChangeRecord& request = {});
  absl::Status Keep(const ProjectRecord& project, const ChangeRecord& request = {});
  // Returns the record of a change with this content, without its `object`, and true if the change was made before.
  // Errors are those of the permit, and REQUEST_ID_REUSED.
  absl::StatusOr<std::pair<ChangeRecord, bool>> Begin(const Change& change, const std::string& content)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  // Gives the token a new secret, and stores it.
  absl::StatusOr<std::pair<TokenRecord, std::string>> NewSecretFor(TokenRecord token, const ChangeRecord& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  // Answers a request that made a secret before.
  absl::StatusOr<std::pair<TokenRecord, std::string>> SecretAgain(const ChangeRecord& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);
  absl::StatusOr<ProjectRecord> FindProject(const std::string& id) const;

  const std::string directory_;
  const base::Clock* const clock_;
  std::unique_ptr<AccessStore> store_;  // Null: nothing is kept.
  std::unique_ptr<Audit> audit_;
  std::unique_ptr<WaitingCalls> waiting_;  // Null while nobody needs it: nothing is kept, and there is no page.
  mutable base::Mutex mutex_;
  std::map<std::string, Known> tokens_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ProjectRecord> projects_ ABSL_GUARDED_BY(mutex_);
  study::QuotaTable* quotas_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Duration next_warning_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();  // Clock::Monotonic().
  base::Mutex changing_;  // Held during each change of tokens and projects.
  // A secret that was made in the last minutes, for a caller whose answer was lost. By request.
  struct Told {
    std::string text;
    absl::Duration until;  // Clock::Monotonic().
  };
  std::map<std::string, Told> told_ ABSL_GUARDED_BY(changing_);
  base::Mutex paging_;  // Held during PageToken.
  std::string page_token_ ABSL_GUARDED_BY(paging_);
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_REGISTRY_H_
