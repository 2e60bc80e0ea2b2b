#include "bench/reproduce/run.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "bench/reproduce/problems.h"
#include "gtest/gtest.h"
#include "lib/search/registry.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::reproduce {
namespace {

TEST(Experiments, EverySettingIsLegalAndUsed) {
  std::set<std::string> used, names;
  for (const Experiment& e : Experiments()) used.insert(e.settings.begin(), e.settings.end());
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
  for (const std::string& name : used) EXPECT_EQ(names.count(name), 1) << name;
  for (const std::string& name : names) EXPECT_EQ(used.count(name), 1) << name << " is in no experiment";
}

TEST(Experiments, KnownConstantsAreUsedOnlyWhereTheyAreKnown) {
  const std::vector<Case> runs = Plan({}, 1).value();
  for (const Case& run : runs) {
    if (run.setting->algorithm.find("{L}") == std::string::npos) continue;
    EXPECT_GT(MakeProblem(run.problem, 0)->lipschitz, 0.0) << run.problem;
  }
}

TEST(Plan, ListsEachRunOnceAtItsLargestBudgetSeedBySeed) {
  const std::vector<Case> runs = Plan({}, 2).value();
  std::set<std::string> paths;
  uint64_t seed = 0;
  for (const Case& run : runs) {
    EXPECT_TRUE(paths.insert(PathOf("r", run)).second);
    EXPECT_GE(run.seed, seed);
    seed = run.seed;
    if (run.setting->name == "random" && run.problem == "branin") {
      EXPECT_EQ(run.evaluations, 200);
    }
  }
  EXPECT_FALSE(Plan({"CS99"}, 1).ok());
}

TEST(Execute, IsDoneOnceItsFileIsComplete) {
  const std::string folder = testing::TempDir() + "/reproduce_run_test";
  std::filesystem::remove_all(folder);
  Case run{&Settings().front(), "branin", 8, 3};
  for (const Setting& setting : Settings()) {
    if (setting.name == "m-lbo-ei") run.setting = &setting;
  }
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

}  // namespace
}  // namespace luthier::reproduce
