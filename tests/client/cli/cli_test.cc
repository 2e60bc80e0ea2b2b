#include "client/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lib/base/log.h"
#include "lib/suggest/registry.h"
#include "server/server.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kStudy[] = R"(
space: [{name: x, float: {min: -5, max: 5}}, {name: kind, categorical: {values: [a, "=b"]}}]
metric: {name: y, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 4}
)";

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

// The program in this process, against a real coordinator without a disk.
class CliTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { base::SetLogLevel(base::LogLevel::kError); }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  void StartServer() {
    server::ServerOptions options;
    options.listen = "unix:" + Path("socket");
    options.designers = designers_;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Result Run(const std::vector<std::string>& args, const std::string& input = "") const {
    std::ostringstream out;
    std::ostringstream err;
    std::istringstream in(input);
    std::map<std::string, std::string> variables = {{"XDG_STATE_HOME", Path("state")},
                                                    {"LUTHIER_SERVER", "unix:" + Path("socket")}};
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.in = &in;
    environment.getenv = [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    environment.seed = ++runs_;
    environment.host = "Test Host";
    environment.program_directory = directory_.path();
    const int code = RunCli(args, environment);
    return {code, out.str(), err.str()};
  }

  // Of a verb that must succeed.
  std::string Out(const std::vector<std::string>& args) const {
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  json Json(std::vector<std::string> args) const {
    args.insert(args.end(), {"-o", "json"});
    return json::parse(Out(args), nullptr, /*allow_exceptions=*/false);
  }

  decltype(server::ServerOptions::designers) designers_;  // Null: the registry.
  const testing::TemporaryDirectory directory_;
  std::unique_ptr<server::Server> server_;
  mutable uint64_t runs_ = 0;
};

// --- The command line itself ---

TEST_F(CliTest, HelpNamesEveryVerbOnStandardOutput) {
  const Result result = Run({"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* verb : {"run", "study", "trial", "ask", "tell", "report", "simulate", "objectives", "algorithms",
                           "verify-replay", "version"}) {
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("\n  ", verb, " "))) << verb;
  }
  EXPECT_THAT(result.out, HasSubstr("124 timed out"));
}

TEST_F(CliTest, EveryVerbHasHelpWithAnExampleOfItself) {
  for (const std::string verb :
       {"run",           "study create", "study list",    "study get",    "study watch",         "study wait",
        "study pause",   "study resume", "study stop",    "study cancel", "study delete",        "trial list",
        "trial get",     "trial best",   "trial explain", "trial add",    "trial cancel",        "ask",
        "tell",          "report",       "simulate",      "objectives",   "objectives describe", "algorithms",
        "verify-replay", "version"}) {
    std::vector<std::string> args = absl::StrSplit(verb, ' ');
    args.push_back("--help");
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0) << verb;
    EXPECT_THAT(result.out, HasSubstr("Example:\n  luthier " + verb)) << verb;
  }
}

TEST_F(CliTest, HelpOfTellIsWhatTheManualShows) {
  EXPECT_EQ(Run({"tell", "--help"}).out,
            "Tell the result of a setting that was asked for\n"
            "Usage: luthier tell [OPTIONS] STUDY TRIAL\n"
            "\n"
            "Positionals:\n"
            "  STUDY TEXT REQUIRED               Id of the study\n"
            "  TRIAL INT:POSITIVE REQUIRED       Number of the trial\n"
            "\n"
            "Options:\n"
            "  -h,--help                         Print this help message and exit\n"
            "  --metric TEXT ...                 NAME=NUMBER; may be repeated\n"
            "  --elapsed FLOAT                   Training time so far, in seconds\n"
            "  --gradient TEXT                   d(metric)/d(parameter): a list in the order of the space, "
            "{directional: {direction, slope}}, or a file\n"
            "  --slope FLOAT                     Slope of the metric along the direction that the trial asks for\n"
            "  --token TEXT                      Lease token; default: the one that `ask` kept\n"
            "  --step INT                        Step that the result belongs to\n"
            "  --pruned                          The trial was stopped early; the metrics are its last ones, if it has "
            "any\n"
            "  --paused                          The trial reached its target (--step is needed) and can go on from "
            "--checkpoint, if the algorithm says so\n"
            "  --checkpoint TEXT                 With --paused: where it can go on\n"
            "  --failed TEXT                     The trial failed: a reason such as DIVERGED\n"
            "  --message TEXT                    More about the failure\n"
            "  --infra                           The failure says nothing about the setting: try it again\n"
            "\n"
            "Example:\n"
            "  luthier tell my-study 7 --metric loss=0.31 --gradient '[0.2, -1.5]'\n"
            "Options of all verbs: luthier --help\n");
}

