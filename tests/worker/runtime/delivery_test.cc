// A coordinator that is away, results that are not taken, and the spool.
#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include "tests/worker/runtime_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::Not;

// --- A coordinator that is away ---

TEST_F(RuntimeTest, TheRunGoesOnWhileTheCoordinatorIsAway) {
  bool trained = false;
  runner_.run = [&](const RunRequest&, RunSink* sink) {
    coordinator_.Do([&] { coordinator_.away = true; });
    for (int step = 0; step < 5; ++step) sink->Report(Point(step, 1), "");
    coordinator_.Do([&] { trained = true; });
    return Complete(0.5);
  };
  UseSpool();
  Grant(1, 1);
  Start();
  // Thousands of failing calls, then it is back.
  const absl::Duration begin = clock_.Monotonic();
  clock_.Drive([&] { return trained && coordinator_.calls.size() > 2000; });
  EXPECT_GT(clock_.Monotonic() - begin, absl::Minutes(10)) << "the tries become rare";
  coordinator_.Do([&] {
    EXPECT_THAT(coordinator_.results, IsEmpty());
    coordinator_.away = false;
    coordinator_.done = true;
  });
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].measurement.metrics.at("loss"), 0.5);
  size_t points = 0;
  for (const ReportRequest& report : coordinator_.reports) points += report.measurements.size();
  EXPECT_EQ(points, 5u);
  EXPECT_THAT(SpoolFiles(), IsEmpty());
}

TEST_F(RuntimeTest, TheLeaseIsKeptAliveUntilTheResultIsTaken) {
  coordinator_.finish_error = base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kQueueFull, "full");
  Grant(1, 1);
  Done();
  Start();
  clock_.Drive([&] { return coordinator_.beats.size() >= 5 && coordinator_.tried.size() >= 5; });
  coordinator_.Do([&] { coordinator_.finish_error = absl::OkStatus(); });
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(1));
  ASSERT_THAT(coordinator_.beats, Not(IsEmpty()));
  EXPECT_THAT(coordinator_.beats.back().second, ElementsAre("token-1"));
  for (const FinalResult& tried : coordinator_.tried) EXPECT_EQ(tried, coordinator_.results[0]) << "the same each time";
}

TEST_F(RuntimeTest, AServersWishForPatienceIsHonouredUpToAMinute) {
  const auto full = [](absl::Duration delay) {
    base::ErrorDetail detail;
    detail.reason = base::reason::kStorageFull;
    detail.retry_delay = delay;
    return base::MakeError(absl::StatusCode::kUnavailable, "disk full", detail);
  };
  coordinator_.errors["finish"] = {full(absl::Seconds(30)), full(absl::Hours(1000))};
  Grant(1, 1);
  Done();
  Start();
  const absl::Duration begin = clock_.Monotonic();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_GE(clock_.Monotonic() - begin, absl::Seconds(90));
  EXPECT_THAT(coordinator_.results, SizeIs(1)) << "within delivery_timeout, a day";
}

// --- Results that are not taken ---

TEST_F(RuntimeTest, ARefusedResultIsDiscardedAndTheWorkerGoesOn) {
  UseSpool();
  coordinator_.errors["finish"] = {Precondition(base::reason::kLeaseLost), Precondition(base::reason::kTrialFinal),
                                   Precondition(base::reason::kConflictingReport), absl::NotFoundError("no study")};
  Grant(1, 5);
  RunToTheEnd();
  EXPECT_THAT(coordinator_.tried, SizeIs(5));
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].trial, 5);
  EXPECT_THAT(SpoolFiles(), IsEmpty());
  EXPECT_EQ(discarded_, std::set<int64_t>({2, 5}));
}

TEST_F(RuntimeTest, AMalformedResultLosesItsGradientFirst) {
  UseSpool();
  runner_.run = [](const RunRequest&, RunSink*) {
    RunOutcome outcome = Complete(1);
    outcome.measurement.gradient = study::Gradient{{1.0}, {}, 0.0, {}};
    return outcome;
  };
  coordinator_.errors["finish"] = {
      base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kMessageTooLarge, "too large")};
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_FALSE(coordinator_.results[0].measurement.gradient);
  EXPECT_EQ(coordinator_.results[0].measurement.metrics.at("loss"), 1.0);
}

