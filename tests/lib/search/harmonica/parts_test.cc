#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/search/harmonica/designer.h"
#include "lib/search/harmonica/report.h"
#include "lib/search/registry.h"
#include "tests/lib/search/multi_fidelity/rungs_testing.h"

// Harmonica in studies that train in parts: stages of little training, and bases with rungs.
namespace luthier::search {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace study;
using Answer = RungWorld::Answer;

constexpr int kSwitches = 16;

StudySpec PartsSpec(HarmonicaOptions options, int64_t max_trials, int64_t max = 9) {
  StudySpec spec = RungSpec(options, max, max_trials);
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < kSwitches; ++i) parameters.push_back(Bool("b" + std::to_string(i)));
  spec.space = Space(parameters);
  return spec;
}

double Sign(const Parameters& p, int i) {
  return std::get<bool>(p.at("b" + std::to_string(i))) ? -1.0 : 1.0;
}

// Best with b0, and b1 unlike b2; the rest ranks settings in small ways.
double Value(const HistoryTrial& trial, int64_t step) {
  double value = 3.0 * Sign(trial.parameters, 0) + 2.0 * Sign(trial.parameters, 1) * Sign(trial.parameters, 2);
  for (int i = 3; i < kSwitches; ++i) value += 0.01 * i * Sign(trial.parameters, i);
  return value + 1.0 / static_cast<double>(step);
}

bool IsBest(const Parameters& p) {
  return Sign(p, 0) + Sign(p, 1) * Sign(p, 2) == -2.0;
}

const HarmonicaBase kBases[] = {SuccessiveHalvingOptions{}, HyperbandOptions{}, AshaOptions{},
                                HyperbandOptions{.sampler = TpeOptions{}}};

TEST(HarmonicaParts, StagesPauseAndTheBaseBeginsBracketsOfItsOwn) {
  for (const HarmonicaBase& base : kBases) {
    for (const int workers : {1, 5}) {
      const HarmonicaOptions options{
          .samples = 60, .stages = 1, .terms = 2, .restrictions = 2, .stage_resource = 3, .base = base};
      SCOPED_TRACE(testing::Message() << AlgorithmName(BaseAlgorithm(options)) << " " << workers);
      RungWorld world(PartsSpec(options, 60 + 40), Value);
      std::map<std::string, int> origins;
      world.on_ask = [&](const absl::StatusOr<Suggestion>& suggestion) {
        if (!suggestion.ok()) return;
        ++origins[suggestion->origin];
        EXPECT_TRUE(suggestion->origin != "stage" || suggestion->resource == 3);
        EXPECT_TRUE(!suggestion->resume || IsBest(world.Trial(*suggestion->resume).parameters));
      };
      world.Run(workers);
      EXPECT_EQ(world.study.history().trials().size(), 100u);
      for (const auto& [origin, count] : origins)
        EXPECT_TRUE(origin == "stage" || origin.starts_with("base_")) << origin;
      EXPECT_GE(origins["stage"], 60);
      EXPECT_LT(origins["stage"], 60 + workers);
      EXPECT_GT(origins["base_promote"], 5);
      const std::vector<int64_t> complete = world.With(TrialState::kComplete);
      EXPECT_FALSE(complete.empty());
      for (const int64_t number : complete) EXPECT_TRUE(IsBest(world.Trial(number).parameters));
      for (const int64_t number : world.With(TrialState::kPaused)) {
        if (ReadHarmonicaState(world.Trial(number).designer_state).kind != 's') continue;
        EXPECT_EQ(world.Trial(number).resource, 3);
      }
    }
  }
}

// What goes on is what goes on in a study of the base alone that has the same settings.
TEST(HarmonicaParts, TheBasePromotesAsItWouldAlone) {
  for (const HarmonicaBase& base : {HarmonicaBase(SuccessiveHalvingOptions{}), HarmonicaBase(HyperbandOptions{})}) {
    const HarmonicaOptions options{.samples = 40, .stages = 1, .terms = 2, .stage_resource = 9, .base = base};
    const StudySpec spec = PartsSpec(options, 40 + 36);
    RungWorld world(spec, Value);
    world.Run(1);
    StudySpec alone = BaseStudy(spec, options, PlanHarmonica(spec, options));
    RungWorld other(alone, [&](const HistoryTrial& trial, int64_t step) {
      HistoryTrial same = world.Trial(40 + trial.number);
      return Value(same, step);
    });
    other.Run(1);
    std::map<int64_t, std::vector<int64_t>> shifted;
    for (const auto& [target, numbers] : other.promoted_to) {
      for (const int64_t number : numbers) shifted[target].push_back(number + 40);
    }
    EXPECT_EQ(world.promoted_to, shifted);
    EXPECT_EQ(world.training, 40 * 9 + other.training);
  }
}

