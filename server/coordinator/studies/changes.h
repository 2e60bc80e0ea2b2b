#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_CHANGES_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_CHANGES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/studies/context.h"

// Operations note in the batch what they change and answer.
namespace luthier::coordinator {

// Appends an event about a study. Its seq is the new `counters.seq`. The reference holds until the next call.
storage::Event& AddEvent(Context& c, storage::StudyKey key, const std::string& id, storage::EventType type);

// RESOURCE_EXHAUSTED LIMIT_EXCEEDED if the project keeps at least as many bytes on disk as its quota allows
// (StudyRecord::bytes, an estimate, which grows with each trial that ends and each point of a curve). It then gets no
// new studies, trials and leases; results of running trials are accepted.
absl::Status CheckBytes(const Context& c, absl::string_view project);

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

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_CHANGES_H_
