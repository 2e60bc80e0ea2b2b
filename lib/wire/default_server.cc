#include "lib/wire/default_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/ownership.h"
#include "lib/wire/port_owner.h"

namespace luthier::wire {
namespace {

constexpr char kSocket[] = "luthier-data/socket";
constexpr char kElsewhere[] = "localhost:7790";
constexpr int kPort = 7790;
constexpr char kWhy[] = "Whoever answers gets your token and says what a worker runs: write --server ";

// Checks that the listener is `uid` or root. Returns OK if nobody listens.
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
  if (absl::IsNotFound(owned) || (owned.ok() && (stat(kSocket, &info) != 0 || !S_ISSOCK(info.st_mode)))) {
    const absl::Status trust = CheckUnnamed(kElsewhere);
    // The calls will say that nobody listens, or find somebody.
    return {kElsewhere, absl::IsUnavailable(trust) ? absl::OkStatus() : trust};
  }
  if (owned.ok()) owned = CheckListener(uid);
  const std::string address = absl::StrCat("unix:", kSocket);
  if (owned.ok()) return {address, absl::OkStatus()};
  return {address,
          absl::FailedPreconditionError(absl::StrCat(
              "is not given, and the socket of this folder, ", kSocket, ", is not taken unasked: ", owned.message(),
              ". ", kWhy, address, " if it is to be this one, else name another one, as --server ", kElsewhere))};
}

absl::Status CheckUnnamed(absl::string_view address) {
  if (address != kElsewhere) return absl::OkStatus();
  const absl::Status trust = CheckPortOwner(kPort, geteuid());
  if (trust.ok()) return trust;
  if (absl::IsUnavailable(trust)) {
    return absl::UnavailableError(
        absl::StrCat(trust.message(), ": start luthierd, or name the server, with --server ", kElsewhere,
                     " where this one is meant and can't be seen from here, as one in a network of its own"));
  }
  return absl::Status(trust.code(),
                      absl::StrCat("is not given, and ", kElsewhere, " is not taken unasked: ", trust.message(), ". ",
                                   kWhy, kElsewhere, " if it is to be this one, else name another one"));
}

}  // namespace luthier::wire