struct BadUsage {
  std::vector<std::string> args;
  const char* error;
};

TEST_F(CliTest, BadCommandLinesAreExplainedWithExitCodeTwo) {
  const BadUsage table[] = {
      {{}, "luthier: A subcommand is required\nfor help: luthier --help\n"},
      {{"stduy"}, "luthier: there is no verb \"stduy\" (did you mean \"study\"?)"},
      {{"study"}, "luthier: A subcommand is required\nfor help: luthier study --help\n"},
      {{"study", "lst"}, "luthier: there is no verb \"study lst\" (did you mean \"list\"?)"},
      {{"study", "get"}, "luthier: STUDY is required\nfor help: luthier study get --help\n"},
      {{"study", "list", "-o", "xml"}, "luthier: --output: xml not in {table,json,csv}"},
      {{"study", "list", "--what"}, "luthier: there is no option \"--what\"\nfor help: luthier study list --help\n"},
      {{"trial", "get", "s", "0"}, "luthier: TRIAL: must be at least 1, not 0"},
      {{"tell", "s", "-1", "--metric", "y=1"}, "luthier: TRIAL: must be at least 1, not -1"},
      {{"trial", "get", "s", "one"}, "luthier: "},
      {{"trial", "list", "s", "--state", "complet"}, "luthier: --state: \"complet\" is not one of PENDING"},
      {{"trial", "add", "s", "--set", "x"}, "luthier: --set: \"x\" is not of the form NAME=VALUE"},
      {{"trial", "add", "s", "--set", "x=1", "--set", "x=2"}, "luthier: --set: \"x\" is given twice"},
      {{"tell", "s", "1"}, "luthier: tell: needs --metric NAME=VALUE for a result, or --failed REASON"},
      {{"tell", "s", "1", "--metric", "y=1", "--failed", "X"},
       "luthier: --failed: a failure has no result; leave out --metric"},
      {{"tell", "s", "1", "--metric", "y=1", "--infra"}, "luthier: --infra: goes with --failed REASON"},
      {{"tell", "s", "1", "--metric", "y=0x10"}, "luthier: --metric: \"y=0x10\" is not of the form NAME=NUMBER"},
      {{"tell", "s", "1", "--metic", "y=1"}, "luthier: there is no option \"--metic\" (did you mean \"--metric\"?)"},
      {{"ask", "No/such"}, "luthier: STUDY: \"No/such\" is not an id"},
      {{"study", "list", "--server", "bad"}, "luthier: --server: \"bad\" has no port; give host:port"},
      {{"simulate", "--algorithm", "random", "--function", "branin", "--seeds", "0"},
       "luthier: --seeds: must be at least 1, not 0"},
      {{"tell", "s", "1", "--metric", "y=one"}, "luthier: --metric: \"y=one\" is not of the form NAME=NUMBER"},
      {{"tell", "s", "1", "--metric", "y=1", "--token", "zz"}, "luthier: --token: is not the hexadecimal token"},
      {{"study", "wait", "s", "--timeout", "soon"}, "luthier: --timeout: 'soon' is not a duration"},
      {{"simulate", "--algorithm", "boo", "--function", "branin"},
       "luthier: --algorithm: \"boo\" is none (did you mean \"bo\"?)"},
      {{"simulate", "--algorithm", "bo", "--function", "brainin"}, "luthier: --function: "},
      {{"verify-replay"}, "luthier: --db: is required"},
      {{"run", "x.yaml", "--workers", "0"}, "luthier: --workers: "},
  };
  for (const BadUsage& bad : table) {
    const Result result = Run(bad.args);
    EXPECT_EQ(result.code, 2) << bad.error << result.err;
    EXPECT_THAT(result.err, StartsWith(bad.error));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(CliTest, UnreachableServerIsExplained) {
  const Result result = Run({"study", "list"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, StartsWith("luthier: no server answers at unix:" + Path("socket")));
  EXPECT_THAT(result.err, HasSubstr("start one: luthierd --listen unix:" + Path("socket")));
  const Result bad = Run({"study", "list", "--server", "localhost"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("has no port; give host:port"));
}

// --- Studies ---

TEST_F(CliTest, StudyIsCreatedOnceUnderTheFilesName) {
  StartServer();
  const std::string file = Write("My Study.v2.yaml", kStudy);
  EXPECT_EQ(Out({"study", "create", "-f", file}), "my-study.v2: ACTIVE, 0/4 done\n");
  EXPECT_EQ(Out({"study", "create", "-f", file}), "my-study.v2: ACTIVE, 0/4 done\n");
  EXPECT_EQ(Run({"study", "create", "-f", "-", "--name", "piped"}, kStudy).code, 0);
  EXPECT_EQ(Run({"study", "create", "-f", "-"}, kStudy).code, 1);
  const json list = Json({"study", "list"});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["id"], "my-study.v2");
  EXPECT_EQ(list[1]["spec"]["budget"]["max_trials"], 4);
  EXPECT_EQ(list[1]["trials"]["complete"], 0);

  Write("My Study.v2.yaml", std::string(kStudy) + "seed: 3\n");
  const Result changed = Run({"study", "create", "-f", file});
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.err, HasSubstr("seed"));
  EXPECT_EQ(Run({"study", "create", "-f", Path("none.yaml")}).code, 1);
  EXPECT_THAT(Run({"study", "create", "-f", Path("none.yaml")}).err, HasSubstr("No such file"));
  EXPECT_THAT(Run({"study", "create", "-f", directory_.path()}).err, HasSubstr("is a directory"));
  EXPECT_THAT(Run({"study", "create", "-f", file, "--name", "No Id"}).err, HasSubstr("is not an id"));
}

TEST_F(CliTest, StudyFileErrorsHaveFileLineAndColumn) {
  const std::string file = Write("bad.yaml", "spce: []\nmetric: {name: y}\n");
  const Result result = Run({"study", "create", "-f", file});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "luthier: " + file + ":1:1: has no field \"spce\" (did you mean \"space\"?)\n");
}

TEST_F(CliTest, RefusalsOfTheServerHaveFileLineAndColumnToo) {
  StartServer();
  const std::string file = Write("bad.yaml",
                                 "space: [{name: x, float: {min: 0, max: 1}}]\n"
                                 "metric: {name: loss, goal: MINIMIZE}\n"
                                 "objective: {builtin: {model: logisitc}}\n");
  const Result result = Run({"study", "create", "-f", file});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, StartsWith("luthier: " + file + ":3:"));
  EXPECT_THAT(result.err, HasSubstr("objective.builtin.model"));
}

