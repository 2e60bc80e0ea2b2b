#ifndef LUTHIER_SERVER_SUPERVISOR_H_
#define LUTHIER_SERVER_SUPERVISOR_H_

#include "absl/strings/string_view.h"

namespace luthier::server {

// Tells the service manager that started this process how it is: "READY=1", "STOPPING=1" (sd_notify(3): one datagram to
// the socket that NOTIFY_SOCKET names). Without that variable, or when nobody listens there, nothing happens.
void TellSupervisor(absl::string_view state);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_SUPERVISOR_H_
