// Programs whose results patterns find in their output.
#include <gmock/gmock.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::Pair;

TEST_F(CommandTest, PatternsFindNumbersAndTheLastMatchCounts) {
  study::CommandObjective& command =
      Shell(R"(printf 'epoch 1 loss=0.9\repoch 2 loss=0.7 loss=0.65\n'; echo 'acc: 91.5%%'; echo '{"loss": 4}')");
  command.stdout_patterns = {{"loss", "loss=([-+.eE0-9a-z]+)"}, {"accuracy", "acc: ([0-9.]+)"}, {"none", "x(y)"}};
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.65);
  EXPECT_THAT(outcome.measurement.metrics, ElementsAre(Pair("accuracy", 91.5), Pair("loss", 0.65)));
  EXPECT_THAT(sink_.reports, IsEmpty());
}

TEST_F(CommandTest, APatternOfTheStepMakesALearningCurveOfText) {
  study::CommandObjective& command = Shell(R"(
    echo 'loss=9'
    echo 'Epoch 1/3'; printf 'loss=0.9\rloss=0.8\n'; echo 'acc=1'
    echo 'Epoch 2/3'; echo 'acc=2'
    echo 'Epoch 3/3'; echo 'loss=0.6'
    echo 'Epoch 2/3'; echo 'loss=0.5'
    echo 'Epoch 4/3'; echo 'loss=nan'
    echo 'Epoch 5/3'; echo 'loss=0.4')");
  command.stdout_patterns = {{"step", "Epoch ([0-9]+)"}, {"loss", "loss=([-+.eE0-9a-z]+)"}, {"acc", "acc=([0-9]+)"}};
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.4);
  EXPECT_EQ(outcome.measurement.step, 5);
  EXPECT_EQ(outcome.measurement.metrics.at("acc"), 2.0) << "the last one, of a step without the metric";
  ASSERT_THAT(sink_.reports, SizeIs(3));
  EXPECT_EQ(sink_.reports[0].step, 1);
  EXPECT_THAT(sink_.reports[0].metrics, ElementsAre(Pair("acc", 1.0), Pair("loss", 0.8)));
  EXPECT_EQ(sink_.reports[1].step, 3) << "step 2 has no loss, and what follows it again is no point";
  EXPECT_EQ(sink_.reports[1].metrics.at("loss"), 0.6);
  EXPECT_EQ(sink_.reports[2].step, 4);
  EXPECT_TRUE(std::isnan(sink_.reports[2].metrics.at("loss")));
}

TEST_F(CommandTest, PatternsThatMatchNothingOrNoNumberFail) {
  Shell("echo hello").stdout_patterns = {{"loss", "loss=(.*)"}};
  ExpectFailure(Run(), kConfig, "NO_RESULT");
  Shell("echo loss=abc").stdout_patterns = {{"loss", "loss=(.*)"}};
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OUTPUT");
  EXPECT_THAT(outcome.failure.message, HasSubstr("\"abc\", which is no number"));
}

TEST_F(CommandTest, ATextThatDivergesIsNotANumber) {
  Shell(
      "for e in 1 2 3 4 5; do if [ $e -gt 2 ]; then echo \"Epoch $e val_loss: nan\"; else echo \"Epoch $e val_loss: "
      "0.$e\"; fi; done")
      .stdout_patterns = {{"step", "Epoch ([0-9]+)"}, {"loss", "val_loss: ([-+.eE0-9]+)"}};
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_TRUE(std::isnan(outcome.measurement.metrics.at("loss")));
  EXPECT_EQ(outcome.measurement.step, 5);
  for (const char* step : {"", "Epoch 2 "}) {
    study::CommandObjective& command =
        Shell(absl::StrCat("echo 'Epoch 1 val_loss: 0.5'; echo '", step, "val_loss: ERROR'"));
    command.stdout_patterns = {{"loss", "val_loss: ([-+.eE0-9]+)"}};
    if (*step != '\0') command.stdout_patterns["step"] = "Epoch ([0-9]+)";
    const RunOutcome unreadable = Run();
    ExpectFailure(unreadable, kConfig, "BAD_OUTPUT");
    EXPECT_THAT(unreadable.failure.message, HasSubstr("line 2 of standard output, "));
  }
}

TEST_F(CommandTest, AnUnreadableExtraOfAPatternIsLeftOut) {
  Shell("echo 'loss=0.5 acc=0.9'; echo 'acc=none'").stdout_patterns = {{"loss", "loss=([0-9.]+)"},
                                                                       {"acc", "acc=([0-9.]+)"}};
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.5);
  EXPECT_FALSE(outcome.measurement.metrics.contains("acc"));
  EXPECT_THAT(outcome.output_tail, HasSubstr("metric \"acc\" is left out: line 2"));
}

// As a training of several folds does, whose epochs begin again.
TEST_F(CommandTest, TheLastValueCountsThoughItsStepDoesNotRise) {
  Shell("echo 'Epoch 1 loss=0.5'; echo 'Epoch 2 loss=0.4'; echo 'Epoch 1 loss=0.7'").stdout_patterns = {
      {"step", "Epoch ([0-9]+)"}, {"loss", "loss=([0-9.]+)"}};
  ExpectLoss(Run(), 0.7);
}

TEST_F(CommandTest, APatternOfExponentialCostIsHarmless) {
  Shell("head -c 600 /dev/zero | tr '\\0' a; echo; echo loss=1").stdout_patterns = {{"loss", "(?:(?:a|a)*)*loss=(.)"}};
  ExpectLoss(Run(), 1.0);
}

// A study of an older version may have one: it must not hold the slot up.
TEST_F(CommandTest, APatternWithABackReferenceFailsTheTrial) {
  Shell("echo loss=1").stdout_patterns = {{"loss", R"((a+)\1loss=(.))"}};
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr(R"text(the pattern for "loss", "(a+)\\1loss=(.)",)text"));
  EXPECT_THAT(outcome.failure.message, HasSubstr("back-references"));
}

}  // namespace
}  // namespace luthier::worker
