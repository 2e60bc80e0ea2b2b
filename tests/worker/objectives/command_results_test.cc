#include "worker/objectives/command_results.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/python.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::StartsWith;

TEST_F(CommandTest, TheLastLineOnStandardOutputIsTheResult) {
  Shell(R"(echo starting; echo '{"loss": 2, "step": 10}'; echo; echo '{"loss": 1.5, "step": 20, "checkpoint": "c"}';
           echo '{"loss": 0.5}'; echo done)");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.5);
  EXPECT_EQ(outcome.measurement.step, 21);
  EXPECT_EQ(outcome.checkpoint, "c");
  ASSERT_THAT(sink_.reports, SizeIs(2));
  EXPECT_EQ(sink_.reports[0].step, 10);
  EXPECT_EQ(sink_.reports[1].metrics.at("loss"), 1.5);
  EXPECT_THAT(sink_.checkpoints, ElementsAre("c"));
  EXPECT_THAT(outcome.output_tail, AllOf(StartsWith("starting\n"), HasSubstr("done")));
  EXPECT_THAT(temporary_.Files(), IsEmpty()) << "the private directory is gone";
}

TEST_F(CommandTest, TheResultDescriptorWorksFromPython) {
  LUTHIER_NEEDS_PYTHON();
  Python(R"(
import json, os
with os.fdopen(int(os.environ["LUTHIER_RESULT_FD"]), "w") as out:
    for step in range(3):
        print(json.dumps({"metrics": {"loss": 1.0 / (step + 1), "acc": float("inf")}, "step": step}), file=out)
    print(json.dumps({"loss": 0.125, "step": 3, "gradient": [0.5, -1.0]}), file=out)
print("hello")
)");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.125);
  EXPECT_THAT(outcome.measurement.gradient->values, ElementsAre(0.5, -1.0));
  ASSERT_THAT(sink_.reports, SizeIs(3));
  EXPECT_EQ(sink_.reports[2].step, 2);
  EXPECT_TRUE(std::isinf(sink_.reports[0].metrics.at("acc")));
  EXPECT_EQ(outcome.output_tail, "hello\n");
}

TEST_F(CommandTest, AFinalLineEndsTheStory) {
  Shell(R"(echo '{"loss": 1}'; echo '{"loss": 2, "final": true}'; echo '{"loss": 3}')");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 2.0);
  EXPECT_THAT(sink_.reports, SizeIs(1));
  EXPECT_THAT(outcome.output_tail, HasSubstr("[luthier-worker] lines after the final one are ignored"));
}

TEST_F(CommandTest, APrunedLinePrunes) {
  Shell(R"(echo '{"loss": 1, "pruned": true}')");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPruned);
  EXPECT_EQ(outcome.measurement.metrics.at("loss"), 1.0);
}

TEST_F(CommandTest, ANotANumberResultIsReportedAsItIs) {
  LUTHIER_NEEDS_PYTHON();
  Python("import json\nprint(json.dumps({'loss': float('nan')}))\n");
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete);
  EXPECT_TRUE(std::isnan(outcome.measurement.metrics.at("loss")));
}

TEST_F(CommandTest, AMissingResultNamesWhatAlmostWasOne) {
  Shell("true");
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "NO_RESULT");
  EXPECT_THAT(outcome.failure.message, HasSubstr("no result line such as {\"loss\": 0.5}; it printed nothing"));
  Shell("echo loss=0.25; echo");
  EXPECT_THAT(Run().failure.message, HasSubstr("; its last line was \"loss=0.25\""));
  Shell(R"(echo '{"metrics": {"los": 1}}')");
  outcome = Run();
  ExpectFailure(outcome, kConfig, "NO_RESULT");
  EXPECT_THAT(outcome.failure.message, HasSubstr("line 1 of standard output"));
}

