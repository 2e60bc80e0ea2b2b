#include "lib/search/bo/bo_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/legacy_state.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/restart_oracle.h"

namespace luthier::search {
namespace {

using study::BoOptions;
using study::FailureKind;

study::StudySpec BraninSpec(uint64_t seed = 1, BoOptions options = {}) {
  return BoSpec(Space({Float("x0", -5, 10), Float("x1", 0, 15)}), seed, options);
}

double BraninOf(const study::Parameters& p) {
  return Branin(Point(p));
}

// Without local steps: every proposal is the model's.
BoOptions ModelOnly() {
  BoOptions options;
  options.trust_region = study::BoTrustRegion::kOff;
  return options;
}

TEST(Bo, BeatsSobolTenfoldOnFiveOfSixFunctions) {
  int wins = 0;
  for (const TestFunction& function : SixFunctions()) {
    std::vector<double> bo, sobol;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      bo.push_back(Regret(function, seed, BoOptions{}, 40));
      sobol.push_back(Regret(function, seed, study::SobolOptions{}, 40));
    }
    std::sort(bo.begin(), bo.end());
    std::sort(sobol.begin(), sobol.end());
    if (10.0 * bo[1] <= sobol[1]) ++wins;
    RecordProperty(function.name, std::to_string(bo[1]));
  }
  EXPECT_GE(wins, 5);
}

// Exactly: the prediction stored with a proposal is that of the model before it.
TEST(Bo, PredictsWhatItsProposalsSay) {
  MemoryStudy study(BraninSpec(3, ModelOnly()));
  const std::unique_ptr<Designer> fresh = CreateDesigner(BraninSpec(3, ModelOnly()));
  int compared = 0;
  for (int i = 0; i < 12; ++i) {
    const study::History before = study.history();
    const Suggestion s = study.Ask();
    study::Parameters corner = s.parameters;
    corner["x0"] = -5.0;
    const absl::StatusOr<std::vector<Prediction>> predicted =
        fresh->Predict(before, {corner, s.parameters}, base::StopToken());
    if (i < 2) {
      EXPECT_EQ(base::GetReason(predicted.status()), base::reason::kTooFewResults);
    } else if (s.origin == "acq") {
      ASSERT_TRUE(predicted.ok()) << predicted.status();
      EXPECT_EQ(predicted->at(1).mean, s.details.at("predicted_mean"));
      EXPECT_EQ(predicted->at(1).sd, s.details.at("predicted_sd"));
      EXPECT_NE(predicted->at(0).mean, predicted->at(1).mean);
      EXPECT_FALSE(predicted->at(0).p_success.has_value());
      ++compared;
    }
    study.Complete(study.newest(), BraninOf(s.parameters));
  }
  EXPECT_GE(compared, 6);
  const study::StudySpec random = [] {
    study::StudySpec spec = BraninSpec();
    spec.algorithm = study::RandomOptions();
    return spec;
  }();
  const auto none = CreateDesigner(random)->Predict(study.history(), {study.history().trials()[0].parameters}, {});
  EXPECT_EQ(base::GetReason(none.status()), base::reason::kNoModel);
}

TEST(Bo, InitialDesignIsTheDefaultAndThenSobolPoints) {
  study::ParameterSpec x = Float("x", 0, 1);
  x.default_value = 0.125;
  const study::StudySpec spec =
      BoSpec(Space({x, Float("y", 0, 1), Float("z", 0, 1), Float("w", 0, 1)}), 1, ModelOnly());
  MemoryStudy study(spec);
  for (int i = 0; i < 5; ++i) {  // d + 1.
    const Suggestion s = study.Ask();
    EXPECT_EQ(s.origin, "init");
    if (i == 0) {
      EXPECT_EQ(Number(s.parameters, "x"), 0.125);
    }
    if (i == 0) {
      EXPECT_EQ(Number(s.parameters, "y"), 0.5);
    }
    study.Complete(study.newest(), static_cast<double>(i * i));
  }
  EXPECT_EQ(study.Ask().origin, "acq");
  MemoryStudy other(BoSpec(spec.space, 2));
  other.Ask();
  EXPECT_NE(other.Ask().parameters, study.history().trials()[1].parameters);
  BoOptions options = ModelOnly();
  options.initial_points = 9;
  MemoryStudy longer(BoSpec(spec.space, 1, options));
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(longer.Ask().origin, "init");
    longer.Complete(longer.newest(), i);
  }
  EXPECT_EQ(longer.Ask().origin, "acq");
}

