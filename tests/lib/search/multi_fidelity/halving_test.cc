#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/search/multi_fidelity/halving_designer.h"
#include "tests/lib/search/multi_fidelity/rungs_testing.h"

namespace luthier::search {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;
using namespace study;
using Answer = RungWorld::Answer;

std::map<int64_t, std::set<int64_t>> AsSets(const std::map<int64_t, std::vector<int64_t>>& promoted) {
  std::map<int64_t, std::set<int64_t>> sets;
  for (const auto& [target, numbers] : promoted) {
    sets[target] = {numbers.begin(), numbers.end()};
    EXPECT_EQ(sets[target].size(), numbers.size()) << "promoted twice to " << target;
  }
  return sets;
}

// Successive halving as the textbook has it: whole rungs, one after the other. Trials first … first + sizes[0] - 1.
void Textbook(const study::Bracket& bracket, int64_t first, const RungWorld::Loss& loss,
              std::map<int64_t, std::set<int64_t>>* promoted) {
  std::vector<int64_t> rung;
  for (int64_t i = 0; i < bracket.sizes[0]; ++i) rung.push_back(first + i);
  for (size_t i = 0; i + 1 < bracket.steps.size(); ++i) {
    std::vector<std::pair<double, int64_t>> ranked;
    for (const int64_t number : rung) {
      HistoryTrial trial;
      trial.number = number;
      const double value = loss(trial, bracket.steps[i]);
      if (std::isfinite(value)) ranked.emplace_back(value, number);
    }
    std::sort(ranked.begin(), ranked.end());
    rung.clear();
    for (size_t k = 0; k < std::min(ranked.size(), static_cast<size_t>(bracket.sizes[i + 1])); ++k) {
      rung.push_back(ranked[k].second);
      (*promoted)[bracket.steps[i + 1]].insert(ranked[k].second);
    }
    std::sort(rung.begin(), rung.end());
  }
}

// Ranks change between rungs, some values tie, and some settings fail somewhere.
double Unsteady(const HistoryTrial& trial, int64_t step) {
  base::RandomStream random(4, "test/loss", static_cast<uint64_t>(trial.number), static_cast<uint32_t>(step));
  if (random.UniformInt(10) == 0) return std::nan("");
  return static_cast<double>(random.UniformInt(20));
}

TEST(HalvingTest, PromotesWhatTheTextbookPromotesWhateverTheWorkers) {
  for (const auto& loss : {RungWorld::Loss(ExactRank), RungWorld::Loss(Unsteady)}) {
    for (const int workers : {1, 4, 30, 200}) {
      const AlgorithmSpec algorithms[] = {SuccessiveHalvingOptions{}, SuccessiveHalvingOptions{.eta = 2, .trials = 21},
                                          HyperbandOptions{}};
      for (const AlgorithmSpec& algorithm : algorithms) {
        SCOPED_TRACE(testing::Message() << AlgorithmName(algorithm) << " " << workers);
        StudySpec spec = RungSpec(algorithm, 27, 1000);
        const std::vector<study::Bracket> brackets = study::BracketsOf(spec);
        std::map<int64_t, std::set<int64_t>> expected;
        int64_t settings = 0;
        for (int round = 0; round < 2; ++round) {
          for (const study::Bracket& bracket : brackets) {
            Textbook(bracket, settings + 1, loss, &expected);
            settings += bracket.sizes[0];
          }
        }
        spec.budget.max_trials = settings;
        RungWorld world(spec, loss);
        world.Run(workers);
        EXPECT_EQ(static_cast<int64_t>(world.study.history().trials().size()), settings);
        EXPECT_EQ(AsSets(world.promoted_to), expected);
        EXPECT_EQ(world.Ask(), Answer::kDone);
      }
    }
  }
}

TEST(HalvingTest, TheBestOfABracketIsTrainedToTheEnd) {
  RungWorld world(RungSpec(SuccessiveHalvingOptions{}, 81, 81), ExactRank);
  world.Run(6);
  int64_t best = 1;
  for (int64_t number = 1; number <= 81; ++number) {
    if (ExactRank(world.Trial(number), 1) < ExactRank(world.Trial(best), 1)) best = number;
  }
  EXPECT_THAT(world.With(TrialState::kComplete), ElementsAre(best));
  EXPECT_EQ(world.training, study::TrainingOf(study::BracketsOf(world.spec()).front(), /*checkpoints=*/true));
  EXPECT_EQ(world.With(TrialState::kPaused).size(), 80u);
}

TEST(HalvingTest, NobodyWaitsWhileTheBudgetHasRoom) {
  RungWorld world(RungSpec(HyperbandOptions{}, 81, 400), ExactRank);
  int waits_with_room = 0;
  world.on_ask = [&](const absl::StatusOr<Suggestion>& suggestion) {
    const bool room = world.study.history().trials().size() < 400;
    waits_with_room += room && !suggestion.ok() ? 1 : 0;
  };
  world.Run(50);
  EXPECT_EQ(waits_with_room, 0);
}

TEST(HalvingTest, TheFirstBracketThatCanGoesOnFirst) {
  // Two brackets of 3; both rungs complete before anybody asks again.
  RungWorld world(RungSpec(SuccessiveHalvingOptions{}, 3, 6), ExactRank);
  std::vector<double> brackets;
  world.on_ask = [&](const absl::StatusOr<Suggestion>& suggestion) {
    if (suggestion.ok()) brackets.push_back(suggestion->details.at("bracket"));
  };
  for (int i = 0; i < 6; ++i) EXPECT_EQ(world.Ask(), Answer::kSetting);
  while (world.FinishOne()) {
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kDone);
  EXPECT_THAT(brackets, ElementsAre(0, 0, 0, 1, 1, 1, 0, 1));
}

TEST(HalvingTest, ABracketThatTheBudgetCutsShortStillTrainsOneToTheEnd) {
  // 81 and 4 settings.
  RungWorld world(RungSpec(SuccessiveHalvingOptions{}, 81, 85), ExactRank);
  world.Run(10);
  const std::vector<int64_t> complete = world.With(TrialState::kComplete);
  ASSERT_EQ(complete.size(), 2u);
  EXPECT_GT(complete[1], 81);
}

TEST(HalvingTest, SettingsOfUsersBelongToNoBracket) {
  RungWorld world(RungSpec(SuccessiveHalvingOptions{}, 9, 11), ExactRank);
  for (int i = 0; i < 4; ++i) world.Ask();
  const int64_t number = world.study.Enqueue({{"x", 0.5}, {"y", 0.5}});
  world.Begin(number);
  world.Run(3);
  EXPECT_EQ(world.study.history().trials().size(), 11u);
  EXPECT_EQ(world.Trial(number).state, TrialState::kComplete);
  // Nine make a bracket, the eleventh trial begins another and goes through alone.
  EXPECT_EQ(world.promoted_to.at(9).size(), 2u);
}

TEST(HalvingTest, SuggestionsThatFindNoRoomAreNotWaitedFor) {
  StudySpec spec = RungSpec(SuccessiveHalvingOptions{.trials = 3}, 3, 4);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  for (int i = 0; i < 3; ++i) {
    study.Suggested(*designer->Suggest(study.history(), study.asks(), base::StopToken()));
    if (i < 2) study.Store();
  }
  study.Enqueue({{"x", 0.1}, {"y", 0.1}});  // Two users take the rest of the budget.
  study.Enqueue({{"x", 0.2}, {"y", 0.2}});
  for (int64_t number = 1; number <= 2; ++number) {
    study.Report(number, 1, 1.0);
    study.Pause(number);
  }
  const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
  ASSERT_TRUE(suggestion.ok()) << suggestion.status();
  EXPECT_EQ(suggestion->resume, 1);
}

TEST(HalvingTest, TrialsWhoseWorkersCannotPauseTakeTheirPlaces) {
  // Nine settings all run to the end: nothing is continued, nobody waits, and another bracket begins.
  RungWorld world(RungSpec(SuccessiveHalvingOptions{.trials = 9}, 9, 18), ExactRank);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(world.Ask(), Answer::kSetting);
  for (int64_t number = 1; number <= 8; ++number) world.study.Finish(number, contract::Complete(1.0));
  // The ninth pauses; it is the best.
  world.study.Report(9, 1, 0.5);
  world.study.Pause(9);
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.promoted_to.at(3), std::vector<int64_t>{9});
}

