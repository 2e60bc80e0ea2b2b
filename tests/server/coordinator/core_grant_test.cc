// Who gets which trial, leases and time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using storage::EventType;
using study::TrialState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace reason = base::reason;

const absl::Duration kTtl = absl::Seconds(60);

std::vector<NewTrial> Settings(int count) {
  std::vector<NewTrial> trials(static_cast<size_t>(count));
  for (NewTrial& trial : trials) trial.parameters["x"] = 0.25;
  return trials;
}

class CoreGrant : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

TEST_F(CoreGrant, AFreshSuggestionIsStoredAndGrantedInOneTransaction) {
  const Grant grant = h_.Get("s", "w");
  EXPECT_EQ(grant.trial.number, 1);
  EXPECT_EQ(grant.attempt, 1);
  EXPECT_EQ(grant.token.size(), 16u);
  const storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial, grant.trial);
  EXPECT_EQ(row.trial.state, TrialState::kRunning);
  EXPECT_EQ(row.grants.back().token, grant.token);
  EXPECT_EQ(row.trial.provenance.designer, "random");
  EXPECT_EQ(row.trial.provenance.ask_index, 0u);
  EXPECT_EQ(h_.memory.LastFence().value(), FenceOf(grant.token));
  std::vector<EventType> types;
  for (const storage::Event& event : h_.Events("s")) types.push_back(event.type);
  EXPECT_THAT(types, ElementsAre(EventType::kStudyCreated, EventType::kTrialSuggested, EventType::kTrialGranted));
  EXPECT_EQ(h_.Events("s").back().actor, "w");
}

TEST_F(CoreGrant, RetriesComeFirstOldestFirstThenEnqueuedTrialsThenSuggestions) {
  const Grant first = h_.Get("s", "a");
  const Grant second = h_.Get("s", "a");
  const Grant third = h_.Get("s", "a");
  ASSERT_TRUE(h_.Enqueue("s", Settings(1)).ok());  // Trial 4.
  ASSERT_TRUE(h_.Release(third).ok());             // PENDING again.
  ASSERT_TRUE(h_.Release(first).ok());
  h_.Pass(kTtl);  // The lease of trial 2 ends.
  const absl::StatusOr<SuggestReply> reply = h_.Suggest("s", "b", 6);
  ASSERT_TRUE(reply.ok());
  EXPECT_THAT(Numbers(*reply), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reply->grants[0].attempt, 2);
  EXPECT_EQ(reply->grants[1].attempt, 2);
  EXPECT_EQ(reply->grants[3].trial.provenance.origin, "enqueued");
}

TEST_F(CoreGrant, ARetryGoesToAnotherWorkerIfOneAskedWithinATtl) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);  // There is another worker.
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 3);  // Not the one it just failed at.
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, ARetryGoesBackToTheSameWorkerWhenNobodyElseAsks) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);
}

TEST_F(CoreGrant, ARetryGoesBackToTheSameWorkerAfterATtl) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  h_.Pass(kTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "a").trial.number, 3);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);
}

TEST_F(CoreGrant, AReleasedTrialGoesToAnyone) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Release(grant).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);  // Its worker was started again, say.
}

TEST_F(CoreGrant, AnExpiredLeaseGoesToTheNextWorker) {
  const Grant lost = h_.Get("s", "a");
  h_.Pass(kTtl - absl::Nanoseconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.Pass(absl::Nanoseconds(1));
  const Grant again = h_.Get("s", "b");
  EXPECT_EQ(again.trial.number, 1);
  EXPECT_EQ(again.attempt, 2);
  EXPECT_EQ(again.trial.parameters, lost.trial.parameters);
  EXPECT_EQ(again.trial.attempts[0].outcome, study::AttemptOutcome::kExpired);
  EXPECT_THAT(h_.Heartbeat("a", {lost.token}), ElementsAre(Directive::kLost));
  EXPECT_THAT(h_.Heartbeat("b", {again.token}), ElementsAre(Directive::kContinue));
}

TEST_F(CoreGrant, HeartbeatsKeepALeaseForEver) {
  const Grant grant = h_.Get("s", "a");
  for (int i = 0; i < 20; ++i) {
    h_.Pass(kTtl / 3);
    EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kContinue));
  }
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  EXPECT_THAT(h_.Events("s", EventType::kTrialResumed), IsEmpty());  // Renewals are not stored.
}

