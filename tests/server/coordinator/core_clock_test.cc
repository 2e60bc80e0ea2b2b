#include <gtest/gtest.h>

#include <array>

#include "tests/server/coordinator/harness.h"

// The wall clock may be set at any time, and a restart may find it anywhere: it labels what happens and decides
// nothing.
namespace luthier::coordinator::testing {
namespace {

using study::Directive;
using study::TrialState;

const absl::Duration kYears = absl::Hours(20 * 365 * 24);
const std::array<absl::Duration, 6> kSteps = {
    absl::Seconds(1), absl::Seconds(-1), absl::Hours(72), absl::Hours(-72), kYears, -kYears};

// The clock is set, with and without a restart beside it.
template <typename Check>
void ForEachStep(const Check& check) {
  for (const absl::Duration step : kSteps) {
    for (const bool restart : {false, true}) {
      SCOPED_TRACE(absl::StrCat(absl::FormatDuration(step), restart ? " and a restart" : ""));
      Harness h;
      ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
      check(h, [&] {
        h.clock.JumpWall(step);
        if (restart) h.Restart();
        ASSERT_TRUE(h.Batch().ok());
      });
    }
  }
}

TEST(CoreClock, AStepForgetsNoRequest) {
  ForEachStep([](Harness& h, const auto& set_clock) {
    const absl::StatusOr<SuggestReply> asked = h.Suggest("s", "a", 2, "ask");
    const absl::StatusOr<EnqueueReply> added = h.Enqueue("s", {NewTrial()}, "add");
    ASSERT_TRUE(h.Complete(asked->grants[0], Loss(1.0)).ok());
    set_clock();
    const absl::StatusOr<SuggestReply> again = h.Suggest("s", "a", 2, "ask");
    ASSERT_EQ(again->grants.size(), 2u);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(again->grants[i].token, asked->grants[i].token);
    EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, added->trials[0].number);
    EXPECT_EQ(h.Rows("s").size(), 3u);
  });
}

TEST(CoreClock, AStepNeitherEndsALeaseNorHoldsOneForEver) {
  ForEachStep([](Harness& h, const auto& set_clock) {
    const Grant grant = h.Get("s", "a");
    set_clock();
    h.Pass(absl::Seconds(59));
    EXPECT_EQ(h.Heartbeat("a", {grant.token}), std::vector<Directive>{Directive::kContinue});
    h.Pass(absl::Seconds(59));
    set_clock();
    EXPECT_EQ(h.Suggest("s", "b", 1)->grants[0].trial.number, 2) << "the lease of trial 1 has a second left";
    h.Pass(absl::Seconds(61));
    EXPECT_EQ(h.Suggest("s", "b", 1)->grants[0].trial.number, 1);
  });
}

TEST(CoreClock, AStepEndsNoAskThatWaits) {
  ForEachStep([](Harness& h, const auto& set_clock) {
    study::StudySpec spec = MakeSpec(1);
    ASSERT_TRUE(h.Create("one", spec).ok());
    const Grant grant = h.Get("one", "a");
    set_clock();
    const Answered<SuggestReply> ask = h.Ask("one", "b", 1, absl::Seconds(30));
    h.clock.JumpWall(-kYears);
    h.Pass(absl::Seconds(29));
    EXPECT_FALSE(ask.ready());
    h.clock.JumpWall(2 * kYears);
    h.Pass(absl::Seconds(1));
    EXPECT_TRUE(ask.ready());
  });
}

TEST(CoreClock, ListsStayInOrderOfWhatHappened) {
  ForEachStep([](Harness& h, const auto& set_clock) {
    ASSERT_TRUE(h.Enqueue("s", {NewTrial()}).ok());
    set_clock();
    ASSERT_TRUE(h.Enqueue("s", {NewTrial()}).ok());
    const std::vector<storage::TrialRecord> rows = h.Rows("s");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_LT(rows[0].create_seq, rows[1].create_seq);
    const std::vector<storage::Event> events = h.Events("s");
    for (size_t i = 1; i < events.size(); ++i) EXPECT_GT(events[i].seq, events[i - 1].seq);
    EXPECT_EQ(h.Get("s", "a").trial.number, 1) << "the oldest is the one that was added first";
  });
}

TEST(CoreClock, TheTimeOfAStudyGoesOnWhileACoordinatorRuns) {
  for (const absl::Duration step : kSteps) {
    SCOPED_TRACE(absl::FormatDuration(step));
    Harness h;
    study::StudySpec spec = MakeSpec();
    spec.budget.max_wall = absl::Minutes(10);
    ASSERT_TRUE(h.Create("s", spec).ok());
    const Grant grant = h.Get("s", "a");
    for (int minute = 0; minute < 9; ++minute) {
      h.Pass(absl::Minutes(1));
      if (minute == 3) h.clock.JumpWall(step);
      if (minute == 5) h.Restart();
    }
    EXPECT_EQ(h.Study("s").state, study::StudyState::kActive);
    EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kRunning);
    // What passed since the uptime was stored is lost with a coordinator that is killed: at most a minute.
    h.Pass(absl::Minutes(1));
    h.Pass(absl::Minutes(1));
    EXPECT_EQ(h.Study("s").state_reason, "max_wall of 10m reached");
  }
}

