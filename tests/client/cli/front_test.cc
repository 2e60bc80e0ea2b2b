// Studies with several metrics on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kBounded[] = R"(
space: [{name: x, float: {min: 0, max: 1}}]
metrics:
- {name: loss, goal: MINIMIZE}
- {name: ms, at_most: 20}
algorithm: {random: {}}
budget: {max_trials: 9}
)";

constexpr char kSeveral[] = R"(
space: [{name: x, float: {min: 0, max: 1}}]
metrics:
- {name: accuracy, goal: MAXIMIZE, reference: 0}
- {name: energy, goal: MINIMIZE, reference: 10}
- {name: ms, at_most: 20}
algorithm: {random: {}}
budget: {max_trials: 9}
)";

class FrontTest : public CliTest {
 protected:
  void Start(const char* study) {
    StartServer();
    Out({"study", "create", "-f", Write("s.yaml", study)});
  }
  // `metrics`: "loss=1 ms=2".
  void Tell(const std::vector<std::string>& metrics) {
    Out({"ask", "s"});
    std::vector<std::string> args = {"tell", "s", std::to_string(++told_)};
    for (const std::string& metric : metrics) {
      args.emplace_back("--metric");
      args.push_back(metric);
    }
    Out(args);
  }

 private:
  int told_ = 0;
};

TEST_F(FrontTest, TheBestTrialIsTheBestWithinTheBounds) {
  Start(kBounded);
  EXPECT_THAT(Run({"trial", "best", "s"}).err, HasSubstr("no trial of s is COMPLETE yet"));
  Tell({"loss=1", "ms=30"});
  Tell({"loss=2", "ms=25"});
  const Result none = Run({"trial", "best", "s"});
  EXPECT_EQ(none.code, 1);
  // 30 and 25 have the standard deviation 2.5.
  EXPECT_THAT(none.err,
              HasSubstr("no trial of s meets the bounds of its metrics; the least violation is 2 (in standard "
                        "deviations of the metrics), of trial 2: luthier trial get s 2"));
  EXPECT_THAT(Out({"study", "get", "s"}),
              HasSubstr("bounds   no trial meets the bounds; the least violation is 2, of trial 2\n"));
  Tell({"loss=3", "ms=20"});
  EXPECT_EQ(Json({"trial", "best", "s"})["number"], 3);
  EXPECT_EQ(Json({"trial", "best", "s"})["feasible"], true);
  EXPECT_THAT(Out({"trial", "get", "s", "1"}), HasSubstr("feasible: no, ms is above 20\n"));
  EXPECT_THAT(Out({"study", "get", "s"}), HasSubstr("bounds   2 of 3 complete trials (67 %) are beyond the bounds\n"));
  EXPECT_THAT(Out({"trial", "list", "s"}), HasSubstr("number  state     loss  ms  feasible"));
  EXPECT_THAT(Out({"trial", "list", "s", "--filter", "feasible = true", "-o", "csv"}),
              HasSubstr("3,COMPLETE,3,20,yes"));
  EXPECT_THAT(Run({"trial", "best", "s", "--pick", "knee"}).err, HasSubstr("--pick: chooses among"));
  EXPECT_THAT(Run({"trial", "best", "s", "--at-most", "ms=3"}).err, HasSubstr("--at-most: chooses among"));
}

TEST_F(FrontTest, GradientsOfOtherMetricsAreToldByTheirNames) {
  Start(kBounded);
  Out({"ask", "s", "--count", "2"});
  Out({"tell", "s", "1", "--metric", "loss=1", "--metric", "ms=3", "--gradient", "[2]", "--gradient-of", "ms=[-4]"});
  const json metrics = Json({"trial", "get", "s", "1"})["gradients"];
  EXPECT_EQ(metrics["ms"]["full"]["values"][0], -4);
  for (const auto& [given, said] :
       std::vector<std::pair<std::string, std::string>>{{"[1]", "does not begin with the name of a --metric"},
                                                        {"joules=[1]", "does not begin with the name of a --metric"},
                                                        {"ms={fulll: 1}", "did you mean \"full\""},
                                                        {"ms=", "luthier: "}}) {
    const Result refused = Run({"tell", "s", "2", "--metric", "loss=1", "--metric", "ms=3", "--gradient-of", given});
    EXPECT_NE(refused.code, 0) << given;
    EXPECT_THAT(refused.err, HasSubstr(said)) << given;
  }
  const Result twice = Run({"tell", "s", "2", "--metric", "loss=1", "--metric", "ms=3", "--gradient-of", "ms=[1]",
                            "--gradient-of", "ms=[1]"});
  EXPECT_THAT(twice.err, HasSubstr("is given twice"));
}

