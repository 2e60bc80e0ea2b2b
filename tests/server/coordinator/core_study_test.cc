// Studies: creation, control, enqueued trials, stopping rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

NewTrial Setting(double x) {
  NewTrial trial;
  trial.parameters["x"] = x;
  return trial;
}

class CoreStudy : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

TEST_F(CoreStudy, CreatingTheSameStudyAgainReturnsIt) {
  const absl::StatusOr<StudyReply> again = h_.Create("s", MakeSpec());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->record, h_.Study("s"));
  EXPECT_THAT(h_.Events("s"), SizeIs(1));
}

TEST_F(CoreStudy, CreatingAnotherStudyOfTheSameNameNamesTheFirstDifference) {
  study::StudySpec other = MakeSpec();
  other.lease.max_attempts = 5;
  const absl::StatusOr<StudyReply> reply = h_.Create("s", other);
  ExpectRefused(reply, absl::StatusCode::kAlreadyExists, reason::kStudyExists,
                "study \"s\" exists with another specification; they first differ in lease");
  EXPECT_EQ(base::GetErrorDetail(reply.status())->metadata.at("field"), "lease");
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("take the trials along"));
}

TEST_F(CoreStudy, AChangeableDifferenceIsReferredToUpdate) {
  study::StudySpec other = MakeSpec();
  other.budget.max_trials += 5;
  ExpectRefused(h_.Create("s", other), absl::StatusCode::kAlreadyExists, reason::kStudyExists,
                "they first differ in budget.max_trials; to change it there, with all trials kept: `luthier study "
                "update s`");
}

TEST_F(CoreStudy, APausedStudyGrantsNothingButTakesResults) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Control("s", Control::kPause)->record.state, StudyState::kPaused);
  ASSERT_TRUE(h_.Control("s", Control::kPause).ok());
  EXPECT_THAT(h_.Events("s", EventType::kStudyPaused), SizeIs(1));
  const Answered<SuggestReply> ask = h_.Ask("s", "a");
  EXPECT_FALSE(ask.ready());
  EXPECT_THAT(h_.Suggest("", "b")->grants, IsEmpty());
  EXPECT_TRUE(h_.Complete(grant, Loss(1)).ok());
  EXPECT_TRUE(h_.Enqueue("s", {Setting(0.5)}).ok());
  ASSERT_EQ(h_.Control("s", Control::kResume)->record.state, StudyState::kActive);
  ASSERT_TRUE(ask.ready());
  EXPECT_EQ(ask.get()->grants.at(0).trial.number, 2);
  EXPECT_TRUE(h_.Control("s", Control::kResume).ok());
  EXPECT_THAT(h_.Events("s", EventType::kStudyResumed), SizeIs(1));
}

TEST_F(CoreStudy, AStoppedStudyCancelsWhatWaitsAndLetsRunningTrialsFinish) {
  const Grant running = h_.Get("s", "a");
  const Grant failing = h_.Get("s", "a");
  ASSERT_TRUE(h_.Enqueue("s", {Setting(0.5)}).ok());
  ASSERT_EQ(h_.Control("s", Control::kStop)->record.state, StudyState::kStopped);
  EXPECT_EQ(h_.Trial("s", 3).trial.state, TrialState::kCancelled);
  const Answered<SuggestReply> ask = h_.Ask("s", "b");
  EXPECT_FALSE(ask.ready());  // A trial is still open.
  EXPECT_THAT(h_.Heartbeat("a", {running.token}), ElementsAre(study::Directive::kContinue));
  EXPECT_EQ(h_.Complete(running, Loss(1))->state, TrialState::kComplete);
  EXPECT_EQ(h_.Fail(failing, MakeFailure(FailureKind::kInfra))->state,
            TrialState::kCancelled);  // Nobody tries it again.
  ASSERT_TRUE(ask.ready());
  EXPECT_TRUE(ask.get()->study_done);
  EXPECT_EQ(h_.Study("s").state, StudyState::kStopped);
}

TEST_F(CoreStudy, AStopAlsoEndsTrialsWhoseHoldersVanishedBeforeOrAfter) {
  h_.Get("s", "a");
  h_.Pass(absl::Seconds(30));
  h_.Get("s", "b");
  h_.Pass(absl::Seconds(30));
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kCancelled);
  EXPECT_EQ(h_.Trial("s", 2).trial.state, TrialState::kRunning);
  h_.Pass(absl::Seconds(30));
  EXPECT_EQ(h_.Trial("s", 2).trial.state, TrialState::kCancelled);
}

