#ifndef LUTHIER_SERVER_UNKNOWN_METHODS_H_
#define LUTHIER_SERVER_UNKNOWN_METHODS_H_

#include <grpcpp/generic/async_generic_service.h>

#include <string>

#include "absl/status/status.h"

namespace luthier::server {

// Answers every call of a method that this coordinator lacks, from any caller, with or without a token: health checks
// of load balancers, scanners, reflection, and clients that are newer than the coordinator.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
};

// Returns UNIMPLEMENTED, with `path` as the caller sent it ("/package.Service/Method") made safe, and the version of
// this coordinator, so that readers know which side is older.
absl::Status UnknownMethod(const std::string& path);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_UNKNOWN_METHODS_H_
