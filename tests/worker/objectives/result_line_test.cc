#include "worker/objectives/result_line.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace luthier::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

ResultLine Parse(const std::string& line) {
  absl::StatusOr<ResultLine> parsed = ParseResultLine(line, "loss");
  EXPECT_TRUE(parsed.ok()) << line << ": " << parsed.status();
  return parsed.ok() ? *parsed : ResultLine();
}

std::string Error(const std::string& line) {
  const absl::StatusOr<ResultLine> parsed = ParseResultLine(line, "loss");
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

TEST(ResultLine, ReadsEveryField) {
  const ResultLine line = Parse(R"({"metrics": {"loss": 0.5, "acc": 1}, "step": 3, "gradient": [1, -2.5],
                                    "error_bound": 0.125, "checkpoint": "a/b", "final": true, "elapsed_seconds": 1.5})");
  EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("acc", 1.0), Pair("loss", 0.5)));
  EXPECT_EQ(line.measurement.step, 3);
  EXPECT_TRUE(line.has_step);
  EXPECT_EQ(line.measurement.elapsed_seconds, 1.5);
  ASSERT_TRUE(line.measurement.gradient);
  EXPECT_THAT(line.measurement.gradient->values, ElementsAre(1.0, -2.5));
  EXPECT_EQ(line.measurement.gradient->error_bound, 0.125);
  EXPECT_EQ(line.checkpoint, "a/b");
  EXPECT_TRUE(line.final);
  EXPECT_FALSE(line.pruned);
}

TEST(ResultLine, TheFlatFormTakesNumbersAndLeavesOutTheRest) {
  const ResultLine line = Parse(R"({"loss": 2, "step": 1, "lr": 0.1, "note": "x", "list": [1], "ok": true})");
  EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("loss", 2.0), Pair("lr", 0.1)));
  EXPECT_FALSE(Parse(R"({"loss": 2})").has_step);
}

TEST(ResultLine, GradientsHaveThreeForms) {
  EXPECT_THAT(Parse(R"({"loss":1,"gradient":{"full":[3],"error_bound":1}})").measurement.gradient->values,
              ElementsAre(3.0));
  const study::Gradient directional =
      *Parse(R"({"loss":1,"gradient":{"direction":[1,0],"slope":-4}})").measurement.gradient;
  EXPECT_FALSE(directional.full());
  EXPECT_EQ(directional.slope, -4.0);
  EXPECT_FALSE(Parse(R"({"loss":1,"gradient":null})").measurement.gradient);
  EXPECT_TRUE(std::isnan(Parse(R"({"loss":1,"gradient":[NaN]})").measurement.gradient->values[0]));
}

TEST(ResultLine, GradientsOfSeveralMetricsAreByName) {
  const ResultLine line = Parse(R"({"loss": 1, "ms": 2, "gradients": {"loss": [1, 2], "ms": {"by_name": {"x": 3},
                                    "error_bound": 0.5}}})");
  EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("loss", 1.0), Pair("ms", 2.0)));
  EXPECT_THAT(line.measurement.gradients.at("loss").values, ElementsAre(1.0, 2.0));
  EXPECT_THAT(line.measurement.gradients.at("ms").by_name, ElementsAre(Pair("x", 3.0)));
  EXPECT_EQ(line.measurement.gradients.at("ms").error_bound, 0.5);
  EXPECT_TRUE(line.notes.empty());
}

TEST(ResultLine, MalformedGradientsAreLeftOutOneByOne) {
  const ResultLine line = Parse(R"({"loss": 1, "gradients": {"loss": [1], "ms": "x", "mb": {"slope": 1}}})");
  EXPECT_EQ(line.measurement.gradients.size(), 1u);
  EXPECT_THAT(line.notes, ElementsAre(::testing::HasSubstr("gradients[\"mb\"] is left out: gradient.direction"),
                                      ::testing::HasSubstr("gradients[\"ms\"] is left out: gradient: must be")));
  EXPECT_THAT(Parse(R"({"loss": 1, "gradients": [1]})").notes,
              ElementsAre(::testing::HasSubstr("gradients are left out")));
  // A metric of programs from before.
  EXPECT_EQ(Parse(R"({"loss": 1, "gradients": 3})").measurement.metrics.at("gradients"), 3.0);
}

