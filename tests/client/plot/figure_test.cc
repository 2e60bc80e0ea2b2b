// Figures of tables that are written by hand: what is drawn, what is left out, and what texts of strangers become.
#include "client/plot/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "client/plot/figures.h"
#include "client/plot/gnuplot.h"
#include "client/plot/html.h"
#include "client/plot/subject.h"

namespace luthier::plot {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void AddNumbers(v1::GetTrialTableResponse* page, const std::string& name, const std::vector<double>& values) {
  v1::TrialColumn* const column = page->add_columns();
  column->set_name(name);
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  column->set_numbers(bytes);
}

void AddWords(v1::GetTrialTableResponse* page, const std::string& name, const std::vector<std::string>& values) {
  v1::TrialColumn* const column = page->add_columns();
  column->set_name(name);
  std::string bytes(values.size() * sizeof(uint32_t), '\0');
  for (uint32_t i = 0; i < values.size(); ++i) {
    column->mutable_words()->add_words(values[i]);
    std::memcpy(bytes.data() + i * sizeof(i), &i, sizeof(i));
  }
  column->mutable_words()->set_indexes(bytes);
}

// A study of one parameter whose trials have these values; NaN: the trial failed. `infeasible` are numbers of trials
// beyond the bound of another metric, if there is such a bound.
Subject Made(const std::vector<double>& values, v1::Goal goal = v1::MINIMIZE,
             const std::optional<std::set<size_t>>& infeasible = std::nullopt) {
  Subject subject;
  subject.id = "s";
  subject.metric = "y";
  v1::StudySpec& spec = *subject.study.mutable_spec();
  spec.mutable_metric()->set_name("y");
  spec.mutable_metric()->set_goal(goal);
  v1::ParameterSpec& x = *spec.add_space();
  x.set_name("x");
  x.mutable_float_()->set_min(1.0);
  x.mutable_float_()->set_max(100.0);
  x.mutable_float_()->set_scale(v1::LOG);
  v1::GetTrialTableResponse page;
  std::vector<double> numbers;
  std::vector<double> places;
  std::vector<std::string> states;
  std::vector<std::string> feasible;
  for (size_t i = 0; i < values.size(); ++i) {
    numbers.push_back(static_cast<double>(i + 1));
    places.push_back(std::pow(10.0, static_cast<double>(i % 3)));
    states.push_back(std::isfinite(values[i]) ? "COMPLETE" : "FAILED");
    feasible.push_back(infeasible && infeasible->contains(i + 1) ? "false" : "true");
  }
  page.set_rows(static_cast<int64_t>(values.size()));
  AddNumbers(&page, "number", numbers);
  AddNumbers(&page, "metrics.y", values);
  AddNumbers(&page, "params.x", places);
  AddWords(&page, "state", states);
  if (infeasible) {
    *spec.add_metrics() = spec.metric();
    v1::MetricSpec& bound = *spec.add_metrics();
    bound.set_name("ms");
    bound.set_at_most(20.0);
    AddWords(&page, "feasible", feasible);
  }
  EXPECT_TRUE(subject.trials.Add(page).ok());
  return subject;
}

const Layer* Find(const Panel& panel, Meaning meaning) {
  for (const Layer& layer : panel.layers) {
    if (layer.meaning == meaning) return &layer;
  }
  return nullptr;
}

TEST(FigureTest, TheBestValueSoFarChangesWhereATrialIsBetter) {
  const Figure figure = History(Made({3, 5, kNan, 2, 4}), {});
  const Layer* const best = Find(figure.panels[0], Meaning::kIncumbent);
  ASSERT_NE(best, nullptr);
  EXPECT_THAT(best->x, ElementsAre(1, 4, 5));
  EXPECT_THAT(best->y, ElementsAre(3, 2, 2));
  EXPECT_THAT(Find(figure.panels[0], Meaning::kTrial)->y, ElementsAre(3, 5, 2, 4));
  EXPECT_THAT(Find(figure.panels[0], Meaning::kFailed)->trials, ElementsAre(3));
  EXPECT_EQ(figure.caption, "5 trials, 1 failed; the best value is 2 in trial 4.");
  const Figure largest = History(Made({3, 5, kNan, 2, 4}, v1::MAXIMIZE), {});
  EXPECT_THAT(Find(largest.panels[0], Meaning::kIncumbent)->y, ElementsAre(3, 5, 5));
}

TEST(FigureTest, AFewTerribleValuesDoNotHideTheOthers) {
  // Three quarters are at most 4, so that 1 + 3 (4 - 1) = 10 is the end of the axis.
  const std::vector<double> values = {1, 2, 3, 4, 1e12};
  const Axis axis = MetricAxis("y", values, false);
  EXPECT_FALSE(axis.log);
  EXPECT_EQ(axis.max, 10.0);
  EXPECT_THAT(Find(History(Made(values), {}).panels[0], Meaning::kOutside)->trials, ElementsAre(5));
  EXPECT_FALSE(MetricAxis("y", {1, 2, 3, 4, 5}, false).max.has_value()) << "nothing is far away";
  EXPECT_TRUE(MetricAxis("y", {1e-9, 1e-6, 1e-3, 1, 10}, false).log);
  EXPECT_FALSE(MetricAxis("y", {-1, 1e-6, 1e-3, 1, 10}, false).log);
}

TEST(FigureTest, ExtremeTablesHaveFiniteAxes) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {1.0}, {kNan}, {5, 5, 5}, {1e300, -1e300, 0}, {1.7e308, -1.7e308}, {0.0}}) {
    const Subject subject = Made(values);
    const auto axes = ParameterAxis::Of(subject, {}, 12);
    ASSERT_TRUE(axes.ok());
    for (Figure figure : {History(subject, {}), Edf(subject, {}), Timeline(subject, {}), Parallel(subject, *axes),
                          Slice(subject, *axes, {}, {}), Contour(subject, axes->at(0), axes->at(0), {})}) {
      for (Panel& panel : figure.panels) {
        SetEnds(&panel);
        for (const Axis* axis : {&panel.x, &panel.y}) {
          EXPECT_TRUE(std::isfinite(*axis->max) && std::isfinite(*axis->min)) << figure.kind << " of " << values.size();
          EXPECT_LT(*axis->min, *axis->max) << figure.kind << " of " << values.size();
        }
        for (const Layer& layer : panel.layers) {
          for (const double y : layer.y) {
            EXPECT_FALSE(std::isfinite(y) && !(PlaceOn(panel.y, y) >= 0.0 && PlaceOn(panel.y, y) <= 1.0))
                << figure.kind << " hides " << y;
          }
        }
      }
      EXPECT_TRUE(!values.empty() || !figure.panels[0].empty.empty()) << figure.kind;
    }
  }
}

