#ifndef LUTHIER_WORKER_GRPC_COORDINATOR_H_
#define LUTHIER_WORKER_GRPC_COORDINATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/wire/channel.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "worker/run/coordinator_api.h"

namespace luthier::worker {

struct GrpcCoordinatorOptions {
  absl::Duration ask_timeout = absl::Seconds(40);   // Deadline of the long poll; the service waits at most 60 s.
  absl::Duration call_timeout = absl::Seconds(10);  // Deadline of every other call.
  std::string pool;                                 // Pool whose studies are asked for; empty: the default one.
  // Projects whose studies are asked for in turn; empty: all of the token's. Each ask of several projects waits for a
  // few seconds only.
  std::vector<std::string> projects;
  std::string instance;  // Unique per process; empty: not said.
};

// CoordinatorApi over luthier.v1.WorkerService, and StudyService for the spec. Sends each call once: the runtime
// decides what is repeated, and when. A lease that this program cannot read, from a newer service, is given back as
// FAILED(INFRA, WORKER_ERROR) and left out.
std::unique_ptr<CoordinatorApi> MakeGrpcCoordinator(std::unique_ptr<v1::WorkerService::StubInterface> stub,
                                                    std::unique_ptr<v1::StudyService::StubInterface> studies,
                                                    GrpcCoordinatorOptions options = {});

// Makes one over new channels to one or several addresses of a coordinator (lib/wire/addresses.h), of which each call
// tries the one that answered last, and then the others. It connects at the first call. Errors as wire::CreateChannels.
absl::StatusOr<std::unique_ptr<CoordinatorApi>> ConnectCoordinator(const std::string& address,
                                                                   const wire::ChannelSecurity& security = {},
                                                                   GrpcCoordinatorOptions options = {});

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_GRPC_COORDINATOR_H_
