// The verbs of studies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

TEST_F(CliTest, StudyIsCreatedInTheProjectThatIsNamed) {
  StartServer();
  const std::string file = Write("s.yaml", kStudy);
  EXPECT_EQ(Out({"study", "create", "-f", file, "--project", "vision", "-o", "name"}), "projects/vision/studies/s\n");
  EXPECT_EQ(Out({"study", "create", "-f", file, "--name", "vision/t", "-o", "name"}), "projects/vision/studies/t\n");
  EXPECT_EQ(Out({"study", "create", "-f", file, "--name", "default/u", "-o", "name"}), "projects/default/studies/u\n");
  EXPECT_EQ(Json({"study", "list", "--project", "vision"}).size(), 2u);
  EXPECT_THAT(Run({"study", "create", "-f", file, "--name", "No Id/t"}).err, HasSubstr("project of name"));
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

TEST_F(CliTest, UiPrintsWhereThePageIs) {
  StartServer();
  Run({"study", "create", "-f", Write("s.yaml", kStudy)});
  const std::string all = Json({"ui"})["url"];
  EXPECT_THAT(all, ::testing::MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/#/"));
  EXPECT_EQ(Out({"ui", "s"}), absl::StrCat(all, "studies/default/s\n"));
  const Result missing = Run({"ui", "missing"});
  EXPECT_EQ(missing.code, kExitNotFound);
  EXPECT_EQ(missing.out, "");
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
  EXPECT_EQ(Out({"study", "delete", "s", "--yes"}), "s: deleted; for 7 days luthier study undelete s brings it back\n");
  const Result gone = Run({"study", "get", "s"});
  EXPECT_EQ(gone.code, 5);
  EXPECT_THAT(gone.err, HasSubstr("luthier study list\n"));
  EXPECT_THAT(gone.err, Not(HasSubstr("projects/")));
}

TEST_F(CliTest, StudyGetShowsASpecThatCanBeUsedAgain) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const std::string text = Out({"study", "get", "s"});
  EXPECT_THAT(text, StartsWith("s: ACTIVE, 0/4 done\n"));
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
  EXPECT_EQ(Out({"study", "wait", "s"}), "s: COMPLETED (max_trials reached), 4/4 done, best 1 (trial 1)\n");
  other.join();
  const std::vector<std::string> lines = absl::StrSplit(Out({"study", "watch", "s", "-o", "json"}), '\n');
  std::vector<std::string> types;
  for (const std::string& line : lines) {
    if (!line.empty()) types.push_back(json::parse(line)["type"]);
  }
  EXPECT_EQ(types.front(), "STUDY_CREATED");
  EXPECT_EQ(std::count(types.begin(), types.end(), "TRIAL_COMPLETED"), 4);
  EXPECT_EQ(std::count(types.begin(), types.end(), "STUDY_COMPLETED"), 1);
  EXPECT_THAT(Out({"study", "watch", "s"}), ::testing::ContainsRegex("..:..:..  TRIAL_COMPLETED   trial 3  y=3\n"))
      << "seconds without fractions";
  EXPECT_THAT(Out({"study", "watch", "s", "-o", "csv"}),
              StartsWith("seq,time,type,trial,attempt,value,actor,detail\n"));
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
  // Labels that alternate along x look as if they mattered, too: 24 trials do not tell.
  const json warnings = Json({"study", "importance", "s"})["warnings"];
  ASSERT_TRUE(warnings.is_array());
  for (const json& warning : warnings) {
    EXPECT_THAT(table.err, HasSubstr(absl::StrCat("\nwarning: ", warning.get<std::string>(), "\n")));
  }
  const json few = Json({"study", "importance", "s", "--quantile", "0.1"})["warnings"];
  EXPECT_THAT(few.dump(), HasSubstr("The shares say little")) << "the best two of 24 trials tell nothing";
  const json y = Json({"study", "importance", "s", "--pairs", "--quantile", "0.9"});
  EXPECT_EQ(y["trials"], kTrials);
  EXPECT_EQ(y["parameters"][0]["name"], "x");
  EXPECT_GT(y["parameters"][0]["share"], 0.5);
  EXPECT_EQ(y["pairs"][0]["first"], "x");
  EXPECT_EQ(y["pairs"][0]["second"], "kind");
  EXPECT_EQ(Json({"study", "importance", "s", "--metric", "z"})["parameters"][0]["name"], "kind");
  EXPECT_THAT(Out({"study", "importance", "s", "--pairs", "-o", "csv"}), StartsWith("parameter,share,low,high\nx,0."));
  const Result metric = Run({"study", "importance", "s", "--metric", "yy"});
  EXPECT_EQ(metric.code, 1);
  EXPECT_THAT(metric.err, HasSubstr("no complete trial has \"yy\"; they have y, z"));
  const Result quantile = Run({"study", "importance", "s", "--quantile", "1.5"});
  EXPECT_EQ(quantile.code, 1);
  EXPECT_THAT(quantile.err, HasSubstr("quantile: 1.5 is not above 0 and at most 1"));
}

}  // namespace
}  // namespace luthier::cli