TEST(FigureTest, ATrialBeyondABoundIsNeverTheBest) {
  Subject subject = Made({3, 1, 2, 5}, v1::MINIMIZE, {{2}});
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  const Figure history = History(subject, {});
  EXPECT_THAT(Find(history.panels[0], Meaning::kInfeasible)->trials, ElementsAre(2));
  EXPECT_THAT(Find(history.panels[0], Meaning::kTrial)->trials, ElementsAre(1, 3, 4));
  EXPECT_THAT(Find(history.panels[0], Meaning::kIncumbent)->y, ElementsAre(3, 2, 2));
  EXPECT_EQ(history.caption, "4 trials, 1 beyond a bound; the best value of y is 2 in trial 3.");
  EXPECT_THAT(Find(Edf(subject, {}).panels[0], Meaning::kIncumbent)->x, ElementsAre(2, 3, 5));
  for (const Figure& figure : {Slice(subject, *axes, {}, {}), Contour(subject, axes->at(0), axes->at(0), {})}) {
    EXPECT_THAT(Find(figure.panels[0], Meaning::kBest)->trials, ElementsAre(3)) << figure.kind;
    EXPECT_THAT(Find(figure.panels[0], Meaning::kInfeasible)->trials, ElementsAre(2)) << figure.kind;
    EXPECT_THAT(figure.caption, HasSubstr("The best value of y is 2 in trial 3")) << figure.kind;
  }
  const v1::PredictRequest asked = SliceSettings(subject, *axes);
  EXPECT_GT(asked.settings_size(), 0) << "the model is asked along the line through the best trial";
  const Figure parallel = Parallel(subject, *axes);
  EXPECT_THAT(Find(parallel.panels[0], Meaning::kInfeasible)->trials, ElementsAre(2, 2, 2));
  EXPECT_THAT(parallel.caption, HasSubstr("Those of trials beyond a bound are dashed."));
  EXPECT_EQ(ToJson(history)["panels"][0]["layers"][2]["role"], "infeasible") << "over the line, which would hide it";
  v1::Trial beyond;
  beyond.set_feasible(false);
  (*beyond.add_measurements()->mutable_metrics())["y"] = 1.0;
  EXPECT_NE(Find(Curves(subject, {beyond}).panels[0], Meaning::kInfeasible), nullptr);
}

TEST(FigureTest, WithoutAFeasibleTrialNoneIsTheBest) {
  Subject subject = Made({3, 1}, v1::MINIMIZE, {{1, 2}});
  subject.study.set_least_violating_trial(2);
  subject.study.set_least_violation(0.25);
  const Figure history = History(subject, {});
  EXPECT_THAT(history.caption, HasSubstr("no trial is feasible, so that none is the best; trial 2 violates the bounds "
                                         "least, by 0.25 (in standard deviations of the metrics)."));
  EXPECT_EQ(Find(history.panels[0], Meaning::kIncumbent), nullptr);
  EXPECT_THAT(Find(history.panels[0], Meaning::kInfeasible)->trials, ElementsAre(1, 2));
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  EXPECT_EQ(Find(Slice(subject, *axes, {}, {}).panels[0], Meaning::kBest), nullptr);
  EXPECT_EQ(SliceSettings(subject, *axes).settings_size(), 0);
}

