#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "lib/search/bo/acquisition/scalarized_draw.h"
#include "lib/search/bo/model/metric_models.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/registry.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/metrics_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::AlgorithmSpec;
using study::AutoOptions;
using study::BoDefaults;
using study::BoOptions;
using study::BoPreset;
using study::Goal;
using study::TpeOptions;

// The distance to a corner of the unit cube for each of m objectives.
std::vector<double> Distances(const study::Parameters& p, int m) {
  const std::vector<double> x = Point(p);
  std::vector<double> values;
  for (int j = 0; j < m; ++j) {
    double sum = 0.0;
    for (size_t c = 0; c < x.size(); ++c) sum += std::pow(x[c] - (static_cast<int>(c) == j % 3 ? 1.0 : 0.0), 2);
    values.push_back(std::sqrt(sum) + 0.1 * j * x[0]);
  }
  return values;
}

TEST(SeveralMetrics, ABoundThatIsKeptByFarChangesNoBit) {
  for (const BoPreset preset : {BoPreset::kBo, BoPreset::kHbo, BoPreset::kLbo, BoPreset::kFobo}) {
    const auto f = [](const study::Parameters& p) { return std::vector<double>{Branin(Point(p)), Point(p)[0]}; };
    const study::SearchSpace space = Space({Float("x0", -5, 10), Float("x1", 0, 15)});
    MetricsStudy bounded(MetricsSpec(space, {Objective("loss"), AtMost("x", 1e6)}, 1, BoDefaults(preset)), f);
    MetricsStudy plain(MetricsSpec(space, {Objective("loss")}, 1, BoDefaults(preset)), f);
    for (int i = 0; i < 24; ++i) {
      const Suggestion a = *bounded.Ask(), b = *plain.Ask();
      ASSERT_EQ(a.parameters, b.parameters) << i;
      ASSERT_EQ(a.designer_state, b.designer_state) << i;
      ASSERT_EQ(a.origin, b.origin) << i;
      ASSERT_EQ(a.details, b.details) << i;
      bounded.Complete(bounded.newest());
      plain.Complete(plain.newest());
    }
  }
}

TEST(SeveralMetrics, BoundsInDoubtAreThoseThatSomeResultIsNear) {
  MetricsStudy study(
      MetricsSpec(Square(), {Objective("a"), AtMost("near", 1.0), AtMost("far", 10.0), AtLeast("low", 0.5)}, 1,
                  study::RandomOptions{}),
      nullptr);
  for (const double x : {0.0, 0.1, 0.2, 0.9}) {
    ASSERT_TRUE(study.Ask().ok());
    study.Complete(study.newest(), {x, x, x, 0.6 + 1e-9 * x});
  }
  EXPECT_THAT(BoundsInDoubt(study.spec().metrics, study.history()), ::testing::ElementsAre(1));
}

TEST(SeveralMetrics, TheOptimumAtABoundIsFound) {
  for (const AlgorithmSpec& algorithm :
       std::vector<AlgorithmSpec>{AutoOptions{}, BoOptions{}, BoDefaults(BoPreset::kHbo), BoDefaults(BoPreset::kLbo)}) {
    const study::StudySpec spec = MetricsSpec(Square(), {Objective("sum"), AtMost("inside", 0.0)}, 3, algorithm);
    MetricsStudy study(spec, OutsideCircle);
    study.Run(40);
    // The sum is least, 1, at the two corners of the circle, where local steps end.
    EXPECT_NEAR(-Worth(spec, study.Feasible(), VectorXd()), 1.0, 1e-9) << study::AlgorithmName(algorithm);
  }
}

TEST(SeveralMetrics, ASmallFeasibleRegionIsFoundBeforeAnythingIsKnownOfIt) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    // Both bounds are kept in 0.3 % of the square.
    const auto f = [](const study::Parameters& p) {
      const double x = Number(p, "x0"), y = Number(p, "x1");
      return std::vector<double>{x, std::hypot(x - 0.73, y - 0.21), x - y};
    };
    MetricsStudy study(
        MetricsSpec(Square(), {Objective("a"), AtMost("distance", 0.03), AtLeast("lead", 0.5)}, seed, AutoOptions{}),
        f);
    study.Run(20);
    found += study.Feasible().empty() ? 0 : 1;
  }
  EXPECT_EQ(found, 5);
}

