#include "lib/wire/default_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "lib/base/descriptor.h"
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

TEST_F(DefaultServerTest, AnOwnSocketIsTaken) {
  Listen();
  const DefaultServer found = FindDefaultServer();
  EXPECT_EQ(found.address, "unix:luthier-data/socket");
  EXPECT_TRUE(found.trust.ok()) << found.trust;
  listener_ = base::Descriptor();  // Left behind: who uses it is told that nobody answers.
  EXPECT_EQ(FindDefaultServer().address, "unix:luthier-data/socket");
  EXPECT_TRUE(FindDefaultServer().trust.ok());
}

TEST_F(DefaultServerTest, OneThatOthersCanReplaceIsLeftAsideAloud) {
  Listen();
  chmod("luthier-data", 0777);
  const DefaultServer found = FindDefaultServer();
  EXPECT_THAT(found.trust.message(),
              AllOf(HasSubstr("\"luthier-data\" can be written to by everybody"),
                    HasSubstr("write --server unix:luthier-data/socket"), HasSubstr("--server localhost:7790")));
}

TEST_F(DefaultServerTest, OneOfAnotherUserIsLeftAsideAloud) {
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
