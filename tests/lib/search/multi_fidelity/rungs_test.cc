#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lib/search/multi_fidelity/rung_sampler.h"
#include "lib/study/rung_schedule.h"
#include "tests/lib/search/multi_fidelity/rungs_testing.h"

namespace luthier::search {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace study;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RungsTest, HalvingsAreExactAtPowers) {
  // floor(log(243) / log(3)) is 4 in doubles.
  EXPECT_EQ(study::MaxHalvings({.min = 1, .max = 243, .unit = ""}, 3), 5);
  for (int32_t eta = 2; eta <= 12; ++eta) {
    int64_t power = 1;
    for (int s = 0; power <= kMaxResource / eta; ++s, power *= eta) {
      EXPECT_EQ(study::MaxHalvings({.min = 1, .max = power, .unit = ""}, eta), s) << eta << "^" << s;
      if (power > 1) {
        EXPECT_EQ(study::MaxHalvings({.min = 1, .max = power - 1, .unit = ""}, eta), s - 1);
      }
      EXPECT_EQ(study::MaxHalvings({.min = 7, .max = 7 * power + 6, .unit = ""}, eta), s);
    }
  }
}

std::vector<int64_t> Settings(int64_t max, int32_t eta) {
  std::vector<int64_t> settings;
  for (const study::Bracket& bracket : study::BracketsOf(RungSpec(HyperbandOptions{.eta = eta}, max, 1000))) {
    settings.push_back(bracket.sizes.front());
  }
  return settings;
}

TEST(RungsTest, HyperbandsTables) {
  EXPECT_THAT(Settings(81, 3), ElementsAre(81, 34, 15, 8, 5));
  EXPECT_THAT(Settings(27, 3), ElementsAre(27, 12, 6, 4));
  EXPECT_THAT(Settings(16, 2), ElementsAre(16, 10, 7, 5, 5));
  const std::vector<study::Bracket> brackets = study::BracketsOf(RungSpec(HyperbandOptions{}, 81, 1000));
  ASSERT_EQ(brackets.size(), 5u);
  EXPECT_EQ(brackets[0], (study::Bracket{{1, 3, 9, 27, 81}, {81, 27, 9, 3, 1}}));
  EXPECT_EQ(brackets[1], (study::Bracket{{3, 9, 27, 81}, {34, 11, 3, 1}}));
  EXPECT_EQ(brackets[2], (study::Bracket{{9, 27, 81}, {15, 5, 1}}));
  EXPECT_EQ(brackets[3], (study::Bracket{{27, 81}, {8, 2}}));
  EXPECT_EQ(brackets[4], (study::Bracket{{81}, {5}}));
}

TEST(RungsTest, LaddersAscendFromMinToMax) {
  for (int64_t max = 2; max <= 400; ++max) {
    for (int32_t eta = 2; eta <= 5; ++eta) {
      for (int64_t min = 1; min <= max; min = min * 3 + 1) {
        const int halvings = study::MaxHalvings({.min = min, .max = max, .unit = ""}, eta);
        const std::vector<int64_t> steps = study::RungSteps(max, eta, halvings);
        ASSERT_EQ(steps.back(), max);
        ASSERT_GE(steps.front(), min);
        for (size_t i = 1; i < steps.size(); ++i) {
          ASSERT_GT(steps[i], steps[i - 1]);
          // Halves up, each rung by itself.
          ASSERT_EQ(steps[i],
                    std::floor(static_cast<double>(max) / std::pow(eta, halvings - static_cast<int>(i)) + 0.5));
        }
      }
    }
  }
}

TEST(RungsTest, ABracketStaysWithinItsBudget) {
  for (int64_t max = 8; max <= 300; ++max) {
    for (int32_t eta = 2; eta <= 4; ++eta) {
      const std::vector<study::Bracket> brackets =
          study::BracketsOf(RungSpec(HyperbandOptions{.eta = eta}, max, kMaxTrials));
      const double budget = static_cast<double>(brackets.size()) * static_cast<double>(max);
      for (const study::Bracket& bracket : brackets) {
        // Rounded steps are above R / eta^i by at most one half of one.
        double rounding = 0.0;
        for (size_t i = 0; i < bracket.sizes.size(); ++i) rounding += 0.5 * static_cast<double>(bracket.sizes[i]);
        const double bound = budget * (1.0 + 1.0 / eta);
        EXPECT_LE(study::TrainingOf(bracket, true), study::TrainingOf(bracket, false));
        EXPECT_LE(study::TrainingOf(bracket, false), bound + (max % eta == 0 ? 0.0 : rounding)) << max << " " << eta;
      }
    }
  }
}

