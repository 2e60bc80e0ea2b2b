#include "lib/study/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();

MetricSpec Minimize(std::string name) {
  return {std::move(name), Goal::kMinimize};
}

MetricSpec Bounded(std::string name, std::optional<double> at_least, std::optional<double> at_most) {
  return {.name = std::move(name), .objective = false, .at_least = at_least, .at_most = at_most};
}

StudySpec Declaring(std::vector<MetricSpec> metrics) {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1)});
  SetMetrics(std::move(metrics), &spec);
  return spec;
}

HistoryTrial Open(int64_t number) {
  HistoryTrial trial;
  trial.number = number;
  return trial;
}

HistoryTrial Result(const StudySpec& spec, int64_t number, const std::vector<double>& values,
                    TrialState state = TrialState::kComplete) {
  HistoryTrial trial = Open(number);
  trial.state = state;
  Measurement measurement;
  for (size_t i = 0; i < values.size(); ++i) measurement.metrics[MetricsOf(spec)[i].name] = values[i];
  FillMetrics(spec, measurement, &trial);
  return trial;
}

History HistoryOf(const StudySpec& spec, const std::vector<std::vector<double>>& results) {
  History history;
  for (size_t i = 0; i < results.size(); ++i) {
    const HistoryTrial result = Result(spec, static_cast<int64_t>(i) + 1, results[i]);
    history.AddStored(Open(result.number));
    history.Finish(result.number, TrialState::kComplete, results[i][0], std::nullopt, std::nullopt);
    history.NoteMetrics(result.number, result);
  }
  return history;
}

TEST(MetricsTest, OneObjectiveWithoutBoundsIsTheMetricAlone) {
  EXPECT_THAT(Declaring({Minimize("loss")}).metrics, IsEmpty());
  EXPECT_EQ(Declaring({Minimize("loss")}).metric, Minimize("loss"));
  EXPECT_EQ(Declaring({Minimize("loss"), Bounded("ms", {}, 20)}).metrics.size(), 2u);
  EXPECT_EQ(MetricsOf(Declaring({Minimize("loss")})).size(), 1u);
  EXPECT_EQ(ObjectiveField(Declaring({Minimize("loss")})), "metric");
}

TEST(MetricsTest, TheFirstObjectiveIsTheMetricWhereverItStands) {
  const StudySpec spec = Declaring({Bounded("ms", {}, 20), Minimize("loss"), Minimize("energy")});
  EXPECT_EQ(spec.metric.name, "loss");
  EXPECT_EQ(ObjectiveField(spec), "metrics[1]");
  EXPECT_EQ(ObjectiveCount(spec), 2);
  EXPECT_TRUE(HasBounds(spec));
  EXPECT_FALSE(HasBounds(Declaring({Minimize("loss"), Minimize("energy")})));
}

struct BadMetrics {
  const char* name;
  std::vector<MetricSpec> metrics;
  const char* field;
  const char* message;
  std::optional<double> target = std::nullopt;
};

void PrintTo(const BadMetrics& bad, std::ostream* out) {
  *out << bad.name;
}

class BadMetricsTest : public ::testing::TestWithParam<BadMetrics> {};

TEST_P(BadMetricsTest, AreRefusedNamingTheField) {
  StudySpec spec = Declaring(GetParam().metrics);
  spec.budget.target_value = GetParam().target;
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(ValidateSpec(spec));
  ASSERT_TRUE(detail && detail->violations.size() == 1) << ValidateSpec(spec);
  EXPECT_EQ(detail->violations[0].field, GetParam().field);
  EXPECT_THAT(detail->violations[0].description, ::testing::HasSubstr(GetParam().message));
}

