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
#include "server/storage/written_file.h"

namespace luthier::access {

// A token as it is kept: without its secret.
struct TokenRecord {
  std::string id;
  std::string name;
  std::string project;                // The project of calls that name none.
  std::vector<std::string> projects;  // All that it is for, `project` first; empty: that one alone.
  std::set<Role> roles;
  bool commands = false;
  std::string hash;           // token.h
  std::string previous_hash;  // Hash of the secret before the last rotation; valid until `overlap_end`.
  absl::Time overlap_end = absl::InfinitePast();
  std::string certificate;  // SHA-256 of the only client certificate that may use it; empty: any may.
  absl::Time create_time;
  absl::Time expire_time;
  absl::Duration lifetime;                          // As given when it was made or last rotated.
  absl::Time last_use_time = absl::InfinitePast();  // To the minute.
  absl::Time revoke_time = absl::InfiniteFuture();
  std::string request;     // Id of the request that made the newest secret; empty: it had none.
  bool unclaimed = false;  // True if nobody has used the newest secret yet.

  std::vector<std::string> all_projects() const { return projects.empty() ? std::vector{project} : projects; }
  // A revocation does not depend on the clock.
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

// A change or a refusal. The fields are those of v1.AuditEntry.
struct AuditRecord {
  int64_t number = 0;  // 0: not written yet.
  absl::Time time, last_time;
  std::string token, name, peer, method, object, request_id, outcome;
  int64_t times = 1;
  bool refused = false;  // True if the call was refused, and so changed nothing.
};

// Selects entries of the audit.
enum class AuditKind { kAll, kChanges, kRefusals };

// Returns `time` as the database keeps it, in whole microseconds, so that answers are the same before and after a
// restart.
absl::Time StoredTime(absl::Time time);

// Tokens, projects and the audit in DIR/access.db. They have a database of their own, so that it and the studies' one
// do not wait for each other: the audit never delays results, and tokens are known before studies are read. Errors are
// those of storage::ToStatus. Thread-safe; every call may wait for the disk. Pages have checksums
// (storage/page_sums.h), so a changed bit is DATA_LOSS, never another role.
//
// The audit keeps up to `max_audit` changes and as many refusals, so that refusals take no room from changes. Beyond
// that the oldest entries of the caller with the most entries are deleted. So nobody can push out the entries of others
// before having as many as they.
class AccessStore {
 public:
  static constexpr char kFile[] = "access.db";
  // Largest number of entries of each kind that the audit keeps.
  static constexpr int64_t kMaxAudit = 1'000'000;
  // Number of newest requests that are remembered.
  static constexpr int64_t kMaxRequests = 100'000;

  // Creates the database if there is none; the directory must exist and be ours.
  static absl::StatusOr<std::unique_ptr<AccessStore>> Open(const std::string& directory, int64_t max_audit = kMaxAudit);
  // Moves the WAL into the file, whose pages alone have checksums.
  ~AccessStore();

  absl::StatusOr<std::vector<TokenRecord>> Tokens();
  // Returns all projects; "default" is one of them once it has quotas.
  absl::StatusOr<std::vector<ProjectRecord>> Projects();
  // Writes the record in place of the one with its id, together with the request that made the change, unless that has
  // no id. When it returns OK both are on the disk. `last_use_time` is written by NoteUse alone.
  absl::Status Put(const TokenRecord& token, const ChangeRecord& request = {});
  absl::Status Put(const ProjectRecord& project, const ChangeRecord& request = {});
  // Returns nothing if no such request was made, or kMaxRequests newer ones were.
  absl::StatusOr<std::optional<ChangeRecord>> FindRequest(const std::string& id);
  // Sets `last_use_time` of the tokens.
  absl::Status NoteUse(const std::vector<std::pair<std::string, absl::Time>>& uses);
  // Notes that somebody has used the newest secret of each token, if its hash is still the given one: pairs of id and
  // hash.
  absl::Status NoteClaims(const std::vector<std::pair<std::string, std::string>>& claims);
  // OK while the database is where it was (storage::HeldFiles) and as it was written (storage::WrittenFile). Writes
  // check that by themselves.
  absl::Status CheckHeld();
  // Adds entries that have no number, and numbers them. Of refusals that have one, writes `last_time` and `times`.
  absl::Status Append(std::vector<AuditRecord>* entries);
  // Returns entries with numbers below `before` (0: all), newest first.
  absl::StatusOr<std::vector<AuditRecord>> Audit(int64_t before, int limit, AuditKind kind = AuditKind::kAll);

 private:
  // Entries of one kind.
  struct Shelf {
    const char* table;
    bool counted = false;                        // False: `counts` and `total` are unknown.
    std::map<std::string, int64_t> counts = {};  // By `token`.
    int64_t total = 0;
  };

  AccessStore(std::unique_ptr<SQLite::Database> db, std::unique_ptr<storage::HeldFiles> held, int64_t max_audit)
      : held_(std::move(held)), max_audit_(max_audit), db_(std::move(db)), written_(db_->getHandle()) {}
  // Runs f in a transaction.
  template <typename F>
  absl::Status Write(F&& f);
  void Count(Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(AuditRecord* entry, Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Deletes entries beyond `max_audit_`.
  void Trim(Shelf* shelf) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<storage::HeldFiles> held_;
  const int64_t max_audit_;
  base::Mutex mutex_;
  std::unique_ptr<SQLite::Database> db_ ABSL_GUARDED_BY(mutex_);
  storage::WrittenFile written_ ABSL_GUARDED_BY(mutex_);
  Shelf changes_ ABSL_GUARDED_BY(mutex_){"audit"};
  Shelf refusals_ ABSL_GUARDED_BY(mutex_){"refusals"};
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = -1;  // -1: it is not known yet.
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_ACCESS_STORE_H_