TEST_F(CliTest, StudyIsPausedResumedStoppedAndDeleted) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  EXPECT_EQ(Out({"study", "pause", "s"}), "s: PAUSED, 0/4 done\n");
  const Result ask = Run({"ask", "s"});
  EXPECT_EQ(ask.code, 1);
  EXPECT_THAT(ask.err, HasSubstr("to go on: luthier study resume s\n"));
  EXPECT_EQ(Json({"study", "resume", "s"})["state"], "ACTIVE");
  const Result hasty = Run({"study", "wait", "s", "--timeout", "0.05"});
  EXPECT_EQ(hasty.code, 124);
  EXPECT_EQ(hasty.out, "s: ACTIVE, 0/4 done\n");
  EXPECT_EQ(Out({"study", "stop", "s"}), "s: STOPPED, 0/4 done\n");
  EXPECT_EQ(Out({"study", "wait", "s"}), "s: STOPPED, 0/4 done\n");
  EXPECT_EQ(Run({"study", "delete", "s"}).code, 1);
  EXPECT_EQ(Out({"study", "delete", "s", "--yes"}), "s: deleted\n");
  const Result gone = Run({"study", "get", "s"});
  EXPECT_EQ(gone.code, 5);
  EXPECT_THAT(gone.err, HasSubstr("luthier study list\n"));
  EXPECT_THAT(gone.err, Not(HasSubstr("projects/")));
}

