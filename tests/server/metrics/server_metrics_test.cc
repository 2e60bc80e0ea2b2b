// Metrics of a whole server, as Prometheus scrapes them.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::HasSubstr;

// The answer to GET /metrics, headers included.
std::string Scrape(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(colon + 1), &port)) << address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  close(fd);
  return answer;
}

class ServerMetrics : public ServiceTest {
 protected:
  ServerMetrics() { metrics_listen_ = "localhost:0"; }
};

TEST_F(ServerMetrics, CountWhatAWorkerDoes) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::Gradient wrong;
  wrong.mutable_full()->add_values(1.0);  // Of two.
  ASSERT_TRUE(Complete(Lease("s", "request-1"), 1.0, nullptr, &wrong).ok());
  v1::Study study;
  v1::GetStudyRequest get;
  get.set_name("projects/default/studies/missing");
  EXPECT_FALSE(studies_->GetStudy(Context().get(), get, &study).ok());

  const std::string text = Scrape(server_->metrics_address());
  EXPECT_THAT(text, HasSubstr("200 OK"));
  EXPECT_THAT(text, HasSubstr("luthier_ready 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_total{code=\"OK\",method=\"WorkerService/Complete\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_total{code=\"NOT_FOUND\",method=\"StudyService/GetStudy\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_rpc_seconds_count{method=\"WorkerService/Suggest\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_trial_events_total{event=\"completed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("luthier_search_compute_seconds_count{algorithm=\"random\"}"));
  EXPECT_THAT(text, HasSubstr("luthier_gradients_rejected_total{reason=\"invalid\"} 1\n"));
}

TEST_F(ServerMetrics, TheServerStopsWhileSomebodyScrapes) {
  const std::string address = server_->metrics_address();
  EXPECT_THAT(Scrape(address), HasSubstr("luthier_ready 1\n"));
  server_->Stop();
}

TEST(MetricsAddress, BeyondLoopbackMustBeAskedFor) {
  server::ServerOptions options;
  options.listen = "";
  options.metrics_listen = "0.0.0.0:0";
  const auto refused = server::Server::Start(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::AllOf(::testing::StartsWith("metrics-listen"), HasSubstr("--accept-plaintext")));
  options.accept_plaintext = true;
  EXPECT_TRUE(server::Server::Start(options).ok());
}

TEST(MetricsAddress, IsCheckedAtStart) {
  for (const char* address : {"example.org:1", "unix:/tmp/metrics.sock", "7791", "localhost", "127.0.0.1:70000"}) {
    server::ServerOptions options;
    options.listen = "";
    options.metrics_listen = address;
    const auto server = server::Server::Start(options);
    ASSERT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()), ::testing::StartsWith("metrics-listen")) << address;
  }
}

}  // namespace
}  // namespace luthier::service::testing
