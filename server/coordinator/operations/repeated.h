#ifndef LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
#define LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/context.h"
#include "server/coordinator/studies/find.h"

namespace luthier::coordinator {

// Returns the reply stored for the request `id`, absent if the request is new. INVALID_ARGUMENT REQUEST_ID_REUSED if a
// request of another `digest` has the id, even an ask that still waits. Errors as RequestLog::Find.
absl::StatusOr<std::optional<storage::StoredReply>> FindReply(const Context& c, const std::string& id,
                                                              const std::string& digest);

// Answers a request that was answered before with what `rebuild` makes of the `Stored` reply. If another request has
// its id, or its reply is damaged, the answer is an error. False: the request is new, and not answered.
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

// Runs an operation on a study, and answers it. A repetition is answered with what `rebuild` makes of what was stored
// when `apply` changed the study.
template <typename Stored, typename Reply, typename Op>
void RunOnce(Context& c, const Op& op, const std::function<absl::StatusOr<Reply>(const Stored&)>& rebuild,
             absl::FunctionRef<absl::StatusOr<Reply>(Study& s, Stored* stored)> apply) {
  const std::string digest = DigestOf(op);
  if (AnswerRepeated<Stored, Reply>(c, op.request_id, digest, op.done, rebuild)) return;
  const absl::StatusOr<Study*> found = FindStudy(c, op.id);
  if (!found.ok()) return Answer<Reply>(c, op.done, found.status());
  if (absl::Status allowed = CheckOwner((*found)->record(), op.by); !allowed.ok()) {
    return Answer<Reply>(c, op.done, std::move(allowed));
  }
  Stored stored;
  absl::StatusOr<Reply> reply = apply(**found, &stored);
  if (reply.ok()) c.requests.Remember(op.request_id, digest, std::move(stored), c.batch.uptime);
  Answer<Reply>(c, op.done, std::move(reply));
}

// Returns the row of a trial that the stored reply to the request `id` names. DATA_LOSS if there is none.
absl::StatusOr<const storage::TrialRecord*> FindRepliedTrial(Study& s, int64_t number, const std::string& id);

// Returns the study with key `key` and id `id`, which a stored reply is about. NOT_FOUND if it was deleted, even if
// another study has its name now. `key` 0, from an older program: any study with that name.
absl::StatusOr<Study*> FindRepliedStudy(Context& c, const std::string& id, storage::StudyKey key);

// Returns the spec of the study as it was after the event `seq`. Errors as Storage.
absl::StatusOr<study::StudySpec> SpecThen(const Context& c, const Study& s, uint64_t seq);

// Returns the answer of a call that changed the study `id`: spec and seq as they were then, and the kept answer if
// there is one. The rest of the record is as it is now.
absl::StatusOr<StudyReply> RebuildStudy(Context& c, const std::string& id, const storage::ChangedStudy& stored);

// Returns what EnqueueTrials and RetryTrials answered in the study `id`. Replies that an older program stored are put
// together from the trials as they are now.
absl::StatusOr<EnqueueReply> RebuildTrials(Context& c, const std::string& id, const std::string& request_id,
                                           const storage::StoredTrials& stored);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
