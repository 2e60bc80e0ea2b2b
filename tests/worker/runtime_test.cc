#include "worker/runtime.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/worker/runtime_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

// --- The plain path ---

TEST_F(RuntimeTest, ATrialIsAskedForRunAndCompleted) {
  UseSpool();
  objective_.run = [&](const RunRequest& request, RunSink*) {
    EXPECT_EQ(request.study, "demo");
    EXPECT_EQ(request.trial, 1);
    EXPECT_EQ(request.attempt, 1);
    EXPECT_EQ(std::get<double>(request.parameters.at("lr")), 0.5);
    RunOutcome outcome = Complete(0.25);
    outcome.checkpoint = "last";
    outcome.output_tail = "bye";
    return outcome;
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(Join().ok());  // Nothing in it needs time to pass.
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  const FinalResult& result = coordinator_.results[0];
  EXPECT_EQ(result.study, "demo");
  EXPECT_EQ(result.trial, 1);
  EXPECT_EQ(result.token, "token-1");
  EXPECT_FALSE(result.failed);
  EXPECT_EQ(result.measurement.metrics.at("loss"), 0.25);
  EXPECT_EQ(result.measurement.elapsed_seconds, 0.0) << "filled in when the objective says nothing";
  EXPECT_EQ(result.checkpoint, "last");
  EXPECT_EQ(result.output_tail, "bye");
  EXPECT_EQ(coordinator_.asks[0].worker, "w1");
  EXPECT_EQ(coordinator_.asks[0].study, "demo");
  EXPECT_THAT(SpoolFiles(), IsEmpty());
  EXPECT_EQ(discarded_, std::set<int64_t>({1}));
}

TEST_F(RuntimeTest, TheSeedBelongsToTheTrialNotToTheAttempt) {
  std::vector<uint32_t> seeds;
  objective_.run = [&](const RunRequest& request, RunSink*) {
    seeds.push_back(request.seed);
    return Complete(1);
  };
  Grant(1, 2);
  coordinator_.Do([&] {
    Lease again = MakeLease(1);
    again.token = "other";
    again.attempt = 2;
    coordinator_.queue.push_back(again);
  });
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(seeds, SizeIs(3));
  EXPECT_EQ(seeds[0], seeds[2]);
  EXPECT_NE(seeds[0], seeds[1]);
  EXPECT_THAT(seeds, Each(Le(0x7FFFFFFFu)));
}

TEST_F(RuntimeTest, SlotsRunAtOnceAndNeverMore) {
  options_.slots = 3;
  int running = 0, most = 0, started = 0;
  objective_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] {
      ++started;
      most = std::max(most, ++running);
    });
    // The first three wait for each other.
    coordinator_.Await([&] { return started >= 3; });
    coordinator_.Do([&] { --running; });
    return Complete(1);
  };
  Grant(1, 8);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_EQ(most, 3);
  EXPECT_THAT(coordinator_.results, SizeIs(8));
  EXPECT_EQ(coordinator_.asks[0].count, 3);
}

TEST_F(RuntimeTest, PrunedAndFailedTrialsAreToldAsSuch) {
  objective_.run = [](const RunRequest& request, RunSink*) {
    if (request.trial == 1) {
      RunOutcome outcome = Complete(2);
      outcome.result = RunResult::kPruned;
      return outcome;
    }
    if (request.trial == 2) return Failed(study::FailureKind::kConfig, "EXIT_CODE", "exit code 1");
    if (request.trial == 3) throw std::runtime_error("out of something");
    RunOutcome stopped;
    stopped.result = RunResult::kStopped;  // Though nobody asked.
    return stopped;
  };
  Grant(1, 4);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(4));
  EXPECT_TRUE(coordinator_.results[0].pruned);
  EXPECT_EQ(coordinator_.results[1].failure.reason, "EXIT_CODE");
  EXPECT_EQ(coordinator_.results[2].failure,
            (study::Failure{study::FailureKind::kInfra, "WORKER_ERROR", "out of something"}));
  EXPECT_EQ(coordinator_.results[3].failure.kind, study::FailureKind::kInfra);
  EXPECT_EQ(discarded_, std::set<int64_t>({1, 2})) << "what is to be tried again keeps its checkpoint";
}

// --- Learning curves ---

