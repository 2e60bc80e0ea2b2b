#include "server/metrics/exposer.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

namespace luthier::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kScrape[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {20, 0};  // Whoever waits in vain fails.
    EXPECT_EQ(setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool Send(const std::string& text) const {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Until the server closes the connection.
  std::string Read() const {
    std::string answer;
    char buffer[4096];
    ssize_t n;
    while ((n = recv(fd_, buffer, sizeof(buffer), 0)) > 0) answer.append(buffer, static_cast<size_t>(n));
    EXPECT_TRUE(n == 0 || errno != EAGAIN) << "neither closed nor answered";
    return answer;
  }

 private:
  const int fd_;
};

class ExposerTest : public ::testing::Test {
 protected:
  std::string Ask(const std::string& request) const {
    const Client client(exposer_->port());
    EXPECT_TRUE(client.Send(request));
    return client.Read();
  }

  base::ManualClock clock_;
  std::shared_ptr<const Metrics> metrics_ = std::make_shared<Metrics>(MetricsOptions{});
  std::unique_ptr<Exposer> exposer_ = Exposer::Start("127.0.0.1", 0, metrics_, &clock_).value();
};

TEST_F(ExposerTest, SaysThatAPortIsTaken) {
  ASSERT_GT(exposer_->port(), 0);
  const auto second = Exposer::Start("127.0.0.1", exposer_->port(), metrics_, &clock_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics-listen"));
}

TEST_F(ExposerTest, AnswersAGetOfMetricsAndNothingElse) {
  const std::string answer = Ask(kScrape);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n# HELP"));
  EXPECT_THAT(Ask("GET /metrics?x=1 HTTP/1.0\n\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("GET /metrics/.. HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("PRI * HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(ExposerTest, ARequestHasEightKibibytes) {
  const std::string begin = "GET /metrics HTTP/1.1\r\nX: ";
  const std::string end = "\r\n\r\n";
  const auto of = [&](size_t bytes) { return begin + std::string(bytes - begin.size() - end.size(), 'x') + end; };
  EXPECT_THAT(Ask(of(kMaxRequestBytes)), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(of(kMaxRequestBytes + 1)), StartsWith("HTTP/1.1 431 "));
}

// Once 60 of them blocked the port for as long as they stayed.
TEST_F(ExposerTest, HalfRequestsBlockNobody) {
  std::vector<std::unique_ptr<Client>> half;
  for (size_t i = 0; i < 3 * kMaxConnections; ++i) {
    half.push_back(std::make_unique<Client>(exposer_->port()));
    EXPECT_TRUE(half.back()->Send("GET /metrics HTTP/1.1\r\n"));
    if (i % 16 == 0) {
      EXPECT_THAT(Ask(kScrape), StartsWith("HTTP/1.1 200 "));
    }
  }
  EXPECT_THAT(Ask(kScrape), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(half.front()->Read(), "") << "the oldest made room";
  EXPECT_TRUE(half.back()->Send("\r\n"));
  EXPECT_THAT(half.back()->Read(), StartsWith("HTTP/1.1 200 ")) << "the newest may still complete its request";
}

TEST_F(ExposerTest, SilentClientsAreDisconnected) {
  const Client slow(exposer_->port());
  EXPECT_TRUE(slow.Send("GET "));
  EXPECT_THAT(Ask(kScrape), StartsWith("HTTP/1.1 200 "));  // So `slow` has been accepted.
  clock_.Advance(kPatience);
  EXPECT_EQ(slow.Read(), "");
}

}  // namespace
}  // namespace luthier::metrics
