// What a run says on its way: points of its curve, heartbeats, pauses.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/worker/runtime_fixture.h"
#include "worker/runtime/runtime.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

// --- Learning curves ---

TEST_F(RuntimeTest, PointsArriveInOrderBeforeTheResult) {
  runner_.run = [](const RunRequest&, RunSink* sink) {
    for (int step = 0; step < 2500; ++step) sink->Report(Point(step, 1.0 / (step + 1)), step == 7 ? "c7" : "");
    sink->Report(Point(7, 99.0), "");  // A repeated step: the first counts.
    return Complete(0);
  };
  RunOneTrial();
  int64_t next = 0;
  for (const ReportRequest& report : coordinator_.reports) {
    EXPECT_LE(report.measurements.size(), 1000u);
    EXPECT_EQ(report.token, "token-1");
    for (const study::Measurement& m : report.measurements) {
      EXPECT_EQ(m.step, next++);
      EXPECT_TRUE(m.elapsed_seconds);
    }
  }
  EXPECT_EQ(next, 2500);
  EXPECT_EQ(coordinator_.reports.back().checkpoint, "c7");
  EXPECT_EQ(coordinator_.calls.back() == "suggest" ? "finish" : "", "finish");
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].checkpoint, "c7");
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("[luthier-worker] step 7 was reported before"));
}

TEST_F(RuntimeTest, AReportsAnswerCanStopTheRun) {
  coordinator_.report_directive = study::Directive::kStop;
  ReportOnceAndWait();
  EXPECT_THAT(coordinator_.tried, IsEmpty());
  EXPECT_THAT(coordinator_.released, IsEmpty());
}

TEST_F(RuntimeTest, AReportRefusedForItsLeaseEndsTheRun) {
  coordinator_.errors["report"] = {Precondition(base::reason::kLeaseLost)};
  ReportOnceAndWait();
  EXPECT_THAT(coordinator_.tried, IsEmpty());
}

TEST_F(RuntimeTest, RefusedPointsDoNotHarmTheResult) {
  coordinator_.errors["report"] = {
      Precondition(base::reason::kConflictingReport), absl::InvalidArgumentError("a metric is odd"),
      base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kLimitExceeded, "too many points")};
  int answered = 0;
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    for (int step = 0; step < 4; ++step) {
      sink->Report(Point(step, 1), "");
      ++answered;
      if (step < 3) {
        coordinator_.Await([&] {
          int64_t calls = 0;
          for (const std::string& call : coordinator_.calls) calls += call == "report";
          return calls >= answered;
        });
      }
    }
    return Complete(3);
  };
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("points were refused: a metric is odd"));
}

TEST_F(RuntimeTest, ACurveGoesOnWithoutGradientsOnceTheServiceTakesNoMore) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kLimitExceeded;
  detail.metadata["limit"] = "gradient_bytes";
  coordinator_.errors["report"] = {
      base::MakeError(absl::StatusCode::kResourceExhausted, "too many bytes of gradients", detail)};
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{1.0}, {}, 0.0, {}};
    sink->Report(m, "");
    coordinator_.Await([&] { return coordinator_.reports.size() == 1; });  // The second try.
    return Complete(3);
  };
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("the curve goes on without gradients: too many bytes"));
  ASSERT_THAT(coordinator_.reports, SizeIs(1));
  ASSERT_THAT(coordinator_.reports[0].measurements, SizeIs(1));
  EXPECT_FALSE(coordinator_.reports[0].measurements[0].gradient.has_value());
}

TEST_F(RuntimeTest, AGradientOfTheWrongLengthFailsTheTrialAtOnce) {
  runner_.run = [](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{1.0, 2.0}, {}, 0.0, {}};
    sink->Report(m, "");
    return UntilStopped(sink);
  };
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].failure.reason, "BAD_OUTPUT");
  EXPECT_THAT(coordinator_.results[0].failure.message, HasSubstr("has 2 entries but the study has 1"));
}

TEST_F(RuntimeTest, ANonFiniteGradientIsLeftOutAndThePointKept) {
  runner_.run = [](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{std::nan("")}, {}, 0.0, {}};
    sink->Report(m, "");
    m = Point(1, 1);
    m.gradient = study::Gradient{{2.0}, {}, 0.0, {}};
    sink->Report(m, "");
    return Complete(1);
  };
  RunOneTrial();
  std::vector<study::Measurement> points;
  for (const ReportRequest& report : coordinator_.reports) {
    points.insert(points.end(), report.measurements.begin(), report.measurements.end());
  }
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_FALSE(points[0].gradient);
  EXPECT_TRUE(points[1].gradient);
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("step 0: the gradient is left out"));
}