TEST(CoreClock, HowLongATrialTookDoesNotFollowTheWallClock) {
  for (const absl::Duration step : kSteps) {
    SCOPED_TRACE(absl::FormatDuration(step));
    Harness h;
    ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
    for (int i = 0; i < 3; ++i) {
      const Grant grant = h.Get("s", "a");
      h.clock.JumpWall(i % 2 == 0 ? step : -step);
      h.Pass(absl::Seconds(2));
      ASSERT_TRUE(h.Fail(grant, MakeFailure(study::FailureKind::kConfig)).ok());
    }
    EXPECT_EQ(h.Study("s").state, study::StudyState::kPaused) << "three failed at once";
    ASSERT_TRUE(h.Control("s", Control::kResume).ok());
    for (int i = 0; i < 3; ++i) {
      const Grant grant = h.Get("s", "a");
      h.clock.JumpWall(i % 2 == 0 ? -step : step);
      h.Pass(absl::Seconds(20));
      ASSERT_TRUE(h.Fail(grant, MakeFailure(study::FailureKind::kConfig)).ok());
    }
    EXPECT_EQ(h.Study("s").state, study::StudyState::kActive) << "these worked for a while";
  }
}

// --- Forgetting ---

TEST(CoreClock, RequestsAreForgottenADayOfUptimeAfterTheirAnswer) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Enqueue("s", {NewTrial()}, "add").ok());
  h.Pass(absl::Hours(23));
  EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, 1);
  h.Pass(absl::Hours(2));
  EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, 2);
}

TEST(CoreClock, UptimeIsAddedUpOverRestarts) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h.Enqueue("s", {NewTrial()}, "add").ok());
  for (int i = 0; i < 11; ++i) {
    h.Pass(absl::Hours(2));
    h.Restart();
  }
  EXPECT_EQ(h.memory.LastUptime().value(), absl::Hours(22));
  EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, 1);
  h.clock.Advance(absl::Hours(100));  // No coordinator runs.
  h.Restart();
  h.Pass(absl::ZeroDuration());
  EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, 1);
  h.Pass(absl::Hours(3));
  EXPECT_EQ(h.Enqueue("s", {NewTrial()}, "add")->trials[0].number, 2);
}

TEST(CoreClock, TheRequestOfAnOpenTrialIsKept) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const absl::StatusOr<SuggestReply> asked = h.Suggest("s", "a", 1, "ask");
  const Grant& grant = asked->grants[0];
  for (int day = 0; day < 4; ++day) {
    h.Pass(absl::Hours(20 + 20 * day));  // Also at once beyond the time of any request.
    if (day % 2 == 0) h.Restart();
    ASSERT_TRUE(h.Batch().ok());
    const absl::StatusOr<SuggestReply> again = h.Suggest("s", "a", 1, "ask");
    ASSERT_EQ(again->grants.size(), 1u);
    EXPECT_EQ(again->grants[0].token, grant.token);
    EXPECT_EQ(again->seq, asked->seq);
  }
  EXPECT_EQ(h.Rows("s").size(), 1u);
  ASSERT_TRUE(h.Complete(grant, Loss(1.0)).ok());
  h.Pass(absl::Hours(25));
  h.Pass(absl::Hours(1));
  EXPECT_EQ(h.Suggest("s", "a", 1, "ask")->grants[0].trial.number, 2);
}

}  // namespace
}  // namespace luthier::coordinator::testing
