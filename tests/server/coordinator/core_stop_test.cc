// Trials whose end a user asks for, and studies whose time is up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kStopTtl = absl::Seconds(60);

class CoreStop : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec(/*max_trials=*/3)).ok()); }
  void ExpectSound() {
    EXPECT_TRUE(h_.core->CheckInvariants().ok());
    const absl::StatusOr<ReplayReport> report = VerifyReplay(&h_.memory, h_.Study("s"), search::CreateDesigner);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->mismatches, IsEmpty());
  }
  double FinalValue(int64_t number) { return h_.Trial("s", number).trial.final_measurement->metrics.at(kMetric); }

  Harness h_;
};

TEST_F(CoreStop, TheHolderIsToldAndItsResultIsKept) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Report(grant, {Loss(3, 1)})->directive, Directive::kContinue);
  const absl::StatusOr<TrialReply> reply = h_.StopTrial("s", 1);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->trial.state, TrialState::kRunning);
  EXPECT_TRUE(reply->trial.stop_requested);
  EXPECT_EQ(reply->seq, h_.Events("s", EventType::kTrialStopRequested).at(0).seq);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kFinish));
  EXPECT_EQ(h_.Report(grant, {Loss(2, 2)})->directive, Directive::kFinish);
  EXPECT_EQ(h_.Complete(grant, Loss(1.5, 3))->state, TrialState::kPruned);
  EXPECT_EQ(FinalValue(1), 1.5);
  EXPECT_EQ(h_.Trial("s", 1).trial.attempts.back().outcome, study::AttemptOutcome::kPruned);
  EXPECT_EQ(h_.Complete(grant, Loss(1.5, 3))->state, TrialState::kPruned);  // Sent again.
  ExpectSound();
}

TEST_F(CoreStop, AskingAgainAndForAFinalTrialHasNoEffect) {
  const Grant grant = h_.Get("s", "a");
  const uint64_t seq = h_.StopTrial("s", 1)->seq;
  EXPECT_EQ(h_.StopTrial("s", 1)->seq, seq);
  EXPECT_THAT(h_.Events("s", EventType::kTrialStopRequested), SizeIs(1));
  ASSERT_TRUE(h_.Complete(grant, Loss(1)).ok());
  EXPECT_EQ(h_.StopTrial("s", 1)->trial.state, TrialState::kPruned);
  EXPECT_EQ(h_.StopTrial("s", 1)->seq, h_.Trial("s", 1).finish_seq);
}

TEST_F(CoreStop, ATrialThatNobodyHoldsIsRefused) {
  ASSERT_TRUE(h_.Enqueue("s", {NewTrial{{{"x", 0.5}, {"n", 1.0}}, {}}}).ok());
  EXPECT_EQ(base::GetReason(h_.StopTrial("s", 1).status()), base::reason::kNotGranted);
  EXPECT_THAT(std::string(h_.StopTrial("s", 1).status().message()), HasSubstr("PENDING"));
  EXPECT_EQ(base::GetReason(h_.StopTrial("s", 2).status()), base::reason::kNotFound);
  EXPECT_EQ(base::GetReason(h_.StopTrial("t", 1).status()), base::reason::kNotFound);
}

TEST_F(CoreStop, ASilentHoldersLastValueStands) {
  const Grant grant = h_.Get("s", "a");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(h_.Report(grant, {Loss(3, 1), Loss(2, 2), Loss(nan, 3)}).ok());
  ASSERT_TRUE(h_.StopTrial("s", 1).ok());
  h_.Pass(kStopTtl - absl::Nanoseconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Nanoseconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kPruned);
  EXPECT_EQ(FinalValue(1), 2);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kStop));
  EXPECT_EQ(base::GetReason(h_.Complete(grant, Loss(1)).status()), base::reason::kTrialFinal);
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  ExpectSound();
}

TEST_F(CoreStop, ASilentHolderWithoutAValueLeavesACancelledTrial) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.StopTrial("s", 1).ok());
  h_.Pass(kStopTtl);
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kCancelled);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kStop));
  ExpectSound();
}