TEST_F(RuntimeTest, AMalformedResultBecomesAFailure) {
  UseSpool();
  coordinator_.errors["finish"] = {absl::InvalidArgumentError("metrics: too odd")};
  RunOneTrial();
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0].failure,
            (study::Failure{study::FailureKind::kConfig, "BAD_OUTPUT", "metrics: too odd"}));
  EXPECT_THAT(SpoolFiles(), IsEmpty());
}

TEST_F(RuntimeTest, AFailureNobodyTakesIsSetAside) {
  UseSpool();
  coordinator_.errors["finish"] = {absl::InvalidArgumentError("odd"), absl::InvalidArgumentError("odder")};
  RunOneTrial();
  EXPECT_THAT(coordinator_.results, IsEmpty());
  EXPECT_THAT(SpoolFiles(), ElementsAre(HasSubstr(".result.rejected")));
}

TEST_F(RuntimeTest, AnErrorThatStaysLeavesTheResultInTheSpool) {
  UseSpool();
  for (int k = 0; k < 100; ++k) {
    coordinator_.errors["finish"].push_back(k % 2 == 0 ? absl::InternalError("bug")
                                                       : absl::ResourceExhaustedError("message larger than max"));
  }
  RunOneTrial();
  EXPECT_THAT(coordinator_.tried, SizeIs(21));
  EXPECT_THAT(spool_->Leftovers(), SizeIs(1));
}

TEST_F(RuntimeTest, ASpoolThatCannotBeWrittenDoesNotStopTheResult) {
  UseSpool();
  std::filesystem::remove_all(spool_->directory());
  RunOneTrial();
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

TEST_F(RuntimeTest, DrainingTriesOnceMoreAtOnce) {
  runner_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] { coordinator_.away = true; });
    return Complete(1);
  };
  Grant(1, 1);
  Start();
  // Long enough for the pauses to have grown to seconds.
  clock_.Drive([&] { return coordinator_.tried.size() > 20; });
  coordinator_.Do([&] { coordinator_.away = false; });
  runtime_->Drain();
  EXPECT_TRUE(Join().ok()) << "without any time passing";
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

TEST_F(RuntimeTest, ADrainWhileATryIsUnderWayIsNotMissed) {
  Grant(1, 1);
  coordinator_.Do([&] {
    coordinator_.hold_results = true;
    coordinator_.errors["finish"] = {absl::UnavailableError("away")};
  });
  Start();
  coordinator_.Await([&] { return coordinator_.tried.size() == 1; });
  runtime_->Drain();
  coordinator_.Do([&] { coordinator_.hold_results = false; });
  EXPECT_TRUE(Join().ok()) << "without any time passing";
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

// --- The spool ---

TEST_F(RuntimeTest, AResultSurvivesItsWorkerAndIsSentFirst) {
  UseSpool();
  runner_.run = [&](const RunRequest&, RunSink*) {
    coordinator_.Do([&] { coordinator_.away = true; });
    return Complete(std::numeric_limits<double>::denorm_min());
  };
  Grant(1, 1);
  Start();
  // The result is on disk before it is tried to send: here the worker "dies".
  clock_.Drive([&] { return !coordinator_.tried.empty(); });
  EXPECT_THAT(spool_->Leftovers(), SizeIs(1));
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  ASSERT_THAT(spool_->Leftovers(), SizeIs(1));

  ended_ = false;
  options_.seed = 2;  // Another process: its requests have ids of their own.
  coordinator_.Do([&] {
    coordinator_.away = coordinator_.cancelled = false;
    coordinator_.done = true;
    coordinator_.calls.clear();
  });
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.calls, ElementsAre("finish", "get_spec", "suggest"));
  ASSERT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_EQ(coordinator_.results[0], coordinator_.tried[0]);
  EXPECT_THAT(SpoolFiles(), IsEmpty());
}

TEST_F(RuntimeTest, RefusedLeftoversAreRemoved) {
  UseSpool();
  for (int k = 1; k <= 3; ++k) {
    FinalResult result;
    result.study = "demo";
    result.trial = k;
    result.token = absl::StrCat("t", k);
    result.measurement = Point(0, k);
    ASSERT_TRUE(spool_->Write(result).ok());
    coordinator_.Hold(result.token, k);
  }
  coordinator_.errors["finish"] = {Precondition(base::reason::kLeaseLost), Precondition(base::reason::kTrialFinal)};
  RunToTheEnd();
  EXPECT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_THAT(SpoolFiles(), IsEmpty());
}

}  // namespace
}  // namespace luthier::worker
