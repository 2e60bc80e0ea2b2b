#include "server/listener_check.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "absl/synchronization/notification.h"
#include "lib/base/log.h"
#include "server/server.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

// A socket of `family` bound to `address`, which listens but never sends.
class Silent {
 public:
  Silent(int family, sockaddr* address, socklen_t size) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(bind(fd_, address, size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, address, &size), 0);
  }
  ~Silent() { close(fd_); }

 private:
  const int fd_;
};

bool HasIpv6Loopback() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool has = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  return has;
}

TEST(Answers, DialsTheAddressThatWasBound) {
  base::SetLogLevel(base::LogLevel::kOff);
  const testing::TemporaryDirectory directory;
  // Nothing of the second and third answers on 127.0.0.1.
  std::vector<std::string> addresses = {"localhost:0", "127.0.0.2:0", "unix:" + directory.path() + "/socket",
                                        "0.0.0.0:0"};
  if (HasIpv6Loopback()) addresses.push_back("[::1]:0");
  for (const std::string& listen : addresses) {
    ServerOptions options;
    options.listen = listen;
    options.auth = access::Auth::kOff;
    options.accept_plaintext = true;
    const auto server = Server::Start(options);
    ASSERT_TRUE(server.ok()) << listen << ": " << server.status();
    EXPECT_TRUE(Answers(ParseListenAddress((*server)->address()).value(), absl::Seconds(20))) << listen;
  }
}

TEST(Answers, AServerThatSaysNothingIsDeaf) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Silent tcp(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  ListenAddress bound;
  bound.host = "127.0.0.1";
  bound.port = ntohs(address.sin_port);
  EXPECT_FALSE(Answers(bound, absl::Milliseconds(1)));

  const testing::TemporaryDirectory directory;
  bound.path = directory.path() + "/socket";
  EXPECT_FALSE(Answers(bound, absl::Milliseconds(1)));
  sockaddr_un path = {};
  path.sun_family = AF_UNIX;
  bound.path.copy(path.sun_path, sizeof(path.sun_path) - 1);
  const Silent local(AF_UNIX, reinterpret_cast<sockaddr*>(&path), sizeof(path));
  EXPECT_FALSE(Answers(bound, absl::Milliseconds(1)));
}

TEST(ListenerCheck, TellsAfterThreeFailures) {
  base::SetLogLevel(base::LogLevel::kOff);
  ListenAddress nobody;
  nobody.path = "/nowhere/socket";
  absl::Notification deaf;
  const ListenerCheck check(nobody, absl::Milliseconds(1), [&] {
    if (!deaf.HasBeenNotified()) deaf.Notify();
  });
  deaf.WaitForNotification();
}

}  // namespace
}  // namespace luthier::server
