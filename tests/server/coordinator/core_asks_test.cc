// Asks that wait, asks that are sent again, and suggestions that take their time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lib/base/stop_token.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class CoreAsks : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

TEST_F(CoreAsks, AnAskWaitsUntilATrialIsReleased) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const Answered<SuggestReply> ask = h.Ask("s", "b");
  EXPECT_FALSE(ask.ready());
  EXPECT_EQ(h.core->waiting(), 1);
  ASSERT_TRUE(h.Release(grant).ok());
  ASSERT_TRUE(ask.ready());
  EXPECT_THAT(Numbers(*ask.get()), ElementsAre(1));
}

TEST_F(CoreAsks, AnAskThatGetsNothingByItsDeadlineIsToldWhenToAskAgain) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  h.Get("s", "a");
  const Answered<SuggestReply> ask = h.Ask("s", "b", 1, absl::Seconds(30));
  EXPECT_EQ(h.core->NextDeadline(), h.clock.Monotonic() + absl::Seconds(30));
  h.Pass(absl::Seconds(29));
  EXPECT_FALSE(ask.ready());
  h.Pass(absl::Seconds(1));
  ASSERT_TRUE(ask.ready());
  EXPECT_THAT(ask.get()->grants, IsEmpty());
  EXPECT_GT(ask.get()->retry_after, absl::ZeroDuration());
  EXPECT_FALSE(ask.get()->study_done);
}

TEST_F(CoreAsks, AWorkerThatRestsFromAStudyGetsOthers) {
  study::StudySpec told = MakeSpec();
  told.objective = study::ExternalObjective{};
  ASSERT_TRUE(h_.Create("t", MakeSpec()).ok());
  ASSERT_TRUE(h_.Create("external", told).ok());
  const auto ask = [&](const std::string& id, const std::string& request, const std::vector<std::string>& from) {
    SuggestOp op = MakeSuggest(id, "a", 1, request);
    op.deadline = absl::InfiniteDuration();
    for (const std::string& study : from) op.rests.push_back({h_.Study(study).key, absl::Seconds(20)});
    return h_.Ask(std::move(op));
  };
  for (const char* request : {"r1", "r2", "r3"}) {
    const Answered<SuggestReply> any = ask("", request, {"s"});
    ASSERT_TRUE(any.ready());
    ASSERT_THAT(any.get()->grants, SizeIs(1));
    EXPECT_EQ(any.get()->grants[0].study_id, "t");
  }
  EXPECT_FALSE(ask("", "r4", {"s", "t"}).ready());
  // One that names the study is told when to come again, and when there is no need to.
  const Answered<SuggestReply> named = ask("s", "r5", {"s"});
  ASSERT_TRUE(named.ready());
  EXPECT_THAT(named.get()->grants, IsEmpty());
  EXPECT_EQ(named.get()->retry_after, absl::Seconds(20));
  EXPECT_FALSE(named.get()->study_done);
  EXPECT_THAT(ask("s", "r6", {"t"}).get()->grants, SizeIs(1));
  ASSERT_TRUE(h_.Control("t", Control::kCancel).ok());
  EXPECT_TRUE(ask("t", "r7", {"t"}).get()->study_done);
  // Who asks and tells is no machine that can be left out.
  EXPECT_THAT(ask("external", "r8", {"external"}).get()->grants, SizeIs(1));
}

TEST_F(CoreAsks, AnAskOfAFinishedStudyIsToldSoAtOnce) {
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  const Answered<SuggestReply> ask = h_.Ask("s", "a");
  ASSERT_TRUE(ask.ready());
  EXPECT_TRUE(ask.get()->study_done);
}

TEST_F(CoreAsks, AskersAreServedInOrderOfArrival) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const Answered<SuggestReply> first = h.Ask("s", "b");
  const Answered<SuggestReply> second = h.Ask("s", "c");
  ASSERT_TRUE(h.Release(grant).ok());
  EXPECT_TRUE(first.ready());
  EXPECT_FALSE(second.ready());
}

TEST_F(CoreAsks, ACallerThatHungUpGetsNoTrial) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const base::StopSource gone;
  SuggestOp op = MakeSuggest("s", "b");
  op.deadline = absl::InfiniteDuration();
  op.caller_gone = gone.token();
  const Answered<SuggestReply> answer = h.Ask(std::move(op));
  gone.RequestStop();
  ASSERT_TRUE(h.Release(grant).ok());
  ASSERT_TRUE(answer.ready());
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kPending);
}