TEST(SeveralMetrics, ABoundThatNothingKeepsIsApproached) {
  const study::StudySpec spec = MetricsSpec(Square(), {Objective("a"), AtMost("far", -1.0)}, 1, AutoOptions{});
  MetricsStudy study(spec, [](const study::Parameters& p) {
    const double x = Number(p, "x0"), y = Number(p, "x1");
    return std::vector<double>{x, (x - 0.3) * (x - 0.3) + (y - 0.6) * (y - 0.6)};
  });
  study.Run(30);
  EXPECT_TRUE(study.Feasible().empty());
  double least = INFINITY;
  for (const study::HistoryTrial& trial : study.history().trials()) least = std::min(least, trial.values[1]);
  EXPECT_LT(least, 1e-3);
}

TEST(SeveralMetrics, AMetricThatNeverChangesAndHugeValuesAreTaken) {
  MetricsStudy study(MetricsSpec(Square(), {Objective("a"), Objective("b", Goal::kMaximize), AtMost("constant", 1.0)},
                                 1, AutoOptions{}),
                     [](const study::Parameters& p) {
                       return std::vector<double>{Number(p, "x0") < 0.5 ? 1e300 : -1e300, Number(p, "x1"), 2.0};
                     });
  study.Run(16);
}

TEST(SeveralMetrics, TwoObjectivesReachTheKnownHypervolume) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const study::StudySpec spec =
        MetricsSpec(Square(), {Objective("branin", Goal::kMinimize, 18.0), Objective("currin", Goal::kMinimize, 6.0)},
                    seed, AutoOptions{});
    MetricsStudy study(spec, BraninCurrin);
    study.Run(30);
    EXPECT_GT(Worth(spec, study.Feasible(), kBraninCurrinReference), 56.0) << "of 59.36 at most; random search has 25";
  }
}

TEST(SeveralMetrics, WithoutAReferenceTheFrontIsFoundToo) {
  const study::StudySpec spec = MetricsSpec(Square(), {Objective("branin"), Objective("currin")}, 1, AutoOptions{});
  MetricsStudy study(spec, BraninCurrin);
  study.Run(40);
  EXPECT_GT(Worth(spec, study.Feasible(), kBraninCurrinReference), 55.0);
}

TEST(SeveralMetrics, FiveObjectivesAreSearchedByDrawnFunctions) {
  const study::SearchSpace space = Space({Float("x0", 0, 1), Float("x1", 0, 1), Float("x2", 0, 1), Float("x3", 0, 1)});
  std::vector<study::MetricSpec> metrics;
  for (int j = 0; j < 5; ++j) metrics.push_back(Objective("f" + std::to_string(j)));
  const auto f = [](const study::Parameters& p) { return Distances(p, 5); };
  const VectorXd reference = VectorXd::Constant(5, -2.0);
  double model = 0.0, random = 0.0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    MetricsStudy study(MetricsSpec(space, metrics, seed, AutoOptions{}), f);
    study.Run(30);
    model += Worth(study.spec(), study.Feasible(), reference);
    MetricsStudy other(MetricsSpec(space, metrics, seed, study::RandomOptions{}), f);
    other.Run(30);
    random += Worth(other.spec(), other.Feasible(), reference);
  }
  EXPECT_GT(model, random);
}

TEST(SeveralMetrics, ObjectivesMayHaveBoundsAndOtherMetricsToo) {
  std::vector<study::MetricSpec> metrics = {Objective("branin"), Objective("currin"), AtLeast("x", 0.3)};
  metrics[0].at_most = 40.0;
  const study::StudySpec spec = MetricsSpec(Square(), metrics, 2, AutoOptions{});
  MetricsStudy study(spec, [](const study::Parameters& p) {
    std::vector<double> values = BraninCurrin(p);
    values.push_back(Number(p, "x0"));
    return values;
  });
  study.Run(30);
  EXPECT_GE(study.Feasible().size(), 12u);
}

TEST(SeveralMetrics, PendingTrialsSpreadABatch) {
  MetricsStudy study(MetricsSpec(Square(), {Objective("branin"), Objective("currin")}, 5, AutoOptions{}), BraninCurrin);
  study.Run(12);
  std::vector<VectorXd> batch;
  const study::Encoding encoding(study.spec().space);
  for (int i = 0; i < 6; ++i) {
    batch.push_back(encoding.ToModel(study.Ask()->parameters));
    for (int k = 0; k < i; ++k) {
      EXPECT_GT((batch.back() - batch[static_cast<size_t>(k)]).norm(), 1e-3) << i << " and " << k;
    }
  }
}

