#ifndef LUTHIER_SERVER_CONNECTIONS_H_
#define LUTHIER_SERVER_CONNECTIONS_H_

#include "absl/strings/string_view.h"
#include "server/listen_address.h"

// Ends connections that gRPC 1.51 owns, which offers no call for that. Each connection is looked up among the
// descriptors of the process, and held by a second descriptor meanwhile. gRPC reads its end as though the client had
// gone.
namespace luthier::server {

// Resets the TCP connection of `peer`, named as gRPC does ("ipv4:10.0.0.7:51234", "ipv6:%5B::1%5D:51234"). Bytes that
// were received and not read are dropped. False: there is none.
bool AbortConnection(absl::string_view peer);

// Ends all connections that were accepted on `bound`. What was written to them still arrives; what clients send from
// now on is not read, so that their calls fail with UNAVAILABLE.
void EndConnections(const ListenAddress& bound);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_CONNECTIONS_H_