TEST(ResultLine, ASlopeAloneIsAlongTheDirectionAskedFor) {
  const ResultLine line = Parse(R"({"loss": 1, "gradient": {"slope": 0.25, "error_bound": 0.5}})");
  EXPECT_TRUE(line.along_asked);
  ASSERT_TRUE(line.measurement.gradient.has_value());
  EXPECT_EQ(line.measurement.gradient->slope, 0.25);
  EXPECT_EQ(line.measurement.gradient->error_bound, 0.5);
  EXPECT_FALSE(Parse(R"({"loss": 1, "gradient": {"slope": 0.25, "direction": [1]}})").along_asked);
  EXPECT_FALSE(Parse(R"({"loss": 1, "gradient": {"full": [1]}})").along_asked);
  EXPECT_FALSE(Parse(R"({"loss": 1, "gradient": [1]})").along_asked);
  EXPECT_FALSE(Parse(R"({"loss": 1})").along_asked);
  EXPECT_THAT(Error(R"({"loss": 1, "gradient": {}})"), ::testing::HasSubstr("gradient: must be"));
  EXPECT_THAT(Error(R"({"loss": 1, "gradient": {"slope": "x"}})"), ::testing::HasSubstr("gradient.slope"));
}

TEST(ResultLine, ReadsPythonsNonFiniteNumbers) {
  EXPECT_TRUE(std::isnan(Parse(R"({"loss": NaN})").measurement.metrics.at("loss")));
  EXPECT_EQ(Parse(R"({"loss": Infinity})").measurement.metrics.at("loss"), HUGE_VAL);
  EXPECT_EQ(Parse(R"({"loss":-Infinity})").measurement.metrics.at("loss"), -HUGE_VAL);
  // What no double holds.
  EXPECT_EQ(Parse(R"({"loss": 1e999, "x": "1e999"})").measurement.metrics.at("loss"), HUGE_VAL);
  EXPECT_EQ(Parse(R"({"metrics":{"loss":-1.5E+400},"step":2})").measurement.metrics.at("loss"), -HUGE_VAL);
  EXPECT_EQ(Parse(R"({"loss": 1e-999})").measurement.metrics.at("loss"), 0.0);
  EXPECT_EQ(Error(R"({"loss": 1e999e})"), "is not JSON");
  EXPECT_EQ(Parse(R"({"loss":"-inf"})").measurement.metrics.at("loss"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(Parse(R"({"loss": null})").measurement.metrics.at("loss")));
  // Inside of strings nothing changes, escaped quotes included.
  const ResultLine line = Parse(R"({"loss": 1, "checkpoint": "\"NaN, -Infinity\\", "x": NaN})");
  EXPECT_EQ(line.checkpoint, "\"NaN, -Infinity\\");
}

TEST(ResultLine, SaysWhereTheRunBeganAndWhetherItIsAtItsEnd) {
  ResultLine line = ParseResultLine(R"({"loss": 1, "start_step": 27, "complete": true})", "loss").value();
  EXPECT_EQ(line.start_step, 27);
  EXPECT_TRUE(line.complete);
  EXPECT_EQ(line.measurement.metrics.size(), 1u);
  line = ParseResultLine(R"({"loss": 1, "complete": 0.5})", "loss").value();
  EXPECT_FALSE(line.complete);
  EXPECT_FALSE(line.start_step.has_value());
  EXPECT_EQ(line.measurement.metrics.at("complete"), 0.5);
  EXPECT_FALSE(ParseResultLine(R"({"loss": 1, "start_step": -1})", "loss").ok());
}