MetricSpec With(MetricSpec metric, const std::function<void(MetricSpec&)>& change) {
  change(metric);
  return metric;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMetricsTest,
    ::testing::Values(
        BadMetrics{"NoObjective", {Bounded("ms", {}, 20)}, "metrics", "has no objective"},
        BadMetrics{"Nothing", {Minimize("loss"), Bounded("ms", {}, {})}, "metrics[1]", "neither a goal nor a bound"},
        BadMetrics{"Twice", {Minimize("loss"), Bounded("loss", {}, 1)}, "metrics[1].name", "is there twice"},
        BadMetrics{"Unnamed", {Minimize("loss"), Minimize("")}, "metrics[1].name", "is required"},
        BadMetrics{"NoName", {Minimize("loss"), Minimize("a b")}, "metrics[1].name", "is not a name"},
        BadMetrics{"Parameter", {Minimize("loss"), Bounded("x", {}, 1)}, "metrics[1].name", "name of a parameter"},
        BadMetrics{"Contradiction", {Minimize("loss"), Bounded("ms", 3, 2)}, "metrics[1].at_least", "no value meets"},
        BadMetrics{"Equality", {Minimize("loss"), Bounded("ms", 2, 2)}, "metrics[1].at_least", "report the distance"},
        BadMetrics{"NanBound", {Minimize("loss"), Bounded("ms", {}, std::nan(""))}, "metrics[1].at_most", "finite"},
        BadMetrics{"InfiniteBound", {Minimize("loss"), Bounded("ms", -kInfinite, {})}, "metrics[1].at_least", "finite"},
        BadMetrics{
            "ReferenceWithoutGoal",
            {Minimize("loss"), Minimize("b"), With(Bounded("ms", {}, 2), [](MetricSpec& m) { m.reference = 1; })},
            "metrics[2].reference",
            "is for an objective"},
        BadMetrics{"ReferenceOfTheOnlyOne",
                   {With(Minimize("loss"), [](MetricSpec& m) { m.reference = 1; })},
                   "metrics[0].reference",
                   "write at_most"},
        BadMetrics{"InfiniteReference",
                   {Minimize("loss"), With(Minimize("b"), [](MetricSpec& m) { m.reference = kInfinite; })},
                   "metrics[1].reference",
                   "finite"},
        BadMetrics{"ReferenceBeyondTheBound",
                   {Minimize("loss"), With(Minimize("b"), [](MetricSpec& m) { m.at_least = m.reference = 3; })},
                   "metrics[1].reference",
                   "worth anything"},
        BadMetrics{"TargetBeyondTheBound",
                   {With(Minimize("loss"), [](MetricSpec& m) { m.at_least = 1; })},
                   "budget.target_value",
                   "no trial would reach it",
                   0.5},
        BadMetrics{"LargeTargetBeyondTheBound",
                   {With(Minimize("gain"),
                         [](MetricSpec& m) {
                           m.goal = Goal::kMaximize;
                           m.at_most = 3;
                         })},
                   "budget.target_value",
                   "better than all that at_most of gain allows, 3",
                   4},
        BadMetrics{"Nine",
                   {Minimize("a"), Minimize("b"), Minimize("c"), Minimize("d"), Minimize("e"), Minimize("f"),
                    Minimize("g"), Minimize("h"), Minimize("i")},
                   "metrics",
                   "at most 8"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(MetricsTest, WhatNeedsOneObjectiveIsRefusedForSeveral) {
  StudySpec spec = Declaring({Minimize("loss"), Minimize("ms")});
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
  spec.budget.target_value = 1.0;
  spec.resource = Resource{.min = 1, .max = 9, .unit = ""};
  spec.stopping = CurveStopping();
  const std::string message(ValidateSpec(spec).message());
  EXPECT_THAT(message, ::testing::HasSubstr("budget.target_value: does not go with several objectives"));
  EXPECT_THAT(message, ::testing::HasSubstr("stopping.curve: extrapolates the curve of one objective"));
  StudySpec stopped = spec;
  stopped.budget.target_value.reset();
  for (const StoppingRule& rule : {StoppingRule(MedianStopping()), StoppingRule(PercentileStopping())}) {
    stopped.stopping = rule;
    EXPECT_TRUE(ValidateSpec(stopped).ok()) << ValidateSpec(stopped);
  }
  SetMetrics({Minimize("loss"), Bounded("ms", {}, 20)}, &spec);
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
}

TEST(MetricsTest, PatternsOfAMetricAreMissedByName) {
  StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 20)});
  CommandObjective command;
  command.argv = {"train"};
  command.stdout_patterns = {{"loss", "l=(.*)"}};
  spec.objective = command;
  EXPECT_THAT(std::string(ValidateSpec(spec).message()),
              ::testing::HasSubstr("has no pattern for the study's metric \"ms\""));
}

TEST(MetricsTest, ValuesNeedEveryMetricAsAFiniteNumber) {
  const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 20)});
  Measurement m;
  m.metrics = {{"loss", 1.0}, {"other", 2.0}};
  EXPECT_EQ(ValuesOf(spec, m), std::nullopt);
  EXPECT_THAT(MissingMetrics(spec, m), ElementsAre("ms"));
  m.metrics["ms"] = kInfinite;
  EXPECT_EQ(ValuesOf(spec, m), std::nullopt);
  EXPECT_THAT(MissingMetrics(spec, m), IsEmpty());
  m.metrics["ms"] = 30.0;
  EXPECT_THAT(ValuesOf(spec, m), Optional(ElementsAre(1.0, 30.0)));
}