TEST_F(CoreGrant, TheLateHolderOfAnExpiredLeaseMayTakeItBackByAHeartbeat) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(2 * kTtl);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kContinue));
  EXPECT_THAT(h_.Events("s", EventType::kTrialResumed), SizeIs(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
}

TEST_F(CoreGrant, TheLateHolderOfAnExpiredLeaseMayComplete) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(10 * kTtl);
  const absl::StatusOr<FinishReply> reply = h_.Complete(grant, Loss(0.5));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->state, TrialState::kComplete);
}

TEST_F(CoreGrant, AStopSparesAHolderWhoseBeatCameBesideTheWriter) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kTtl);                                                              // Seen to have expired …
  h_.leases->Renew({grant.token}, h_.clock.Monotonic(), /*take_back=*/true);  // … and renewed in memory a moment later.
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  EXPECT_TRUE(h_.Complete(grant, Loss(0.5)).ok());
}

TEST_F(CoreGrant, AReportTakesAnExpiredLeaseBack) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kTtl);
  ASSERT_TRUE(h_.Report(grant, {Loss(1.0, 1)}).ok());
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.Pass(kTtl);
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, AHeartbeatWithTokensOfMixedFatesAnswersEach) {
  const Grant cancelled = h_.Get("s", "a");
  const Grant expired = h_.Get("s", "a");
  ASSERT_TRUE(h_.CancelTrial("s", 1).ok());
  h_.Pass(kTtl / 2);
  const Grant live = h_.Get("s", "a");
  h_.Pass(kTtl / 2);
  EXPECT_THAT(
      h_.Heartbeat("a", {cancelled.token, expired.token, live.token, std::string(16, 'x'), ""}),
      ElementsAre(Directive::kStop, Directive::kContinue, Directive::kContinue, Directive::kLost, Directive::kLost));
}

TEST_F(CoreGrant, TheLastPermittedAttemptGetsTenTimesTheTtl) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const Grant grant = h_.Get("s", "w" + std::to_string(attempt));
    ASSERT_EQ(grant.trial.number, 1);
    ASSERT_EQ(grant.attempt, attempt);
    const absl::Duration ttl = *h_.leases->Deadline(grant.token) - h_.clock.Monotonic();
    EXPECT_EQ(ttl, attempt < 3 ? kTtl : 10 * kTtl);
    if (attempt < 3) h_.Pass(kTtl);
  }
  h_.Pass(10 * kTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Seconds(1));
  const storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kFailed);
  EXPECT_EQ(row.trial.failure->reason, study::failure::kAttemptsExhausted);
  EXPECT_EQ(row.trial.failure->kind, study::FailureKind::kConfig);
  EXPECT_THAT(row.trial.failure->message, HasSubstr("1. worker w1: EXPIRED"));
  EXPECT_THAT(row.trial.failure->message, HasSubstr("3. worker w3: EXPIRED"));
}

