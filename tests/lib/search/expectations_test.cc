#include "lib/search/expectations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/study/metrics.h"

namespace luthier::search {
namespace {

study::StudySpec Declaring(bool several) {
  study::StudySpec spec;
  std::vector<study::MetricSpec> metrics = {{.name = "loss"},
                                            {.name = "ms", .objective = false, .at_most = 20},
                                            {.name = "mb", .objective = several, .at_most = 5}};
  study::SetMetrics(metrics, &spec);
  return spec;
}

TEST(ExpectationsTest, AreThoseOfTheDetails) {
  const std::vector<MetricExpectation> of_one = ExpectationsOf(Declaring(false), {{"predicted_mean", 0.5},
                                                                                  {"predicted_sd", 0.1},
                                                                                  {"mean.ms", 18.0},
                                                                                  {"sd.ms", 3.0},
                                                                                  {"kept.ms", 0.75},
                                                                                  {"p_within_bounds", 0.75}});
  ASSERT_EQ(of_one.size(), 3u);
  EXPECT_EQ(of_one[0].metric, "loss");
  EXPECT_EQ(of_one[0].mean, 0.5);
  EXPECT_EQ(of_one[0].sd, 0.1);
  EXPECT_FALSE(of_one[0].bounds_kept);
  EXPECT_EQ(of_one[1].mean, 18.0);
  EXPECT_EQ(of_one[1].bounds_kept, 0.75);
  EXPECT_FALSE(of_one[2].mean) << "its model was not asked";
  EXPECT_EQ(of_one[2].bounds_kept, 1.0) << "as all results keep its bound by far";
  const std::vector<MetricExpectation> of_two = ExpectationsOf(Declaring(true), {{"mean.loss", 1.0}, {"sd.loss", 2.0}});
  EXPECT_EQ(of_two[0].mean, 1.0);
  EXPECT_FALSE(of_two[2].mean);
}

TEST(ExpectationsTest, WithoutAModelThereAreNone) {
  EXPECT_TRUE(ExpectationsOf(Declaring(true), {{"first_parent", 3.0}}).empty());
  study::StudySpec one;
  study::SetMetrics({{.name = "loss"}}, &one);
  EXPECT_TRUE(ExpectationsOf(one, {{"predicted_mean", 0.5}, {"predicted_sd", 0.1}}).empty());
}

TEST(ExpectationsTest, FormerSuggestionsDoNotTellTheBoundsApart) {
  const std::vector<MetricExpectation> former =
      ExpectationsOf(Declaring(false), {{"predicted_mean", 0.5}, {"predicted_sd", 0.1}, {"p_within_bounds", 0.75}});
  ASSERT_EQ(former.size(), 3u);
  EXPECT_FALSE(former[1].bounds_kept);
  EXPECT_FALSE(former[2].bounds_kept);
}

TEST(ExpectationsTest, NamesOfDetailsAreNames) {
  EXPECT_EQ(DetailOfMetric("mean", "ms"), "mean.ms");
  EXPECT_EQ(DetailOfMetric("kept", std::string(64, 'x')).size(), 64u);
}

}  // namespace
}  // namespace luthier::search
