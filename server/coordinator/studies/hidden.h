#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_HIDDEN_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_HIDDEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/studies/context.h"

// Studies that were deleted and can be brought back: their rows are there, and nothing but these functions sees them.
namespace luthier::coordinator {

// Takes the study out of memory and hides its rows, with what the batch changed of them. The oldest of the project's
// hidden studies is erased if there are too many.
void Hide(Context& c, const Study& s);

// Erases the study's rows for ever.
void Erase(Context& c, storage::StudyKey key);

// Returns the row of the hidden study that had the id, of several the one that was hidden last. NOT_FOUND: none is
// hidden; UNAVAILABLE: this very batch hid it; DATA_LOSS; errors as Storage.
absl::StatusOr<storage::StudyRecord> FindHidden(const Context& c, const std::string& id);

// Brings back the study of a row that FindHidden returned, under the id in the row, which must be free. DATA_LOSS;
// errors as Storage.
absl::StatusOr<Study*> Unhide(Context& c, storage::StudyRecord record);

// Erases the studies whose time is over.
void EraseOld(Context& c);

// Sets `next_purge`.
void WatchHidden(Context& c);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_HIDDEN_H_
