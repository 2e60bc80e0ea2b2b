#include "server/connections.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"

namespace luthier::server {
namespace {

using base::Descriptor;

// A listener of 127.0.0.1 or ::1 with connections to it.
class Listener {
 public:
  explicit Listener(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    size_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    address_.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6)
      reinterpret_cast<sockaddr_in6&>(address_).sin6_addr = in6addr_loopback;
    else
      reinterpret_cast<sockaddr_in&>(address_).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there_ = bind(fd_.get(), generic(), size_) == 0 && listen(fd_.get(), 8) == 0 &&
             getsockname(fd_.get(), generic(), &size_) == 0;
  }
  // The machine has the address.
  bool there() const { return there_; }
  int port() const { return PortOf(fd_.get()); }
  // The client's end and ours.
  std::pair<Descriptor, Descriptor> Connect() {
    Descriptor client(socket(address_.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), generic(), size_), 0);
    Descriptor ours(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const timeval patience = {20, 0};  // Whoever waits in vain fails.
    for (const Descriptor* end : {&client, &ours})
      EXPECT_EQ(setsockopt(end->get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return {std::move(client), std::move(ours)};
  }
  static int PortOf(int fd) {
    sockaddr_storage name = {};
    socklen_t size = sizeof(name);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
    return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(name).sin_port);
  }

 private:
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }

  const Descriptor fd_;
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
  bool there_ = false;
};

void Send(const Descriptor& fd, const std::string& text) {
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}
// "": the other end is closed; "reset": it was.
std::string Read(const Descriptor& fd) {
  char buffer[64];
  const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
  if (n < 0) return errno == ECONNRESET ? "reset" : "error";
  return std::string(buffer, static_cast<size_t>(n));
}

TEST(Connections, OneConnectionOfManyIsAborted) {
  for (const int family : {AF_INET, AF_INET6}) {
    Listener listener(family);
    if (!listener.there()) continue;  // No IPv6 here.
    const auto [other_client, other] = listener.Connect();
    const auto [client, ours] = listener.Connect();
    const int port = Listener::PortOf(client.get());
    const std::string host = family == AF_INET ? "ipv4:127.0.0.1:" : "ipv6:%5B::1%5D:";
    EXPECT_FALSE(AbortConnection(absl::StrCat(host, 1)));
    EXPECT_FALSE(AbortConnection(""));
    Send(client, "too much");
    EXPECT_TRUE(AbortConnection(absl::StrCat(host, port))) << host;
    EXPECT_EQ(Read(client), "reset");
    EXPECT_EQ(Read(ours), "reset") << "what was received is dropped";
    EXPECT_FALSE(AbortConnection(absl::StrCat(host, port))) << "it has ended";
    Send(other_client, "still here");
    EXPECT_EQ(Read(other), "still here");
  }
}

// A socket of both families accepts IPv4, and gRPC names its peers so.
TEST(Connections, AnIpv4PeerOfAnIpv6SocketIsFound) {
  const Descriptor listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  if (listener.get() < 0 || bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0) return;
  ASSERT_EQ(listen(listener.get(), 8), 0);
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(Listener::PortOf(listener.get())));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const Descriptor ours(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(AbortConnection(absl::StrCat("ipv4:127.0.0.1:", Listener::PortOf(client.get()))));
  EXPECT_EQ(Read(client), "reset");
}

TEST(Connections, ConnectionsOfOneListenerEndAfterTheirWrites) {
  Listener listener(AF_INET), another(AF_INET);
  const auto [client, ours] = listener.Connect();
  const auto [other_client, other] = another.Connect();
  Send(ours, "the last words");
  ListenAddress bound;
  bound.host = "127.0.0.1";
  bound.port = listener.port();
  EndConnections(bound);
  EXPECT_EQ(Read(client), "the last words");
  EXPECT_EQ(Read(client), "");
  EXPECT_EQ(Read(ours), "");
  Send(other_client, "still here");
  EXPECT_EQ(Read(other), "still here");
  // The listener itself goes on.
  const auto [again, ours_again] = listener.Connect();
  Send(again, "hello");
  EXPECT_EQ(Read(ours_again), "hello");
}

}  // namespace
}  // namespace luthier::server
