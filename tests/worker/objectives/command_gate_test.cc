#include "worker/objectives/command_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/testing.h"

namespace luthier::worker {
namespace {

class CountingRunner final : public Runner {
 public:
  absl::Status Open(const study::StudySpec&) override {
    ++opened;
    return absl::OkStatus();
  }
  RunOutcome Run(const RunRequest&, RunSink*) override {
    ++ran;
    RunOutcome outcome;
    outcome.result = RunResult::kComplete;
    return outcome;
  }
  int opened = 0, ran = 0;
};

class CommandGateTest : public ::testing::Test {
 protected:
  // Runs a trial of the study; what it failed of, empty when it ran.
  std::string Run(CommandGate& gate, const std::string& study) {
    RunRequest request;
    request.study = study;
    const int before = command_.ran;
    const RunOutcome outcome = gate.Run(request, &sink_);
    EXPECT_EQ(command_.ran - before, outcome.result == RunResult::kComplete ? 1 : 0);
    if (outcome.result == RunResult::kComplete) return "";
    EXPECT_EQ(outcome.failure.kind, study::FailureKind::kInfra);  // The setting is not to blame.
    EXPECT_EQ(outcome.failure.reason, kCommandRefused);
    return outcome.failure.message;
  }

  CountingRunner command_;
  RecordingSink sink_;
  int asked_ = 0;
  using Projects = std::vector<std::string>;
  absl::StatusOr<Projects> own_ = Projects{"vision"};
  const std::function<absl::StatusOr<Projects>()> ask_ = [this] {
    ++asked_;
    return own_;
  };
};

TEST_F(CommandGateTest, TakesThoseOfItsOwnProject) {
  CommandGate gate(&command_, {}, "", ask_);
  EXPECT_EQ(Run(gate, "vision/s"), "");
  EXPECT_THAT(Run(gate, "other/s"), HasSubstr("--commands-from other"));
  EXPECT_THAT(Run(gate, "s"), HasSubstr("--commands-from default"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(CommandGateTest, TakesThoseOfAllItsOwnProjects) {
  own_ = Projects{"vision", "default"};
  CommandGate gate(&command_, {}, "", ask_);
  EXPECT_EQ(Run(gate, "s"), "");
  EXPECT_EQ(Run(gate, "vision/s"), "");
  EXPECT_THAT(Run(gate, "other/s"), HasSubstr("of project default, vision alone"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(CommandGateTest, RunsNothingOfAProjectWithoutAUser) {
  CommandPolicy policy;
  policy.any = true;
  policy.with_account = {"vision"};
  CommandGate gate(&command_, policy, "", ask_);
  EXPECT_EQ(Run(gate, "vision/s"), "");
  EXPECT_THAT(Run(gate, "other/s"), HasSubstr("start it with --run-as other=USER"));
}

TEST_F(CommandGateTest, RunsNothingUntilItKnows) {
  own_ = absl::UnavailableError("away");
  CommandGate gate(&command_, {}, "", ask_);
  EXPECT_THAT(Run(gate, "vision/s"), HasSubstr("away"));
  own_ = Projects{"vision"};
  EXPECT_EQ(Run(gate, "vision/s"), "");
}

TEST_F(CommandGateTest, TakesThoseOfNamedProjects) {
  CommandGate gate(&command_, {.any = false, .none = false, .projects = {"a", "default"}}, "", ask_);
  EXPECT_EQ(Run(gate, "a/s"), "");
  EXPECT_EQ(Run(gate, "s"), "");
  EXPECT_THAT(Run(gate, "vision/s"), HasSubstr("of project a, default alone"));
  EXPECT_EQ(asked_, 0);
}

TEST_F(CommandGateTest, TakesAllOrNone) {
  CommandGate all(&command_, {.any = true, .none = false, .projects = {}}, "", ask_);
  EXPECT_EQ(Run(all, "vision/s"), "");
  EXPECT_EQ(Run(all, "s"), "");
  CommandGate none(&command_, {.any = false, .none = true, .projects = {}}, "", ask_);
  EXPECT_THAT(Run(none, "s"), HasSubstr("takes no commands"));
  EXPECT_EQ(asked_, 0);
}

TEST_F(CommandGateTest, RunsNothingAsRootUnasked) {
  CommandGate gate(&command_, {.any = true, .none = false, .projects = {}, .needs_account = true}, "s", ask_);
  EXPECT_THAT(Run(gate, "s"), HasSubstr("--run-as USER"));
  EXPECT_TRUE(absl::IsFailedPrecondition(gate.Open(study::StudySpec())));
}

TEST_F(CommandGateTest, SaysSoBeforeATrialOfTheOnlyStudyIsSpent) {
  CommandGate gate(&command_, {.any = false, .none = false, .projects = {"a"}}, "vision/s", ask_);
  const absl::Status refused = gate.Open(study::StudySpec());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--commands-from vision"));
  EXPECT_EQ(command_.opened, 0);
  CommandGate taken(&command_, {.any = false, .none = false, .projects = {"vision"}}, "vision/s", ask_);
  EXPECT_TRUE(taken.Open(study::StudySpec()).ok());
  EXPECT_EQ(command_.opened, 1);
}

}  // namespace
}  // namespace luthier::worker