TEST(ResultLine, SaysHowTrainingEnded) {
  ResultLine line = Parse(
      R"({"loss": 1, "training": {"outcome": "converged", "gradient_norm": 1e-9, "duality_gap": 0}, "gradient_seconds": 2.5})");
  EXPECT_EQ(line.measurement.training, (study::TrainingReport{study::TrainingOutcome::kConverged, 1e-9, 0.0}));
  EXPECT_EQ(line.measurement.gradient_seconds, 2.5);
  EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("loss", 1.0)));
  EXPECT_THAT(line.notes, SizeIs(0));
  line = Parse(R"({"metrics": {"loss": 1}, "training": "LIMIT"})");
  EXPECT_EQ(line.measurement.training,
            (study::TrainingReport{study::TrainingOutcome::kLimit, std::nullopt, std::nullopt}));
  EXPECT_FALSE(Parse(R"({"loss": 1, "training": null})").measurement.training);
  EXPECT_FALSE(Parse(R"({"loss": 1})").measurement.training);
}

TEST(ResultLine, AMalformedTrainingIsLeftOutWithANote) {
  const auto note = [](const std::string& rest) {
    const ResultLine line = Parse(absl::StrCat(R"({"loss": 1, )", rest, "}"));
    EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("loss", 1.0))) << rest;
    EXPECT_FALSE(line.measurement.training) << rest;
    EXPECT_FALSE(line.measurement.gradient_seconds) << rest;
    EXPECT_THAT(line.notes, SizeIs(1)) << rest;
    return line.notes.empty() ? "" : line.notes[0];
  };
  EXPECT_EQ(note(R"("training": "done")"),
            "training is left out: \"done\" is not one of converged, precision, target, limit, diverged");
  EXPECT_THAT(note(R"("training": {"gradient_norm": 1})"), HasSubstr("must be an outcome, or {"));
  EXPECT_THAT(note(R"("training": ["limit"])"), HasSubstr("must be an outcome, or {"));
  EXPECT_THAT(note(R"("training": {"outcome": "limit", "norm": 1})"), HasSubstr("unknown key \"norm\""));
  EXPECT_THAT(note(R"("training": {"outcome": "limit", "gradient_norm": -1})"), HasSubstr("gradient_norm: is not"));
  EXPECT_THAT(note(R"("training": {"outcome": "limit", "duality_gap": NaN})"), HasSubstr("duality_gap: is not"));
  EXPECT_THAT(note(R"("gradient_seconds": -1)"), HasSubstr("gradient_seconds is left out"));
  EXPECT_THAT(note(R"("gradient_seconds": "1")"), HasSubstr("gradient_seconds is left out"));
}

// As it was before these keys had a meaning.
TEST(ResultLine, ANumberNamedTrainingIsAMetric) {
  const ResultLine line = Parse(R"({"loss": 1, "training": 0.25})");
  EXPECT_EQ(line.measurement.metrics.at("training"), 0.25);
  EXPECT_FALSE(line.measurement.training);
  EXPECT_EQ(
      ParseResultLine(R"({"gradient_seconds": 3})", "gradient_seconds")->measurement.metrics.at("gradient_seconds"),
      3.0);
  EXPECT_TRUE(std::isnan(ParseResultLine(R"({"training": null})", "training")->measurement.metrics.at("training")));
}

TEST(ResultLine, PrunedIsFinal) {
  EXPECT_TRUE(Parse(R"({"loss": 1, "pruned": true})").final);
}

TEST(ResultLine, ACheckpointMayComeAlone) {
  const ResultLine line = Parse(R"({"checkpoint": "c1"})");
  EXPECT_EQ(line.checkpoint, "c1");
  EXPECT_THAT(line.measurement.metrics, SizeIs(0));
}

