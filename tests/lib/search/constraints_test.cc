#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/search/constraints_taken.h"
#include "lib/search/legal/legal_steps.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/registry.h"
#include "lib/study/legal_settings.h"
#include "lib/study/metrics.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/study/builders.h"

// Constraints on parameters: every setting that any algorithm asks for keeps them.
namespace luthier::search {
namespace {

using contract::FakeStudy;
using study::Bool;
using study::Categorical;
using study::Float;
using study::Int;
using study::Parameters;
using study::Space;
using study::When;
using ::testing::HasSubstr;

study::ParameterConstraint Sum(std::map<std::string, double> weights, std::optional<double> at_least,
                               std::optional<double> at_most) {
  return {.sum = std::move(weights), .at_least = at_least, .at_most = at_most, .forbid = {}};
}

study::StudySpec SpecOf(study::SearchSpace space, std::vector<study::ParameterConstraint> constraints,
                        study::AlgorithmSpec algorithm, uint64_t seed = 1) {
  study::StudySpec spec;
  spec.space = std::move(space);
  spec.constraints = std::move(constraints);
  spec.metric.name = "loss";
  spec.algorithm = std::move(algorithm);
  spec.seed = seed;
  spec.budget.max_trials = study::kMaxTrials;
  if (study::SamplerOf(spec.algorithm) != nullptr) spec.resource = study::Resource{1, 9, "epochs"};
  return spec;
}

// A polytope with a curved face, of a share of 1 in 12 or so.
study::StudySpec Numbers(study::AlgorithmSpec algorithm) {
  return SpecOf(Space({Float("a", 0, 1), Float("b", 0, 1), Float("c", 1e-3, 1, study::Scale::kLog)}),
                {Sum({{"a", 1}, {"b", 1}}, {}, 0.6), Sum({{"b", 1}, {"c", -1}}, {}, 0.0)}, std::move(algorithm));
}

// Labels, levels, and parameters that exist with some labels only, in sums and in forbidden combinations.
study::StudySpec Mixed(study::AlgorithmSpec algorithm) {
  study::ParameterConstraint labels;
  labels.forbid["kind"].values = {std::string("wide"), std::string("none")};
  labels.forbid["flag"].values = {true};
  study::ParameterConstraint range;
  range.forbid["x"].at_least = 0.25;
  range.forbid["x"].at_most = 0.75;
  range.forbid["n"].at_most = 5.0;
  return SpecOf(Space({Categorical("kind", {"none", "wide", "deep"}), Float("x", 0, 1), Int("n", 1, 20), Bool("flag"),
                       When("kind", {std::string("wide"), std::string("deep")}, Int("width", 1, 100)),
                       When("kind", {std::string("deep")}, Float("rate", 1e-4, 1, study::Scale::kLog))}),
                {labels, range, Sum({{"width", 1}, {"n", 4}, {"rate", 10}}, 5, 90)}, std::move(algorithm));
}

// 6 * 6 * 2 settings, of which BruteForce says how many are legal.
study::StudySpec Finite(study::AlgorithmSpec algorithm) {
  study::ParameterConstraint pair;
  pair.forbid["i"].values = {2.0, 3.0};
  pair.forbid["flag"].values = {true};
  return SpecOf(Space({Int("i", 0, 5), Int("j", 0, 5), Bool("flag")}), {Sum({{"i", 1}, {"j", 1}}, {}, 5), pair},
                std::move(algorithm));
}
int64_t LegalOfFinite() {
  int64_t legal = 0;
  for (int i = 0; i <= 5; ++i) {
    for (int j = 0; j <= 5; ++j) {
      for (const bool flag : {false, true}) legal += i + j <= 5 && !(flag && (i == 2 || i == 3));
    }
  }
  return legal;
}

std::vector<study::AlgorithmSpec> ModelFree() {
  study::TpeOptions univariate;
  univariate.multivariate = false;
  return {study::RandomOptions{},
          study::SobolOptions{},
          study::HaltonOptions{},
          study::GridOptions{.levels = 60},
          study::TpeOptions{},
          univariate,
          study::Nsga2Options{},
          study::CmaEsOptions{},
          study::SuccessiveHalvingOptions{},
          study::HyperbandOptions{},
          study::AshaOptions{}};
}

std::vector<study::AlgorithmSpec> ModelBased() {
  std::vector<study::AlgorithmSpec> all = {study::AutoOptions{}};
  for (const auto preset :
       {study::BoPreset::kBo, study::BoPreset::kHbo, study::BoPreset::kLbo, study::BoPreset::kFobo}) {
    all.push_back(study::BoDefaults(preset));
  }
  study::BoOptions farthest = study::BoDefaults(study::BoPreset::kHbo);
  farthest.exploration = study::BoExploration::kFarthest;
  all.push_back(farthest);
  study::BoOptions direct = study::BoDefaults(study::BoPreset::kBo);
  direct.maximizer = study::BoMaximizer::kDirect;
  all.push_back(direct);
  return all;
}

double Loss(const study::Encoding& encoding, const Parameters& setting) {
  return (encoding.ToCompact(setting).array() - 0.8).matrix().squaredNorm();
}

// Ends the oldest open trial: at its rung, as COMPLETE, or one in eleven as FAILED.
void EndOne(const study::StudySpec& spec, const study::Encoding& encoding, FakeStudy* study) {
  const int64_t number = study->open().front();
  const study::HistoryTrial& trial = study->history().trials()[static_cast<size_t>(number - 1)];
  const double loss = Loss(encoding, trial.parameters);
  if (number % 11 == 10) {
    study->Finish(number, contract::Failed(study::FailureKind::kConfig));
  } else if (spec.resource && trial.resource < spec.resource->max) {
    study->Report(number, trial.resource, loss);
    study->Pause(number);
  } else {
    study->Finish(number, contract::Complete(loss));
  }
}

// Asks with `parallel` trials open; returns the number of settings that were asked for. All must be legal.
int RunLegally(const study::StudySpec& spec, int asks, size_t parallel = 1) {
  EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  const study::Encoding encoding(spec.space);
  const study::LegalSettings legal(spec.space, spec.constraints);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  FakeStudy study;
  int settings = 0, replaced = 0;
  for (int i = 0; i < asks; ++i) {
    const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
    if (base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted) break;
    if (base::GetReason(suggestion.status()) == base::reason::kAwaitingResults && !study.open().empty()) {
      EndOne(spec, encoding, &study);
      continue;
    }
    EXPECT_TRUE(suggestion.ok()) << suggestion.status();
    if (!suggestion.ok()) break;
    if (!suggestion->resume) {
      EXPECT_TRUE(spec.space.Validate(suggestion->parameters).ok());
      EXPECT_EQ(legal.WhyNot(suggestion->parameters), "") << suggestion->origin << ", ask " << i;
      replaced += suggestion->origin == "legal";
      ++settings;
    }
    study.Suggested(*suggestion);
    study.Store();
    if (study.open().size() >= parallel) EndOne(spec, encoding, &study);
  }
  EXPECT_EQ(replaced, 0) << "algorithms keep the constraints by themselves";
  return settings;
}

TEST(ConstraintsTest, EveryAlgorithmAsksForLegalSettingsAlone) {
  int settings = 0;
  for (const study::AlgorithmSpec& algorithm : ModelFree()) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    // TPE and CMA-ES look at what they asked for, so many asks take long.
    const bool learns =
        std::holds_alternative<study::TpeOptions>(algorithm) || std::holds_alternative<study::CmaEsOptions>(algorithm);
    const bool grid = std::holds_alternative<study::GridOptions>(algorithm);
    const bool rungs = study::SamplerOf(algorithm) != nullptr;
    settings += RunLegally(Numbers(algorithm), learns ? 600 : rungs ? 300 : 20'000);
    settings +=
        RunLegally(Mixed(grid ? study::AlgorithmSpec(study::GridOptions{.levels = 5}) : algorithm), learns  ? 600
                                                                                                    : rungs ? 300
                                                                                                            : 10'000);
    settings += RunLegally(Finite(algorithm), 100, 3);
  }
  EXPECT_GT(settings, 100'000);
}

TEST(ConstraintsTest, ModelsAskForLegalSettingsAlone) {
  for (const study::AlgorithmSpec& algorithm : ModelBased()) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    EXPECT_EQ(RunLegally(Numbers(algorithm), 40, 2), 40);
    EXPECT_EQ(RunLegally(Mixed(algorithm), 40), 40);
    RunLegally(Finite(algorithm), 60);
  }
}

TEST(ConstraintsTest, SeveralObjectivesAskForLegalSettingsAlone) {
  for (const study::AlgorithmSpec& algorithm :
       {study::AlgorithmSpec(study::AutoOptions{}), study::AlgorithmSpec(study::TpeOptions{})}) {
    study::StudySpec spec = Numbers(algorithm);
    study::SetMetrics({{"f"}, {"g"}}, &spec);
    ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
    const study::LegalSettings legal(spec.space, spec.constraints);
    const std::unique_ptr<Designer> designer = CreateDesigner(spec);
    study::History history;
    for (int i = 0; i < 25; ++i) {
      const absl::StatusOr<Suggestion> suggestion =
          designer->Suggest(history, static_cast<uint64_t>(i), base::StopToken());
      ASSERT_TRUE(suggestion.ok()) << suggestion.status();
      EXPECT_EQ(legal.WhyNot(suggestion->parameters), "");
      EXPECT_NE(suggestion->origin, "legal");
      study::HistoryTrial trial;
      trial.number = i + 1;
      trial.ask_index = static_cast<uint64_t>(i);
      trial.parameters = suggestion->parameters;
      trial.designer_state = suggestion->designer_state;
      history.AddStored(trial);
      const double a = std::get<double>(trial.parameters.at("a")), b = std::get<double>(trial.parameters.at("b"));
      history.Finish(i + 1, study::TrialState::kComplete, -a, std::nullopt, std::nullopt);
      trial.values = {-a, -b};
      history.NoteMetrics(i + 1, trial);
    }
  }
}

TEST(ConstraintsTest, ExplorationsAreRandomSearchsOwnPoints) {
  const study::StudySpec random = Numbers(study::RandomOptions{});
  study::StudySpec spec = Numbers(study::BoDefaults(study::BoPreset::kHbo));
  const study::Encoding encoding(spec.space);
  const std::unique_ptr<Designer> searcher = CreateDesigner(random), designer = CreateDesigner(spec);
  FakeStudy study;
  std::vector<Parameters> explored, expected;
  for (uint64_t i = 0; i < 48; ++i) {
    const Suggestion suggestion = *designer->Suggest(study.history(), i, base::StopToken());
    if (suggestion.origin == "explore") explored.push_back(suggestion.parameters);
    study.Suggested(suggestion);
    const int64_t number = study.Store();
    study.Finish(number, contract::Complete(Loss(encoding, suggestion.parameters)));
  }
  ASSERT_GE(explored.size(), 12u);
  for (uint64_t i = 0; i < explored.size(); ++i) {
    expected.push_back(searcher->Suggest({}, i, base::StopToken())->parameters);
  }
  EXPECT_EQ(explored, expected);
}

TEST(ConstraintsTest, SequencesSkipIllegalPointsIndexByIndex) {
  for (const study::AlgorithmSpec& algorithm :
       {study::AlgorithmSpec(study::SobolOptions{}), study::AlgorithmSpec(study::HaltonOptions{}),
        study::AlgorithmSpec(study::GridOptions{.levels = 12})}) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    const study::StudySpec spec = Numbers(algorithm);
    study::StudySpec free = spec;
    free.constraints.clear();
    const study::LegalSettings legal(spec.space, spec.constraints);
    const std::unique_ptr<Designer> all = CreateDesigner(free);
    std::vector<Parameters> expected;
    for (uint64_t i = 0; expected.size() < 60; ++i) {
      const Parameters setting = all->Suggest({}, i, base::StopToken())->parameters;
      if (legal.Contains(setting)) expected.push_back(setting);
    }
    const std::unique_ptr<Designer> in_order = CreateDesigner(spec), in_any = CreateDesigner(spec);
    for (uint64_t i = 0; i < 60; ++i) {
      EXPECT_EQ(in_order->Suggest({}, i, base::StopToken())->parameters, expected[i]);
      const uint64_t j = (i * 23) % 60;  // As a program that was restarted, or replays one ask.
      EXPECT_EQ(in_any->Suggest({}, j, base::StopToken())->parameters, expected[j]);
    }
  }
}

TEST(ConstraintsTest, AFiniteSpaceIsExhaustedOnceEveryLegalSettingWasTried) {
  const int64_t legal = LegalOfFinite();
  std::vector<study::AlgorithmSpec> algorithms = {study::RandomOptions{}, study::SobolOptions{}, study::HaltonOptions{},
                                                  study::GridOptions{},   study::TpeOptions{},   study::CmaEsOptions{}};
  algorithms.push_back(study::BoDefaults(study::BoPreset::kBo));
  algorithms.push_back(study::BoDefaults(study::BoPreset::kHbo));
  for (const study::AlgorithmSpec& algorithm : algorithms) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    EXPECT_EQ(RunLegally(Finite(algorithm), 200), legal);
  }
}

// Runs the algorithm on a function of a and b, and returns its least loss.
double BestOf(study::StudySpec spec, int asks, const std::function<double(double, double)>& f) {
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  FakeStudy study;
  double best = HUGE_VAL;
  for (int i = 0; i < asks; ++i) {
    const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
    if (!suggestion.ok()) {
      ADD_FAILURE() << suggestion.status();
      break;
    }
    const double loss =
        f(std::get<double>(suggestion->parameters.at("a")), std::get<double>(suggestion->parameters.at("b")));
    study.Suggested(*suggestion);
    study.Finish(study.Store(), contract::Complete(loss));
    best = std::min(best, loss);
  }
  return best;
}

TEST(ConstraintsTest, TheModelFindsOptimaOnFaces) {
  const study::SearchSpace square = Space({Float("a", 0, 1), Float("b", 0, 1)});
  const auto bo = study::BoDefaults(study::BoPreset::kBo);
  // The nearest point of a + b <= 1 to (1, 0.8) is (0.6, 0.4).
  const auto distance = [](double a, double b) { return (a - 1) * (a - 1) + (b - 0.8) * (b - 0.8); };
  EXPECT_LT(BestOf(SpecOf(square, {Sum({{"a", 1}, {"b", 1}}, {}, 1.0)}, bo), 30, distance), 0.32 + 1e-9);
  // Where the model is not round, the least on the face is not the nearest point to the least of all.
  const auto valley = [](double a, double b) { return (a - 1) * (a - 1) + 20 * (b - 0.8) * (b - 0.8); };
  EXPECT_LT(BestOf(SpecOf(square, {Sum({{"a", 1}, {"b", 1}}, {}, 1.0)}, bo), 30, valley),
            valley(1 - 16.0 / 21, 16.0 / 21) + 1e-9);
  // A corner of two faces: 2a + b <= 1.2 and a + 2b <= 1.2 meet at (0.4, 0.4).
  const auto fall = [](double a, double b) { return -a - b; };
  EXPECT_LT(
      BestOf(SpecOf(square, {Sum({{"a", 2}, {"b", 1}}, {}, 1.2), Sum({{"a", 1}, {"b", 2}}, {}, 1.2)}, bo), 30, fall),
      -0.8 + 1e-9);
  // A curved face: in the scales, a + b <= 0.11 bends. a * b is largest at a = b.
  const study::SearchSpace logs =
      Space({Float("a", 1e-3, 1, study::Scale::kLog), Float("b", 1e-3, 1, study::Scale::kLog)});
  const auto product = [](double a, double b) { return -std::log(a) - std::log(b); };
  EXPECT_LT(BestOf(SpecOf(logs, {Sum({{"a", 1}, {"b", 1}}, {}, 0.11)}, bo), 30, product), -2 * std::log(0.055) + 1e-6);
}

TEST(ConstraintsTest, StepsEndOnTheFacesAndNoFurther) {
  const study::StudySpec spec = Numbers(study::RandomOptions{});
  const study::Encoding encoding(spec.space, spec.constraints);
  base::RandomStream random(3, "test");
  for (int n = 0; n < 300; ++n) {
    const Eigen::VectorXd inside = encoding.ToCompact(encoding.Sample(random));
    Eigen::VectorXd u(3);
    for (double& x : u) x = random.Uniform();
    const Eigen::VectorXd pulled = PullToLegal(encoding, inside, u), nearest = NearestLegal(encoding, inside, u);
    ASSERT_TRUE(encoding.IsLegalAt(pulled));
    ASSERT_TRUE(encoding.IsLegalAt(nearest));
    if (encoding.IsLegalAt(u)) {
      EXPECT_EQ(pulled, u);
      EXPECT_EQ(nearest, u);
      continue;
    }
    // The point next to it on the way is illegal, so the way was not left too early.
    const double part = (pulled - inside).norm() / (u - inside).norm();
    EXPECT_FALSE(encoding.IsLegalAt(inside + std::min(1.0, part + 1e-6) * (u - inside)));
  }
}

TEST(ConstraintsTest, FacesHaveTheSlopesOfDifferences) {
  const study::StudySpec spec = Mixed(study::RandomOptions{});
  const study::Encoding encoding(spec.space, {Sum({{"rate", 2}, {"x", -3}, {"n", 1}}, 1.0, 9.0)});
  const LegalFaces faces(encoding);
  ASSERT_EQ(faces.size(), 2);
  base::RandomStream random(4, "test");
  Eigen::VectorXd excess, above, below;
  Eigen::MatrixXd slopes, ignored;
  for (int n = 0; n < 100; ++n) {
    Eigen::VectorXd u(encoding.compact_dim());
    for (double& x : u) x = 0.01 + 0.98 * random.Uniform();
    faces.Evaluate(u, &excess, &slopes);
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      if (encoding.Levels(c)) {
        EXPECT_EQ(slopes.col(c).norm(), 0.0);
        continue;
      }
      const double step = 1e-6;
      faces.Evaluate(u + step * Eigen::VectorXd::Unit(u.size(), c), &above, &ignored);
      faces.Evaluate(u - step * Eigen::VectorXd::Unit(u.size(), c), &below, &ignored);
      for (int face = 0; face < 2; ++face) {
        EXPECT_NEAR(slopes(face, c), (above(face) - below(face)) / (2 * step), 1e-6);
      }
    }
  }
}