TEST(Bo, SuggestionsArePureFunctionsOfTheHistory) {
  for (const study::SearchSpace& space :
       {Space({Float("x0", -5, 10), Float("x1", 0, 15)}),
        Space({Float("x", 1e-4, 1, study::Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b", "c"})}),
        Space({Int("i", 0, 30), Int("j", 0, 30)})}) {
    ExpectRestartsChangeNothing(BoSpec(space, 5), {.asks = 30, .workers = 6, .ending = NoiseAndFailures});
  }
}

TEST(Bo, OrderOfResultsHardlyMatters) {
  MemoryStudy forward(BraninSpec(1, ModelOnly())), backward(BraninSpec(1, ModelOnly()));
  for (MemoryStudy* study : {&forward, &backward}) {
    for (int i = 0; i < 10; ++i) {
      base::RandomStream stream(static_cast<uint64_t>(i), "enqueued");
      study->Enqueue({{"x0", -5 + 15 * stream.Uniform()}, {"x1", 15 * stream.Uniform()}});
    }
    study->Ask();
    study->Cancel(11);
    for (int i = 0; i < 10; ++i) {
      const int64_t number = study == &forward ? i + 1 : 10 - i;
      study->Complete(number, BraninOf(study->history().trials()[static_cast<size_t>(number - 1)].parameters));
    }
    for (int i = 0; i < 3; ++i) {
      study->Ask();
      study->Cancel(study->newest());
    }
  }
  const Suggestion a = forward.Ask(), b = backward.Ask();
  EXPECT_EQ(a.origin, "acq");
  EXPECT_NEAR(Number(a.parameters, "x0"), Number(b.parameters, "x0"), 15e-6);
  EXPECT_NEAR(Number(a.parameters, "x1"), Number(b.parameters, "x1"), 15e-6);
}

TEST(Bo, DoesNotSeeUnitOrOriginOfTheMetricAndMirrorsMaximisation) {
  MemoryStudy plain(BraninSpec()), scaled(BraninSpec());
  study::StudySpec maximise = BraninSpec();
  maximise.metric.goal = study::Goal::kMaximize;
  MemoryStudy mirrored(maximise);
  for (int i = 0; i < 20; ++i) {
    const Suggestion a = plain.Ask(), b = scaled.Ask(), c = mirrored.Ask();
    EXPECT_EQ(a.parameters, b.parameters) << i;
    EXPECT_EQ(a.parameters, c.parameters) << i;
    if (a.details.count("predicted_mean")) {
      EXPECT_EQ(a.details.at("predicted_mean"), -c.details.at("predicted_mean"));
    }
    plain.Complete(plain.newest(), BraninOf(a.parameters));
    scaled.Complete(scaled.newest(), 4096.0 * BraninOf(a.parameters));
    mirrored.Complete(mirrored.newest(), -BraninOf(a.parameters));
  }
  MemoryStudy moved(BraninSpec());
  for (const study::HistoryTrial& trial : plain.history().trials()) {
    moved.Ask();
    moved.Complete(moved.newest(), 3.0 * *trial.value + 100.0);
    if (moved.newest() == 5) break;
  }
  EXPECT_NEAR(Number(moved.Ask().parameters, "x0"), Number(plain.history().trials()[5].parameters, "x0"), 15e-6);
}

TEST(Bo, PendingTrialsRepelNewOnes) {
  for (bool climbs : {false, true}) {
    int far = 0, pairs = 0;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      MemoryStudy study(BraninSpec(seed, climbs ? BoOptions() : ModelOnly()));
      study.Run(8, BraninOf);
      const study::Encoding encoding(study.spec().space);
      std::vector<Eigen::VectorXd> asked;
      for (int i = 0; i < 16; ++i) {
        const Suggestion s = study.Ask();
        if (!climbs) {
          EXPECT_EQ(s.origin, "acq");
        }
        for (const Eigen::VectorXd& u : asked) {
          ++pairs;
          far += (u - encoding.ToModel(s.parameters)).norm() > 1e-6;
        }
        asked.push_back(encoding.ToModel(s.parameters));
        if (i > 0 && s.origin == "acq") {
          EXPECT_EQ(s.details.at("pending"), i);
        }
      }
    }
    EXPECT_EQ(far, pairs);
  }
}

TEST(Bo, KeepsToTheDesignWhileThereIsNothingToLearnFrom) {
  MemoryStudy study(BraninSpec());
  std::set<study::Parameters> seen;
  for (int i = 0; i < 40; ++i) {  // Nothing finishes.
    const Suggestion s = study.Ask();
    EXPECT_EQ(s.origin, "init");
    EXPECT_TRUE(seen.insert(s.parameters).second);
  }
  for (int64_t number = 1; number <= 30; ++number) study.Fail(number, FailureKind::kConfig);  // All failed.
  EXPECT_EQ(study.Ask().origin, "init");
  study.Complete(31, 1.0);  // One result and thirty failures: nothing to compare it with.
  EXPECT_EQ(study.Ask().origin, "init");
  study.Complete(32, 2.0);
  EXPECT_EQ(study.Ask().origin, "acq");
}

TEST(Bo, FailedSettingsCountAsTheWorst) {
  // Left half fails, the right half slopes towards it: proposals must not pile up in the failures.
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1)})));
  int failures = 0;
  for (int i = 0; i < 25; ++i) {
    const double x = Number(study.Ask().parameters, "x");
    if (x < 0.5) {
      study.Fail(study.newest(), FailureKind::kConfig);
      ++failures;
    } else {
      study.Complete(study.newest(), x);
    }
  }
  EXPECT_LE(failures, 14);
  double best = 1.0;
  for (const study::HistoryTrial& trial : study.history().trials()) best = std::min(best, trial.value.value_or(1.0));
  EXPECT_LT(best, 0.52);
}

