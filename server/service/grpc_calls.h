#ifndef LUTHIER_SERVER_SERVICE_GRPC_CALLS_H_
#define LUTHIER_SERVER_SERVICE_GRPC_CALLS_H_

#include <grpcpp/impl/service_type.h>

#include "server/service/calls.h"

namespace luthier::service {

// Carries all calls over gRPC: luthier.v1.StudyService, WorkerService and AdminService in one, and server reflection
// (reflection.h), to be registered with the server's builder. What is not in the table of calls is UNIMPLEMENTED.
class GrpcCalls final : public grpc::Service {
 public:
  // `calls` must outlive it.
  explicit GrpcCalls(const Calls* calls);
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_GRPC_CALLS_H_
