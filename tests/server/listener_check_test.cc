#include "server/listener_check.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

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

TEST(Serves, ASilentServerDoesNot) {
  int kept = -1;
  const auto keep = [&](const std::string& text) {
    return [&kept, text](int fd, const std::string& preface) {
      EXPECT_EQ(preface.substr(0, 3), "PRI");
      EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
      kept = fd;
    };
  };
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  for (const std::string& text : {std::string(), settings}) {
    EXPECT_FALSE(Serves(keep(text), absl::Milliseconds(1)));
    close(kept);
  }
  EXPECT_TRUE(Serves(keep(settings + std::string("\0\0\x08\x06\x01\0\0\0\0luthier?", 17)), absl::Seconds(20)));
  close(kept);
}

TEST(Serves, GrpcDoesAsLongAsItRuns) {
  using Taker = grpc::experimental::ExternalConnectionAcceptor;
  grpc::ServerBuilder builder;
  grpc::AsyncGenericService service;
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<Taker> taker = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto hand_over = [&](int fd, const std::string& received) {
    const grpc::Slice slice(received);
    Taker::NewConnectionParameters connection;
    connection.fd = fd;
    connection.read_buffer = grpc::ByteBuffer(&slice, 1);
    taker->HandleNewConnection(&connection);
  };
  std::thread polls([&] {
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) {
    }
  });
  EXPECT_TRUE(Serves(hand_over, absl::Seconds(20)));
  server->Shutdown();
  queue->Shutdown();
  polls.join();
}

ListenerSigns Signs(bool answers, bool serves, uint64_t accepted, uint64_t ended) {
  ListenerSigns signs;
  signs.answers = answers;
  signs.serves = serves;
  signs.accepted = accepted;
  signs.ended = ended;
  return signs;
}

TEST(Silence, AFloodOfConnectionsIsNoDeafness) {
  Silence silence;
  for (uint64_t check = 1; check < 100; ++check) {
    // It takes in others, and gRPC answers us by another way, or others.
    const bool odd = check % 2 == 1;
    EXPECT_EQ(silence.Judge(Signs(false, odd, 1000 * check, odd ? 7 * (check - 1) : 7 * check)),
              Silence::Verdict::kBusy)
        << check;
  }
  EXPECT_EQ(silence.failures(), 0);
}

TEST(Silence, ThreeSilentChecksWithoutProgressAreDeafness) {
  for (const bool takes_in : {false, true}) {
    Silence silence;
    EXPECT_EQ(silence.Judge(Signs(true, false, 5, 5)), Silence::Verdict::kAnswers);
    for (uint64_t check = 1; check <= 4; ++check) {
      // Calls on connections from before go on while nobody can connect; strangers connect while gRPC is stuck.
      const ListenerSigns signs = takes_in ? Signs(false, false, 5 + check, 5) : Signs(false, true, 5, 5 + check);
      EXPECT_EQ(silence.Judge(signs), check < 3 ? Silence::Verdict::kSilent : Silence::Verdict::kDeaf) << check;
    }
    EXPECT_EQ(silence.Judge(Signs(true, false, 5, 5)), Silence::Verdict::kAnswers);
    EXPECT_EQ(silence.Judge(Signs(false, false, 5, 5)), Silence::Verdict::kSilent) << "not in a row";
  }
}

TEST(ListenerCheck, TellsWhenTheServerIsDeaf) {
  base::SetLogLevel(base::LogLevel::kOff);
  absl::Notification deaf;
  const ListenerCheck check(
      "nobody", [] { return ListenerSigns(); }, absl::Milliseconds(1),
      [&] {
        if (!deaf.HasBeenNotified()) deaf.Notify();
      });
  deaf.WaitForNotification();
}

}  // namespace
}  // namespace luthier::server