TEST(SeveralMetrics, ADesignerMadeAnewGivesTheSameAnswers) {
  for (const AlgorithmSpec& algorithm : std::vector<AlgorithmSpec>{
           AutoOptions{}, BoOptions{.noisy = true}, BoDefaults(BoPreset::kHbo), TpeOptions{.startup_trials = 4}}) {
    std::vector<study::MetricSpec> metrics = {Objective("branin"), Objective("currin"), AtLeast("x", 0.2)};
    base::RandomStream random(7, "test/restart");
    MetricsStudy study(MetricsSpec(Square(), metrics, 4, algorithm), [](const study::Parameters& p) {
      std::vector<double> values = BraninCurrin(p);
      values.push_back(Number(p, "x0"));
      return values;
    });
    std::vector<int64_t> open;
    for (int i = 0; i < 16; ++i) {
      const Suggestion anew = *study.AskAnew(), old = *study.Ask();
      ASSERT_EQ(anew.parameters, old.parameters) << study::AlgorithmName(algorithm) << ", ask " << i;
      ASSERT_EQ(anew.designer_state, old.designer_state) << study::AlgorithmName(algorithm) << ", ask " << i;
      open.push_back(study.newest());
      while (open.size() > 2) {
        const auto which = static_cast<std::ptrdiff_t>(random.UniformInt(open.size()));
        const int64_t number = open[static_cast<size_t>(which)];
        open.erase(open.begin() + which);
        random.UniformInt(6) == 0 ? study.Fail(number, study::FailureKind::kConfig) : study.Complete(number);
      }
    }
  }
}

TEST(SeveralMetrics, AFiniteSpaceIsExhaustedWithoutRepetitions) {
  const study::SearchSpace space = Space({Categorical("a", {"u", "v", "w"}), Int("b", 1, 4)});
  MetricsStudy study(
      MetricsSpec(space, {Objective("p"), Objective("q", Goal::kMaximize), AtMost("r", 2.0)}, 1, AutoOptions{}),
      [](const study::Parameters& p) {
        const double b = Number(p, "b");
        const double a = std::get<std::string>(p.at("a")) == "v" ? 1.0 : 0.0;
        return std::vector<double>{a + b, b * b - a, b + 2 * a};
      });
  std::set<std::string> tried;
  for (int i = 0; i < 12; ++i) {
    const absl::StatusOr<Suggestion> s = study.Ask();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_TRUE(tried.insert(study::FormatParameters(s->parameters)).second);
    study.Complete(study.newest());
  }
  EXPECT_FALSE(study.Ask().ok());
}

TEST(SeveralMetrics, OfThousandsOfResultsTheFrontIsKept) {
  Observations data;
  const Index n = 2000;
  data.scores = VectorXd::LinSpaced(n, 0.0, 1.0);
  data.observed = MatrixXd::Zero(n, 1);
  VectorXd worth = VectorXd::Constant(n, -1.0);
  worth(7) = worth(11) = 0.0;
  for (Index i = 0; i < n; ++i) {
    data.number.push_back(i + 1);
    data.complete.push_back(true);
  }
  const Observations thin = Thin(data, kThinParts, 1, 1, &worth, VectorXd::Ones(1));
  EXPECT_THAT(thin.number, ::testing::IsSupersetOf({8, 12}));
  EXPECT_EQ(thin.scores.size(), 1500);
}

TEST(SeveralMetrics, OptionsThatAreOfOneObjectiveAreRefusedByName) {
  const auto error = [](BoOptions options) {
    study::StudySpec spec;
    spec.space = Square();
    study::SetMetrics({Objective("a"), Objective("b")}, &spec);
    spec.algorithm = options;
    return std::string(Validate(spec).message());
  };
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error(BoDefaults(BoPreset::kHbo)), "");
  EXPECT_THAT(error({.acquisition = study::BoAcquisition::kUcb}), ::testing::HasSubstr("algorithm.bo.acquisition"));
  EXPECT_EQ(error({.gradients = study::BoGradients::kFull}), "");
  EXPECT_EQ(error(BoDefaults(BoPreset::kFobo)), "");
  EXPECT_THAT(error({.gradients = study::BoGradients::kDirectional}), ::testing::HasSubstr("algorithm.bo.gradients"));
  EXPECT_THAT(error({.hyperparameters = study::BoHyperparameters::kMcmc}), ::testing::HasSubstr("hyperparameters"));
  EXPECT_THAT(error(BoDefaults(BoPreset::kLbo)), ::testing::HasSubstr("several objectives"));
}

