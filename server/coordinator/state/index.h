#ifndef LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/state/core_state.h"

// Keeps the indexes of CoreState over studies and asks up to date, so that the cost of a batch is that of its changes.
namespace luthier::coordinator {

// To be called when the trials that `study` can give to asks changed: asks that may get one are looked at again.
void Wake(CoreState& state, storage::StudyKey study);

// Makes the leases and asks of `s` be looked at by `when` at the latest.
void SetTimer(CoreState& state, StudyState& s, absl::Duration when);
void ClearTimer(CoreState& state, StudyState& s);

// Puts `s` at its place in Pool::open; absent: takes it out. `fresh`: it changed since asks were looked at.
void PlaceAt(CoreState& state, StudyState& s, std::optional<Rank> rank, bool fresh);

// Notes that a request for suggestions of `s` is under way since `since`; InfiniteDuration: none is.
void SetComputing(CoreState& state, StudyState& s, absl::Duration since);

// Adds a study, with all that is known of it, to memory. Its key and id must be new.
StudyState& AddStudy(CoreState& state, StudyState s);
// Forgets the study, if it is there. Its asks go on waiting, and are looked at.
void RemoveStudy(CoreState& state, storage::StudyKey key);

// Counts that the designer of `s`, and of no other study, is to compute `wanted` trials for the ask `number`.
void Count(CoreState& state, StudyState& s, uint64_t number, int64_t wanted);
// Counts the same for an ask that ends: the trials are for the next asker. Holds until the next batch.
void CountDeparted(CoreState& state, StudyState& s, int64_t wanted);
// Forgets the demand of waiting asks for trials of `s`, and makes them be looked at again.
void Recount(CoreState& state, StudyState& s);

// Adds a waiting ask, to be looked at.
void AddWaiter(CoreState& state, Waiter waiter);
// Removes a waiting ask.
Waiter TakeWaiter(CoreState& state, uint64_t number);
// Answers asks with `status`, at once, and forgets them: all of them, or those that name `study`.
void RefuseWaiting(CoreState& state, const absl::Status& status);
void RefuseWaiting(CoreState& state, const absl::Status& status, storage::StudyKey study);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_INDEX_H_