TEST_F(CliTest, StudyGetShowsASpecThatCanBeUsedAgain) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const std::string text = Out({"study", "get", "s"});
  EXPECT_THAT(text, StartsWith("study    s\nstate    ACTIVE\ntrials   0/4 done\n"));
  EXPECT_THAT(text, HasSubstr("\n    - {name: kind, categorical: {values: [a, \"=b\"]}}\n"));
  const std::string spec = Json({"study", "get", "s"})["spec"].dump();
  EXPECT_EQ(Run({"study", "create", "-f", "-", "--name", "s"}, spec).code, 0);
}

TEST_F(CliTest, WaitAndWatchEndWithTheStudy) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s", "--count", "4"});
  std::thread other([&] {
    for (int i = 1; i <= 4; ++i) Out({"tell", "s", std::to_string(i), "--metric", "y=" + std::to_string(i)});
  });
  EXPECT_EQ(Out({"study", "wait", "s"}), "s: COMPLETED, 4/4 done, best 1 (trial 1)\n");
  other.join();
  const std::vector<std::string> lines = absl::StrSplit(Out({"study", "watch", "s", "-o", "json"}), '\n');
  std::vector<std::string> types;
  for (const std::string& line : lines) {
    if (!line.empty()) types.push_back(json::parse(line)["type"]);
  }
  EXPECT_EQ(types.front(), "STUDY_CREATED");
  EXPECT_EQ(std::count(types.begin(), types.end(), "TRIAL_COMPLETED"), 4);
  EXPECT_EQ(std::count(types.begin(), types.end(), "STUDY_COMPLETED"), 1);
  EXPECT_THAT(Out({"study", "watch", "s"}), HasSubstr("TRIAL_COMPLETED   trial 3  3"));
  EXPECT_THAT(Out({"study", "watch", "s", "-o", "csv"}),
              StartsWith("seq,time,type,trial,attempt,value,actor,detail\n"));
}

// --- Ask and tell ---