TEST(ResultLine, SaysWhatIsWrong) {
  EXPECT_EQ(Error("{loss: 1}"), "is not JSON");
  EXPECT_EQ(Error("[1]"), "is not a JSON object");
  EXPECT_EQ(Error("{}"), "has no number \"loss\", the study's metric");
  EXPECT_EQ(Error(R"({"Loss": 1})"), "has no number \"loss\", the study's metric; it has \"Loss\"");
  EXPECT_EQ(Error(R"({"loss": "0.5"})"), "loss: is not a number");
  EXPECT_EQ(Error(R"({"metrics": {"loss": true}})"), "metrics.loss: is not a number");
  EXPECT_EQ(Error(R"({"metrics": 3})"), "metrics: is not an object of numbers");
  for (const char* step : {"-1", "0.5", "1e17", "NaN", "\"3\"", "[]"}) {
    EXPECT_EQ(Error(absl::StrCat(R"({"loss":1,"step":)", step, "}")), "step: is not a whole number of at least 0");
  }
  EXPECT_THAT(Error(R"({"loss":1,"gradient":3})"), HasSubstr("gradient: must be a list"));
  EXPECT_EQ(Error(R"({"loss":1,"gradient":[1,"x"]})"), "gradient[1]: is not a number");
  EXPECT_EQ(Error(R"({"loss":1,"gradient":{"direction":[1]}})"), "gradient.slope: is missing or no number");
  EXPECT_EQ(Error(R"({"loss":1,"gradient":{"direction":[],"slope":1}})"), "gradient.direction: is empty");
  EXPECT_EQ(Error(R"({"loss":1,"gradient":{"fool":[1]}})"), "gradient: unknown key \"fool\"");
  EXPECT_EQ(Error(R"({"loss":1,"final":1})"), "final: is not true or false");
  EXPECT_THAT(Error(R"({"checkpoint":"c","final":true})"), HasSubstr("is final but has no number"));
  EXPECT_EQ(Error(R"({"loss":1,"checkpoint":7})"), "checkpoint: is not a string");
  EXPECT_THAT(Error(absl::StrCat(R"({"loss":1,"checkpoint":")", std::string(1025, 'c'), "\"}")),
              HasSubstr("has 1025 bytes"));
  EXPECT_EQ(Error("{\"loss\": 1, \"checkpoint\": \"\xff\"}"), "checkpoint: is not UTF-8");
  EXPECT_EQ(Error("{\"loss\": 1\xff}"), "is not JSON");
  EXPECT_EQ(Error("{'loss': 1}"), "is not JSON, whose names are in double quotes: use json.dumps");
  EXPECT_EQ(Error(R"({"loss": 1, "st)"), "is not JSON: it does not end with its object");
  EXPECT_EQ(Error(R"({"loss": None})"), "is not JSON");
}

TEST(ResultLine, DuplicateKeysAreRefused) {
  EXPECT_EQ(Error(R"({"loss": 1, "loss": 2})"), "loss: is there twice");
  EXPECT_EQ(Error(R"({"loss": 1, "step": 1, "step": 2})"), "step: is there twice");
  EXPECT_EQ(Error(R"({"metrics": {"acc": 1, "loss": 1, "loss": 1}})"), "loss: is there twice");
  EXPECT_EQ(Error(R"({"loss": 1, "metrics": {"loss": 2}})"), "loss: is there twice, with two values");
  EXPECT_EQ(Parse(R"({"loss": 1, "metrics": {"loss": 1}})").measurement.metrics.at("loss"), 1.0);
  const ResultLine line =
      Parse(R"({"loss": 1, "acc": 1, "acc": 2, "note": {"acc": 1}, "text": "\"loss\": 3, 'loss': 4"})");
  EXPECT_EQ(line.measurement.metrics.at("acc"), 2.0);
  EXPECT_THAT(line.notes, Contains("\"acc\" is there twice; the last one counts"));
}

TEST(ResultLine, ReadsNonFiniteNumbersInAnySpelling) {
  for (const char* word :
       {"nan", "NaN", "-nan", "\"nan\"", "\"NaN\"", "nan(ind)", "-nan(ind)", "1.#IND", "-1.#IND", "1.#QNAN", "null"}) {
    EXPECT_TRUE(std::isnan(Parse(absl::StrCat("{\"loss\": ", word, ", \"step\":1}")).measurement.metrics.at("loss")))
        << word;
  }
  for (const char* word :
       {"inf", "+Inf", "Infinity", "\"inf\"", "\"+Infinity\"", "INF", "1.#INF", "\xE2\x88\x9E", "1e999"}) {
    EXPECT_EQ(Parse(absl::StrCat("{\"a\":1,\"loss\":", word, "}")).measurement.metrics.at("loss"), HUGE_VAL) << word;
    EXPECT_EQ(Parse(absl::StrCat("{\"metrics\":{\"loss\": ", word, " }}")).measurement.metrics.at("loss"), HUGE_VAL)
        << word;
  }
  EXPECT_EQ(Parse("{\"loss\": -inf}").measurement.metrics.at("loss"), -HUGE_VAL);
  EXPECT_EQ(Error("{\"loss\": info}"), "is not JSON");
  const ResultLine line = Parse(R"({"loss": 0.2, "text": ": nan, inf", "acc": nan})");
  EXPECT_EQ(line.measurement.metrics.at("loss"), 0.2);
  EXPECT_TRUE(std::isnan(line.measurement.metrics.at("acc")));
}

