#include "worker/objectives/command_run.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "tests/testing/python.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

TEST_F(CommandTest, AHangingProgramTimesOut) {
  Shell("exec sleep 600").timeout = absl::Milliseconds(50);
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "TIMEOUT");
  EXPECT_EQ(outcome.failure.message, "no result after 50ms");
}

TEST_F(CommandTest, AProgramThatIgnoresSigtermIsKilledAfterTheGrace) {
  options_.grace = absl::Milliseconds(50);
  Shell("trap '' TERM; while :; do sleep 600; done").timeout = absl::Milliseconds(50);
  ExpectFailure(Run(), kConfig, "TIMEOUT");
}

TEST_F(CommandTest, AStopLetsTheProgramSaveItsWork) {
  LUTHIER_NEEDS_PYTHON();
  options_.hold = absl::ZeroDuration();
  Python(R"(
import signal, sys
def save(*_):
    print('{"checkpoint": "saved"}', flush=True, file=open(3, "w"))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('{"loss": 1}', flush=True)
while True: signal.pause()
)");
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kDrain); };
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kStopped);
  EXPECT_EQ(outcome.checkpoint, "saved");
  EXPECT_THAT(sink_.checkpoints, ElementsAre("saved"));
}

TEST_F(CommandTest, ATargetIsHandedOnAndReachedByTheProgramItself) {
  request_.target_step = 9;
  Shell(R"(test "$LUTHIER_TARGET_STEP" = 9 && echo '{"loss": 1, "step": 9, "checkpoint": "c9", "start_step": 3}')");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPaused);
  EXPECT_EQ(outcome.measurement.step, 9);
  EXPECT_EQ(outcome.checkpoint, "c9");
  EXPECT_THAT(sink_.started, ElementsAre(3));
  Command({"sh", "-c", "test $0 = 9 && echo '{{\"loss\": 1}}'", "{luthier.target_step}"});
  EXPECT_EQ(Run().result, RunResult::kPaused);
  // Without a target the argument is left out.
  request_.target_step = 0;
  Command(
      {"sh", "-c", "test -z $LUTHIER_TARGET_STEP && test $0 = sh && echo '{{\"loss\": 1}}'", "{luthier.target_step}"});
  ExpectLoss(Run(), 1.0);
}

TEST_F(CommandTest, AProgramThatPassesItsTargetIsAskedToPauseAndMaySaveItsWork) {
  LUTHIER_NEEDS_PYTHON();
  request_.target_step = 2;
  Python(R"(
import json, os, select
replies = open(int(os.environ["LUTHIER_REPLY_FD"]))
for step in range(10**9):
    print(json.dumps({"loss": 1.0 / (1 + step), "step": step}), flush=True)
    if select.select([replies], [], [], 20 if step >= 2 else 0)[0]:
        reply = json.loads(replies.readline())
        print(json.dumps({"checkpoint": "c%d-%s" % (step, reply["directive"])}), flush=True, file=open(3, "w"))
        break
)");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPaused);
  EXPECT_EQ(outcome.measurement.step, 2);
  EXPECT_EQ(outcome.checkpoint, "c2-pause");
}

TEST_F(CommandTest, AProgramThatDoesNotListenIsTerminatedAndPaused) {
  options_.grace = options_.wish = absl::Milliseconds(50);
  request_.target_step = 2;
  Shell(R"(trap '' TERM; exec 4<&-; echo '{"loss": 1, "step": 2}'; while :; do sleep 600; done)");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPaused);
  EXPECT_EQ(outcome.measurement.step, 2);
  EXPECT_THAT(outcome.output_tail, HasSubstr("did not end at its target by itself"));
}

TEST_F(CommandTest, AProgramThatIsToFinishIsToldAndItsResultIsKept) {
  LUTHIER_NEEDS_PYTHON();
  options_.hold = absl::ZeroDuration();
  request_.target_step = 9;
  Python(R"(
import json
replies = open(4)
print('{"loss": 2, "step": 1}', flush=True)
reply = json.loads(replies.readline())
print(json.dumps({"loss": 1, "step": 2, "checkpoint": reply["directive"]}), flush=True)
)");
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kFinish); };
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPruned);
  EXPECT_EQ(outcome.measurement.step, 2);  // Not that of the target.
  EXPECT_EQ(outcome.measurement.metrics.at("loss"), 1.0);
  EXPECT_EQ(outcome.checkpoint, "finish");
}

TEST_F(CommandTest, AProgramThatDoesNotFinishIsTerminatedAndItsLastLineCounts) {
  options_.grace = options_.wish = absl::Milliseconds(50);
  options_.hold = absl::ZeroDuration();
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kFinish); };
  Shell(R"(trap '' TERM; exec 4<&-; echo '{"loss": 3, "step": 2}'; while :; do sleep 600; done)");
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kPruned);
  EXPECT_EQ(outcome.measurement.step, 2);
  EXPECT_THAT(outcome.output_tail, HasSubstr("did not end when it was asked to"));
}

TEST_F(CommandTest, AProgramThatFinishesWithoutAResultIsNoFailure) {
  sink_.on_checkpoint = [this] { sink_.stop_.Request(StopReason::kFinish); };
  Shell(R"(echo '{"checkpoint": "c"}' >&3; read -r line <&4)");
  EXPECT_EQ(Run().result, RunResult::kStopped);
}

TEST_F(CommandTest, AStopReplacesAPause) {
  LUTHIER_NEEDS_PYTHON();
  options_.hold = absl::ZeroDuration();
  Python(R"(
import json, os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
replies = open(4)
print('{"loss": 1, "step": 1}', flush=True)
first = json.loads(replies.readline())["directive"]
print(json.dumps({"loss": 2, "step": 2}), flush=True)
print(first, json.loads(replies.readline()), flush=True)
)");
  sink_.on_report = [this] { sink_.stop_.Request(sink_.reports.size() == 1 ? StopReason::kPause : StopReason::kLost); };
  const RunOutcome outcome = Run();
  EXPECT_EQ(outcome.result, RunResult::kStopped);
  EXPECT_THAT(outcome.output_tail, HasSubstr("pause {'directive': 'stop', 'reason': 'lost'}"));
}

TEST_F(CommandTest, AStopBeforeTheStartStartsNothing) {
  Command({"luthier-no-such-program"});
  sink_.stop_.Request(StopReason::kLost);
  EXPECT_EQ(Run().result, RunResult::kStopped);
}

}  // namespace
}  // namespace luthier::worker