TEST(FigureTest, TheFrameShowsTheBestFeasibleTrialAndInfeasibleOnesThatAreBetter) {
  const Subject subject = Made({1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 90, 91}, v1::MINIMIZE, {{1, 2, 3, 4, 5, 6, 7}});
  const Figure history = History(subject, {});
  EXPECT_THAT(Find(history.panels[0], Meaning::kTrial)->trials, ElementsAre(8, 9));
  EXPECT_EQ(Find(history.panels[0], Meaning::kOutside), nullptr);
  EXPECT_LT(*history.panels[0].y.min, 1.0);
}

TEST(FigureTest, AnotherObjectiveHasItsOwnGoalAndOtherMetricsHaveNoBestValue) {
  Subject subject = Made({3, 1, 2}, v1::MAXIMIZE, std::set<size_t>());
  EXPECT_THAT(History(subject, {}).caption, HasSubstr("the best value of y is 3 in trial 1"));
  subject.study.mutable_spec()->mutable_metric()->set_name("first");
  EXPECT_THAT(History(subject, {}).caption, HasSubstr("the best value of y is 3 in trial 1")) << "a second objective";
  subject.study.mutable_spec()->clear_metrics();
  EXPECT_THAT(History(subject, {}).caption, HasSubstr("the smallest value of y is 1 in trial 2"));
}

TEST(FigureTest, NumbersThatDifferLittleAreTicksByTheirDifferences) {
  Subject subject = Made({1, 2, 3});
  v1::FloatRange& range = *subject.study.mutable_spec()->mutable_space(0)->mutable_float_();
  range.set_scale(v1::LINEAR);
  range.set_min(1'000'000.0);
  range.set_max(1'000'000.001);
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  const std::string script = GnuplotScript(Slice(subject, *axes, {}, {}), {});
  EXPECT_THAT(script, AllOf(HasSubstr("set xlabel 'x − 1000000'"), Not(HasSubstr("xrange [1000000:"))));
  range.set_min(1.0);
  range.set_max(1.0 + 1e-9);
  const auto narrower = ParameterAxis::Of(subject, {}, 1);
  EXPECT_THAT(GnuplotScript(Slice(subject, *narrower, {}, {}), {}),
              AllOf(HasSubstr("set xrange [0:1.0000000"), HasSubstr("set xlabel 'x − 1'")));
}

TEST(FigureTest, HugeNumbersAreScaledForGnuplot) {
  const std::string script = GnuplotScript(History(Made({1e305, -1.7e308, 1.7e308}), {}), {});
  EXPECT_THAT(script, AllOf(HasSubstr("set ylabel 'y / 1e300'"), HasSubstr("\n1 100000"), Not(HasSubstr("inf"))));
}

TEST(FigureTest, TicksAreTextsNotFormatsAndLeanWhereTheyAreLong) {
  Figure figure;
  Panel panel{.x = {.label = "50% off", .min = 0, .max = 2, .ticks = {{0, "10%"}, {1, "50% off {a}^b_c @x \\"}}},
              .layers = {{.name = "5%", .x = {0, 1}, .y = {0, 1}}}};
  figure.panels = {panel};
  EXPECT_THAT(GnuplotScript(figure, {}), AllOf(HasSubstr("'10%%' 0"), HasSubstr("'50%% off {a}^b_c @x \\' 1"),
                                               HasSubstr("set xlabel '50% off'"), HasSubstr("set xtics norotate")));
  for (int i = 2; i < 20; ++i) figure.panels[0].x.ticks.emplace_back(i, "a label of some length");
  EXPECT_THAT(GnuplotScript(figure, {}), HasSubstr("set xtics rotate by 60 right ("));
  const std::string terminal = GnuplotScript(figure, {.format = Drawing::Format::kText});
  EXPECT_THAT(terminal,
              AllOf(HasSubstr("set xtics norotate"), HasSubstr("…"), Not(HasSubstr("a label of some length"))));
}

TEST(FigureTest, NamesDifferByWhatIsLeftOfThem) {
  EXPECT_THAT(Distinct({"label number 1 of many", "label number 27 of many", "label number 3"}, 12),
              ElementsAre("…1 of many", "…27 of many", "…3"));
  EXPECT_THAT(Distinct({"label number 1 of many", "label number 27 of many", "loss"}, 12),
              ElementsAre("…1 of many", "…27 of many", "loss"));
  EXPECT_THAT(Distinct({"a", "b"}, 12), ElementsAre("a", "b"));
  EXPECT_THAT(Distinct({"one long name alone"}, 9), ElementsAre("one …lone"));
  EXPECT_THAT(Distinct({"🎻🎻🎻🎻🎻1", "🎻🎻🎻🎻🎻2"}, 5), ElementsAre("…1", "…2"));
  const std::string same(30, 'x');
  EXPECT_THAT(Distinct({same, same}, 9), ElementsAre("…x", "…x"));
  EXPECT_TRUE(Distinct({}, 9).empty());
}

