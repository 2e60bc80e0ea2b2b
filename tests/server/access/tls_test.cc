#include <grpcpp/security/credentials.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "client/cli/pki.h"
#include "lib/base/error.h"
#include "lib/wire/certificate.h"
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

TEST_F(MutualTest, TokensAreBoundToACertificate) {
  ASSERT_TRUE(cli::IssueClient(pki_, "gpu2").ok());
  const auto fingerprint = [&](const std::string& name) {
    std::stringstream pem;
    pem << std::ifstream(pki_ + "/" + name + ".pem").rdbuf();
    return wire::CertificateSha256(pem.str()).value();
  };
  const auto with = [&](const std::string& name, const std::string& token) {
    wire::ChannelSecurity security = Trusting(pki_);
    security.tls_cert = pki_ + "/" + name + ".pem";
    security.tls_key = pki_ + "/" + name + ".key";
    security.token = token;
    return security;
  };
  const auto admin = v1::AdminService::NewStub(Socket());
  v1::CreateTokenRequest create;
  create.set_name("gpu1");
  create.set_project("vision");
  create.add_roles(v1::WORKER);
  create.set_certificate_sha256("AB:CD");
  v1::CreateTokenResponse made;
  EXPECT_EQ(base::GetReason(wire::FromGrpc(admin->CreateToken(Context().get(), create, &made))),
            base::reason::kBadField);
  create.set_certificate_sha256(absl::AsciiStrToUpper(fingerprint("gpu1")));
  const grpc::Status created = admin->CreateToken(Context().get(), create, &made);
  ASSERT_TRUE(created.ok()) << created.error_message();
  EXPECT_EQ(made.token().certificate_sha256(), fingerprint("gpu1"));
  const std::string bound = made.secret();
  EXPECT_TRUE(Call(with("gpu1", bound)).ok()) << Call(with("gpu1", bound));
  // Of the same authority, but another's: as though nobody knew the token.
  EXPECT_EQ(base::GetReason(Call(with("gpu2", bound))), base::reason::kBadToken);
  EXPECT_TRUE(Call(with("gpu2", tokens_["user"])).ok());  // It is not bound.
  // A new secret is bound, too, and all of it outlives a restart.
  v1::RotateTokenRequest rotate;
  rotate.set_id(made.token().id());
  ASSERT_TRUE(admin->RotateToken(Context().get(), rotate, &made).ok());
  server_.reset();
  Start();
  EXPECT_TRUE(Call(with("gpu1", made.secret())).ok());
  EXPECT_EQ(base::GetReason(Call(with("gpu2", made.secret()))), base::reason::kBadToken);
  EXPECT_EQ(base::GetReason(Call(with("gpu1", bound))), base::reason::kBadToken);
}

TEST_F(TlsTest, ABoundTokenIsOfNoUseWhereNoCertificateIsAskedFor) {
  server_.reset();
  auto store = AccessStore::Open(dir_.path());
  ASSERT_TRUE(store.ok());
  Put(**store, "bound", {Role::kUser}, "vision", [](TokenRecord* token) { token->certificate = std::string(64, 'a'); });
  store->reset();
  Start();
  wire::ChannelSecurity security = Trusting(pki_);
  security.token = tokens_["bound"];
  EXPECT_EQ(base::GetReason(Call(security)), base::reason::kBadToken);
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