TEST(ConstraintsTest, AlgorithmsThatCannotKeepThemAreRefusedByName) {
  std::set<std::string> taken(AlgorithmsWithConstraints().begin(), AlgorithmsWithConstraints().end());
  for (const study::AlgorithmSpec& algorithm :
       {study::AlgorithmSpec(study::HarmonicaOptions{}),
        study::AlgorithmSpec(study::HoagOptionsFor(study::HoagPreset::kHoag)),
        study::AlgorithmSpec(study::HoagOptionsFor(study::HoagPreset::kProjectedGradient)),
        study::AlgorithmSpec(study::HoagOptionsFor(study::HoagPreset::kIterdiff))}) {
    const std::string name = study::AlgorithmName(algorithm);
    EXPECT_FALSE(taken.contains(name));
    EXPECT_THAT(std::string(Validate(Numbers(algorithm)).message()),
                HasSubstr("algorithm: " + name + " does not take constraints on parameters; use one of asha, bo"));
    taken.insert(name);
  }
  taken.insert("auto");
  for (const AlgorithmInfo& info : Algorithms()) EXPECT_TRUE(taken.contains(info.name)) << info.name;
}

TEST(ConstraintsTest, TooSmallASpaceIsRefusedWithItsShare) {
  // 64 constraints that leave a cube of side 0.01 in three dimensions: a share of 10^-6.
  std::vector<study::ParameterConstraint> constraints;
  for (int i = 0; i < 61; ++i)
    constraints.push_back(Sum({{"a", 1}, {"b", 1}, {"c", 1 + 0.01 * i}}, {}, 0.03 + 0.01 * i));
  for (const char* name : {"a", "b", "c"}) constraints.push_back(Sum({{name, 1}}, {}, 0.01));
  study::StudySpec spec =
      SpecOf(Space({Float("a", 0, 1), Float("b", 0, 1), Float("c", 0, 1)}), constraints, study::RandomOptions{});
  ASSERT_EQ(spec.constraints.size(), 64u);
  EXPECT_TRUE(study::ValidateSpec(spec).ok()) << study::ValidateSpec(spec);
  const std::string message(Validate(spec).message());
  EXPECT_THAT(message,
              HasSubstr("constraints: leave too little of the space: 0 of 10000 random settings keep them all"));
  // Bounds that contradict each other, each by itself possible.
  spec.constraints = {Sum({{"a", 1}}, {}, 0.3), Sum({{"a", 1}}, 0.7, {})};
  EXPECT_THAT(std::string(Validate(spec).message()), HasSubstr("0 of 10000"));
  // A share of 0.2 % is enough, and random search finds its settings.
  spec.constraints = {Sum({{"a", 1}, {"b", 1}, {"c", 1}}, {}, 0.23)};
  EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  RunLegally(spec, 200);
}

