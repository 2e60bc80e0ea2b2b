#include "server/memory_limit.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

class MemoryLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) { directory_.Write(path.substr(1), text); }
  std::string root() const { return directory_.path(); }
  int64_t Mebibytes() const { return DefaultMemoryLimit(root()).bytes / kMebibyte; }

  testing::TemporaryDirectory directory_;
};

TEST_F(MemoryLimitTest, IsHalfOfAMachineThatNobodyShared) {
  EXPECT_EQ(Mebibytes(), 0) << "nothing is known";
  Write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n");
  EXPECT_EQ(Mebibytes(), 4096);
  Write("/proc/self/cgroup", "0::/system.slice/luthierd.service\n");
  Write("/sys/fs/cgroup/system.slice/luthierd.service/memory.max", "max\n");
  EXPECT_EQ(Mebibytes(), 4096);
}

TEST_F(MemoryLimitTest, IsFourFifthsOfTheLeastControlGroup) {
  Write("/proc/meminfo", "MemTotal:        8388608 kB\n");
  Write("/proc/self/cgroup", "0::/system.slice/luthierd.service\n");
  Write("/sys/fs/cgroup/system.slice/luthierd.service/memory.max", "1073741824\n");
  EXPECT_EQ(Mebibytes(), 819);
  EXPECT_EQ(DefaultMemoryLimit(root()).source, "four fifths of the control group's memory");
  Write("/sys/fs/cgroup/system.slice/memory.max", "536870912\n");
  EXPECT_EQ(Mebibytes(), 409);
  // In a container its own group is the root.
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(Mebibytes(), 1638);
  Write("/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(Mebibytes(), 64) << "with less it can't work";
}

TEST_F(MemoryLimitTest, VersionOneOfControlGroupsCountsToo) {
  Write("/proc/meminfo", "MemTotal:        8388608 kB\n");
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Mebibytes(), 4096);
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");  // As a container sees its own.
  EXPECT_EQ(Mebibytes(), 819);
}

TEST(ParseMemoryLimit, TakesSizesAndNone) {
  EXPECT_EQ(ParseMemoryLimit("none"), 0);
  EXPECT_EQ(ParseMemoryLimit("0"), 0);
  EXPECT_EQ(ParseMemoryLimit("512M"), 512 * kMebibyte);
  EXPECT_EQ(ParseMemoryLimit("512m"), 512 * kMebibyte);
  EXPECT_EQ(ParseMemoryLimit("512MB"), 512 * kMebibyte);
  EXPECT_EQ(ParseMemoryLimit("512 MiB"), 512 * kMebibyte);
  EXPECT_EQ(ParseMemoryLimit("2G"), 2048 * kMebibyte);
  EXPECT_EQ(ParseMemoryLimit("67108864"), 64 * kMebibyte);
  for (const char* wrong : {"", "-1", "many", "M", "1.5G", "9999999999T", "5X", "b"}) {
    EXPECT_LT(ParseMemoryLimit(wrong), 0) << wrong;
  }
}

TEST(UsedMemory, IsWhatIsResident) {
  const int64_t before = UsedMemory(0);
  EXPECT_GT(before, kMebibyte);
  const std::string more(64 * kMebibyte, 'x');
  EXPECT_GT(UsedMemory(0), before + 60 * kMebibyte);
  EXPECT_EQ(more.back(), 'x');
}

}  // namespace
}  // namespace luthier::server