TEST_F(CliTest, AskKeepsTheTokenForTell) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const json leases = Json({"ask", "s", "--count", "2"});
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(leases[0]["number"], 1);
  EXPECT_TRUE(leases[0]["parameters"]["x"].is_number());
  EXPECT_EQ(leases[0]["token"].get<std::string>().size(), 32u);
  EXPECT_EQ(leases[0]["ttl"], "60s");
  EXPECT_EQ(Out({"report", "s", "1", "--step", "1", "--metric", "y=3"}), "CONTINUE\n");
  EXPECT_EQ(Out({"tell", "s", "1", "--metric", "y=0.5", "--metric", "aux=nan", "--gradient", "[1]", "--step", "2",
                 "--elapsed", "1.5"}),
            "trial 1: COMPLETE\n");
  EXPECT_EQ(Out({"tell", "s", "1", "--metric", "y=0.5", "--metric", "aux=nan", "--gradient", "[1]", "--step", "2",
                 "--elapsed", "1.5"}),
            "trial 1: COMPLETE\n");  // Told again: no harm.
  const Result other = Run({"tell", "s", "1", "--metric", "y=0.25"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("the first one stands"));
  EXPECT_EQ(Json({"tell", "s", "2", "--failed", "DIVERGED", "--message", "oh no"})["state"], "FAILED");

  const json trials = Json({"trial", "list", "s"});
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0]["state"], "COMPLETE");
  EXPECT_EQ(trials[0]["metrics"], (json{{"y", 0.5}, {"aux", "NaN"}}));
  EXPECT_EQ(trials[0]["gradient"]["full"]["values"], json{1});
  EXPECT_EQ(trials[0]["step"], 2);
  EXPECT_EQ(trials[0]["provenance"]["designer"], "random");
  EXPECT_EQ(trials[0]["attempts"][0]["worker"], "cli-test-host");
  EXPECT_EQ(trials[1]["metrics"], json::object());
  EXPECT_EQ(trials[1]["failure"]["reason"], "DIVERGED");
  EXPECT_EQ(trials[1]["failure"]["message"], "oh no");
  EXPECT_EQ(trials[1]["checkpoint"], "");
  EXPECT_TRUE(trials[1].contains("create_time"));
  EXPECT_TRUE(trials[1].contains("end_time"));
}

TEST_F(CliTest, TellWithoutAskNeedsAToken) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const json lease = Json({"ask", "s"})[0];
  std::filesystem::remove_all(Path("state"));
  const Result lost = Run({"tell", "s", "1", "--metric", "y=1"});
  EXPECT_EQ(lost.code, 1);
  EXPECT_THAT(lost.err, HasSubstr("trial 1 of s was not asked for here"));
  EXPECT_THAT(lost.err, HasSubstr("--token"));
  EXPECT_EQ(Out({"tell", "s", "1", "--metric", "y=1", "--token", lease["token"]}), "trial 1: COMPLETE\n");
}

TEST_F(CliTest, TellOfWhatIsNotThereIsNotFound) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const Result study = Run({"tell", "none", "1", "--metric", "y=1"});
  EXPECT_EQ(study.code, 5);
  EXPECT_THAT(study.err, HasSubstr("to see what there is: luthier study list\n"));
  const Result trial = Run({"report", "s", "99", "--step", "1", "--metric", "y=1"});
  EXPECT_EQ(trial.code, 5);
  EXPECT_THAT(trial.err, HasSubstr("to see what there is: luthier trial list s\n"));
}

TEST_F(CliTest, AStepThatIsReportedAgainOtherwiseIsExplained) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s"});
  Out({"report", "s", "1", "--step", "3", "--metric", "y=1"});
  const Result other = Run({"report", "s", "1", "--step", "3", "--metric", "y=2"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("step 3 was reported with other values already"));
  EXPECT_EQ(Out({"tell", "s", "1", "--pruned"}), "trial 1: PRUNED\n");
  EXPECT_EQ(Json({"trial", "get", "s", "1"})["metrics"], json::object());
}

TEST_F(CliTest, AskSaysWhyThereIsNothing) {
  StartServer();
  Out({"study", "create", "-f",
       Write("s.yaml", absl::StrReplaceAll(kStudy, {{"max_trials: 4", "max_trials: 4, max_parallel: 1"}}))});
  Out({"ask", "s"});
  Out({"trial", "add", "s", "--set", "x=1", "--set", "kind=a"});
  const Result full = Run({"ask", "s", "--timeout", "0"});
  EXPECT_EQ(full.code, 124);
  EXPECT_THAT(full.err, HasSubstr("max_parallel allows 1 at once, and so many are running; 1 more wait for a place"));
  Out({"study", "stop", "s"});
  const Result resume = Run({"study", "resume", "s"});
  EXPECT_EQ(resume.code, 1);
  EXPECT_THAT(resume.err, HasSubstr("to try more settings, create another study"));
}

