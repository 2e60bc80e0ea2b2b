#include "lib/search/nsga2/nsga2_designer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/search/quasi_random/random_designer.h"
#include "tests/lib/search/metrics_testing.h"

namespace luthier::search {
namespace {

using Eigen::VectorXd;
using study::Nsga2Options;

study::SearchSpace Cube(int dimensions) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < dimensions; ++j) parameters.push_back(study::Float(absl::StrCat("x", j), 0, 1));
  return study::Space(parameters);
}

std::vector<study::MetricSpec> Objectives(int count) {
  std::vector<study::MetricSpec> metrics;
  for (int j = 0; j < count; ++j) metrics.push_back(Objective(absl::StrCat("f", j)));
  return metrics;
}

std::vector<double> Zdt1(const study::Parameters& p) {
  const double first = Number(p, "x0");
  double sum = 0.0;
  for (size_t j = 1; j < p.size(); ++j) sum += Number(p, absl::StrCat("x", j));
  const double g = 1.0 + 9.0 * sum / static_cast<double>(p.size() - 1);
  return {first, g * (1.0 - std::sqrt(first / g))};
}

MetricsFunction Dtlz2(int objectives) {
  return [objectives](const study::Parameters& p) {
    const auto x = [&](int j) { return Number(p, absl::StrCat("x", j)); };
    double g = 0.0;
    for (int j = objectives - 1; j < static_cast<int>(p.size()); ++j) g += (x(j) - 0.5) * (x(j) - 0.5);
    std::vector<double> values;
    for (int i = 0; i < objectives; ++i) {
      double value = 1.0 + g;
      for (int j = 0; j < objectives - 1 - i; ++j) value *= std::cos(0.5 * M_PI * x(j));
      if (i > 0) value *= std::sin(0.5 * M_PI * x(objectives - 1 - i));
      values.push_back(value);
    }
    return values;
  };
}

double MedianVolume(int dimensions, int objectives, const MetricsFunction& f) {
  std::vector<double> volumes;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    MetricsStudy study(MetricsSpec(Cube(dimensions), Objectives(objectives), seed, Nsga2Options{}), f);
    study.Run(1000);
    volumes.push_back(Worth(study.spec(), study.Feasible(), VectorXd::Constant(objectives, -1.1)));
  }
  std::sort(volumes.begin(), volumes.end());
  return volumes[2];
}

// Medians over five seeds of Optuna 5.0's NSGAIISampler, and with five objectives of its NSGAIIISampler, at their
// defaults and with the same functions.
TEST(Nsga2Designer, FrontsOfAThousandTrialsAreAtLeastThoseOfAPeer) {
  const double zdt1 = MedianVolume(10, 2, Zdt1), dtlz2 = MedianVolume(6, 3, Dtlz2(3)),
               five = MedianVolume(8, 5, Dtlz2(5));
  RecordProperty("zdt1", absl::StrCat(zdt1));
  RecordProperty("dtlz2", absl::StrCat(dtlz2));
  RecordProperty("dtlz2_5", absl::StrCat(five));
  EXPECT_GE(zdt1, 0.4102);
  EXPECT_GE(dtlz2, 0.7049);
  EXPECT_GE(five, 1.0834);
}

TEST(Nsga2Designer, BeginsWithRandomSearchAndGoesOnWithChildren) {
  MetricsStudy study(MetricsSpec(Square(), Objectives(2), 7, Nsga2Options{.population = 6}), BraninCurrin);
  const study::Encoding encoding(study.spec().space);
  for (int i = 0; i < 40; ++i) {
    const absl::StatusOr<Suggestion> next = study.Ask();
    ASSERT_TRUE(next.ok());
    if (i < 6) {
      EXPECT_EQ(next->origin, "random");
      EXPECT_EQ(next->parameters, ExplorationPoint(encoding, 7, static_cast<uint64_t>(i)));
    } else {
      EXPECT_EQ(next->origin, "nsga2");
      EXPECT_EQ(next->details.at("population"), 6.0);
      EXPECT_NE(next->details.at("first_parent"), next->details.at("second_parent"));
    }
    study.Complete(study.newest());
  }
}

