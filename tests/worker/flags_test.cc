#include "worker/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace luthier::worker {
namespace {

using ::testing::StartsWith;

Flags Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "luthier-worker");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int exit_code = -1;
  const std::optional<Flags> flags = ParseFlags(static_cast<int>(argv.size()), argv.data(), &exit_code);
  EXPECT_TRUE(flags.has_value()) << exit_code;
  return flags.value_or(Flags());
}

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() { setenv("XDG_STATE_HOME", "/state", 1); }
  ~FlagsTest() override { unsetenv("XDG_STATE_HOME"); }
};

TEST_F(FlagsTest, WithoutASpoolAllIsKeptInTheStateDirectory) {
  const Flags flags = Parse({"--server", "host:1"});
  EXPECT_THAT(flags.spool, StartsWith("/state/luthier/spool/"));
  EXPECT_THAT(flags.checkpoints, StartsWith("/state/luthier/checkpoints/"));
  EXPECT_EQ(flags.data_cache, "/state/luthier/data-cache");  // Of all servers: the data are the same.
}

TEST_F(FlagsTest, WhoNamesASpoolHasAllBesideIt) {
  const Flags flags = Parse({"--spool", "/srv/w1/spool"});
  EXPECT_EQ(flags.spool, "/srv/w1/spool");
  EXPECT_EQ(flags.checkpoints, "/srv/w1/checkpoints");
  EXPECT_EQ(flags.data_cache, "/srv/w1/data-cache");
  EXPECT_EQ(Parse({"--spool", "here"}).data_cache, "data-cache");
}

TEST_F(FlagsTest, WhatIsNamedStays) {
  const Flags flags = Parse(
      {"--spool", "/srv/spool", "--checkpoint-dir", "/shared/c", "--data-cache", "/fast/d", "--data-cache-mib", "2"});
  EXPECT_EQ(flags.checkpoints, "/shared/c");
  EXPECT_EQ(flags.data_cache, "/fast/d");
  EXPECT_EQ(flags.data_cache_bytes, 2 << 20);
}

}  // namespace
}  // namespace luthier::worker