TEST_F(CliTest, GradientsComeInSeveralForms) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s", "--count", "4"});
  const std::string file = Write("g.json", "[\n 2.5\n]\n");
  Out({"tell", "s", "1", "--metric", "y=1", "--gradient", file});
  Out({"tell", "s", "2", "--metric", "y=1", "--gradient",
       "{directional: {direction: [2], slope: -1}, error_bound: 1e-3}"});
  const Result wrong = Run({"tell", "s", "3", "--metric", "y=1", "--gradient", "[1, 2]"});
  EXPECT_EQ(wrong.code, 0);
  EXPECT_THAT(wrong.err, HasSubstr("warning: "));
  const Result bad = Run({"tell", "s", "4", "--metric", "y=1", "--gradient", "{fulll: 1}"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("did you mean \"full\""));
  const json trials = Json({"trial", "list", "s", "--state", "complete"});
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0]["gradient"]["full"]["values"][0], 2.5);
  EXPECT_EQ(trials[1]["gradient"]["directional"]["slope"], -1);
  EXPECT_FALSE(trials[2].contains("gradient"));
}

TEST_F(CliTest, AskEndsQuietlyWhenTheStudyIsFinished) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s", "--count", "4"});
  const Result none = Run({"ask", "s", "--timeout", "0"});
  EXPECT_EQ(none.code, 124);
  EXPECT_EQ(none.out, "");
  for (int i = 1; i <= 4; ++i) Out({"tell", "s", std::to_string(i), "--metric", "y=1"});
  const Result done = Run({"ask", "s", "-o", "json"});
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out, "[]\n");
  EXPECT_THAT(done.err, HasSubstr("finished"));
}

// --- Trials ---

TEST_F(CliTest, TrialsAreAddedListedExplainedAndCancelled) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  EXPECT_EQ(Run({"trial", "best", "s"}).code, 1);
  const json added = Json({"trial", "add", "s", "--set", "x=1.25", "--set", "kind==b", "--note", "why=guess"});
  EXPECT_EQ(added[0]["parameters"], (json{{"x", 1.25}, {"kind", "=b"}}));
  EXPECT_EQ(added[0]["attributes"], (json{{"why", "guess"}}));
  Out({"trial", "add", "s", "-f", Write("p.yaml", "{x: -1, kind: a}")});
  const Result wrong = Run({"trial", "add", "s", "--set", "z=1"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("is not a parameter of the study; it has x, kind"));
  const Result label = Run({"trial", "add", "s", "--set", "x=9", "--set", "kind=c"});
  EXPECT_THAT(label.err, HasSubstr("\"c\" is not one of its labels: a, =b"));
  EXPECT_THAT(label.err, HasSubstr("9 is outside [-5, 5]; give a value within these bounds"));
  Out({"ask", "s"});
  Out({"tell", "s", "1", "--metric", "y=0.5"});
  EXPECT_EQ(Out({"trial", "cancel", "s", "2"}), "trial 2: CANCELLED\n");
  EXPECT_EQ(Run({"trial", "cancel", "s", "1"}).code, 1);  // Final.
  EXPECT_EQ(Out({"trial", "list", "s"}),
            "number  state        y     x  kind  attempts  origin    worker         note\n"
            "     1  COMPLETE   0.5  1.25  =b           1  enqueued  cli-test-host\n"
            "     2  CANCELLED         -1  a            0  enqueued\n");
  EXPECT_EQ(Out({"trial", "list", "s", "-o", "csv"}),
            "number,state,y,x,kind,attempts,origin,worker,note\n"
            "1,COMPLETE,0.5,1.25,'=b,1,enqueued,cli-test-host,\n"
            "2,CANCELLED,,-1,a,0,enqueued,,\n");
  EXPECT_EQ(Json({"trial", "list", "s", "--state", "pending"}), json::array());
  EXPECT_EQ(Out({"trial", "explain", "s", "1"}), "trial 1: COMPLETE\ntried because a user added it\nresult: y = 0.5\n");
  EXPECT_EQ(Json({"trial", "best", "s"})["number"], 1);
  EXPECT_EQ(Run({"trial", "get", "s", "9"}).code, 5);
  Out({"ask", "s"});
  EXPECT_THAT(Out({"trial", "explain", "s", "3"}), HasSubstr("proposed by random (version "));
}

