#ifndef LUTHIER_SERVER_LISTEN_ADDRESS_H_
#define LUTHIER_SERVER_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::server {

// An address to listen on: a TCP address, or the path of a Unix socket.
struct ListenAddress {
  std::string path;  // Path of the socket; empty: TCP.
  std::string host;  // Without brackets.
  int port = 0;      // 0: any free one.

  bool unix_socket() const { return !path.empty(); }
  // Returns true if only this machine can connect.
  bool loopback() const;
  // Returns the address as users write it and clients take it: "unix:path", "host:port" or "[v6]:port".
  std::string Target() const;
};

// Reads "host:port", "[v6]:port" or "unix:path"; port 0 to 65535. INVALID_ARGUMENT says what is missing.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

// Replaces "localhost" by 127.0.0.1 if the system does not know the name: a bare container may have no /etc/hosts.
// Clients know it by themselves (RFC 6761).
ListenAddress WithKnownHost(ListenAddress address);

// Checks that one could listen there now, so that errors come before anything else is done; the listener itself may
// still fail. INVALID_ARGUMENT: the host is not known, the socket's folder is missing, the path is a file; UNAVAILABLE
// ADDRESS_IN_USE: somebody listens there; FAILED_PRECONDITION: not an address of this machine, a port that needs more
// rights.
absl::Status CheckFree(const ListenAddress& address);

// Returns FAILED_PRECONDITION with what the system said (`problem`, an errno) and what to do about it.
absl::Status CannotListen(const ListenAddress& address, int problem);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_LISTEN_ADDRESS_H_
