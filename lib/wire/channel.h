#ifndef LUTHIER_LIB_WIRE_CHANNEL_H_
#define LUTHIER_LIB_WIRE_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

inline constexpr char kDefaultServer[] = "localhost:7790";
inline constexpr int kMaxMessageBytes = 4 << 20;

// gRPC's target for a server address: "host:port", "[v6]:port" or "unix:path". INVALID_ARGUMENT says what is missing.
absl::StatusOr<std::string> ServerTarget(absl::string_view address);

// A channel to `address`, without credentials. It connects at the first call and again whenever the connection broke:
//  * keepalive pings every 10 s, also without calls, answered within 3 s, else the connection counts as dead: gRPC's
//    default is to hang until each call's deadline after a partition;
//  * reconnects after 1 to 2 s instead of up to two minutes;
//  * no retries of gRPC's own: ours (retry.h) know which calls may be repeated, and two layers would multiply.
absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_CHANNEL_H_
