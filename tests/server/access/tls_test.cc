#include "server/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
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

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

  // Until it can call.
  void WaitFor(const wire::ChannelSecurity& security) {
    absl::Status status = Call(security);
    const absl::Time latest = absl::Now() + absl::Seconds(30);
    while (!status.ok() && absl::Now() < latest) status = Call(security);
    EXPECT_TRUE(status.ok()) << status;
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

// New connections never fail while an operator installs a new pair, in either order, however long that takes.
TEST_F(TlsTest, BetweenANewKeyAndItsCertificateTheFormerPairServes) {
  ASSERT_TRUE(cli::IssueServer(other_, {"localhost", "127.0.0.1"}).ok());
  const auto put = [&](const char* file) {
    fs::copy_file(other_ + file, pki_ + file, fs::copy_options::overwrite_existing);
  };
  for (const auto& [first, second] :
       {std::pair("/server.key", "/server.pem"), std::pair("/server.pem", "/server.key")}) {
    ASSERT_TRUE(cli::IssueServer(pki_, {"localhost", "127.0.0.1"}).ok());
    WaitFor(Trusting(pki_));
    put(first);
    const absl::Time end = absl::Now() + absl::Milliseconds(2500);
    for (int i = 0; absl::Now() < end; ++i) EXPECT_TRUE(Call(Trusting(pki_)).ok()) << first << " " << i;
    put(second);
    WaitFor(Trusting(other_));
  }
}

// Follows the files by the hand of the test alone, with a clock of its own.
class TlsKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& pki : {pki_, other_}) {
      ASSERT_TRUE(cli::MakeAuthority(pki).ok());
      ASSERT_TRUE(cli::IssueServer(pki, {"localhost"}).ok());
    }
    clock_.JumpWall(absl::Now() - clock_.Wall());
    base::SetLogLevel(base::LogLevel::kInfo);
  }
  void TearDown() override { base::SetLogLevel(base::LogLevel::kError); }

  // What the log says meanwhile.
  template <typename F>
  std::string Said(F&& act) {
    ::testing::internal::CaptureStderr();
    act();
    return ::testing::internal::GetCapturedStderr();
  }
  void Open(bool client_ca = false) {
    files_of_ = {pki_ + "/server.pem", pki_ + "/server.key", client_ca ? pki_ + "/ca.pem" : ""};
    auto keeper = server::TlsKeeper::Open(files_of_, &clock_, /*look_every=*/absl::Hours(1));
    ASSERT_TRUE(keeper.ok()) << keeper.status();
    keeper_ = *std::move(keeper);
  }
  std::string Tick() {
    return Said([&] { keeper_->Tick(); });
  }
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void Write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

  const luthier::testing::TemporaryDirectory files_;
  const std::string pki_ = files_.path() + "/pki", other_ = files_.path() + "/other";
  base::ManualClock clock_;
  server::TlsFiles files_of_;
  std::unique_ptr<server::TlsKeeper> keeper_;
};

TEST_F(TlsKeeperTest, FilesThatDoNotFitAreNotUsedAndLoggedOnce) {
  Open();
  const std::string cert = Read(pki_ + "/server.pem"), key = Read(pki_ + "/server.key");
  const std::string cut = cert.substr(0, cert.size() / 2);
  const std::string leaf = cert.substr(0, cert.find("-----END CERTIFICATE-----") + 26);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "has no certificate in PEM"},
      {cut, "certificate"},
      {cert + cut, "is cut or damaged"},
      {Read(other_ + "/server.pem"), "is not the private key of the certificate"},
      {leaf + Read(other_ + "/ca.pem"), "its certificate 2 did not sign its certificate 1"},
  };
  for (const auto& [text, reason] : bad) {
    Write(pki_ + "/server.pem", text);
    const std::string said = Tick();
    EXPECT_THAT(said, HasSubstr("certificate_not_taken")) << reason;
    EXPECT_THAT(said, HasSubstr(pki_ + "/server.pem")) << said;
    EXPECT_THAT(said, HasSubstr(reason));
    EXPECT_EQ(Tick(), "") << reason;
    EXPECT_EQ(keeper_->InUse().cert, cert);
    EXPECT_EQ(keeper_->InUse().key, key);
    fs::remove(pki_ + "/server.pem");
    EXPECT_THAT(Tick(), HasSubstr("No such file")) << reason;
  }
  Write(pki_ + "/server.pem", Read(other_ + "/server.pem"));
  Write(pki_ + "/server.key", Read(other_ + "/server.key"));
  EXPECT_THAT(Tick(), HasSubstr("certificate_taken"));
  EXPECT_EQ(keeper_->InUse().key, Read(other_ + "/server.key"));
}