TEST_F(RuntimeTest, PointsArriveInOrderBeforeTheResult) {
  objective_.run = [](const RunRequest&, RunSink* sink) {
    for (int step = 0; step < 2500; ++step) sink->Report(Point(step, 1.0 / (step + 1)), step == 7 ? "c7" : "");
    sink->Report(Point(7, 99.0), "");  // A repeated step: the first counts.
    return Complete(0);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
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
  coordinator_.report_directive = Directive::kStop;
  objective_.run = [](const RunRequest&, RunSink* sink) {
    sink->Report(Point(0, 1), "");
    return UntilStopped(sink);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.tried, IsEmpty());
  EXPECT_THAT(coordinator_.released, IsEmpty());
}

TEST_F(RuntimeTest, AReportRefusedForItsLeaseEndsTheRun) {
  coordinator_.errors["report"] = {Precondition(base::reason::kLeaseLost)};
  objective_.run = [](const RunRequest&, RunSink* sink) {
    sink->Report(Point(0, 1), "");
    return UntilStopped(sink);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.tried, IsEmpty());
}

TEST_F(RuntimeTest, RefusedPointsDoNotHarmTheResult) {
  coordinator_.errors["report"] = {
      Precondition(base::reason::kConflictingReport), absl::InvalidArgumentError("a metric is odd"),
      base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kLimitExceeded, "too many points")};
  int answered = 0;
  objective_.run = [&](const RunRequest&, RunSink* sink) {
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
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("points were refused: a metric is odd"));
}

TEST_F(RuntimeTest, ACurveGoesOnWithoutGradientsOnceTheServiceTakesNoMore) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kLimitExceeded;
  detail.metadata["limit"] = "gradient_bytes";
  coordinator_.errors["report"] = {
      base::MakeError(absl::StatusCode::kResourceExhausted, "too many bytes of gradients", detail)};
  objective_.run = [&](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{1.0}, {}, 0.0, {}};
    sink->Report(m, "");
    coordinator_.Await([&] { return coordinator_.reports.size() == 1; });  // The second try.
    return Complete(3);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("the curve goes on without gradients: too many bytes"));
  ASSERT_THAT(coordinator_.reports, SizeIs(1));
  ASSERT_THAT(coordinator_.reports[0].measurements, SizeIs(1));
  EXPECT_FALSE(coordinator_.reports[0].measurements[0].gradient.has_value());
}

TEST_F(RuntimeTest, AGradientOfTheWrongLengthFailsTheTrialAtOnce) {
  objective_.run = [](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{1.0, 2.0}, {}, 0.0, {}};
    sink->Report(m, "");
    return UntilStopped(sink);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].failure.reason, "BAD_OUTPUT");
  EXPECT_THAT(coordinator_.results[0].failure.message, HasSubstr("has 2 entries but the study has 1"));
}

TEST_F(RuntimeTest, ANonFiniteGradientIsLeftOutAndThePointKept) {
  objective_.run = [](const RunRequest&, RunSink* sink) {
    study::Measurement m = Point(0, 1);
    m.gradient = study::Gradient{{std::nan("")}, {}, 0.0, {}};
    sink->Report(m, "");
    m = Point(1, 1);
    m.gradient = study::Gradient{{2.0}, {}, 0.0, {}};
    sink->Report(m, "");
    return Complete(1);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
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
  objective_.run = [&](const RunRequest&, RunSink* sink) {
    for (int step = 0; step < 20000; ++step) sink->Report(Point(step, 1), "");
    // All were taken although no call has come back.
    coordinator_.Do([&] { coordinator_.hold_reports = false; });
    return Complete(1);
  };
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
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
  objective_.run = [&](const RunRequest&, RunSink*) {
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
  objective_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 3) return Complete(3);
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), request.trial == 1 ? StopReason::kLost : StopReason::kCancelled);
    return outcome;
  };
  coordinator_.directives = {{"token-1", Directive::kLost}, {"token-2", Directive::kStop}};
  Grant(1, 3);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
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
  objective_.run = [&](const RunRequest& request, RunSink* sink) {
    coordinator_.Do([&] { started.push_back(request.trial); });
    if (request.trial == 2) return Complete(2);
    sink->Report(Point(0, 1), "");
    return UntilStopped(sink);
  };
  Grant(1, 2);
  Done();
  Start();
  coordinator_.Await(on_its_way);
  coordinator_.Do([&] { coordinator_.directives["token-1"] = Directive::kStop; });
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
  objective_.run = [&](const RunRequest& request, RunSink* sink) {
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
    coordinator_.queue[0].target_step = 9;
    coordinator_.queue[0].resume_checkpoint = "old";
  });
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
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
    coordinator_.queue[0].target_step = 9;
  });
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_FALSE(coordinator_.results[0].paused);
  EXPECT_THAT(coordinator_.results[0].output_tail, HasSubstr("was to pause at step 9 and reported none"));
}

