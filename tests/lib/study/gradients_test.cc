#include "lib/study/gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/study/metrics.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StudySpec TwoMetrics() {
  StudySpec spec;
  spec.space = Space({Float("x", 0, 1), Int("n", 1, 9), Float("y", 0, 1)});
  SetMetrics({{.name = "loss"}, {.name = "ms", .goal = Goal::kMaximize}}, &spec);
  return spec;
}

const Parameters kSetting = {{"x", 0.5}, {"n", 3.0}, {"y", 0.25}};

Gradient Full(double x, double y) {
  Gradient gradient;
  gradient.values = {x, y};
  return gradient;
}

Gradient ByName(std::map<std::string, double> names) {
  Gradient gradient;
  gradient.by_name = std::move(names);
  return gradient;
}

TEST(GradientsTest, ThatOfTheStudysMetricIsKeptAsItsGradient) {
  Measurement m;
  m.gradients = {
      {"loss", ByName({{"x", 1.0}, {"y", 2.0}})}, {"ms", ByName({{"y", 4.0}, {"x", 3.0}})}, {"memory", Full(7.0, 8.0)}};
  ASSERT_TRUE(TakeGradients(TwoMetrics(), kSetting, &m).ok());
  EXPECT_EQ(*m.gradient, Full(1.0, 2.0));
  EXPECT_THAT(m.gradients, ElementsAre(std::pair("ms", Full(3.0, 4.0)))) << "the study declares no memory";
  const std::vector<std::optional<Gradient>> of_metrics = GradientsOf(TwoMetrics(), m);
  EXPECT_THAT(of_metrics, ElementsAre(Full(1.0, 2.0), Full(3.0, 4.0)));
  EXPECT_EQ(GradientBytes(m), 32);
  Measurement again = m;
  ASSERT_TRUE(TakeGradients(TwoMetrics(), kSetting, &again).ok());
  EXPECT_EQ(again, m);
  ClearGradients(&m);
  EXPECT_EQ(m, Measurement());
  EXPECT_TRUE(GradientsOf(TwoMetrics(), m).empty());
}

TEST(GradientsTest, OneMetricHasOneGradient) {
  StudySpec spec = TwoMetrics();
  SetMetrics({{.name = "loss"}}, &spec);
  Measurement m;
  m.gradients = {{"loss", Full(1.0, 2.0)}, {"ms", Full(3.0, 4.0)}};
  ASSERT_TRUE(TakeGradients(spec, kSetting, &m).ok());
  EXPECT_EQ(*m.gradient, Full(1.0, 2.0));
  EXPECT_TRUE(m.gradients.empty());
  EXPECT_TRUE(GradientsOf(spec, m).empty()) << "designers find it as the gradient of the trial";
}

TEST(GradientsTest, TheSameTwiceIsTakenAndTwoThatDifferAreNot) {
  Measurement m;
  m.gradient = Full(1.0, 2.0);
  m.gradients = {{"loss", ByName({{"x", 1.0}, {"y", 2.0}})}, {"ms", Full(3.0, 4.0)}};
  ASSERT_TRUE(TakeGradients(TwoMetrics(), kSetting, &m).ok());
  EXPECT_EQ(*m.gradient, Full(1.0, 2.0));
  m.gradients["loss"] = Full(1.0, -2.0);
  EXPECT_THAT(std::string(TakeGradients(TwoMetrics(), kSetting, &m).message()),
              HasSubstr("gradients[\"loss\"]: is not `gradient`, which is of loss, too; give one of them"));
  EXPECT_FALSE(m.gradient) << "nobody knows which of them is right";
  EXPECT_THAT(m.gradients, ElementsAre(std::pair("ms", Full(3.0, 4.0))));
}

TEST(GradientsTest, MalformedOnesAreNamedAndLeftOut) {
  Measurement m;
  Gradient with_nan = Full(1.0, std::numeric_limits<double>::quiet_NaN()), longer = Full(1.0, 2.0);
  longer.values.push_back(3.0);
  m.gradients = {{"loss", longer}, {"ms", with_nan}};
  const std::string message(TakeGradients(TwoMetrics(), kSetting, &m).message());
  EXPECT_THAT(message, HasSubstr("gradients[\"loss\"].full: has 3 entries but the study has 2"));
  EXPECT_THAT(message, HasSubstr("gradients[\"ms\"].full[1]: is not finite"));
  EXPECT_FALSE(m.gradient);
  EXPECT_TRUE(m.gradients.empty());
  m.gradients = {{"ms", ByName({{"n", 1.0}})}};
  EXPECT_THAT(std::string(TakeGradients(TwoMetrics(), kSetting, &m).message()), HasSubstr("gradients[\"ms\"].by_name"));
}

}  // namespace
}  // namespace luthier::study
