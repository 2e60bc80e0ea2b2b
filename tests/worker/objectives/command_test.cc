#include "worker/objectives/command.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lib/base/clock.h"
#include "tests/testing/python.h"
#include "tests/worker/testing.h"
#include "worker/objectives/keeper.h"
#include "worker/objectives/process.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    options_.temporary_root = temporary_.path();
    options_.grace = absl::Seconds(20);        // Tests that want SIGKILL make it tiny.
    options_.hold = absl::InfiniteDuration();  // Which points are intermediate is then no matter of speed.
    request_.study = "demo";
    request_.trial = 3;
    request_.attempt = 2;
    request_.seed = 77;
    request_.spec.metric.name = "loss";
    request_.spec.space = study::SearchSpace::Create({{"lr", study::FloatRange{}, {}, {}},
                                                      {"opt.depth", study::IntRange{1, 9}, {}, {}},
                                                      {"kind", study::CategoricalLabels{{"a b", "c"}}, {}, {}},
                                                      {"fast", study::BoolSwitch{}, {}, {}},
                                                      {"absent", study::FloatRange{}, {}, {}}})
                              .value();
    request_.parameters = {{"lr", 0.25}, {"opt.depth", 4.0}, {"kind", "a b"}, {"fast", true}};
  }

  study::CommandObjective& Command(std::vector<std::string> argv) {
    request_.spec.objective = study::CommandObjective{std::move(argv), {}, absl::InfiniteDuration(), 0, {}};
    return std::get<study::CommandObjective>(request_.spec.objective);
  }
  // No placeholders in these scripts: every brace is itself.
  study::CommandObjective& Shell(const std::string& script) {
    return Command({"sh", "-c", absl::StrReplaceAll(script, {{"{", "{{"}, {"}", "}}"}})});
  }
  study::CommandObjective& Python(const std::string& script) {
    return Command({testing::kPython, "-S", temporary_.Write("script.py", script)});
  }
  RunOutcome Run() {
    CommandRunner runner(keeper_.get(), options_);
    return runner.Run(request_, &sink_);
  }
  void ExpectFailure(const RunOutcome& outcome, study::FailureKind kind, const std::string& reason) {
    EXPECT_EQ(outcome.result, RunResult::kFailed);
    EXPECT_EQ(outcome.failure.kind, kind) << outcome.failure.message;
    EXPECT_EQ(outcome.failure.reason, reason) << outcome.failure.message;
  }
  void ExpectLoss(const RunOutcome& outcome, double loss) {
    ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.reason << " " << outcome.failure.message;
    EXPECT_EQ(outcome.measurement.metrics.at("loss"), loss);
  }

  const std::unique_ptr<Keeper> keeper_ = Keeper::Start().value();
  TemporaryDirectory temporary_;
  CommandOptions options_;
  RunRequest request_;
  RecordingSink sink_;
};

constexpr study::FailureKind kConfig = study::FailureKind::kConfig;
constexpr study::FailureKind kInfra = study::FailureKind::kInfra;

TEST_F(CommandTest, OpenLooksForTheProgram) {
  CommandRunner runner(keeper_.get(), options_);
  Command({"sh", "-c", "exit 1"});
  EXPECT_TRUE(runner.Open(request_.spec).ok());
  Command({"no-such-program"});
  EXPECT_TRUE(absl::IsNotFound(runner.Open(request_.spec)));
  EXPECT_THAT(std::string(runner.Open(request_.spec).message()), StartsWith("objective.command.argv[0]: "));
  Command({"no-such-{kind}"});  // Only a trial can tell.
  EXPECT_TRUE(runner.Open(request_.spec).ok());
  Command({"no-such-program"}).environment["PATH"] = "/somewhere";
  EXPECT_TRUE(runner.Open(request_.spec).ok());
}

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

