#include "server/connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"

namespace luthier::server {
namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);  // getsockname, getpeername.

struct Address {
  sockaddr_storage storage = {};
  bool known = false;
};

Address AddressOf(Name name, int fd) {
  Address address;
  socklen_t size = sizeof(address.storage);
  address.known = name(fd, reinterpret_cast<sockaddr*>(&address.storage), &size) == 0;
  return address;
}

// Returns the peer's name as gRPC writes it; "" if `fd` is not a connection over TCP.
std::string PeerOf(int fd) {
  const Address address = AddressOf(getpeername, fd);
  if (!address.known) return "";
  char host[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", ntohs(v4.sin_port));
  }
  if (address.storage.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);
  return absl::StrCat("ipv6:%5B", host, scope, "%5D:", ntohs(v6.sin6_port));
}

bool AcceptedOn(const ListenAddress& bound, int fd) {
  if (!AddressOf(getpeername, fd).known) return false;  // A listener, or no socket.
  const Address own = AddressOf(getsockname, fd);
  if (!own.known) return false;
  switch (own.storage.ss_family) {
    case AF_UNIX:
      return bound.unix_socket() && bound.path == reinterpret_cast<const sockaddr_un&>(own.storage).sun_path;
    case AF_INET:
      return !bound.unix_socket() && ntohs(reinterpret_cast<const sockaddr_in&>(own.storage).sin_port) == bound.port;
    case AF_INET6:
      return !bound.unix_socket() && ntohs(reinterpret_cast<const sockaddr_in6&>(own.storage).sin6_port) == bound.port;
    default:
      return false;
  }
}

// Calls `end` with each descriptor for which `wanted` holds. Returns the number of these. gRPC may close one at any
// time, and another file may get its number: so a second descriptor of the same socket is checked again, and passed on.
int ForEach(const std::function<bool(int)>& wanted, const std::function<void(int)>& end) {
  std::vector<int> open;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd)) open.push_back(fd);
  }
  int count = 0;
  for (const int fd : open) {
    if (!wanted(fd)) continue;
    const base::Descriptor held(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (held.get() < 0 || !wanted(held.get())) continue;
    end(held.get());
    ++count;
  }
  return count;
}

}  // namespace

bool AbortConnection(absl::string_view peer) {
  if (peer.empty()) return false;  // A descriptor without a connection has no name either.
  return ForEach([&](int fd) { return PeerOf(fd) == peer; },
                 [](int fd) {
                   // Unlike shutdown, this drops what has been received.
                   const sockaddr nobody = {AF_UNSPEC, {}};
                   connect(fd, &nobody, sizeof(nobody));
                 }) > 0;
}

void EndConnections(const ListenAddress& bound) {
  ForEach([&](int fd) { return AcceptedOn(bound, fd); }, [](int fd) { shutdown(fd, SHUT_RDWR); });
}

}  // namespace luthier::server
