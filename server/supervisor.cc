#include "server/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "lib/base/descriptor.h"

namespace luthier::server {

void TellSupervisor(absl::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  const absl::string_view name = variable == nullptr ? "" : variable;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';  // A name in Linux's abstract space has no zero at its end.
  const base::Descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return;
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  // A failure can't be reported to anybody: the manager's own timeout shows it.
  [[maybe_unused]] const ssize_t sent =
      sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace luthier::server
