#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_INDEX_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_INDEX_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/studies/core_state.h"

// Keeps the indexes of CoreState over studies and asks up to date, so that the cost of a batch is that of its changes.
namespace luthier::coordinator {

// To be called when the trials that `study` can give to asks changed: asks that may get one are looked at again.
void Wake(CoreState& state, storage::StudyKey study);

// Adds a study, with all that is known of it, to memory. Its key and id must be new.
Study& AddStudy(CoreState& state, Study s);
// Forgets the study, if it is there. Its asks go on waiting, and are looked at.
void RemoveStudy(CoreState& state, storage::StudyKey key);

// Removes the ask `number` from the demand of the study whose designer computes for it.
void Uncount(CoreState& state, uint64_t number);

// Adds a waiting ask, to be looked at.
void AddWaiter(CoreState& state, Waiter waiter);
// Removes a waiting ask.
Waiter TakeWaiter(CoreState& state, uint64_t number);
// Answers asks with `status`, at once, and forgets them: all of them, or those that name `study`.
void RefuseWaiting(CoreState& state, const absl::Status& status);
void RefuseWaiting(CoreState& state, const absl::Status& status, storage::StudyKey study);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_INDEX_H_