TEST_F(CommandTest, ArgumentsEnvironmentAndFileCarryTheParameters) {
  LUTHIER_NEEDS_PYTHON();
  request_.resume_checkpoint = "old";
  request_.resume_step = 9;
  setenv("LUTHIER_TOKEN", "secret", 1);
  setenv("COMMAND_TEST_VARIABLE", "kept", 1);
  setenv("COMMAND_SECRET", "kept back", 1);
  options_.environment_allowed = {"COMMAND_TEST_*"};
  study::CommandObjective& command =
      Command({testing::kPython, "-S", temporary_.Write("script.py", R"(
import json, os, sys
own = {k: v for k, v in os.environ.items() if k.startswith("LUTHIER_")}
own.pop("LUTHIER_PARAMETERS_FILE")
with open(os.environ["LUTHIER_PARAMETERS_FILE"]) as f: parameters = f.read()
os.write(2, (json.dumps([sys.argv[1:], own, parameters, os.environ["EXTRA"], "DROPPED" in os.environ,
                  os.environ["COMMAND_TEST_VARIABLE"], os.stat(os.path.dirname(
                  os.environ["LUTHIER_PARAMETERS_FILE"])).st_mode & 0o777]) + "\n").encode())
print('{"loss": 1}')
)"),
               "--lr={lr}", "{kind}", "{{x}}", "--a={absent}", "{luthier.study}/{luthier.trial}/{luthier.attempt}",
               "--resume={luthier.checkpoint}@{luthier.checkpoint_step}", "{fast}"});
  command.environment = {{"EXTRA", "{opt.depth}!"}, {"DROPPED", "{absent}"}};
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 1.0);
  const std::vector<std::string> lines = absl::StrSplit(outcome.output_tail, '\n');
  nlohmann::json seen;
  for (const std::string& line : lines) {
    if (!line.empty() && line[0] == '[') seen = nlohmann::json::parse(line);
  }
  EXPECT_EQ(seen[0], (nlohmann::json{"--lr=0.25", "a b", "{x}", "demo/3/2", "--resume=old@9", "true"}));
  EXPECT_EQ(seen[1], (nlohmann::json{{"LUTHIER_PARAM_LR", "0.25"},
                                     {"LUTHIER_METRIC", "loss"},
                                     {"LUTHIER_PARAM_OPT_DEPTH", "4"},
                                     {"LUTHIER_PARAM_KIND", "a b"},
                                     {"LUTHIER_PARAM_FAST", "true"},
                                     {"LUTHIER_TRIAL", "3"},
                                     {"LUTHIER_STUDY", "demo"},
                                     {"LUTHIER_ATTEMPT", "2"},
                                     {"LUTHIER_SEED", "77"},
                                     {"LUTHIER_CHECKPOINT", "old"},
                                     {"LUTHIER_CHECKPOINT_STEP", "9"},
                                     {"LUTHIER_GRADIENT", "full"},
                                     {"LUTHIER_RESULT_FD", "3"},
                                     {"LUTHIER_REPLY_FD", "4"}}));
  EXPECT_EQ(nlohmann::json::parse(seen[2].get<std::string>()),
            (nlohmann::json{{"lr", 0.25}, {"opt.depth", 4}, {"kind", "a b"}, {"fast", true}}));
  EXPECT_EQ(seen[3], "4!");
  EXPECT_EQ(seen[4], false);
  EXPECT_EQ(seen[5], "kept");
  EXPECT_EQ(seen[6], 0700);
  unsetenv("LUTHIER_TOKEN");
  unsetenv("COMMAND_TEST_VARIABLE");
  unsetenv("COMMAND_SECRET");
}

TEST_F(CommandTest, NamesThatShareAVariableGetNone) {
  request_.spec.space = study::SearchSpace::Create({{"a.b", study::FloatRange{}, {}, {}},
                                                    {"A_b", study::FloatRange{}, {}, {}},
                                                    {"c", study::FloatRange{}, {}, {}}})
                            .value();
  request_.parameters = {{"a.b", 0.1}, {"A_b", 0.2}, {"c", 0.3}};
  Shell(R"(echo "{\"loss\": 1${LUTHIER_PARAM_A_B}, \"c\": $LUTHIER_PARAM_C}")");
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 1.0);
  EXPECT_EQ(outcome.measurement.metrics.at("c"), 0.3);
}

TEST_F(CommandTest, NothingButFiveDescriptorsAndNoBlockedSignalIsInherited) {
  LUTHIER_NEEDS_PYTHON();
  const int leak = dup(STDERR_FILENO);  // Without O_CLOEXEC, as a careless library would open one.
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &block, &before);
  signal(SIGPIPE, SIG_IGN);
  Python(R"(
import json, os, signal
fds = []
for fd in range(256):
    try:
        os.fstat(fd); fds.append(fd)
    except OSError: pass
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"loss": len(fds), "last": fds[-1], "blocked": int(status["SigBlk"], 16),
                  "session": int(os.getsid(0) == os.getpid()), "rights": int(status["NoNewPrivs"])}))
