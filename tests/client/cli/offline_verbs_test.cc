// What needs no server: a data directory, simulations, previews, lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CliTest, DataDirectoryStandsInForTheServer) {
  const Result none = Run({"study", "list", "--db", Path("db")});
  EXPECT_EQ(none.code, 5);
  EXPECT_THAT(none.err, HasSubstr("there is no database in"));
  EXPECT_FALSE(std::filesystem::exists(Path("db")));
  {
    server::ServerOptions options;
    options.data_dir = Path("db");
    options.listen = "unix:" + Path("db") + "/socket";
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    // While a coordinator has the directory, its socket is used.
    const Result second =
        Run({"run", Write("r.yaml", std::string(kStudy) + "objective: {command: {argv: [x]}}\n"), "--db", Path("db")});
    EXPECT_EQ(second.code, 1);
    EXPECT_THAT(second.err, HasSubstr("is in use by process"));
    EXPECT_THAT(second.err, HasSubstr("name it with --db"));
    Out({"study", "create", "-f", Write("s.yaml", kStudy), "--db", Path("db")});
    Out({"ask", "s", "--db", Path("db")});
  }
  Out({"tell", "s", "1", "--metric", "y=1", "--db", Path("db")});
  EXPECT_EQ(Json({"trial", "list", "s", "--db", Path("db") + "/luthier.db"}).size(), 1u);
  EXPECT_EQ(Json({"verify-replay", "--db", Path("db")})[0]["checked"], 1);
  EXPECT_EQ(Out({"verify-replay", "--db", Path("db"), "s"}),
            "study  checked  other_version  mismatches\ns            1              0           0\n");
  EXPECT_EQ(Run({"verify-replay", "--db", Path("db"), "none"}).code, 5);
}

TEST_F(CliTest, AServersDirectoryIsReachedThroughTheServer) {
  server::ServerOptions options;
  options.data_dir = Path("db");
  options.listen = "";
  auto server = server::Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const Result result = Run({"study", "list", "--db", Path("db")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("reach it with --server ADDRESS instead of --db"));
}

TEST_F(CliTest, RunRefusesWhatNoWorkerCanDo) {
  const Result external = Run({"run", Write("s.yaml", kStudy), "--db", Path("db")});
  EXPECT_EQ(external.code, 1);
  EXPECT_THAT(external.err, HasSubstr("its objective is external"));
  const Result no_worker = Run({"run",
                                Write("b.yaml",
                                      "space: [{name: x1, float: {min: -5, max: 10}}, {name: x2, "
                                      "float: {min: 0, max: 15}}]\n"
                                      "objective: {builtin: {model: \"function:branin\"}}\n"
                                      "metric: {name: value, goal: MINIMIZE}\n"),
                                "--db", Path("db")});
  EXPECT_EQ(no_worker.code, 1);
  EXPECT_THAT(no_worker.err, HasSubstr("luthier-worker must be beside luthier"));
}

// Programs that are not there are found before the first trial, and nothing is created.
TEST_F(CliTest, RunFindsMissingProgramsFirst) {
  const struct {
    const char* argv;
    const char* error;  // Empty: goes on.
  } table[] = {
      {"[./nothing.sh]", "objective.command.argv[0]: there is no program \"./nothing.sh\" that can be run"},
      {"[python3, missing.py, '--x={x}']", "objective.command.argv[1]: there is no file \"missing.py\" in /"},
      {"[python3, '{x}.py']", ""},
      {"[python3, -c, 'print(1)']", ""},
  };
  int number = 0;
  for (const auto& [argv, error] : table) {
    const std::string id = absl::StrCat("s", ++number);
    const std::string text = absl::StrCat(kStudy, "objective: {command: {argv: ", argv, "}}\n");
    const Result result = Run({"run", Write("p.yaml", text), "--db", Path("programs"), "--study", id});
    EXPECT_EQ(result.code, 1) << "there is no worker beside this test";
    if (*error != '\0') {
      EXPECT_THAT(result.err, HasSubstr(error));
      EXPECT_THAT(result.err, HasSubstr("p.yaml:")) << "with the place in the file";
      EXPECT_FALSE(std::filesystem::exists(Path("programs")));
    } else {
      EXPECT_THAT(result.err, HasSubstr("luthier-worker must be beside luthier"));
    }
  }
}

TEST_F(CliTest, SimulateComparesAlgorithms) {
  const std::vector<std::string> args = {
      "simulate",   "--algorithm", "random",  "--algorithm", "{sobol: {scramble: false}}",
      "--function", "branin",      "--seeds", "2",           "--evaluations",
      "5"};
  const std::string table = Out(args);
  EXPECT_THAT(table, StartsWith("algorithm                   function  seeds  evaluations"));
  EXPECT_THAT(table, HasSubstr("\n{sobol: {scramble: false}}  branin        2            5"));
  const json rows = Json(args);
  ASSERT_EQ(rows.size(), 20u);
  EXPECT_EQ(rows[19]["evaluation"], 5);
  EXPECT_LE(rows[19]["best"].get<double>(), rows[15]["best"].get<double>());
  std::vector<std::string> with_noise = args;
  with_noise.insert(with_noise.end(), {"--noise", "3"});
  const json noisy = Json(with_noise);
  EXPECT_NE(noisy[0]["value"], rows[0]["value"]);
  EXPECT_EQ(noisy[0]["best"], rows[0]["best"]);
  const Result bad = Run({"simulate", "--algorithm", "{bo: {nois: true}}", "--function", "branin"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("did you mean \"noisy\""));
}

TEST_F(CliTest, SimulateTrainsInParts) {
  const std::vector<std::string> args = {"simulate",   "--algorithm", "random",  "--algorithm", "asha",
                                         "--function", "branin",      "--seeds", "2",           "--evaluations",
                                         "27",         "--resource",  "27",      "--parallel",  "3"};
  EXPECT_THAT(Out(args), StartsWith("algorithm  function  seeds  settings  complete  stopped  median_training"));
  const json runs = Json(args);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0]["training"], 27.0 * 27.0);
  EXPECT_LE(runs[2]["training"].get<double>(), 27.0 + 9 * 2 + 3 * 6 + 18);
  EXPECT_EQ(runs[2]["complete"], 1);
}

