#include "lib/base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/testing/temporary_directory.h"

namespace luthier::base {
namespace {

using ::testing::HasSubstr;

TEST(ReadRegularFile, GivesAFileUpToItsBound) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/file";
  const std::string text(100'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(ReadRegularFile(path, text.size())->text, text);
  EXPECT_EQ(ReadRegularFile(path, text.size() - 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadRegularFile(path + "s", 1).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReadRegularFile, WaitsForNothingAndReadsNothingWithoutAnEnd) {
  const testing::TemporaryDirectory directory;
  const std::string pipe = directory.path() + "/pipe", zero = directory.path() + "/zero";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", zero);
  for (const std::string& path : {pipe, zero, directory.path()}) {
    const absl::Status status = ReadRegularFile(path, 1 << 20).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path)) << path;
  }
}

}  // namespace
}  // namespace luthier::base