// Two bowls in six dimensions, whose front is the way between their centres, and their gradients.
struct Bowls {
  static constexpr int kDimensions = 6;
  static std::vector<double> Values(const study::Parameters& p) {
    std::vector<double> values = {0.0, 0.0};
    for (int j = 0; j < kDimensions; ++j) {
      const double x = Number(p, "x" + std::to_string(j));
      values[0] += (x - 0.2) * (x - 0.2);
      values[1] += (x - 0.7) * (x - 0.7) * (1.0 + j);
    }
    return values;
  }
  static std::vector<std::optional<study::Gradient>> Gradients(const study::Parameters& p) {
    study::Gradient first, second;
    for (int j = 0; j < kDimensions; ++j) {
      const double x = Number(p, "x" + std::to_string(j));
      first.values.push_back(2.0 * (x - 0.2));
      second.values.push_back(2.0 * (x - 0.7) * (1.0 + j));
    }
    return {first, second};
  }
};

TEST(SeveralMetrics, GradientsOfEachObjectiveFindTheFrontSooner) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < Bowls::kDimensions; ++j) parameters.push_back(study::Float("x" + std::to_string(j), 0, 1));
  const VectorXd reference = (VectorXd(2) << -1.0, -4.0).finished();
  double with = 0.0, without = 0.0, first_alone = 0.0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    for (const int reported : {0, 1, 2}) {
      MetricsStudy study(
          MetricsSpec(study::Space(parameters), {Objective("f"), Objective("g")}, seed, BoDefaults(BoPreset::kFobo)),
          Bowls::Values);
      for (int i = 0; i < 14; ++i) {
        ASSERT_TRUE(study.Ask().ok());
        const study::Parameters& setting = study.history().trials().back().parameters;
        std::vector<std::optional<study::Gradient>> gradients = Bowls::Gradients(setting);
        if (reported < 2) gradients[1].reset();
        if (reported < 1) gradients.clear();
        study.Complete(study.newest(), Bowls::Values(setting), gradients);
        if (i == 12) {
          ASSERT_EQ(study.AskAnew()->parameters, study.AskAnew()->parameters);
        }
      }
      const double worth = Worth(study.spec(), study.Feasible(), reference);
      (reported == 2 ? with : reported == 1 ? first_alone : without) += worth;
    }
  }
  EXPECT_GT(with, without + 0.1);
  EXPECT_GT(with, first_alone);
}

// The bound's gradient has the wrong sign, the objective's is right: one worker reports both.
TEST(SeveralMetrics, WrongGradientsOfABoundAreSetAside) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < Bowls::kDimensions; ++j) parameters.push_back(study::Float("x" + std::to_string(j), 0, 1));
  for (const double sign : {1.0, -1.0}) {
    MetricsStudy study(
        MetricsSpec(study::Space(parameters), {Objective("f"), AtMost("g", 1.0)}, 5, BoDefaults(BoPreset::kFobo)),
        Bowls::Values);
    size_t aside = 0;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(study.Ask().ok());
      const study::Parameters& setting = study.history().trials().back().parameters;
      std::vector<std::optional<study::Gradient>> gradients = Bowls::Gradients(setting);
      for (double& slope : gradients[1]->values) slope *= sign;
      study.Complete(study.newest(), Bowls::Values(setting), gradients);
      aside = study.AskAnew()->set_aside.size();
    }
    EXPECT_EQ(aside, sign > 0.0 ? 0u : 20u);
  }
}

// Metrics are independent of one another, so that the probabilities of their bounds multiply.
TEST(SeveralMetrics, SuggestionsTellWhatIsExpectedOfEachMetric) {
  for (const bool several : {false, true}) {
    std::vector<study::MetricSpec> metrics = {Objective("f0"), AtMost("g0", 0.9), AtLeast("g1", 0.25),
                                              AtMost("far", 1e6)};
    if (several) metrics.push_back(Objective("f1"));
    study::BoOptions bo;
    bo.noisy = false;
    MetricsStudy study(MetricsSpec(Square(), metrics, 3, bo), [&](const study::Parameters& p) {
      const double x = Number(p, "x0"), y = Number(p, "x1");
      std::vector<double> values = {x * x + y, x + y, std::abs(std::sin(5.0 * x)), x};
      if (several) values.push_back(1.0 - y);
      return values;
    });
    study.Run(12);
    const Suggestion next = study.AskAnew().value();
    ASSERT_EQ(next.origin, "acq");
    EXPECT_NEAR(next.details.at("p_within_bounds"), next.details.at("kept.g0") * next.details.at("kept.g1"), 1e-9);
    EXPECT_EQ(next.details.count("kept.far"), 0u) << "all results keep it by far";
    for (const char* of_bound : {"g0", "g1"}) {
      EXPECT_GT(next.details.at(std::string("sd.") + of_bound), 0.0);
      EXPECT_TRUE(next.details.contains(std::string("mean.") + of_bound));
    }
    EXPECT_EQ(next.details.contains("predicted_mean"), !several);
    EXPECT_EQ(next.details.contains("mean.f1"), several);
  }
}

