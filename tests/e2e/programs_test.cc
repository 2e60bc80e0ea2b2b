// The programs as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/e2e/programs_fixture.h"
#include "tests/testing/python.h"
#include "tests/testing/subprocess.h"

namespace luthier {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CliTest : public testing::ProgramsFixture {
 protected:
  std::unique_ptr<Subprocess> StartWorker(const std::string& name, std::vector<std::string> extra = {},
                                          std::map<std::string, std::string> environment = {}) const {
    std::vector<std::string> argv = {Program("luthier-worker"), "--server", "unix:" + Path("socket"), "--name", name};
    argv.insert(argv.end(), extra.begin(), extra.end());
    Subprocess::Options options;
    options.output = Path("worker.log");
    options.environment = std::move(environment);
    options.directory = directory_.path();
    return std::make_unique<Subprocess>(argv, options);
  }

  // Parameters and metrics by trial number.
  static json Essence(const json& trials) {
    json essence = json::array();
    for (const json& t : trials) essence.push_back({t["number"], t["state"], t["parameters"], t["metrics"]});
    return essence;
  }
};

TEST_F(CliTest, RunTwiceWithOneSeedGivesTheSameTrials) {
  json essence[2];
  for (int i = 0; i < 2; ++i) {
    const std::string db = Path("db" + std::to_string(i));
    const CommandResult run = Luthier({"run", SourcePath("examples/logistic.yaml"), "--workers", "2", "--db", db,
                                       "--data-root", SourcePath(""), "-o", "json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const json summary = json::parse(run.out, nullptr, false);
    EXPECT_FALSE(summary.is_discarded()) << run.out;
    const json trials = LuthierJson({"trial", "list", "logistic", "--db", db, "-o", "json"});
    ASSERT_EQ(trials.size(), 40u);
    essence[i] = Essence(trials);
    for (const json& t : trials) {
      EXPECT_EQ(t["state"], "COMPLETE");
      EXPECT_TRUE(t["provenance"].is_object());
      EXPECT_EQ(t["attempts"].size(), 1u);
    }
    const CommandResult replay = Luthier({"verify-replay", "--db", db});
    EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  }
  EXPECT_EQ(essence[0], essence[1]);
}

TEST_F(CliTest, AFileThatMayNotGrowIsToldAndEndsNoProgramSilently) {
  const std::string study = Write("s.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
objective: {command: {argv: [echo, '{{"loss": {x}}}']}}
budget: {max_trials: 3}
)");
  Subprocess::Options options;
  options.directory = directory_.path();
  const CommandResult run = RunCommand(
      {"bash", "-c", "ulimit -f 16; exec \"$0\" \"$@\"", Program("luthier"), "run", study, "--db", Path("db")},
      options);
  EXPECT_NE(run.code, 0);
  EXPECT_LT(run.code, 128) << "it was ended by a signal";
  EXPECT_FALSE(run.err.empty());
}

// The main path with a data directory in a folder that people have: run, list, export, a coordinator with a worker,
// backup, replay.
TEST_F(CliTest, TheMainPathWorksInFoldersOfAnyName) {
  const std::string study = Write("s.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
objective: {command: {argv: [echo, '{{"loss": {x}}}']}}
budget: {max_trials: 3}
)");
  for (const std::string& name :
       {std::string("My Drive #1, 100% \xC3\xBC"), std::string("a?b\tc\nd'\"$(x)`*"), "d" + std::string(110, 'd')}) {
    SCOPED_TRACE(name);
    const std::string folder = Path(name);
    const std::string db = folder + "/data of mine", copy = folder + "/copy of it";
    std::filesystem::create_directory(folder);
    const auto run = [&](const std::vector<std::string>& args) {
      const CommandResult result = Luthier(args);
      EXPECT_EQ(result.code, 0) << args[0] << " " << args[1] << ": " << result.err;
      return result.out;
    };
    run({"run", study, "--db", db, "--workers", "1"});
    ASSERT_FALSE(HasFailure());
    EXPECT_THAT(run({"trial", "list", "s", "--db", db, "-o", "name"}), HasSubstr("trials/3"));
    const std::string socket = Path("short");
    Subprocess::Options options;
    options.output = Path("server.log");
    const Subprocess server({Program("luthierd"), "--listen", "unix:" + socket, "--data-dir", db}, options);
    WaitFor([&] { return Luthier({"study", "list", "--server", "unix:" + socket}).code == 0; }, "the server");
    if (db.size() < 100) {  // Else it has no socket there.
      run({"health", "--db", db});
      run({"study", "create", "-f", study, "--name", "t", "--db", db});
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(RunCommand({Program("luthier-worker"), "--server", "unix:" + db + "/socket", "--study", "t",
                            "--max-trials", "3"})
                    .code,
                0);
      EXPECT_THAT(run({"trial", "list", "t", "--server", "unix:" + db + "/socket", "-o", "name"}),
                  HasSubstr("trials/3"));
    }
    run({"study", "export", "s", "--server", "unix:" + socket, "--out", folder + "/t, 1.csv"});
    run({"admin", "backup", "--db", db, "--out", copy});
    run({"verify-replay", "--db", copy});
  }
}

TEST_F(CliTest, AnEditedScriptIsNoticed) {
  Write("s.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
objective: {command: {argv: [sh, t.sh, "{x}"]}}
budget: {max_trials: 2}
)");
  const auto run = [&](const std::string& result, std::vector<std::string> more) {
    Write("t.sh", "echo '{\"loss\": " + result + "}'\n");
    std::vector<std::string> args = {"run", "s.yaml", "--workers", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return Luthier(args);
  };
  const auto trials = [&](const std::string& study) {
    return LuthierJson({"trial", "list", study, "--db", "luthier.db.d", "-o", "json"}).size();
  };
  ASSERT_EQ(run("1", {}).code, 0);
  EXPECT_THAT(run("1", {}).err, ::testing::Not(HasSubstr("objective")));
  const CommandResult warned = run("2", {});
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_THAT(warned.err, HasSubstr("warning: the objective is another one than that of trials 1 to 2 of study s"));
  EXPECT_THAT(run("2", {"--if-changed", "continue"}).err, ::testing::Not(HasSubstr("another one")));
  const CommandResult refused = run("2", {"--if-changed", "raise"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--if-changed fresh goes on in a study of its own"));
  EXPECT_EQ(trials("s"), 2U);
  const CommandResult fresh = run("2", {"--if-changed", "fresh", "-o", "json"});
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_THAT(fresh.out, HasSubstr("\"loss\": 2"));
  EXPECT_EQ(trials("s-2"), 2U);
  EXPECT_EQ(run("2", {"--if-changed", "fresh"}).code, 0);
  EXPECT_THAT(run("2", {"--gpus", "1", "--slots", "2"}).err, HasSubstr("--gpus"));
}

TEST_F(CliTest, TheBestSettingBecomesAModelThatPredicts) {
  Write("small.yaml", R"(
space: [{name: l2, float: {min: 1.0e-3, max: 1.0e3, scale: LOG}}]
objective: {builtin: {model: logistic, data: data/breast_cancer.csv}}
metric: {name: validation_loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 3}
)");
  const std::string root = SourcePath("");
  ASSERT_EQ(Luthier({"run", "small.yaml", "--workers", "1", "--db", Path("db"), "--data-root", root}).code, 0);
  const json best = LuthierJson({"trial", "best", "small", "--db", Path("db"), "-o", "json"});
  const CommandResult trial = Luthier({"trial", "get", "small", "1", "--db", Path("db")});
  EXPECT_THAT(trial.out, HasSubstr("solver auto is "));

  const json trained = LuthierJson({"model", "train", "--study", "small", "--db", Path("db"), "--data-root", root,
                                    "--out", Path("m.lmodel"), "-o", "json"});
  EXPECT_EQ(trained["trial"], best["number"]);
  EXPECT_EQ(trained["settings"]["l2"], best["parameters"]["l2"]);
  EXPECT_EQ(trained["outcome"], "converged");
  EXPECT_EQ(LuthierJson({"model", "show", Path("m.lmodel"), "-o", "json"}), trained);

  const std::string data = SourcePath("data/breast_cancer.csv");
  const json measures = LuthierJson({"model", "evaluate", Path("m.lmodel"), "--data", data, "-o", "json"});
  EXPECT_GT(measures["metrics"]["accuracy"], 0.95);
  EXPECT_NEAR(measures["metrics"]["loss"].get<double>(), trained["metrics"]["train_loss"].get<double>(), 1e-9);
  const json predicted = LuthierJson({"model", "predict", Path("m.lmodel"), "--data", data, "-o", "json"});
  EXPECT_EQ(predicted.size(), trained["examples"]);
  EXPECT_THAT(Luthier({"model", "predict", Path("m.lmodel"), "--data", data, "-o", "csv"}).out,
              HasSubstr("row,label,p_"));

  std::ofstream(Path("cut.lmodel"), std::ios::binary) << "LUTHCKP1 and no more";
  const CommandResult cut = Luthier({"model", "show", Path("cut.lmodel")});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("is no model file, or it is damaged or cut off"));
  EXPECT_EQ(Luthier({"model", "show", Path("none.lmodel")}).code, 5);
  EXPECT_EQ(Luthier({"model", "train", "--out", Path("x")}).code, 2);
}

TEST_F(CliTest, KilledRunGoesOnWhereItWasAndEndsWithExactlyMaxTrials) {
  const std::string study = Write("slow.yaml", R"(
space:
  - {name: x1, float: {min: -5, max: 10}}
  - {name: x2, float: {min: 0, max: 15}}
objective: {builtin: {model: "function:branin", options: {delay: 0.03}}}
metric: {name: value, goal: MINIMIZE}
algorithm: {bo: {}}
budget: {max_trials: 40}
seed: 5
)");
  const std::string db = Path("db");
  const std::vector<std::string> argv = {Program("luthier"), "run", study, "--workers", "2", "--db", db};
  Subprocess::Options options;
  options.directory = directory_.path();
  options.output = Path("run.log");
  for (int kill = 0; kill < 3; ++kill) {
    Subprocess run(argv, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(400 + 150 * kill));
    run.Signal(SIGKILL);
    run.Wait();
  }
  Subprocess last(argv, options);
  ASSERT_EQ(last.Wait(), 0);
  const json trials = LuthierJson({"trial", "list", "slow", "--db", db, "-o", "json"});
  ASSERT_EQ(trials.size(), 40u);
  std::set<int> numbers;
  for (const json& t : trials) {
    EXPECT_EQ(t["state"], "COMPLETE");
    EXPECT_GE(t["attempts"].size(), 1u);
    numbers.insert(t["number"].get<int>());
  }
  EXPECT_EQ(numbers.size(), 40u);
  EXPECT_EQ(*numbers.rbegin(), 40);
  EXPECT_EQ(Luthier({"verify-replay", "--db", db}).code, 0);
}

TEST_F(CliTest, TrialsOfAKilledRunDoNotWaitForTheirLeases) {
  // The first attempt of each trial never ends.
  Write("once.sh", "[ -e seen-$1 ] || { touch seen-$1; sleep 600; }; echo '{\"loss\": 1}'\n");
  const std::string study = Write("once.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
objective: {command: {argv: [sh, once.sh, "{luthier.trial}"]}}
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 2, max_parallel: 2}
lease: {ttl: 1000s}
)");
  const std::vector<std::string> argv = {Program("luthier"), "run", study, "--workers", "2", "--db", Path("db")};
  Subprocess::Options options;
  options.directory = directory_.path();
  options.output = Path("run.log");
  {
    Subprocess run(argv, options);
    WaitFor([&] { return access(Path("seen-1").c_str(), F_OK) == 0 && access(Path("seen-2").c_str(), F_OK) == 0; },
            "both trials to run");
    run.Signal(SIGKILL);
    run.Wait();
  }
  Write("db/workers/spool/0123.rejected", "an old result that nobody wanted");
  Subprocess again(argv, options);
  ASSERT_EQ(again.Wait(), 0);  // In seconds; a lease would last a quarter of an hour.
  const json trials = LuthierJson({"trial", "list", "once", "--db", Path("db"), "-o", "json"});
  ASSERT_EQ(trials.size(), 2u);
  for (const json& trial : trials) {
    EXPECT_EQ(trial["state"], "COMPLETE");
    ASSERT_EQ(trial["attempts"].size(), 2u);
    EXPECT_EQ(trial["attempts"][0]["outcome"], "RELEASED");
  }
}

TEST_F(CliTest, WorkersAndCoordinatorDieAndComeBackAndTheStudyFinishes) {
  StartServer();
  Write("study.yaml", R"(
space: [{name: x1, float: {min: -5, max: 10}}, {name: x2, float: {min: 0, max: 15}}]
objective: {builtin: {model: "function:branin", options: {delay: 0.02}}}
metric: {name: value, goal: MINIMIZE}
algorithm: {sobol: {}}
budget: {max_trials: 60}
lease: {ttl: 10s}
)");
  ASSERT_EQ(Luthier({"study", "create", "-f", "study.yaml"}).code, 0);
  auto a = StartWorker("a", {"--slots", "2"});
  auto b = StartWorker("b", {"--slots", "2"});
  const auto complete = [&] {
    return LuthierJson({"study", "get", "study", "-o", "json"})["trials"]["complete"].get<int>();
  };
  WaitFor([&] { return complete() >= 5; }, "five trials");
  server_->Signal(SIGKILL);
  server_->Wait();
  StartServer();
  WaitFor([&] { return complete() >= 15; }, "fifteen trials");
  b->Signal(SIGTERM);  // Drains: its trials go back at once.
  EXPECT_EQ(b->Wait(), 0);
  b = StartWorker("c", {"--slots", "2"});
  ASSERT_EQ(Luthier({"study", "wait", "study"}).code, 0);
  const json trials = LuthierJson({"trial", "list", "study", "-o", "json"});
  EXPECT_EQ(trials.size(), 60u);
  for (const json& t : trials) EXPECT_EQ(t["state"], "COMPLETE");
}

TEST_F(CliTest, AskAndTellFromAShellLoopOptimizesAFunctionThatLivesInTheShell) {
  StartServer();
  Write("parabola.yaml", R"(
space: [{name: x, float: {min: -5, max: 5}}]
metric: {name: y, goal: MINIMIZE}
algorithm: {bo: {}}
budget: {max_trials: 15}
)");
  const std::string script = Write("loop.sh", R"(set -eu
"$LUTHIER" study create -f parabola.yaml > /dev/null
while :; do
  answer=$("$LUTHIER" ask parabola -o json)
  number=$(printf '%s' "$answer" | tr -d ' \n' | sed -n 's/.*"number":\([0-9]*\).*/\1/p')
  x=$(printf '%s' "$answer" | tr -d ' \n' | sed -n 's/.*"x":\([-+0-9.eE]*\).*/\1/p')
  [ -n "$number" ] || break
  y=$(awk "BEGIN { print ($x - 1.5) ^ 2 }")
  "$LUTHIER" tell parabola "$number" --metric "y=$y" > /dev/null
done
)");
  Subprocess::Options options;
  options.directory = directory_.path();
  options.environment = {
      {"LUTHIER", Program("luthier")}, {"LUTHIER_SERVER", "unix:" + Path("socket")}, {"XDG_STATE_HOME", Path("state")}};
  const CommandResult loop = RunCommand({"sh", script}, options);
  ASSERT_EQ(loop.code, 0) << loop.err;
  const json best = LuthierJson({"trial", "best", "parabola", "-o", "json"});
  EXPECT_LT(best["metrics"]["y"].get<double>(), 0.05);
  const json trials = LuthierJson({"trial", "list", "parabola", "-o", "json"});
  EXPECT_EQ(trials.size(), 15u);
  // Telling a finished trial is refused.
  const CommandResult late = Luthier({"tell", "parabola", "1", "--metric", "y=3"});
  EXPECT_EQ(late.code, 1);
  EXPECT_EQ(Luthier({"study", "get", "none"}).code, 5);
}

TEST_F(CliTest, CommandStudySurvivesFailingHangingAndNanScripts) {
  LUTHIER_NEEDS_PYTHON();
  StartServer();
  Write("train.py", R"(
import json, sys, time
mode = int(sys.argv[1])
if mode == 1:
    sys.stderr.write("bad luck\n"); sys.exit(3)
if mode == 2:
    time.sleep(600)
if mode == 3:
    print(json.dumps({"loss": float("nan")})); sys.exit(0)
for step in range(1, 4):
    print(json.dumps({"loss": 1.0 / step, "step": step}), flush=True)
)");
  Write("command.yaml", R"(
space: [{name: mode, int: {min: 0, max: 3}}]
objective: {command: {argv: [python3, train.py, "{mode}"], timeout: 2s}}
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 6}
)");
  ASSERT_EQ(Luthier({"study", "create", "-f", "command.yaml"}).code, 0);
  for (int mode = 0; mode < 4; ++mode) {
    ASSERT_EQ(Luthier({"trial", "add", "command", "--set", "mode=" + std::to_string(mode)}).code, 0);
  }
  ASSERT_EQ(Luthier({"trial", "add", "command", "--set", "mode=0"}).code, 0);
  ASSERT_EQ(Luthier({"trial", "add", "command", "--set", "mode=0"}).code, 0);
  auto worker = StartWorker("w", {"--slots", "2"});
  ASSERT_EQ(Luthier({"study", "wait", "command"}).code, 0);
  const json trials = LuthierJson({"trial", "list", "command", "-o", "json"});
  ASSERT_EQ(trials.size(), 6u);
  EXPECT_EQ(trials[0]["state"], "COMPLETE");
  EXPECT_NEAR(trials[0]["metrics"]["loss"].get<double>(), 1.0 / 3, 1e-15);
  EXPECT_EQ(trials[1]["state"], "FAILED");
  EXPECT_EQ(trials[1]["failure"]["reason"], "EXIT_CODE");
  EXPECT_THAT(trials[1]["failure"]["message"].get<std::string>(), HasSubstr("bad luck"));
  EXPECT_EQ(trials[2]["failure"]["reason"], "TIMEOUT");
  EXPECT_EQ(trials[3]["state"], "FAILED");
  EXPECT_EQ(trials[3]["failure"]["kind"], "CONFIG");
  EXPECT_EQ(trials[3]["failure"]["reason"], "NON_FINITE");
  EXPECT_EQ(trials[4]["state"], "COMPLETE");
}

TEST_F(CliTest, AWorkerWhoseGradientsHaveTheWrongSignIsFoundOut) {
  LUTHIER_NEEDS_PYTHON();
  StartServer();
  Write("bowl.py", R"(
import json, os, sys
x, y = float(sys.argv[1]), float(sys.argv[2])
loss = (x - 0.3) ** 2 + 2 * (y - 0.6) ** 2 + 0.5 * (x - 0.3) * (y - 0.6)
sign = float(os.environ.get("SIGN", "1"))
gradient = [sign * (2 * (x - 0.3) + 0.5 * (y - 0.6)), sign * (4 * (y - 0.6) + 0.5 * (x - 0.3))]
print(json.dumps({"loss": loss, "gradient": gradient}))
)");
  Write("bowl.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}, {name: y, float: {min: 0, max: 1}}]
objective: {command: {argv: [python3, -S, bowl.py, "{x}", "{y}"]}}
metric: {name: loss, goal: MINIMIZE}
algorithm: {fobo: {expert: {trust_region: TRUST_REGION_OFF}}}
budget: {max_trials: 45}
seed: 3
)");
  ASSERT_EQ(Luthier({"study", "create", "-f", "bowl.yaml"}).code, 0);
  const auto a = StartWorker("a"), b = StartWorker("b");
  const auto flipped = StartWorker("flipped", {"--env-allow", "SIGN"}, {{"SIGN", "-1"}});
  ASSERT_EQ(Luthier({"study", "wait", "bowl"}).code, 0);
  const json study = LuthierJson({"study", "get", "bowl", "-o", "json"});
  ASSERT_EQ(study["gradients_set_aside"].size(), 1u) << study["gradients_set_aside"];
  EXPECT_EQ(study["gradients_set_aside"][0]["worker"], "flipped");
  EXPECT_EQ(study["trials"]["complete"], 45);  // All losses are kept.
  int set_aside = 0;
  for (const json& trial : LuthierJson({"trial", "list", "bowl", "-o", "json"})) {
    if (!trial["gradient_set_aside"].get<bool>()) continue;
    ++set_aside;
    EXPECT_EQ(trial["attempts"].back()["worker"], "flipped");
  }
  EXPECT_EQ(study["gradients_set_aside"][0]["trials"], set_aside);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  EXPECT_EQ(Luthier({"verify-replay", "--db", Path("data")}).code, 0);
}

TEST_F(CliTest, RunSaysWhyNothingCameOut) {
  Write("absent.yaml", R"(
space: [{name: l2, float: {min: 1.0e-4, max: 1.0e4, scale: LOG}}]
objective: {builtin: {model: logistic, data: absent.csv}}
metric: {name: validation_loss, goal: MINIMIZE}
)");
  const CommandResult absent = Luthier({"run", "absent.yaml", "--db", Path("db")});
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.err,
              HasSubstr("there is no data set \"absent.csv\" below the data root\nno trial was spent on it"));
  EXPECT_EQ(LuthierJson({"trial", "list", "absent", "--db", Path("db"), "-o", "json"}).size(), 0u);

  Write("fails.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
objective: {command: {argv: [sh, -c, "echo it is broken >&2; exit 3"]}}
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 3}
)");
  const CommandResult fails = Luthier({"run", "fails.yaml", "--db", Path("db")});
  EXPECT_EQ(fails.code, 1);
  EXPECT_THAT(fails.err,
              HasSubstr("luthier: 3 of 3 trials failed, 3 of them with CONFIG EXIT_CODE, the last one trial "));
  EXPECT_THAT(fails.err, HasSubstr(":\n  exit code 3\n  it is broken\nto see more: luthier trial get fails "));
}

TEST_F(CliTest, RunWarnsOfTrainingsThatEndedAtTheirLimit) {
  // The first of two says so; both are told which gradient is read.
  Write("limits.yaml", R"(
space: [{name: x, float: {min: 0, max: 1}}]
objective:
  command:
    argv:
      - sh
      - -c
      - |-
        test "$LUTHIER_GRADIENT" = full || exit 3
        if [ "$LUTHIER_TRIAL" = 1 ]; then t=limit; else t=converged; fi
        echo "{{\"loss\": 1, \"training\": {{\"outcome\": \"$t\", \"gradient_norm\": 0.25}}, \"gradient_seconds\": 0.5}}"
metric: {name: loss, goal: MINIMIZE}
algorithm: {fobo: {}}
budget: {max_trials: 2}
)");
  const CommandResult run = Luthier({"run", "limits.yaml", "--db", Path("db"), "-o", "json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err,
              HasSubstr("warning: 1 of 2 trainings ended at its limit: its result is not that of the optimum; see "
                        "luthier trial list limits --db "));
  const json summary = json::parse(run.out, nullptr, false);
  EXPECT_EQ(summary["study"]["trainings"]["limit"], 1);
  EXPECT_EQ(summary["study"]["trainings"]["converged"], 1);
  const json trials = LuthierJson({"trial", "list", "limits", "--db", Path("db"), "-o", "json"});
  EXPECT_EQ(trials[0]["training"], (json{{"outcome", "limit"}, {"gradient_norm", 0.25}}));
  EXPECT_EQ(trials[0]["gradient_seconds"], 0.5);
}

TEST_F(CliTest, AnExternalStudyCostsAWorkerNoTrial) {
  StartServer();
  Write("s.yaml", "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: y, goal: MINIMIZE}\n");
  ASSERT_EQ(Luthier({"study", "create", "-f", "s.yaml"}).code, 0);
  EXPECT_EQ(StartWorker("w", {"--study", "s"})->Wait(), 78);
  EXPECT_TRUE(LuthierJson({"trial", "list", "s", "-o", "json"}).empty());
}

TEST_F(CliTest, AReaderThatHasEnoughIsNoError) {
  const std::string simulate =
      Program("luthier") + " simulate --algorithm random --function branin --evaluations 3000 -o csv";
  const CommandResult head = RunCommand({"bash", "-c", simulate + " | head -1; exit ${PIPESTATUS[0]}"}, {});
  EXPECT_EQ(head.code, 141);
  EXPECT_EQ(head.err, "");
  const CommandResult full = RunCommand({"sh", "-c", simulate + " > /dev/full"}, {});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("standard output can't be written"));
}

struct BadFile {
  const char* name;
  const char* text;
  const char* where;
  const char* help;
};

class BadStudyFileTest : public CliTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadStudyFileTest, IsRefusedWithPlaceAndRemedy) {
  StartServer();
  Write("bad.yaml", GetParam().text);
  const CommandResult result = Luthier({"study", "create", "-f", "bad.yaml"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr(GetParam().where));
  EXPECT_THAT(result.err, HasSubstr(GetParam().help));
  EXPECT_TRUE(LuthierJson({"study", "list", "-o", "json"}).empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadStudyFileTest,
    ::testing::Values(
        BadFile{"MisspeltKey", "spce: []\nmetric: {name: y, goal: MINIMIZE}\n", "1", "did you mean \"space\""},
        BadFile{"MisspeltNested", "space:\n  - {name: x, float: {min: 0, mx: 1}}\nmetric: {name: y, goal: MINIMIZE}\n",
                "2", "did you mean \"max\""},
        BadFile{"SwappedBounds", "metric: {name: y, goal: MINIMIZE}\nspace:\n  - {name: x, float: {min: 2, max: 1}}\n",
                "space[0].float.max", "swap the bounds"},
        BadFile{"RungsWithoutAResource",
                "space:\n  - {name: x, float: {min: 0, max: 1}}\nmetric: {name: y, goal: MINIMIZE}\nalgorithm: {asha: "
                "{}}\n",
                "resource", "is required by asha"},
        BadFile{"HalvingsThatHalveNothing",
                "space:\n  - {name: x, float: {min: 0, max: 1}}\nmetric: {name: y, goal: MINIMIZE}\n"
                "resource: {max: 81}\nalgorithm: {hyperband: {eta: 1}}\n",
                "algorithm.hyperband.eta", "1 is not between 2 and 1000"},
        BadFile{"LeastResourceAboveTheMost",
                "space:\n  - {name: x, float: {min: 0, max: 1}}\nmetric: {name: y, goal: MINIMIZE}\n"
                "resource: {min: 82, max: 81}\nalgorithm: {asha: {}}\n",
                "resource.min", "82 is not between 1 and resource.max, 81"},
        BadFile{"AGridOfABillion",
                "space:\n  - {name: x, float: {min: 0, max: 1}}\n  - {name: y, float: {min: 0, max: 1}}\n"
                "  - {name: z, float: {min: 0, max: 1}}\nmetric: {name: v, goal: MINIMIZE}\n"
                "algorithm: {grid: {levels: 1000}}\n",
                "algorithm.grid", "1000000000"},
        BadFile{"Garbage", "\x01\x02\xff\xfe{{{", "bad.yaml", ""}),
    [](const auto& param_info) { return param_info.param.name; });

TEST_F(CliTest, HugeStudyFileIsRefused) {
  StartServer();
  Write("huge.yaml", "description: \"" + std::string(size_t{10} << 20, 'x') + "\"\n");
  const CommandResult result = Luthier({"study", "create", "-f", "huge.yaml"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("huge.yaml"));
}

// The directory is made before, as packages and administrators do, for all to read.
TEST_F(CliTest, FilesOfTheServerAreForItsUserAlone) {
  std::filesystem::create_directory(Path("data"));
  std::filesystem::permissions(Path("data"), std::filesystem::perms(0755));
  const mode_t before = umask(022);
  StartServer();
  umask(before);
  Write("s.yaml", "space: [{name: x, bool: {}}]\nmetric: {name: loss, goal: MINIMIZE}\n");
  ASSERT_EQ(Luthier({"study", "create", "-f", "s.yaml"}).code, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path("data"))) {
    EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3);
  EXPECT_EQ(std::filesystem::status(Path("socket")).permissions() & std::filesystem::perms(0077),
            std::filesystem::perms::none);
}

TEST_F(CliTest, AMemoryLimitIsASizeThatIsLargeEnough) {
  for (const char* limit : {"63M", "-1", "many"}) {
    const CommandResult refused = RunCommand({Program("luthierd"), "--memory-limit", limit}, {});
    EXPECT_EQ(refused.code, 2) << limit;
    EXPECT_THAT(refused.err, HasSubstr("--memory-limit"));
  }
}

// A missing data folder may come later, so it is no wrong command line, which a service manager would not try again.
TEST_F(CliTest, AWorkerWithoutItsDataFolderMayBeStartedAgain) {
  const CommandResult missing =
      RunCommand({Program("luthier-worker"), "--data-root", Path("none"), "--spool", Path("spool"), "--checkpoint-dir",
                  Path("checkpoints"), "--commands-from", "none"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("cannot be opened"));
}

TEST_F(CliTest, UnreachableServerIsExitCodeThree) {
  const CommandResult result = Luthier({"study", "list"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(Luthier({"no-such-verb"}).code, 2);
  for (const char* program : {"luthier", "luthierd", "luthier-worker"}) {
    const CommandResult typo = RunCommand({Program(program), "--hepl"}, {});
    EXPECT_EQ(typo.code, 2);
    EXPECT_EQ(typo.err, std::string(program) +
                            ": there is no option \"--hepl\" (did you mean \"--help\"?)\nfor help: " + program +
                            " --help\n");
  }
  EXPECT_EQ(RunCommand({Program("luthierd"), "--listen", "localhost:99999"}, {}).code, 2);
  EXPECT_EQ(Luthier({"version"}).code, 0);
}

TEST_F(CliTest, SimulatePrintsTheTable) {
  const CommandResult result = Luthier(
      {"simulate", "--algorithm", "bo", "--function", "branin", "--evaluations", "12", "--seeds", "2", "-o", "csv"});
  ASSERT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "algorithm,function,seed,evaluation,value,best,regret,suggest_ms");
  int rows = 0;
  while (std::getline(lines, line)) ++rows;
  EXPECT_EQ(rows, 24);
}

}  // namespace
}  // namespace luthier