TEST(HalvingTest, ACompletedTrialAmongTheBestLeavesOnePlaceLess) {
  RungWorld world(RungSpec(SuccessiveHalvingOptions{.trials = 9}, 9, 9), ExactRank);
  for (int i = 0; i < 9; ++i) world.Ask();
  world.study.Finish(5, contract::Complete(0.1));
  for (int64_t number = 1; number <= 9; ++number) {
    if (number == 5) continue;
    world.study.Report(number, 1, static_cast<double>(number));
    world.study.Pause(number);
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kWait);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(1, 2));
}

TEST(HalvingTest, ARungIsIncompleteWhileATrialIsAboutToPause) {
  // Trial 1 has reported at the first rung and will go on once it has paused. Until then the second rung has two of its
  // three, and neither goes on.
  RungWorld world(RungSpec(SuccessiveHalvingOptions{.trials = 9}, 9, 9), ExactRank);
  for (int i = 0; i < 9; ++i) world.Ask();
  for (int64_t number = 1; number <= 9; ++number) {
    world.study.Report(number, 1, static_cast<double>(number));
    if (number > 1) world.study.Pause(number);
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(2, 3));
  for (const int64_t number : {2, 3}) {
    world.study.Report(number, 3, 1.0);
    world.study.Pause(number);
  }
  EXPECT_EQ(world.Ask(), Answer::kWait);
  world.study.Pause(1);
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.promoted_to.at(3).back(), 1);
}

