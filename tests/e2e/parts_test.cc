// Training in parts with the programs as a user runs them: pauses, promotions, stopping rules, and kills in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/e2e/programs_fixture.h"
#include "tests/testing/python.h"
#include "tests/testing/subprocess.h"

namespace luthier {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PartsTest : public testing::ProgramsFixture {
 protected:
  void Create(const std::string& name, const std::string& text) {
    Write(name + ".yaml", text);
    const CommandResult created = Luthier({"study", "create", "-f", name + ".yaml"});
    ASSERT_EQ(created.code, 0) << created.err;
  }
  // Checkpoints go to `checkpoints`, a directory of the test's.
  std::unique_ptr<Subprocess> StartWorker(const std::string& name, const std::string& checkpoints) const {
    Subprocess::Options options;
    options.output = Path("worker-" + name + ".log");
    options.directory = directory_.path();
    return std::make_unique<Subprocess>(
        std::vector<std::string>{Program("luthier-worker"), "--server", "unix:" + Path("socket"), "--name", name,
                                 "--spool", Path("spool-" + name), "--checkpoint-dir", Path(checkpoints), "--data-root",
                                 SourcePath("")},
        options);
  }
  json Study(const std::string& id) const { return LuthierJson({"study", "get", id, "-o", "json"}); }
  json Trials(const std::string& id) const { return LuthierJson({"trial", "list", id, "-o", "json"}); }
  // Events of a study that is over.
  int Count(const std::string& id, const char* type) const {
    int count = 0;
    std::istringstream lines(Luthier({"study", "watch", id, "-o", "json"}).out);
    for (std::string line; std::getline(lines, line);) {
      count += json::parse(line, nullptr, false).value("type", "") == type ? 1 : 0;
    }
    return count;
  }
  // Attempts that reached their target, or the end of training.
  int Parts(const std::string& id) const {
    int parts = 0;
    for (const json& trial : Trials(id)) {
      if (!trial.contains("attempts")) continue;
      for (const json& attempt : trial["attempts"]) {
        parts += attempt["outcome"] == "PAUSED" || attempt["outcome"] == "COMPLETE" ? 1 : 0;
      }
    }
    return parts;
  }
  void StopServerAndReplay() {
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0);
    const CommandResult replay = Luthier({"verify-replay", "--db", Path("data")});
    EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  }
};

constexpr char kBranin[] = R"(
space: [{name: x1, float: {min: -5, max: 10}}, {name: x2, float: {min: 0, max: 15}}]
objective: {builtin: {model: "function:branin", options: {steps: 9, delay: 0.1, curve_spread: 0.5}}}
metric: {name: value, goal: MINIMIZE}
resource: {min: 1, max: 9}
lease: {ttl: 10s}
)";

TEST_F(PartsTest, AshaWithThreeWorkersSurvivesKillsOfWorkerAndServer) {
  StartServer();
  Create("asha", std::string(kBranin) + "algorithm: {asha: {}}\nbudget: {max_trials: 27}\nseed: 4\n");
  auto a = StartWorker("a", "checkpoints");
  auto b = StartWorker("b", "checkpoints");
  auto c = StartWorker("c", "checkpoints");
  WaitFor([&] { return Parts("asha") >= 4; }, "four parts");
  b->Signal(SIGKILL);
  b->Wait();
  WaitFor([&] { return Parts("asha") >= 8; }, "eight parts");
  server_->Signal(SIGKILL);
  server_->Wait();
  StartServer();
  b = StartWorker("b2", "checkpoints");
  ASSERT_EQ(Luthier({"study", "wait", "asha"}).code, 0);

  const json study = Study("asha");
  EXPECT_EQ(study["state"], "COMPLETED");
  const json trials = Trials("asha");
  ASSERT_EQ(trials.size(), 27u) << "promotions take no rows";
  int complete = 0, promotions = 0;
  int64_t spent = 0;
  for (const json& t : trials) {
    EXPECT_TRUE(t["state"] == "COMPLETE" || t["state"] == "PRUNED") << t;
    complete += t["state"] == "COMPLETE" ? 1 : 0;
    if (t["state"] == "COMPLETE") {
      EXPECT_EQ(t["step"], 9);
    }
    EXPECT_TRUE(t["metrics"].contains("value")) << "each keeps its last value: " << t;
    promotions += t.contains("promotions") ? static_cast<int>(t["promotions"].size()) : 0;
    spent += std::stoll(t["resource_spent"].is_string() ? t["resource_spent"].get<std::string>()
                                                        : t["resource_spent"].dump());
  }
  EXPECT_GE(complete, 1);
  EXPECT_GE(promotions, 2);
  EXPECT_EQ(Count("asha", "TRIAL_PROMOTED"), promotions);
  EXPECT_EQ(Count("asha", "TRIAL_RESTARTED"), 0) << "every checkpoint was found";
  EXPECT_LT(spent, 27 * 9);
  StopServerAndReplay();
}