TEST(Bo, TrialsThatSayNothingAreLeftOutOfTheModel) {
  MemoryStudy study(BraninSpec());
  study.Run(6, BraninOf);
  study.Ask();
  study.Fail(study.newest(), FailureKind::kInfra);
  study.Ask();
  study.Cancel(study.newest());
  study.Ask();
  study.Prune(study.newest(), std::nullopt);
  const Suggestion s = study.Ask();
  EXPECT_EQ(s.details.at("observations"), 6);
  study.Cancel(study.newest());
  study.Ask();
  study.Prune(study.newest(), -1e9);  // An unfinished value is not the incumbent.
  const Suggestion after = study.Ask();
  EXPECT_EQ(after.details.at("observations"), 7);
  EXPECT_GT(after.details.at("predicted_mean"), -1e3);
}

TEST(Bo, OddMetricsNeverStopIt) {
  const double values[][4] = {
      {7, 7, 7, 7}, {1e300, -1e300, 0, 1}, {1e-310, 2e-310, 0, 5e-324}, {1, 1, 1, 1e30}, {-1.7e308, 1.7e308, 3, 3}};
  for (const auto& row : values) {
    MemoryStudy study(BraninSpec());
    for (int i = 0; i < 14; ++i) {
      study.Ask();
      study.Complete(study.newest(), row[i % 4]);
    }
    EXPECT_NE(study.Ask().origin, "gp_failed");
  }
}

TEST(Bo, DuplicatedSettingsWithDifferentValuesAreSurvived) {
  MemoryStudy study(BraninSpec(1, ModelOnly()));
  for (int i = 0; i < 20; ++i) {
    study.Enqueue({{"x0", 1.0}, {"x1", 2.0}});
    study.Complete(study.newest(), i % 3);
  }
  for (int i = 0; i < 6; ++i) {
    study.Ask();
    study.Complete(study.newest(), 1.0 + i);
  }
  EXPECT_EQ(study.Ask().origin, "acq");
}

TEST(Bo, EnqueuedTrialsAreDataAndCountAsInitialDesign) {
  for (const bool count : {true, false}) {
    for (const int brought : {2, 6}) {
      study::BoOptions options = ModelOnly();
      options.count_history = count;
      MemoryStudy study(BraninSpec(1, options));
      for (int i = 0; i < brought; ++i) {
        study.Enqueue({{"x0", i - 4.0}, {"x1", 14.0 - 2.0 * i}});
        study.Complete(study.newest(), BraninOf(study.history().trials().back().parameters));
      }
      const int design = count ? std::max(0, 4 - brought) : 4;
      for (int i = 0; i < design; ++i) EXPECT_EQ(study.Ask().origin, "init");
      EXPECT_EQ(study.Ask().details.at("observations"), brought);
    }
  }
}