TEST(SeveralMetrics, ABendHasTheSlopeOfItsDifferences) {
  const study::MetricSpec metric = AtMost("g", 0.5);
  const Bend bend = Bend::Around(metric, (VectorXd(5) << -3.0, -1.0, -0.4, -0.6, 2.0).finished());
  for (const double score : {-7.0, -0.51, -0.49, 0.3, 40.0}) {
    const double h = 1e-6 * std::max(1.0, std::abs(score));
    EXPECT_NEAR(bend.Slope(score), (bend.Forward(score + h) - bend.Forward(score - h)) / (2.0 * h), 1e-6) << score;
  }
  EXPECT_EQ(Bend().Slope(3.0), 1.0);
}

// With `explore_every` every e-th trial is random search's own next point, whatever the metrics are. So the results of
// N trials are worth at least those of random search's first floor(N/e), exactly. Trials that are lost are made up for.
struct PromiseCase {
  BoPreset preset;
  int objectives, bounds, workers;
};

class Promise : public ::testing::TestWithParam<PromiseCase> {};

TEST_P(Promise, ResultsAreWorthAtLeastThoseOfRandomSearch) {
  const auto& [preset, objectives, bounds, workers] = GetParam();
  constexpr int kEvery = 3;
  const int trials = objectives > 1 ? 17 : 26;
  BoOptions options = BoDefaults(preset);
  options.explore_every = kEvery;
  options.kernel = study::BoKernel::kMatern52;
  options.warp = study::BoWarp::kNone;
  std::vector<study::MetricSpec> metrics;
  for (int j = 0; j < objectives; ++j) metrics.push_back(Objective("f" + std::to_string(j)));
  if (bounds > 0) metrics.push_back(AtMost("g0", 0.9));
  if (bounds > 1) metrics.push_back(AtLeast("g1", 0.25));
  const auto f = [&](const study::Parameters& p) {
    std::vector<double> values = Distances(p, objectives);
    const double x = Number(p, "x0"), y = Number(p, "x1");
    if (bounds > 0) values.push_back(x + y);
    if (bounds > 1) values.push_back(std::abs(std::sin(5.0 * x)));
    return values;
  };
  MetricsStudy study(MetricsSpec(Square(), metrics, 11, options), f);
  base::RandomStream random(static_cast<uint64_t>(workers), "test/promise");
  std::vector<int64_t> open, lost;
  int results = 0, explorations = 0;
  std::vector<bool> explores = {false};  // By number of trial.
  const auto owed = [&] { return results / kEvery - explorations; };
  while (results < trials || owed() > 0 || !open.empty()) {
    if (static_cast<int>(open.size()) < workers && (results < trials || owed() > 0)) {
      const absl::StatusOr<Suggestion> s = study.Ask();
      ASSERT_TRUE(s.ok()) << s.status();
      explores.push_back(s->origin == "explore");
      open.push_back(study.newest());
      continue;
    }
    const auto which = static_cast<std::ptrdiff_t>(random.UniformInt(open.size()));
    const int64_t number = open[static_cast<size_t>(which)];
    open.erase(open.begin() + which);
    if (results < trials && random.Uniform() < 0.3) {
      study.Fail(number, study::FailureKind::kInfra);
      continue;
    }
    study.Complete(number);
    ++results;
    explorations += explores[static_cast<size_t>(number)] ? 1 : 0;
  }
  // Random search's points, but for those that were lost to it.
  std::vector<std::vector<double>> of_random;
  const study::Encoding encoding(study.spec().space);
  std::set<std::string> failed;
  for (const study::HistoryTrial& trial : study.history().trials()) {
    if (trial.state == study::TrialState::kFailed) failed.insert(study::FormatParameters(trial.parameters));
  }
  int points = 0;
  for (uint64_t i = 0; points < results / kEvery; ++i) {
    const study::Parameters point = ExplorationPoint(encoding, study.spec().seed, i);
    if (failed.contains(study::FormatParameters(point))) continue;
    ++points;
    const std::vector<double> values = f(point);
    if (study::IsFeasible(study::MetricsOf(study.spec()), values)) of_random.push_back(values);
  }
  std::vector<std::vector<double>> all;
  for (const study::HistoryTrial& trial : study.history().trials()) {
    if (trial.state != study::TrialState::kComplete) continue;
    const std::vector<double> values = f(trial.parameters);
    if (study::IsFeasible(study::MetricsOf(study.spec()), values)) all.push_back(values);
  }
  study::StudySpec judged = study.spec();
  judged.metrics = metrics;
  const VectorXd reference = VectorXd::Constant(objectives, -1.5);
  EXPECT_GE(Worth(judged, all, reference), Worth(judged, of_random, reference));
  EXPECT_GE(points, trials / kEvery);
}

