#ifndef LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
#define LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// The reply stored for the request `id`, absent when the request is new. INVALID_ARGUMENT REQUEST_ID_REUSED when the
// id belongs to a request of another `digest`, be it an ask that still waits. Errors as RequestLog::Find.
absl::StatusOr<std::optional<storage::StoredReply>> FindReply(const Context& c, const std::string& id,
                                                              const std::string& digest);

// Answers a request that was answered before with what `rebuild` makes of the `Stored` reply; with an error one whose
// id was used for another request, or whose reply is damaged. False: the request is new, and not answered.
template <typename Stored, typename Reply>
bool AnswerRepeated(Context& c, const std::string& id, const std::string& digest, const Done<Reply>& done,
                    const std::function<absl::StatusOr<Reply>(const Stored&)>& rebuild) {
  const absl::StatusOr<std::optional<storage::StoredReply>> found = FindReply(c, id, digest);
  if (found.ok() && !found->has_value()) return false;
  const Stored* const stored = found.ok() ? std::get_if<Stored>(&**found) : nullptr;
  absl::StatusOr<Reply> reply = found.ok() ? ReplyDamaged(id, "it is of another call") : found.status();
  if (stored != nullptr) reply = rebuild(*stored);
  Answer<Reply>(c, done, std::move(reply));
  return true;
}

// The row of a trial that the stored reply to the request `id` names: DATA_LOSS if there is none.
absl::StatusOr<const storage::TrialRecord*> FindRepliedTrial(Context& c, StudyState& s, int64_t number,
                                                             const std::string& id);

// The study of key `key` and id `id`, which a stored reply is about. NOT_FOUND: it was deleted, be there another of
// this name or not. `key` 0, from an older program: whichever has the name.
absl::StatusOr<StudyState*> FindRepliedStudy(Context& c, const std::string& id, storage::StudyKey key);

// The spec of the study as it was after the event `seq`. Errors as Storage.
absl::StatusOr<study::StudySpec> SpecThen(const Context& c, const StudyState& s, uint64_t seq);

// Returns what a call answered that changed the study `id`: its spec and seq of then, and the answer where one was
// kept. The rest of the record is as it is now.
absl::StatusOr<StudyReply> RebuildStudy(Context& c, const std::string& id, const storage::ChangedStudy& stored);

// Returns what EnqueueTrials and RetryTrials answered in the study `id`. Replies that an older program stored are put
// together from the trials as they are now.
absl::StatusOr<EnqueueReply> RebuildTrials(Context& c, const std::string& id, const std::string& request_id,
                                           const storage::StoredTrials& stored);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