TEST_F(CommandTest, AFurtherMetricThatIsNoNumberIsNamed) {
  request_.spec.metrics = {{.name = "loss", .goal = study::Goal::kMinimize}, {.name = "ms", .at_most = 20.0}};
  for (const char* value : {R"("2")", "true", "null"}) {
    Shell(absl::StrCat(R"(echo '{"loss": 1, "ms": )", value, "}'"));
    const RunOutcome outcome = Run();
    ExpectFailure(outcome, kConfig, "BAD_OUTPUT");
    EXPECT_THAT(outcome.failure.message, HasSubstr("\"ms\", a metric of the study, is not a number in the result"));
  }
  Shell(R"(echo '{"ms": 1}')");
  const RunOutcome none = Run();
  ExpectFailure(none, kConfig, "NO_RESULT");
  EXPECT_THAT(none.failure.message, HasSubstr("no result line such as {\"loss\": 0.5, \"ms\": 0.5}; "));
}

TEST_F(CommandTest, ANewerLineThatCannotBeReadNeverGivesWayToAnOlderOne) {
  for (const char* last :
       {R"({"loss": "0.2", "step": 2})", R"({"loss": 0.2, "step": 1.5})", R"({"loss": [0.2]})", R"({"loss": true})",
        R"({"loss": 0.2 "step": 2})", R"({"loss": 0.2, "loss": 0.3})", R"({"metrics": {"loss": "x"}})", "{'loss': 0.2}",
        R"(result {"loss": 0.2})", "{\"loss\": 0.2\xff}", R"([{"loss": 0.2}])", "{\n \"loss\": \"0.2\"\n}"}) {
    Shell(absl::StrCat(R"(echo '{"loss": 9, "step": 1}'; echo ')", absl::StrReplaceAll(last, {{"'", "'\\''"}}),
                       "'; echo done"));
    const RunOutcome outcome = Run();
    ExpectFailure(outcome, kConfig, "BAD_OUTPUT");
    EXPECT_THAT(outcome.failure.message, HasSubstr(" of standard output, ")) << last;
  }
  Shell(R"(echo '{"loss": 9}'; printf '{"loss": 0.2, "st')");
  ExpectFailure(Run(), kConfig, "BAD_OUTPUT");
  for (const char* last :
       {R"(step 3: {'\''loss'\'': 0.2})", R"(cb({"loss": 0.2});)", "{\n \"epoch\": 3,\n \"loss\": 0.2,"}) {
    Shell(absl::StrCat(R"(echo '{"loss": 9}'; echo ')", last, "'"));
    ExpectFailure(Run(), kConfig, "BAD_OUTPUT");
  }
  Shell(R"(echo '{"loss": 9}'; printf '{"step": 2, "lo')");
  ExpectFailure(Run(), kConfig, "BAD_OUTPUT");
  Shell(R"(echo '{"loss": "0.2", "final": true}'; echo '{"loss": 9}')");
  ExpectFailure(Run(), kConfig, "BAD_OUTPUT");
}

TEST_F(CommandTest, ALineThatCannotBeReadGivesWayToANewerOne) {
  Shell(
      R"(echo '{"loss": "mse", "optimizer": "sgd"}'; echo '{"loss": 0.5, "step": 1}'; echo 'INFO {"loss": 0.50001}')");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.5);
  EXPECT_THAT(outcome.output_tail, HasSubstr("loss: is not a number; it is left out, as a result follows"));
}

TEST_F(CommandTest, AProgressBarBeforeTheResultIsNoObstacle) {
  Shell(R"(echo '{"loss": 9}'; printf ' 50%%|##   | 1/2\r{"loss": 0.25}\n')");
  ExpectLoss(Run(), 0.25);
  Shell(R"(echo '{"loss": 9}'; printf '\r 50%%|##   | 1/2\r 100%%|####| 2/2 [00:01]{"loss": 0.125}\r\n')");
  ExpectLoss(Run(), 0.125);
}

TEST_F(CommandTest, WithTheDescriptorStandardOutputIsFree) {
  Shell(R"(echo '{"loss": 0.5}' >&3; sleep .1; echo '{"loss": "mse"}')");
  ExpectLoss(Run(), 0.5);
  Shell(R"(echo '{"loss": 0.5}' >&3; sleep .1; echo '{"loss": 0.2}')");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 0.5);
  EXPECT_THAT(outcome.output_tail, HasSubstr("results on standard output are left out"));
}

TEST_F(CommandTest, ALineInWhichTheProgramWasStoppedIsNotHeldAgainstIt) {
  options_.grace = absl::Milliseconds(50);
  options_.hold = absl::ZeroDuration();
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kFinish); };
  Shell(R"(trap '' TERM; exec 4<&-; echo '{"loss": 3, "step": 2}'; printf '{"loss": '; while :; do sleep 600; done)");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPruned) << outcome.failure.message;
  EXPECT_EQ(outcome.measurement.metrics.at("loss"), 3.0);
}