TEST_F(CoreStudy, ACancelledStudyTellsItsWorkersToStop) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Control("s", Control::kCancel)->record.state, StudyState::kCancelled);
  EXPECT_TRUE(h_.Control("s", Control::kCancel).ok());
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kStop));
  ExpectRefused(h_.Complete(grant, Loss(1)), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal,
                "trial 1 is CANCELLED already");
  EXPECT_THAT(h_.Events("s", EventType::kReportRefused), SizeIs(1));
}

TEST_F(CoreStudy, AFinishedStudyTakesNoControlAndNoTrials) {
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_TRUE(h_.Control("s", Control::kStop).ok());
  for (const Control control : {Control::kPause, Control::kResume}) {
    ExpectRefused(h_.Control("s", control), absl::StatusCode::kFailedPrecondition, reason::kStudyFinished,
                  "study \"s\" is STOPPED; that can't be undone");
  }
  ExpectRefused(h_.Enqueue("s", {Setting(0.5)}), absl::StatusCode::kFailedPrecondition, reason::kStudyFinished,
                "study \"s\" is STOPPED; it takes no more trials");
  EXPECT_TRUE(h_.Control("s", Control::kCancel).ok());  // What is stopped may still be cancelled.
  ExpectRefused(h_.Control("s", Control::kStop), absl::StatusCode::kFailedPrecondition, reason::kStudyFinished,
                "CANCELLED");
}

TEST_F(CoreStudy, AStudyWithRunningTrialsIsNotDeleted) {
  h_.Get("s", "a");
  ExpectRefused(h_.Control("s", Control::kDelete), absl::StatusCode::kFailedPrecondition, reason::kTrialsRunning,
                "study \"s\" has 1 running trials; cancel the study first");
  ASSERT_TRUE(h_.Control("s", Control::kCancel).ok());
  EXPECT_TRUE(h_.Control("s", Control::kDelete).ok());
}

TEST_F(CoreStudy, ADeletedStudyIsGoneButItsEventsStayAndItsKeyIsNotUsedAgain) {
  const storage::StudyKey key = h_.Study("s").key;
  const Answered<SuggestReply> ask = [&] {
    EXPECT_TRUE(h_.Control("s", Control::kPause).ok());
    return h_.Ask("s", "a");
  }();
  ASSERT_TRUE(h_.Control("s", Control::kDelete, "r1").ok());
  ASSERT_TRUE(ask.ready());
  ExpectRefused(ask.get(), absl::StatusCode::kNotFound, reason::kNotFound, "study \"s\" was deleted");
  ExpectRefused(h_.Suggest("s", "a"), absl::StatusCode::kNotFound, reason::kNotFound, "study \"s\" does not exist");
  EXPECT_TRUE(h_.Control("s", Control::kDelete, "r1").ok());  // The same call again.
  ExpectRefused(h_.Control("s", Control::kDelete), absl::StatusCode::kNotFound, reason::kNotFound, "does not exist");
  EXPECT_THAT(h_.memory.ListEvents(key, 0, 100).value(), SizeIs(3));
  h_.Restart();
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  EXPECT_GT(h_.Study("s").key, key);
  EXPECT_TRUE(h_.Control("s", Control::kDelete, "r1").ok());  // Answered, not done to the new study.
  EXPECT_EQ(h_.Study("s").state, StudyState::kActive);
}

TEST_F(CoreStudy, ARepeatedControlCallHasOneEffect) {
  const uint64_t paused = h_.Control("s", Control::kPause, "r1")->seq;
  ASSERT_TRUE(h_.Control("s", Control::kResume, "r2").ok());
  EXPECT_EQ(h_.Control("s", Control::kPause, "r1")->record.state, StudyState::kActive);
  EXPECT_EQ(h_.Control("s", Control::kPause, "r1")->seq, paused);
  ExpectRefused(h_.Control("s", Control::kStop, "r1"), absl::StatusCode::kInvalidArgument, reason::kRequestIdReused,
                "request_id: \"r1\" was used for another request");
}

TEST_F(CoreStudy, ARepeatedDeleteGetsItsFirstSeqOtherCallsHearThatTheStudyIsGone) {
  ASSERT_TRUE(h_.Control("s", Control::kPause, "r1").ok());
  const uint64_t deleted = h_.Control("s", Control::kDelete, "r2")->seq;
  EXPECT_GT(deleted, 0u);
  EXPECT_EQ(h_.Control("s", Control::kDelete, "r2")->seq, deleted);
  ExpectRefused(h_.Control("s", Control::kPause, "r1"), absl::StatusCode::kNotFound, reason::kNotFound,
                "study \"s\" does not exist");
}