print(status["SigIgn"].strip(), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
print(os.getpgid(0) == os.getpid(), os.read(0, 1) == b"")
)");
  const RunOutcome outcome = Run();
  signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(leak);
  ExpectLoss(outcome, 5.0);
  EXPECT_EQ(outcome.measurement.metrics.at("last"), 4.0);
  EXPECT_EQ(outcome.measurement.metrics.at("blocked"), 0.0);
  EXPECT_EQ(outcome.measurement.metrics.at("session"), 1.0);
  EXPECT_EQ(outcome.measurement.metrics.at("rights"), 1.0) << "none can be gained";
  // Python itself ignores SIGPIPE (bit 12) and SIGXFSZ (bit 24), nothing else.
  EXPECT_THAT(outcome.output_tail, HasSubstr("0000000001001000 True\nTrue True\n"));
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

TEST_F(CommandTest, AFailingProgramIsReportedWithTheTailOfItsErrors) {
  Shell(
      R"(echo '{"loss": 1}'; i=0; while [ $i -lt 400 ]; do echo "line $i of stderr é" >&2; i=$((i+1)); done; exit 3)");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "EXIT_CODE");
  EXPECT_THAT(outcome.failure.message, StartsWith("exit code 3\n"));
  EXPECT_THAT(outcome.failure.message, HasSubstr("line 399 of stderr é"));
  EXPECT_LE(outcome.failure.message.size(), 4096u);
  EXPECT_GT(outcome.failure.message.size(), 4000u);
  EXPECT_LE(outcome.output_tail.size(), 4096u);
  EXPECT_THAT(sink_.reports, SizeIs(1)) << "its curve is kept";
}

TEST_F(CommandTest, ExitCode75MeansTryAgain) {
  Shell("exit 75");
  ExpectFailure(Run(), kInfra, "EXIT_CODE");
}

TEST_F(CommandTest, SignalsAreTold) {
  Shell("kill -SEGV $$");
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "SIGNAL");
  EXPECT_EQ(outcome.failure.message, "killed by SIGSEGV");
  Shell("kill -KILL $$");
  outcome = Run();
  ExpectFailure(outcome, kConfig, "SIGNAL");
  EXPECT_THAT(outcome.failure.message, HasSubstr("ran out of memory"));
  Shell("kill -TERM $$");
  ExpectFailure(Run(), kInfra, "SIGNAL");
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

TEST_F(CommandTest, MissingAndUnfitProgramsAreBadObjectives) {
  Command({"luthier-no-such-program"});
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr("in the worker's PATH"));
  Command({"/no/such/program"});
  ExpectFailure(Run(), kConfig, "BAD_OBJECTIVE");
  const std::string text = temporary_.Write("text", "echo hello\n");
  Command({text});
  outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr("chmod +x"));
  std::filesystem::permissions(text, std::filesystem::perms::owner_all);
  outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr("#!/usr/bin/env python3"));
  temporary_.Write("text", "#!/no/such/interpreter\n");
  outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr("interpreter"));
  Command({"sh", "{lr"});
  ExpectFailure(Run(), kConfig, "BAD_OBJECTIVE");
  Command({"sh", "-c", "true", std::string(200000, 'x')});
  outcome = Run();
  ExpectFailure(outcome, kConfig, "BAD_OBJECTIVE");
  EXPECT_THAT(outcome.failure.message, HasSubstr("too long"));
  request_.parameters["kind"] = std::string("a\0b", 3);
  Command({"sh", "{kind}"});
  ExpectFailure(Run(), kConfig, "BAD_OBJECTIVE");
}

TEST_F(CommandTest, NoDirectoryForTheParametersIsTheWorkersFault) {
  options_.temporary_root = "/no/such/directory";
  Shell("true");
  ExpectFailure(Run(), kInfra, "WORKER_ERROR");
}

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
  options_.grace = absl::Milliseconds(50);
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
  options_.grace = absl::Milliseconds(50);
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