TEST_F(CoreStop, ALeaseThatHasEndedIsTakenAtOnce) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(grant, {Loss(3, 1)}).ok());
  h_.Pass(kStopTtl);
  EXPECT_EQ(h_.StopTrial("s", 1)->trial.state, TrialState::kPruned);
  EXPECT_EQ(FinalValue(1), 3);
  ExpectSound();
}

TEST_F(CoreStop, ReleasedAndInfraFailedTrialsEndWithTheirLastValue) {
  const Grant released = h_.Get("s", "a");
  const Grant failed = h_.Get("s", "b");
  const Grant silent = h_.Get("s", "c");
  ASSERT_TRUE(h_.Report(released, {Loss(3, 1)}).ok());
  ASSERT_TRUE(h_.Report(failed, {Loss(4, 1)}).ok());
  for (const int64_t number : {1, 2, 3}) ASSERT_TRUE(h_.StopTrial("s", number).ok());
  EXPECT_EQ(h_.Release(released)->state, TrialState::kPruned);
  EXPECT_EQ(h_.Fail(failed, MakeFailure(study::FailureKind::kInfra))->state, TrialState::kPruned);
  EXPECT_EQ(h_.Release(silent)->state, TrialState::kCancelled);
  EXPECT_EQ(h_.Release(silent)->state, TrialState::kCancelled);
  EXPECT_EQ(FinalValue(1), 3);
  EXPECT_EQ(FinalValue(2), 4);
  EXPECT_EQ(h_.Study("s").state, StudyState::kCompleted);
  ExpectSound();
}

TEST_F(CoreStop, AConfigFailureStillFails) {
  const Grant bad = h_.Get("s", "a");
  const Grant diverged = h_.Get("s", "b");
  ASSERT_TRUE(h_.Report(bad, {Loss(3, 1)}).ok());
  ASSERT_TRUE(h_.StopTrial("s", 1).ok());
  ASSERT_TRUE(h_.StopTrial("s", 2).ok());
  EXPECT_EQ(h_.Fail(bad, MakeFailure(study::FailureKind::kConfig))->state, TrialState::kFailed);
  EXPECT_EQ(h_.Complete(diverged, Loss(std::numeric_limits<double>::infinity()))->state, TrialState::kFailed);
  ExpectSound();
}

TEST_F(CoreStop, ARestartForgetsNothing) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(grant, {Loss(3, 1), Loss(2, 2)}).ok());
  ASSERT_TRUE(h_.StopTrial("s", 1).ok());
  h_.Restart();
  EXPECT_TRUE(h_.Trial("s", 1).trial.stop_requested);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kFinish));
  h_.Pass(kStopTtl);
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kPruned);
  EXPECT_EQ(FinalValue(1), 2);
}

TEST_F(CoreStop, AFailedCommitTellsNobody) {
  const Grant grant = h_.Get("s", "a");
  h_.storage.FailNextCommit(base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full"));
  EXPECT_FALSE(h_.StopTrial("s", 1).ok());
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(Directive::kContinue));
  EXPECT_EQ(h_.Complete(grant, Loss(1))->state, TrialState::kComplete);
}

TEST(CoreStopParts, APausedTrialIsPrunedWithItsValueAndARunningOneDoesNotPause) {
  Harness h(Harness::DefaultOptions(), [](const study::StudySpec& spec) -> std::unique_ptr<search::Designer> {
    return std::make_unique<RungDesigner>(spec);
  });
  ASSERT_TRUE(h.Create("s", PartsSpec(/*max_trials=*/2)).ok());
  const Grant first = h.Get("s", "a");
  const Grant second = h.Suggest("s", "b").value().grants.empty() ? h.Get("s", "b") : Grant();
  ASSERT_EQ(h.Pause(first, Loss(0.5, 1))->state, TrialState::kPaused);
  const absl::StatusOr<TrialReply> stopped = h.StopTrial("s", 1);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->trial.state, TrialState::kPruned);
  EXPECT_EQ(stopped->trial.final_measurement->metrics.at(kMetric), 0.5);
  ASSERT_TRUE(h.StopTrial("s", 2).ok());
  EXPECT_EQ(h.Report(second, {Loss(0.9, 1)})->directive, Directive::kFinish);
  EXPECT_EQ(h.Pause(second, Loss(0.9, 1))->state, TrialState::kPruned);
  EXPECT_TRUE(h.core->CheckInvariants().ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
}