TEST_F(RuntimeTest, AnObjectiveThatKnowsNoTargetIsPausedByTheReportsAnswer) {
  objective_.run = [&](const RunRequest&, RunSink* sink) {
    sink->Started(0, "gone");
    sink->Report(Point(7, 0.25), "");
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), StopReason::kPause);
    return outcome;
  };
  coordinator_.Do([&] {
    coordinator_.report_directive = Directive::kPause;
    coordinator_.finish_state = study::TrialState::kPending;
    coordinator_.queue = {MakeLease(1)};
    coordinator_.queue[0].resume_checkpoint = "old";
  });
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  const FinalResult& result = coordinator_.results[0];
  EXPECT_TRUE(result.paused);
  EXPECT_EQ(result.measurement.step, 7);
  EXPECT_EQ(result.measurement.metrics.at("loss"), 0.25);
  EXPECT_EQ(result.start_step, 0);
  EXPECT_THAT(result.output_tail, HasSubstr("began afresh: the checkpoint old was not used: gone"));
  EXPECT_THAT(result.output_tail, HasSubstr("paused without a checkpoint"));
}

TEST(StopSignal, AnythingReplacesAPauseAndNothingElse) {
  StopSignal signal;
  signal.Request(StopReason::kPause);
  EXPECT_TRUE(signal.cancellation().cancelled());
  signal.Request(StopReason::kPause);
  EXPECT_EQ(signal.reason(), StopReason::kPause);
  signal.Request(StopReason::kLost);
  EXPECT_EQ(signal.reason(), StopReason::kLost);
  signal.Request(StopReason::kPause);
  signal.Request(StopReason::kCancelled);
  EXPECT_EQ(signal.reason(), StopReason::kLost);
}

TEST_F(RuntimeTest, AHeartbeatThatFailsIsRepeatedSoon) {
  bool enough = false;
  objective_.run = [&](const RunRequest&, RunSink*) {
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

// --- Asking ---

TEST_F(RuntimeTest, AnUnknownOutcomeIsAskedAgainWithTheSameId) {
  coordinator_.errors["suggest"] = {
      absl::UnavailableError("away"), absl::DeadlineExceededError("slow"), absl::UnknownError("what"),
      base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kQueueFull, "")};
  options_.slots = 2;
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.asks, SizeIs(5));
  const std::vector<SuggestRequest>& asks = coordinator_.asks;
  EXPECT_EQ(asks[0].request_id, asks[1].request_id);
  EXPECT_EQ(asks[1].request_id, asks[2].request_id);
  EXPECT_EQ(asks[2].request_id, asks[3].request_id);
  EXPECT_NE(asks[3].request_id, asks[4].request_id) << "a definite answer settles a request";
  EXPECT_THAT(asks[0].request_id,
              ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST_F(RuntimeTest, AStudyThatIsNotThereYetIsWaitedFor) {
  for (int k = 0; k < 5; ++k) coordinator_.errors["suggest"].push_back(absl::NotFoundError("no study"));
  Grant(1, 1);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

TEST_F(RuntimeTest, WhatWaitingDoesNotMendEndsTheWorkerAfterItsTrials) {
  options_.slots = 2;
  bool go = false;
  objective_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Await([&] { return go; });
    return Complete(1);
  };
  Grant(1, 1);
  Start();
  coordinator_.Await([&] { return coordinator_.asks.size() == 2; });
  coordinator_.Do([&] {
    coordinator_.errors["suggest"] = {absl::PermissionDeniedError("no")};
    coordinator_.away = true;  // Ends the long poll.
  });
  clock_.Drive([&] { return coordinator_.asks.size() >= 3; });
  coordinator_.Do([&] {
    coordinator_.away = false;
    go = true;
  });
  EXPECT_TRUE(absl::IsPermissionDenied(JoinDriven()));
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

TEST_F(RuntimeTest, AStudyThatCannotBeEvaluatedHereCostsNoTrial) {
  Grant(1, 3);
  coordinator_.spec.metric.name = "loss";
  // It is looked at until there is an answer.
  coordinator_.errors["get_spec"] = {absl::UnavailableError("gone"), absl::NotFoundError("not yet")};
  objective_.open = [](const study::StudySpec& spec) {
    return spec.metric.name == "loss" ? absl::NotFoundError("data.csv: no such file") : absl::OkStatus();
  };
  Start();
  const absl::Status status = JoinDriven();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), "study \"demo\" can't be evaluated by this worker: data.csv: no such file");
  EXPECT_THAT(coordinator_.looked_at, ElementsAre("demo"));
  EXPECT_THAT(coordinator_.asks, IsEmpty());
}

TEST_F(RuntimeTest, AWorkerOfAnyStudyOpensNone) {
  options_.study.clear();
  options_.exit_when_done = false;
  Grant(1, 1);
  objective_.open = [](const study::StudySpec&) { return absl::NotFoundError("data.csv: no such file"); };
  Start();
  clock_.Drive([&] { return !coordinator_.results.empty(); });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.looked_at, IsEmpty());
}

