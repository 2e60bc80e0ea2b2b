#include "worker/runtime/runtime.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/runtime_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::Each;
using ::testing::Le;
using ::testing::Pair;

// --- The plain path ---

TEST_F(RuntimeTest, ATrialIsAskedForRunAndCompleted) {
  UseSpool();
  runner_.run = [&](const RunRequest& request, RunSink*) {
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
  runner_.run = [&](const RunRequest& request, RunSink*) {
    seeds.push_back(request.seed);
    return Complete(1);
  };
  Grant(1, 2);
  coordinator_.Do([&] {
    Lease again = MakeLease(1);
    again.token = "other";
    again.run.attempt = 2;
    coordinator_.queue.push_back(again);
  });
  RunToTheEnd();
  ASSERT_THAT(seeds, SizeIs(3));
  EXPECT_EQ(seeds[0], seeds[2]);
  EXPECT_NE(seeds[0], seeds[1]);
  EXPECT_THAT(seeds, Each(Le(0x7FFFFFFFu)));
}

TEST_F(RuntimeTest, TheObjectiveIsToldWhichGradientIsRead) {
  using study::GradientUse;
  std::map<int64_t, std::pair<GradientUse, std::vector<double>>> told;
  runner_.run = [&](const RunRequest& request, RunSink*) {
    told[request.trial] = {request.gradient, request.direction};
    RunOutcome outcome = Complete(1);
    outcome.measurement.training = {study::TrainingOutcome::kLimit, 0.5, std::nullopt};
    outcome.measurement.gradient_seconds = 2.0;
    return outcome;
  };
  coordinator_.Do([&] {
    int64_t trial = 0;
    for (const GradientUse use : {GradientUse::kNone, GradientUse::kFull, GradientUse::kDirectional}) {
      Lease lease = MakeLease(++trial);
      lease.run.gradient = use;
      if (use == GradientUse::kDirectional) lease.run.direction = {1.5};
      coordinator_.queue.push_back(lease);
    }
  });
  RunToTheEnd();
  EXPECT_EQ(told[1], std::pair(GradientUse::kNone, std::vector<double>()));
  EXPECT_EQ(told[2], std::pair(GradientUse::kFull, std::vector<double>()));
  EXPECT_EQ(told[3], std::pair(GradientUse::kDirectional, std::vector<double>{1.5}));
  ASSERT_THAT(coordinator_.results, SizeIs(3));
  EXPECT_EQ(coordinator_.results[0].measurement.training,
            (study::TrainingReport{study::TrainingOutcome::kLimit, 0.5, std::nullopt}));
  EXPECT_EQ(coordinator_.results[0].measurement.gradient_seconds, 2.0);
}

TEST_F(RuntimeTest, SlotsRunAtOnceAndNeverMore) {
  options_.slots = 3;
  int running = 0, most = 0, started = 0;
  std::multiset<int> slots;
  runner_.run = [&](const RunRequest& request, RunSink*) {
    coordinator_.Do([&] {
      if (++started <= 3) slots.insert(request.slot);
      most = std::max(most, ++running);
    });
    // The first three wait for each other.
    coordinator_.Await([&] { return started >= 3; });
    coordinator_.Do([&] { --running; });
    return Complete(1);
  };
  Grant(1, 8);
  RunToTheEnd();
  EXPECT_EQ(most, 3);
  EXPECT_EQ(slots, (std::multiset<int>{0, 1, 2}));
  EXPECT_THAT(coordinator_.results, SizeIs(8));
  EXPECT_EQ(coordinator_.asks[0].count, 3);
}

TEST_F(RuntimeTest, PrunedAndFailedTrialsAreToldAsSuch) {
  runner_.run = [](const RunRequest& request, RunSink*) {
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
  RunToTheEnd();
  ASSERT_THAT(coordinator_.results, SizeIs(4));
  EXPECT_TRUE(coordinator_.results[0].pruned);
  EXPECT_EQ(coordinator_.results[1].failure.reason, "EXIT_CODE");
  EXPECT_EQ(coordinator_.results[2].failure,
            (study::Failure{study::FailureKind::kInfra, "WORKER_ERROR", "out of something"}));
  EXPECT_EQ(coordinator_.results[3].failure.kind, study::FailureKind::kInfra);
  EXPECT_EQ(discarded_, std::set<int64_t>({1, 2})) << "what is to be tried again keeps its checkpoint";
}

// --- Asking ---

TEST_F(RuntimeTest, AnUnknownOutcomeIsAskedAgainWithTheSameId) {
  coordinator_.errors["suggest"] = {
      absl::UnavailableError("away"), absl::DeadlineExceededError("slow"), absl::InternalError("RST_STREAM"),
      base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kQueueFull, "")};
  options_.slots = 2;
  RunToTheEnd();
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
  RunOneTrial();
  EXPECT_THAT(coordinator_.results, SizeIs(1));
}

TEST_F(RuntimeTest, AWorkerThatIsIdleForLongEnoughLeaves) {
  options_.exit_when_idle = absl::Seconds(30);
  coordinator_.Do([&] { coordinator_.grants_nothing_after = absl::Seconds(20); });
  const absl::Duration begin = clock_.Monotonic();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_FALSE(runtime_->Drained());
  EXPECT_EQ(clock_.Monotonic() - begin, absl::Seconds(30)) << "not 40, when it would have asked again";
  for (const SuggestRequest& ask : coordinator_.asks) EXPECT_LE(ask.longest_wait, absl::Seconds(30));
}

TEST_F(RuntimeTest, AWorkerOfAStudyThatIsNotThereIsIdle) {
  options_.exit_when_idle = absl::Seconds(30);
  for (int k = 0; k < 1000; ++k) coordinator_.errors["get_spec"].push_back(absl::NotFoundError("no study"));
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.asks, IsEmpty());
}

