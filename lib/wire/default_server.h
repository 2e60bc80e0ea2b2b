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

// Returns the server that is meant where none is named: the socket in ./luthier-data, which is luthierd's own default,
// where there is one, else localhost:7790. Whoever answers there gets the caller's token and tells a worker what to
// run, so only a socket in a folder that belongs to the caller or to root is trusted, where nobody else can put another
// one (base::CheckOwnership); and where somebody listens, that must be one of the two. At the port, too, only they may
// listen. Nobody owns that: where nobody listens (yet), or ends to, another user may begin, so each call looks again
// (ChannelSecurity::only_own).
DefaultServer FindDefaultServer();

// Checks once more that `address`, which nobody named, is answered by the caller or by root: a port; a socket's folder
// is theirs. Errors as CheckPortOwner, saying what to write.
absl::Status CheckUnnamed(absl::string_view address);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_
