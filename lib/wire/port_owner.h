#ifndef LUTHIER_LIB_WIRE_PORT_OWNER_H_
#define LUTHIER_LIB_WIRE_PORT_OWNER_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace luthier::wire {

// Checks who answers at a TCP port of this machine's loopback, by the tables of the kernel, net/tcp and net/tcp6 below
// `proc`. Returns OK if somebody listens, and every socket there, connections that were taken before included, is
// `uid`'s or root's; UNAVAILABLE if nobody listens, as far as one sees from here (a container's network, for one, is
// another); FAILED_PRECONDITION if another user has a socket there, or the tables can't be read. Errors say which; they
// name no address.
absl::Status CheckPortOwner(int port, uid_t uid, const std::string& proc = "/proc/thread-self");

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_PORT_OWNER_H_
