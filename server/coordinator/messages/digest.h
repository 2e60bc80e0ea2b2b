#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_DIGEST_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_DIGEST_H_

#include <string>

#include "server/coordinator/messages/operations.h"

// Digests of what requests say, to recognise a repeated request. Equal content gives equal text, for ever: digests are
// stored. The caller, request ids and callbacks are not content.
namespace luthier::coordinator {

std::string DigestOf(const FinishOp& op);
std::string DigestOf(const EnqueueOp& op);
std::string DigestOf(const ImportOp& op);
std::string DigestOf(const RetryOp& op);
std::string DigestOf(const UpdateStudyOp& op);
std::string DigestOf(const SuggestOp& op);
std::string DigestOf(const ControlOp& op);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_DIGEST_H_