// Forty names of 64 characters beside a panel, or below it, have room and leave room.
TEST(FigureTest, ManyLongNamesDoNotCoverEachOther) {
  Figure figure{.kind = "importance", .title = "t"};
  Panel panel;
  panel.x = {.label = std::string(200, 'l'), .min = 0.0, .max = 1.0};
  panel.y = {.label = "", .min = -0.5, .max = 39.5};
  for (int i = 0; i < 40; ++i) {
    panel.y.ticks.emplace_back(i, absl::StrCat("parameter_", std::string(52, 'x'), i));
  }
  figure.panels.push_back(panel);
  const std::string beside = GnuplotScript(figure, {.format = Drawing::Format::kSvg});
  EXPECT_THAT(beside, AllOf(HasSubstr("size 860,730"), HasSubstr("'…39' 39"), Not(HasSubstr(std::string(50, 'l')))));
  EXPECT_THAT(GnuplotScript(figure, {.format = Drawing::Format::kText}),
              AllOf(HasSubstr("'…38' 38"), Not(HasSubstr("'…39'"))));
  std::swap(figure.panels[0].x, figure.panels[0].y);
  figure.panels[0].x.ticks.back().second = "parameter_of_another_kind_whose_name_has_more_than_24_characters";
  const std::string below = GnuplotScript(figure, {.format = Drawing::Format::kSvg});
  EXPECT_THAT(below,
              AllOf(HasSubstr("rotate by 60"), HasSubstr("size 860,480"), HasSubstr("'…xxxxxxxxxxx…xxxxxxxxxx0' 0")));
}

TEST(FigureTest, ATerminalsFrameHidesNoMark) {
  const Subject subject = Made({1, 2, 3});
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  const Figure slice = Slice(subject, *axes, {}, {});
  const auto range = [&](Drawing::Format format) {
    const std::string script = GnuplotScript(slice, {.format = format});
    return script.substr(script.find("set xrange"), 24);
  };
  EXPECT_THAT(range(Drawing::Format::kSvg), HasSubstr("[1:100]"));
  EXPECT_THAT(range(Drawing::Format::kText), HasSubstr("[0.91"));
}