TEST(Bo, FiniteSpacesAreVisitedOnceAndThenExhausted) {
  const study::SearchSpace space =
      Space({Int("n", 1, 4), Categorical("c", {"a", "b"}), When("c", {std::string("b")}, Int("m", 0, 1))});
  MemoryStudy study(BoSpec(space));
  std::set<study::Parameters> seen;
  for (int i = 0; i < 12; ++i) {  // 4 x (1 + 2).
    const Suggestion s = study.Ask();
    EXPECT_TRUE(seen.insert(s.parameters).second);
    if (i % 3 != 2) study.Complete(study.newest(), Number(s.parameters, "n"));  // Some stay open.
  }
  const absl::StatusOr<Suggestion> last = study.TryAsk();
  EXPECT_EQ(last.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(base::GetReason(last.status()), base::reason::kSpaceExhausted);
}

TEST(Bo, NoisyStudiesRepeatWhenEverythingWasTried) {
  BoOptions options;
  options.noisy = true;
  MemoryStudy study(BoSpec(Space({Int("n", 1, 5)}), 1, options));
  base::RandomStream noise(1, "noise");
  int best_setting = 0;
  for (int i = 0; i < 30; ++i) {
    const Suggestion s = study.Ask();
    const double n = Number(s.parameters, "n");
    if (i >= 5) {
      EXPECT_EQ(s.origin, "repeat");
      best_setting += n == 3;
    }
    study.Complete(study.newest(), std::pow(n - 3.0, 2) + 0.5 * noise.Normal());
  }
  EXPECT_GE(best_setting, 12);
}

TEST(Bo, TriedSettingsAreNeverProposedAgain) {
  // The minimum is a corner, tried early; every later proposal would go there.
  for (const int pending : {0, 4}) {
    MemoryStudy study(BoSpec(Space({Float("x", 0, 1), Float("y", 0, 1)})));
    std::set<study::Parameters> seen;
    for (int i = 0; i < 30; ++i) {
      const Suggestion s = study.Ask();
      EXPECT_TRUE(seen.insert(s.parameters).second) << i << " " << s.origin;
      if (study.newest() > pending) {
        const study::HistoryTrial& done = study.history().trials()[static_cast<size_t>(study.newest() - pending - 1)];
        study.Complete(done.number, Number(done.parameters, "x") + Number(done.parameters, "y"));
      }
    }
  }
}

TEST(Bo, SpacesWithoutFreedomGiveTheirOneSetting) {
  const study::SearchSpace space = Space({Float("x", 2, 2), Categorical("c", {"only"})});
  MemoryStudy study(BoSpec(space));
  EXPECT_EQ(Number(study.Ask().parameters, "x"), 2.0);
  EXPECT_EQ(study.TryAsk().status().code(), absl::StatusCode::kOutOfRange);
  BoOptions options;
  options.noisy = true;
  MemoryStudy noisy(BoSpec(space, 1, options));
  for (int i = 0; i < 8; ++i) {
    noisy.Ask();
    noisy.Complete(noisy.newest(), i % 2);
  }
}

TEST(Bo, SolvesMixedConditionalSpaces) {
  // Best: net with rate 10^-2.5 and 37 units (0); tree can reach 0.4 at depth 7.
  study::ParameterSpec rate = When("model", {std::string("net")}, Float("rate", 1e-6, 1, study::Scale::kLog));
  study::ParameterSpec units = When("model", {std::string("net")}, Int("units", 1, 100));
  study::ParameterSpec depth = When("model", {std::string("tree")}, Int("depth", 1, 20));
  MemoryStudy study(BoSpec(Space({Categorical("model", {"tree", "net"}), rate, units, depth, Float("shared", -1, 1)})));
  double best = INFINITY;
  study.Run(45, [&](const study::Parameters& p) {
    double loss = std::pow(Number(p, "shared") - 0.3, 2);
    if (std::get<std::string>(p.at("model")) == "net") {
      loss += 0.2 * std::pow(std::log10(Number(p, "rate")) + 2.5, 2) + 1e-3 * std::pow(Number(p, "units") - 37, 2);
    } else {
      loss += 0.4 + 0.02 * std::pow(Number(p, "depth") - 7, 2);
    }
    best = std::min(best, loss);
    return loss;
  });
  EXPECT_LT(best, 0.02);
}

// Four labels, each with its own best place; "c" is best, by a tenth, and the default is "a".
double LossOfLabels(const study::Parameters& p) {
  const int label = std::get<std::string>(p.at("label"))[0] - 'a';
  const double price[] = {0.1, 0.4, 0.0, 0.3}, x[] = {0.2, 0.8, 0.7, 0.4}, y[] = {0.7, 0.3, 0.6, 0.1};
  return price[label] + 4 * std::pow(Number(p, "x") - x[label], 2) + 4 * std::pow(Number(p, "y") - y[label], 2) +
         std::pow(Number(p, "z") - x[3 - label], 2);
}

study::SearchSpace LabelledSpace() {
  return Space({Categorical("label", {"a", "b", "c", "d"}), Float("x", 0, 1), Float("y", 0, 1), Float("z", 0, 1)});
}

TEST(Bo, LocalStepsOfOneLabelWaitForTheOthers) {
  int found = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    MemoryStudy study(BoSpec(LabelledSpace(), seed));
    double best = INFINITY;
    study.Run(60, [&](const study::Parameters& p) {
      best = std::min(best, LossOfLabels(p));
      return LossOfLabels(p);
    });
    if (best < 1e-5) ++found;
    RecordProperty(absl::StrCat("seed", seed), absl::StrCat(best));
  }
  EXPECT_GE(found, 4);
}