TEST(RungsTest, ASmallBracketBeginsHigher) {
  const auto steps = [](int64_t trials, int64_t max_trials) {
    return study::BracketsOf(RungSpec(SuccessiveHalvingOptions{.trials = trials}, 81, max_trials)).front();
  };
  EXPECT_EQ(steps(0, 1000), (study::Bracket{{1, 3, 9, 27, 81}, {81, 27, 9, 3, 1}}));
  EXPECT_EQ(steps(9, 1000), (study::Bracket{{9, 27, 81}, {9, 3, 1}}));
  EXPECT_EQ(steps(0, 20), (study::Bracket{{9, 27, 81}, {20, 6, 2}}));
  EXPECT_EQ(steps(200, 1000), (study::Bracket{{1, 3, 9, 27, 81}, {200, 66, 22, 7, 2}}));
  EXPECT_EQ(study::BracketsOf(RungSpec(AshaOptions{}, 81, 80)).front(),
            (study::Bracket{{3, 9, 27, 81}, {80, 26, 8, 2}}));
  EXPECT_EQ(study::BracketsOf(RungSpec(AshaOptions{}, 81, 81)).front(),
            (study::Bracket{{1, 3, 9, 27, 81}, {81, 27, 9, 3, 1}}));
  EXPECT_EQ(study::BracketsOf(RungSpec(AshaOptions{.skip_rungs = 1}, 81, 20)).front(),
            (study::Bracket{{9, 27, 81}, {20, 6, 2}}));
}

HistoryTrial TrialWith(TrialState state, std::vector<CurvePoint> points, std::optional<double> value = std::nullopt) {
  HistoryTrial trial;
  trial.number = 1;
  trial.state = state;
  trial.points = std::move(points);
  trial.value = value;
  trial.resource = 9;
  return trial;
}

TEST(RungsTest, TheFirstReportAtOrAfterARungCounts) {
  const HistoryTrial trial = TrialWith(TrialState::kPending, {{2, 0.5}, {4, 0.4}, {6, 0.3}});
  EXPECT_EQ(study::LossAt(trial, 1, Goal::kMinimize), 0.5);
  EXPECT_EQ(study::LossAt(trial, 3, Goal::kMinimize), 0.4);
  EXPECT_EQ(study::LossAt(trial, 4, Goal::kMaximize), -0.4);
  EXPECT_EQ(study::LossAt(trial, 7, Goal::kMinimize), std::nullopt);
}

TEST(RungsTest, TrialsThatNeverReportedAtARung) {
  // COMPLETE: its value. Failed or pruned on the way: infinite. Failed before it was to get there, cancelled: nothing.
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kComplete, {{2, 0.5}}, 0.1), 9, Goal::kMinimize), 0.1);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kFailed, {{2, 0.5}}), 9, Goal::kMinimize), kInfinity);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kPruned, {{2, 0.5}}, 0.5), 9, Goal::kMinimize), kInfinity);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kFailed, {}), 27, Goal::kMinimize), std::nullopt);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kCancelled, {}), 9, Goal::kMinimize), std::nullopt);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kPaused, {{9, std::nan("")}}), 9, Goal::kMinimize), kInfinity);
  EXPECT_EQ(study::LossAt(TrialWith(TrialState::kPaused, {{9, -kInfinity}}), 9, Goal::kMinimize), kInfinity);
}

// --- The sampler ---

