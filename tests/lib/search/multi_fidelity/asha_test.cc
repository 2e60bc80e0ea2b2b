#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/search/multi_fidelity/asha_designer.h"
#include "tests/lib/search/multi_fidelity/rungs_testing.h"

namespace luthier::search {
namespace {

using ::testing::ElementsAre;
using namespace study;
using Answer = RungWorld::Answer;

// At every rung, counted anew from the history: results there, and how many of them went on.
void ExpectWithinBounds(const RungWorld& world, const std::vector<int64_t>& steps, int32_t eta) {
  for (size_t k = 0; k + 1 < steps.size(); ++k) {
    int64_t results = 0;
    int64_t gone_on = 0;
    for (const HistoryTrial& trial : world.study.history().trials()) {
      const bool there = !trial.points.empty() && trial.points.back().step >= steps[k];
      const bool failed = trial.state == TrialState::kFailed && trial.resource >= steps[k];
      results += there || failed ? 1 : 0;
      gone_on += trial.resource > steps[k] ? 1 : 0;
    }
    ASSERT_LE(gone_on, results / eta) << "rung " << k;
  }
}

TEST(AshaTest, FiveHundredWorkersAreNeverIdleAndTheBoundsHold) {
  const int64_t budget = 3000;
  RungWorld world(RungSpec(AshaOptions{}, 81, budget), ExactRank);
  int checked = 0;
  world.on_ask = [&](const absl::StatusOr<Suggestion>& suggestion) {
    const bool room = static_cast<int64_t>(world.study.history().trials().size()) < budget;
    ASSERT_TRUE(suggestion.ok() || !room) << suggestion.status();
    // Every ask costs a pass over the history; the bounds can only break by a promotion.
    if (suggestion.ok() && suggestion->resume && ++checked % 20 == 0) ExpectWithinBounds(world, {1, 3, 9, 27, 81}, 3);
  };
  world.Run(500);
  ExpectWithinBounds(world, {1, 3, 9, 27, 81}, 3);
  EXPECT_EQ(world.study.history().trials().size(), static_cast<size_t>(budget));
  EXPECT_GE(world.With(TrialState::kComplete).size(), 25u);
  for (const auto& [target, numbers] : world.promoted_to) {
    EXPECT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()).size(), numbers.size()) << "twice to " << target;
  }
}

TEST(AshaTest, TheBoundsHoldWithFailuresAndNoise) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    StudySpec spec = RungSpec(AshaOptions{.eta = 2 + static_cast<int32_t>(seed % 3)}, 64, 150);
    spec.seed = seed;
    const std::vector<int64_t> steps = study::BracketsOf(spec).front().steps;
    const int32_t eta = std::get<AshaOptions>(spec.algorithm).eta;
    RungWorld world(spec, [seed](const HistoryTrial& trial, int64_t step) {
      base::RandomStream random(seed, "test/loss", static_cast<uint64_t>(trial.number), static_cast<uint32_t>(step));
      return random.UniformInt(8) == 0 ? std::nan("") : random.Normal();
    });
    world.after_asks = [&] { ExpectWithinBounds(world, steps, eta); };
    world.Run(1 + static_cast<int>(seed) * 3);
  }
}

// One worker that may go on from a rung only when it is full: the sets of successive halving.
TEST(AshaTest, WithPromotionsDeferredItIsSuccessiveHalving) {
  RungWorld asha(RungSpec(AshaOptions{}, 81, 81), ExactRank);
  bool more = true;
  while (more) {
    more = false;
    while (true) {
      const Answer answer = asha.Ask();
      if (answer == Answer::kWait || answer == Answer::kDone) break;
      more = true;
    }
    while (asha.FinishOne()) {
    }
  }
  RungWorld halving(RungSpec(SuccessiveHalvingOptions{}, 81, 81), ExactRank);
  halving.Run(1);
  ASSERT_EQ(asha.promoted_to.size(), 4u);
  for (auto& [target, numbers] : asha.promoted_to) {
    EXPECT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()),
              std::set<int64_t>(halving.promoted_to[target].begin(), halving.promoted_to[target].end()))
        << target;
  }
}

TEST(AshaTest, TheHighestRungGoesFirstAndTheBestOfIt) {
  RungWorld world(RungSpec(AshaOptions{}, 9, 100),
                  [](const HistoryTrial& t, int64_t) { return 100.0 - static_cast<double>(t.number); });
  // One worker: three at rung 0, the best of them on; after nine of those, one of three at rung 1.
  std::vector<std::pair<int64_t, int64_t>> promotions;
  world.on_ask = [&](const absl::StatusOr<Suggestion>& s) {
    if (s.ok() && s->resume) promotions.emplace_back(*s->resume, s->resource);
  };
  for (int i = 0; i < 13; ++i) {
    world.Ask();
    world.FinishOne();
  }
  EXPECT_THAT(promotions, ElementsAre(std::pair(3, 3), std::pair(6, 3), std::pair(9, 3), std::pair(9, 9)));
}

TEST(AshaTest, HigherRungsAndThenOlderTrialsGoFirst) {
  RungWorld world(RungSpec(AshaOptions{}, 9, 100), [](const HistoryTrial&, int64_t) { return 1.0; });
  const auto finish_all = [&] {
    while (world.FinishOne()) {
    }
  };
  for (int i = 0; i < 12; ++i) EXPECT_EQ(world.Ask(), Answer::kSetting);
  finish_all();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.Ask(), Answer::kPromotion);
  finish_all();
  // Now the fourth of twelve may go on, and the first of the three that did.
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(world.promoted_to.at(9), ElementsAre(1));
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(1, 2, 3, 4));
}

