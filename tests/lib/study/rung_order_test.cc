#include "lib/study/rung_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "lib/study/metrics.h"

namespace luthier::study {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<size_t> Order(const StudySpec& spec, const std::vector<RungResult>& results, size_t count = 100) {
  return RungOrder(spec, results, count, base::StopToken()).value();
}

StudySpec OfMetrics(std::vector<MetricSpec> metrics) {
  StudySpec spec;
  SetMetrics(std::move(metrics), &spec);
  return spec;
}

TEST(RungOrderTest, OneMetricIsInOrderOfLoss) {
  const StudySpec spec = OfMetrics({{.name = "loss"}});
  const std::vector<RungResult> results = {{.loss = 2.0, .tie = 1},
                                           {.loss = kInfinity, .tie = 0},
                                           {.loss = 1.0, .tie = 9},
                                           {.loss = 2.0, .tie = 0},
                                           {.loss = -5.0, .tie = 4}};
  EXPECT_THAT(Order(spec, results), ElementsAre(4, 2, 3, 0, 1));
  EXPECT_THAT(Order(spec, results, 2), ElementsAre(4, 2));
}

TEST(RungOrderTest, BoundsComeFirst) {
  const StudySpec spec = OfMetrics({{.name = "loss"}, {.name = "ms", .objective = false, .at_most = 20}});
  const std::vector<RungResult> results = {
      {.loss = 1.0, .values = {1.0, 25.0}, .tie = 1}, {.loss = 9.0, .values = {9.0, 20.0}, .tie = 2},
      {.loss = 7.0, .values = {7.0, 1.0}, .tie = 3},  {.loss = kInfinity, .tie = 4},
      {.loss = 5.0, .values = {5.0, 21.0}, .tie = 5}, {.loss = 0.0, .values = {0.0, 25.0}, .tie = 0}};
  EXPECT_THAT(Order(spec, results), ElementsAre(2, 1, 4, 5, 0, 3)) << "beyond the bound the loss says nothing";
  EXPECT_THAT(Order(spec, results, 1), ElementsAre(2));
}

// As a program reports that gives its loss after each epoch, and all metrics at its end.
TEST(RungOrderTest, TheLossAloneGoesByLossAmongThoseWithinTheBounds) {
  const StudySpec spec = OfMetrics({{.name = "loss"}, {.name = "ms", .objective = false, .at_most = 20}});
  const std::vector<RungResult> results = {{.loss = 3.0, .tie = 0},
                                           {.loss = 1.0, .values = {1.0, 25.0}, .tie = 1},
                                           {.loss = 2.0, .tie = 2},
                                           {.loss = 2.5, .values = {2.5, 20.0}, .tie = 3},
                                           {.loss = kInfinity, .tie = 4}};
  EXPECT_THAT(Order(spec, results), ElementsAre(2, 3, 0, 1, 4));
}

TEST(RungOrderTest, SeveralObjectivesGoByLayerAndLieApart) {
  const StudySpec spec = OfMetrics({{.name = "loss"},
                                    {.name = "score", .goal = Goal::kMaximize},
                                    {.name = "ms", .objective = false, .at_least = 0}});
  const auto at = [](double loss, double score, double ms, int64_t tie) {
    return RungResult{.loss = loss, .values = {loss, score, ms}, .tie = tie};
  };
  const std::vector<RungResult> results = {at(1, 0, 1, 5),
                                           at(2, 1, 1, 4),
                                           at(3, 3, 1, 3),
                                           at(4, 9, 1, 2),
                                           at(1.5, 0, 1, 1),
                                           at(0, 99, -1, 0),
                                           {.loss = kInfinity, .tie = -1}};
  // The front is 0 … 3: first the best loss, then the farthest from it, then the first of the two between (by tie).
  EXPECT_THAT(Order(spec, results), ElementsAre(0, 3, 2, 1, 4, 5, 6));
  EXPECT_THAT(Order(spec, results, 2), ElementsAre(0, 3));
}

TEST(RungOrderTest, WithBoundsAloneAResultNeedsTheLoss) {
  const StudySpec spec = OfMetrics({{.name = "loss"}, {.name = "ms", .objective = false, .at_most = 20}});
  HistoryTrial trial;
  trial.points = {{1, 0.5, {0.5, 7.0}}, {3, 0.4, {}}};
  EXPECT_THAT(ResultAt(spec, trial, 1)->values, ElementsAre(0.5, 7.0));
  EXPECT_EQ(ResultAt(spec, trial, 3)->loss, 0.4);
  EXPECT_TRUE(ResultAt(spec, trial, 3)->values.empty());
}

TEST(RungOrderTest, WithSeveralObjectivesAResultNeedsAllMetrics) {
  const StudySpec spec = OfMetrics({{.name = "loss"}, {.name = "ms"}});
  HistoryTrial trial;
  EXPECT_FALSE(ResultAt(spec, trial, 3).has_value());
  trial.points = {{1, 0.5, {0.5, 7.0}}, {3, 0.4, {}}, {9, 0.3, {0.3, 6.0}}};
  EXPECT_EQ(ResultAt(spec, trial, 1)->loss, 0.5);
  EXPECT_THAT(ResultAt(spec, trial, 1)->values, ElementsAre(0.5, 7.0));
  EXPECT_EQ(ResultAt(spec, trial, 3)->loss, kInfinity);
  EXPECT_TRUE(ResultAt(spec, trial, 3)->values.empty());
  EXPECT_THAT(ResultAt(spec, trial, 4)->values, ElementsAre(0.3, 6.0));
  trial.state = TrialState::kComplete;
  trial.value = 0.2;
  trial.values = {0.2, 5.0};
  EXPECT_THAT(ResultAt(spec, trial, 27)->values, ElementsAre(0.2, 5.0));
}

}  // namespace
}  // namespace luthier::study
