#include "worker/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temporary_directory.h"

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A machine whose driver shows `count` GPUs, and beside them what it has for its own use.
class GpusTest : public ::testing::Test {
 protected:
  GpuSources Machine(int count) {
    for (int i = 0; i < count; ++i) {
      std::filesystem::create_directories(machine_.path() + "/driver/0000:0" + std::to_string(i) + ":00.0");
      machine_.Write("dev/nvidia" + std::to_string(i), "");
    }
    for (const char* other : {"nvidiactl", "nvidia-uvm", "null"}) machine_.Write(std::string("dev/") + other, "");
    return {machine_.path() + "/driver", machine_.path() + "/dev", {}};
  }
  static std::vector<std::string> Chosen(const std::string& text, const GpuSources& sources) {
    const auto gpus = ChooseGpus(text, sources);
    EXPECT_TRUE(gpus.ok()) << gpus.status();
    return gpus.value_or(std::vector<std::string>());
  }
  static std::string Error(const std::string& text, const GpuSources& sources) {
    const auto gpus = ChooseGpus(text, sources);
    EXPECT_TRUE(absl::IsInvalidArgument(gpus.status())) << text << ": " << gpus.status();
    return std::string(gpus.status().message());
  }

  const testing::TemporaryDirectory machine_;
};

TEST_F(GpusTest, ChoosesAllOrByCountOrByName) {
  const GpuSources sources = Machine(4);
  EXPECT_THAT(Chosen("all", sources), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(Chosen("2", sources), ElementsAre("0", "1"));
  EXPECT_THAT(Chosen("0,2", sources), ElementsAre("0", "2"));
  EXPECT_THAT(Chosen("3,", sources), ElementsAre("3"));
  EXPECT_THAT(Chosen("GPU-0a1b,MIG-0a1b", sources), ElementsAre("GPU-0a1b", "MIG-0a1b"));
}

TEST_F(GpusTest, TheVariableLimitsTheChoice) {
  GpuSources sources = Machine(4);
  sources.visible = "3,1";
  EXPECT_THAT(Chosen("all", sources), ElementsAre("3", "1"));
  EXPECT_THAT(Chosen("1", sources), ElementsAre("3"));
  EXPECT_THAT(Chosen("1,", sources), ElementsAre("1"));
  EXPECT_THAT(Error("0,", sources), HasSubstr("visible are 3,1"));
  sources.visible = "GPU-0a1b,GPU-2c3d";
  EXPECT_THAT(Chosen("all", sources), ElementsAre("GPU-0a1b", "GPU-2c3d"));
  EXPECT_THAT(Error("GPU-9999", sources), HasSubstr("there is no GPU GPU-9999"));
  sources.visible = "0,-1,2";  // As CUDA reads it.
  EXPECT_THAT(Chosen("all", sources), ElementsAre("0"));
  for (const char* none : {"", "-1"}) {
    sources.visible = none;
    EXPECT_THAT(VisibleGpus(sources), IsEmpty());
    for (const char* text : {"all", "1", "0,1"}) EXPECT_THAT(Error(text, sources), HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

TEST_F(GpusTest, AContainerSeesSomeDevices) {
  GpuSources sources = Machine(4);
  std::filesystem::remove(machine_.path() + "/dev/nvidia0");
  std::filesystem::remove(machine_.path() + "/dev/nvidia3");
  EXPECT_THAT(Chosen("all", sources), ElementsAre("0", "1"));
  sources.driver += "/none";
  EXPECT_THAT(Chosen("all", sources), ElementsAre("0", "1"));
}

TEST_F(GpusTest, ErrorsAreExplained) {
  const GpuSources two = Machine(2), none = {"/nosuch", "/nosuch", {}};
  EXPECT_THAT(Error("3", two), HasSubstr("shows 2"));
  EXPECT_THAT(Error("0", two), HasSubstr("--gpus 0,"));
  EXPECT_THAT(Error("99999999999999999999999", two), HasSubstr("no number of GPUs"));
  EXPECT_THAT(Error("0,2", two), HasSubstr("there is no GPU 2"));
  EXPECT_THAT(Error("1,1", two), HasSubstr("twice"));
  for (const char* bad : {",", "0,,1", "a b", "-1", "0;1", "every one"}) {
    EXPECT_THAT(Error(bad, two), HasSubstr("neither all")) << bad;
  }
  EXPECT_THAT(Error("all", none), HasSubstr("shows no GPU"));
  EXPECT_THAT(Error("2", none), HasSubstr("--gpus 0,1"));
  EXPECT_THAT(Chosen("0,5", none), ElementsAre("0", "5"));  // Nothing says otherwise.
}

}  // namespace
}  // namespace luthier::worker
