#include "worker/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/testing/temporary_directory.h"

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::optional<Flags> TryParse(std::vector<std::string> arguments, const GpuSources& gpus, int* exit_code) {
  arguments.insert(arguments.begin(), "luthier-worker");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), exit_code, gpus);
}

Flags Parse(const std::vector<std::string>& arguments, const GpuSources& gpus = {}) {
  int exit_code = -1;
  const std::optional<Flags> flags = TryParse(arguments, gpus, &exit_code);
  EXPECT_TRUE(flags.has_value()) << exit_code;
  return flags.value_or(Flags());
}

// What is said of a command line that is refused.
std::string Complaint(const std::vector<std::string>& arguments, const GpuSources& gpus = {}) {
  int exit_code = -1;
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(TryParse(arguments, gpus, &exit_code).has_value());
  EXPECT_EQ(exit_code, 2);
  return ::testing::internal::GetCapturedStderr();
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

TEST_F(FlagsTest, DirectoriesLieBesideANamedSpool) {
  const Flags flags = Parse({"--spool", "/srv/w1/spool"});
  EXPECT_EQ(flags.spool, "/srv/w1/spool");
  EXPECT_EQ(flags.checkpoints, "/srv/w1/checkpoints");
  EXPECT_EQ(flags.data_cache, "/srv/w1/data-cache");
  EXPECT_EQ(Parse({"--spool", "here"}).data_cache, "data-cache");
}

TEST_F(FlagsTest, ExplicitFlagsWin) {
  const Flags flags = Parse(
      {"--spool", "/srv/spool", "--checkpoint-dir", "/shared/c", "--data-cache", "/fast/d", "--data-cache-mib", "2"});
  EXPECT_EQ(flags.checkpoints, "/shared/c");
  EXPECT_EQ(flags.data_cache, "/fast/d");
  EXPECT_EQ(flags.data_cache_bytes, 2 << 20);
}

TEST_F(FlagsTest, CommandsComeFromNamedProjects) {
  EXPECT_TRUE(Parse({}).commands.projects.empty());  // As the coordinator says.
  EXPECT_THAT(Parse({"--project", "vision"}).commands.projects, ElementsAre("vision"));
  EXPECT_THAT(Parse({"--project", "vision,speech"}).commands.projects, ElementsAre("speech", "vision"));
  EXPECT_THAT(Parse({"--project", "vision", "--project", "speech"}).projects, ElementsAre("vision", "speech"));
  EXPECT_THAT(Parse({"--study", "vision/s"}).commands.projects, ElementsAre("vision"));
  EXPECT_THAT(Parse({"--study", "s"}).commands.projects, ElementsAre("default"));
  EXPECT_THAT(Parse({"--project", "p", "--commands-from", "a", "--commands-from", "b"}).commands.projects,
              ElementsAre("a", "b"));
  EXPECT_TRUE(Parse({"--commands-from", "any"}).commands.any);
  EXPECT_TRUE(Parse({"--commands-from", "none"}).commands.none);
  EXPECT_THAT(Complaint({"--commands-from", "any", "--commands-from", "a"}), HasSubstr("stands alone"));
  EXPECT_THAT(Complaint({"--commands-from", "../x"}), HasSubstr("--commands-from"));
}

TEST_F(FlagsTest, EndsAreDurationsAndAnExitCode) {
  const Flags flags = Parse({});
  EXPECT_EQ(flags.exit_when_idle, absl::InfiniteDuration());
  EXPECT_EQ(flags.drain_timeout, absl::Seconds(2));
  EXPECT_EQ(flags.stop_grace, absl::Seconds(5));
  EXPECT_EQ(flags.drain_exit_code, 0);
  const Flags given =
      Parse({"--exit-when-idle", "2m", "--drain-timeout", "0.5", "--stop-grace", "90s", "--drain-exit-code", "75"});
  EXPECT_EQ(given.exit_when_idle, absl::Minutes(2));
  EXPECT_EQ(given.drain_timeout, absl::Milliseconds(500));
  EXPECT_EQ(given.stop_grace, absl::Seconds(90));
  EXPECT_EQ(given.drain_exit_code, 75);
  EXPECT_THAT(Complaint({"--stop-grace", "-1s"}), HasSubstr("--stop-grace: '-1s' is not a duration"));
  EXPECT_THAT(Complaint({"--exit-when-idle", "soon"}), HasSubstr("such as 90s, 10m or 1h30m"));
  EXPECT_THAT(Complaint({"--drain-exit-code", "143"}), HasSubstr("--drain-exit-code"));
}

TEST_F(FlagsTest, EachSlotHasAGpu) {
  const testing::TemporaryDirectory machine;
  for (const char* device : {"nvidia0", "nvidia1", "nvidia2"}) machine.Write(device, "");
  const GpuSources three = {"/nosuch", machine.path(), {}};
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(Parse({}, three).gpus.empty());
  EXPECT_EQ(Parse({}, three).slots, 1);
  EXPECT_THAT(Parse({"--gpus", "all"}, three).gpus, ElementsAre("0", "1", "2"));
  EXPECT_EQ(Parse({"--gpus", "all"}, three).slots, 3);
  EXPECT_EQ(Parse({"--gpus", "0,2", "--slots", "1"}, three).slots, 1);
  EXPECT_THAT(Complaint({"--gpus", "2", "--slots", "3"}, three), HasSubstr("leave --slots out"));
  EXPECT_THAT(Complaint({"--gpus", "four"}, three), HasSubstr("neither all"));
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_THAT(Parse({"--gpus", "all"}, three).gpus, ElementsAre("1"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace luthier::worker