// Whether a process is gone, or a zombie that only waits for its parent.
bool Gone(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

TEST_F(CommandTest, GrandchildrenDieWithTheRun) {
  // The grandchild keeps standard output open: waiting for its end would take for ever.
  Shell(R"(sleep 600 & echo "{\"loss\": $!}")");
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete);
  EXPECT_TRUE(Gone(static_cast<pid_t>(outcome.measurement.metrics.at("loss"))));
}

TEST_F(CommandTest, DaemonsDieWithTheRun) {
  Shell(R"(file=$LUTHIER_PARAMETERS_FILE.daemon; export file
           setsid sh -c 'trap "" TERM; (setsid sleep 600 &); echo $$ > $file; sleep 600' > /dev/null 2>&1 &
           while [ ! -s $file ]; do :; done; echo "{\"loss\": $(cat $file)}")");
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_TRUE(Gone(static_cast<pid_t>(outcome.measurement.metrics.at("loss"))));
}

TEST_F(CommandTest, AProgramThatKillsItsSupervisorDiesAndIsTriedAgain) {
  Shell("kill -9 $PPID; sleep 600");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kInfra, "WORKER_ERROR");
  EXPECT_THAT(outcome.failure.message, HasSubstr("was killed"));
}

TEST_F(CommandTest, AKeeperThatIsKilledIsReplaced) {
  const pid_t before = keeper_->pid();
  kill(before, SIGKILL);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(before), &info, WEXITED | WNOWAIT), 0);
  Shell(R"(echo '{"loss": 1}')");
  ExpectLoss(Run(), 1.0);
  EXPECT_NE(keeper_->pid(), before);
}

TEST_F(CommandTest, AKeeperThatIsKilledEndsItsRuns) {
  options_.hold = absl::ZeroDuration();
  Shell(R"(trap '' TERM; echo '{"loss": 1}'; sleep 600; sleep 600)");
  sink_.on_report = [&] { kill(keeper_->pid(), SIGKILL); };
  ExpectFailure(Run(), kInfra, "WORKER_ERROR");
}

TEST_F(CommandTest, AVariableThatWasKeptBackIsNamedWhenItIsMissed) {
  setenv("COMMAND_SECRET", "kept back", 1);
  Shell("echo \"KeyError: 'COMMAND_SECRET'\" >&2; exit 1");
  const RunOutcome outcome = Run();
  unsetenv("COMMAND_SECRET");
  EXPECT_THAT(outcome.output_tail, HasSubstr("--env-allow COMMAND_SECRET"));
  EXPECT_THAT(outcome.output_tail, Not(HasSubstr("kept back")));
}