// --- Enqueued trials ---

TEST_F(CoreStudy, EnqueuedTrialsAreCompletedByDefaults) {
  const absl::StatusOr<EnqueueReply> reply = h_.Enqueue("s", {Setting(0.5), Setting(0.75)});
  ASSERT_TRUE(reply.ok());
  ASSERT_THAT(reply->trials, SizeIs(2));
  EXPECT_EQ(reply->trials[1].number, 2);
  EXPECT_EQ(reply->trials[1].parameters.size(), 2u);
  EXPECT_EQ(reply->trials[1].provenance.designer, "user");
  EXPECT_FALSE(reply->trials[1].provenance.ask_index);
  EXPECT_EQ(h_.Trial("s", 2).trial, reply->trials[1]);
  EXPECT_EQ(h_.Events("s", EventType::kTrialEnqueued)[0].actor, "user");
}

TEST_F(CoreStudy, EnqueueIsAllOrNothing) {
  NewTrial unknown = Setting(0.5);
  unknown.parameters["y"] = 1.0;
  const absl::StatusOr<EnqueueReply> reply = h_.Enqueue("s", {Setting(0.5), Setting(7), unknown});
  ExpectRefused(reply, absl::StatusCode::kInvalidArgument, reason::kBadField, "trials[1].parameters.x");
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("trials[2].parameters.y"));
  EXPECT_EQ(h_.core->last_seq(), 1u);
  ExpectRefused(h_.Enqueue("s", {}), absl::StatusCode::kInvalidArgument, reason::kBadField, "trials: is empty");
}

TEST_F(CoreStudy, EnqueueTakesTheBudgetAndNoMore) {
  ASSERT_TRUE(h_.Create("t", MakeSpec(3)).ok());
  h_.Get("t", "a");
  ExpectRefused(h_.Enqueue("t", {Setting(0), Setting(0), Setting(0)}), absl::StatusCode::kResourceExhausted,
                reason::kLimitExceeded, "the budget of study \"t\" has room for 2 more trials, not 3; add fewer");
  EXPECT_TRUE(h_.Enqueue("t", {Setting(0), Setting(0)}).ok());
  ExpectRefused(h_.Enqueue("t", {Setting(0)}), absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                "room for 0");
}

TEST_F(CoreStudy, ARepeatedEnqueueReturnsTheSameTrials) {
  const absl::StatusOr<EnqueueReply> first = h_.Enqueue("s", {Setting(0.5), Setting(0.6)}, "r1");
  ASSERT_TRUE(first.ok());
  h_.Restart();
  const absl::StatusOr<EnqueueReply> again = h_.Enqueue("s", {Setting(0.5), Setting(0.6)}, "r1");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->trials, first->trials);
  ExpectRefused(h_.Enqueue("s", {Setting(0.5)}, "r1"), absl::StatusCode::kInvalidArgument, reason::kRequestIdReused,
                "r1");
  EXPECT_EQ(h_.Trial("s", 2).trial.number, 2);
  EXPECT_FALSE(h_.memory.GetTrial(h_.Study("s").key, 3).ok());
}

TEST_F(CoreStudy, ARepeatedEnqueueDoesNotTakeTheTrialsOfALaterStudyForItsOwn) {
  ASSERT_TRUE(h_.Enqueue("s", {Setting(0.5)}, "r1").ok());
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  h_.Get("s", "a");
  ExpectRefused(h_.Enqueue("s", {Setting(0.5)}, "r1"), absl::StatusCode::kNotFound, reason::kNotFound,
                "the study that this request was about was deleted");
}

// --- Stopping rules ---

TEST_F(CoreStudy, TwentyFailuresInARowPauseTheStudyAndResumeClearsTheCount) {
  ASSERT_TRUE(h_.Complete(h_.Get("s", "a"), Loss(1)).ok());  // So that three failures alike do not pause it.
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("s", "a"), Loss(1)).ok());  // Starts the count again.
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Study("s").state, StudyState::kActive);
  h_.Restart();  // The count is in the rows.
  ASSERT_TRUE(h_.Complete(h_.Get("s", "a"), Loss(std::nan(""))).ok());
  EXPECT_EQ(h_.Study("s").state, StudyState::kPaused);
  EXPECT_THAT(h_.Study("s").state_reason,
              HasSubstr("20 trials failed in a row; the last: NON_FINITE; mend the cause, then resume"));
  ASSERT_TRUE(h_.Control("s", Control::kResume).ok());
  h_.Restart();
  for (int i = 0; i < 19; ++i) ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Study("s").state, StudyState::kActive);
}