TEST(Nsga2Designer, TakesOneObjectiveAndBounds) {
  MetricsStudy plain(MetricsSpec(Square(), {Objective("f")}, 1, Nsga2Options{}), [](const study::Parameters& p) {
    return std::vector{std::pow(Number(p, "x0") - 0.3, 2) + std::pow(Number(p, "x1") - 0.8, 2)};
  });
  plain.Run(300);
  double best = 1.0;
  for (const study::HistoryTrial& trial : plain.history().trials()) best = std::min(best, *trial.value);
  EXPECT_LT(best, 1e-5);
  MetricsStudy bounded(MetricsSpec(Square(), {Objective("sum"), AtMost("inside", 0.0)}, 1, Nsga2Options{}),
                       OutsideCircle);
  bounded.Run(600);
  EXPECT_LT(-Worth(bounded.spec(), bounded.Feasible(), VectorXd()), 1.05);
  EXPECT_GT(bounded.Feasible().size(), 100u) << "a fifth of the square is feasible";
}

TEST(Nsga2Designer, GoesOnWithRandomSettingsWhileNothingCompletes) {
  MetricsStudy study(MetricsSpec(Square(), Objectives(8), 3, Nsga2Options{.population = 4}), Dtlz2(2));
  for (int i = 0; i < 12; ++i) {
    const absl::StatusOr<Suggestion> next = study.Ask();
    ASSERT_TRUE(next.ok());
    EXPECT_EQ(next->origin, "random");
    study.Fail(study.newest(), study::FailureKind::kConfig);
  }
}

// What an object keeps from one history says nothing of another, however alike they are.
TEST(Nsga2Designer, AnotherHistoryIsAnotherStudy) {
  const study::StudySpec spec =
      MetricsSpec(Square(), {Objective("sum"), AtMost("inside", 0.0)}, 5, Nsga2Options{.population = 5});
  MetricsStudy a(spec, OutsideCircle);
  a.Run(60);
  MetricsStudy b(spec, [&](const study::Parameters& p) {
    std::vector<double> values = OutsideCircle(p);
    values[1] += p == a.history().trials()[2].parameters ? 1e-3 : 0.0;  // An old result differs.
    return values;
  });
  b.Run(60);
  const std::unique_ptr<Designer> one = CreateDesigner(spec);
  for (const MetricsStudy* study : {&a, &b, &a, &b}) {
    const Suggestion kept = one->Suggest(study->history(), 60, base::StopToken()).value();
    const Suggestion anew = study->AskAnew().value();
    EXPECT_EQ(kept.parameters, anew.parameters);
    EXPECT_EQ(kept.details, anew.details);
  }
}

TEST(Nsga2Designer, LongStudiesGoOnAsThoughTheyWereReadAnew) {
  MetricsStudy study(MetricsSpec(Square(), {Objective("branin"), Objective("currin"), AtMost("sum", 1.5)}, 4,
                                 Nsga2Options{.population = 12}),
                     [](const study::Parameters& p) {
                       std::vector<double> values = BraninCurrin(p);
                       values.push_back(Number(p, "x0") + Number(p, "x1"));
                       return values;
                     });
  study.Run(1150);
  for (int i = 0; i < 5; ++i) {
    const Suggestion anew = study.AskAnew().value();
    const Suggestion kept = study.Ask().value();
    EXPECT_EQ(kept.parameters, anew.parameters);
    EXPECT_EQ(kept.details, anew.details);
    study.Complete(study.newest());
  }
}

TEST(Nsga2Designer, HugeValuesAndConstantMetricsAreTaken) {
  MetricsStudy study(
      MetricsSpec(Square(), {Objective("a"), Objective("b"), Objective("c"), Objective("d"), AtMost("e", 1e300)}, 2,
                  Nsga2Options{.population = 8}),
      [](const study::Parameters& p) {
        const double x = Number(p, "x0"), y = Number(p, "x1");
        return std::vector{1e308 * (x - 0.5), -1e308 * (x - 0.5), 7.0, y * 1e-320, 1.5e308 * (y - 0.5)};
      });
  study.Run(60);
  EXPECT_EQ(study.AskAnew()->origin, "nsga2");
}

TEST(Nsga2Designer, RefusesPopulationsOutOfRange) {
  study::StudySpec spec;
  spec.space = Square();
  spec.metric.name = "f";
  for (const int32_t population : {-1, 1, 3, 10'001}) {
    spec.algorithm = Nsga2Options{.population = population};
    EXPECT_THAT(std::string(Validate(spec).message()),
                ::testing::HasSubstr("algorithm.nsga2.population: " + std::to_string(population) +
                                     " is not 0 (40) or between 4 and 10000"));
  }
}

}  // namespace
}  // namespace luthier::search