TEST_F(RuntimeTest, ACoordinatorThatIsAwayDoesNotMakeAWorkerIdle) {
  options_.exit_when_idle = absl::Seconds(30);
  for (int k = 0; k < 100; ++k) coordinator_.errors["suggest"].push_back(absl::UnavailableError("away"));
  Grant(1, 1);
  coordinator_.Do([&] { coordinator_.grants_nothing_after = absl::Seconds(1); });
  const absl::Duration begin = clock_.Monotonic();
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(1));
  EXPECT_GE(clock_.Monotonic() - begin, absl::Seconds(60)) << "it was away for longer than the worker may be idle";
}

TEST_F(RuntimeTest, ADrainedWorkerSaysSo) {
  Start();
  coordinator_.Await([&] { return !coordinator_.asks.empty(); });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_TRUE(runtime_->Drained());
}

TEST_F(RuntimeTest, PermanentErrorsEndTheWorkerAfterItsTrials) {
  options_.slots = 2;
  bool go = false;
  runner_.run = [&](const RunRequest&, RunSink*) {
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
  runner_.open = [](const study::StudySpec& spec) {
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
  runner_.open = [](const study::StudySpec&) { return absl::NotFoundError("data.csv: no such file"); };
  Start();
  clock_.Drive([&] { return !coordinator_.results.empty(); });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.looked_at, IsEmpty());
}

TEST_F(RuntimeTest, AnExternalStudyIsGivenBackAndSaidSo) {
  coordinator_.Do([&] {
    Lease lease = MakeLease(1);
    lease.run.spec.objective = study::ExternalObjective{};
    coordinator_.queue.push_back(lease);
  });
  Start();
  const absl::Status status = JoinDriven();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has an external objective"));
  EXPECT_THAT(coordinator_.released, SizeIs(1));
}

TEST_F(RuntimeTest, EndsWhenSoManyTrialsHaveEnded) {
  options_.slots = 3;
  options_.max_trials = 4;
  options_.exit_when_done = false;
  Grant(1, 9);
  // A trial that this worker lost counts for whoever ends it.
  coordinator_.errors["finish"] = {
      base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost, "another has it")};
  Start();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, SizeIs(4));
  EXPECT_THAT(coordinator_.queue, SizeIs(4));
}