// --- Time ---

study::StudySpec WithTime(absl::Duration max_wall) {
  study::StudySpec spec = MakeSpec();
  spec.budget.max_wall = max_wall;
  return spec;
}

TEST(CoreTime, AStudyWhoseTimeIsUpIsCompleted) {
  Harness h;
  ASSERT_TRUE(h.Create("s", WithTime(absl::Minutes(10))).ok());
  const Grant grant = h.Get("s", "a");
  ASSERT_TRUE(h.Enqueue("s", {NewTrial{{{"x", 0.5}, {"n", 1.0}}, {}}}).ok());
  for (int i = 0; i < 30; ++i) {
    h.Pass(absl::Seconds(20) - (i == 29 ? absl::Nanoseconds(1) : absl::ZeroDuration()));
    h.Heartbeat("a", {grant.token});
  }
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  h.Pass(absl::Nanoseconds(1));
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
  EXPECT_EQ(h.Study("s").state_reason, "max_wall of 10m reached");
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kCancelled);
  EXPECT_EQ(h.Trial("s", 2).trial.state, TrialState::kCancelled);
  EXPECT_THAT(h.Heartbeat("a", {grant.token}), ElementsAre(Directive::kStop));
  EXPECT_TRUE(h.Suggest("s", "b")->study_done);
  EXPECT_TRUE(h.core->CheckInvariants().ok());
}

TEST(CoreTime, PausesAndRestartsCount) {
  Harness h;
  ASSERT_TRUE(h.Create("s", WithTime(absl::Hours(2))).ok());
  ASSERT_TRUE(h.Control("s", Control::kPause).ok());
  h.Pass(absl::Hours(1));
  h.Restart();
  h.Pass(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(h.Study("s").state, StudyState::kPaused);
  h.Pass(absl::Seconds(1));
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
}

TEST(CoreTime, NothingIsGrantedOnceTheTimeIsUp) {
  Harness h;
  ASSERT_TRUE(h.Create("s", WithTime(absl::Minutes(10))).ok());
  h.clock.Advance(absl::Minutes(11));
  EXPECT_THAT(h.Suggest("s", "a")->grants, IsEmpty());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
}

TEST(CoreTime, MoreTimeTakesTheStudyBack) {
  Harness h;
  ASSERT_TRUE(h.Create("s", WithTime(absl::Minutes(10))).ok());
  h.Pass(absl::Minutes(10));
  ASSERT_EQ(h.Study("s").state, StudyState::kCompleted);
  study::SpecChange change;
  change.max_wall.emplace(absl::Minutes(30));
  const absl::StatusOr<StudyReply> updated = h.Update("s", change);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->record.state, StudyState::kActive);
  EXPECT_EQ(h.Events("s", EventType::kStudyUpdated).at(0).detail, "max_wall 10m -> 30m");
  EXPECT_EQ(h.Get("s", "a").trial.number, 1);
  h.Pass(absl::Minutes(20));
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
  change.max_wall.emplace(std::nullopt);
  EXPECT_EQ(h.Update("s", change)->record.state, StudyState::kActive);
  h.Pass(absl::Hours(100));
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  change.max_wall.emplace(absl::Hours(1));
  EXPECT_EQ(h.Update("s", change)->record.state, StudyState::kCompleted);
  const absl::StatusOr<ReplayReport> report = VerifyReplay(&h.memory, h.Study("s"), search::CreateDesigner);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->mismatches, IsEmpty());
}

TEST(CoreTime, OnlyTimesThatCanBeAreTaken) {
  EXPECT_TRUE(study::ValidateSpec(WithTime(absl::Nanoseconds(1))).ok());
  EXPECT_TRUE(study::ValidateSpec(WithTime(study::kMaxWall)).ok());
  for (const absl::Duration bad :
       {absl::ZeroDuration(), absl::Seconds(-1), study::kMaxWall + absl::Nanoseconds(1), absl::InfiniteDuration()}) {
    EXPECT_THAT(std::string(study::ValidateSpec(WithTime(bad)).message()), HasSubstr("budget.max_wall"));
  }
}

}  // namespace
}  // namespace luthier::coordinator::testing