TEST(RungSamplerTest, SettingsAreThoseOfTheSamplerByItself) {
  for (const SamplerSpec& sampler : {SamplerSpec(RandomOptions{}), SamplerSpec(SobolOptions{})}) {
    RungWorld world(RungSpec(AshaOptions{.sampler = sampler}, 27, 60), ExactRank);
    world.Run(5);
    StudySpec plain = world.spec();
    plain.algorithm = AsAlgorithm(sampler);
    const std::unique_ptr<Designer> alone = CreateDesigner(plain);
    ASSERT_EQ(world.study.history().trials().size(), 60u);
    for (uint64_t k = 0; k < 60; ++k) {
      EXPECT_EQ(world.Trial(static_cast<int64_t>(k) + 1).parameters,
                alone->Suggest(History(), k, base::StopToken())->parameters)
          << k;
    }
  }
}

TEST(RungSamplerTest, SeesTheHighestRungWithEnoughResults) {
  // Six trials pause at 1, three of them at 3, one completes at 9.
  contract::FakeStudy study;
  for (int i = 0; i < 8; ++i) {
    Suggestion suggestion;
    suggestion.resource = 1;
    suggestion.parameters["x"] = i / 10.0;
    study.Suggested(suggestion);
    study.Store();
  }
  const auto train = [&](int64_t number, int64_t step) {
    if (step > 1) {
      Suggestion resume;
      resume.resume = number;
      resume.resource = step;
      study.Suggested(resume);
      study.Store();
    }
    study.Report(number, step, static_cast<double>(number) + 1.0 / static_cast<double>(step));
    if (step < 9)
      study.Pause(number);
    else
      study.Finish(number, contract::Complete(0.25));
  };
  for (int64_t number = 1; number <= 6; ++number) train(number, 1);
  for (int64_t number = 1; number <= 3; ++number) train(number, 3);
  train(1, 9);
  study.Finish(7, contract::Failed(FailureKind::kConfig));
  const StudySpec spec = {};
  const History at1 = HistoryAtRung(study.history(), {1, 3, 9}, 4, spec, base::StopToken()).value();
  const History at3 = HistoryAtRung(study.history(), {1, 3, 9}, 3, spec, base::StopToken()).value();
  const History none = HistoryAtRung(study.history(), {1, 3, 9}, 7, spec, base::StopToken()).value();
  EXPECT_EQ(none.finished(), at1.finished());
  for (const HistoryTrial& trial : at1.trials()) {
    EXPECT_EQ(trial.ask_index, static_cast<uint64_t>(trial.number - 1));  // Asks for resumes do not count.
    EXPECT_EQ(trial.parameters, study.history().trials()[static_cast<size_t>(trial.number - 1)].parameters);
    if (trial.number <= 6) {
      EXPECT_EQ(trial.state, TrialState::kComplete);
      EXPECT_EQ(trial.value, static_cast<double>(trial.number) + 1.0);
    }
  }
  EXPECT_EQ(at1.trials()[6].state, TrialState::kFailed);
  EXPECT_EQ(at1.trials()[7].state, TrialState::kPending);
  EXPECT_EQ(at3.trials()[0].state, TrialState::kComplete);
  EXPECT_EQ(at3.trials()[1].value, 2.0 + 1.0 / 3.0);
  EXPECT_EQ(at3.trials()[4].state, TrialState::kPruned);  // Paused below.
  EXPECT_EQ(at3.trials()[4].value, 6.0);
}

TEST(RungSamplerTest, AModelLearnsFromRungs) {
  // The best setting is at (0.3, 0.3) at every step: new settings of a search with a model come to lie near it.
  const auto bowl = [](const HistoryTrial& trial, int64_t step) {
    const double x = std::get<double>(trial.parameters.at("x")) - 0.3;
    const double y = std::get<double>(trial.parameters.at("y")) - 0.3;
    return x * x + y * y + 1.0 / static_cast<double>(step);
  };
  const auto late = [&](const SamplerSpec& sampler) {
    RungWorld world(RungSpec(AshaOptions{.sampler = sampler}, 9, 36), bowl);
    world.Run(1);
    double mean = 0.0;
    for (int64_t number = 27; number <= 36; ++number) mean += bowl(world.Trial(number), kMaxResource) / 10.0;
    return mean;
  };
  EXPECT_LT(late(BoOptions{}), 0.3 * late(RandomOptions{}));
}

// --- What is refused ---

