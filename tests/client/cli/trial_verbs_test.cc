// The verbs of trials, and evaluating them by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "lib/search/registry.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(CliTest, TrialsAreStoppedFilteredAndOrdered) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Json({"ask", "s", "--count", "3"});
  EXPECT_EQ(Out({"tell", "s", "1", "--metric", "y=0.5"}), "trial 1: COMPLETE\n");
  EXPECT_EQ(Out({"trial", "stop", "s", "2"}), "trial 2: RUNNING, to end with what it has at its next report\n");
  EXPECT_THAT(Out({"trial", "get", "s", "2"}), HasSubstr("its end was asked for"));
  EXPECT_EQ(Out({"report", "s", "2", "--step", "1", "--metric", "y=3"}), "FINISH\n");
  EXPECT_EQ(Out({"tell", "s", "2", "--metric", "y=2"}), "trial 2: PRUNED\n");
  EXPECT_EQ(Out({"trial", "stop", "s", "2"}), "trial 2: PRUNED\n");
  EXPECT_EQ(Out({"tell", "s", "3", "--metric", "y=1"}), "trial 3: COMPLETE\n");
  const json worst = Json({"trial", "list", "s", "--order-by", "metrics.y desc"});
  ASSERT_EQ(worst.size(), 3u);
  EXPECT_EQ(worst[0]["number"], 2);
  EXPECT_EQ(worst[0]["stop_requested"], true);
  EXPECT_EQ(worst[2]["number"], 1);
  const json best = Json({"trial", "list", "s", "--filter", "metrics.y < 2 AND number > 1"});
  ASSERT_EQ(best.size(), 1u);
  EXPECT_EQ(best[0]["number"], 3);
  const Result wrong = Run({"trial", "list", "s", "--filter", "metrics.y <"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("at its end: a value is expected"));
  const json workers = Json({"worker", "list"});
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0]["name"], "cli-test-host");
  EXPECT_EQ(workers[0]["completed"], 2);
  EXPECT_EQ(workers[0]["pruned"], 1);
  EXPECT_THAT(Out({"worker", "list"}), HasSubstr("ago"));
}

TEST_F(CliTest, AStudyGetsATimeOfItsOwn) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  EXPECT_EQ(Json({"study", "update", "s", "--max-wall", "1h30m"})["spec"]["budget"]["max_wall"], "5400s");
  EXPECT_FALSE(Json({"study", "update", "s", "--max-wall", "none"})["spec"]["budget"].contains("max_wall"));
  EXPECT_EQ(Run({"study", "update", "s", "--max-wall", "soon"}).code, 2);
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

TEST_F(CliTest, TellOfAMissingTrialIsNotFound) {
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
  EXPECT_THAT(resume.err, HasSubstr("to try more settings: luthier study clone s NAME"));
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

TEST_F(CliTest, TellSaysHowTrainingEnded) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const json leases = Json({"ask", "s", "--count", "4"});
  EXPECT_EQ(leases[0]["gradient"], "none") << "random reads no gradient";
  Out({"tell", "s", "1", "--metric", "y=1", "--training", "converged"});
  Out({"tell", "s", "2", "--metric", "y=2", "--training", "LIMIT", "--elapsed", "1.5"});
  Out({"tell", "s", "3", "--metric", "y=3"});
  const Result odd = Run({"tell", "s", "4", "--metric", "y=4", "--training", "limits"});
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.err, HasSubstr("--training: \"limits\" is not one of converged, precision, target, limit, diverged"));
  const Result failed = Run({"tell", "s", "4", "--failed", "OOM", "--training", "limit"});
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, HasSubstr("leave out --training"));

  const json trials = Json({"trial", "list", "s", "--state", "complete"});
  EXPECT_EQ(trials[0]["training"], (json{{"outcome", "converged"}}));
  EXPECT_EQ(trials[1]["training"], (json{{"outcome", "limit"}}));
  EXPECT_EQ(trials[1]["elapsed_seconds"], 1.5);
  EXPECT_FALSE(trials[2].contains("training"));
  EXPECT_THAT(Out({"trial", "list", "s", "-o", "csv"}), HasSubstr(",training,attempts,"));
  EXPECT_THAT(Out({"trial", "get", "s", "2"}), HasSubstr("training ended: limit (the metrics are not"));
  EXPECT_EQ(Json({"study", "get", "s"})["trainings"],
            (json{{"converged", 1}, {"precision", 0}, {"limit", 1}, {"diverged", 0}, {"target", 0}}));
  EXPECT_THAT(Out({"study", "get", "s"}), HasSubstr("\ntraining 1 converged, 1 limit\n"));

  // Whoever follows the study to its end is warned.
  Out({"tell", "s", "4", "--metric", "y=4"});
  constexpr char kWarning[] =
      "warning: 1 of 2 trainings ended at its limit: its result is not that of the optimum; see luthier trial list s\n";
  EXPECT_EQ(Run({"study", "watch", "s"}).err, kWarning);
  EXPECT_THAT(Run({"study", "wait", "s"}).err, HasSubstr(kWarning));
}

