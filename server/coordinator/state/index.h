#ifndef LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/state/core_state.h"

// Keeps in step what CoreState knows of studies and asks beside themselves, so that a batch costs what it changes.
namespace luthier::coordinator {

// To be called when what `study` may give to asks changed: those that may get something of it are looked at again.
void Wake(CoreState& state, storage::StudyKey study);

// Looks at the leases and asks of `s` at `when`, or before.
void SetTimer(CoreState& state, StudyState& s, absl::Duration when);
void ClearTimer(CoreState& state, StudyState& s);

// Puts `s` at its place in Pool::open; absent: takes it out. `fresh`: it changed since asks were looked at.
void PlaceAt(CoreState& state, StudyState& s, std::optional<Rank> rank, bool fresh);

// A request for suggestions of `s` is under way since `since`; InfiniteDuration: none is.
void SetComputing(CoreState& state, StudyState& s, absl::Duration since);

// A study that is new in memory, with all that is known of it. Its key and id must not be there.
StudyState& AddStudy(CoreState& state, StudyState s);
// Forgets the study, if it is there. Its asks go on waiting, and are looked at.
void RemoveStudy(CoreState& state, storage::StudyKey key);

// The designer of `s` is to compute so many trials for the ask `number`, and no other study's.
void Count(CoreState& state, StudyState& s, uint64_t number, int64_t wanted);
// The same for an ask that goes: the trials are for whoever asks next. Holds until the next batch.
void CountDeparted(CoreState& state, StudyState& s, int64_t wanted);
// Forgets what waiting asks want of `s`; they are looked at again.
void Recount(CoreState& state, StudyState& s);

// The ask waits, and is looked at.
void AddWaiter(CoreState& state, Waiter waiter);
// The ask waits no more.
Waiter TakeWaiter(CoreState& state, uint64_t number);
// Answers asks with `status`, at once, and forgets them: all of them, or those that name `study`.
void RefuseWaiting(CoreState& state, const absl::Status& status);
void RefuseWaiting(CoreState& state, const absl::Status& status, storage::StudyKey study);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_
