#include "lib/wire/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "lib/wire/channel.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::wire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret(43, 'S');
const std::string kToken = "lut_0123456789abcdef_" + kSecret;

class TokenFileTest : public ::testing::Test {
 protected:
  std::string File(const std::string& text, mode_t mode = 0600) const {
    const std::string path = directory_.Write("token", text);
    chmod(path.c_str(), mode);
    return path;
  }
  std::string Complaint(const std::string& text) const {
    const absl::StatusOr<std::string> token = ReadTokenFile(File(text));
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(token.status().message(), Not(HasSubstr("SSS")));
    return std::string(token.status().message());
  }

  const testing::TemporaryDirectory directory_;
};

TEST_F(TokenFileTest, SurroundingWhitespaceIsRemoved) {
  for (const char* end : {"", "\n", "\r\n", " \t\n", "\n\n\n"}) EXPECT_EQ(*ReadTokenFile(File(kToken + end)), kToken);
  EXPECT_EQ(*ReadTokenFile(File("\n  " + kToken)), kToken);
}

TEST_F(TokenFileTest, ErrorsDescribeTheFileWithoutQuotingIt) {
  EXPECT_THAT(Complaint(""), HasSubstr("is empty"));
  EXPECT_THAT(Complaint(" \r\n"), HasSubstr("is empty"));
  EXPECT_THAT(Complaint("password" + kSecret), HasSubstr("they begin with lut_"));
  EXPECT_THAT(Complaint("\xEF\xBB\xBF" + kToken), HasSubstr("byte order mark"));
  EXPECT_THAT(Complaint(std::string("\xFF\xFEl\0u\0", 6)), HasSubstr("byte order mark"));
  EXPECT_THAT(Complaint(kToken + "\n" + kToken), HasSubstr("more than one line"));
  EXPECT_THAT(Complaint(kToken + "ü"), HasSubstr("character 65 is a character beyond ASCII"));
  EXPECT_THAT(Complaint(kToken + "\xff"), HasSubstr("character 65 is a character beyond ASCII"));
  EXPECT_THAT(Complaint(kToken + std::string(1, '\0') + "x"), HasSubstr("character 65 is a zero byte"));
  EXPECT_THAT(Complaint("lut_\x01" + kSecret), HasSubstr("character 5 is a control character"));
  EXPECT_THAT(Complaint(kToken + "\r" + kToken), HasSubstr("a control character"));
  EXPECT_THAT(Complaint(kToken + " " + kToken), HasSubstr("character 65 is a blank"));
  EXPECT_THAT(Complaint("lut_" + std::string(1 << 20, 'S')), HasSubstr("larger than a token can be"));
}

TEST_F(TokenFileTest, PathsThatAreNotFilesAreRefused) {
  EXPECT_THAT(ReadTokenFile(directory_.path()).status().message(), HasSubstr("is a folder"));
  EXPECT_THAT(ReadTokenFile(directory_.path() + "/nothing").status().message(), HasSubstr("No such file"));
  EXPECT_THAT(ReadTokenFile("/dev/null").status().message(), HasSubstr("is empty"));
  EXPECT_THAT(ReadTokenFile("/dev/zero").status().message(), HasSubstr("larger than a token can be"));
  EXPECT_THAT(ReadTokenFile(kToken).status().message(),
              AllOf(HasSubstr("is a token where the name of a file"), Not(HasSubstr(kSecret))));
}

TEST_F(TokenFileTest, FilesThatOthersReadAreRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0610}) {
    EXPECT_THAT(ReadTokenFile(File(kToken, mode)).status().message(), HasSubstr("can be read by others; chmod 600 "));
  }
  EXPECT_TRUE(ReadTokenFile(File(kToken, 0400)).ok());
}

TEST_F(TokenFileTest, TheFirstLineOfAPipeCounts) {
  const std::string path = directory_.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  std::thread writer([&] { std::ofstream(path) << kToken << "\nmore"; });
  const absl::StatusOr<std::string> token = ReadTokenFile(path);
  writer.join();
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, kToken);
}

TEST_F(TokenFileTest, ErrorsNameTheOptionOrTheVariable) {
  const std::string bad = File("lut_\x01");
  EXPECT_THAT(SecurityFrom({}, bad).status().ToString(), HasSubstr(": token-file: \""));
  setenv("LUTHIER_TOKEN_FILE", bad.c_str(), 1);
  EXPECT_THAT(SecurityFrom({}, "").status().ToString(), HasSubstr(": LUTHIER_TOKEN_FILE: \""));
  unsetenv("LUTHIER_TOKEN_FILE");
  setenv("LUTHIER_TOKEN", (kToken + "\x01x").c_str(), 1);
  EXPECT_EQ(
      std::string(SecurityFrom({}, "").status().message()),
      "LUTHIER_TOKEN: holds no token: character 65 is a control character, which no token has; copy it once more");
  setenv("LUTHIER_TOKEN", (kToken + "\r\n").c_str(), 1);
  EXPECT_EQ(SecurityFrom({}, "")->token, kToken);
  unsetenv("LUTHIER_TOKEN");
}

// Whoever gives a channel its token by himself is told, too, before gRPC ends the program.
TEST_F(TokenFileTest, NoChannelTakesWhatAHeaderCannotCarry) {
  for (const std::string& bad : {kToken + "\n", kToken + "\xff", std::string("lut_\0x", 6)}) {
    ChannelSecurity security;
    security.token = bad;
    const absl::Status status = CreateChannel("localhost:1", security).status();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("token: holds no token: character"), Not(HasSubstr("SSS"))));
  }
}

}  // namespace
}  // namespace luthier::wire