TEST(HarmonicaParts, ARestartChangesNothing) {
  for (const HarmonicaBase& base : kBases) {
    for (const int64_t stage_resource : {1, 9}) {
      const HarmonicaOptions options{
          .samples = 30, .stages = 2, .terms = 2, .restrictions = 2, .stage_resource = stage_resource, .base = base};
      SCOPED_TRACE(testing::Message() << AlgorithmName(BaseAlgorithm(options)) << " " << stage_resource);
      RungWorld world(PartsSpec(options, 100), [](const HistoryTrial& trial, int64_t step) {
        base::RandomStream random(4, "test/fails", static_cast<uint64_t>(trial.number), static_cast<uint32_t>(step));
        return random.UniformInt(12) == 0 ? std::nan("") : Value(trial, step);
      });
      int asks = 0;
      world.on_ask = [&](const absl::StatusOr<Suggestion>& living) {
        if (++asks == 50) world.study.Enqueue(world.spec().space.Default());
        // The setting that a user has given in since is not the living one's.
        if (asks == 50) return;
        ExpectSameAfterRestart(world, living);
      };
      world.Run(4);
      EXPECT_GE(asks, 100);
      EXPECT_FALSE(world.promoted_to.empty());
    }
  }
}

TEST(HarmonicaParts, WhenUsersFillTheBudgetTheRungsAreStillFinished) {
  const HarmonicaOptions options{.samples = 30, .stages = 1, .terms = 2, .stage_resource = 1, .base = AshaOptions{}};
  RungWorld world(PartsSpec(options, 60), Value);
  int asks = 0;
  world.on_ask = [&](const absl::StatusOr<Suggestion>&) {
    if (++asks != 45) return;
    for (int i = 0; i < 12; ++i)
      world.study.Finish(world.study.Enqueue(world.spec().space.Default()), contract::Complete(0.0));
  };
  world.Run(1);
  EXPECT_EQ(world.Ask(), Answer::kDone);
  int base_trials = 0;
  for (const HistoryTrial& trial : world.study.history().trials())
    base_trials += ReadHarmonicaState(trial.designer_state).kind == 'b';
  EXPECT_GE(base_trials, 9);
  EXPECT_GE(world.promoted_to[3].size(), static_cast<size_t>(base_trials / 3));
  EXPECT_FALSE(world.promoted_to[9].empty());
}

TEST(HarmonicaParts, TheBracketsStayThoseOfTheBudgetThatIsLeft) {
  for (const HarmonicaBase& base : kBases) {
    const HarmonicaOptions options{.samples = 100, .stages = 2, .base = base};
    const StudySpec spec = PartsSpec(options, 230);
    ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
    const HarmonicaPlan plan = PlanHarmonica(spec, options);
    EXPECT_EQ(plan.left, 30);
    const Bracket left = BracketsOf(BaseStudy(spec, options, plan)).front();
    const StudySpec refined = RefinedStudy(spec, options, plan, spec.space, AllAlgorithms());
    EXPECT_EQ(BracketsOf(refined).front().steps, left.steps);
    EXPECT_EQ(refined.budget.max_trials, 230);
  }
}

TEST(HarmonicaParts, AnyBaseMayFollowStagesOfLittleTrainingAndDoesNotSeeThem) {
  const HarmonicaOptions options{
      .samples = 40, .stages = 1, .terms = 2, .stage_resource = 1, .base = BoOptions{.initial_points = 2}};
  const StudySpec spec = PartsSpec(options, 60);
  ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  std::vector<std::string> origins;
  for (int i = 0; i < 44; ++i) {
    const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
    ASSERT_TRUE(suggestion.ok());
    study.Suggested(*suggestion);
    const int64_t number = study.Store();
    const HistoryTrial trial = study.history().trials().back();
    if (suggestion->resource > 0) {
      EXPECT_EQ(suggestion->origin, "stage");
      study.Report(number, 1, Value(trial, 1) + 100.0);
      study.Pause(number);
    } else {
      origins.push_back(suggestion->origin);
      EXPECT_TRUE(IsBest(trial.parameters));
      study.Finish(number, contract::Complete(Value(trial, 9)));
    }
  }
  ASSERT_EQ(origins.size(), 4u);
  EXPECT_EQ(origins[0], "base_init");
  EXPECT_EQ(origins[1], "base_init");
  EXPECT_NE(origins[2], "base_init");
  // The report says what its numbers are, and stays the same when the study ends and PAUSED trials are PRUNED.
  const HarmonicaReport report = ReportHarmonica(spec, study.history(), 20);
  ASSERT_EQ(report.stages.size(), 1u);
  EXPECT_THAT(report.stages[0].warnings, Contains(HasSubstr("values after 1 of 9 units of training")));
  for (int64_t number = 1; number <= 40; ++number) {
    study.Finish(number, contract::Pruned(study.history().trials()[static_cast<size_t>(number - 1)].points[0].value));
  }
  const HarmonicaReport after = ReportHarmonica(spec, study.history(), 20);
  ASSERT_EQ(after.stages.size(), 1u);
  for (size_t k = 0; k < report.stages[0].terms.size(); ++k) {
    EXPECT_EQ(after.stages[0].terms[k].weight, report.stages[0].terms[k].weight);
    EXPECT_EQ(after.stages[0].terms[k].bootstrap_frequency, report.stages[0].terms[k].bootstrap_frequency);
  }
}