TEST_F(CoreStudy, ATargetEndsTheStudyAndItsRunningTrials) {
  study::StudySpec spec = MakeSpec();
  spec.budget.target_value = 0.5;
  ASSERT_TRUE(h_.Create("t", spec).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(0.6)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(0.1), /*pruned=*/true).ok());  // Not a final value.
  EXPECT_EQ(h_.Study("t").state, StudyState::kActive);
  const Grant other = h_.Get("t", "b");
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(0.5)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kCompleted);
  EXPECT_EQ(h_.Study("t").state_reason, "target_value reached by trial 4");
  EXPECT_EQ(h_.Trial("t", 3).trial.state, TrialState::kCancelled);
  EXPECT_THAT(h_.Heartbeat("b", {other.token}), ElementsAre(study::Directive::kStop));
}

TEST_F(CoreStudy, ATargetOfAMaximizedMetricIsReachedFromBelow) {
  study::StudySpec spec = MakeSpec();
  spec.budget.target_value = 0.5;
  spec.metric.goal = study::Goal::kMaximize;
  ASSERT_TRUE(h_.Create("t", spec).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(0.4)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kActive);
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(0.6)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kCompleted);
}

TEST_F(CoreStudy, PatienceCountsFinishedTrialsWithoutABetterValue) {
  study::StudySpec spec = MakeSpec();
  spec.budget.patience = 3;
  ASSERT_TRUE(h_.Create("t", spec).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(h_.Fail(h_.Get("t", "a"), MakeFailure(FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kActive);  // No value yet to be patient about.
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(1)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(1)).ok());
  h_.Restart();
  ASSERT_TRUE(h_.Fail(h_.Get("t", "a"), MakeFailure(FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kActive);
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(2)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kCompleted);
  EXPECT_EQ(h_.Study("t").state_reason, "no better value in 3 trials");
}

TEST_F(CoreStudy, MaxFailedTrialsEndsTheStudy) {
  study::StudySpec spec = MakeSpec();
  spec.budget.max_failed_trials = 2;
  ASSERT_TRUE(h_.Create("t", spec).ok());
  ASSERT_TRUE(h_.Fail(h_.Get("t", "a"), MakeFailure(FailureKind::kConfig)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("t", "a"), Loss(1)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kActive);
  ASSERT_TRUE(h_.Fail(h_.Get("t", "a"), MakeFailure(FailureKind::kConfig)).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kCompleted);
  EXPECT_EQ(h_.Study("t").state_reason, "max_failed_trials reached");
}

TEST_F(CoreStudy, CancellingTheLastTrialCompletesTheStudy) {
  ASSERT_TRUE(h_.Create("t", MakeSpec(1)).ok());
  h_.Get("t", "a");
  ASSERT_TRUE(h_.CancelTrial("t", 1).ok());
  EXPECT_EQ(h_.Study("t").state, StudyState::kCompleted);
}

// --- Order ---

TEST_F(CoreStudy, EveryWriteReplyCarriesItsNewestSeqAndSeqsIncrease) {
  uint64_t last = 1;
  const auto grows = [&](uint64_t seq) {
    EXPECT_GT(seq, last);
    last = seq;
  };
  grows(h_.Enqueue("s", {Setting(0.5)})->seq);
  grows(h_.Suggest("s", "a")->seq);
  const Grant grant = h_.Get("s", "a");
  grows(h_.Report(grant, {Loss(1)})->seq);
  grows(h_.Complete(grant, Loss(1))->seq);
  grows(h_.CancelTrial("s", 1)->seq);
  grows(h_.Control("s", Control::kPause)->seq);
  h_.Restart();
  grows(h_.Control("s", Control::kResume)->seq);
  uint64_t seq = 0;
  for (const storage::Event& event : h_.Events("s")) {
    EXPECT_GT(event.seq, seq);
    seq = event.seq;
  }
  EXPECT_EQ(seq, h_.core->last_seq());
}

}  // namespace
}  // namespace luthier::coordinator::testing