std::vector<PromiseCase> PromiseCases() {
  std::vector<PromiseCase> cases;
  for (const BoPreset preset : {BoPreset::kBo, BoPreset::kHbo, BoPreset::kLbo, BoPreset::kFobo}) {
    for (const int objectives : {1, 3}) {
      if (objectives > 1 && preset != BoPreset::kBo && preset != BoPreset::kHbo) continue;
      for (const int bounds : {0, 2}) {
        for (const int workers : {1, 8}) cases.push_back({preset, objectives, bounds, workers});
      }
    }
  }
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<PromiseCase>& info) {
  const auto& [preset, objectives, bounds, workers] = info.param;
  return study::AlgorithmName(BoDefaults(preset)) + "_" + std::to_string(objectives) + "_objectives_" +
         std::to_string(bounds) + "_bounds_" + std::to_string(workers) + "_workers";
}

INSTANTIATE_TEST_SUITE_P(All, Promise, ::testing::ValuesIn(PromiseCases()), NameOf);

TEST(Bend, IsIncreasingAndInverted) {
  const study::MetricSpec metric = AtMost("g", 2.0);
  const VectorXd scores = (VectorXd(5) << -1e6, -3, -2.5, -1, 0).finished();
  const Bend bend = Bend::Around(metric, scores);
  double previous = -INFINITY;
  for (const double score : {-1e300, -1e6, -3.0, -2.0, -1.9, 0.0, 5.0, 1e300}) {
    EXPECT_GT(bend.Forward(score), previous);
    previous = bend.Forward(score);
    EXPECT_NEAR(bend.Inverse(bend.Forward(score)), score, 1e-9 * std::max(1.0, std::abs(score)));
  }
  EXPECT_EQ(bend.Forward(-2.0), 0.0) << "the bound";
}

TEST(OutcomeBound, ProbabilitiesAreAccurateFarOutAndTheirDerivativesAgreeWithDifferences) {
  // ln Phi(-40) by mpmath: -804.608442013754...
  EXPECT_NEAR(LogProbabilityWithin({.lower = 40.0}, 0.0, 1.0).value, -804.60844201375456, 1e-9);
  for (const auto& [lower, upper] : std::vector<std::pair<double, double>>{
           {-INFINITY, 0.3}, {-0.5, INFINITY}, {-0.5, 0.3}, {30.0, 31.0}, {-INFINITY, -35.0}}) {
    const OutcomeBound bound{.lower = lower, .upper = upper};
    const VectorXd at = (VectorXd(2) << 0.1, 0.7).finished();
    const LogWithin within = LogProbabilityWithin(bound, at(0), at(1));
    const VectorXd numeric =
        math::CentralDifference([&](const VectorXd& v) { return LogProbabilityWithin(bound, v(0), v(1)).value; }, at);
    EXPECT_NEAR(within.by_mean, numeric(0), 1e-6 * (1.0 + std::abs(numeric(0))));
    EXPECT_NEAR(within.by_deviation, numeric(1), 1e-6 * (1.0 + std::abs(numeric(1))));
  }
}

TEST(ScalarizedDraw, DirectionsAreOfLengthOneAndPositive) {
  for (uint64_t i = 0; i < 20; ++i) {
    const VectorXd direction = PositiveDirection(6, base::RandomStream(1, "test/direction", i));
    EXPECT_NEAR(direction.norm(), 1.0, 1e-12);
    EXPECT_GT(direction.minCoeff(), 0.0);
  }
}

}  // namespace
}  // namespace luthier::search
