// Which earlier trial's model a trial starts from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using storage::EventType;
using ::testing::HasSubstr;

std::vector<NewTrial> Settings(const std::vector<double>& l2) {
  std::vector<NewTrial> trials;
  for (const double penalty : l2) {
    NewTrial trial;
    trial.parameters = {{"l2", penalty}, {"solver", std::string("lbfgs")}};
    trials.push_back(trial);
  }
  return trials;
}

class CoreWarmStart : public ::testing::Test {
 protected:
  void Create(bool warm) {
    study::StudySpec spec = MakeSpec();
    study::ParameterSpec solver;
    solver.name = "solver";
    solver.domain = study::CategoricalLabels{{"dual", "lbfgs"}};
    spec.space = study::SearchSpace::Create(
                     {{"l2", study::FloatRange{1e-3, 1e3, study::Scale::kLog, {}}, {}, {}}, std::move(solver)})
                     .value();
    study::BuiltinObjective objective;
    objective.model = "logistic";
    objective.data = "a.csv";
    if (warm) objective.options["warm_start"] = true;
    spec.objective = objective;
    ASSERT_TRUE(h_.Create("s", spec).ok());
  }
  void Finish(const Grant& grant) { ASSERT_TRUE(h_.Complete(grant, Loss(0.5)).ok()); }
  Harness h_;
};

TEST_F(CoreWarmStart, TheFirstGrantNamesTheNearestCompleteTrialForAllAttempts) {
  Create(true);
  ASSERT_TRUE(h_.Enqueue("s", Settings({1.0, 0.01, 0.02, 0.03, 0.9})).ok());
  const Grant first = h_.Get("s", "w"), second = h_.Get("s", "w");
  EXPECT_EQ(first.trial.provenance.warm_start, 0) << "none is complete";
  EXPECT_EQ(second.trial.provenance.warm_start, 0);
  Finish(second);
  const Grant third = h_.Get("s", "w");
  EXPECT_EQ(third.trial.provenance.warm_start, 2);
  EXPECT_THAT(h_.Events("s", EventType::kTrialGranted).back().detail, HasSubstr("the model of trial 2"));
  Finish(first);
  ASSERT_TRUE(h_.Fail(third, MakeFailure(study::FailureKind::kInfra)).ok());
  h_.Pass(absl::Seconds(60));
  // The same for the next attempt, whatever is complete by then; also after a restart.
  h_.Restart();
  const Grant again = h_.Get("s", "w");
  EXPECT_EQ(again.trial.number, 3);
  EXPECT_EQ(again.attempt, 2);
  EXPECT_EQ(again.trial.provenance.warm_start, 2);
  Finish(again);
  EXPECT_EQ(h_.Trial("s", 3).trial.provenance.warm_start, 2);
  EXPECT_EQ(h_.Get("s", "w").trial.provenance.warm_start, 3);
  EXPECT_EQ(h_.Get("s", "w").trial.provenance.warm_start, 1) << "known again after the restart";
}

TEST_F(CoreWarmStart, TrialsOfOtherSettingsAndFailedOnesAreNoSources) {
  Create(true);
  std::vector<NewTrial> trials = Settings({1.0, 1.0, 1.0});
  trials[0].parameters["solver"] = std::string("dual");
  ASSERT_TRUE(h_.Enqueue("s", trials).ok());
  Finish(h_.Get("s", "w"));
  const Grant second = h_.Get("s", "w");
  EXPECT_EQ(second.trial.provenance.warm_start, 0);
  ASSERT_TRUE(h_.Fail(second, MakeFailure(study::FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Get("s", "w").trial.provenance.warm_start, 0);
}

TEST_F(CoreWarmStart, WithoutTheOptionNoneIsNamed) {
  Create(false);
  ASSERT_TRUE(h_.Enqueue("s", Settings({1.0, 1.0})).ok());
  Finish(h_.Get("s", "w"));
  EXPECT_EQ(h_.Get("s", "w").trial.provenance.warm_start, 0);
  EXPECT_EQ(h_.Events("s", EventType::kTrialGranted).back().detail, "");
}

}  // namespace
}  // namespace luthier::coordinator::testing