TEST_F(CoreGrant, AStallOfOursMovesEveryDeadline) {
  Core::Options options = Harness::DefaultOptions();
  options.stall = absl::Seconds(1);
  Harness h(options);
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  h.Pass(absl::Hours(3));
  EXPECT_EQ(h.Get("s", "b").trial.number, 2);
  for (int i = 0; i < 60; ++i) h.Pass(absl::Seconds(1));  // Tick by tick it does expire.
  EXPECT_EQ(h.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, AnExpiredLeaseThatIsGivenMoreTimeIsNoLongerExpired) {
  h_.Get("s", "a");
  h_.Pass(kTtl);  // Expired, and seen to be.
  h_.core->ExtendLeases(absl::Hours(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kCancelled);  // And is looked at again (I10).
}

TEST_F(CoreGrant, JumpsOfTheWallClockHaveNoEffectOnLeases) {
  const Grant grant = h_.Get("s", "a");
  h_.clock.JumpWall(absl::Hours(24 * 365));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.clock.JumpWall(-absl::Hours(24 * 3650));
  h_.Pass(kTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 3);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, AfterARestartEveryRunningTrialHasAFullTtl) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kTtl - absl::Seconds(1));
  h_.clock.Advance(absl::Hours(5));
  h_.Restart();
  h_.Pass(kTtl - absl::Nanoseconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kContinue));
  h_.Pass(kTtl);
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, FencesStrictlyIncreaseAcrossRestartsAndTokensAreUnique) {
  std::set<std::string> tokens;
  uint64_t last = 0;
  for (int i = 0; i < 30; ++i) {
    const Grant grant = h_.Get("s", "a");
    EXPECT_GT(FenceOf(grant.token), last);
    last = FenceOf(grant.token);
    EXPECT_TRUE(tokens.insert(grant.token).second);
    if (i % 3 == 0) {
      ASSERT_TRUE(h_.Release(grant).ok());
    }
    if (i % 4 == 0) h_.Restart();
  }
}

TEST_F(CoreGrant, AfterARestartTheHolderOfACancelledTrialIsStillToldToStop) {
  const Grant cancelled = h_.Get("s", "a");
  const Grant released = h_.Get("s", "a");
  ASSERT_TRUE(h_.Release(released).ok());
  ASSERT_TRUE(h_.Control("s", Control::kCancel).ok());
  const std::vector<Directive> told = {Directive::kStop, Directive::kLost};
  EXPECT_EQ(h_.Heartbeat("a", {cancelled.token, released.token}), told);
  h_.Restart();
  EXPECT_EQ(h_.Heartbeat("a", {cancelled.token, released.token}), told);
}

TEST(CoreBudget, NoMoreRowsThanMaxTrialsHoweverManyAsk) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(5)).ok());
  std::vector<Operation> operations;
  std::vector<Answered<SuggestReply>> answers(8);
  for (size_t i = 0; i < answers.size(); ++i) {
    SuggestOp op = MakeSuggest("s", "w" + std::to_string(i), 2);
    op.done = answers[i].done();
    operations.push_back(std::move(op));
  }
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  size_t granted = 0;
  for (const auto& answer : answers) granted += answer.get()->grants.size();
  EXPECT_EQ(granted, 5u);
  EXPECT_THAT(h.Rows("s"), SizeIs(5));
}

TEST(CoreBudget, RetriesTakeNoBudgetFailuresDo) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(2)).ok());
  ASSERT_TRUE(h.Fail(h.Get("s", "a"), MakeFailure(study::FailureKind::kInfra)).ok());
  ASSERT_TRUE(h.Fail(h.Get("s", "a"), MakeFailure(study::FailureKind::kConfig)).ok());
  const Grant second = h.Get("s", "a");
  EXPECT_EQ(second.trial.number, 2);
  EXPECT_THAT(h.Suggest("s", "b")->grants, IsEmpty());
  ASSERT_TRUE(h.Complete(second, Loss(1)).ok());
  EXPECT_EQ(h.Study("s").state, study::StudyState::kCompleted);
  EXPECT_EQ(h.Study("s").state_reason, "max_trials reached");
}

TEST(CoreBudget, NoMoreRunningTrialsThanMaxParallel) {
  Harness h;
  study::StudySpec spec = MakeSpec();
  spec.budget.max_parallel = 2;
  ASSERT_TRUE(h.Create("s", spec).ok());
  ASSERT_TRUE(h.Enqueue("s", Settings(3)).ok());
  const absl::StatusOr<SuggestReply> reply = h.Suggest("s", "a", 5);
  EXPECT_THAT(Numbers(*reply), ElementsAre(1, 2));
  EXPECT_THAT(h.Suggest("s", "b")->grants, IsEmpty());
  ASSERT_TRUE(h.Complete(reply->grants[0], Loss(1)).ok());
  EXPECT_EQ(h.Get("s", "b").trial.number, 3);
  h.Pass(kTtl);  // An expired trial keeps its place, so it can be granted again.
  EXPECT_THAT(Numbers(*h.Suggest("s", "c", 5)), ElementsAre(2, 3));
}

