#include "worker/process/environment.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Passed(const std::vector<std::string>& environment,
                                const std::vector<std::string>& allowed = {}) {
  return SortEnvironment(environment, allowed).passed;
}

TEST(SortEnvironment, PassesWhatProgramsNeed) {
  const std::vector<std::string> needed = {"PATH=/bin",
                                           "LC_ALL=C",
                                           "OMP_NUM_THREADS=2",
                                           "CUDA_VISIBLE_DEVICES=1",
                                           "PYTHONPATH=/a:/b",
                                           "TOKENIZERS_PARALLELISM=false",
                                           "https_proxy=http://proxy:3128"};
  EXPECT_EQ(Passed(needed), needed);
}

TEST(SortEnvironment, KeepsBackWhatLooksLikeASecretAndWhatNobodyNamed) {
  const InheritedVariables sorted = SortEnvironment(
      {"WANDB_API_KEY=a", "HF_TOKEN=b", "CONDA_TOKEN=c", "SLURM_JWT=d", "https_proxy=http://me:word@proxy:1",
       "ALL_PROXY=socks5://me@proxy", "PATHS=e", "SHLVL=1", "LUTHIER_TOKEN=f", "no equals sign", "=g"},
      {});
  EXPECT_THAT(sorted.passed, ElementsAre());
  EXPECT_THAT(sorted.withheld, ElementsAre("ALL_PROXY", "CONDA_TOKEN", "HF_TOKEN", "PATHS", "SLURM_JWT",
                                           "WANDB_API_KEY", "https_proxy"));
}

TEST(SortEnvironment, PassesWhatIsNamedAndNeverWhatIsTheWorkersOwn) {
  const std::vector<std::string> environment = {"WANDB_API_KEY=a", "WANDB_MODE=b", "HF_TOKEN=c", "LUTHIER_TOKEN=d"};
  EXPECT_THAT(Passed(environment, {"WANDB_*"}), ElementsAre("WANDB_API_KEY=a", "WANDB_MODE=b"));
  EXPECT_THAT(Passed(environment, {"HF_TOKE?"}), ElementsAre("HF_TOKEN=c"));
  EXPECT_THAT(Passed(environment, {"*"}), ElementsAre("WANDB_API_KEY=a", "WANDB_MODE=b", "HF_TOKEN=c"));
}

TEST(CheckEnvironmentPattern, RefusesWhatIsNoNameWithoutShowingAValue) {
  for (const char* good : {"A", "wandb_api_key", "AWS_*", "*", "?_X9"}) EXPECT_TRUE(CheckEnvironmentPattern(good).ok());
  for (const char* bad : {"", "9A", "A-B", "A B", "[AB]", "LUTHIER_TOKEN", "LUTHIER_*"}) {
    const absl::Status status = CheckEnvironmentPattern(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--env-allow")) << bad;
  }
  EXPECT_THAT(std::string(CheckEnvironmentPattern("KEY=word").message()), Not(HasSubstr("word")));
}

TEST(SpeaksOf, FindsWholeWords) {
  EXPECT_TRUE(SpeaksOf("KeyError: 'A_KEY'", "A_KEY"));
  EXPECT_TRUE(SpeaksOf("A_KEY", "A_KEY"));
  EXPECT_TRUE(SpeaksOf("A_KEYS and A_KEY", "A_KEY"));
  EXPECT_FALSE(SpeaksOf("MY_A_KEY A_KEYS", "A_KEY"));
  EXPECT_FALSE(SpeaksOf("", "A_KEY"));
}

}  // namespace
}  // namespace luthier::worker