TEST_F(FrontTest, AStudyFileWithMetricsIsPrintedAsItWasWritten) {
  Start(kSeveral);
  const std::string text = Out({"study", "get", "s"});
  EXPECT_THAT(text, HasSubstr("  metrics:\n"
                              "    - {name: accuracy, goal: MAXIMIZE, reference: 0}\n"
                              "    - {name: energy, goal: MINIMIZE, reference: 10}\n"
                              "    - {name: ms, at_most: 20}\n"));
  EXPECT_THAT(text, Not(HasSubstr("metric:")));
  const json spec = Json({"study", "get", "s"})["spec"];
  Out({"study", "create", "-f", Write("again.json", spec.dump()), "--name", "again"});
}

TEST_F(FrontTest, SeveralObjectivesHaveAFront) {
  Start(kSeveral);
  EXPECT_THAT(Run({"trial", "best", "s"}).err, HasSubstr("no trial of s is COMPLETE yet"));
  Tell({"accuracy=1", "energy=9", "ms=1"});
  Tell({"accuracy=0.8", "energy=2", "ms=1"});
  Tell({"accuracy=0.1", "energy=1", "ms=1"});
  Tell({"accuracy=0.1", "energy=3", "ms=1"});
  Tell({"accuracy=2", "energy=0", "ms=21"});
  const json front = Json({"trial", "best", "s"});
  ASSERT_EQ(front.size(), 3u);
  EXPECT_EQ(front[0]["number"], 1);
  EXPECT_EQ(front[2]["number"], 3);
  EXPECT_THAT(Out({"trial", "best", "s"}), HasSubstr("number  state     accuracy  energy  ms  feasible"));
  // Beyond accuracy 0 and energy 10: 0.2 x 1 + 0.7 x 8 + 0.1 x 9.
  EXPECT_THAT(Out({"study", "get", "s"}),
              HasSubstr("3 trials on the front, hypervolume 6.7 beyond accuracy 0, energy 10"));
  EXPECT_EQ(Json({"trial", "best", "s", "--pick", "knee"})["number"], 2);
  EXPECT_EQ(Json({"trial", "best", "s", "--at-most", "energy=5"})["number"], 2);
  EXPECT_THAT(Run({"trial", "best", "s", "--at-most", "energy=nan"}).err, HasSubstr("ends in no number"));
  EXPECT_EQ(Json({"trial", "best", "s", "--at-least", "accuracy=0.9"})["number"], 1);
  EXPECT_EQ(Json({"trial", "best", "s", "--at-most", "ms=5"}).size(), 3u)
      << "two objectives are free: all of the front";
  EXPECT_THAT(Run({"trial", "best", "s", "--at-most", "energy=0.5"}).err, HasSubstr("is within these limits"));
  EXPECT_THAT(Run({"trial", "best", "s", "--at-most", "enrgy=5"}).err,
              HasSubstr("\"enrgy\" is none of the study's metrics, accuracy, energy, ms (did you mean \"energy\"?)"));
  EXPECT_THAT(Run({"trial", "best", "s", "--at-most", "energy"}).err, HasSubstr("is not of the form NAME=NUMBER"));
  EXPECT_THAT(Run({"trial", "best", "s", "--pick", "first"}).err, HasSubstr("\"first\" is not knee"));
  EXPECT_THAT(Out({"study", "list", "-o", "csv"}), HasSubstr("\"accuracy, energy\""));
}

