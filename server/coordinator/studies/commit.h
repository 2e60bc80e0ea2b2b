#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_COMMIT_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_COMMIT_H_

#include "absl/status/status.h"
#include "server/coordinator/studies/context.h"

// The end of a batch.
namespace luthier::coordinator {

// Writes down what the batch changed as one transaction: studies, trials, points, requests and events, in this order.
// Empty: nothing to commit. The reference holds until EndBatch.
const storage::WriteBatch& Seal(Context& c);

// Ends the batch; `committed` is the result of its transaction. On success events and updates go to the outbox; on
// failure memory goes back to what storage holds. Then every answer of the batch is called. Errors as RollBack.
absl::Status EndBatch(Context& c, const absl::Status& committed);

// Undoes the batch: memory goes back to what storage holds. Asks that wait for a study that was never stored are
// refused with `cause`. Errors as LoadStudy: memory is then undefined, and must not be used any more.
absl::Status RollBack(Context& c, const absl::Status& cause);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_COMMIT_H_