TEST(AshaTest, ALateBetterResultWaitsUntilTheRungHasGrown) {
  // 3 results, 1 goes on. Then a better one comes: of 4 still only one may.
  RungWorld world(RungSpec(AshaOptions{}, 3, 100),
                  [](const HistoryTrial& t, int64_t) { return 100.0 - static_cast<double>(t.number); });
  for (int i = 0; i < 3; ++i) world.Ask();
  while (world.FinishOne()) {
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.Ask(), Answer::kSetting);
    while (world.FinishOne()) {
    }
  }
  EXPECT_EQ(world.Ask(), Answer::kPromotion);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(3, 6));
}

TEST(AshaTest, FailedSettingsFillRungsButNeverGoOn) {
  RungWorld world(RungSpec(AshaOptions{}, 3, 9),
                  [](const HistoryTrial& trial, int64_t) { return trial.number == 9 ? 1.0 : std::nan(""); });
  world.Run(2);
  EXPECT_THAT(world.promoted_to.at(3), ElementsAre(9));
  EXPECT_EQ(world.With(TrialState::kFailed).size(), 8u);
}

TEST(AshaTest, SettingsOfUsersTakePart) {
  RungWorld world(RungSpec(AshaOptions{}, 9, 30), [](const HistoryTrial& trial, int64_t) {
    return trial.ask_index ? 1.0 + static_cast<double>(trial.number) : 0.0;
  });
  const int64_t number = world.study.Enqueue({{"x", 0.5}, {"y", 0.5}}, study::FirstTarget(world.spec()));
  world.Begin(number);
  world.Run(2);
  EXPECT_EQ(world.Trial(number).state, TrialState::kComplete);
}

TEST(AshaTest, TrialsWhoseWorkersCannotPauseCount) {
  // They complete instead, with a value for all rungs: the worker finds nothing to wait for, and the study ends.
  const StudySpec spec = RungSpec(AshaOptions{}, 27, 20);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<Suggestion> suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken());
    ASSERT_TRUE(suggestion.ok()) << suggestion.status();
    ASSERT_FALSE(suggestion->resume);
    study.Suggested(*suggestion);
    study.Finish(study.Store(), contract::Complete(i));
  }
  EXPECT_EQ(base::GetReason(designer->Suggest(study.history(), 20, base::StopToken()).status()),
            base::reason::kSpaceExhausted);
}

// They converged to something bad before their target, and need no more training: they may not keep others from it.
TEST(AshaTest, EarlyFinishersHoldASlotOnlyAmongTheBest) {
  const StudySpec spec = RungSpec(AshaOptions{}, 9, 30);
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  const auto next = [&] {
    const Suggestion suggestion = designer->Suggest(study.history(), study.asks(), base::StopToken()).value();
    study.Suggested(suggestion);
    return suggestion;
  };
  for (int i = 0; i < 5; ++i) {
    ASSERT_FALSE(next().resume) << i;
    study.Finish(study.Store(), contract::Complete(100.0 + i));
  }
  ASSERT_FALSE(next().resume) << "of five results the best is complete";
  const int64_t number = study.Store();
  study.Report(number, 1, 10.0);
  study.Pause(number);
  EXPECT_EQ(next().resume, number) << "the best of six, two of which may go on";
}

TEST(AshaTest, TheStopVariantTrainsAllToTheEndByItself) {
  RungWorld world(RungSpec(AshaOptions{.variant = AshaVariant::kStop}, 27, 12), ExactRank);
  EXPECT_EQ(world.Run(4), 0);
  EXPECT_TRUE(world.promoted_to.empty());
  EXPECT_EQ(world.With(TrialState::kComplete).size(), 12u);
  EXPECT_EQ(world.Trial(1).resource, 27);
}

TEST(AshaTest, SkippedRungsBeginHigher) {
  RungWorld world(RungSpec(AshaOptions{.skip_rungs = 2}, 81, 9), ExactRank);
  world.Run(1);
  EXPECT_EQ(world.promoted_to.begin()->first, 27);
  EXPECT_EQ(world.Trial(1).points.front().step, 9);
}

TEST(AshaTest, ARestartChangesNothing) {
  for (const SamplerSpec& sampler : {SamplerSpec(RandomOptions{}), SamplerSpec(BoOptions{.initial_points = 4})}) {
    RungWorld world(RungSpec(AshaOptions{.sampler = sampler}, 9, 40), ExactRank);
    std::vector<std::pair<size_t, Suggestion>> answers;
    world.on_ask = [&](const absl::StatusOr<Suggestion>& living) {
      ExpectSameAfterRestart(world, living);
      if (!living.ok()) return;
      answers.emplace_back(world.study.events(), *living);
    };
    world.Run(4);
    ASSERT_GE(answers.size(), 50u);
    // Asked again about the past.
    for (size_t ask = 0; ask < answers.size(); ask += 7) {
      const auto again = world.designer().Suggest(world.study.Replay(answers[ask].first), ask, base::StopToken());
      ASSERT_TRUE(again.ok());
      ExpectSameSuggestion(*again, answers[ask].second);
    }
  }
}

}  // namespace
}  // namespace luthier::search