TEST_F(PartsTest, WorkersThatShareNoCheckpointsBeginAfreshAndItIsCounted) {
  StartServer();
  Create("apart", std::string(kBranin) + "algorithm: {asha: {}}\nbudget: {max_trials: 9, max_parallel: 1}\nseed: 4\n");
  // One pauses the first trials, the other must go on with them.
  {
    const auto a = StartWorker("a", "checkpoints-a");
    WaitFor([&] { return Study("apart")["trials"].value("paused", 0) >= 2; }, "two pauses");
    a->Signal(SIGTERM);
    EXPECT_EQ(a->Wait(), 0);
  }
  const auto b = StartWorker("b", "checkpoints-b");
  ASSERT_EQ(Luthier({"study", "wait", "apart"}).code, 0);
  int restarted = 0;
  for (const json& t : Trials("apart")) {
    if (!t.contains("promotions")) continue;
    std::string text = Luthier({"trial", "get", "apart", std::to_string(t["number"].get<int>())}).out;
    if (text.find("more than once") == std::string::npos) continue;
    ++restarted;
    EXPECT_THAT(text, HasSubstr("began afresh: the checkpoint file:apart."));
  }
  EXPECT_EQ(restarted > 0, Count("apart", "TRIAL_RESTARTED") > 0);
  EXPECT_THAT(Luthier({"study", "get", "apart"}).out, HasSubstr("in all trials, restarts included"));
  StopServerAndReplay();
}

TEST_F(PartsTest, PausedTrainingEndsWithTheBitsOfAnUninterruptedOne) {
  StartServer();
  const std::string logistic = R"(
space: [{name: l2, float: {min: 1.0e-3, max: 1.0e3, scale: LOG}}]
objective: {builtin: {model: logistic, data: "synth:logistic?rows=400&cols=20&seed=3&noise=0.2", options: {report_every: 1, solver: lbfgs}}}
metric: {name: validation_loss, goal: MINIMIZE}
)";
  // All of both settings' training, in parts that change workers, and in one.
  Create("parts", logistic +
                      "resource: {min: 1, max: 9}\nalgorithm: {successive_halving: {trials: 3}}\n"
                      "budget: {max_trials: 3, max_parallel: 1}\nseed: 2\n");
  for (int part = 0; Study("parts")["state"] == "ACTIVE"; ++part) {  // A new worker for each.
    const auto worker = StartWorker("w" + std::to_string(part), "checkpoints");
    const int before = Parts("parts");
    WaitFor([&] { return Parts("parts") > before || Study("parts")["state"] != "ACTIVE"; }, "a part");
    worker->Signal(SIGTERM);
    EXPECT_EQ(worker->Wait(), 0);
  }
  json winner;
  for (const json& t : Trials("parts")) {
    if (t["state"] == "COMPLETE") winner = t;
  }
  ASSERT_FALSE(winner.is_null());
  EXPECT_GE(winner["attempts"].size(), 2u);
  EXPECT_EQ(Count("parts", "TRIAL_RESTARTED"), 0);
  // The same setting without a pause: its curve has the same bits.
  Create("whole", logistic + "algorithm: {random: {}}\nbudget: {max_trials: 1}\n");
  ASSERT_EQ(Luthier({"trial", "add", "whole", "--set", "l2=" + winner["parameters"]["l2"].dump()}).code, 0);
  const auto worker = StartWorker("whole", "checkpoints");
  ASSERT_EQ(Luthier({"study", "wait", "whole"}).code, 0);
  const json whole = LuthierJson({"trial", "get", "whole", "1", "--measurements", "-o", "json"});
  const auto at = [&](const json& step) {
    for (const json& m : whole["measurements"]) {
      if (m.value("step", json(0)) == step) return m["metrics"];
    }
    return whole["metrics"];  // It converged before.
  };
  EXPECT_EQ(winner["metrics"], at(winner["step"]));
}

