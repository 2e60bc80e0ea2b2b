#include "lib/wire/channel.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/log.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::wire {
namespace {

TEST(Channel, AddressesBecomeTargets) {
  EXPECT_EQ(*ServerTarget("localhost:7790"), "dns:///localhost:7790");
  EXPECT_EQ(*ServerTarget("10.0.0.1:1"), "dns:///10.0.0.1:1");
  EXPECT_EQ(*ServerTarget("[::1]:65535"), "dns:///[::1]:65535");
  EXPECT_EQ(*ServerTarget("unix:/run/luthier.sock"), "unix:/run/luthier.sock");
  EXPECT_EQ(*ServerTarget("unix:relative"), "unix:relative");
  EXPECT_EQ(*ServerTarget("unix:///run/luthier.sock"), "unix:/run/luthier.sock");
}

TEST(Channel, FileNamesAreEscapedInTargets) {
  EXPECT_EQ(*ServerTarget("unix:/My Drive #1/100% \xC3\xBC?\t\n/socket"),
            "unix:/My%20Drive%20%231/100%25%20%c3%bc%3f%09%0a/socket");
}

TEST(Channel, PathsThatGrpcCannotHaveGoByWayOfTheirFolder) {
  const testing::TemporaryDirectory directory;
  for (const std::string& name : {std::string("a,b"), std::string(150, 'd')}) {
    const std::string folder = directory.path() + "/" + name;
    EXPECT_THAT(std::string(ServerTarget("unix:" + folder + "/socket").status().message()),
                ::testing::HasSubstr("can't be reached: No such file or directory"));
    std::filesystem::create_directory(folder);
    const std::string target = *ServerTarget("unix:" + folder + "/socket");
    EXPECT_THAT(target, ::testing::MatchesRegex("unix:/proc/self/fd/[0-9]+/socket"));
    const std::string near = target.substr(5, target.rfind('/') - 5);
    EXPECT_TRUE(std::filesystem::equivalent(near, folder)) << near;
  }
  EXPECT_THAT(std::string(ServerTarget("unix:/tmp/a,b").status().message()), ::testing::HasSubstr("own name"));
}

TEST(Channel, OtherAddressesAreRefusedWithAHint) {
  for (const std::string& bad :
       {std::string(""), std::string("localhost"), std::string(":7790"), std::string("host:"), std::string("host:0"),
        std::string("host:65536"), std::string("host:x"), std::string("::1:7790"), std::string("[::1]"),
        std::string("http://host:1"), std::string("host:1/path"), std::string("a b:1"), std::string("unix:"),
        "unix:/tmp/" + std::string(200, 'x')}) {
    const absl::StatusOr<std::string> target = ServerTarget(bad);
    ASSERT_FALSE(target.ok()) << bad;
    EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(std::string(ServerTarget("localhost").status().message()),
            "server: \"localhost\" has no port; give host:port, e.g. localhost:7790");
  EXPECT_FALSE(CreateChannel("localhost").ok());
  EXPECT_TRUE(CreateChannel("localhost:1").ok());
}

TEST(Channel, ATokenGoesToOtherMachinesInPlainTextOnlyWhenTold) {
  ChannelSecurity security;
  security.token = "lut_0123456789abcdef_secret";
  for (const char* own : {"localhost:7790", "LocalHost:1", "127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "unix:socket"}) {
    EXPECT_TRUE(CheckServer(own, security).ok()) << CheckServer(own, security);
  }
  // Some of these may be this machine, too; whoever knows it says so.
  const std::vector<std::string> others = {"db1.example:7790",    "10.0.0.1:1",
                                           "[fe80::1]:1",         "[::]:1",
                                           "0.0.0.0:1",           "127.1:1",
                                           "2130706433:1",        "localhost.:1",
                                           "localhost.evil.io:1", "127.0.0.1.nip.io:1",
                                           "localhost%2ex:1",     "x@localhost:1",
                                           "[::1%25lo]:1",        "0127.0.0.1:1",
                                           "128.0.0.1:1"};
  for (const std::string& other : others) {
    const absl::Status status = CheckServer(other, security);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    EXPECT_THAT(status.message(),
                ::testing::AllOf(::testing::HasSubstr("server: \"" + other), ::testing::HasSubstr("--accept-plaintext"),
                                 ::testing::HasSubstr("--tls-ca")));
    EXPECT_FALSE(CreateChannel(other, security).ok());
    EXPECT_TRUE(CheckServer(other, {}).ok());  // Without a token nothing is given away.
    ChannelSecurity more = security;
    more.accept_plaintext = true;
    EXPECT_TRUE(CheckServer(other, more).ok());
    more = security;
    more.tls_ca = "system";
    EXPECT_TRUE(CheckServer(other, more).ok());
  }
}

TEST(Channel, PlainTextIsAcceptedByAVariableToo) {
  for (const auto& [value, accepted] : {std::pair("1", true), std::pair("TRUE", true), std::pair("0", false),
                                        std::pair("no", false), std::pair("", false)}) {
    setenv("LUTHIER_ACCEPT_PLAINTEXT", value, 1);
    EXPECT_EQ(SecurityFrom({}, "")->accept_plaintext, accepted) << value;
  }
  setenv("LUTHIER_ACCEPT_PLAINTEXT", "maybe", 1);
  EXPECT_EQ(std::string(SecurityFrom({}, "").status().message()),
            "LUTHIER_ACCEPT_PLAINTEXT: \"maybe\" is neither 1 nor 0");
  unsetenv("LUTHIER_ACCEPT_PLAINTEXT");
}

// Each request that is refused may be one: strangers must not fill the disk.
TEST(GrpcLog, LogsOneErrorPerSourceLineAndMinute) {
  base::SetLogLevel(base::LogLevel::kInfo);
  grpc_init();  // It writes nothing before.
  PrepareGrpc();
  ::testing::internal::CaptureStderr();
  for (const char* message : {"first", "second", "third"}) gpr_log(GPR_ERROR, "%s refused", message);
  gpr_log(GPR_ERROR, "another line");
  gpr_log(GPR_INFO, "no error");
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(written.find(" warning grpc message=\"first refused\" others_since=0\n"), std::string::npos) << written;
  EXPECT_EQ(written.find("second"), std::string::npos);
  EXPECT_EQ(written.find("third"), std::string::npos);
  EXPECT_NE(written.find("another line"), std::string::npos);
  EXPECT_EQ(written.find("no error"), std::string::npos);
  grpc_shutdown();
}

}  // namespace
}  // namespace luthier::wire
