#ifndef LUTHIER_SERVER_ACCESS_ACCESS_STORE_H_
#define LUTHIER_SERVER_ACCESS_ACCESS_STORE_H_

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/study/quotas.h"
#include "server/access/caller.h"
#include "server/storage/held_files.h"

namespace luthier::access {

// A token as it is kept: without its secret.
struct TokenRecord {
  std::string id;
  std::string name;
  std::string project;
  std::set<Role> roles;
  bool commands = false;
  std::string hash;           // token.h
  std::string previous_hash;  // The secret before the last rotation has it; valid until `overlap_end`.
  absl::Time overlap_end = absl::InfinitePast();
  std::string certificate;  // It is good for connections whose client certificate has this SHA-256; empty: for all.
  absl::Time create_time;
  absl::Time expire_time;
  absl::Duration lifetime;                          // As given when it was made.
  absl::Time last_use_time = absl::InfinitePast();  // To the minute.
  absl::Time revoke_time = absl::InfiniteFuture();
  std::string request;     // Made the newest secret; empty: it had no id.
  bool unclaimed = false;  // Nobody has used the newest secret yet.

  // Whatever the clock says.
  bool revoked() const { return revoke_time != absl::InfiniteFuture(); }
  bool in_force(absl::Time now) const { return !revoked() && now < expire_time; }
};

struct ProjectRecord {
  std::string id;
  absl::Time create_time;
  study::Quotas quotas;
};

// A change that was made under a request id.
struct ChangeRecord {
  std::string id;      // Caller::RequestId
  std::string digest;  // Digest of what it asked for.
  std::string object;  // Id of the token or project.
};

// This was done or refused. The fields are those of v1.AuditEntry.
struct AuditRecord {
  int64_t number = 0;  // 0: it was not written yet.
  absl::Time time, last_time;
  std::string token, name, peer, method, object, request_id, outcome;
  int64_t times = 1;
  bool refused = false;  // It changed nothing.
};

// The entries of the audit that somebody wants.
enum class AuditKind { kAll, kChanges, kRefusals };

// Returns `time` as the database keeps it, in whole microseconds: what is answered before a restart and after it is the
// same.
absl::Time StoredTime(absl::Time time);

// Tokens, projects and the audit in DIR/access.db. They have a database of their own, so that neither waits for the
// other: results are never late because of an audit, and access is known before studies are read. Errors are those of
// storage::ToStatus. Thread-safe; every call may wait for the disk. Pages have checksums (storage/page_sums.h), so a
// changed bit is DATA_LOSS, never another role.
//
// The audit keeps changes and refusals apart, so many of each: refusals take no room from changes. What is beyond goes
// from the caller that has most entries, its oldest first. So nobody can push out what others did before having as many
// entries as they.
class AccessStore {
 public:
  static constexpr char kFile[] = "access.db";
  // Entries of the audit that are kept of each kind.
  static constexpr int64_t kMaxAudit = 1'000'000;
  // Requests that are remembered, the newest.
  static constexpr int64_t kMaxRequests = 100'000;

  // Creates the database where there is none; the directory must exist and be ours.
  static absl::StatusOr<std::unique_ptr<AccessStore>> Open(const std::string& directory, int64_t max_audit = kMaxAudit);
  // Moves the WAL into the file, whose pages alone have checksums.
  ~AccessStore();

  absl::StatusOr<std::vector<TokenRecord>> Tokens();
  // The project "default" is among them once it has quotas.
  absl::StatusOr<std::vector<ProjectRecord>> Projects();
  // Writes one, replacing what had its id, and with it the request that made the change, unless that has no id. When it
  // returns OK both are on the disk. `last_use_time` is written by NoteUse alone.
  absl::Status Put(const TokenRecord& token, const ChangeRecord& request = {});
  absl::Status Put(const ProjectRecord& project, const ChangeRecord& request = {});
  // Returns nothing where no such request was made, or kMaxRequests were since.
  absl::StatusOr<std::optional<ChangeRecord>> FindRequest(const std::string& id);
  // Sets `last_use_time` of the tokens, …
  absl::Status NoteUse(const std::vector<std::pair<std::string, absl::Time>>& uses);
  // … and notes that somebody has the newest secret of a token, if its hash is still this: pairs of id and hash.
  absl::Status NoteClaims(const std::vector<std::pair<std::string, std::string>>& claims);
  // OK while the database is where it was: storage::HeldFiles. What is written looks by itself.
  absl::Status CheckHeld() const { return held_->Check(); }
  // Adds those without a number, and gives them one; of refusals that have one, `last_time` and `times` are written.
  absl::Status Append(std::vector<AuditRecord>* entries);
  // Newest first, with numbers below `before` (0: all).
  absl::StatusOr<std::vector<AuditRecord>> Audit(int64_t before, int limit, AuditKind kind = AuditKind::kAll);

 private:
  // The audit keeps this of one kind.
  struct Shelf {
    const char* table;
    bool counted = false;                        // False: the next two are not known.
    std::map<std::string, int64_t> counts = {};  // By `token`.
    int64_t total = 0;
  };

  AccessStore(std::unique_ptr<SQLite::Database> db, std::unique_ptr<storage::HeldFiles> held, int64_t max_audit)
      : held_(std::move(held)), max_audit_(max_audit), db_(std::move(db)) {}
  // Runs f in a transaction.
  template <typename F>
  absl::Status Write(F&& f);
  void Count(Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(AuditRecord* entry, Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out what is beyond `max_audit_`.
  void Trim(Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<storage::HeldFiles> held_;
  const int64_t max_audit_;
  base::Mutex mutex_;
  std::unique_ptr<SQLite::Database> db_ ABSL_GUARDED_BY(mutex_);
  Shelf changes_ ABSL_GUARDED_BY(mutex_){"audit"};
  Shelf refusals_ ABSL_GUARDED_BY(mutex_){"refusals"};
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: it is not known yet.
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_ACCESS_STORE_H_
