#include "worker/objectives/command_inputs.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/python.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::Not;

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

TEST_F(CommandTest, AVariableThatWasKeptBackIsNamedWhenItIsMissed) {
  setenv("COMMAND_SECRET", "kept back", 1);
  Shell("echo \"KeyError: 'COMMAND_SECRET'\" >&2; exit 1");
  const RunOutcome outcome = Run();
  unsetenv("COMMAND_SECRET");
  EXPECT_THAT(outcome.output_tail, HasSubstr("--env-allow COMMAND_SECRET"));
  EXPECT_THAT(outcome.output_tail, Not(HasSubstr("kept back")));
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

TEST(ParameterVariable, IsUpperCaseWithUnderscores) {
  EXPECT_EQ(ParameterVariable("net.depth_2"), "LUTHIER_PARAM_NET_DEPTH_2");
}

}  // namespace
}  // namespace luthier::worker
