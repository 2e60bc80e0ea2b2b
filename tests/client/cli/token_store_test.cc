#include "client/cli/token_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::cli {
namespace {

class TokenStoreTest : public ::testing::Test {
 protected:
  std::string Find(const std::string& server, const std::string& study, int64_t trial) const {
    const auto found = store_.Find(server, study, trial);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->value_or("none") : "error";
  }

  const testing::TemporaryDirectory directory_;
  const TokenStore store_{directory_.path() + "/a/b/luthier"};
};

TEST_F(TokenStoreTest, KeepsTokensByServerStudyAndTrial) {
  EXPECT_EQ(Find("s:1", "x", 1), "none");
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, std::string("\0\xFFtoken", 7)}, {"x", 2, "two"}}).ok());
  ASSERT_TRUE(store_.Put("s:2", {{"x", 1, "other"}}).ok());
  EXPECT_EQ(Find("s:1", "x", 1), std::string("\0\xFFtoken", 7));
  EXPECT_EQ(Find("s:1", "x", 2), "two");
  EXPECT_EQ(Find("s:2", "x", 1), "other");
  EXPECT_EQ(Find("s:2", "x", 2), "none");
  EXPECT_EQ(Find("s:1", "y", 1), "none");
}

TEST_F(TokenStoreTest, NewestTokenOfATrialCounts) {
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, "old"}}).ok());
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, "new"}}).ok());
  EXPECT_EQ(Find("s:1", "x", 1), "new");
}

TEST_F(TokenStoreTest, TheFileIsForItsOwnerAlone) {
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, "t"}}).ok());
  struct stat info;
  ASSERT_EQ(stat(store_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(stat((directory_.path() + "/a/b/luthier").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(TokenStoreTest, DamagedFileCountsAsEmptyAndIsReplaced) {
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, "t"}}).ok());
  for (const char* text : {"", "{", "[1, null, {\"server\": 3}, {\"server\": \"s:1\", \"study\": \"x\", \"trial\": 1}]",
                           "[{\"server\": \"s:1\", \"study\": \"x\", \"trial\": 1, \"token\": 7}]"}) {
    std::ofstream(store_.path()) << text;
    EXPECT_EQ(Find("s:1", "x", 1), "none") << text;
  }
  ASSERT_TRUE(store_.Put("s:1", {{"x", 1, "again"}}).ok());
  EXPECT_EQ(Find("s:1", "x", 1), "again");
}

TEST_F(TokenStoreTest, OldestTokensGoFirst) {
  std::vector<client::LeaseRef> many;
  for (int i = 1; i <= 10'000; ++i) many.push_back({"x", i, "t"});
  ASSERT_TRUE(store_.Put("s:1", many).ok());
  ASSERT_TRUE(store_.Put("s:1", {{"y", 1, "t"}}).ok());
  EXPECT_EQ(Find("s:1", "x", 1), "none");
  EXPECT_EQ(Find("s:1", "x", 2), "t");
  EXPECT_EQ(Find("s:1", "y", 1), "t");
}

TEST_F(TokenStoreTest, SeveralProcessesMayWriteAtOnce) {
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(store_.Put("s:1", {{absl::StrCat("x", w), i, "t"}}).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (int w = 0; w < 4; ++w) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Find("s:1", absl::StrCat("x", w), i), "t");
  }
}

}  // namespace
}  // namespace luthier::cli