TEST_F(CliTest, TrialGetShowsTheLearningCurveAndTheFailure) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s"});
  Out({"report", "s", "1", "--step", "1", "--metric", "y=3"});
  Out({"report", "s", "1", "--step", "2", "--metric", "y=2", "--elapsed", "0.5"});
  Out({"tell", "s", "1", "--failed", "DIVERGED", "--message", "line one\n\x1b[31mline two"});
  const std::string text = Out({"trial", "get", "s", "1", "--measurements"});
  EXPECT_THAT(text, HasSubstr("failure: CONFIG DIVERGED\n  line one\n  \\x1b[31mline two\n"));
  EXPECT_THAT(text, HasSubstr("step  y  elapsed_seconds\n   1  3\n   2  2              0.5\n"));
  EXPECT_EQ(Json({"trial", "get", "s", "1", "--measurements"})["measurements"][1]["metrics"]["y"], 2);
  const Result infra = Run({"tell", "s", "1", "--failed", "bad reason", "--token", "00"});
  EXPECT_EQ(infra.code, 1);
}

// --- Without a server ---

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
  EXPECT_THAT(Out({"version", "-o", "csv"}), StartsWith("version\n"));
  EXPECT_EQ(Run({"objectives", "describe", "logisitc"}).code, 5);
  EXPECT_THAT(Out({"version"}), StartsWith("luthier "));
}

// Random settings, with the wish for a slope for every second one.
class AskingForSlopes final : public suggest::Designer {
 public:
  explicit AskingForSlopes(const study::StudySpec& spec) : random_(suggest::CreateDesigner(spec)) {}
  absl::StatusOr<suggest::Suggestion> Suggest(const study::History& history, uint64_t ask_index) override {
    suggest::Suggestion suggestion = random_->Suggest(history, ask_index).value();
    if (ask_index % 2 == 0) suggestion.direction = {-0.5};
    return suggestion;
  }

 private:
  const std::unique_ptr<suggest::Designer> random_;
};

TEST_F(CliTest, ASlopeThatIsAskedForIsShownAndTold) {
  designers_ = [](const study::StudySpec& spec) { return std::make_unique<AskingForSlopes>(spec); };
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const Result first = Run({"ask", "s"});
  EXPECT_THAT(first.err, HasSubstr("trial 1: the slope along [-0.5] is welcome (tell --slope NUMBER)\n"));
  const json leases = Json({"ask", "s", "--count", "2"});
  EXPECT_EQ(leases[0]["direction"], json::array());
  EXPECT_EQ(leases[1]["direction"], json::parse("[-0.5]"));
  EXPECT_THAT(Run({"tell", "s", "2", "--metric", "y=1", "--slope", "3"}).err, HasSubstr("trial 2 asks for none"));
  EXPECT_EQ(Run({"tell", "s", "1", "--metric", "y=1", "--slope", "3", "--gradient", "[1]"}).code, 2);
  EXPECT_EQ(Run({"tell", "s", "1", "--failed", "DIVERGED", "--slope", "3"}).code, 2);
  Out({"tell", "s", "1", "--metric", "y=1", "--slope", "3"});
  const json trial = Json({"trial", "get", "s", "1"});
  EXPECT_EQ(trial["gradient"]["directional"]["slope"], 3.0);
  EXPECT_EQ(trial["gradient"]["directional"]["direction"], json::parse("[-0.5]"));
  EXPECT_THAT(Out({"trial", "explain", "s", "1"}), HasSubstr("asked for the slope along [-0.5]"));
  EXPECT_THAT(Out({"trial", "explain", "s", "2"}), Not(HasSubstr("slope")));
}

