#ifndef LUTHIER_SERVER_COORDINATOR_OPERATIONS_HANDLERS_H_
#define LUTHIER_SERVER_COORDINATOR_OPERATIONS_HANDLERS_H_

#include <string>

#include "absl/status/status.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/studies/context.h"

// Handlers, one file each. A handler checks the operation, changes memory, and notes changes and the answer in the
// batch. Every operation is answered exactly once; an ask may be answered by a later batch (granting/serve.h).
namespace luthier::coordinator {

void Run(Context& c, CreateStudyOp op);
void Run(Context& c, ControlOp op);
void Run(Context& c, UpdateStudyOp op);
void Run(Context& c, KeepAnswerOp op);
void Run(Context& c, EnqueueOp op);
void Run(Context& c, ImportOp op);
void Run(Context& c, RetryOp op);
void Run(Context& c, CancelTrialOp op);
void Run(Context& c, StopTrialOp op);
void Run(Context& c, DeleteTrialOp op);
void Run(Context& c, SetAttributesOp op);
void Run(Context& c, SuggestOp op);
void Run(Context& c, ReportOp op);
void Run(Context& c, FinishOp op);
void Run(Context& c, DeclareOp op);
void Run(Context& c, HeartbeatOp op);
void Run(Context& c, ProposalsOp op);

// Checks that there may be one more study with this id. RESOURCE_EXHAUSTED LIMIT_EXCEEDED.
absl::Status CheckRoomForStudy(const Context& c, const std::string& id);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_HANDLERS_H_