TEST_F(CoreAsks, AnAskOfAnyStudyTakesTheOneWithTheFewestRunningTrials) {
  study::StudySpec external = MakeSpec();
  external.objective = study::ExternalObjective{};
  ASSERT_TRUE(h_.Create("t", MakeSpec()).ok());
  ASSERT_TRUE(h_.Create("a-notebook", external).ok());
  std::vector<std::string> studies;
  for (int i = 0; i < 4; ++i) studies.push_back(h_.Get("", "w").study_id);
  EXPECT_THAT(studies, ElementsAre("s", "t", "s", "t"));
}

TEST_F(CoreAsks, AsksOfAnyStudyShareOutWorkersByWeight) {
  study::StudySpec heavy = MakeSpec();
  heavy.weight = 3.0;
  study::StudySpec light = MakeSpec();
  light.weight = 0.5;
  ASSERT_TRUE(h_.Create("heavy", heavy).ok());
  ASSERT_TRUE(h_.Create("light", light).ok());
  std::map<std::string, int> running;
  for (int i = 0; i < 9; ++i) ++running[h_.Get("", "w").study_id];
  EXPECT_THAT(running, UnorderedElementsAre(Pair("s", 2), Pair("heavy", 6), Pair("light", 1)));
}

TEST_F(CoreAsks, OneWorkerServesStudiesInTurn) {
  for (const char* id : {"t", "u"}) ASSERT_TRUE(h_.Create(id, MakeSpec()).ok());
  std::vector<std::string> studies;
  for (int i = 0; i < 7; ++i) {
    const Grant grant = h_.Get("", "w");
    studies.push_back(grant.study_id);
    ASSERT_TRUE(h_.Complete(grant, Loss(1.0)).ok());
  }
  EXPECT_THAT(studies, ElementsAre("s", "t", "u", "s", "t", "u", "s"));
}

TEST_F(CoreAsks, AnAskOfAPausedStudyFailsIfTheCallerSaysSo) {
  ASSERT_TRUE(h_.Control("s", Control::kPause).ok());
  SuggestOp op = MakeSuggest("s", "a");
  op.fail_if_paused = true;
  const Answered<SuggestReply> answer = h_.Ask(std::move(op));
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetReason(answer.get().status()), reason::kStudyPaused);
  EXPECT_THAT(std::string(answer.get().status().message()),
              HasSubstr("study \"s\" is paused: paused by a user; `luthier study resume` lets it go on"));
}

// --- Repeated asks ---

TEST_F(CoreAsks, ARepeatedAskGetsTheSameTrialsAndTokensAlsoAfterARestartAndWhenTheyAreFinal) {
  const absl::StatusOr<SuggestReply> first = h_.Suggest("s", "a", 2, "r1");
  ASSERT_THAT(first->grants, SizeIs(2));
  for (int round = 0; round < 3; ++round) {
    const absl::StatusOr<SuggestReply> again = h_.Suggest("s", "a", 2, "r1");
    ASSERT_TRUE(again.ok());
    ASSERT_THAT(again->grants, SizeIs(2));
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(again->grants[i].token, first->grants[i].token);
      EXPECT_EQ(again->grants[i].attempt, 1);
      EXPECT_EQ(again->grants[i].trial.number, first->grants[i].trial.number);
    }
    if (round == 0) {
      ASSERT_TRUE(h_.Complete(first->grants[0], Loss(1)).ok());
    }
    h_.Restart();
  }
  EXPECT_THAT(h_.Rows("s"), SizeIs(2));
}

TEST_F(CoreAsks, ARequestIdUsedForAnotherRequestIsRefused) {
  ASSERT_TRUE(h_.Suggest("s", "a", 1, "r1").ok());
  const absl::StatusOr<SuggestReply> other = h_.Suggest("s", "b", 1, "r1");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetReason(other.status()), reason::kRequestIdReused);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("make a fresh one for each call"));
  EXPECT_EQ(base::GetReason(h_.Enqueue("s", Settings(1), "r1").status()), reason::kRequestIdReused);
  EXPECT_EQ(base::GetReason(h_.Control("s", Control::kPause, "r1").status()), reason::kRequestIdReused);
}

