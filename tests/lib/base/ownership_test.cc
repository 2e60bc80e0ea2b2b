#include "lib/base/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/testing/temporary_directory.h"

namespace luthier::base {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kOther = 65534;

class OwnershipTest : public ::testing::Test {
 protected:
  OwnershipTest() {
    fs::create_directory(directory_.path() + "/data");
    chmod((directory_.path() + "/data").c_str(), 0700);
    directory_.Write("data/socket", "");
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  absl::Status Check(const std::string& name) const { return CheckOwnership(Path(name), geteuid()); }
  std::string Complaint(const std::string& name) const {
    const absl::Status status = Check(name);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << name << ": " << status;
    return std::string(status.message());
  }

  const testing::TemporaryDirectory directory_;
};

TEST_F(OwnershipTest, OwnFilesPass) {
  EXPECT_TRUE(Check("data/socket").ok()) << Check("data/socket");
  EXPECT_TRUE(Check("data").ok()) << Check("data");
  EXPECT_TRUE(Check("./data/../data//socket").ok());
  EXPECT_TRUE(CheckOwnership("/", geteuid()).ok());
  EXPECT_TRUE(CheckOwnership("/etc/passwd", kOther).ok());  // Of root.
}

TEST_F(OwnershipTest, MissingFilesAreNotFound) {
  ASSERT_EQ(chmod(Path("data").c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsNotFound(Check("data/nothing")));
  EXPECT_TRUE(absl::IsNotFound(Check("data/socket/below")));
  EXPECT_TRUE(absl::IsNotFound(Check("nothing/at/all")));
}

TEST_F(OwnershipTest, AFolderThatOthersWriteToIsRefused) {
  ASSERT_EQ(chmod(Path("data").c_str(), 0777), 0);
  EXPECT_THAT(Complaint("data/socket"), HasSubstr("/data\" can be written to by everybody"));
  EXPECT_THAT(Complaint("data"), HasSubstr("everybody"));
  ASSERT_EQ(chmod(Path("data").c_str(), 01777), 0);  // Nobody replaces what is ours there, as in /tmp.
  EXPECT_TRUE(Check("data/socket").ok());
  EXPECT_THAT(Complaint("data"), HasSubstr("everybody"));  // But anybody adds to it.
  ASSERT_EQ(chmod(Path("data").c_str(), 0755), 0);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_THAT(Complaint("data/socket"), HasSubstr("everybody"));  // Or another "data".
  EXPECT_TRUE(fs::exists(Path("data/socket")));
}

TEST_F(OwnershipTest, LinksAreFollowed) {
  fs::create_directory_symlink("data", Path("link"));
  EXPECT_TRUE(Check("link/socket").ok()) << Check("link/socket");
  EXPECT_TRUE(Check("link").ok());
  fs::create_directory(Path("open"));
  chmod(Path("open").c_str(), 0777);
  directory_.Write("open/socket", "");
  fs::create_directory_symlink(Path("open"), Path("away"));
  EXPECT_THAT(Complaint("away/socket"), HasSubstr("/open\" can be written to by everybody"));
  fs::create_symlink("round", Path("round"));
  EXPECT_FALSE(Check("round").ok());
}

TEST_F(OwnershipTest, TheCurrentFolderMayBeTrusted) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_.path());
  chmod(".", 0777);
  const absl::Status checked = CheckOwnership("data/socket", geteuid());
  const absl::Status trusted = CheckOwnership("data/socket", geteuid(), CurrentFolder::kTrusted);
  chmod("data", 0777);
  const absl::Status open = CheckOwnership("data", geteuid(), CurrentFolder::kTrusted);
  fs::current_path(before);
  EXPECT_THAT(checked.message(), HasSubstr("the current folder can be written to by everybody"));
  EXPECT_TRUE(trusted.ok()) << trusted;
  EXPECT_THAT(open.message(), HasSubstr("\"data\" can be written to by everybody"));
}

TEST_F(OwnershipTest, FilesOfOthersAreRefusedByName) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to somebody else";
  ASSERT_EQ(chown(Path("data/socket").c_str(), kOther, kOther), 0);
  EXPECT_THAT(Complaint("data/socket"),
              AllOf(HasSubstr("/socket\" belongs to " + UserName(kOther)), HasSubstr(", not to root")));
  EXPECT_TRUE(CheckOwnership(Path("data"), kOther).ok());  // Of root.
  ASSERT_EQ(chown(Path("data/socket").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(Path("data").c_str(), kOther, kOther), 0);
  EXPECT_THAT(Complaint("data/socket"), HasSubstr("/data\" belongs to "));
  EXPECT_TRUE(CheckOwnership(Path("data/socket"), kOther).ok());
  // A link of another user leads elsewhere whenever he wants.
  ASSERT_EQ(chown(Path("data").c_str(), 0, 0), 0);
  fs::create_directory_symlink("data", Path("link"));
  ASSERT_EQ(lchown(Path("link").c_str(), kOther, kOther), 0);
  EXPECT_THAT(Complaint("link/socket"), HasSubstr("/link\" belongs to "));
}

}  // namespace
}  // namespace luthier::base