TEST_F(FrontTest, WhatIsAskedForSaysWhetherOneTrialIsPrinted) {
  Start(kSeveral);
  Tell({"accuracy=1", "energy=1", "ms=1"});
  EXPECT_EQ(Json({"trial", "best", "s"}).size(), 1u) << "a front of one trial is a list of one";
  EXPECT_EQ(Json({"trial", "best", "s", "--pick", "knee"})["number"], 1);
  EXPECT_EQ(Json({"trial", "best", "s", "--at-most", "energy=5"})["number"], 1);
  EXPECT_EQ(Json({"trial", "best", "s", "--at-most", "ms=5"})[0]["number"], 1);
  EXPECT_THAT(Out({"trial", "best", "s", "--pick", "knee"}), HasSubstr("accuracy"));
}

TEST_F(FrontTest, AFrontWithoutAHypervolumeSaysSo) {
  Start(kSeveral);
  Tell({"accuracy=-1", "energy=20", "ms=1"});
  const char* const note =
      "no hypervolume: no trial is better than the reference point (accuracy 0, energy 10) in every objective";
  EXPECT_THAT(Out({"study", "get", "s"}), HasSubstr(absl::StrCat("front    ", note)));
  EXPECT_THAT(Run({"trial", "best", "s"}).err, HasSubstr(note));
  Tell({"accuracy=1", "energy=1", "ms=1"});
  EXPECT_THAT(Out({"study", "get", "s"}), Not(HasSubstr(note)));
}

TEST_F(FrontTest, CurvesShowEveryMetric) {
  Start(kSeveral);
  Out({"ask", "s"});
  Out({"report", "s", "1", "--step", "2", "--metric", "accuracy=0.5", "--metric", "energy=7", "--metric", "ms=3"});
  Out({"tell", "s", "1", "--metric", "accuracy=0.5", "--metric", "energy=7", "--metric", "ms=4"});
  const std::string text = Out({"trial", "get", "s", "1", "--measurements"});
  EXPECT_THAT(text, HasSubstr("step  accuracy  energy  ms"));
  EXPECT_THAT(text, HasSubstr("     2       0.5       7   3"));
  EXPECT_THAT(text, HasSubstr("result       0.5       7   4"));
}

TEST_F(FrontTest, TheChoiceOfAnAlgorithmSaysWhatItMakesOfBounds) {
  StartServer();
  std::string bounded = kBounded;
  bounded.replace(bounded.find("{random: {}}"), 12, "{auto: {}}");
  EXPECT_THAT(Run({"study", "create", "-f", Write("s.yaml", bounded), "--name", "s"}).err,
              HasSubstr("\n  a metric that has come near its bound has a model, too"));
  EXPECT_THAT(Out({"study", "get", "s"}), HasSubstr("\n  a metric that has come near its bound has a model, too"));
}

TEST_F(FrontTest, AFilterThatNamesAMetricOfNoTrialIsToldSo) {
  Start(kBounded);
  Tell({"loss=1", "ms=30"});
  const Result list = Run({"trial", "list", "s", "--filter", "metrics.los < 3"});
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.err, HasSubstr("no trial fits the filter, and \"metrics.los\" is no column of this study's table; "
                                  "it has metrics.loss, metrics.ms"));
  EXPECT_THAT(Run({"trial", "list", "s", "--filter", "metrics.loss < 0"}).err, Not(HasSubstr("no column")));
  EXPECT_THAT(Run({"plot", "history", "s", "--metric", "los", "--out", "-"}).err,
              HasSubstr("it has metrics.loss, metrics.ms"));
}

TEST_F(FrontTest, PicturesAgreeWithTheBestTrial) {
  Start(kBounded);
  Tell({"loss=1", "ms=30"});
  Tell({"loss=3", "ms=20"});
  EXPECT_EQ(Json({"trial", "best", "s"})["number"], 2);
  for (const char* kind : {"history", "slice", "edf", "curves", "parallel"}) {
    EXPECT_THAT(Run({"plot", kind, "s", "--out", Path("x.json")}).err,
                HasSubstr("he best value of loss is 3 in trial 2"))
        << kind;
  }
  EXPECT_THAT(Run({"plot", "history", "s", "--out", Path("x.json")}).err, HasSubstr("2 trials, 1 beyond a bound; "));
  const Result one = Run({"plot", "front", "s", "--out", Path("x.json")});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.err, HasSubstr("the study has one objective, so that there is no front; see luthier plot history"));
}

