// A study that lives: a typo, mended; more budget; results from elsewhere; the winner run again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/programs_fixture.h"
#include "tests/testing/subprocess.h"

namespace luthier {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kStudy[] = R"yaml(
space:
  - {name: lr, float: {min: 1.0e-4, max: 1.0, scale: LOG}}
  - {name: n, int: {min: 1, max: 8}}
objective: {command: {argv: [sh, train.sh, "{lr}", "{n}"], stdout_patterns: {loss: "loss=(\\S+)"}}}
metric: {name: loss, goal: MINIMIZE}
budget: {max_trials: MANY, max_parallel: 1}
seed: 3
)yaml";

class GoingOnTest : public testing::ProgramsFixture {
 protected:
  void WriteStudy(const std::string& trials) {
    std::string text = kStudy;
    text.replace(text.find("MANY"), 4, trials);
    Write("study.yaml", text);
  }
  CommandResult OnDatabase(std::vector<std::string> args) const {
    args.insert(args.end(), {"--db", Path("db")});
    return Luthier(std::move(args));
  }
  json Answer(std::vector<std::string> args) const {
    args.insert(args.end(), {"--db", Path("db"), "-o", "json"});
    return LuthierJson(args);
  }
  CommandResult Run(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"run", "study.yaml", "--workers", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return OnDatabase(std::move(args));
  }
};