TEST(ResultLine, AnExtraNeverCostsTheLoss) {
  for (const char* extra :
       {R"("status": "ok")", R"("acc": null)", R"("confusion": [[1, 2], [3, 4]])", R"("acc": "0.9")", R"("best": true)",
        R"("elapsed_seconds": -1)", R"("elapsed_seconds": "3 s")", R"("val-acc": 0.9)", R"("metrics": ["acc"])",
        R"("training": "well")", "\"text\": \"\xff\""}) {
    const ResultLine line = Parse(absl::StrCat("{\"loss\": 0.5, ", extra, "}"));
    EXPECT_THAT(line.measurement.metrics, ElementsAre(Pair("loss", 0.5))) << extra;
    EXPECT_THAT(line.notes, Not(IsEmpty())) << extra;
  }
  const ResultLine nested = Parse(R"({"metrics": {"acc": "high", "f1": 0.25, "loss": 0.5}})");
  EXPECT_THAT(nested.measurement.metrics, ElementsAre(Pair("f1", 0.25), Pair("loss", 0.5)));
  EXPECT_THAT(nested.notes, ElementsAre("\"acc\" is left out: it is not a number"));
  EXPECT_EQ(Parse(R"({"loss": 0.5, "metrics": {"acc": 1}})").measurement.metrics.at("loss"), 0.5);
}

TEST(ResultLine, KeepsTheStudysMetricAmongTooMany) {
  std::string line = "{";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&line, "\"a", i, "\": 1, ");
  const ResultLine parsed = Parse(line + "\"loss\": 7}");
  EXPECT_THAT(parsed.measurement.metrics, SizeIs(32));
  EXPECT_EQ(parsed.measurement.metrics.at("loss"), 7.0);
  EXPECT_THAT(parsed.notes, SizeIs(9));
}

TEST(ResultLine, LeavesOutMetricsThatHaveNoLegalName) {
  const ResultLine parsed = Parse(R"({"loss": 1, "val/acc": 2})");
  EXPECT_THAT(parsed.measurement.metrics, SizeIs(1));
  EXPECT_THAT(parsed.notes, ElementsAre(HasSubstr("val/acc")));
}

TEST(ResultLine, DeepNestingIsNoProblem) {
  EXPECT_EQ(Error(std::string(100000, '[')), "is not JSON");
  const std::string deep = "{\"loss\": 1, \"x\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(Parse(deep).measurement.metrics.at("loss"), 1.0);
}

using Kind = LineContent::Kind;

LineContent Find(const std::vector<std::string>& lines, bool overwrites = false, bool ended = true) {
  ResultFinder finder("loss");
  LineContent found;
  for (const std::string& line : lines) found = finder.Add({line, 1, false, overwrites, ended});
  return found;
}
std::string WhyMalformed(const std::string& line) {
  const LineContent found = Find({line});
  return found.kind == Kind::kMalformed ? found.why : absl::StrCat("kind ", static_cast<int>(found.kind));
}