TEST_F(PartsTest, AMedianRuleStopsTrialsWithinTheirReports) {
  StartServer();
  Create("median", R"(
space: [{name: l2, float: {min: 1.0e-4, max: 1.0e6, scale: LOG}}]
objective: {builtin: {model: logistic, data: "synth:logistic?rows=2000&cols=40&seed=3&noise=0.2", options: {report_every: 1, solver: lbfgs}}}
metric: {name: validation_loss, goal: MINIMIZE}
algorithm: {random: {}}
stopping: {median: {min_trials: 3, warmup: 1}}
budget: {max_trials: 20}
seed: 1
)");
  const auto a = StartWorker("a", "checkpoints"), b = StartWorker("b", "checkpoints");
  ASSERT_EQ(Luthier({"study", "wait", "median"}).code, 0);
  int pruned = 0;
  for (const json& t : Trials("median")) {
    if (t["state"] != "PRUNED") continue;
    ++pruned;
    EXPECT_TRUE(t["metrics"].contains("validation_loss"));
    EXPECT_EQ(t["attempts"].back()["outcome"], "PRUNED");
  }
  EXPECT_GE(pruned, 1);
  EXPECT_LE(pruned, 17);
  StopServerAndReplay();
}

TEST_F(PartsTest, PercentileAndCurveRulesStopTrialsAndKeepTheWinner) {
  StartServer();
  const auto a = StartWorker("a", "checkpoints"), b = StartWorker("b", "checkpoints");
  for (const std::string rule : {"percentile: {percentile: 25, min_trials: 3}", "curve: {min_points: 4}"}) {
    const std::string id = rule.substr(0, rule.find(':'));
    Create(id, absl::StrCat(kBranin, "stopping: {", rule, "}\nalgorithm: {sobol: {}}\nbudget: {max_trials: 24}\n"));
    ASSERT_EQ(Luthier({"study", "wait", id}).code, 0);
    int pruned = 0;
    double best = 1e9;
    for (const json& t : Trials(id)) {
      const double value = t["metrics"]["value"];
      if (t["state"] == "PRUNED") {
        ++pruned;
        EXPECT_EQ(t["attempts"].back()["outcome"], "PRUNED");
      } else {
        EXPECT_EQ(t["state"], "COMPLETE");
        best = std::min(best, value);
      }
    }
    EXPECT_GE(pruned, 3) << rule;
    EXPECT_LE(pruned, 21) << rule;
    EXPECT_EQ(Study(id)["best_value"], best) << rule;
    EXPECT_EQ(Count(id, "TRIAL_PRUNED"), pruned);
  }
  StopServerAndReplay();
}

TEST_F(PartsTest, TheExampleScriptPausesAndGoesOn) {
  LUTHIER_NEEDS_PYTHON();
  Subprocess::Options options;
  options.directory = SourcePath("");
  options.environment = {{"XDG_STATE_HOME", Path("state")}, {"TMPDIR", directory_.path()}};
  const CommandResult run = RunCommand(
      {Program("luthier"), "run", "examples/parts/parts.yaml", "--workers", "2", "--db", Path("db"), "-o", "json"},
      options);
  ASSERT_EQ(run.code, 0) << run.err;
  const json trials = LuthierJson({"trial", "list", "parts", "--db", Path("db"), "-o", "json"});
  ASSERT_EQ(trials.size(), 27u);
  int longest = 0;
  for (const json& t : trials) {
    for (const json& attempt : t["attempts"]) EXPECT_NE(attempt["outcome"], "FAILED") << attempt;
    if (t["state"] != "COMPLETE") continue;
    ++longest;
    EXPECT_EQ(t["step"], 27);
    EXPECT_EQ(t["resource_spent"], 27) << "nothing was trained twice";
  }
  EXPECT_GE(longest, 1);
  EXPECT_EQ(Luthier({"verify-replay", "--db", Path("db")}).code, 0);
}

}  // namespace
}  // namespace luthier
