#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_REQUEST_LOG_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_REQUEST_LOG_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Returns INVALID_ARGUMENT REQUEST_ID_REUSED: the id was used for a request of other content.
absl::Status RequestIdReused(const std::string& id);

// Returns DATA_LOSS: what is stored as the reply to the request `id` is damaged.
absl::Status ReplyDamaged(const std::string& id, absl::string_view why);

// Remembers which requests were answered, and how, so that a request that is sent again gets the same answer. Those of
// the batch under way are here, earlier ones in storage. An empty id is never found nor remembered.
class RequestLog {
 public:
  // `storage` must outlive it.
  explicit RequestLog(storage::Storage* storage) : storage_(storage) {}

  // Returns the stored reply to the request `id`, absent if the request is new. `digest` is that of the request's
  // content. Never returns a LegacyReply or DamagedReply. Errors: REQUEST_ID_REUSED for another digest, DATA_LOSS for a
  // reply that can't be read, else as Storage.
  absl::StatusOr<std::optional<storage::StoredReply>> Find(const std::string& id, const std::string& digest) const;

  // Remembers a request that was answered now: at `uptime`, on Storage::LastUptime's clock.
  void Remember(const std::string& id, const std::string& digest, storage::StoredReply reply, absl::Duration uptime);

  // Counts the request as answered at `uptime`, if it was answered before `before`, so that it is remembered longer.
  void Keep(const std::string& id, absl::Duration uptime, absl::Duration before);

  // Adds the answer to the reply to `id`, a ChangedStudy, unless that has one already. Returns the answer that it then
  // has. Errors: NOT_FOUND if the request is not remembered; else as Find.
  absl::StatusOr<std::string> KeepAnswer(const std::string& id, std::string message);

  // Requests of the batch under way, by id: new ones, and earlier ones that it changed.
  const std::map<std::string, storage::RequestRecord>& pending() const { return pending_; }
  const std::map<std::string, storage::RequestRecord>& changed() const { return changed_; }
  // To be called when the batch ended: what it remembered is in storage, or never happened.
  void EndBatch() {
    pending_.clear();
    changed_.clear();
  }

 private:
  storage::Storage* const storage_;
  // Returns the record of the request, as the batch under way leaves it.
  absl::StatusOr<std::optional<storage::RequestRecord>> Read(const std::string& id) const;

  std::map<std::string, storage::RequestRecord> pending_;
  std::map<std::string, storage::RequestRecord> changed_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_REQUEST_LOG_H_