TEST_F(RuntimeTest, AnExternalStudyIsGivenBackAndSaidSo) {
  coordinator_.Do([&] {
    Lease lease = MakeLease(1);
    lease.spec.objective = study::ExternalObjective{};
    coordinator_.queue.push_back(lease);
  });
  Start();
  const absl::Status status = JoinDriven();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has an external objective"));
  EXPECT_THAT(coordinator_.released, SizeIs(1));
}

TEST_F(RuntimeTest, MoreLeasesThanSlotsAreGivenBack) {
  coordinator_.ignore_count = true;
  Grant(1, 3);
  Done();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.released, SizeIs(2));
}

// --- Draining ---

TEST_F(RuntimeTest, AnIdleWorkerDrainsAtOnce) {
  Start();
  coordinator_.Await([&] { return coordinator_.asks.size() == 1; });
  runtime_->Drain();
  runtime_->Drain();
  EXPECT_TRUE(Join().ok());
}

TEST_F(RuntimeTest, ARunThatFinishesInTimeIsCompleted) {
  bool running = false, go = false;
  objective_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] { running = true; });
    coordinator_.Await([&] { return go; });
    return Complete(1);
  };
  Grant(1, 1);
  Start();
  coordinator_.Await([&] { return running; });
  runtime_->Drain();
  coordinator_.Do([&] { go = true; });
  EXPECT_TRUE(Join().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(coordinator_.released, IsEmpty());
}

TEST_F(RuntimeTest, ARunThatDoesNotIsGivenBackWithItsCheckpoint) {
  options_.slots = 2;
  int running = 0;
  objective_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 1) sink->Report(Point(0, 1), "early");
    coordinator_.Do([&] { ++running; });
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), StopReason::kDrain);
    if (request.trial == 1) outcome.checkpoint = "late";
    return outcome;
  };
  coordinator_.Do([&] {
    coordinator_.queue = {MakeLease(1), MakeLease(2)};
    coordinator_.queue[1].resume_checkpoint = "inherited";
  });
  Start();
  coordinator_.Await([&] { return running == 2; });
  const absl::Duration begin = clock_.Monotonic();
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_GE(clock_.Monotonic() - begin, options_.drain_timeout);
  EXPECT_THAT(coordinator_.results, IsEmpty());
  std::map<int64_t, std::string> released;
  for (const auto& release : coordinator_.released) released[release.trial] = release.checkpoint;
  EXPECT_EQ(released, (std::map<int64_t, std::string>{{1, "late"}, {2, "inherited"}}));
  EXPECT_THAT(discarded_, IsEmpty());
}

TEST_F(RuntimeTest, ALeaseThatArrivesWhileDrainingIsGivenBack) {
  coordinator_.grant_after_cancel = true;
  Start();
  coordinator_.Await([&] { return coordinator_.asks.size() == 1; });
  coordinator_.Do([&] {
    // In one step, so that the poll sees both.
    coordinator_.cancelled = true;
    coordinator_.queue.push_back(MakeLease(1));
    coordinator_.errors["release"] = {absl::UnavailableError("once")};
  });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  // Either the drain came first, or the run was started, and completed in time.
  EXPECT_EQ(coordinator_.released.size() + coordinator_.results.size(), 1u);
}

TEST_F(RuntimeTest, DrainingDoesNotWaitForACoordinatorThatIsAway) {
  UseSpool();
  objective_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 1) return UntilStopped(sink);
    coordinator_.Do([&] { coordinator_.away = true; });
    return Complete(2);
  };
  options_.slots = 2;
  Grant(1, 2);
  Start();
  clock_.Drive([&] { return !coordinator_.tried.empty(); });
  const absl::Duration begin = clock_.Monotonic();
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  // Seconds; the driven clock may run ahead of busy threads, but not by a day.
  EXPECT_LE(clock_.Monotonic() - begin, absl::Minutes(30));
  EXPECT_THAT(spool_->Leftovers(), SizeIs(1));
}

TEST_F(RuntimeTest, AfterADayWithoutAnswerTheResultStaysInTheSpool) {
  UseSpool();
  objective_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] { coordinator_.away = true; });
    return Complete(2);
  };
  Grant(1, 1);
  Start();
  const absl::Duration begin = clock_.Monotonic();
  bool back = false;
  clock_.Drive([&] {
    // It asks again only when the slot is free.
    const size_t asks = coordinator_.asks.size();
    back = asks >= 2;
    return back;
  });
  EXPECT_GE(clock_.Monotonic() - begin, absl::Hours(24));
  EXPECT_THAT(spool_->Leftovers(), SizeIs(1));
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
}

TEST_F(RuntimeTest, AbortReachesTheObjective) {
  Start();
  runtime_->Abort();
  EXPECT_EQ(objective_.aborts, 1);
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
}

}  // namespace
}  // namespace luthier::worker
