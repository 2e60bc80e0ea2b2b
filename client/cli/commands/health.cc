// The verb that supervisors call: gRPC's health service, which asks for no token and reads no study.
#include <grpcpp/client_context.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands/commands.h"
#include "client/cli/local_server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "lib/base/retry_advice.h"
#include "lib/base/status_macros.h"
#include "lib/wire/channel.h"
#include "lib/wire/status.h"

namespace luthier::cli {
namespace {

constexpr char kReadyToWrite[] = "luthier.v1.Coordinator";

}  // namespace

absl::StatusOr<int> Health(Context& context) {
  const Options& options = context.options();
  // The socket of a data directory is for its owner, in plain text.
  std::string address = options.server;
  wire::ChannelSecurity security;
  if (options.db.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(security, context.Security());
  } else {
    address = absl::StrCat("unix:", DataDirectory(options.db), "/socket");
  }
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = wire::CreateChannel(address, security);
  if (!channel.ok()) return UsageError("--server", std::string(channel.status().message()));
  const std::unique_ptr<grpc::health::v1::Health::Stub> stub = grpc::health::v1::Health::NewStub(*channel);
  grpc::ClientContext call;
  call.set_deadline(absl::ToChronoTime(absl::Now() + options.health_timeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(kReadyToWrite);
  grpc::health::v1::HealthCheckResponse response;
  const absl::Status answer = wire::FromGrpc(stub->Check(&call, request, &response));
  if (base::NobodyAnswered(answer)) {
    context.err() << "luthier: no coordinator answers at " << address << " (" << answer.message() << ")\n";
    return kExitUnreachable;
  }
  LUTHIER_RETURN_IF_ERROR(answer);
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) {
    context.out() << "serving\n";
    return kExitDone;
  }
  context.err() << "luthier: the coordinator at " << address << " answers, and does not serve: it starts or stops\n";
  return kExitFailed;
}

}  // namespace luthier::cli