TEST_F(RuntimeTest, TrainingNeverWaitsForTheNetwork) {
  coordinator_.hold_reports = true;
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    for (int step = 0; step < 20000; ++step) sink->Report(Point(step, 1), "");
    // All were taken although no call has come back.
    coordinator_.Do([&] { coordinator_.hold_reports = false; });
    return Complete(1);
  };
  RunOneTrial();
  size_t points = 0;
  for (const ReportRequest& report : coordinator_.reports) points += report.measurements.size();
  EXPECT_EQ(points, 10000u);
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("only the first 10000 points"));
}

// --- Heartbeats ---

TEST_F(RuntimeTest, BeatsComeEveryThirdOfTheTtlForAllLeases) {
  options_.slots = 2;
  int running = 0;
  bool enough = false;
  runner_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] { ++running; });
    coordinator_.Await([&] { return enough; });
    return Complete(1);
  };
  Grant(1, 2);
  Done();
  Start();
  coordinator_.Await([&] { return running == 2; });
  clock_.Drive([&] { return coordinator_.beats.size() >= 12; });
  coordinator_.Do([&] { enough = true; });
  EXPECT_TRUE(JoinDriven().ok());
  std::set<absl::Duration> intervals;
  for (size_t i = 1; i < 12; ++i) {
    EXPECT_THAT(coordinator_.beats[i].second, ElementsAre("token-1", "token-2"));
    const absl::Duration interval = coordinator_.beats[i].first - coordinator_.beats[i - 1].first;
    EXPECT_THAT(interval, AllOf(Ge(kTtl / 3 * 0.9), Le(kTtl / 3 * 1.1)));
    intervals.insert(interval);
  }
  EXPECT_GT(intervals.size(), 5u) << "jittered";
  EXPECT_EQ(coordinator_.beating_worker, "w1");
}

TEST_F(RuntimeTest, LostAndStoppedRunsEndWithoutAWordAndFreeTheirSlot) {
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 3) return Complete(3);
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), request.trial == 1 ? StopReason::kLost : StopReason::kCancelled);
    return outcome;
  };
  coordinator_.directives = {{"token-1", study::Directive::kLost}, {"token-2", study::Directive::kStop}};
  Grant(1, 3);
  RunToTheEnd();
  ASSERT_THAT(coordinator_.tried, SizeIs(1));
  EXPECT_EQ(coordinator_.tried[0].trial, 3);
  EXPECT_THAT(coordinator_.released, IsEmpty());
  EXPECT_EQ(discarded_, (std::set<int64_t>{2, 3})) << "the new holder may need the old checkpoint";
}

// The reporter holds on to a run while its call is under way; the slot must not give the run up before.
TEST_F(RuntimeTest, AStoppedRunWaitsForItsReportOnItsWay) {
  coordinator_.hold_reports = true;
  std::vector<int64_t> started;
  const auto on_its_way = [&] {
    return std::count(coordinator_.calls.begin(), coordinator_.calls.end(), "report") == 1;
  };
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
    coordinator_.Do([&] { started.push_back(request.trial); });
    if (request.trial == 2) return Complete(2);
    sink->Report(Point(0, 1), "");
    return UntilStopped(sink);
  };
  Grant(1, 2);
  Done();
  Start();
  coordinator_.Await(on_its_way);
  coordinator_.Do([&] { coordinator_.directives["token-1"] = study::Directive::kStop; });
  clock_.Drive([&] { return discarded_.count(1) > 0; });
  // The run is over, its report is not: now Run, the asker and the slot wait, the last either for the reporter, as it
  // should, or for its next trial.
  coordinator_.Await([&] { return clock_.WaitingForever() >= 3; });
  // The second beat from here on was begun after that.
  const size_t beats = coordinator_.Check([&] { return coordinator_.beats.size(); });
  clock_.Drive([&] { return coordinator_.beats.size() >= beats + 2 || started.size() > 1; });
  coordinator_.Do([&] {
    EXPECT_THAT(started, ElementsAre(1)) << "the slot took another trial";
    EXPECT_THAT(coordinator_.beats.back().second, ElementsAre("token-1")) << "the run was given up";
    EXPECT_THAT(coordinator_.reports, IsEmpty());
    coordinator_.hold_reports = false;
  });
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.reports, SizeIs(1)) << "the answer arrived";
  EXPECT_THAT(started, ElementsAre(1, 2));
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].trial, 2);
}