std::string Refusal(const StudySpec& spec) {
  return std::string(Validate(spec).message());
}

TEST(RungsValidationTest, NamesWhatIsMissingOrOutOfRange) {
  StudySpec spec = RungSpec(AshaOptions{}, 81, 100);
  EXPECT_EQ(Refusal(spec), "");
  spec.resource.reset();
  EXPECT_THAT(Refusal(spec), HasSubstr("resource: is required by asha"));
  spec = RungSpec(HyperbandOptions{.eta = 1}, 81, 100);
  EXPECT_THAT(Refusal(spec), HasSubstr("algorithm.hyperband.eta: 1 is not between 2 and 1000"));
  spec = RungSpec(SuccessiveHalvingOptions{.eta = 2'000'000'000}, 81, 100);
  EXPECT_THAT(Refusal(spec), HasSubstr("algorithm.successive_halving.eta"));
  spec = RungSpec(AshaOptions{}, 8, 100, 3);
  EXPECT_THAT(Refusal(spec), HasSubstr("resource.max: 8 is less than eta, 3, times resource.min, 3"));
  spec = RungSpec(HyperbandOptions{}, kMaxResource, 1000);
  EXPECT_THAT(Refusal(spec), HasSubstr("budget.max_trials: 1000 is less than the 847288609443 settings"));
  spec = RungSpec(SuccessiveHalvingOptions{.trials = 101}, 81, 100);
  EXPECT_THAT(Refusal(spec),
              HasSubstr("successive_halving.trials: 101 is not between eta, 3, and budget.max_trials, 100"));
  spec = RungSpec(SuccessiveHalvingOptions{.trials = 2}, 81, 100);
  EXPECT_THAT(Refusal(spec), HasSubstr("successive_halving.trials: 2"));
  spec = RungSpec(SuccessiveHalvingOptions{}, 81, 2);
  EXPECT_THAT(Refusal(spec), HasSubstr("budget.max_trials: 2 is less than eta"));
  spec = RungSpec(AshaOptions{}, 81, 2);
  EXPECT_THAT(Refusal(spec), HasSubstr("budget.max_trials: 2 is less than eta"));
  spec = RungSpec(AshaOptions{}, 81, 100);
  spec.reproducible = true;
  spec.budget.max_parallel = 4;
  EXPECT_THAT(Refusal(spec), HasSubstr("reproducible: does not go with asha"));
  spec = RungSpec(AshaOptions{}, 81, 100);
  CommandObjective command;
  command.argv = {"./train"};
  command.stdout_patterns = {{"loss", "loss=(.*)"}};
  spec.objective = command;
  EXPECT_THAT(Refusal(spec), HasSubstr("stdout_patterns"));
  spec.stopping = MedianStopping{};
  spec.reproducible = true;
  const std::string stopping(ValidateSpec(spec).message());
  EXPECT_THAT(stopping, HasSubstr("stdout_patterns: give one result at the end, but stopping needs reports"));
  EXPECT_THAT(stopping, HasSubstr("reproducible: does not go with stopping"));
}

TEST(RungsValidationTest, TheSamplersOwnViolationsAreThere) {
  EXPECT_THAT(Refusal(RungSpec(AshaOptions{.sampler = GridOptions{.levels = 1}}, 81, 100)),
              HasSubstr("algorithm.asha.sampler.grid.levels"));
}

TEST(RungsValidationTest, OnlyAshaGivesUsersTrialsATarget) {
  EXPECT_EQ(study::FirstTarget(RungSpec(AshaOptions{}, 81, 100)), 1);
  EXPECT_EQ(study::FirstTarget(RungSpec(AshaOptions{.skip_rungs = 2}, 81, 100)), 9);
  EXPECT_EQ(study::FirstTarget(RungSpec(AshaOptions{.variant = AshaVariant::kStop}, 81, 100)), 0);
  EXPECT_EQ(study::FirstTarget(RungSpec(HyperbandOptions{}, 81, 100)), 0);
  EXPECT_EQ(study::FirstTarget(RungSpec(RandomOptions{}, 81, 100)), 0);
}

}  // namespace
}  // namespace luthier::search