TEST(ConstraintsTest, ConstraintsThatEverySettingKeepsChangeNoBit) {
  for (const study::AlgorithmSpec& algorithm :
       {study::AlgorithmSpec(study::RandomOptions{}), study::AlgorithmSpec(study::SobolOptions{}),
        study::AlgorithmSpec(study::TpeOptions{}), study::AlgorithmSpec(study::CmaEsOptions{}),
        study::AlgorithmSpec(study::BoDefaults(study::BoPreset::kHbo))}) {
    SCOPED_TRACE(study::AlgorithmName(algorithm));
    study::StudySpec idle = Numbers(algorithm), none = Numbers(algorithm);
    idle.constraints = {Sum({{"a", 1}, {"b", 1}, {"c", 1}}, -1, 1000.0)};
    none.constraints.clear();
    const study::Encoding encoding(idle.space);
    const std::unique_ptr<Designer> with = CreateDesigner(idle), without = CreateDesigner(none);
    FakeStudy study;
    for (uint64_t i = 0; i < 30; ++i) {
      const Suggestion a = *with->Suggest(study.history(), i, base::StopToken());
      const Suggestion b = *without->Suggest(study.history(), i, base::StopToken());
      ASSERT_EQ(a.parameters, b.parameters) << "ask " << i;
      ASSERT_EQ(a.designer_state, b.designer_state);
      study.Suggested(a);
      study.Finish(study.Store(), contract::Complete(Loss(encoding, a.parameters)));
    }
  }
}

}  // namespace
}  // namespace luthier::search