TEST_F(CliTest, ResultsThatAreAllEqualAreWarnedOf) {
  StartServer();
  Out({"study", "create", "-f",
       Write("e.yaml",
             "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: f1, goal: MAXIMIZE}\n"
             "algorithm: {random: {}}\nbudget: {max_trials: 11}\n")});
  Json({"ask", "e", "--count", "11"});
  for (int i = 1; i <= 9; ++i) Out({"tell", "e", std::to_string(i), "--metric", "f1=0"});
  EXPECT_EQ(Run({"study", "get", "e"}).err, "") << "nine may be chance";
  Out({"tell", "e", "10", "--metric", "f1=0"});
  EXPECT_EQ(
      Run({"study", "get", "e"}).err,
      "warning: all 10 results are equal, f1 0: the search has nothing to go by; look at what the metric measures, "
      "and at whether the objective uses its parameters\n");
  Out({"tell", "e", "11", "--metric", "f1=0.5"});
  EXPECT_EQ(Run({"study", "get", "e"}).err, "");
}

// The best of trial 8 is that of trial 21 to six digits.
TEST_F(CliTest, ABestThatNoLongerChangesIsSaid) {
  StartServer();
  Out({"study", "create", "-f",
       Write("u.yaml",
             "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: val.loss, goal: MINIMIZE}\n"
             "algorithm: {random: {}}\nbudget: {max_trials: 22}\n")});
  Json({"ask", "u", "--count", "22"});
  for (int i = 1; i <= 22; ++i) {
    const std::string value = i < 8 ? "0.5" : i == 8 ? "0.1234567" : i == 21 ? "0.1234565" : "0.2";
    if (i == 22) {
      EXPECT_EQ(Run({"study", "get", "u"}).err, "") << "it is not over";
    }
    Out({"tell", "u", std::to_string(i), "--metric", "val.loss=" + value});
  }
  EXPECT_EQ(Run({"study", "get", "u"}).err,
            "note: the best val.loss is the same to six digits since trial 8 of 22: for results like these "
            "budget.max_trials could be smaller\n");
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
            "number  state        y     x  kind\n     1  COMPLETE   0.5  1.25  =b\n     2  CANCELLED         -1  a\n");
  EXPECT_EQ(Out({"trial", "list", "s", "--verbose"}),
            "number  state        y     x  kind  attempts  origin    worker\n"
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

// Random settings, with the wish for a slope for every second one.
class AskingForSlopes final : public search::Designer {
 public:
  explicit AskingForSlopes(const study::StudySpec& spec) : random_(search::CreateDesigner(spec)) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    search::Suggestion suggestion = random_->Suggest(history, ask_index, stop).value();
    if (ask_index % 2 == 0) suggestion.direction = {-0.5};
    return suggestion;
  }

 private:
  const std::unique_ptr<search::Designer> random_;
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

}  // namespace
}  // namespace luthier::cli
