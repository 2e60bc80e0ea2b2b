#include "server/coordinator/operations/repeated.h"

#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/proposals/timeline.h"

namespace luthier::coordinator {

absl::StatusOr<std::optional<storage::StoredReply>> FindReply(const Context& c, const std::string& id,
                                                              const std::string& digest) {
  // A waiting ask owns its id, too.
  const Waiter* const waiter = c.state.waiters.Find(c.state.waiters.FindRequest(id));
  if (waiter != nullptr && waiter->digest != digest) return RequestIdReused(id);
  return c.requests.Find(id, digest);
}

absl::StatusOr<const storage::TrialRecord*> FindRepliedTrial(Study& s, int64_t number, const std::string& id) {
  const absl::StatusOr<TrialSlot*> slot = s.FindTrial(number);
  if (slot.ok()) return (*slot)->record.get();
  if (absl::IsNotFound(slot.status())) return ReplyDamaged(id, slot.status().message());
  return slot.status();
}

absl::StatusOr<Study*> FindRepliedStudy(Context& c, const std::string& id, storage::StudyKey key) {
  LUTHIER_ASSIGN_OR_RETURN(Study* const s, FindStudy(c, id));
  if (key == 0 || s->record().key == key) return s;
  return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                         "the study that this request was about was deleted");
}

absl::StatusOr<study::StudySpec> SpecThen(const Context& c, const Study& s, uint64_t seq) {
  LUTHIER_ASSIGN_OR_RETURN(SpecHistory specs, SpecHistory::Read(c.storage, s.record()));
  for (const auto& [key, former] : c.batch.former_specs) {
    if (key == s.record().key) specs.Add(former);
  }
  return specs.At(seq);
}

absl::StatusOr<StudyReply> RebuildStudy(Context& c, const std::string& id, const storage::ChangedStudy& stored) {
  LUTHIER_ASSIGN_OR_RETURN(const Study* const s, FindRepliedStudy(c, id, stored.study));
  StudyReply reply{s->record(), stored.seq, stored.message};
  LUTHIER_ASSIGN_OR_RETURN(reply.record.spec, SpecThen(c, *s, stored.seq));
  return reply;
}

absl::StatusOr<EnqueueReply> RebuildTrials(Context& c, const std::string& id, const std::string& request_id,
                                           const storage::StoredTrials& stored) {
  LUTHIER_ASSIGN_OR_RETURN(Study* const s, FindRepliedStudy(c, id, stored.study));
  if (stored.seq != 0) return EnqueueReply{stored.whole, stored.seq};
  EnqueueReply reply;
  for (const int64_t number : stored.trials) {
    LUTHIER_ASSIGN_OR_RETURN(const storage::TrialRecord* const record, FindRepliedTrial(*s, number, request_id));
    reply.trials.push_back(record->trial);
  }
  reply.seq = s->record().update_seq;
  return reply;
}

}  // namespace luthier::coordinator