TEST_F(CommandTest, GrandchildrenDieWhenStopped) {
  options_.hold = absl::ZeroDuration();
  options_.grace = absl::Milliseconds(50);
  Shell(R"(trap '' TERM; sleep 600 & echo "{\"loss\": $!}"; wait; wait)");
  sink_.on_report = [this] { sink_.stop_.Request(StopReason::kCancelled); };
  EXPECT_EQ(Run().result, RunResult::kStopped);
  EXPECT_TRUE(Gone(static_cast<pid_t>(sink_.reports.at(0).metrics.at("loss"))));
}

TEST_F(CommandTest, AbortKillsAtOnce) {
  options_.hold = absl::ZeroDuration();
  CommandRunner runner(keeper_.get(), options_);
  Shell(R"(trap '' TERM; echo '{"loss": 1}'; while :; do sleep 600; done)");
  sink_.on_report = [&] { runner.Abort(); };
  ExpectFailure(runner.Run(request_, &sink_), kConfig, "SIGNAL");
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

TEST_F(CommandTest, MemoryLimits) {
  LUTHIER_NEEDS_PYTHON();
  Python("x = bytearray(1 << 30)\n").memory_limit_bytes = 256 << 20;
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "MEMORY_LIMIT");
  EXPECT_THAT(outcome.failure.message, AllOf(HasSubstr("MemoryError"), HasSubstr("memory limit of 256 MiB")));
  Shell("kill -ABRT $$").memory_limit_bytes = 256 << 20;
  ExpectFailure(Run(), kConfig, "MEMORY_LIMIT");
  Shell("exit 1").memory_limit_bytes = 256 << 20;
  ExpectFailure(Run(), kConfig, "EXIT_CODE");
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

TEST_F(CommandTest, EachSlotSeesItsOwnGpu) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  Shell(R"(echo "{\"loss\": ${CUDA_VISIBLE_DEVICES:--1}}"; echo "$CUDA_DEVICE_ORDER")").environment = {
      {"CUDA_VISIBLE_DEVICES", "7"}};
  ExpectLoss(Run(), 7.0);  // Without --gpus it is the study's business.
  options_.gpus = {"0", "2"};
  for (const auto& [slot, gpu] : {std::pair(0, 0.0), std::pair(1, 2.0)}) {
    request_.slot = slot;
    const RunOutcome outcome = Run();
    ExpectLoss(outcome, gpu);
    EXPECT_THAT(outcome.output_tail, HasSubstr("PCI_BUS_ID"));
  }
}

TEST_F(CommandTest, ManyRunsAtOnceDoNotMixTheirPipes) {
  CommandRunner runner(keeper_.get(), options_);
  Shell(R"(echo "{\"loss\": $LUTHIER_TRIAL}")");
  std::vector<std::thread> threads;
  std::vector<double> losses(8, 0.0);
  for (int k = 0; k < 8; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < 5; ++round) {
        RunRequest request = request_;
        request.trial = 100 * k + round;
        RecordingSink sink;
        losses[k] += runner.Run(request, &sink).measurement.metrics["loss"];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int k = 0; k < 8; ++k) EXPECT_EQ(losses[k], 500.0 * k + 10.0);
}

TEST_F(CommandTest, AnAskedDirectionIsAFileAndMayBeAnsweredByASlopeAlone) {
  request_.direction = {0.5, -0.1};
  Command({"sh", "-c",
           "cat \"$LUTHIER_DIRECTION_FILE\"; test \"$0\" = \"$LUTHIER_DIRECTION_FILE\" && "
           "echo '{{\"loss\": 1, \"gradient\": {{\"slope\": 0.25}}}}'",
           "{luthier.direction_file}"});
  const RunOutcome outcome = Run();
  ExpectLoss(outcome, 1.0);
  EXPECT_THAT(outcome.output_tail, HasSubstr("[0.5,-0.1]\n"));
  ASSERT_TRUE(outcome.measurement.gradient.has_value());
  EXPECT_THAT(outcome.measurement.gradient->direction, ElementsAre(0.5, -0.1));
  EXPECT_EQ(outcome.measurement.gradient->slope, 0.25);
}

TEST_F(CommandTest, TheProgramIsToldWhichGradientIsRead) {
  for (const study::GradientUse use :
       {study::GradientUse::kNone, study::GradientUse::kFull, study::GradientUse::kDirectional}) {
    request_.gradient = use;
    Command({"sh", "-c", "echo \"$LUTHIER_GRADIENT $0.\"; echo '{{\"loss\": 1}}'", "{luthier.gradient}"});
    const RunOutcome outcome = Run();
    ExpectLoss(outcome, 1.0);
    const absl::string_view name = study::GradientUseName(use);
    EXPECT_THAT(outcome.output_tail, HasSubstr(absl::StrCat(name, " ", name, ".\n")));
  }
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

TEST_F(CommandTest, TheExampleTrains) {
  LUTHIER_NEEDS_PYTHON();
  const char* source = getenv("LUTHIER_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "needs LUTHIER_SOURCE_DIR, which ctest sets";
  Command({testing::kPython, "-S", absl::StrCat(source, "/examples/command/train.py"), "--learning-rate={lr}",
           "--l2=0.1", "--momentum=0.9"});
  const RunOutcome outcome = Run();
  ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.message;
  EXPECT_LT(outcome.measurement.metrics.at("loss"), 0.69) << "better than guessing";
  EXPECT_EQ(outcome.measurement.step, 19);
  EXPECT_THAT(sink_.reports, SizeIs(19));
}

TEST(FindProgram, SearchesLikeAShell) {
  EXPECT_EQ(*FindProgram("sh", "/no/such:/bin"), "/bin/sh");
  EXPECT_EQ(*FindProgram("/bin/sh", ""), "/bin/sh");
  EXPECT_TRUE(absl::IsNotFound(FindProgram("sh", "/no/such").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(FindProgram("/etc/passwd", "").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(FindProgram("/", "").status()));
}

TEST(ParameterVariable, IsUpperCaseWithUnderscores) {
  EXPECT_EQ(ParameterVariable("net.depth_2"), "LUTHIER_PARAM_NET_DEPTH_2");
}

}  // namespace
}  // namespace luthier::worker
