// Metrics of a whole server, as Prometheus scrapes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/metrics/scrape.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using metrics::testing::Scrape;
using ::testing::HasSubstr;

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

TEST(ServerExposure, IsAMetric) {
  const auto insecure = [](const std::string& listen, access::Auth auth, const std::string& metrics_listen) {
    server::ServerOptions options;
    options.listen = listen;
    options.auth = auth;
    options.accept_plaintext = true;
    options.metrics_listen = metrics_listen;
    const auto server = server::Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? Scrape((*server)->metrics_address()) : "";
  };
  EXPECT_THAT(insecure("127.0.0.1:0", access::Auth::kOff, "127.0.0.1:0"), HasSubstr("luthier_insecure 0\n"));
  EXPECT_THAT(insecure("0.0.0.0:0", access::Auth::kOff, "127.0.0.1:0"), HasSubstr("luthier_insecure 1\n"));
  EXPECT_THAT(insecure("127.0.0.1:0", access::Auth::kOff, "0.0.0.0:0"), HasSubstr("luthier_insecure 1\n"));
  EXPECT_THAT(insecure("", access::Auth::kAuto, "127.0.0.1:0"), HasSubstr("luthier_insecure 0\n"));
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