// The first T that pause or end, in the order of the log.
TEST(HarmonicaParts, AStageClosesWithPausedResults) {
  const StudySpec spec = PartsSpec({.samples = 20, .stages = 1, .terms = 2, .stage_resource = 3}, 60);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  for (int i = 0; i < 26; ++i) {
    study.Suggested(*designer->Suggest(study.history(), study.asks(), base::StopToken()));
    study.Store();
  }
  const auto pause = [&](int64_t number) {
    study.Report(number, 1, 1000.0);  // Not what counts.
    study.Report(number, 3, Value(study.history().trials()[static_cast<size_t>(number - 1)], 3));
    study.Pause(number);
  };
  for (int64_t number = 26; number > 8; --number) pause(number);
  study.Finish(1, contract::Failed(FailureKind::kInfra));
  study.Finish(2, contract::Failed(FailureKind::kConfig));
  EXPECT_EQ(designer->Suggest(study.history(), study.asks(), base::StopToken())->origin, "stage");
  pause(3);
  EXPECT_EQ(designer->Suggest(study.history(), study.asks(), base::StopToken())->origin, "base_random");
  const auto& options = std::get<HarmonicaOptions>(spec.algorithm);
  const HarmonicaPlan plan = PlanHarmonica(spec, options);
  const spectral::BitEncoding bits(spec.space, options.float_bits, spec.seed);
  HarmonicaStages stages(spec, options, plan, bits);
  ASSERT_TRUE(stages.Read(study.history(), base::StopToken()).ok());
  ASSERT_EQ(stages.stages().size(), 1u);
  EXPECT_EQ(stages.stages()[0].results, 20);
  EXPECT_EQ(stages.stages()[0].failed, 1);
  const Eigen::VectorXd before = stages.Data(study.history(), 0).losses;
  EXPECT_LT(before.maxCoeff(), 100.0);
  pause(4);  // Too late.
  ASSERT_TRUE(stages.Read(study.history(), base::StopToken()).ok());
  EXPECT_EQ(stages.Data(study.history(), 0).losses, before);
}

