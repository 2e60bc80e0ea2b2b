#include "bench/reproduce/run.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bench/reproduce/problems.h"
#include "gtest/gtest.h"
#include "lib/search/registry.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::reproduce {
namespace {

TEST(Settings, AreLegalAndHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name << " twice";
    if (setting.textbook.has_value()) continue;
    study::StudySpec spec;
    spec.space = MakeProblem("hartmann3", 0)->base.space;
    const absl::StatusOr<study::AlgorithmSpec> algorithm =
        wire::ParseAlgorithm(absl::StrReplaceAll(setting.algorithm, {{"{L}", "18.3"}}));
    ASSERT_TRUE(algorithm.ok()) << setting.name << ": " << algorithm.status();
    spec.algorithm = *algorithm;
    EXPECT_TRUE(search::Validate(spec).ok()) << setting.name << ": " << search::Validate(spec);
  }
}

TEST(ParseCase, ReadsAProblemASettingASeedAndEvaluations) {
  const absl::StatusOr<Case> run = ParseCase("branin m-lbo-ei 3 8");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PathOf("r", *run), "r/branin/m-lbo-ei/3.csv");
  EXPECT_EQ(run->evaluations, 8);
  EXPECT_FALSE(ParseCase("branin m-lbo-ei 3").ok()) << "without its evaluations";
  EXPECT_FALSE(ParseCase("branin no-such-setting 3 8").ok());
}

TEST(Execute, RefusesAProblemThatThereIsNot) {
  EXPECT_FALSE(Execute(testing::TempDir(), ParseCase("no_such_problem m-lbo-ei 0 8").value()).ok());
}

TEST(Execute, IsDoneOnceItsFileIsComplete) {
  const std::string folder = testing::TempDir() + "/reproduce_run_test";
  std::filesystem::remove_all(folder);
  Case run = ParseCase("branin m-lbo-ei 3 8").value();
  EXPECT_FALSE(IsDone(folder, run));
  ASSERT_TRUE(Execute(folder, run).ok());
  EXPECT_TRUE(IsDone(folder, run));
  run.evaluations = 9;
  EXPECT_FALSE(IsDone(folder, run)) << "a larger budget is another run";
  std::ifstream in(folder + "/branin/m-lbo-ei/3.csv");
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "evaluation,value,best,origin,bind_rate,excluded_share,suggest_ms");
  std::getline(in, line);
  EXPECT_EQ(line.substr(0, 2), "1,");
  std::filesystem::remove_all(folder);
}

TEST(Execute, FindsOutNothingAboutNoiseThatThereIsNot) {
  const std::string folder = testing::TempDir() + "/reproduce_probe_test";
  std::filesystem::remove_all(folder);
  for (const char* setting : {"se-bo-ei", "own-bo"}) {
    const std::string line = absl::StrCat("branin ", setting, " 0 12");
    ASSERT_TRUE(Execute(folder, ParseCase(line).value()).ok());
    std::ifstream in(absl::StrCat(folder, "/branin/", setting, "/0.csv"));
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str().find(",probe,"), std::string::npos) << text.str();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace luthier::reproduce
