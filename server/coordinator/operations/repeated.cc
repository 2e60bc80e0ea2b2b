#include "server/coordinator/operations/repeated.h"

#include "server/coordinator/batch/find.h"

namespace luthier::coordinator {

absl::StatusOr<std::optional<storage::StoredReply>> FindReply(const Context& c, const std::string& id,
                                                              const std::string& digest) {
  // An ask that waits owns its id already.
  const Waiter* const waiter = c.state.waiters.Find(c.state.waiters.FindRequest(id));
  if (waiter != nullptr && waiter->digest != digest) return RequestIdReused(id);
  return c.requests.Find(id, digest);
}

absl::StatusOr<const storage::TrialRecord*> FindRepliedTrial(Context& c, StudyState& s, int64_t number,
                                                             const std::string& id) {
  const absl::StatusOr<TrialSlot*> slot = FindTrial(c, s, number);
  if (slot.ok()) return (*slot)->record.get();
  if (absl::IsNotFound(slot.status())) return ReplyDamaged(id, slot.status().message());
  return slot.status();
}

}  // namespace luthier::coordinator