TEST(Bo, WeighedStepsAreMadeAndSurviveRestarts) {
  const std::vector<Suggestion> answers = ExpectRestartsChangeNothing(
      BoSpec(LabelledSpace(), 3),
      {.asks = 55, .workers = 1, .ending = [](base::RandomStream&, const study::Parameters& p) {
         return contract::Complete(LossOfLabels(p));
       }});
  const auto steps = std::count_if(answers.begin(), answers.end(),
                                   [](const Suggestion& answer) { return answer.origin == "trust_region"; });
  EXPECT_GE(steps, 5);
  EXPECT_LT(steps, 25);  // Else every second of the asks after the twentieth, and three in a row after improvements.
}

TEST(Bo, PlainExpectedImprovementWorksToo) {
  BoOptions options;
  options.acquisition = study::BoAcquisition::kEi;
  MemoryStudy study(BraninSpec(3, options));
  double best = INFINITY;
  study.Run(35, [&](const study::Parameters& p) {
    best = std::min(best, BraninOf(p));
    return BraninOf(p);
  });
  EXPECT_LT(best, 0.41);
}

TEST(Bo, NoiseDoesNotFoolIt) {
  for (const bool declared : {false, true}) {
    BoOptions options;
    options.noisy = declared;
    MemoryStudy study(BraninSpec(4, options));
    base::RandomStream noise(2, "noise");
    double best = INFINITY;
    study.Run(45, [&](const study::Parameters& p) {
      best = std::min(best, BraninOf(p));
      return BraninOf(p) + 1.0 * noise.Normal();
    });
    EXPECT_LT(best, 1.0) << declared;
  }
}

// Where results are said to be noisy, improvements count from the best mean at a setting with a result, raised by so
// many deviations of the noise.
void ExpectImprovementsFrom(double margin, int32_t rules) {
  BoOptions options;
  options.rules = rules;
  options.noisy = true;
  options.acquisition = study::BoAcquisition::kEi;
  options.kernel = study::BoKernel::kMatern52;
  options.warp = study::BoWarp::kNone;
  const study::StudySpec spec = BraninSpec(4, options);
  MemoryStudy study(spec);
  base::RandomStream random(2, "settings and noise");
  const study::Encoding encoding(spec.space);
  for (int i = 0; i < 40; ++i) {
    const study::Parameters p = encoding.Sample(random);
    study.Complete(study.Enqueue(p), BraninOf(p) + 20.0 * random.Normal());
  }
  study.Run(4, BraninOf);  // The initial design.
  const Observations data =
      Collect(study.history(), encoding, study::Goal::kMinimize, nullptr, true, base::StopToken()).value();
  const Suggestion s = study.Ask();
  ASSERT_EQ(s.origin, "acq");
  const std::vector<ModelChoice> choices = ModelsFor(encoding, options).choices;
  const SurrogateState state = *ParseBoState(s.designer_state, choices).surrogate;
  const gp::Regression model =
      *gp::Regression::Fit(choices[0].shape, state.theta, data.observed,
                           OutputTransform::Standard(data.scores).Forward(data.scores), {}, base::StopToken())
           .value();
  const double deviation = std::sqrt(state.theta.noise_variance);
  EXPECT_GT(deviation, 0.05);
  const double target = model.PredictMean(data.observed).maxCoeff() + margin * deviation;
  const gp::Posterior at = model.Predict(encoding.ToModel(s.parameters).transpose());
  const double sd = std::sqrt(at.variance(0)), z = (at.mean(0) - target) / sd;
  const double improvement =
      sd * (z * 0.5 * std::erfc(-z / std::sqrt(2.0)) + std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::acos(-1.0)));
  EXPECT_NEAR(s.details.at("acquisition"), improvement, 1e-6 * improvement);
}