TEST_F(CommandTest, AMalformedLineOnTheDescriptorEndsTheRunAtOnce) {
  Shell(R"(echo '{"los": 1}' >&3; exec sleep 600)");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OUTPUT");
  EXPECT_THAT(outcome.failure.message,
              HasSubstr("line 1 of the results, \"{\\\"los\\\": 1}\": has no number \"loss\""));
  Shell(R"(echo '{"loss": "x"}' >&3; exit 3)");  // It ends before, or after, it is stopped.
  ExpectFailure(Run(), kConfig, "BAD_OUTPUT");
}

TEST_F(CommandTest, AResultWithoutItsStepIsTakenAsTheTargets) {
  request_.target_step = 9;
  Shell(R"(echo '{"loss": 1}')");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPaused);
  EXPECT_EQ(outcome.measurement.step, 9);
  EXPECT_THAT(outcome.output_tail, HasSubstr("is taken as that of the target, step 9"));
  Shell(R"(echo '{"loss": 1, "step": 4, "complete": true}')");
  const RunOutcome early = Run();
  EXPECT_EQ(early.result, RunResult::kComplete);
  EXPECT_EQ(early.measurement.step, 4);
}

TEST_F(CommandTest, HugeOutputTakesNoMemory) {
  // 100 MB without a line end, 20 MB of short lines, and 100 MB on standard error.
  Shell(R"(head -c 100000000 /dev/zero; echo; yes | head -c 20000000; head -c 100000000 /dev/zero >&2;
           echo '{"loss": 1}')");
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const RunOutcome outcome = Run();
  getrusage(RUSAGE_SELF, &after);
  ExpectLoss(outcome, 1.0);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 60 * 1024) << "KiB";
  EXPECT_LE(outcome.output_tail.size(), 4096u);
}

TEST_F(CommandTest, ALineWithoutEndOnTheDescriptorIsBadOutput) {
  Shell("head -c 20000000 /dev/zero >&3; echo >&3; exec sleep 600");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OUTPUT");
  EXPECT_THAT(outcome.failure.message, HasSubstr("is longer than"));
}

TEST_F(CommandTest, TheHeldLineIsReportedWhenTimePasses) {
  options_.hold = absl::Milliseconds(1);
  // Ends when its first line has been reported.
  const std::string go = temporary_.path() + "/go";
  Shell(absl::StrCat("echo '{\"loss\": 1}'; until [ -e ", go, " ]; do :; done"));
  sink_.on_report = [&] { temporary_.Write("go", ""); };
  ExpectLoss(Run(), 1.0);
  EXPECT_THAT(sink_.reports, SizeIs(1));
}

TEST_F(CommandTest, TheTrainingOfAResultArrives) {
  Shell(R"(echo '{"loss": 1, "training": {"outcome": "limit", "gradient_norm": 0.5}, "gradient_seconds": 2}')");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 1.0);
  EXPECT_EQ(outcome.measurement.training, (study::TrainingReport{study::TrainingOutcome::kLimit, 0.5, std::nullopt}));
  EXPECT_EQ(outcome.measurement.gradient_seconds, 2.0);
  // What is malformed costs itself alone.
  Shell(R"(echo '{"loss": 1, "training": "tired"}')");
  const RunOutcome odd = Run();
  ExpectLoss(odd, 1.0);
  EXPECT_FALSE(odd.measurement.training.has_value());
  EXPECT_THAT(odd.output_tail, HasSubstr("training is left out: \"tired\" is not one of"));
}

TEST_F(CommandTest, ASlopeThatNobodyAskedForIsLeftOutAndTheLossIsKept) {
  Shell(R"(test -z "$LUTHIER_DIRECTION_FILE" && echo '{"loss": 1, "gradient": {"slope": 0.25}}')");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 1.0);
  EXPECT_FALSE(outcome.measurement.gradient.has_value());
  EXPECT_THAT(outcome.output_tail, HasSubstr("a slope without a direction is left out"));
}

}  // namespace
}  // namespace luthier::worker