TEST_F(CliTest, SimulateTriesStoppingRules) {
  std::vector<std::string> args = {"simulate", "--algorithm", "random", "--function",     "branin", "--evaluations",
                                   "27",       "--resource",  "27",     "--resource-min", "3",      "--parallel",
                                   "3",        "--stopping"};
  const auto with = [&](const std::string& rule) {
    std::vector<std::string> all = args;
    all.push_back(rule);
    return all;
  };
  for (const std::string rule : {"median", "curve", "{percentile: {percentile: 25}}"}) {
    const json run = Json(with(rule))[0];
    EXPECT_GT(run["stopped"], 0) << rule;
    EXPECT_EQ(run["stopped"].get<int>() + run["complete"].get<int>(), 27) << rule;
    EXPECT_LT(run["training"].get<double>(), 27.0 * 27.0) << rule;
  }
  const Result misspelt = Run(with("medain"));
  EXPECT_EQ(misspelt.code, 1);
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean \"median\""));
  EXPECT_THAT(Run(with("{percentile: {percentile: 120}}")).err, HasSubstr("stopping.percentile"));
  args.erase(args.begin() + 7, args.begin() + 11);
  EXPECT_EQ(Run(with("median")).code, 2) << "nothing is reported without a resource";
}

TEST_F(CliTest, PreviewShowsRungsTrainingAndTime) {
  const std::string space = "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: MINIMIZE}\n";
  const std::string file = Write("p.yaml", space +
                                               "algorithm: {successive_halving: {}}\nresource: {max: 9, unit: epochs}\n"
                                               "budget: {max_trials: 9}\n");
  EXPECT_EQ(Out({"study", "preview", file, "--workers", "3", "--seconds", "60"}),
            "bracket  times  rung  step  settings  training\n"
            "      0      1     0     1         9         9\n"
            "      0      1     1     3         3         6\n"
            "      0      1     2     9         1         6\n"
            "successive_halving: 9 settings, 21 epochs of training (27 where trials cannot go on from a "
            "checkpoint); 81 if every setting got all of it\n"
            "3 workers: about 9m to 11m\n");
  const json preview = Json({"study", "preview", file, "--workers", "3"});
  EXPECT_EQ(preview["brackets"][0]["rungs"][1]["settings"], 3);
  EXPECT_EQ(preview["training"], 21.0);
  EXPECT_TRUE(preview["seconds_at_most"].is_null());
  const Result plain = Run({"study", "preview", Write("q.yaml", space + "budget: {max_trials: 20}\n")});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out,
              HasSubstr("20 settings, 20 trials of training\n1 worker: about 20 trials long; --seconds says"));
  const Result bad = Run({"study", "preview", Write("bad.yaml", space + "algorithm: {asha: {eta: 1}}\n")});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("bad.yaml:3:25: algorithm.asha.eta: 1 is not between 2 and 1000"));
  EXPECT_THAT(bad.err, HasSubstr("resource: is required by asha"));
}

TEST_F(CliTest, ListsOfAlgorithmsAndObjectivesNeedNoServer) {
  std::vector<std::string> names;
  for (const json& a : Json({"algorithms"})) names.push_back(a["name"]);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"bo", "grid", "random", "sobol"}));
  EXPECT_THAT(Out({"algorithms"}), HasSubstr("initial_points"));
  EXPECT_THAT(Out({"objectives"}), HasSubstr("function:branin"));
  EXPECT_THAT(Out({"objectives", "describe", "logistic"}), HasSubstr("l2"));
  const json described = Json({"objectives", "describe", "logistic"});
  EXPECT_EQ(described["model"], "logistic");
  EXPECT_EQ(described["parameters"][0]["name"], "l2");
  EXPECT_EQ(described["parameters"][0]["search"]["scale"], "LOG");
  EXPECT_EQ(described["metrics"][0]["goal"], "MINIMIZE");
  EXPECT_THAT(Out({"objectives", "describe", "logistic", "-o", "csv"}),
              StartsWith("role,name,kind,required,default,min,max,labels,goal,gradient,units,description\n"
                         "parameter,l2,float,true,"));
  EXPECT_THAT(Out({"version", "-o", "csv"}), StartsWith("version,commit,level\n0."));
  EXPECT_EQ(Run({"objectives", "describe", "logisitc"}).code, 5);
  EXPECT_THAT(Out({"version"}), StartsWith("luthier "));
}

}  // namespace
}  // namespace luthier::cli
