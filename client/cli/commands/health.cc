// The verb that supervisors call: gRPC's health service, which needs no token and reads no study.
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/commands.h"
#include "client/cli/local_server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "lib/base/retry_advice.h"
#include "lib/base/status_macros.h"
#include "lib/wire/addresses.h"
#include "lib/wire/certificate.h"
#include "lib/wire/channel.h"
#include "lib/wire/deadline.h"
#include "lib/wire/status.h"

namespace luthier::cli {
namespace {

constexpr char kReadyToWrite[] = "luthier.v1.Coordinator";

// Prints "certificate server: 364 days left, until 2027-11-26T10:00:00Z", a line for each certificate.
void TellCertificates(Context& context, const grpc::ClientContext& call) {
  const auto& metadata = call.GetServerInitialMetadata();
  const auto [begin, end] = metadata.equal_range(wire::kCertificateEnds);
  if (begin == end) context.out() << "no certificate: the coordinator's port speaks plain text, or it has none\n";
  for (auto entry = begin; entry != end; ++entry) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(absl::string_view(entry->second.data(), entry->second.size()), absl::MaxSplits('=', 1));
    absl::Time until;
    if (!absl::ParseTime(absl::RFC3339_full, parts.second, &until, nullptr)) continue;  // A newer coordinator's form.
    const absl::Duration left = until - absl::Now();
    const int64_t days = absl::ToInt64Hours(left) / 24;
    context.out() << "certificate " << parts.first << ": "
                  << (left > absl::ZeroDuration() ? absl::StrCat(days, " days left, until ") : "ended on ")
                  << absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", until, absl::UTCTimeZone()) << "\n";
  }
}

}  // namespace

absl::StatusOr<int> Health(Context& context) {
  const Options& options = context.options();
  // The socket of a data directory belongs to its owner, and has no encryption.
  std::string address = options.server;
  wire::ChannelSecurity security;
  if (options.db.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(security, context.Security());
    security.token.clear();  // The service needs no token.
  } else {
    address = absl::StrCat("unix:", DataDirectory(options.db), "/socket");
  }
  const auto channels = wire::CreateChannels(address, security);
  if (!channels.ok()) return UsageError(channels.status());
  std::vector<std::string> addresses;
  for (const auto& [one, channel] : *channels) addresses.push_back(one);
  wire::Turns turns(std::move(addresses));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(kReadyToWrite);
  grpc::health::v1::HealthCheckResponse response;
  std::unique_ptr<grpc::ClientContext> call;
  const absl::Status answer = turns.Try([&](size_t index) {
    call = std::make_unique<grpc::ClientContext>();
    call->set_deadline(wire::DeadlineIn(options.health_timeout));
    const auto stub = grpc::health::v1::Health::NewStub((*channels)[index].second);
    return wire::FromGrpc(stub->Check(call.get(), request, &response));
  });
  if (base::NobodyAnswered(answer)) {
    context.err() << "luthier: no coordinator answers at " << address << " (" << answer.message() << ")\n";
    return kExitUnreachable;
  }
  LUTHIER_RETURN_IF_ERROR(answer);
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) {
    context.out() << "serving\n";
    if (options.verbose) TellCertificates(context, *call);
    return kExitDone;
  }
  context.err() << "luthier: the coordinator at " << address << " answers, and does not serve: it starts or stops\n";
  return kExitFailed;
}

}  // namespace luthier::cli