TEST(Bo, ImprovementsCountFromTheBestMean) {
  ExpectImprovementsFrom(/*margin=*/0.0, /*rules=*/1);
}

TEST(Bo, UnderTheFirstRulesImprovementsThatNoiseHidesDoNotCount) {
  ExpectImprovementsFrom(/*margin=*/1.0, /*rules=*/0);
}

// Kernels and warps compete; what is reported owns up to those that did nearly as well.
TEST(Bo, PredictionsAreInUserUnitsAndHonest) {
  int total = 0, within_two = 0, within_four = 0;
  for (const TestFunction& function : SixFunctions()) {
    study::BoOptions options = ModelOnly();
    options.noisy = false;
    MemoryStudy study(FunctionSpec(function, 6, options));
    for (int i = 0; i < 25; ++i) {
      const Suggestion s = study.Ask();
      const double value = function.f(Point(s.parameters));
      if (s.origin == "acq" && i >= 6) {
        const double sd = s.details.at("predicted_sd");
        EXPECT_GT(sd, 0.0);
        const double off = std::abs(value - s.details.at("predicted_mean")) / sd;
        ++total;
        within_two += off < 2.0;
        within_four += off < 4.0;
      }
      study.Complete(study.newest(), value);
    }
  }
  EXPECT_GE(total, 100);
  EXPECT_GE(within_two, 0.8 * total) << within_two << " of " << total;
  EXPECT_GE(within_four, 0.92 * total) << within_four << " of " << total;
}

// The warps that a bowl's tiny values ask for would lead far beyond its large ones.
TEST(Bo, PredictionsStayNearTheResults) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const study::StudySpec spec = BoSpec(Space({Float("x0", 0, 1), Float("x1", 0, 1)}), seed);
    MemoryStudy study(spec);
    const auto bowl = [](double x, double y) { return (x - 0.7) * (x - 0.7) + (y - 0.2) * (y - 0.2); };
    double largest = 0.0;
    for (int i = 0; i < 15; ++i) {
      const std::vector<double> x = Point(study.Ask().parameters);
      study.Complete(study.newest(), bowl(x[0], x[1]));
      largest = std::max(largest, bowl(x[0], x[1]));
    }
    std::vector<study::Parameters> settings;
    for (double x = 0.0; x <= 1.0; x += 0.125) {
      for (double y = 0.0; y <= 1.0; y += 0.125) settings.push_back({{"x0", x}, {"x1", y}});
    }
    const auto predicted = CreateDesigner(spec)->Predict(study.history(), settings, base::StopToken());
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    for (const Prediction& p : *predicted) {
      EXPECT_GE(p.mean, -largest - 1e-9) << "seed " << seed;
      EXPECT_LE(p.mean, 2.0 * largest + 1e-9) << "seed " << seed;
      EXPECT_LE(p.sd, 4.0 * largest) << "seed " << seed;
    }
  }
}

