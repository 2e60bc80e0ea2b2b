#include "server/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/base/descriptor.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"
#include "server/listener_check.h"
#include "server/server.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

using base::Descriptor;

const std::string kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

// Health/Watch on stream 1: it answers at once, and again whenever health changes.
std::string EndlessCall() {
  const std::string path = "/grpc.health.v1.Health/Watch";
  const std::string headers = absl::StrCat("\x83\x86\x04", std::string(1, static_cast<char>(path.size())), path,
                                           "\x01\x01"
                                           "a\x0f\x10\x10"
                                           "application/grpc",
                                           std::string("\0\2te\x08trailers", 13));
  const std::string empty_message("\0\0\5\0\1\0\0\0\1\0\0\0\0\0", 14);
  return absl::StrCat(std::string("\0\0", 2), std::string(1, static_cast<char>(headers.size())),
                      std::string("\1\4\0\0\0\1", 6), headers, empty_message);
}

class Client {
 public:
  explicit Client(const ListenAddress& server, const std::string& from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in mine{};
    mine.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, from.c_str(), &mine.sin_addr), 1);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&mine), sizeof(mine)), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(server.port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {20, 0};  // Whoever waits in vain fails.
    EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  void Send(const std::string& text) const {
    EXPECT_EQ(send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Waits until the server closes the connection, or sends: "" when it closes.
  std::string Read() const {
    char buffer[64];
    const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
    EXPECT_TRUE(n >= 0 || errno != EAGAIN) << "neither closed nor answered";
    return std::string(buffer, n > 0 ? static_cast<size_t>(n) : 0);
  }

 private:
  Descriptor fd_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Listen(const AcceptorOptions& options = {}) {
    base::SetLogLevel(base::LogLevel::kOff);
    ListenAddress address;
    address.host = "127.0.0.1";
    acceptor_ = Acceptor::Listen(address, &clock_, options).value();
    // Like a server: says something to who has been handed over.
    acceptor_->Start([this](int fd, const std::string& received) {
      base::MutexLock lock(&mutex_);
      established_.emplace_back(fd);
      last_received_ = received;
      EXPECT_EQ(send(fd, "hello", 5, MSG_NOSIGNAL), 5);
    });
  }
  // A connection that is established, so that all before it have been accepted.
  std::unique_ptr<Client> Established() const {
    auto client = std::make_unique<Client>(acceptor_->bound());
    client->Send(kPreface);
    EXPECT_EQ(client->Read(), "hello");
    return client;
  }

  base::ManualClock clock_;
  std::unique_ptr<Acceptor> acceptor_;
  base::Mutex mutex_;
  std::vector<Descriptor> established_ ABSL_GUARDED_BY(mutex_);
  std::string last_received_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(AcceptorTest, APrefaceInPiecesIsHandedOverWhole) {
  Listen();
  const Client client(acceptor_->bound());
  for (const char c : kPreface) client.Send(std::string(1, c));
  client.Send("more");
  EXPECT_EQ(client.Read(), "hello");
  base::MutexLock lock(&mutex_);
  EXPECT_EQ(last_received_, kPreface);
  char rest[8];
  EXPECT_EQ(recv(established_.at(0).get(), rest, sizeof(rest), MSG_WAITALL | MSG_DONTWAIT) > 0, true);
}

TEST_F(AcceptorTest, OtherProtocolsAreClosedAtOnce) {
  Listen();
  std::string not_settings = kPreface;
  not_settings[27] = 0;
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01"), not_settings}) {
    const Client client(acceptor_->bound());
    client.Send(text);
    EXPECT_EQ(client.Read(), "") << text;
  }
}

TEST_F(AcceptorTest, TheOldestConnectionMakesRoomForANewOne) {
  Listen({.unfinished = 3});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<Client>(acceptor_->bound()));
  const auto first = Established();
  EXPECT_EQ(silent[0]->Read(), "") << "the fourth took its place";
  silent[1]->Send(kPreface);
  EXPECT_EQ(silent[1]->Read(), "hello") << "the others stayed";
  // Who has finished the preface no longer counts.
  const auto second = Established();
  const auto third = Established();
  const auto fourth = Established();
  silent[2]->Send(kPreface);
  EXPECT_EQ(silent[2]->Read(), "hello");
}

TEST_F(AcceptorTest, ThePeerWithTheMostConnectionsMakesRoom) {
  Listen({.unfinished = 4});
  const Client alone(acceptor_->bound(), "127.0.0.2");
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(std::make_unique<Client>(acceptor_->bound()));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(silent[i]->Read(), "") << i;
  alone.Send(kPreface);
  EXPECT_EQ(alone.Read(), "hello") << "the oldest, but of another peer";
}

TEST_F(AcceptorTest, SilentConnectionsAreClosedAfterTenSeconds) {
  Listen();
  const Client silent(acceptor_->bound());
  const auto other = Established();
  clock_.Advance(AcceptorOptions().patience - absl::Nanoseconds(1));
  silent.Send(kPreface.substr(0, 5));
  const auto another = Established();
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(silent.Read(), "");
}

// gRPC 1.51's own listener never accepts again after this.
TEST_F(AcceptorTest, DescriptorsInReserveAreNotTakenAndItGoesOnAfterwards) {
  const int next = Descriptor(dup(0)).get();
  Listen({.max_descriptors = next + 20});
  std::vector<std::unique_ptr<Client>> established;
  // Server and clients share a process here: two descriptors a connection.
  while (true) {
    auto client = std::make_unique<Client>(acceptor_->bound());
    client->Send(kPreface);
    if (client->Read().empty()) break;
    established.push_back(std::move(client));
    ASSERT_LT(established.size(), 20u);
  }
  EXPECT_GT(established.size(), 3u);
  {
    base::MutexLock lock(&mutex_);
    for (const Descriptor& fd : established_) EXPECT_LT(fd.get(), next + 20);
    established_.clear();
  }
  established.clear();
  const auto again = Established();
}

// The whole server: others go on, new connections are refused, and all is well when the descriptors are back.
TEST(AcceptorOfAServer, SurvivesRunningOutOfDescriptors) {
  if (testing::kSanitized) GTEST_SKIP() << "the sanitizer looks at the type of a thread's object through a pipe";
  base::SetLogLevel(base::LogLevel::kOff);
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const ListenAddress address = ParseListenAddress((*server)->address()).value();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Descriptor> taken;
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  // The client's descriptor is there before the last one is taken: accepting the connection fails.
  const auto answered = [&] {
    const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    for (int fd = 0; (fd = dup(null.get())) >= 0;) taken.emplace_back(fd);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(address.port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {0, 300'000};
    EXPECT_EQ(setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(send(client.get(), kPreface.data(), kPreface.size(), MSG_NOSIGNAL), 33);
    char byte;
    return recv(client.get(), &byte, 1, 0) == 1;
  };
  while (answered()) {
    // A descriptor that the server was about to close had become free.
  }
  taken.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Answers(address, absl::Seconds(20)));
}

// gRPC waits for an answer to its last PING from every connection, and for the end of every call.
TEST(AcceptorOfAServer, SilentClientsDoNotDelayItsEnd) {
  base::SetLogLevel(base::LogLevel::kOff);
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.grace = absl::Milliseconds(50);
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const Client mute(ParseListenAddress((*server)->address()).value());
  mute.Send(kPreface + std::string("\0\0\2\1\4", 5));
  EXPECT_FALSE(mute.Read().empty()) << "the server's own preface";
  const Client watcher(ParseListenAddress((*server)->address()).value());
  watcher.Send(kPreface + EndlessCall());
  const std::string first_answer("\1\4\0\0\0\1", 6);  // HEADERS of stream 1.
  for (std::string read = watcher.Read(), all = read; !absl::StrContains(all, first_answer); all += read) {
    ASSERT_FALSE((read = watcher.Read()).empty());
  }
  const absl::Time begin = absl::Now();
  (*server)->Stop();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

TEST(AcceptorOfAServer, TheSocketsFileGoesWithIt) {
  base::SetLogLevel(base::LogLevel::kOff);
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/socket";
  ServerOptions options;
  options.listen = "unix:" + path;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(std::filesystem::is_socket(path));
  (*server)->Stop();
  EXPECT_FALSE(std::filesystem::exists(path));
  // One that a killed server left behind is replaced.
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  const Descriptor left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Answers(ParseListenAddress("unix:" + path).value(), absl::Seconds(20)));
}

}  // namespace
}  // namespace luthier::server