TEST(FigureTest, ManyPointsAreThinnedAndLinesKeepTheirEnds) {
  Figure figure;
  Panel panel;
  Layer points, line{.mark = Mark::kLine};
  for (int i = 0; i < 100'000; ++i) {
    const double x = i / 1e5;
    points.x.push_back(x);
    points.y.push_back(std::fmod(i * 0.618033988749895, 1.0));
    line.x.push_back(x);
    line.y.push_back(i == 54'321 ? 7.0 : 0.0);
  }
  panel.layers = {points, line};
  figure.panels.push_back(panel);
  const Figure thinned = Thinned(figure, 5000);
  EXPECT_LE(thinned.panels[0].layers[0].x.size(), 5000u);
  EXPECT_GT(thinned.panels[0].layers[0].x.size(), 1000u);
  const Layer& kept = thinned.panels[0].layers[1];
  EXPECT_LE(kept.x.size(), 4100u);
  EXPECT_EQ(kept.x.front(), 0.0);
  EXPECT_EQ(kept.x.back(), 0.99999);
  EXPECT_THAT(kept.y, testing::Contains(7.0)) << "the only peak";
}

TEST(FigureTest, ParametersHaveTheirScales) {
  Subject subject = Made({1, 2, 3});
  v1::ParameterSpec& label = *subject.study.mutable_spec()->add_space();
  label.set_name("kind");
  for (const char* word : {"a", "b", "c"}) label.mutable_categorical()->add_values(word);
  v1::ParameterSpec& step = *subject.study.mutable_spec()->add_space();
  step.set_name("n");
  step.mutable_int_()->set_min(1);
  step.mutable_int_()->set_max(10);
  step.mutable_int_()->set_step(3);
  const auto axes = ParameterAxis::Of(subject, {"x", "kind", "n"}, 3);
  ASSERT_TRUE(axes.ok());
  EXPECT_DOUBLE_EQ(axes->at(0).Share(10.0), 0.5) << "the middle of a logarithmic range from 1 to 100";
  EXPECT_DOUBLE_EQ(axes->at(0).CoordinateAt(0.5), 10.0);
  EXPECT_EQ(axes->at(1).ValueAt(1.2).string_value(), "b");
  EXPECT_EQ(axes->at(2).ValueAt(5.1).number_value(), 4.0) << "of 1, 4, 7, 10";
  EXPECT_EQ(axes->at(2).levels(), 4);
  EXPECT_THAT(std::string(ParameterAxis::Of(subject, {"kinds"}, 3).status().message()),
              AllOf(HasSubstr("\"kinds\" is no parameter of study s"), HasSubstr("kind")));
}

TEST(FigureTest, ASlopeIsALineInTheDirectionOfTheGradient) {
  // y = 2 at x = 10; the derivative by ln x is 10 dy/dx = 3 units of y, of which the frame shows three.
  const Subject subject = Made({1, 2, 3});
  v1::Trial trial;
  trial.set_number(2);
  (*trial.mutable_parameters()->mutable_fields())["x"].set_number_value(10.0);
  (*trial.mutable_final_measurement()->mutable_metrics())["y"] = 2.0;
  trial.mutable_final_measurement()->mutable_gradient()->mutable_full()->add_values(0.3);
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  const Figure figure = Slice(subject, *axes, {}, {trial});
  const Layer* const slopes = Find(figure.panels[0], Meaning::kGradient);
  ASSERT_NE(slopes, nullptr);
  const double rise = slopes->y2[0] - slopes->y[0];
  const double run = std::log(slopes->x2[0] / slopes->x[0]);
  EXPECT_NEAR(rise / run, 3.0, 1e-9);
  EXPECT_NEAR(0.5 * (slopes->y[0] + slopes->y2[0]), 2.0, 1e-9);
}

void AddPoint(int64_t step, double value, v1::Measurement* point) {
  point->set_step(step);
  (*point->mutable_metrics())["y"] = value;
}

// A trial whose curve has these values at the steps 1, 2, …
v1::Trial WithCurve(int64_t number, const std::vector<double>& values, v1::Trial::State state = v1::Trial::PRUNED) {
  v1::Trial trial;
  trial.set_number(number);
  trial.set_state(state);
  for (size_t i = 0; i < values.size(); ++i) {
    AddPoint(static_cast<int64_t>(i + 1), values[i], trial.add_measurements());
  }
  return trial;
}

const Layer* Named(const Panel& panel, const std::string& name) {
  for (const Layer& layer : panel.layers) {
    if (layer.name == name) return &layer;
  }
  return nullptr;
}

TEST(FigureTest, ACurveEndsAtItsResultAndTheMedianWhereHalfOfTheTrialsAreLeft) {
  const Subject subject = Made({4, 2, 3, 5, 6, 7});
  v1::Trial best = WithCurve(2, {9, 6, 5, 4}, v1::Trial::COMPLETE);
  AddPoint(9, 2, best.mutable_final_measurement());
  v1::Trial skips = WithCurve(3, {8});
  AddPoint(3, 4, skips.add_measurements());
  const Figure figure = Curves(
      subject, {best, WithCurve(1, {5}), skips, WithCurve(4, {4, 2, 0.5}), WithCurve(5, {1, 3}), WithCurve(6, {3})});
  const Panel& panel = figure.panels[0];
  const Layer* const line = Find(panel, Meaning::kBest);
  ASSERT_NE(line, nullptr);
  EXPECT_THAT(line->x, ElementsAre(1, 2, 3, 4, 9)) << "the last point is the result";
  EXPECT_EQ(line->name, "best, trial 2");
  const Layer* const median = Named(panel, "median");
  ASSERT_NE(median, nullptr);
  // At step 2 four of six are left, with 2, 3, 6 and (8 + 4) / 2; at 3 three, with 0.5, 4 and 5; at 4 one.
  EXPECT_THAT(median->x, ElementsAre(1, 2, 3));
  EXPECT_THAT(median->y, ElementsAre(5, 6, 4));
  EXPECT_THAT(figure.caption, HasSubstr("The median ends where fewer than half"));
  EXPECT_EQ(Named(Curves(subject, {WithCurve(1, {1, 2}), WithCurve(2, {1, 2})}).panels[0], "median"), nullptr);
}

TEST(FigureTest, ATrialThatWasStoppedEarlyIsNeverTheBestAndTheCaptionSaysWhy) {
  Subject subject = Made({4, 1, 3});
  v1::GetTrialTableResponse page;
  page.set_rows(3);
  AddNumbers(&page, "number", {1, 2, 3});
  AddNumbers(&page, "metrics.y", {4, 1, 3});
  AddWords(&page, "state", {"COMPLETE", "PRUNED", "PRUNED"});
  subject.trials = {};
  ASSERT_TRUE(subject.trials.Add(page).ok());
  const Figure figure = History(subject, {});
  EXPECT_THAT(figure.caption, HasSubstr("best value is 4 in trial 1. Values of trials that were stopped early"));
  EXPECT_THAT(Find(figure.panels[0], Meaning::kIncumbent)->x, ElementsAre(1, 3)) << "one complete trial has a line";
  EXPECT_THAT(Find(figure.panels[0], Meaning::kBest)->trials, ElementsAre(1));
  EXPECT_THAT(History(Made({4, 1}), {}).caption, Not(HasSubstr("stopped early")));
}

// A study whose trial 1 is complete at x = 1, trial 2 stopped early at x = 10, and trial 3 complete without x.
Subject Mixed() {
  Subject subject = Made({4, 1, 3});
  v1::GetTrialTableResponse page;
  page.set_rows(3);
  AddNumbers(&page, "number", {1, 2, 3});
  AddNumbers(&page, "metrics.y", {4, 1, 3});
  AddNumbers(&page, "params.x", {1, 10, kNan});
  AddWords(&page, "state", {"COMPLETE", "PRUNED", "COMPLETE"});
  subject.trials = {};
  EXPECT_TRUE(subject.trials.Add(page).ok());
  return subject;
}

TEST(FigureTest, TrialsThatWereStoppedEarlyHaveTheirOwnMarkOverParameters) {
  const Subject subject = Mixed();
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  ASSERT_TRUE(axes.ok());
  for (const Figure& figure : {Slice(subject, *axes, {}, {}), Contour(subject, axes->at(0), axes->at(0), {})}) {
    const Layer* const stopped = Find(figure.panels[0], Meaning::kPruned);
    ASSERT_NE(stopped, nullptr) << figure.kind;
    EXPECT_THAT(stopped->trials, ElementsAre(2)) << figure.kind;
    EXPECT_EQ(stopped->name, "stopped early");
    EXPECT_TRUE(stopped->colour.empty()) << "its value is none beside the others";
  }
  const Figure contour = Contour(subject, axes->at(0), axes->at(0), {});
  EXPECT_THAT(Find(contour.panels[0], Meaning::kShaded)->colour, ElementsAre(4)) << "the mean of complete trials";
}

TEST(FigureTest, ALineOfParallelCoordinatesPassesByWhatItsTrialLacksAndReachesItsValue) {
  const Subject subject = Mixed();
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  ASSERT_TRUE(axes.ok());
  const Figure figure = Parallel(subject, *axes);
  std::set<std::int64_t> reached;
  for (const Layer& layer : figure.panels[0].layers) {
    for (size_t i = 0; i < layer.trials.size(); ++i) {
      EXPECT_TRUE(layer.trials[i] != 3 || layer.x[i] != 0.0) << "trial 3 has no x";
      if (layer.x[i] == 1.0 && std::isfinite(layer.y[i])) reached.insert(layer.trials[i]);
    }
  }
  EXPECT_THAT(reached, ElementsAre(1, 2, 3)) << "every line reaches the axis of the metric";
  EXPECT_THAT(Find(figure.panels[0], Meaning::kPruned)->trials, ElementsAre(2, 2, 2));
  EXPECT_EQ(
      figure.caption,
      "A line for each of 3 trials, the darker the better. Those of trials that were stopped early have values of "
      "an earlier step, and another dash. A line passes by the axes of parameters that its trial does not have.");
}

TEST(FigureTest, ValuesThatAreAllAlikeAreTheOnlyTick) {
  const auto ticks = [](const std::vector<double>& values) { return MetricAxis("y", values, false).ticks; };
  ASSERT_EQ(ticks({2, 2, kNan}).size(), 1u);
  EXPECT_EQ(ticks({2, 2, kNan})[0].first, 2.0);
  EXPECT_EQ(ticks({2, 2, kNan})[0].second, "2");
  EXPECT_TRUE(ticks({2, 3}).empty());
  EXPECT_TRUE(ticks({1.5e301}).empty()) << "it is drawn in units of 1e300";
  EXPECT_TRUE(Made({2, 2, 5}, v1::MINIMIZE, {{3}}).ValueAxis().ticks.empty()) << "one beyond a bound differs";
}

TEST(FigureTest, AHistoryHasPausedTrialsWithTheirValuesSoFarAndNoneOfThemIsTheBest) {
  Subject subject = Made({4, 1});
  v1::GetTrialTableResponse page;
  page.set_rows(2);
  AddNumbers(&page, "number", {1, 2});
  AddNumbers(&page, "metrics.y", {4, 1});
  AddWords(&page, "state", {"COMPLETE", "PAUSED"});
  subject.trials = {};
  ASSERT_TRUE(subject.trials.Add(page).ok());
  const Figure figure = History(subject, {});
  EXPECT_THAT(Find(figure.panels[0], Meaning::kOpen)->trials, ElementsAre(2));
  EXPECT_THAT(Find(figure.panels[0], Meaning::kBest)->trials, ElementsAre(1));
  EXPECT_EQ(figure.caption, "2 trials, 1 paused; the best value is 4 in trial 1.");
}

TEST(FigureTest, TheLegendOfATerminalIsOutsideOfTheFrame) {
  EXPECT_THAT(GnuplotScript(History(Made({1, 2}), {}), {.format = Drawing::Format::kText}),
              HasSubstr("set key tmargin"));
}

TEST(FigureTest, CurvesOfTrialsThatRunRankByTheirLastValues) {
  const Subject subject = Made({4});
  const Figure figure =
      Curves(subject, {WithCurve(1, {9, 8}), WithCurve(2, {9, 2}), WithCurve(3, {1, 5}), WithCurve(4, {3, NAN})});
  std::map<std::int64_t, double> shades;
  for (const Layer& layer : figure.panels[0].layers) {
    if (layer.mark == Mark::kLine && layer.shade && !layer.trials.empty()) shades[layer.trials[0]] = *layer.shade;
  }
  ASSERT_EQ(shades.size(), 3u) << "the best one, trial 1, has a colour of its own";
  EXPECT_GT(shades[2], shades[4]);
  EXPECT_GT(shades[4], shades[3]) << "a NaN is no value: the last one is 3";
}

TEST(FigureTest, TrialsThatRunDoSoUntilNow) {
  Subject subject = Made({4, 1});
  v1::GetTrialTableResponse page;
  page.set_rows(2);
  AddNumbers(&page, "number", {1, 2});
  AddNumbers(&page, "start_time", {1000, 1010});
  AddNumbers(&page, "end_time", {1005, NAN});
  AddNumbers(&page, "seconds", {5, NAN});
  AddNumbers(&page, "attempts", {1, 1});
  AddWords(&page, "state", {"COMPLETE", "RUNNING"});
  AddWords(&page, "worker", {"w", "v"});
  subject.trials = {};
  ASSERT_TRUE(subject.trials.Add(page).ok());
  subject.now = 1030;
  const Figure figure = Timeline(subject, {});
  const Layer* const runs = Find(figure.panels[0], Meaning::kOpen);
  ASSERT_NE(runs, nullptr);
  EXPECT_THAT(runs->x, ElementsAre(10));
  EXPECT_THAT(runs->x2, ElementsAre(30));
  EXPECT_THAT(figure.caption, HasSubstr("in 30 seconds"));
}

TEST(FigureTest, AnAxisOfValuesEndsAtValues) {
  const Subject subject = Mixed();
  const auto axes = ParameterAxis::Of(subject, {}, 1);
  ASSERT_TRUE(axes.ok());
  const Figure figure = Parallel(subject, *axes);
  double low = INFINITY, high = -INFINITY;
  for (const Layer& layer : figure.panels[0].layers) {
    for (size_t i = 0; i < layer.trials.size(); ++i) {
      if (layer.x[i] != 1.0 || !std::isfinite(layer.y[i])) continue;
      low = std::min(low, layer.y[i]);
      high = std::max(high, layer.y[i]);
    }
  }
  EXPECT_EQ(low, 0.0);
  EXPECT_EQ(high, 1.0);
}

TEST(FigureTest, APauseIsAGapInTheTimeline) {
  Subject subject = Made({4, 1});
  v1::GetTrialTableResponse page;
  page.set_rows(2);
  AddNumbers(&page, "number", {1, 2});
  AddNumbers(&page, "start_time", {1000, 1002});
  AddNumbers(&page, "end_time", {1100, 1100});
  AddNumbers(&page, "seconds", {4, 3});
  AddNumbers(&page, "attempts", {2, 1});
  AddWords(&page, "state", {"COMPLETE", "PRUNED"});
  AddWords(&page, "worker", {"w", "w"});
  subject.trials = {};
  ASSERT_TRUE(subject.trials.Add(page).ok());
  v1::Trial trial;
  trial.set_number(1);
  trial.set_state(v1::Trial::COMPLETE);
  for (const auto& [begin, end] : {std::pair(1000, 1002), std::pair(1098, 1100)}) {
    v1::Attempt* const attempt = trial.add_attempts();
    attempt->set_worker("w");
    attempt->set_outcome(end == 1100 ? v1::Attempt::COMPLETE : v1::Attempt::PAUSED);
    attempt->mutable_start_time()->set_seconds(begin);
    attempt->mutable_end_time()->set_seconds(end);
  }
  const Figure figure = Timeline(subject, {trial});
  const auto runs = [&](const char* name) {
    const Layer* const layer = Named(figure.panels[0], name);
    return layer == nullptr ? std::vector<double>() : std::vector<double>{layer->x[0], layer->x2[0]};
  };
  EXPECT_THAT(runs("ran until a pause"), ElementsAre(0, 2));
  EXPECT_THAT(runs("complete"), ElementsAre(98, 100));
  EXPECT_THAT(runs("stopped early"), ElementsAre(2, 5)) << "its attempt, not the wait until the study ended";
  EXPECT_THAT(figure.caption, Not(HasSubstr("several attempts")));
  EXPECT_THAT(Timeline(subject, {}).caption, HasSubstr("1 trials of several attempts are drawn as one box"));
}

TEST(FigureTest, TheFrontHasItsBoundsItsCornerAndWhatLiesOutsideOfTheFrame) {
  Subject subject = Made({1, 2, 3, 2.5, 2, 500, 2}, v1::MINIMIZE, std::set<size_t>{5, 7});
  subject.study.mutable_spec()->mutable_metrics(0)->set_at_most(2.7);
  v1::MetricSpec& other = *subject.study.mutable_spec()->add_metrics();
  other.set_name("z");
  other.set_goal(v1::MAXIMIZE);
  v1::GetTrialTableResponse page;
  page.set_rows(7);
  AddNumbers(&page, "number", {1, 2, 3, 4, 5, 6, 7});
  AddNumbers(&page, "metrics.y", {1, 2, 3, 2.5, 2, 500, 2});
  AddNumbers(&page, "metrics.z", {1, 2, 3, 1, 0, 2, -900});
  AddWords(&page, "state", std::vector<std::string>(7, "COMPLETE"));
  AddWords(&page, "feasible", {"true", "true", "true", "true", "false", "true", "false"});
  subject.trials = {};
  ASSERT_TRUE(subject.trials.Add(page).ok());
  const Figure figure = Front(subject, "y", "z");
  const Panel& panel = figure.panels[0];
  EXPECT_THAT(Find(panel, Meaning::kBest)->trials, ElementsAre(1, 2, 3));
  EXPECT_THAT(Find(panel, Meaning::kInfeasible)->trials, ElementsAre(5, 7));
  EXPECT_THAT(Find(panel, Meaning::kOutside)->trials, ElementsAre(6));
  for (const Layer& layer : panel.layers) {
    EXPECT_NE(layer.name, "") << "all that is drawn is in the legend";
    for (size_t i = 0; i < layer.x.size(); ++i) {
      EXPECT_TRUE(layer.x[i] >= *panel.x.min && layer.x[i] <= *panel.x.max) << layer.name;
      EXPECT_TRUE(layer.y[i] >= *panel.y.min && layer.y[i] <= *panel.y.max) << layer.name;
    }
  }
  EXPECT_THAT(Named(panel, "the bound: y at most 2.7")->x, ElementsAre(2.7, 2.7));
  EXPECT_THAT(figure.caption, AllOf(HasSubstr("The best corner is the upper left one."),
                                    HasSubstr("2 trials are beyond a bound; 1 of them at the edge"),
                                    HasSubstr("Bounds: y at most 2.7, ms at most 20.")));
  EXPECT_EQ(Front(Made({}), "y", "z").panels[0].empty, "no trial has both values yet");
}

TEST(FigureTest, ImportanceHasIntervalsAndItsFirstWarningInThePicture) {
  v1::GetImportanceResponse answer;
  answer.set_trials(30);
  answer.set_predicted(0.12);
  auto& share = *answer.add_parameters();
  share.add_parameters("x");
  share.set_share(0.5);
  share.set_low(0.2);
  share.set_high(0.7);
  const Figure trusted = Importance(Made({1, 2}), answer);
  EXPECT_THAT(trusted.caption, Not(HasSubstr("warning")));
  EXPECT_EQ(trusted.warning, "");
  const std::string first =
      "The shares say little: 'x' it is, `touch X`, and so on, word after word until there are lines.";
  answer.add_warnings(first + " " + first);
  answer.add_warnings("Another one.");
  const Figure doubted = Importance(Made({1, 2}), answer);
  EXPECT_THAT(doubted.caption, AllOf(HasSubstr(first), HasSubstr("has 1 more warning.")));
  EXPECT_THAT(doubted.caption, Not(HasSubstr("Another one")));
  const Layer& whiskers = doubted.panels[0].layers[1];
  EXPECT_THAT(whiskers.x, ElementsAre(0.2));
  EXPECT_THAT(whiskers.x2, ElementsAre(0.7));
  const std::string script = GnuplotScript(doubted, {.format = Drawing::Format::kSvg});
  EXPECT_THAT(script, AllOf(HasSubstr("set label 'The shares say little: ’x’"), HasSubstr("character 2.0 center"),
                            HasSubstr("character 1.0 center"), Not(HasSubstr("`"))));
  EXPECT_THAT(GnuplotScript(trusted, {.format = Drawing::Format::kSvg}), Not(HasSubstr("bmargin")));
}

TEST(FigureTest, TextsOfStrangersStayTexts) {
  Subject subject = Made({1, 2, 3});
  subject.id = "`touch x`'; system('touch x') #$(touch x)\n</script><b>\x1b[31m";
  subject.metric = "y";
  const Figure figure = History(subject, {});
  const std::string script = GnuplotScript(figure, {});
  EXPECT_THAT(script, AllOf(HasSubstr("'History of ‘touch x‘’; system(’touch x’)"), Not(HasSubstr("\x1b"))));
  for (size_t at = script.find('\''); at != std::string::npos; at = script.find('\'', at + 1)) {
    const size_t end = script.find('\'', at + 1);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(script.substr(at, end - at).find('\n'), std::string::npos) << "a text is on one line";
    at = end;
  }
  EXPECT_THAT(script, Not(HasSubstr("\"")));
  const std::string page = HtmlPage(figure);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-"));
  const std::string json =
      page.substr(page.find("id=\"figure\">") + 12,
                  page.find("</script>", page.find("id=\"figure\">")) - page.find("id=\"figure\">") - 12);
  EXPECT_EQ(nlohmann::json::parse(json)["title"], figure.title);
}

}  // namespace
}  // namespace luthier::plot
