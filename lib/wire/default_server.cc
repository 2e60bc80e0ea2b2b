#include "lib/wire/default_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/ownership.h"

namespace luthier::wire {
namespace {

constexpr char kSocket[] = "luthier-data/socket";
constexpr char kElsewhere[] = "localhost:7790";

// Whoever listens is `uid` or root. True where nobody does.
absl::Status CheckListener(uid_t uid) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, kSocket, sizeof(kSocket));
  const base::Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::OkStatus();
  }
  if (peer.uid == uid || peer.uid == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(base::UserName(peer.uid), " listens there"));
}

}  // namespace

DefaultServer FindDefaultServer() {
  struct stat info;
  const uid_t uid = geteuid();
  absl::Status owned = base::CheckOwnership(kSocket, uid);
  if (absl::IsNotFound(owned)) return {kElsewhere, absl::OkStatus()};
  if (owned.ok() && (stat(kSocket, &info) != 0 || !S_ISSOCK(info.st_mode))) return {kElsewhere, absl::OkStatus()};
  if (owned.ok()) owned = CheckListener(uid);
  const std::string address = absl::StrCat("unix:", kSocket);
  if (owned.ok()) return {address, absl::OkStatus()};
  return {address,
          absl::FailedPreconditionError(absl::StrCat(
              "is not given, and the socket of this folder, ", kSocket, ", is not taken unasked: ", owned.message(),
              ". Whoever answers gets your token and says what a worker runs: write --server ", address,
              " if it is to be this one, else name another one, as --server ", kElsewhere))};
}

}  // namespace luthier::wire