TEST_F(TlsKeeperTest, ACertificateThatEndedOrIsYetToBeginReplacesNoneThatHolds) {
  Open();
  const std::string before = keeper_->InUse().cert;
  Write(pki_ + "/server.key", Read(other_ + "/server.key"));
  Write(pki_ + "/server.pem", Read(other_ + "/server.pem"));
  clock_.JumpWall(-absl::Hours(24));
  EXPECT_THAT(Tick(), HasSubstr("the certificate holds from "));
  EXPECT_EQ(keeper_->InUse().cert, before);
  clock_.JumpWall(absl::Hours(400 * 24));
  EXPECT_THAT(Tick(), HasSubstr("the certificate ended on "));
  EXPECT_EQ(keeper_->InUse().cert, before);
  clock_.JumpWall(-absl::Hours(398 * 24));  // No file has changed since.
  EXPECT_THAT(Tick(), HasSubstr("certificate_taken"));
  EXPECT_EQ(keeper_->InUse().cert, Read(other_ + "/server.pem"));
}

TEST_F(TlsKeeperTest, TheEndIsLoggedDailyFromFourteenDaysBefore) {
  EXPECT_EQ(Said([&] { Open(); }), "");
  EXPECT_NEAR(keeper_->DaysLeft().at("server"), 365, 1);
  EXPECT_EQ(keeper_->DaysLeft().count("client_ca"), 0u);
  const auto advance = [&](int days) { clock_.Advance(absl::Hours(24 * days)); };
  advance(350);
  EXPECT_EQ(Tick(), "");
  advance(1);
  EXPECT_THAT(Tick(), AllOf(HasSubstr("certificate_ends"), HasSubstr("days=13"), HasSubstr(pki_ + "/server.pem")));
  clock_.Advance(absl::Hours(23));
  EXPECT_EQ(Tick(), "");
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Tick(), HasSubstr("days=12"));
  advance(13);
  EXPECT_THAT(Tick(), HasSubstr("certificate_ended"));
  EXPECT_LT(keeper_->DaysLeft().at("server"), 0);
  EXPECT_THAT(Said([&] { Open(); }), AllOf(HasSubstr(" error "), HasSubstr("certificate_ended")));
  EXPECT_THAT(Said([&] { Open(); }), HasSubstr("certificate_ended"));
}

TEST_F(TlsKeeperTest, AFutureCertificateIsLoggedAtTheStart) {
  clock_.JumpWall(-absl::Hours(48));
  EXPECT_THAT(Said([&] { Open(); }), HasSubstr("certificate_not_yet"));
}

TEST_F(TlsKeeperTest, TheNextClientAuthorityToEndCounts) {
  Open(/*client_ca=*/true);
  EXPECT_NEAR(keeper_->DaysLeft().at("client_ca"), 3653, 1);
  // One that ends in a year beside those of ten.
  Write(pki_ + "/ca.pem", Read(pki_ + "/ca.pem") + Read(other_ + "/server.pem"));
  EXPECT_THAT(Tick(), HasSubstr("certificate_taken"));
  EXPECT_NEAR(keeper_->DaysLeft().at("client_ca"), 365, 1);
  clock_.Advance(absl::Hours(24 * 360));
  EXPECT_THAT(Tick(), HasSubstr(pki_ + "/ca.pem"));
  clock_.Advance(absl::Hours(24 * 10));
  Tick();
  EXPECT_NEAR(keeper_->DaysLeft().at("client_ca"), 3653 - 370, 1);
  const std::string good = Read(pki_ + "/ca.pem");
  Write(pki_ + "/ca.pem", "nothing");
  EXPECT_THAT(Tick(), AllOf(HasSubstr("certificate_not_taken"), HasSubstr("tls-client-ca")));
  EXPECT_EQ(keeper_->InUse().client_ca, good);
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