TEST(ResultFinder, FindsObjectsWithTheMetricOnTheTopLevel) {
  EXPECT_EQ(Find({" {\"loss\": 1} "}).kind, Kind::kResult);
  EXPECT_EQ(Find({"{\"metrics\": {\"loss\": 1}}"}).kind, Kind::kResult);
  EXPECT_EQ(Find({"{\"metrics\": {\"los\": 1}}"}).kind, Kind::kOther);
  EXPECT_THAT(Find({"{\"metrics\": {\"los\": 1}}"}).why, HasSubstr("it has \"los\""));
  for (const char* line :
       {"{\"acc\": \"loss\"}", "{\"config\": {\"loss\": 1}}", "loss 0.5", "{}", "", "{\"a\": [{\"loss\": 1}]}",
        "{\"loss", "the {loss} is 3", "{\"config\": {\"loss\": \"mse\"}, broken}", "Config {\"loss\": \"mse\"}"}) {
    EXPECT_EQ(Find({line}).kind, Kind::kText) << line;
  }
}

TEST(ResultFinder, UnreadableLinesWithTheMetricAreMalformed) {
  EXPECT_EQ(WhyMalformed(R"({"loss": "0.2", "step": 2})"), "loss: is not a number");
  EXPECT_EQ(WhyMalformed(R"({"loss": [0.2]})"), "loss: is not a number");
  EXPECT_EQ(WhyMalformed(R"({"loss": true})"), "loss: is not a number");
  EXPECT_EQ(WhyMalformed(R"({"metrics": {"loss": "0.2"}})"), "metrics.loss: is not a number");
  EXPECT_EQ(WhyMalformed(R"({"loss": 0.2, "step": 1.5})"), "step: is not a whole number of at least 0");
  EXPECT_EQ(WhyMalformed(R"({"loss": 0.2, "loss": 0.3})"), "loss: is there twice");
  EXPECT_EQ(WhyMalformed(R"({"loss": 0,2})"), "is not JSON");
  EXPECT_EQ(WhyMalformed(R"({"loss": 0.2},)"), "is not JSON: it does not end with its object");
  EXPECT_EQ(WhyMalformed(R"({"loss": 0.2, "st)"), "is not JSON: it does not end with its object");
  EXPECT_EQ(WhyMalformed(R"({"loss": )"), "is not JSON: it does not end with its object");
  EXPECT_EQ(WhyMalformed(R"({"step": 2, "metrics": {"loss": 0.2)"), "is not JSON: it does not end with its object");
  EXPECT_EQ(WhyMalformed("{\"loss\": 0.\xff}"), "is not JSON");
  EXPECT_EQ(WhyMalformed("{'loss': 0.2}"), "is not JSON, whose names are in double quotes: use json.dumps");
  EXPECT_EQ(WhyMalformed("{ loss: 0.2, acc: 1 }"), "is not JSON");
  EXPECT_EQ(WhyMalformed(R"([{"loss": 0.2}])"), "is a list; a result is one object");
  EXPECT_TRUE(Find({R"({"loss": "0.2", "final": true})"}).final);
  EXPECT_FALSE(Find({R"({"loss": "0.2"})"}).final);
}

TEST(ResultFinder, OutputThatEndsWithinAnObjectIsMalformed) {
  EXPECT_EQ(Find({"{\"step\": 3, \"lo"}, false, false).kind, Kind::kMalformed);
  EXPECT_EQ(Find({"{\"step\": 3, \"lo"}).kind, Kind::kText);
  EXPECT_EQ(Find({"{\"loss\": 3}"}, false, false).kind, Kind::kResult);
  EXPECT_EQ(Find({"{ok"}, false, false).kind, Kind::kText);
}

TEST(ResultFinder, InvisibleCharactersAreIgnored) {
  for (const char* line :
       {"\xEF\xBB\xBF{\"loss\": 2}", "\x1B[32m{\"loss\": 2}\x1B[0m", "\x1B[0m\x1B[1;31m {\"loss\": 2}",
        "\b\b\b{\"loss\": 2}\t", "{\"loss\": 2, \"note\": \"\xff\"}"}) {
    const LineContent found = Find({line});
    ASSERT_EQ(found.kind, Kind::kResult) << line << found.why;
    EXPECT_EQ(found.line.measurement.metrics.at("loss"), 2.0);
  }
}

TEST(ResultFinder, AResultMayStandBehindAProgressBarOnly) {
  const std::string bar = " 50%|#####     | 5/10 [00:00<00:00, 10.00it/s]{\"loss\": 2}";
  EXPECT_EQ(Find({bar}, true).line.measurement.metrics.at("loss"), 2.0);
  const LineContent aside = Find({bar});
  EXPECT_EQ(aside.kind, Kind::kAside);
  EXPECT_EQ(aside.value, 2.0);
  EXPECT_EQ(Find({" 50%|#####     | 5/10{\"loss\": \"2\"}"}, true).kind, Kind::kMalformed);
}

TEST(ResultFinder, ReadsAnObjectOverSeveralLines) {
  const LineContent found = Find({"{", "  \"loss\": 0.5,", "  \"metrics_of\": {", "    \"loss\": 7", "  }", "}"});
  ASSERT_EQ(found.kind, Kind::kResult) << found.why;
  EXPECT_EQ(found.line.measurement.metrics.at("loss"), 0.5);
  EXPECT_EQ(Find({"{", "  \"loss\": \"x\"", "}"}).kind, Kind::kMalformed);
  EXPECT_EQ(Find({"{", "  \"lr\": 3", "}"}).kind, Kind::kText);
  EXPECT_EQ(Find({"{", "int main", "}"}).kind, Kind::kText);
  EXPECT_EQ(Find({"{", "{\"loss\": 1}"}).kind, Kind::kResult) << "a line of its own is looked at first";
  EXPECT_EQ(Find({"{", absl::StrCat("\"p\": [", std::string(70000, '1'), "],"), "\"loss\": 1", "}"}).kind,
            Kind::kResult);
  EXPECT_EQ(Find({"{", std::string(9 << 20, 'x'), "\"loss\": 1", "}"}).kind, Kind::kText) << "not without bound";
}

TEST(ResultFinder, AnObjectOverSeveralLinesMayBeginAndEndAsItLikes) {
  for (const std::vector<std::string>& lines : std::vector<std::vector<std::string>>{
           {"{", "  \"loss\": 0.5 }"}, {"  {", "    \"loss\": 0.5", "  }"}, {"{\"step\": 1,", " \"loss\": 0.5}"}}) {
    const LineContent found = Find(lines);
    ASSERT_EQ(found.kind, Kind::kResult) << lines[0] << found.why;
    EXPECT_EQ(found.line.measurement.metrics.at("loss"), 0.5);
  }
  EXPECT_EQ(Find({"{'acc': 0.9,", " 'loss': 0.5}"}).kind, Kind::kMalformed);
  EXPECT_EQ(Find({"{", "  \"loss\": 0.5", "},"}).kind, Kind::kMalformed);
  EXPECT_EQ(Find({"[", "  {", "    \"loss\": 0.5", "  }", "]"}).kind, Kind::kMalformed);
  EXPECT_EQ(Find({"result: {", "  \"loss\": 0.5", "}"}).kind, Kind::kAside);
  ResultFinder finder("loss");
  for (const char* line : {"{", "  \"epoch\": 3,", "  \"loss\": 0.5,"}) {
    EXPECT_EQ(finder.Add({line, 1, false, false, true}).kind, Kind::kText);
  }
  EXPECT_EQ(finder.End().kind, Kind::kMalformed) << "the output ends within it";
  EXPECT_EQ(finder.End().kind, Kind::kText);
}

TEST(ResultFinder, ANumberOfTheMetricInOtherTextStandsAside) {
  for (const char* line : {"INFO {\"loss\": 0.2} [ok]", "step 3: {'loss': 0.2, 'acc': 0.9}", "cb({\"loss\": 0.2});",
                           "defaultdict(<class 'float'>, {'loss': 0.2})"}) {
    const LineContent found = Find({line});
    EXPECT_EQ(found.kind, Kind::kAside) << line;
    EXPECT_EQ(found.value, 0.2) << line;
  }
  for (const char* line : {"Config {'loss': 'mse'}", "the {loss} is 3", "f({'config': {'loss': 2}})"}) {
    EXPECT_EQ(Find({line}).kind, Kind::kText) << line;
  }
}

}  // namespace
}  // namespace luthier::worker
