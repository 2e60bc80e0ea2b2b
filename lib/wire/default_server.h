#ifndef LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_
#define LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_

#include <string>

#include "absl/status/status.h"

namespace luthier::wire {

struct DefaultServer {
  std::string address;
  // FAILED_PRECONDITION: `address` must not be used unasked. Says why, and what to write.
  absl::Status trust;
};

// Returns the server that is meant where none is named: the socket in ./luthier-data, which is luthierd's own default,
// where there is one, else localhost:7790. Whoever answers there gets the caller's token and tells a worker what to
// run, so only a socket in a folder that belongs to the caller or to root is trusted, where nobody else can put another
// one (base::CheckOwnership); and where somebody listens, that must be one of the two.
DefaultServer FindDefaultServer();

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DEFAULT_SERVER_H_