TEST_F(CoreAsks, ARequestIdOfAWaitingAskIsTakenToo) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(2)).ok());
  const Grant grant = h.Get("s", "a");
  ASSERT_TRUE(h.Enqueue("s", Settings(1)).ok());
  ASSERT_EQ(h.Get("s", "a").trial.number, 2);
  const Answered<SuggestReply> ask = h.Ask("s", "b", 1, absl::Seconds(60), "r1");
  EXPECT_EQ(base::GetReason(h.Enqueue("s", Settings(1), "r1").status()), reason::kRequestIdReused);
  EXPECT_EQ(base::GetReason(h.Suggest("s", "c", 1, "r1").status()), reason::kRequestIdReused);
  EXPECT_FALSE(ask.ready());
  ASSERT_TRUE(h.Release(grant).ok());
  EXPECT_TRUE(ask.ready());
}

TEST_F(CoreAsks, AnAskSentAgainWhileTheFirstWaitsTakesItsPlace) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const Answered<SuggestReply> first = h.Ask("s", "b", 1, absl::Seconds(60), "r1");
  const Answered<SuggestReply> second = h.Ask("s", "b", 1, absl::Seconds(60), "r1");
  ASSERT_TRUE(first.ready());
  EXPECT_EQ(first.get().status().code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(h.Release(grant).ok());
  ASSERT_TRUE(second.ready());
  EXPECT_THAT(second.get()->grants, SizeIs(1));
  EXPECT_EQ(first.times(), 1);
}

TEST_F(CoreAsks, RequestIdsAreForgottenAfterADay) {
  const absl::StatusOr<SuggestReply> asked = h_.Suggest("s", "a", 1, "r1");
  ASSERT_TRUE(asked.ok());
  ASSERT_TRUE(h_.Complete(asked->grants[0], Loss(1.0)).ok());
  h_.Pass(absl::Hours(23));
  EXPECT_EQ(h_.Suggest("s", "a", 1, "r1")->grants[0].trial.number, 1);
  h_.Pass(absl::Hours(2));
  EXPECT_EQ(h_.memory.FindRequest("r1").value(), std::nullopt);
}

// --- Suggestions that take their time ---

TEST(CoreLateSuggestions, ARetryDoesNotWaitForSuggestionsThatOthersWaitFor) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  h.Get("s", "b");
  h.late_suggestions = true;
  ASSERT_TRUE(h.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  const Answered<SuggestReply> first = h.Ask("s", "a");  // Not the trial it failed at: waits for a new one.
  EXPECT_FALSE(first.ready());
  const Answered<SuggestReply> second = h.Ask("s", "b");
  ASSERT_TRUE(second.ready());
  EXPECT_THAT(Numbers(*second.get()), ElementsAre(1));
}

TEST(CoreLateSuggestions, AtItsDeadlineAnAskGetsWhatThereIs) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Enqueue("s", Settings(1)).ok());
  h.late_suggestions = true;
  const Answered<SuggestReply> ask = h.Ask("s", "a", 3, absl::Seconds(5));
  EXPECT_FALSE(ask.ready());
  h.Pass(absl::Seconds(5));
  ASSERT_TRUE(ask.ready());
  EXPECT_THAT(Numbers(*ask.get()), ElementsAre(1));
}

TEST(CoreLateSuggestions, ASuggestionWhoseCallerHasGoneIsGivenToTheNext) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  EXPECT_THAT(h.Suggest("s", "a")->grants, IsEmpty());
  std::vector<Operation> operations;
  operations.push_back(h.ComputeOne().value());
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  const Answered<SuggestReply> next = h.Ask("s", "b");
  ASSERT_TRUE(next.ready());
  EXPECT_EQ(next.get()->grants[0].trial.provenance.ask_index, 0u);
}

TEST(CoreLateSuggestions, OneAskOfAStudyIsComputedAtATime) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Answered<SuggestReply> first = h.Ask("s", "a", 2);
  const Answered<SuggestReply> second = h.Ask("s", "b", 3);
  std::optional<ProposalsOp> proposals = h.ComputeOne();
  ASSERT_TRUE(proposals);
  EXPECT_THAT(proposals->suggestions, SizeIs(2));
  EXPECT_FALSE(h.ComputeOne());
  std::vector<Operation> operations;
  operations.push_back(*std::move(proposals));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  EXPECT_TRUE(first.ready());
  proposals = h.ComputeOne();
  ASSERT_TRUE(proposals);
  EXPECT_EQ(proposals->first_ask_index, 2u);
  EXPECT_THAT(proposals->suggestions, SizeIs(3));
}

