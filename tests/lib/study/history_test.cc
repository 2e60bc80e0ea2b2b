#include "lib/study/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/random.h"

namespace luthier::study {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HistoryTrial Stored(int64_t number, std::optional<uint64_t> ask_index) {
  HistoryTrial trial;
  trial.number = number;
  trial.ask_index = ask_index;
  trial.parameters = {{"x", static_cast<double>(number)}};
  return trial;
}

std::vector<int64_t> Numbers(const History& history) {
  std::vector<int64_t> numbers;
  for (const HistoryTrial& trial : history.trials()) numbers.push_back(trial.number);
  return numbers;
}

TEST(HistoryTest, SuggestionsFollowTheStoredTrialsInOrderOfTheirAsk) {
  History history;
  history.AddStored(Stored(1, 0));
  history.AddSuggested(3, {{"x", 3.0}}, "c3");
  history.AddSuggested(1, {{"x", 1.0}}, "c1");
  history.AddSuggested(2, {{"x", 2.0}}, "c2");
  EXPECT_THAT(Numbers(history), ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(history.trials()[1].ask_index, 1u);
  EXPECT_EQ(history.trials()[3].designer_state, "c3");
  EXPECT_TRUE(history.trials()[2].open());
}

TEST(HistoryTest, AStoredTrialReplacesItsSuggestion) {
  History history;
  history.AddSuggested(0, {}, "");
  history.AddSuggested(1, {}, "");
  history.AddStored(Stored(1, 1));
  EXPECT_THAT(Numbers(history), ElementsAre(1, 0));
  EXPECT_EQ(history.trials()[1].ask_index, 0u);
  history.AddStored(Stored(2, std::nullopt));
  EXPECT_THAT(Numbers(history), ElementsAre(1, 2, 0));
  history.AddStored(Stored(3, 0));
  EXPECT_THAT(Numbers(history), ElementsAre(1, 2, 3));
}

TEST(HistoryTest, ARemovedTrialLooksCancelled) {
  History history;
  history.AddStored(Stored(1, 0));
  history.AddStored(Stored(2, 1));
  history.Report(1, 1, 0.5);
  history.Finish(1, TrialState::kComplete, 2.0, std::nullopt, std::nullopt, "w", 1);
  history.Finish(2, TrialState::kFailed, std::nullopt, std::nullopt, FailureKind::kConfig, "v");
  history.Remove(1);
  history.Remove(2);
  for (const HistoryTrial& trial : history.trials()) {
    EXPECT_EQ(trial.state, TrialState::kCancelled);
    EXPECT_FALSE(trial.value || trial.failure || trial.gradient);
    EXPECT_THAT(trial.points, IsEmpty());
  }
  EXPECT_THAT(history.finished(), ElementsAre(0, 1)) << "the log is as it was";
  EXPECT_EQ(history.trials()[1].reporter, 1) << "workers keep their numbers";
}

TEST(HistoryTest, FinishedTrialsAreListedInLogOrder) {
  History history;
  for (int i = 1; i <= 3; ++i) history.AddStored(Stored(i, static_cast<uint64_t>(i - 1)));
  EXPECT_THAT(history.finished(), IsEmpty());
  history.Finish(3, TrialState::kComplete, 0.5, std::nullopt, std::nullopt);
  history.Finish(1, TrialState::kFailed, std::nullopt, std::nullopt, FailureKind::kConfig);
  EXPECT_THAT(history.finished(), ElementsAre(2, 0));
  EXPECT_EQ(history.trials()[2].value, 0.5);
  EXPECT_EQ(history.trials()[0].failure, FailureKind::kConfig);
  EXPECT_TRUE(history.trials()[1].open());
}

TEST(HistoryTest, TheLastAskBeforeIsTheLargestSmallerOne) {
  History history;
  EXPECT_EQ(history.LastAskBefore(5), nullptr);
  history.AddStored(Stored(1, 1));
  history.AddStored(Stored(2, 0));
  history.AddStored(Stored(3, std::nullopt));
  history.AddSuggested(2, {}, "third");
  EXPECT_EQ(history.LastAskBefore(0), nullptr);
  EXPECT_EQ(history.LastAskBefore(1)->number, 2);
  EXPECT_EQ(history.LastAskBefore(2)->number, 1);
  EXPECT_EQ(history.LastAskBefore(100)->designer_state, "third");
}

TEST(ReproducibleViewTest, WithOneWorkerItIsEverything) {
  History history;
  EXPECT_TRUE(history.ReproducibleView(1).has_value());
  history.AddStored(Stored(1, 0));
  EXPECT_FALSE(history.ReproducibleView(1).has_value());
  history.Finish(1, TrialState::kComplete, 0.5, std::nullopt, std::nullopt);
  const std::optional<History> view = history.ReproducibleView(1);
  ASSERT_TRUE(view.has_value());
  EXPECT_THAT(view->finished(), ElementsAre(0));
  EXPECT_EQ(view->trials()[0].value, 0.5);
}

TEST(ReproducibleViewTest, HidesResultsThatAnotherRunMightNotHaveYet) {
  History history;
  for (int i = 1; i <= 4; ++i) history.AddStored(Stored(i, static_cast<uint64_t>(i - 1)));
  history.AddSuggested(4, {}, "");
  history.Finish(4, TrialState::kPruned, 4.0, Gradient{{1.0}, {}, 0.0, {}}, std::nullopt);
  history.Finish(2, TrialState::kComplete, 2.0, std::nullopt, std::nullopt);
  // Five trials and three workers: results of 1 … 3 count.
  EXPECT_FALSE(history.ReproducibleView(3).has_value());
  history.Finish(1, TrialState::kComplete, 1.0, std::nullopt, std::nullopt);
  EXPECT_FALSE(history.ReproducibleView(3).has_value());
  history.Finish(3, TrialState::kFailed, std::nullopt, std::nullopt, FailureKind::kConfig);
  const std::optional<History> view = history.ReproducibleView(3);
  ASSERT_TRUE(view.has_value());
  EXPECT_THAT(view->finished(), ElementsAre(0, 1, 2));
  EXPECT_EQ(view->trials()[3].state, TrialState::kPending);
  EXPECT_FALSE(view->trials()[3].value.has_value());
  EXPECT_FALSE(view->trials()[3].gradient.has_value());
  EXPECT_EQ(view->trials().size(), 5u);
  EXPECT_EQ(history.trials()[3].value, 4.0);  // The history itself is untouched.
}

TEST(ReproducibleViewTest, DoesNotDependOnTheOrderOfFinishing) {
  constexpr int kTrials = 12;
  constexpr int kParallel = 4;
  std::vector<std::string> logs;
  for (uint64_t order = 0; order < 50; ++order) {
    base::RandomStream random(order, "test/order");
    History history;
    std::vector<int64_t> running;
    std::string log;
    for (int i = 1; i <= kTrials; ++i) {
      // Finish trials in random order until there is a free worker and the view is there.
      std::optional<History> view = history.ReproducibleView(kParallel);
      while (static_cast<int>(running.size()) == kParallel || !view) {
        const size_t k = random.UniformInt(running.size());
        const int64_t number = running[k];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(k));
        history.Finish(number, TrialState::kComplete, 10.0 * static_cast<double>(number), std::nullopt, std::nullopt);
        view = history.ReproducibleView(kParallel);
      }
      for (const int index : view->finished()) log += std::to_string(*view->trials()[index].value) + " ";
      log += "| " + std::to_string(view->trials().size()) + "\n";
      history.AddStored(Stored(i, static_cast<uint64_t>(i - 1)));
      running.push_back(i);
    }
    logs.push_back(log);
  }
  for (const std::string& log : logs) EXPECT_EQ(log, logs[0]);
  EXPECT_THAT(logs[0], ::testing::HasSubstr("10.000000"));
}

TEST(HistoryTest, CurvesAscendAndNewerValuesReplaceOlderOnes) {
  History history;
  history.AddStored(Stored(1, 0));
  history.Report(1, 4, 0.4);
  history.Report(1, 2, 0.2);
  history.Report(1, 9, 0.9);
  history.Report(1, 4, 0.5);
  EXPECT_THAT(history.trials()[0].points, ElementsAre(CurvePoint{2, 0.2}, CurvePoint{4, 0.5}, CurvePoint{9, 0.9}));
}

TEST(HistoryTest, TrialsSettleWhenTheyFirstPauseOrEnd) {
  History history;
  for (int64_t number = 1; number <= 4; ++number) history.AddStored(Stored(number, static_cast<uint64_t>(number - 1)));
  const auto finish = [&](int64_t number) {
    history.Finish(number, TrialState::kComplete, 1.0, std::nullopt, std::nullopt);
  };
  history.Pause(3);
  finish(1);
  history.Resume(4, 3, 9);
  history.Pause(3);
  history.Pause(4);
  finish(3);
  EXPECT_THAT(history.settled(), ElementsAre(2, 0, 3));
  EXPECT_THAT(history.finished(), ElementsAre(0, 2));
  finish(2);
  finish(4);
  EXPECT_THAT(history.settled(), ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(history.ReproducibleView(1)->settled(), ElementsAre(0, 1, 2, 3));
}

TEST(HistoryTest, APausedTrialIsOpenAndGoesOnWithAHigherTarget) {
  History history;
  HistoryTrial first = Stored(1, 0);
  first.resource = 3;
  history.AddStored(first);
  history.Pause(1);
  EXPECT_EQ(history.trials()[0].state, TrialState::kPaused);
  EXPECT_TRUE(history.trials()[0].open());
  History replayed = history;
  history.AddSuggestedResume(1, 1, 9);
  EXPECT_EQ(history.trials()[0].state, TrialState::kPending);
  EXPECT_EQ(history.trials()[0].resource, 9);
  history.Resume(1, 1, 9);  // What was suggested is stored: nothing changes.
  replayed.Resume(1, 1, 9);
  EXPECT_EQ(replayed.trials()[0].state, history.trials()[0].state);
  EXPECT_EQ(replayed.trials()[0].resource, history.trials()[0].resource);
  history.Finish(1, TrialState::kComplete, 0.5, std::nullopt, std::nullopt);
  EXPECT_EQ(history.trials()[0].value, 0.5);
}

TEST(HistoryTest, WorkersAreNumberedByTheirFirstResult) {
  History history;
  for (int i = 1; i <= 6; ++i) history.AddStored(Stored(i, static_cast<uint64_t>(i - 1)));
  const auto finish = [&](int64_t number, const std::string& worker) {
    history.Finish(number, TrialState::kComplete, 1.0, std::nullopt, std::nullopt, worker);
    return history.trials()[static_cast<size_t>(number - 1)].reporter;
  };
  EXPECT_EQ(finish(4, "zoe"), 0);
  EXPECT_EQ(finish(1, "adam"), 1);
  EXPECT_EQ(finish(2, "zoe"), 0);
  EXPECT_EQ(finish(6, ""), 0);  // Nobody's.
  EXPECT_EQ(finish(3, "eve"), 2);
  History copy = history;
  copy.Finish(5, TrialState::kPruned, std::nullopt, std::nullopt, std::nullopt, "adam");
  EXPECT_EQ(copy.trials()[4].reporter, 1);
  const std::optional<History> view = copy.ReproducibleView(1);
  ASSERT_TRUE(view.has_value());
  for (const HistoryTrial& trial : view->trials()) EXPECT_EQ(trial.reporter, 0);
}

}  // namespace
}  // namespace luthier::study
