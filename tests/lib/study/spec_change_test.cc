#include "lib/study/spec_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::HasSubstr;

CommandObjective Command(const char* program) {
  CommandObjective command;
  command.argv = {program};
  return command;
}

StudySpec Spec() {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1), Int("n", 0, 8, 2), Categorical("c", {"a", "b"}), Bool("on")});
  spec.metric.name = "loss";
  spec.objective = Command("true");
  return spec;
}

// What is wrong with giving the study these parameters; "": nothing.
std::string Why(std::vector<ParameterSpec> parameters, StudySpec spec = Spec()) {
  SpecChange change;
  change.parameters = std::move(parameters);
  return std::string(ChangeSpec(spec, change).status().message());
}

TEST(SpecChange, RangesMayBecomeWiderAndLabelsMore) {
  SpecChange change;
  change.parameters = {{Categorical("c", {"a", "b", "z"}), Float("x", -1, 2), Int("n", -4, 8, 2)}};
  const StudySpec next = *ChangeSpec(Spec(), change);
  EXPECT_EQ(next.space, Space({Float("x", -1, 2), Int("n", -4, 8, 2), Categorical("c", {"a", "b", "z"}), Bool("on")}));
  EXPECT_FALSE(SameForDesigners(Spec(), next));
  EXPECT_EQ(DescribeChange(Spec(), next), "parameter x, parameter n, parameter c");
  SpecChange initial;
  initial.parameters = {{WithDefault(0.5, Float("x", 0, 1))}};
  EXPECT_TRUE(ChangeSpec(Spec(), initial).ok()) << "a default is no range";
}

TEST(SpecChange, ChangesThatExcludeOldSettingsAreRefused) {
  EXPECT_THAT(Why({Float("x", 0.1, 1)}), HasSubstr("space (\"x\"): has a narrower range"));
  EXPECT_THAT(Why({Float("x", 0, 1, Scale::kLogit)}), HasSubstr("another scale"));
  EXPECT_THAT(Why({Int("n", -1, 8, 2)}), HasSubstr("not a whole number of steps"));
  EXPECT_THAT(Why({Int("n", 0, 8, 4)}), HasSubstr("another step"));
  EXPECT_THAT(Why({Categorical("c", {"b", "a", "z"})}), HasSubstr("add new ones at the end"));
  EXPECT_THAT(Why({Categorical("c", {"a"})}), HasSubstr("add new ones at the end"));
  EXPECT_THAT(Why({Ordinal("c", {"a", "b"})}), HasSubstr("another kind"));
  EXPECT_THAT(Why({Bool("off")}), HasSubstr("is no parameter of the study"));
  EXPECT_THAT(Why({When("on", {true}, Float("x", 0, 1))}), HasSubstr("another condition"));
  EXPECT_EQ(Why({Bool("on")}), "");
}

TEST(SpecChange, AlgorithmsThatLayOutTheSpaceKeepIt) {
  AshaOptions asha;
  asha.sampler = SobolOptions();
  const std::vector<AlgorithmSpec> laid_out = {GridOptions(), SobolOptions(), HaltonOptions(), HarmonicaOptions(),
                                               asha};
  for (const AlgorithmSpec& algorithm : laid_out) {
    StudySpec spec = Spec();
    spec.algorithm = algorithm;
    EXPECT_THAT(Why({Float("x", 0, 2)}, spec), HasSubstr("lays its settings out")) << AlgorithmName(algorithm);
    EXPECT_EQ(Why({Float("x", 0, 1)}, spec), "");
  }
}

TEST(SpecChange, CommandsAndReproducibleStudies) {
  SpecChange change;
  change.command = Command("false");
  EXPECT_EQ(std::get<CommandObjective>(ChangeSpec(Spec(), change)->objective).argv[0], "false");
  StudySpec other = Spec();
  other.objective = ExternalObjective();
  EXPECT_THAT(std::string(ChangeSpec(other, change).status().message()), HasSubstr("runs a command"));
  StudySpec fixed = Spec();
  fixed.reproducible = true;
  fixed.budget.max_parallel = 2;
  SpecChange parallel;
  parallel.max_parallel = 4;
  EXPECT_FALSE(ChangeSpec(fixed, parallel).ok());
  EXPECT_TRUE(ChangeSpec(Spec(), parallel).ok());
}

TEST(SpecChange, FieldsThatDesignersIgnoreDoNotCount) {
  SpecChange change;
  change.display_name = "d";
  change.description = "t";
  change.labels = std::map<std::string, std::string>{{"k", "v"}};
  change.patience = 5;
  change.target_value = std::optional<double>(0.5);
  change.max_wall = std::optional<absl::Duration>(absl::Hours(12));
  change.weight = 2.0;
  change.max_parallel = 7;
  change.command = Command("false");
  StudySpec next = *ChangeSpec(Spec(), change);
  EXPECT_TRUE(SameForDesigners(Spec(), next));
  EXPECT_EQ(DescribeChange(Spec(), next),
            "max_parallel 0 -> 7, patience 0 -> 5, target_value none -> 0.5, max_wall none -> 12h, weight 1 -> 2, "
            "command, display_name, description, labels");
  next.budget.max_trials += 5;
  EXPECT_FALSE(SameForDesigners(Spec(), next));
  EXPECT_TRUE(SameButMaxTrials(Spec(), next));
}

}  // namespace
}  // namespace luthier::study