TEST_F(FrontTest, AStudyThatHasEndedSaysWhy) {
  StartServer();
  std::string one = kBounded;
  one.replace(one.find("max_trials: 9"), 13, "max_trials: 1");
  Out({"study", "create", "-f", Write("s.yaml", one), "--name", "s"});
  Tell({"loss=1", "ms=3"});
  EXPECT_THAT(Out({"study", "wait", "s"}), HasSubstr("s: COMPLETED (max_trials reached), 1/1 done"));
  const Result command = Run({"trial", "command", "s", "1"});
  EXPECT_THAT(command.err, HasSubstr("luthier trial get s 1 prints this trial's setting"));
  EXPECT_THAT(command.err, Not(HasSubstr("model train")));
}

TEST_F(FrontTest, HintsKeepTheDatabase) {
  {
    server::ServerOptions options;
    options.data_dir = Path("db");
    options.listen = "unix:" + Path("db") + "/socket";
    ASSERT_TRUE(server::Server::Start(options).ok());
  }
  Out({"study", "create", "-f", Write("s.yaml", kBounded), "--db", Path("db")});
  const Result none = Run({"study", "get", "nothing", "--db", Path("db")});
  EXPECT_THAT(none.err, HasSubstr(absl::StrCat("luthier study list\nwith --db ", Path("db"), " there, too\n")));
}

TEST_F(FrontTest, ResultsOfAllMetricsGoOutAndIn) {
  Start(kSeveral);
  Tell({"accuracy=1", "energy=9", "ms=1"});
  Tell({"accuracy=0.8", "energy=2", "ms=21"});
  Out({"study", "export", "s", "--format", "csv", "--out", Path("s.csv")});
  Out({"study", "create", "-f", Write("t.yaml", kSeveral), "--name", "t"});
  Out({"trial", "import", "t", Path("s.csv")});
  Out({"study", "export", "s", "--out", Path("s.jsonl")});
  Out({"study", "import", Path("s.jsonl"), "--name", "u"});
  for (const char* study : {"t", "u"}) {
    const json trials = Json({"trial", "list", study});
    ASSERT_EQ(trials.size(), 2u);
    EXPECT_EQ(trials[0]["metrics"], (json{{"accuracy", 1}, {"energy", 9}, {"ms", 1}}));
    EXPECT_EQ(trials[1]["feasible"], false);
  }
  Out({"trial", "import", "t", Write("plain.csv", "x,accuracy,energy,ms\n0.5,3,1,2\n")});
  EXPECT_EQ(Json({"trial", "best", "t"})[0]["number"], 3) << "columns may have the metrics' own names";
  EXPECT_THAT(Run({"trial", "import", "t", Write("lacks.csv", "x,accuracy\n0.5,3\n")}).err,
              HasSubstr("lacks the study's metrics \"energy\", \"ms\""));
}

TEST_F(FrontTest, TheFrontIsDrawnByTwoObjectives) {
  Start(kSeveral);
  Tell({"accuracy=0.9", "energy=5", "ms=1"});
  Tell({"accuracy=0.8", "energy=2", "ms=1"});
  Tell({"accuracy=0.7", "energy=4", "ms=1"});
  const Result drawn = Run({"plot", "front", "s", "--out", Path("x.json")});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.err, HasSubstr("2 trials are on the front of accuracy and energy: no other is at least as good in "
                                   "both. The best corner is the lower right one. Bounds: ms at most 20."));
  EXPECT_THAT(Run({"plot", "front", "s", "--metrics", "energy,accuracy", "--out", Path("x.json")}).err,
              HasSubstr("The best corner is the upper left one."));
  const Result wrong = Run({"plot", "front", "s", "--metrics", "accuracy,ms", "--out", Path("y.json")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("\"ms\" is no objective of the study; it has accuracy, energy"));
  EXPECT_EQ(Run({"plot", "front", "s", "--metrics", "accuracy", "--out", Path("y.json")}).code, 2);
}

}  // namespace
}  // namespace luthier::cli