TEST(Bo, ForeignStatesAreIgnored) {
  for (const char* const state : {"",
                                  "nonsense",
                                  "|",
                                  "||",
                                  "a|0,,|7 1 0 0x1p+0",
                                  "a0|0,,|7 1 0 0x1p+0 nan 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
                                  "a0|0,,|99999999999999999999 1 0 0x1p+0 0x1p+0 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
                                  "a0|0,,|-5 1 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
                                  "a0|0,,|5 1 99 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
                                  "a0|0,,|5 1 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0;1 nonsense",
                                  "x18446744073709551616|0,,|",
                                  "t0|-3,nan, 1 2 3|",
                                  "t0|7,7 7 7, 1e308 nan 3 0 0 1 1 1 1 1 1|",
                                  "a0 |0,,|",
                                  "a0 x|0,,|",
                                  "a0 -3|0,,|",
                                  "a0 7 x|0,,|",
                                  "a0 7 5 2|0,,|",
                                  "a0 7 99999999999|0,,|",
                                  "a0|0,,|4 1 0 0x1p+1000 0x1p-1000 0x1p+900 0x1p+0 0x1p-1000 0x1p+1000"}) {
    study::History history;
    for (int i = 0; i < 8; ++i) {
      base::RandomStream stream(static_cast<uint64_t>(i), "points");
      study::HistoryTrial trial;
      trial.number = i + 1;
      trial.ask_index = static_cast<uint64_t>(i);
      trial.parameters = {{"x0", -5 + 15 * stream.Uniform()}, {"x1", 15 * stream.Uniform()}};
      trial.designer_state = CurrentState(state);
      history.AddStored(trial);
      history.Finish(i + 1, study::TrialState::kComplete, BraninOf(trial.parameters), std::nullopt, std::nullopt);
    }
    const absl::StatusOr<Suggestion> s =
        CreateDesigner(BraninSpec(1, ModelOnly()))->Suggest(history, 8, base::StopToken());
    ASSERT_TRUE(s.ok()) << state;
    EXPECT_EQ(s->origin, "acq") << state;
  }
}

// n results at random. All trials carry a fit of the size to which histories are thinned, so that the next ask only
// conditions on the data.
study::History LongHistory(int n) {
  study::History history;
  base::RandomStream stream(1, "long");
  for (int i = 0; i < n; ++i) {
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = {{"x0", -5 + 15 * stream.Uniform()}, {"x1", 15 * stream.Uniform()}};
    trial.designer_state = CurrentState("a0|0,,|1500 9 0 0x1p+0 0x1p-14 0x0p+0 0x1p+0 0x1p-2 0x1p-2");
    history.AddStored(trial);
    history.Finish(i + 1, study::TrialState::kComplete, BraninOf(trial.parameters), std::nullopt, std::nullopt);
  }
  return history;
}

TEST(Bo, LongHistoriesAreThinned) {
  for (const auto& [rules, rows] : std::vector<std::pair<int32_t, int>>{{0, 1500}, {1, 1500}, {2, 500}}) {
    BoOptions options = ModelOnly();
    options.rules = rules;
    const absl::StatusOr<Suggestion> s =
        CreateDesigner(BraninSpec(1, options))->Suggest(LongHistory(1700), 1700, base::StopToken());
    ASSERT_TRUE(s.ok());
    EXPECT_EQ(s->details.at("observations"), rows);
  }
}

TEST(Bo, ClimbsAndExplorationsSeeLongHistoriesThinned) {
  // Of all results either would take half a minute.
  const study::History history = LongHistory(20'000);
  const absl::StatusOr<Suggestion> climb = CreateDesigner(BraninSpec())->Suggest(history, 20'000, base::StopToken());
  ASSERT_TRUE(climb.ok());
  EXPECT_EQ(climb->origin, "trust_region");
  EXPECT_GT(climb->details.at("site"), 0);
  BoOptions lipo = study::BoDefaults(study::BoPreset::kLbo);
  const absl::StatusOr<Suggestion> exploration =
      CreateDesigner(BraninSpec(1, lipo))->Suggest(history, 20'000, base::StopToken());
  ASSERT_TRUE(exploration.ok());
  EXPECT_EQ(exploration->origin, "explore");
}

TEST(Bo, SettingsOutOfRangeAreRefused) {
  BoOptions options;
  options.initial_points = -1;
  EXPECT_EQ(Validate(BraninSpec(1, options)).code(), absl::StatusCode::kInvalidArgument);
  options.initial_points = 10'001;
  EXPECT_EQ(Validate(BraninSpec(1, options)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Validate(BraninSpec()).ok());
  std::vector<study::ParameterSpec> wide;
  std::vector<std::string> labels;
  for (int i = 0; i < 1000; ++i) labels.push_back("l" + std::to_string(i));
  for (int i = 0; i < 6; ++i) wide.push_back(Categorical("c" + std::to_string(i), labels));
  EXPECT_EQ(Validate(BoSpec(Space(wide))).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace luthier::search