TEST(HalvingTest, ABracketOfFailuresEnds) {
  const auto fails = [](const HistoryTrial&, int64_t) { return std::nan(""); };
  RungWorld world(RungSpec(HyperbandOptions{}, 9, 40), fails);
  EXPECT_GT(world.Run(3), 0);
  EXPECT_EQ(world.With(TrialState::kFailed).size(), 40u);
}

TEST(HalvingTest, CancelledTrialsAreNotWaitedFor) {
  RungWorld world(RungSpec(SuccessiveHalvingOptions{.trials = 3}, 3, 3), ExactRank);
  for (int i = 0; i < 3; ++i) world.Ask();
  world.study.Finish(1, contract::Cancelled());
  for (int64_t number = 2; number <= 3; ++number) {
    world.study.Report(number, 1, static_cast<double>(number));
    world.study.Pause(number);
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_EQ(world.Ask(), Answer::kDone);
}

TEST(HalvingTest, WhenTheSamplerHasNoMoreTheRestIsFinished) {
  // A grid of four settings; brackets of three.
  StudySpec spec = RungSpec(SuccessiveHalvingOptions{.trials = 3, .sampler = GridOptions{.levels = 2}}, 3, 100);
  RungWorld world(spec, ExactRank);
  world.Run(2);
  EXPECT_EQ(world.study.history().trials().size(), 4u);
  EXPECT_EQ(world.With(TrialState::kComplete).size(), 2u);
  EXPECT_EQ(world.Ask(), Answer::kDone);
}

TEST(HalvingTest, ARestartChangesNothing) {
  for (const AlgorithmSpec& algorithm :
       {AlgorithmSpec(HyperbandOptions{}),
        AlgorithmSpec(SuccessiveHalvingOptions{.trials = 9, .sampler = BoOptions{.initial_points = 4}})}) {
    RungWorld world(RungSpec(algorithm, 9, 40), Unsteady);
    int asks = 0;
    world.on_ask = [&](const absl::StatusOr<Suggestion>& living) {
      ++asks;
      ExpectSameAfterRestart(world, living);
    };
    world.Run(4);
    EXPECT_GE(asks, 50);
  }
}

}  // namespace
}  // namespace luthier::search