TEST_F(RuntimeTest, ARunThatReachesItsTargetIsPausedAndKeepsItsCheckpoint) {
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
    EXPECT_EQ(request.target_step, 9);
    sink->Started(3, "");
    sink->Report(Point(8, 0.5), "");
    sink->Checkpoint("saved");
    RunOutcome outcome;
    outcome.result = RunResult::kPaused;
    outcome.measurement = Point(9, 0.4);
    return outcome;
  };
  coordinator_.Do([&] {
    coordinator_.finish_state = study::TrialState::kPending;  // Not final.
    coordinator_.queue = {MakeLease(1)};
    coordinator_.queue[0].run.target_step = 9;
    coordinator_.queue[0].run.resume_checkpoint = "old";
  });
  RunToTheEnd();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  const FinalResult& result = coordinator_.results[0];
  EXPECT_TRUE(result.paused);
  EXPECT_FALSE(result.pruned);
  EXPECT_EQ(result.checkpoint, "saved");
  EXPECT_EQ(result.start_step, 3);
  EXPECT_EQ(result.measurement.step, 9);
  ASSERT_THAT(coordinator_.reports, SizeIs(1));
  EXPECT_EQ(coordinator_.reports[0].start_step, 3);
  EXPECT_THAT(discarded_, IsEmpty());
  EXPECT_EQ(discarded_studies_, std::vector<std::string>({"demo"}));
}

TEST_F(RuntimeTest, AnObjectiveThatNeverReportsIsNoted) {
  coordinator_.Do([&] {
    coordinator_.queue = {MakeLease(1)};
    coordinator_.queue[0].run.target_step = 9;
  });
  RunToTheEnd();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_FALSE(coordinator_.results[0].paused);
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("was to pause at step 9 and reported none"));
}

TEST_F(RuntimeTest, AnObjectiveThatKnowsNoTargetIsPausedByTheReportsAnswer) {
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    sink->Started(0, "gone");
    sink->Report(Point(7, 0.25), "");
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), StopReason::kPause);
    return outcome;
  };
  coordinator_.Do([&] {
    coordinator_.report_directive = study::Directive::kPause;
    coordinator_.finish_state = study::TrialState::kPending;
    coordinator_.queue = {MakeLease(1)};
    coordinator_.queue[0].run.resume_checkpoint = "old";
  });
  RunToTheEnd();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  const FinalResult& result = coordinator_.results[0];
  EXPECT_TRUE(result.paused);
  EXPECT_EQ(result.measurement.step, 7);
  EXPECT_EQ(result.measurement.metrics.at("loss"), 0.25);
  EXPECT_EQ(result.start_step, 0);
  EXPECT_THAT(result.output_tail, HasSubstr("began afresh: the checkpoint old was not used: gone"));
  EXPECT_THAT(result.output_tail, HasSubstr("paused without a checkpoint"));
}

TEST_F(RuntimeTest, ARunThatIsToFinishEndsWithItsNewestValue) {
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    sink->Report(Point(6, 0.5), "");
    sink->Report(Point(7, 0.25), "");
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), StopReason::kFinish);
    return outcome;
  };
  coordinator_.report_directive = study::Directive::kFinish;
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_TRUE(coordinator_.results[0].pruned);
  EXPECT_EQ(coordinator_.results[0].measurement.step, 7);
  EXPECT_EQ(coordinator_.results[0].measurement.metrics.at("loss"), 0.25);
  EXPECT_THAT(coordinator_.released, IsEmpty());
  EXPECT_EQ(discarded_, std::set<int64_t>{1});
}

TEST_F(RuntimeTest, ARunThatIsToFinishWithoutAValueIsGivenBack) {
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 2) sink->Report(Point(7, std::numeric_limits<double>::quiet_NaN()), "");
    return UntilStopped(sink);
  };
  coordinator_.directives = {{"token-1", study::Directive::kFinish}, {"token-2", study::Directive::kFinish}};
  Grant(1, 2);
  RunToTheEnd();
  EXPECT_THAT(coordinator_.tried, IsEmpty());
  ASSERT_THAT(coordinator_.released, SizeIs(2));
  EXPECT_EQ(discarded_, (std::set<int64_t>{1, 2}));
}

TEST_F(RuntimeTest, AHeartbeatThatFailsIsRepeatedSoon) {
  bool enough = false;
  runner_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Await([&] { return enough; });
    return Complete(1);
  };
  for (int k = 0; k < 4; ++k) coordinator_.errors["heartbeat"].push_back(absl::UnavailableError("away"));
  coordinator_.errors["heartbeat"].push_back(absl::InternalError("bug"));
  Grant(1, 1);
  Done();
  Start();
  const absl::Duration begin = clock_.Monotonic();
  clock_.Drive([&] { return !coordinator_.beats.empty(); });
  EXPECT_LT(coordinator_.beats[0].first - begin, kTtl / 2) << "five failures, and still well within the lease";
  coordinator_.Do([&] { enough = true; });
  EXPECT_TRUE(JoinDriven().ok());
}

}  // namespace
}  // namespace luthier::worker