TEST(CoreLateSuggestions, AsksOfAnyStudyBeyondOneRequestGoToTheNextStudy) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Create("t", MakeSpec()).ok());
  std::vector<Answered<SuggestReply>> asks;
  for (int i = 0; i < 66; ++i) asks.push_back(h.Ask("", "w"));
  EXPECT_EQ(h.ComputeOne()->suggestions.size(), 1u);  // For the first ask, which came alone.
  EXPECT_EQ(h.ComputeOne()->study, 2);                // For the 65th: 64 wait for s.
  EXPECT_FALSE(h.ComputeOne());
  EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
}

TEST(CoreLateSuggestions, AnAskThatAStudyComputesForTakesWhatOneBeforeItHas) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Create("t", MakeSpec()).ok());
  h.Get("s", "a");
  ASSERT_TRUE(h.Control("t", Control::kPause).ok());
  h.late_suggestions = true;
  const Answered<SuggestReply> first = h.Ask("", "b");
  const Answered<SuggestReply> second = h.Ask("", "c");
  EXPECT_EQ(h.ComputeOne()->study, 1);  // Its answer is lost.
  ASSERT_TRUE(h.Enqueue("t", Settings(1)).ok());
  EXPECT_FALSE(first.ready());
  ASSERT_TRUE(h.Control("t", Control::kResume).ok());
  ASSERT_TRUE(first.ready());
  EXPECT_EQ(first.get()->grants.at(0).study_id, "t");
  EXPECT_FALSE(second.ready());
  EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
}

TEST(CoreLateSuggestions, AnAskThatIsToldToComeAgainFindsWhatWasComputedForIt) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Create("t", MakeSpec()).ok());
  h.late_suggestions = true;
  // Of any study: whichever answers first.
  EXPECT_THAT(h.Suggest("", "a")->grants, IsEmpty());
  for (const storage::StudyKey study : {1, 2}) {
    std::optional<ProposalsOp> proposals = h.ComputeOne();
    ASSERT_TRUE(proposals);
    EXPECT_EQ(proposals->study, study);
    std::vector<Operation> operations;
    operations.push_back(*std::move(proposals));
    ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  }
  EXPECT_FALSE(h.ComputeOne());
  EXPECT_THAT(h.Suggest("", "a")->grants, SizeIs(1));
  EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
}

TEST(CoreLateSuggestions, SuggestionsForAStudyThatWasStoppedOrDeletedAreDropped) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  h.Ask("s", "a");
  ASSERT_TRUE(h.Control("s", Control::kStop).ok());
  std::vector<Operation> operations;
  operations.push_back(h.ComputeOne().value());
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  EXPECT_THAT(h.Rows("s"), IsEmpty());
}

TEST(CoreLateSuggestions, AStudyWhoseSettingsAreAllTriedCompletes) {
  Harness h;
  study::StudySpec spec = MakeSpec();
  study::ParameterSpec b;
  b.name = "b";
  b.domain = study::BoolSwitch{};
  spec.space = study::SearchSpace::Create({b}).value();
  spec.algorithm = study::GridOptions{};
  ASSERT_TRUE(h.Create("s", spec).ok());
  const absl::StatusOr<SuggestReply> both = h.Suggest("s", "a", 5);
  ASSERT_THAT(both->grants, SizeIs(2));
  EXPECT_NE(both->grants[0].trial.parameters, both->grants[1].trial.parameters);
  ASSERT_TRUE(h.Complete(both->grants[0], Loss(1)).ok());
  EXPECT_EQ(h.Study("s").state, study::StudyState::kActive);
  ASSERT_TRUE(h.Complete(both->grants[1], Loss(2)).ok());
  EXPECT_EQ(h.Study("s").state, study::StudyState::kCompleted);
  EXPECT_EQ(h.Study("s").state_reason, "every setting has been tried");
}

}  // namespace
}  // namespace luthier::coordinator::testing
