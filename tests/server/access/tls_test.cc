#include <grpcpp/security/credentials.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "client/cli/pki.h"
#include "lib/base/error.h"
#include "server/listener_check.h"
#include "tests/server/access/access_fixture.h"

namespace luthier::access::testing {
namespace {

class TlsTest : public AccessTest {
 protected:
  void SetUp() override {
    for (const std::string& pki : {pki_, other_}) {
      ASSERT_TRUE(cli::MakeAuthority(pki).ok());
      ASSERT_TRUE(cli::IssueServer(pki, {"localhost", "127.0.0.1"}).ok());
      ASSERT_TRUE(cli::IssueClient(pki, "gpu1").ok());
    }
    AccessTest::SetUp();
  }
  void Configure(server::ServerOptions* options) override {
    options->tls.cert = pki_ + "/server.pem";
    options->tls.key = pki_ + "/server.key";
    if (mutual_) options->tls.client_ca = pki_ + "/ca.pem";
  }

  absl::Status Call(const wire::ChannelSecurity& security) {
    auto channel = wire::CreateChannel(server_->address(), security);
    if (!channel.ok()) return channel.status();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    v1::ServerInfo info;
    const grpc::Status status =
        v1::WorkerService::NewStub(*channel)->GetServerInfo(&context, v1::GetServerInfoRequest(), &info);
    EXPECT_FALSE(info.plaintext());
    return wire::FromGrpc(status);
  }
  wire::ChannelSecurity Trusting(const std::string& pki) {
    wire::ChannelSecurity security = WithToken(tokens_["user"]);
    security.tls_ca = pki + "/ca.pem";
    return security;
  }

  const luthier::testing::TemporaryDirectory files_;
  const std::string pki_ = files_.path() + "/pki", other_ = files_.path() + "/other";
  bool mutual_ = false;
};

TEST_F(TlsTest, OnlyWithTheRightAuthority) {
  EXPECT_TRUE(Call(Trusting(pki_)).ok()) << Call(Trusting(pki_));
  EXPECT_EQ(Call(Trusting(other_)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(WithToken(tokens_["user"])).code(), absl::StatusCode::kUnavailable);  // In plain text.
  wire::ChannelSecurity named = Trusting(pki_);
  named.tls_server_name = "elsewhere.example";
  EXPECT_EQ(Call(named).code(), absl::StatusCode::kUnavailable);
  wire::ChannelSecurity missing = Trusting(pki_);
  missing.tls_ca = "/nosuch";
  EXPECT_EQ(Call(missing).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(server::Answers(server::ParseListenAddress(server_->address()).value(), absl::Seconds(20), /*tls=*/true));
}

class MutualTest : public TlsTest {
 protected:
  MutualTest() { mutual_ = true; }
};

TEST_F(MutualTest, ClientsNeedACertificate) {
  EXPECT_EQ(Call(Trusting(pki_)).code(), absl::StatusCode::kUnavailable);
  wire::ChannelSecurity mine = Trusting(pki_);
  mine.tls_cert = pki_ + "/gpu1.pem";
  mine.tls_key = pki_ + "/gpu1.key";
  EXPECT_TRUE(Call(mine).ok()) << Call(mine);
  mine.tls_cert = other_ + "/gpu1.pem";
  mine.tls_key = other_ + "/gpu1.key";
  EXPECT_EQ(Call(mine).code(), absl::StatusCode::kUnavailable);
  mine.tls_key = "";
  EXPECT_EQ(Call(mine).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TlsTest, CertificatesAreReplacedUnderLoad) {
  const auto old = wire::CreateChannel(server_->address(), Trusting(pki_)).value();
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0}, failed{0};
  std::thread load([&] {
    const auto stub = v1::WorkerService::NewStub(old);
    while (!stop) {
      v1::ServerInfo info;
      ++calls;
      if (!stub->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info).ok()) ++failed;
    }
  });
  // The other authority's pair takes the place of this one's, as an operator would do it.
  for (const char* file : {"/server.key", "/server.pem"}) {
    ASSERT_EQ(rename((other_ + file).c_str(), (pki_ + file).c_str()), 0);
  }
  absl::Status status = absl::UnknownError("");
  const absl::Time latest = absl::Now() + absl::Seconds(30);
  while (!status.ok() && absl::Now() < latest) status = Call(Trusting(other_));
  stop = true;
  load.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(calls, 0);
  EXPECT_EQ(failed, 0);  // What is connected goes on.
}

TEST(TlsFiles, AreCheckedAtTheStart) {
  const luthier::testing::TemporaryDirectory files;
  const std::string a = files.path() + "/a", b = files.path() + "/b";
  for (const std::string& pki : {a, b}) {
    ASSERT_TRUE(cli::MakeAuthority(pki).ok());
    ASSERT_TRUE(cli::IssueServer(pki, {"localhost"}).ok());
  }
  EXPECT_FALSE(cli::MakeAuthority(a).ok());
  EXPECT_FALSE(cli::IssueServer(a, {"a,b"}).ok());
  EXPECT_FALSE(cli::IssueClient(a, "server").ok());
  EXPECT_FALSE(cli::IssueServer(files.path(), {"localhost"}).ok());
  const auto start = [&](const std::string& cert, const std::string& key) {
    server::ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tls.cert = cert;
    options.tls.key = key;
    return server::Server::Start(options).status();
  };
  EXPECT_TRUE(start(a + "/server.pem", a + "/server.key").ok());
  for (const auto& [cert, key] :
       std::vector<std::pair<std::string, std::string>>{{a + "/server.pem", ""},
                                                        {"", a + "/server.key"},
                                                        {a + "/server.pem", b + "/server.key"},
                                                        {a + "/server.key", a + "/server.key"},
                                                        {"/nosuch", a + "/server.key"}}) {
    EXPECT_EQ(base::GetReason(start(cert, key)), base::reason::kBadField) << cert << " " << key;
  }
  chmod((a + "/server.key").c_str(), 0644);
  EXPECT_EQ(base::GetReason(start(a + "/server.pem", a + "/server.key")), base::reason::kBadField);
}

}  // namespace
}  // namespace luthier::access::testing
