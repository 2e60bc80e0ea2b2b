#include "server/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "server/server.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::string& text) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
  return address.ok() ? "accepted" : std::string(address.status().message());
}

TEST(ListenAddress, EveryFormIsRead) {
  const ListenAddress name = ParseListenAddress("localhost:7790").value();
  EXPECT_EQ(name.host, "localhost");
  EXPECT_EQ(name.port, 7790);
  EXPECT_EQ(name.Target(), "localhost:7790");
  EXPECT_EQ(ParseListenAddress("[::1]:0").value().Target(), "[::1]:0");
  EXPECT_EQ(ParseListenAddress("0.0.0.0:65535").value().port, 65535);
  EXPECT_EQ(ParseListenAddress("unix:a/b").value().path, "a/b");
  EXPECT_EQ(ParseListenAddress("unix:///a/b").value().Target(), "unix:/a/b");
  EXPECT_EQ(ParseListenAddress("unix:/My Drive, 100%\t#?/s").value().path, "/My Drive, 100%\t#?/s");
}

TEST(ListenAddress, OnlyThisMachineIsLoopback) {
  for (const char* text : {"localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:s"}) {
    EXPECT_TRUE(ParseListenAddress(text).value().loopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.org:1", "localhost.example.org:1"}) {
    EXPECT_FALSE(ParseListenAddress(text).value().loopback()) << text;
  }
}

TEST(ListenAddress, MistakesAreNamed) {
  for (const char* text : {"localhost:99999", "localhost:65536", "localhost:80x", "localhost:-1", "localhost:+1",
                           "localhost:", "localhost:4294967376"}) {
    EXPECT_THAT(Error(text), HasSubstr("that is not between 1 and 65535 (0: any free one)")) << text;
  }
  EXPECT_THAT(Error("bad"), HasSubstr("\"bad\" has no port; give host:port"));
  EXPECT_THAT(Error(":80"), HasSubstr("has no host"));
  EXPECT_THAT(Error("[::1:80"), HasSubstr("has no port"));
  EXPECT_THAT(Error("[]:80"), HasSubstr("has no host"));
  EXPECT_THAT(Error("::1:80"), HasSubstr("write [address]:port"));
  EXPECT_THAT(Error("http://localhost:80"), HasSubstr("is not an address"));
  EXPECT_THAT(Error("local host:80"), HasSubstr("contains spaces"));
  EXPECT_THAT(Error("unix:"), HasSubstr("names no socket"));
  EXPECT_THAT(Error("unix:" + std::string(108, 'x')),
              HasSubstr("107 bytes a socket's path may have; make a short link"));
  EXPECT_THAT(Error(""), HasSubstr("has no port"));
}

TEST(ListenAddress, LocalhostIsKnownOrTakenForTheLoopbackAddress) {
  ListenAddress address;
  address.host = "localhost";
  const ListenAddress known = WithKnownHost(address);
  EXPECT_TRUE(known.host == "localhost" || known.host == "127.0.0.1") << known.host;
  EXPECT_TRUE(CheckFree(known).ok());
  address.host = "nowhere.invalid";
  EXPECT_EQ(WithKnownHost(address).host, "nowhere.invalid");
}

class CheckFreeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { base::SetLogLevel(base::LogLevel::kOff); }

  absl::Status Start(const std::string& listen, const std::string& data) const {
    ServerOptions options;
    options.listen = listen;
    options.data_dir = Path(data);
    return Server::Start(options).status();
  }
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  const testing::TemporaryDirectory directory_;
};

TEST_F(CheckFreeTest, ATakenAddressIsRefusedBeforeAnyFileIsMade) {
  for (const std::string& listen : {std::string("localhost:0"), "unix:" + Path("socket")}) {
    ServerOptions options;
    options.listen = listen;
    auto first = Server::Start(options);
    ASSERT_TRUE(first.ok()) << first.status();
    const absl::Status second = Start((*first)->address(), "data");
    EXPECT_EQ(base::GetReason(second), "ADDRESS_IN_USE") << second;
    EXPECT_THAT(std::string(second.message()), HasSubstr("choose another address with --listen"));
    EXPECT_FALSE(std::filesystem::exists(Path("data")));
  }
}

TEST_F(CheckFreeTest, APlaceThatIsNotThereIsNamed) {
  const absl::Status folder = Start("unix:" + Path("none/socket"), "data");
  EXPECT_EQ(folder.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.message()), HasSubstr("there is no folder"));
  std::ofstream(Path("file")) << "precious";
  EXPECT_THAT(std::string(Start("unix:" + Path("file"), "data").message()), HasSubstr("a file that is no socket"));
  EXPECT_TRUE(std::filesystem::exists(Path("file")));
  EXPECT_FALSE(std::filesystem::exists(Path("data")));
}

// A folder that this user may not write to. Root may write to all of them, so it becomes somebody else for that time.
TEST_F(CheckFreeTest, AFolderThatIsNotOursIsNotCalledATakenAddress) {
  const std::string folder = Path("closed");
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder, static_cast<std::filesystem::perms>(0500));
  constexpr uid_t kNobody = 65534;
  const uid_t before = geteuid();
  if (before == 0) {
    std::filesystem::permissions(folder, static_cast<std::filesystem::perms>(0755));
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const absl::Status status = CheckFree(ParseListenAddress("unix:" + folder + "/socket").value());
  const absl::Status listening = Start("unix:" + folder + "/socket", "data");
  if (before == 0) {
    ASSERT_EQ(seteuid(before), 0);
  }
  for (const absl::Status& refused : {status, listening}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("Permission denied; luthierd's user must be allowed to write"));
    EXPECT_EQ(base::GetReason(refused), "");
  }
  EXPECT_FALSE(std::filesystem::exists(Path("data")));
}

TEST_F(CheckFreeTest, ASocketInsideTheDataDirectoryNeedsNoFolder) {
  EXPECT_TRUE(Start("unix:" + Path("data") + "/socket", "data").ok());
}

}  // namespace
}  // namespace luthier::server
