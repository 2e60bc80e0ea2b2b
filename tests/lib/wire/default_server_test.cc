#include "lib/wire/default_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "lib/base/descriptor.h"
#include "lib/wire/port_owner.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::wire {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSocket[] = "luthier-data/socket";

class DefaultServerTest : public ::testing::Test {
 protected:
  DefaultServerTest() : before_(fs::current_path()) { fs::current_path(directory_.path()); }
  ~DefaultServerTest() override { fs::current_path(before_); }

  // A socket of the coordinator's default directory, on which somebody listens.
  void Listen() {
    fs::create_directory("luthier-data");
    chmod("luthier-data", 0700);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, kSocket, sizeof(kSocket));
    listener_ = base::Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
  }

  const testing::TemporaryDirectory directory_;
  const fs::path before_;
  base::Descriptor listener_;
};

TEST_F(DefaultServerTest, WithoutASocketItIsThePortOfThisMachine) {
  EXPECT_EQ(FindDefaultServer().address, "localhost:7790");
  directory_.Write(kSocket, "no socket");
  EXPECT_EQ(FindDefaultServer().address, "localhost:7790");
  EXPECT_TRUE(FindDefaultServer().trust.ok());
}

// The kernel's table of a port, with a heading, a socket elsewhere and `lines`.
constexpr char kTable[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000    77        0 1 1\n";
std::string Socket(const std::string& local, const std::string& state, int uid) {
  return "   1: " + local + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000  " +
         std::to_string(uid) + "        0 1 1\n";
}

TEST_F(DefaultServerTest, APortBelongsToItsListenersAndConnections) {
  const std::string zeros(24, '0');
  const auto check = [&](const std::string& v4, const std::string& v6) {
    directory_.Write("net/tcp", kTable + v4);
    directory_.Write("net/tcp6", kTable + v6);
    return CheckPortOwner(7790, 1000, ".");
  };
  const std::string ours = Socket("0100007F:1E6E", "0A", 1000);
  EXPECT_TRUE(check(ours, "").ok());
  EXPECT_TRUE(check(Socket("00000000:1E6E", "0A", 0), "").ok());
  EXPECT_TRUE(check("", Socket(zeros + "01000000:1E6E", "0A", 1000)).ok());
  EXPECT_TRUE(check(ours + Socket("0101A8C0:1E6E", "0A", 77), "").ok());  // 192.168.1.1 is no loopback.
  EXPECT_TRUE(check(ours + Socket("0100007F:1E6F", "0A", 77), "").ok());
  EXPECT_TRUE(absl::IsUnavailable(check("", "")));
  EXPECT_TRUE(absl::IsUnavailable(check(Socket("0100007F:1E6E", "06", 0), "")));  // A connection that has ended.
  const std::string strangers[] = {"0100007F:1E6E", "00000000:1E6E", "0200007F:1E6E"};
  for (const std::string& local : strangers) {
    EXPECT_THAT(check(ours + Socket(local, "0A", 77), "").message(), HasSubstr("listens there")) << local;
  }
  EXPECT_FALSE(check(ours + Socket("0100007F:1E6E", "01", 77), "").ok());  // Whom a client may still be connected to.
  const std::string sixes[] = {zeros + "01000000", std::string(32, '0'), "0000000000000000FFFF00000100007F",
                               "0000000000000000FFFF000000000000"};
  for (const std::string& local : sixes) {
    EXPECT_THAT(check(ours, Socket(local + ":1E6E", "0A", 77)).message(), HasSubstr("listens there")) << local;
  }
}

TEST_F(DefaultServerTest, APortOfAnUnknownOwnerIsNotTaken) {
  EXPECT_THAT(CheckPortOwner(7790, 1000, ".").message(), HasSubstr("it can't be told who listens there"));
  directory_.Write("net/tcp", std::string(kTable) + "what is this\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckPortOwner(7790, 1000, ".")));
  directory_.Write("net/tcp", std::string(kTable) + Socket("0100007F:1E6E", "0A", 1000));
  EXPECT_TRUE(CheckPortOwner(7790, 1000, ".").ok());  // Without IPv6.
}

TEST_F(DefaultServerTest, AnOwnSocketIsTaken) {
  Listen();
  const DefaultServer found = FindDefaultServer();
  EXPECT_EQ(found.address, "unix:luthier-data/socket");
  EXPECT_TRUE(found.trust.ok()) << found.trust;
  listener_ = base::Descriptor();  // Left behind: who uses it is told that nobody answers.
  EXPECT_EQ(FindDefaultServer().address, "unix:luthier-data/socket");
  EXPECT_TRUE(FindDefaultServer().trust.ok());
}

TEST_F(DefaultServerTest, ASocketThatOthersCanReplaceIsSkippedAndLogged) {
  Listen();
  chmod("luthier-data", 0777);
  const DefaultServer found = FindDefaultServer();
  EXPECT_THAT(found.trust.message(),
              AllOf(HasSubstr("\"luthier-data\" can be written to by everybody"),
                    HasSubstr("write --server unix:luthier-data/socket"), HasSubstr("--server localhost:7790")));
}

TEST_F(DefaultServerTest, ASocketOfAnotherUserIsSkippedAndLogged) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  Listen();
  for (const char* path : {kSocket, "luthier-data"}) {
    ASSERT_EQ(chown(path, 65534, 65534), 0);
    EXPECT_THAT(FindDefaultServer().trust.message(), HasSubstr("belongs to ")) << path;
    ASSERT_EQ(chown(path, 0, 0), 0);
  }
  EXPECT_TRUE(FindDefaultServer().trust.ok());
}

}  // namespace
}  // namespace luthier::wire
