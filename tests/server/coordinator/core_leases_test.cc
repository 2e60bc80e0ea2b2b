// Leases and time: how long one lasts, and who may still report when it has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kShortTtl = absl::Seconds(60);

class CoreLeases : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

TEST_F(CoreLeases, AnExpiredLeaseGoesToTheNextWorker) {
  const Grant lost = h_.Get("s", "a");
  h_.Pass(kShortTtl - absl::Nanoseconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.Pass(absl::Nanoseconds(1));
  const Grant again = h_.Get("s", "b");
  EXPECT_EQ(again.trial.number, 1);
  EXPECT_EQ(again.attempt, 2);
  EXPECT_EQ(again.trial.parameters, lost.trial.parameters);
  EXPECT_EQ(again.trial.attempts[0].outcome, study::AttemptOutcome::kExpired);
  EXPECT_THAT(h_.Heartbeat("a", {lost.token}), ElementsAre(study::Directive::kLost));
  EXPECT_THAT(h_.Heartbeat("b", {again.token}), ElementsAre(study::Directive::kContinue));
}

TEST_F(CoreLeases, HeartbeatsKeepALeaseForEver) {
  const Grant grant = h_.Get("s", "a");
  for (int i = 0; i < 20; ++i) {
    h_.Pass(kShortTtl / 3);
    EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kContinue));
  }
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  EXPECT_THAT(h_.Events("s", EventType::kTrialResumed), IsEmpty());  // Renewals are not stored.
}

TEST_F(CoreLeases, TheLateHolderOfAnExpiredLeaseMayTakeItBackByAHeartbeat) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(2 * kShortTtl);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kContinue));
  EXPECT_THAT(h_.Events("s", EventType::kTrialResumed), SizeIs(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
}

TEST_F(CoreLeases, TheLateHolderOfAnExpiredLeaseMayComplete) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(10 * kShortTtl);
  const absl::StatusOr<FinishReply> reply = h_.Complete(grant, Loss(0.5));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->state, TrialState::kComplete);
}

TEST_F(CoreLeases, AStopSparesAHolderWhoseBeatCameBesideTheWriter) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kShortTtl);                                                         // Seen to have expired …
  h_.leases->Renew({grant.token}, h_.clock.Monotonic(), /*take_back=*/true);  // … and renewed in memory a moment later.
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  EXPECT_TRUE(h_.Complete(grant, Loss(0.5)).ok());
}

TEST_F(CoreLeases, AReportTakesAnExpiredLeaseBack) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kShortTtl);
  ASSERT_TRUE(h_.Report(grant, {Loss(1.0, 1)}).ok());
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.Pass(kShortTtl);
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreLeases, AHeartbeatWithTokensOfMixedFatesAnswersEach) {
  const Grant cancelled = h_.Get("s", "a");
  const Grant expired = h_.Get("s", "a");
  ASSERT_TRUE(h_.CancelTrial("s", 1).ok());
  h_.Pass(kShortTtl / 2);
  const Grant live = h_.Get("s", "a");
  h_.Pass(kShortTtl / 2);
  EXPECT_THAT(h_.Heartbeat("a", {cancelled.token, expired.token, live.token, std::string(16, 'x'), ""}),
              ElementsAre(study::Directive::kStop, study::Directive::kContinue, study::Directive::kContinue,
                          study::Directive::kLost, study::Directive::kLost));
}

TEST_F(CoreLeases, TheLastPermittedAttemptGetsTenTimesTheTtl) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const Grant grant = h_.Get("s", "w" + std::to_string(attempt));
    ASSERT_EQ(grant.trial.number, 1);
    ASSERT_EQ(grant.attempt, attempt);
    const absl::Duration ttl = *h_.leases->Deadline(grant.token) - h_.clock.Monotonic();
    EXPECT_EQ(ttl, attempt < 3 ? kShortTtl : 10 * kShortTtl);
    if (attempt < 3) h_.Pass(kShortTtl);
  }
  h_.Pass(10 * kShortTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Seconds(1));
  const storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kFailed);
  EXPECT_EQ(row.trial.failure->reason, study::failure::kAttemptsExhausted);
  EXPECT_EQ(row.trial.failure->kind, study::FailureKind::kConfig);
  EXPECT_THAT(row.trial.failure->message, HasSubstr("1. worker w1: EXPIRED"));
  EXPECT_THAT(row.trial.failure->message, HasSubstr("3. worker w3: EXPIRED"));
}

TEST_F(CoreLeases, AStallOfOursMovesEveryDeadline) {
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

TEST_F(CoreLeases, AnExpiredLeaseThatIsGivenMoreTimeIsNoLongerExpired) {
  h_.Get("s", "a");
  h_.Pass(kShortTtl);  // Expired, and seen to be.
  h_.core->ExtendLeases(absl::Hours(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kCancelled);  // And is looked at again (I10).
}

TEST_F(CoreLeases, JumpsOfTheWallClockHaveNoEffectOnLeases) {
  const Grant grant = h_.Get("s", "a");
  h_.clock.JumpWall(absl::Hours(24 * 365));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  h_.clock.JumpWall(-absl::Hours(24 * 3650));
  h_.Pass(kShortTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 3);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreLeases, AfterARestartEveryRunningTrialHasAFullTtl) {
  const Grant grant = h_.Get("s", "a");
  h_.Pass(kShortTtl - absl::Seconds(1));
  h_.clock.Advance(absl::Hours(5));
  h_.Restart();
  h_.Pass(kShortTtl - absl::Nanoseconds(1));
  EXPECT_EQ(h_.Get("s", "b").trial.number, 2);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kContinue));
  h_.Pass(kShortTtl);
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreLeases, FencesStrictlyIncreaseAcrossRestartsAndTokensAreUnique) {
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

TEST_F(CoreLeases, AfterARestartTheHolderOfACancelledTrialIsStillToldToStop) {
  const Grant cancelled = h_.Get("s", "a");
  const Grant released = h_.Get("s", "a");
  ASSERT_TRUE(h_.Release(released).ok());
  ASSERT_TRUE(h_.Control("s", Control::kCancel).ok());
  const std::vector<study::Directive> told = {study::Directive::kStop, study::Directive::kLost};
  EXPECT_EQ(h_.Heartbeat("a", {cancelled.token, released.token}), told);
  h_.Restart();
  EXPECT_EQ(h_.Heartbeat("a", {cancelled.token, released.token}), told);
}

}  // namespace
}  // namespace luthier::coordinator::testing
