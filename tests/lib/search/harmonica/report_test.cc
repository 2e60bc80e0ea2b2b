#include "lib/search/harmonica/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/search/registry.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using study::Parameters;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

study::StudySpec Spec(study::Goal goal) {
  std::vector<study::ParameterSpec> parameters = {study::Bool("norm"),
                                                  study::Float("lr", 1e-4, 1.0, study::Scale::kLog)};
  for (int i = 0; i < 18; ++i) parameters.push_back(study::Bool("d" + std::to_string(i)));
  study::StudySpec spec;
  spec.space = study::Space(parameters);
  spec.metric = {"value", goal};
  spec.algorithm = study::HarmonicaOptions{.samples = 120, .stages = 1, .terms = 2};
  spec.budget.max_trials = 1000;
  return spec;
}

// 3 + (norm ? -2 : 2) + (lr high ? 1 : -1).
double Value(const Parameters& p) {
  return 3.0 + (std::get<bool>(p.at("norm")) ? -2.0 : 2.0) + (std::get<double>(p.at("lr")) > 0.01 ? 1.0 : -1.0);
}

study::History Played(const study::StudySpec& spec, int asks, double failing = 0.0) {
  base::RandomStream random(1, "test/failing");
  const auto designer = CreateDesigner(spec);
  contract::FakeStudy study;
  for (int i = 0; i < asks; ++i) {
    const Suggestion suggestion = *designer->Suggest(study.history(), study.asks(), base::StopToken());
    study.Suggested(suggestion);
    study.Finish(study.Store(), random.Uniform() < failing ? contract::Failed(study::FailureKind::kConfig)
                                                           : contract::Complete(Value(suggestion.parameters)));
  }
  return study.history();
}

TEST(HarmonicaReport, SaysWhatWasLearntInTheMetricsUnits) {
  for (const study::Goal goal : {study::Goal::kMinimize, study::Goal::kMaximize}) {
    const study::StudySpec spec = Spec(goal);
    EXPECT_TRUE(ReportHarmonica(spec, Played(spec, 119), 20).stages.empty());
    const HarmonicaReport report = ReportHarmonica(spec, Played(spec, 125), 20);
    ASSERT_EQ(report.stages.size(), 1u);
    const HarmonicaStageReport& stage = report.stages[0];
    EXPECT_TRUE(stage.believed);
    EXPECT_NEAR(stage.intercept, 3.0, 1e-9);
    EXPECT_NEAR(stage.r2, 1.0, 1e-9);
    ASSERT_EQ(stage.terms.size(), 2u);
    // A switch that is on, and an upper half, count -1.
    EXPECT_NEAR(stage.terms[0].weight, 2.0, 1e-9);
    EXPECT_NEAR(stage.terms[1].weight, -1.0, 1e-9);
    const bool low = goal == study::Goal::kMinimize;
    EXPECT_EQ(stage.terms[0].factors[0].name, "norm");
    EXPECT_EQ(stage.terms[0].factors[0].bit, 0);
    EXPECT_EQ(stage.terms[0].better_values, low ? "true" : "false");
    EXPECT_EQ(stage.terms[1].factors[0].name, "lr:bit1(high half)");
    EXPECT_EQ(stage.terms[1].factors[0].bit, 1);
    EXPECT_EQ(stage.terms[1].better_sign, low ? 1 : -1);
    EXPECT_EQ(stage.terms[1].better_values, low ? "0.0001 to 0.01" : "0.01 to 1");
    EXPECT_NEAR(stage.terms[0].variance_share, 0.8, 0.1);
    EXPECT_EQ(stage.terms[0].bootstrap_frequency, 1.0);
    ASSERT_EQ(stage.restrictions.size(), 1u);
    EXPECT_THAT(stage.restrictions[0].values,
                ElementsAre(Pair("lr", stage.terms[1].better_values), Pair("norm", low ? "true" : "false")));
    EXPECT_NEAR(stage.restrictions[0].value, low ? 0.0 : 6.0, 1e-9);
    EXPECT_EQ(report.never_selected.size(), 18u);
    EXPECT_THAT(report.never_selected, Contains("d17"));
    EXPECT_THAT(report.never_selected, Not(Contains("norm")));
  }
}

TEST(HarmonicaReport, WarnsOfFailuresAndOfAClosedGate) {
  const study::StudySpec spec = Spec(study::Goal::kMinimize);
  const HarmonicaReport report = ReportHarmonica(spec, Played(spec, 120, 0.6), 0);
  ASSERT_EQ(report.stages.size(), 1u);
  EXPECT_THAT(report.stages[0].warnings, Contains(HasSubstr("samples failed and count as the worst")));
  const HarmonicaReport all = ReportHarmonica(spec, Played(spec, 120, 1.0), 5);
  EXPECT_THAT(all.stages[0].warnings, Contains(HasSubstr("nothing was found")));
  EXPECT_EQ(all.never_selected.size(), 20u);
}

TEST(HarmonicaReport, IsEmptyForOtherStudies) {
  study::StudySpec spec = Spec(study::Goal::kMinimize);
  spec.algorithm = study::RandomOptions{};
  EXPECT_TRUE(ReportHarmonica(spec, study::History(), 5).stages.empty());
  spec.algorithm = study::HarmonicaOptions{};
  spec.space = study::Space({study::Bool("b")});
  EXPECT_TRUE(ReportHarmonica(spec, study::History(), 5).stages.empty());
}

}  // namespace
}  // namespace luthier::search