TEST(MetricsTest, AHistoryHasValuesErrorsAndFeasibility) {
  const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 20)});
  Measurement m;
  m.metrics = {{"loss", 1.0}, {"ms", 30.0}};
  m.standard_errors = {{"ms", 0.5}};
  HistoryTrial trial;
  FillMetrics(spec, m, &trial);
  EXPECT_THAT(trial.values, ElementsAre(1.0, 30.0));
  EXPECT_THAT(trial.standard_errors, ElementsAre(std::nullopt, 0.5));
  EXPECT_FALSE(trial.feasible);
  trial.ClearResult();
  EXPECT_THAT(trial.values, IsEmpty());
  EXPECT_TRUE(trial.feasible);
  FillMetrics(Declaring({Minimize("loss")}), m, &trial);
  EXPECT_THAT(trial.values, IsEmpty()) << "a study with one metric has its value";
}

TEST(MetricsTest, BoundsAreFeasibleThemselves) {
  const std::vector<MetricSpec> metrics = {Minimize("loss"), Bounded("ms", 10, 20)};
  EXPECT_TRUE(IsFeasible(metrics, {1e9, 10}));
  EXPECT_TRUE(IsFeasible(metrics, {1e9, 20}));
  EXPECT_FALSE(IsFeasible(metrics, {0, std::nextafter(20.0, 21.0)}));
  EXPECT_FALSE(IsFeasible(metrics, {0, std::nextafter(10.0, 9.0)}));
  EXPECT_EQ(Excess(metrics[0], 5), -kInfinite);
  EXPECT_EQ(Excess(metrics[1], 12), -2);
  EXPECT_EQ(Excess(metrics[1], 25), 5);
  EXPECT_EQ(Excess(metrics[1], 7), 3);
}

// The values 2, 4, 6 have the variance 8/3, and 1, 1, 1 none, for which the spread is 1.
TEST(MetricsTest, AViolationIsInUnitsOfTheSpread) {
  const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 3), Bounded("mb", 2, {})});
  const History history = HistoryOf(spec, {{5, 2, 1}, {5, 4, 1}, {8, 6, 1}});
  EXPECT_THAT(SpreadsOf(spec, history),
              ElementsAre(::testing::DoubleEq(std::sqrt(2.0)), ::testing::DoubleEq(std::sqrt(8.0 / 3.0)), 1.0));
  const double spread = std::sqrt(8.0 / 3.0);
  EXPECT_THAT(ViolationsOf(spec, history),
              ElementsAre(1.0, ::testing::DoubleEq(1.0 / spread + 1.0), ::testing::DoubleEq(3.0 / spread + 1.0)));
}

// A sum of values like .1 is rounded, so that the mean is none of them.
TEST(MetricsTest, AMetricThatIsAlwaysTheSameHasTheSpreadOne) {
  for (const double value : {0.1, 0.7, 1e-300, 3e307}) {
    const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, -0.9)});
    const History history = HistoryOf(spec, std::vector<std::vector<double>>(31, {0.5, value}));
    EXPECT_THAT(SpreadsOf(spec, history), ElementsAre(1.0, 1.0)) << value;
    EXPECT_EQ(ViolationsOf(spec, history)[7], value + 0.9);
  }
}

TEST(MetricsTest, ViolationsOfExtremeValuesAreOrdered) {
  const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 0)});
  const History history = HistoryOf(spec, {{0, kLargest}, {0, -kLargest}, {0, 5e-324}});
  const std::vector<double> violations = ViolationsOf(spec, history);
  EXPECT_GT(violations[0], violations[2]);
  EXPECT_EQ(violations[1], 0.0);
  EXPECT_GT(violations[2], 0.0) << "a result that is not feasible has a violation, however small";
}

TEST(MetricsTest, OnlyCompleteTrialsMakeTheSpread) {
  const StudySpec spec = Declaring({Minimize("loss"), Bounded("ms", {}, 3)});
  History history = HistoryOf(spec, {{1, 2}, {1, 2}});
  history.AddStored(Open(3));
  history.Finish(3, TrialState::kPruned, 1.0, std::nullopt, std::nullopt);
  history.NoteMetrics(3, Result(spec, 3, {1, 100}, TrialState::kPruned));
  EXPECT_THAT(SpreadsOf(spec, history), ElementsAre(1.0, 1.0));
  EXPECT_THAT(ViolationsOf(spec, history), ElementsAre(0.0, 0.0, 97.0));
}

TEST(MetricsTest, FeasibleResultsComeBeforeOthers) {
  EXPECT_TRUE(IsBetter({0, -5}, {0, -6}));
  EXPECT_FALSE(IsBetter({0, -6}, {0, -6}));
  EXPECT_TRUE(IsBetter({0, -1e9}, {1e-9, 1e9}));
  EXPECT_FALSE(IsBetter({1e-9, 1e9}, {0, -1e9}));
  EXPECT_TRUE(IsBetter({1, -5}, {2, 5}));
  EXPECT_FALSE(IsBetter({2, 5}, {2, 1})) << "of two that violate the bounds alike neither is better";
}

}  // namespace
}  // namespace luthier::study