TEST_F(GoingOnTest, FromATypoToAWinnerThatRunsAgain) {
  WriteStudy("5");
  Write("train.sh", "ech loss=$1\n");
  const CommandResult failed = Run();
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("not found"));
  EXPECT_THAT(failed.err, HasSubstr("trial retry study --failed"));
  EXPECT_THAT(failed.out, HasSubstr("study: PAUSED (3 trials failed alike and none succeeded: EXIT_CODE: "));

  Write("train.sh", "echo \"loss=$(awk -v lr=$1 -v n=$2 'BEGIN { print (log(lr) + 4)^2 + (n - 5)^2 }')\"\n");
  EXPECT_THAT(OnDatabase({"trial", "retry", "study", "--failed"}).out, HasSubstr("trial 3 is tried again as trial 6"));
  const CommandResult mended = Run();
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_EQ(Answer({"study", "get", "study"})["trials"]["complete"], 5);

  EXPECT_EQ(OnDatabase({"study", "update", "study", "--max-trials", "12"}).code, 0);
  EXPECT_EQ(Run().code, 0) << "the file has not changed";
  json study = Answer({"study", "get", "study"});
  EXPECT_EQ(study["trials"]["complete"], 9);
  EXPECT_EQ(study["state"], "COMPLETED");
  WriteStudy("11");
  const CommandResult changed = Run();
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.err, HasSubstr("--update"));
  EXPECT_EQ(Run({"--update"}).code, 0);
  EXPECT_EQ(Answer({"study", "get", "study"})["trials"]["complete"], 11);

  Write("other.csv", "lr,n,loss,who\n0.0183156,5,1e-9,me\n0.5,2,nan,you\n");
  const CommandResult imported = OnDatabase({"trial", "import", "study", "other.csv"});
  EXPECT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.err, HasSubstr("2 trials imported; columns left out: \"who\""));
  const json best = Answer({"trial", "best", "study"});
  EXPECT_EQ(best["metrics"]["loss"], 1e-9);
  EXPECT_EQ(best["provenance"]["designer"], "import");
  EXPECT_EQ(best["attributes"]["luthier.source"], "other.csv");

  Write("bounds.csv", "params_lr,params_n,metrics_time,loss,feasible\n0.02,5,9,1e-8,false\n0.5,2,1,3,true\n");
  const CommandResult unbounded = OnDatabase({"study", "import", "bounds.csv", "--metric", "loss"});
  EXPECT_EQ(unbounded.code, 0) << unbounded.err;
  EXPECT_THAT(unbounded.err, HasSubstr("note: 1 of them is beyond bounds by the file's column \"feasible\""));

  // The best of those that ran here, once more.
  const json list = Answer({"trial", "list", "study", "--state", "COMPLETE"});
  const json* winner = nullptr;
  for (const json& trial : list) {
    if (trial["provenance"]["designer"] == "import") continue;
    if (winner == nullptr || trial["metrics"]["loss"] < (*winner)["metrics"]["loss"]) winner = &trial;
  }
  const CommandResult command = OnDatabase({"trial", "command", "study", (*winner)["number"].dump()});
  Write("again.sh", command.out);
  Subprocess::Options options;
  options.directory = directory_.path();
  const CommandResult again = RunCommand({"sh", "again.sh"}, options);
  ASSERT_EQ(again.out.rfind("loss=", 0), 0u) << again.out << again.err;
  EXPECT_EQ(std::stod(again.out.substr(5)), (*winner)["metrics"]["loss"].get<double>());

  EXPECT_EQ(OnDatabase({"trial", "delete", "study", best["number"].dump(), "--yes"}).code, 0);
  EXPECT_EQ(Answer({"trial", "best", "study"})["number"], (*winner)["number"]);
  EXPECT_EQ(OnDatabase({"trial", "get", "study", best["number"].dump()}).code, 5);
  const CommandResult replay = OnDatabase({"verify-replay"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
}

TEST_F(GoingOnTest, AnExportComesBackAsItWas) {
  WriteStudy("6");
  Write("train.sh", "echo loss=$1\n");
  ASSERT_EQ(Run().code, 0);
  ASSERT_EQ(OnDatabase({"trial", "note", "study", "2", "checked=yes"}).code, 0);
  ASSERT_EQ(OnDatabase({"study", "export", "study", "--out", "one.jsonl", "--measurements"}).code, 0);
  for (const char* name : {"again", "too"}) {
    const CommandResult made = OnDatabase({"study", "import", "one.jsonl", "--name", name});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  const auto results = [&](const char* name) {
    json out = json::array();
    for (const json& trial : Answer({"trial", "list", name})) {
      json attributes = trial["attributes"];
      attributes.erase("luthier.source");
      out.push_back({trial["number"], trial["state"], trial["parameters"], trial["metrics"], trial["create_time"],
                     trial["end_time"], attributes});
    }
    return out;
  };
  EXPECT_EQ(results("again"), results("study"));
  // What comes next depends on what is known alone.
  json next[2];
  for (int i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "again" : "too";
    ASSERT_EQ(OnDatabase({"study", "update", name, "--max-trials", "8"}).code, 0);
    next[i] = Answer({"ask", name, "--worker", "w"}).at(0)["parameters"];
  }
  EXPECT_EQ(next[0], next[1]);
  EXPECT_EQ(OnDatabase({"study", "import", "one.jsonl", "--name", "again"}).code, 1) << "it is there";

  ASSERT_EQ(OnDatabase({"study", "export", "study", "--format", "csv", "--out", "table.csv"}).code, 0);
  const CommandResult table = OnDatabase({"study", "import", "table.csv", "--metric", "loss", "--name", "table"});
  EXPECT_EQ(table.code, 0) << table.err;
  const auto parameters = [&](const std::string& study) {
    json names = json::array();
    for (const json& p : Answer({"study", "get", study})["spec"]["space"]) names.push_back(p["name"]);
    return names;
  };
  EXPECT_EQ(parameters("table"), parameters("study"));
  EXPECT_EQ(Answer({"study", "get", "table"})["best_value"], Answer({"study", "get", "study"})["best_value"]);
  const CommandResult cloned = OnDatabase({"study", "clone", "study", "clone", "--with-trials"});
  EXPECT_EQ(cloned.code, 0) << cloned.err;
  EXPECT_EQ(Answer({"study", "get", "clone"})["trials"]["complete"], 6);
}

}  // namespace
}  // namespace luthier