TEST(HarmonicaParts, RefusesWhatCannotBe) {
  const auto refuse = [](const HarmonicaOptions& options, int64_t trials,
                         const std::function<void(StudySpec*)>& change = nullptr) {
    StudySpec spec = PartsSpec(options, trials);
    if (change) change(&spec);
    std::vector<std::string> fields;
    const auto detail = base::GetErrorDetail(Validate(spec));
    if (!detail) return fields;
    for (const auto& violation : detail->violations) fields.push_back(violation.field + ": " + violation.description);
    return fields;
  };
  const auto no_resource = [](StudySpec* spec) { spec->resource.reset(); };
  EXPECT_THAT(refuse({.samples = 30, .base = HyperbandOptions{}}, 90), ElementsAre());
  EXPECT_THAT(refuse({.samples = 30, .base = HyperbandOptions{}}, 90, no_resource),
              ElementsAre(HasSubstr("resource: is required by hyperband")));
  EXPECT_THAT(refuse({.samples = 30, .stage_resource = 3}, 90, no_resource),
              ElementsAre(HasSubstr("algorithm.harmonica.stage_resource: needs a resource")));
  EXPECT_THAT(refuse({.samples = 30, .stage_resource = 10}, 90),
              ElementsAre(HasSubstr("stage_resource: 10 is not between resource.min, 1, and resource.max, 9")));
  EXPECT_THAT(refuse({.samples = 30, .stage_resource = -1}, 90), ElementsAre(HasSubstr("-1 is not between")));
  EXPECT_THAT(refuse({.samples = 30, .stage_resource = 1}, 90,
                     [](StudySpec* spec) {
                       spec->reproducible = true;
                       spec->budget.max_parallel = 2;
                     }),
              ElementsAre(HasSubstr("reproducible: does not go with a stage_resource below")));
  EXPECT_THAT(refuse({.samples = 30, .base = AshaOptions{.variant = AshaVariant::kStop}}, 90),
              ElementsAre(HasSubstr("algorithm.harmonica.base.asha.variant: STOP would compare")));
  EXPECT_THAT(refuse({.samples = 30, .base = AshaOptions{.eta = 1}}, 90),
              Each(HasSubstr("algorithm.harmonica.base.asha.eta: 1 is not between")));
  // The stages' samples are not the base's.
  EXPECT_THAT(refuse({.samples = 30, .base = HyperbandOptions{}}, 65),
              ElementsAre(HasSubstr("2 stages of 30 samples leave 5 trials of the budget of 65")));
  EXPECT_THAT(refuse({.samples = 30, .base = SuccessiveHalvingOptions{.trials = 40}}, 90),
              ElementsAre(HasSubstr("base.successive_halving.trials: 40 is not between eta, 3, and")));
  EXPECT_THAT(refuse({.samples = 30, .base = HyperbandOptions{.sampler = GridOptions{.levels = 1}}}, 90),
              ElementsAre(HasSubstr("algorithm.harmonica.base.hyperband.sampler.grid.levels")));
  // Too few bits for stages: the base has the whole budget.
  EXPECT_THAT(refuse({.samples = 30, .base = HyperbandOptions{}}, 31,
                     [](StudySpec* spec) { spec->space = Space({Bool("a"), Bool("b")}); }),
              ElementsAre());
}

TEST(HarmonicaParts, WithTooFewBitsTheBaseHasTheStudy) {
  StudySpec spec = PartsSpec({.samples = 20, .stage_resource = 1, .base = HyperbandOptions{}}, 22);
  spec.space = Space({Float("x", 0, 1), Float("y", 0, 1)});
  RungWorld world(spec, ExactRank);
  StudySpec alone = spec;
  alone.algorithm = HyperbandOptions{};
  RungWorld other(alone, ExactRank);
  world.Run(3);
  other.Run(3);
  EXPECT_EQ(world.promoted_to, other.promoted_to);
  EXPECT_EQ(world.study.history().trials().back().parameters, other.study.history().trials().back().parameters);
}

TEST(HarmonicaParts, WhenTheSamplerHasTriedAllThatIsLeftTheRestExplores) {
  const HarmonicaOptions options{.samples = 60,
                                 .stages = 1,
                                 .degree = 1,
                                 .terms = 12,
                                 .restrictions = 1,
                                 .stage_resource = 1,
                                 .base = SuccessiveHalvingOptions{.trials = 9, .sampler = GridOptions{}}};
  const StudySpec spec = PartsSpec(options, 60 + 30);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  const auto value = [](const HistoryTrial& trial) {
    double sum = 0.0;
    for (int i = 0; i < 12; ++i) sum += Sign(trial.parameters, i);
    return sum;
  };
  contract::FakeStudy study;
  std::set<std::string> origins;
  int promoted = 0;
  while (true) {
    const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
    if (!suggestion.ok()) {
      EXPECT_EQ(base::GetReason(suggestion.status()), base::reason::kSpaceExhausted) << suggestion.status();
      break;
    }
    ASSERT_LT(study.asks(), 200u);
    origins.insert(suggestion->origin);
    promoted += suggestion->resume ? 1 : 0;
    study.Suggested(*suggestion);
    const int64_t number = study.Store();
    const HistoryTrial trial = study.history().trials()[static_cast<size_t>(number - 1)];
    if (trial.resource == 0 || trial.resource == 9) {
      study.Finish(number, contract::Complete(value(trial)));
    } else {
      study.Report(number, trial.resource, value(trial));
      study.Pause(number);
    }
  }
  EXPECT_EQ(study.history().trials().size(), 90u);
  EXPECT_EQ(origins, (std::set<std::string>{"stage", "base_grid", "base_promote", "explore"}));
  EXPECT_EQ(promoted, (3 + 1) + (2 + 1));  // 16 settings: brackets of 9 and of 7.
}

}  // namespace
}  // namespace luthier::search