TEST_F(CliTest, StudyGetShowsWhatTheResultsRuleOutAndOnWhatCondition) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  for (int i = 1; i <= 3; ++i) {
    Out({"ask", "s"});
    Out({"tell", "s", absl::StrCat(i), "--metric", absl::StrCat("y=", i)});
  }
  EXPECT_THAT(Out({"study", "get", "s"}), Not(HasSubstr("ruled out")));
  EXPECT_THAT(Out({"study", "get", "s", "--lipschitz", "1000", "--epsilon", "0.5"}),
              AllOf(HasSubstr("of the space cannot hold a y better than 1 by more than 0.5"),
                    HasSubstr("provided that y nowhere changes faster than L = 1000 per side")));
  EXPECT_EQ(Json({"study", "get", "s", "--lipschitz", "1000"})["certificate"]["results"], 3);
  EXPECT_EQ(Run({"study", "get", "s", "--lipschitz", "-3"}).code, 1);
}

TEST_F(CliTest, ImportanceSaysWhichParameterMattersAndWhatWasLeftOut) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", absl::StrReplaceAll(kStudy, {{"max_trials: 4", "max_trials: 40"}}))});
  const Result early = Run({"study", "importance", "s"});
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.err, HasSubstr("at least 10 complete trials with a value; there are 0"));
  constexpr int kTrials = 24;
  for (int i = 1; i <= kTrials; ++i) {
    const double x = -5.0 + 10.0 * i / kTrials;
    Out({"trial", "add", "s", "--set", absl::StrCat("x=", x), "--set", absl::StrCat("kind=", i % 2 == 0 ? "a" : "=b")});
    Out({"ask", "s"});
    Out({"tell", "s", absl::StrCat(i), "--metric", absl::StrCat("y=", x * x), "--metric", absl::StrCat("z=", i % 2)});
  }
  Out({"ask", "s"});
  const Result table = Run({"study", "importance", "s"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, StartsWith("parameter   share"));
  EXPECT_THAT(table.out, HasSubstr("\nx "));
  EXPECT_LT(table.out.find("\nx "), table.out.find("\nkind "));
  EXPECT_THAT(table.err, HasSubstr("of y over the space, from 24 complete trials; 1 others"));
  const json y = Json({"study", "importance", "s", "--pairs", "--quantile", "0.9"});
  EXPECT_EQ(y["trials"], kTrials);
  EXPECT_EQ(y["parameters"][0]["name"], "x");
  EXPECT_GT(y["parameters"][0]["share"], 0.5);
  EXPECT_EQ(y["pairs"][0]["first"], "x");
  EXPECT_EQ(y["pairs"][0]["second"], "kind");
  EXPECT_EQ(Json({"study", "importance", "s", "--metric", "z"})["parameters"][0]["name"], "kind");
  EXPECT_THAT(Out({"study", "importance", "s", "--pairs", "-o", "csv"}), StartsWith("parameter,share,low,high\nx,0."));
  const Result metric = Run({"study", "importance", "s", "--metric", "yy"});
  EXPECT_EQ(metric.code, 2);
  EXPECT_THAT(metric.err, HasSubstr("no complete trial has \"yy\"; they have y, z"));
  const Result quantile = Run({"study", "importance", "s", "--quantile", "1.5"});
  EXPECT_EQ(quantile.code, 1);
  EXPECT_THAT(quantile.err, HasSubstr("quantile: 1.5 is not above 0 and at most 1"));
}

}  // namespace
}  // namespace luthier::cli