TEST_F(RuntimeTest, MoreLeasesThanSlotsAreGivenBack) {
  coordinator_.ignore_count = true;
  Grant(1, 3);
  RunToTheEnd();
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
  runner_.run = [&](const RunRequest&, RunSink*) {
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
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
    if (request.trial == 1) sink->Report(Point(4, 1), "early");
    coordinator_.Do([&] { ++running; });
    RunOutcome outcome = UntilStopped(sink);
    EXPECT_EQ(sink->stop().reason(), StopReason::kDrain);
    if (request.trial == 1) outcome.checkpoint = "late";
    return outcome;
  };
  coordinator_.Do([&] {
    coordinator_.queue = {MakeLease(1), MakeLease(2)};
    coordinator_.queue[1].run.resume_checkpoint = "inherited";
    coordinator_.queue[1].run.resume_step = 7;
  });
  Start();
  coordinator_.Await([&] { return running == 2; });
  const absl::Duration begin = clock_.Monotonic();
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_GE(clock_.Monotonic() - begin, options_.drain_timeout);
  EXPECT_THAT(coordinator_.results, IsEmpty());
  std::map<int64_t, std::pair<std::string, int64_t>> released;
  for (const auto& release : coordinator_.released) {
    released[release.trial] = {release.checkpoint, release.checkpoint_step};
  }
  EXPECT_THAT(released, ElementsAre(Pair(1, Pair("late", 4)), Pair(2, Pair("inherited", 7))));
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

TEST_F(RuntimeTest, ALeaseOfWhichNoAnswerTellsADrainingWorkerIsGivenBack) {
  coordinator_.lose_cancelled_answer = true;
  Start();
  coordinator_.Await([&] { return coordinator_.asks.size() == 1; });
  coordinator_.Do([&] {
    coordinator_.cancelled = true;
    coordinator_.queue.push_back(MakeLease(1));
  });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
  EXPECT_THAT(coordinator_.results, IsEmpty());
  ASSERT_THAT(coordinator_.released, SizeIs(1));
  EXPECT_EQ(coordinator_.released[0].trial, 1);
  ASSERT_THAT(coordinator_.asks, SizeIs(2));
  EXPECT_EQ(coordinator_.asks[1].request_id, coordinator_.asks[0].request_id);
  EXPECT_LE(coordinator_.asks[1].longest_wait, absl::Seconds(1));
}

TEST_F(RuntimeTest, DrainingDoesNotWaitForACoordinatorThatIsAway) {
  UseSpool();
  runner_.run = [&](const RunRequest& request, RunSink* sink) {
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

TEST_F(RuntimeTest, TakesNoTrialWhileResultsCouldNotBeKept) {
  UseSpool();
  const std::string directory = spool_->directory();
  std::filesystem::remove_all(directory);
  std::ofstream(directory) << "a file in its place";
  Grant(1, 1);
  Start();
  int looks = 0;
  clock_.Drive([&] { return ++looks > 12; });  // A minute's.
  coordinator_.Do([&] { EXPECT_THAT(coordinator_.asks, SizeIs(0)); });
  std::filesystem::remove(directory);
  clock_.Drive([&] { return !coordinator_.asks.empty(); });
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
}

TEST_F(RuntimeTest, AfterADayWithoutAnswerTheResultStaysInTheSpool) {
  UseSpool();
  runner_.run = [&](const RunRequest&, RunSink*) {
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
  EXPECT_EQ(runner_.aborts, 1);
  runtime_->Drain();
  EXPECT_TRUE(JoinDriven().ok());
}

}  // namespace
}  // namespace luthier::worker
