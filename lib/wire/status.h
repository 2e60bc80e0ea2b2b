#ifndef LUTHIER_LIB_WIRE_STATUS_H_
#define LUTHIER_LIB_WIRE_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

// absl::Status with its base::ErrorDetail <-> grpc::Status whose error_details() are a serialized
// luthier.v1.ErrorDetail. Both ways and back give the same status, but for what does not fit into the 8 KiB that gRPC
// allows for an answer's metadata.
namespace luthier::wire {

// Message: at most kMaxStatusMessageBytes once percent-encoded, cut at a character boundary and marked with "…".
// Detail: at most kMaxStatusDetailBytes; long descriptions are cut first, then the last violations and metadata go.
inline constexpr size_t kMaxStatusMessageBytes = 2048;
inline constexpr size_t kMaxStatusDetailBytes = 4096;

grpc::Status ToGrpc(const absl::Status& status);

// A status that carries no detail of ours (from the gRPC library, a proxy) comes back without one; undecodable details
// count as none. A message that was cut is written again from the violations.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_STATUS_H_
