#ifndef LUTHIER_SERVER_COORDINATOR_BATCH_CHANGES_H_
#define LUTHIER_SERVER_COORDINATOR_BATCH_CHANGES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/coordinator/batch/context.h"

// Operations note in the batch what they change and answer.
namespace luthier::coordinator {

// Appends an event about `s`, and about the newest attempt of `record` if it is given. Its seq is the new
// `counters.seq`. The reference holds until the next call.
storage::Event& AddEvent(Context& c, StudyState& s, storage::EventType type,
                         const storage::TrialRecord* record = nullptr);

// Notes that the row of this trial changed.
void MarkDirty(Context& c, StudyState& s, storage::TrialRecord& record);

// Tells designers of the change that the newest event is about. `fill` (may be null) sets what `kind` needs.
void PushUpdate(Context& c, StudyState& s, HistoryUpdate::Kind kind, int64_t number,
                const std::function<void(HistoryUpdate&)>& fill);

// Drops suggestions that are ready or being computed, because what they continue or leave room for has changed.
void DropReady(Context& c, StudyState& s);

// Ends the lease when the batch commits: until then its holder must not hear of it.
void EndLease(Context& c, const std::string& token, study::Directive directive);

// Answers after the commit. If the commit fails, its error is the answer, even in place of another error, which may be
// about something that never happened.
template <typename Reply>
void Answer(Context& c, Done<Reply> done, absl::StatusOr<Reply> reply) {
  if (!done) return;
  c.batch.answers.push_back([done = std::move(done), reply = std::move(reply)](const absl::Status& committed) mutable {
    if (committed.ok())
      done(std::move(reply));
    else
      done(committed);
  });
}

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_BATCH_CHANGES_H_
