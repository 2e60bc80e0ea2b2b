#ifndef LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_
#define LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace luthier::wire {

struct DefaultServer {
  std::string address;
  // FAILED_PRECONDITION: `address` must not be used unasked. Says why, and what to write.
  absl::Status trust;
};

// Returns the server that is used if none is named: the socket in ./luthier-data, luthierd's own default, if there is
// one, else localhost:7790. The server there gets the caller's token and tells a worker what to run. So a socket is
// trusted only in a folder that belongs to the caller or to root, where nobody else can replace it
// (base::CheckOwnership), and if its listener is one of these two. At the port, too, only they may listen. A port
// belongs to nobody: another user may begin to listen whenever nobody does, so each call checks again
// (ChannelSecurity::only_own).
DefaultServer FindDefaultServer();

// Checks once more that the caller or root answers at `address`, which nobody named: at a port; a socket's folder
// belongs to them. Returns the errors of CheckPortOwner, saying what to write.
absl::Status CheckUnnamed(absl::string_view address);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_