TEST_F(CoreGrant, AnAskWaitsUntilATrialIsReleased) {
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

TEST_F(CoreGrant, AnAskThatGetsNothingByItsDeadlineIsToldWhenToAskAgain) {
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

TEST_F(CoreGrant, AnAskOfAFinishedStudyIsToldSoAtOnce) {
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  const Answered<SuggestReply> ask = h_.Ask("s", "a");
  ASSERT_TRUE(ask.ready());
  EXPECT_TRUE(ask.get()->study_done);
}

TEST_F(CoreGrant, AskersAreServedInOrderOfArrival) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const Answered<SuggestReply> first = h.Ask("s", "b");
  const Answered<SuggestReply> second = h.Ask("s", "c");
  ASSERT_TRUE(h.Release(grant).ok());
  EXPECT_TRUE(first.ready());
  EXPECT_FALSE(second.ready());
}

TEST_F(CoreGrant, ACallerThatHungUpGetsNoTrial) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  const Grant grant = h.Get("s", "a");
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  SuggestOp op = MakeSuggest("s", "b");
  op.deadline = absl::InfiniteDuration();
  op.caller_gone = gone;
  Answered<SuggestReply> answer;
  op.done = answer.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  *gone = true;
  ASSERT_TRUE(h.Release(grant).ok());
  ASSERT_TRUE(answer.ready());
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kPending);
}

TEST_F(CoreGrant, AnAskOfAnyStudyTakesTheOneWithTheFewestRunningTrials) {
  study::StudySpec external = MakeSpec();
  external.objective = study::ExternalObjective{};
  ASSERT_TRUE(h_.Create("t", MakeSpec()).ok());
  ASSERT_TRUE(h_.Create("a-notebook", external).ok());
  std::vector<std::string> studies;
  for (int i = 0; i < 4; ++i) studies.push_back(h_.Get("", "w").study_id);
  EXPECT_THAT(studies, ElementsAre("s", "t", "s", "t"));
}

TEST_F(CoreGrant, AnAskOfAPausedStudyFailsIfTheCallerSaysSo) {
  ASSERT_TRUE(h_.Control("s", Control::kPause).ok());
  SuggestOp op = MakeSuggest("s", "a");
  op.fail_if_paused = true;
  Answered<SuggestReply> answer;
  op.done = answer.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetReason(answer.get().status()), reason::kStudyPaused);
  EXPECT_THAT(std::string(answer.get().status().message()),
              HasSubstr("study \"s\" is paused: paused by a user; `luthier study resume` lets it go on"));
}

// --- Repeated asks ---

TEST_F(CoreGrant, ARepeatedAskGetsTheSameTrialsAndTokensAlsoAfterARestartAndWhenTheyAreFinal) {
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

TEST_F(CoreGrant, ARequestIdUsedForAnotherRequestIsRefused) {
  ASSERT_TRUE(h_.Suggest("s", "a", 1, "r1").ok());
  const absl::StatusOr<SuggestReply> other = h_.Suggest("s", "b", 1, "r1");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetReason(other.status()), reason::kRequestIdReused);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("make a fresh one for each call"));
  EXPECT_EQ(base::GetReason(h_.Enqueue("s", Settings(1), "r1").status()), reason::kRequestIdReused);
  EXPECT_EQ(base::GetReason(h_.Control("s", Control::kPause, "r1").status()), reason::kRequestIdReused);
}

TEST_F(CoreGrant, ARequestIdOfAWaitingAskIsTakenToo) {
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

TEST_F(CoreGrant, AnAskSentAgainWhileTheFirstWaitsTakesItsPlace) {
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

TEST_F(CoreGrant, RequestIdsAreForgottenAfterADay) {
  ASSERT_TRUE(h_.Suggest("s", "a", 1, "r1").ok());
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
