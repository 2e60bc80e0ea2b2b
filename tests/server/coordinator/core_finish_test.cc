// How a grant ends, and what is reported on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

const absl::Duration kTtl = absl::Seconds(60);
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class CoreFinish : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  // Takes the trial that was given back, and gives it back with a checkpoint of that step.
  void ReleaseWith(const std::string& output, int64_t step) {
    FinishOp op = MakeFinish(h_.Get("s", "a"), ReleaseContent{});
    op.checkpoint = "c";
    op.checkpoint_step = step;
    op.output_tail = output;
    std::vector<Operation> operations;
    operations.push_back(std::move(op));
    ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  }
  Harness h_;
};

TEST_F(CoreFinish, EveryRowOfTheTransitionTable) {
  // PENDING -> RUNNING -> COMPLETE, PRUNED, FAILED, CANCELLED, PENDING; PENDING -> CANCELLED.
  EXPECT_EQ(h_.Complete(h_.Get("s", "a"), Loss(1))->state, TrialState::kComplete);
  EXPECT_EQ(h_.Complete(h_.Get("s", "a"), Loss(1), /*pruned=*/true)->state, TrialState::kPruned);
  EXPECT_EQ(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig))->state, TrialState::kFailed);
  h_.Get("s", "a");
  EXPECT_EQ(h_.CancelTrial("s", 4)->trial.state, TrialState::kCancelled);
  EXPECT_EQ(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kInfra))->state, TrialState::kPending);
  EXPECT_EQ(h_.CancelTrial("s", 5)->trial.state, TrialState::kCancelled);
  EXPECT_EQ(h_.Release(h_.Get("s", "a"))->state, TrialState::kPending);
  std::vector<EventType> types;
  for (const storage::Event& event : h_.Events("s")) {
    if (event.type != EventType::kTrialSuggested && event.type != EventType::kTrialGranted) types.push_back(event.type);
  }
  EXPECT_THAT(types, ElementsAre(EventType::kStudyCreated, EventType::kTrialCompleted, EventType::kTrialPruned,
                                 EventType::kTrialFailed, EventType::kTrialCancelled, EventType::kTrialRetried,
                                 EventType::kTrialCancelled, EventType::kTrialReleased));
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CoreFinish, AResultIsStoredWithItsTrial) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m = Loss(0.25, 10);
  m.metrics["accuracy"] = 0.9;
  m.elapsed_seconds = 3.5;
  m.gradient.emplace().values = {1.5};
  FinishOp op = MakeFinish(grant, CompleteContent{m, false, ""});
  op.checkpoint = "disk7/model.pt";
  op.output_tail = "epoch 10";
  Answered<FinishReply> answer;
  op.done = answer.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  EXPECT_THAT(answer.get()->warnings, IsEmpty());
  const study::Trial trial = h_.Trial("s", 1).trial;
  EXPECT_EQ(trial.final_measurement, m);
  EXPECT_EQ(trial.checkpoint, "disk7/model.pt");
  EXPECT_EQ(trial.attempts[0].output_tail, "epoch 10");
  EXPECT_EQ(trial.attempts[0].outcome, study::AttemptOutcome::kComplete);
  EXPECT_EQ(trial.end_time, h_.clock.Wall());
  EXPECT_EQ(h_.Events("s", EventType::kTrialCompleted)[0].value, 0.25);
}

TEST_F(CoreFinish, AHolderWhoseTrialWasGrantedToAnotherHasLostItAndItsResultIsKeptForPeople) {
  const Grant old = h_.Get("s", "a");
  h_.Pass(kTtl);
  const Grant fresh = h_.Get("s", "b");
  ASSERT_EQ(fresh.trial.number, 1);
  ExpectRefused(h_.Complete(old, Loss(0.125)), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost,
                "trial 1 is no longer leased by this token; drop it and ask for another");
  ExpectRefused(h_.Report(old, {Loss(1, 1)}), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost, "drop it");
  ExpectRefused(h_.Release(old), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost, "drop it");
  ExpectRefused(h_.Fail(old, MakeFailure(FailureKind::kConfig)), absl::StatusCode::kFailedPrecondition,
                reason::kLeaseLost, "drop it");
  const std::vector<storage::Event> refused = h_.Events("s", EventType::kReportRefused);
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].attempt, 1);
  EXPECT_EQ(refused[0].actor, "a");
  EXPECT_EQ(refused[0].value, 0.125);
  ASSERT_TRUE(h_.Complete(fresh, Loss(0.5)).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.final_measurement->metrics.at(kMetric), 0.5);
  ExpectRefused(h_.Complete(old, Loss(0.125)), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal,
                "trial 1 is COMPLETE already");
}

TEST_F(CoreFinish, ATokenThatNeverHeldTheTrialIsRefusedAndLeavesNoTrace) {
  const Grant first = h_.Get("s", "a");
  Grant forged = h_.Get("s", "a");
  forged.trial.number = 1;  // Trial 2's token for trial 1.
  ExpectRefused(h_.Complete(forged, Loss(0)), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost, "trial 1");
  for (const std::string& token :
       {std::string(), std::string("short"), std::string(16, '\0'), std::string(1000, 'x')}) {
    forged.token = token;
    ExpectRefused(h_.Complete(forged, Loss(0)), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost, "trial 1");
  }
  EXPECT_THAT(h_.Events("s", EventType::kReportRefused), IsEmpty());
  EXPECT_EQ(h_.Complete(first, Loss(0))->state, TrialState::kComplete);
}

TEST_F(CoreFinish, TrialsAndStudiesThatDoNotExistAreNotFound) {
  Grant grant = h_.Get("s", "a");
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
    grant.trial.number = number;
    ExpectRefused(h_.Complete(grant, Loss(0)), absl::StatusCode::kNotFound, reason::kNotFound,
                  "does not exist; it has 1 trials");
    ExpectRefused(h_.Report(grant, {Loss(0)}), absl::StatusCode::kNotFound, reason::kNotFound, "does not exist");
    ExpectRefused(h_.CancelTrial("s", number), absl::StatusCode::kNotFound, reason::kNotFound, "does not exist");
  }
  grant.study_id = "nowhere";
  ExpectRefused(h_.Complete(grant, Loss(0)), absl::StatusCode::kNotFound, reason::kNotFound,
                "study \"nowhere\" does not exist");
  ExpectRefused(h_.Suggest("nowhere", "a"), absl::StatusCode::kNotFound, reason::kNotFound, "`luthier study list`");
}

// --- Release and INFRA ---

TEST_F(CoreFinish, AReleaseVoidsTheTokenAndCountsAsNoAttempt) {
  for (int i = 0; i < 5; ++i) {
    const Grant grant = h_.Get("s", "a");
    ASSERT_EQ(grant.trial.number, 1);
    ASSERT_EQ(h_.Release(grant)->state, TrialState::kPending);
    EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kLost));
    ExpectRefused(h_.Report(grant, {Loss(1, 1)}), absl::StatusCode::kFailedPrecondition, reason::kLeaseLost, "trial 1");
  }
  EXPECT_EQ(h_.Trial("s", 1).trial.releases, 5);
  EXPECT_EQ(h_.Trial("s", 1).trial.attempts[4].outcome, study::AttemptOutcome::kReleased);
}

TEST_F(CoreFinish, BeyondTwentyReleasesAReleaseCountsAsAnAttempt) {
  for (int i = 0; i < 22; ++i) {
    const Grant grant = h_.Get("s", "a");
    ASSERT_EQ(grant.trial.number, 1) << i;
    ASSERT_EQ(h_.Release(grant)->state, TrialState::kPending) << i;
  }
  EXPECT_EQ(h_.Trial("s", 1).trial.releases, 20);
  EXPECT_EQ(h_.Release(h_.Get("s", "a"))->state, TrialState::kFailed);  // Its third attempt.
  EXPECT_EQ(h_.Trial("s", 1).trial.failure->reason, study::failure::kAttemptsExhausted);
}

TEST_F(CoreFinish, AReleaseWhoseCheckpointMovedForwardCountsAsNoAttemptNorAsOneOfTheTwenty) {
  const auto release = [this](int64_t step) {
    ReleaseWith("", step);
    return h_.Trial("s", 1).trial.state;
  };
  for (int step = 1; step <= 200; ++step) ASSERT_EQ(release(step), TrialState::kPending) << step;
  EXPECT_EQ(h_.Trial("s", 1).trial.releases, 200);
  h_.Restart();
  for (int i = 0; i < 22; ++i) ASSERT_EQ(release(200), TrialState::kPending) << i;
  EXPECT_EQ(h_.Trial("s", 1).trial.releases, 220);
  ASSERT_EQ(release(201), TrialState::kPending);
  EXPECT_EQ(release(201), TrialState::kFailed) << "the third that counts";
}

TEST_F(CoreFinish, OldReleasesDoNotKeepTheirOutputForEver) {
  for (int step = 1; step <= 40; ++step) ReleaseWith("preempted", step);
  const std::vector<study::Attempt> attempts = h_.Trial("s", 1).trial.attempts;
  EXPECT_EQ(attempts[7].output_tail, "");
  EXPECT_EQ(attempts[8].output_tail, "preempted");
}

TEST_F(CoreFinish, AReleaseHandsItsCheckpointToTheNextAttempt) {
  ASSERT_TRUE(h_.Release(h_.Get("s", "a"), "disk7/half").ok());
  EXPECT_EQ(h_.Get("s", "b").resume_checkpoint, "disk7/half");
}

TEST_F(CoreFinish, InfraFailuresAreTriedAgainUntilAttemptsAreUsedUp) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const Grant grant = h_.Get("s", "a");
    ASSERT_EQ(grant.trial.number, 1);
    ASSERT_EQ(grant.attempt, attempt);
    const absl::StatusOr<FinishReply> reply = h_.Fail(grant, MakeFailure(FailureKind::kInfra, "SIGNAL", "killed by 9"));
    EXPECT_EQ(reply->state, attempt < 3 ? TrialState::kPending : TrialState::kFailed);
  }
  const study::Failure failure = *h_.Trial("s", 1).trial.failure;
  EXPECT_EQ(failure.kind, FailureKind::kConfig);
  EXPECT_EQ(failure.reason, study::failure::kAttemptsExhausted);
  EXPECT_THAT(failure.message, HasSubstr("all 3 attempts ended without a result"));
  EXPECT_THAT(failure.message, HasSubstr("2. worker a: FAILED SIGNAL killed by 9"));
}

TEST_F(CoreFinish, AConfigFailureIsFinal) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(FailureKind::kConfig, "DIVERGED", "loss 1e30")).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.failure, MakeFailure(FailureKind::kConfig, "DIVERGED", "loss 1e30"));
  EXPECT_EQ(h_.Events("s", EventType::kTrialFailed)[0].detail, "DIVERGED: loss 1e30");
}

TEST_F(CoreFinish, LongFailureTextsAreCutAtACharacter) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "é";
  ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig, "EXIT_CODE", text)).ok());
  ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kInfra, "EXIT_CODE", "x" + text)).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.failure->message.size(), 4096u);
  EXPECT_EQ(h_.Trial("s", 2).trial.attempts[0].failure->message.size(), 4096u);
  for (const storage::Event& event : h_.Events("s")) {
    EXPECT_TRUE(study::ValidateText("detail", event.detail, 1'000'000, true).ok()) << event.detail;
  }
  text.assign(4096, 'y');
  ASSERT_TRUE(h_.Fail(h_.Get("s", "b"), MakeFailure(FailureKind::kConfig, "EXIT_CODE", text)).ok());
  text += 'z';
  ASSERT_TRUE(h_.Fail(h_.Get("s", "b"), MakeFailure(FailureKind::kConfig, "EXIT_CODE", text)).ok());
  EXPECT_EQ(h_.Trial("s", 3).trial.failure->message.back(), 'z');  // The end is what tells.
  EXPECT_EQ(h_.Trial("s", 3).trial.failure->message.size(), 4096u);
}

TEST_F(CoreFinish, EventsKeepTheErrorAtTheEndOfALongFailure) {
  std::string text = "exit code 1\nTraceback (most recent call last):\n";
  for (int i = 0; i < 20; ++i) text += "  File \"train.py\", line 10, in train\n";
  text += "ModuleNotFoundError: No module named 'torch'";
  ASSERT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(FailureKind::kConfig, "EXIT_CODE", text)).ok());
  const std::string detail = h_.Events("s", EventType::kTrialFailed)[0].detail;
  EXPECT_THAT(detail, StartsWith("EXIT_CODE: exit code 1\n…\n"));
  EXPECT_THAT(detail, EndsWith("train\nModuleNotFoundError: No module named 'torch'"));
  EXPECT_LE(detail.size(), std::string("EXIT_CODE: ").size() + 256);
}

TEST_F(CoreFinish, AFailureNeedsAReasonInCapitals) {
  const Grant grant = h_.Get("s", "a");
  for (const std::string& bad : {std::string(), std::string("exit"), std::string("9A"), std::string("_A"),
                                 std::string("A B"), "A" + std::string(64, 'B')}) {
    ExpectRefused(h_.Fail(grant, MakeFailure(FailureKind::kConfig, bad)), absl::StatusCode::kInvalidArgument,
                  reason::kBadField, "failure.reason");
  }
  EXPECT_TRUE(h_.Fail(grant, MakeFailure(FailureKind::kConfig, "A" + std::string(63, 'B'))).ok());
}

// --- Values ---

TEST_F(CoreFinish, ANonFiniteValueIsAnAnswer) {
  for (const double value : {kNan, kInf, -kInf}) {
    const Grant grant = h_.Get("s", "a");
    const absl::StatusOr<FinishReply> reply = h_.Complete(grant, Loss(value));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->state, TrialState::kFailed);
    EXPECT_THAT(reply->warnings, ElementsAre(HasSubstr("NON_FINITE")));
    const study::Trial trial = h_.Trial("s", grant.trial.number).trial;
    EXPECT_EQ(trial.failure->reason, study::failure::kNonFinite);
    EXPECT_EQ(trial.failure->kind, FailureKind::kConfig);
    EXPECT_FALSE(trial.final_measurement);
  }
}

TEST_F(CoreFinish, ABadGradientIsDroppedAndTheLossKept) {
  const std::vector<std::vector<double>> bad = {{}, {1, 2}, {kNan}, {kInf}};
  for (const std::vector<double>& values : bad) {
    const Grant grant = h_.Get("s", "a");
    study::Measurement m = Loss(0.5);
    m.gradient.emplace().values = values;
    const absl::StatusOr<FinishReply> reply = h_.Complete(grant, m);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->state, TrialState::kComplete);
    EXPECT_THAT(reply->warnings, ElementsAre(HasSubstr("gradient dropped")));
    const study::Trial trial = h_.Trial("s", grant.trial.number).trial;
    EXPECT_EQ(trial.final_measurement->metrics.at(kMetric), 0.5);
    EXPECT_FALSE(trial.final_measurement->gradient);
  }
  EXPECT_THAT(h_.Events("s", EventType::kGradientDropped), SizeIs(4));
}

TEST_F(CoreFinish, TheTrainingOfAResultIsKept) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m = Loss(0.5);
  m.training = {study::TrainingOutcome::kLimit, 1e-3, 2e-4};
  m.elapsed_seconds = 3.0;
  m.gradient_seconds = 1.0;
  EXPECT_THAT(h_.Complete(grant, m)->warnings, IsEmpty());
  EXPECT_EQ(h_.Trial("s", 1).trial.final_measurement, m);
  // It is part of the content: said otherwise, it is another result.
  EXPECT_TRUE(h_.Complete(grant, m).ok());
  const auto conflicts = [&](study::Measurement other) {
    ExpectRefused(h_.Complete(grant, other), absl::StatusCode::kFailedPrecondition, reason::kConflictingReport,
                  "was ended with other content");
  };
  study::Measurement other = m;
  other.training->outcome = study::TrainingOutcome::kConverged;
  conflicts(other);
  other = m;
  other.training->gradient_norm.reset();
  conflicts(other);
  other.training->gradient_norm = 2e-4;
  other.training->duality_gap.reset();
  conflicts(other);
  other = m;
  other.gradient_seconds = 2.0;
  conflicts(other);
}

TEST_F(CoreFinish, AMalformedTrainingIsDroppedAndTheLossKept) {
  for (const double bad : {-1.0, kNan, kInf}) {
    for (const int which : {0, 1, 2}) {
      const Grant grant = h_.Get("s", "a");
      study::Measurement m = Loss(0.5);
      m.training.emplace();
      (which == 0 ? m.training->gradient_norm : which == 1 ? m.training->duality_gap : m.gradient_seconds) = bad;
      const absl::StatusOr<FinishReply> reply = h_.Complete(grant, m);
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(reply->state, TrialState::kComplete);
      EXPECT_THAT(reply->warnings, ElementsAre(HasSubstr("training dropped, the loss is kept")));
      EXPECT_THAT(h_.Events("s", EventType::kTrialCompleted).back().detail, HasSubstr("WARNING: what it says"));
      const study::Trial trial = h_.Trial("s", grant.trial.number).trial;
      EXPECT_EQ(trial.final_measurement, Loss(0.5));
    }
  }
}

TEST_F(CoreFinish, AReportWithAMalformedTrainingIsRefused) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m = Loss(0.5, 1);
  m.training.emplace().gradient_norm = kNan;
  m.gradient_seconds = -1.0;
  const absl::StatusOr<ReportReply> reply = h_.Report(grant, {m});
  ExpectRefused(reply, absl::StatusCode::kInvalidArgument, reason::kBadField, "measurements[0].training.gradient_norm");
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("measurements[0].gradient_seconds"));
}

TEST_F(CoreFinish, ACompleteWithoutTheStudysMetricIsRefusedAndTheGrantLivesOn) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m;
  m.metrics["accuracy"] = 0.5;
  ExpectRefused(h_.Complete(grant, m), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "lacks the study's metric \"loss\"; it has accuracy");
  EXPECT_TRUE(h_.Complete(grant, Loss(1)).ok());
}

TEST_F(CoreFinish, APrunedTrialMayHaveNoValue) {
  const Grant grant = h_.Get("s", "a");
  EXPECT_EQ(h_.Complete(grant, study::Measurement(), /*pruned=*/true)->state, TrialState::kPruned);
}

TEST_F(CoreFinish, EveryViolationOfAMeasurementIsNamedAtOnce) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m = Loss(1, -1);
  m.metrics["not a name"] = 1;
  m.elapsed_seconds = kNan;
  const absl::StatusOr<FinishReply> reply = h_.Complete(grant, m);
  ExpectRefused(reply, absl::StatusCode::kInvalidArgument, reason::kBadField, "measurement.step: -1 is below 0");
  EXPECT_THAT(base::GetErrorDetail(reply.status())->violations, SizeIs(3));
}

TEST_F(CoreFinish, LimitsAreMetAtTheLimitAndRefusedAboveIt) {
  const Grant grant = h_.Get("s", "a");
  study::Measurement m = Loss(1);
  for (int i = 0; i < 32; ++i) m.metrics["m" + std::to_string(i)] = i;  // 33 with the loss.
  ExpectRefused(h_.Complete(grant, m), absl::StatusCode::kInvalidArgument, reason::kBadField, "at most 32");
  ExpectRefused(h_.Release(grant, std::string(1025, 'c')), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "checkpoint: is longer than 1024 bytes; send a reference, not the data");
  m.metrics.erase("m0");
  EXPECT_TRUE(h_.Complete(grant, m).ok());
  EXPECT_TRUE(h_.Release(h_.Get("s", "a"), std::string(1024, 'c')).ok());
}

// --- Repetitions ---

TEST_F(CoreFinish, ARepeatedEndGetsTheFirstAnswerAlsoWhenFinalAndAfterARestart) {
  const Grant complete = h_.Get("s", "a");
  const Grant config = h_.Get("s", "a");
  const Grant infra = h_.Get("s", "a");
  const Grant release = h_.Get("s", "a");
  study::Measurement m = Loss(0.5);
  m.gradient.emplace().values = {1, 2, 3};  // A warning, to be repeated as well.
  const auto all = [&] {
    return std::vector<absl::StatusOr<FinishReply>>{
        h_.Complete(complete, m), h_.Fail(config, MakeFailure(FailureKind::kConfig)),
        h_.Fail(infra, MakeFailure(FailureKind::kInfra)), h_.Release(release)};
  };
  const auto first = all();
  const uint64_t seq = h_.core->last_seq();
  for (int round = 0; round < 3; ++round) {
    const auto again = all();
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_TRUE(again[i].ok()) << again[i].status();
      EXPECT_EQ(again[i]->state, first[i]->state);
      EXPECT_EQ(again[i]->warnings, first[i]->warnings);
      EXPECT_EQ(again[i]->seq, first[i]->seq);
    }
    EXPECT_EQ(h_.core->last_seq(), seq);  // No new event.
    h_.Restart();
  }
  // The trials go on and end; the old answers stay.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(h_.Complete(h_.Get("s", "b"), Loss(2)).ok());
  EXPECT_EQ(h_.Trial("s", 3).trial.state, TrialState::kComplete);
  const auto again = all();
  EXPECT_EQ(again[2]->state, TrialState::kPending);
  EXPECT_EQ(again[3]->seq, first[3]->seq);
}

TEST_F(CoreFinish, OtherContentWithTheSameTokenConflicts) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Complete(grant, Loss(0.5)).ok());
  const std::string text = "attempt 1 of trial 1 was ended with other content";
  ExpectRefused(h_.Complete(grant, Loss(0.25)), absl::StatusCode::kFailedPrecondition, reason::kConflictingReport,
                text);
  ExpectRefused(h_.Complete(grant, Loss(0.5), true), absl::StatusCode::kFailedPrecondition, reason::kConflictingReport,
                text);
  ExpectRefused(h_.Release(grant), absl::StatusCode::kFailedPrecondition, reason::kConflictingReport, text);
  ExpectRefused(h_.Fail(grant, MakeFailure(FailureKind::kInfra)), absl::StatusCode::kFailedPrecondition,
                reason::kConflictingReport, text);
  EXPECT_EQ(h_.Trial("s", 1).trial.final_measurement->metrics.at(kMetric), 0.5);
}

TEST_F(CoreFinish, ANanIsTheSameContentAsItself) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Complete(grant, Loss(kNan)).ok());
  EXPECT_EQ(h_.Complete(grant, Loss(kNan))->state, TrialState::kFailed);
}

TEST_F(CoreFinish, CancellingAgainIsNoErrorCancellingAFinalTrialIs) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.CancelTrial("s", 1).ok());
  EXPECT_TRUE(h_.CancelTrial("s", 1).ok());
  ExpectRefused(h_.Complete(grant, Loss(1)), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal,
                "trial 1 is CANCELLED already");
  ASSERT_TRUE(h_.Complete(h_.Get("s", "a"), Loss(1)).ok());
  ExpectRefused(h_.CancelTrial("s", 2), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal,
                "trial 2 is COMPLETE already");
}

// --- Reports ---

TEST_F(CoreFinish, ReportedPointsAreStoredPerAttempt) {
  const Grant first = h_.Get("s", "a");
  EXPECT_EQ(h_.Report(first, {Loss(3, 1), Loss(kNan, 2)})->directive, study::Directive::kContinue);
  ASSERT_TRUE(h_.Fail(first, MakeFailure(FailureKind::kInfra)).ok());
  const Grant second = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(second, {Loss(4, 1)}).ok());  // The same step, another attempt.
  const storage::StudyKey key = h_.Study("s").key;
  EXPECT_THAT(h_.memory.ListMeasurements(key, 1, 1).value(), SizeIs(2));
  EXPECT_THAT(h_.memory.ListMeasurements(key, 1, 2).value(), ElementsAre(Loss(4, 1)));
  const std::vector<storage::Event> events = h_.Events("s", EventType::kMeasurement);
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_TRUE(std::isnan(*events[1].value));
}

TEST_F(CoreFinish, ARepeatedPointHasNoEffectAnotherValueForItsStepConflicts) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(grant, {Loss(3, 1)}).ok());
  for (int round = 0; round < 2; ++round) {
    const uint64_t seq = h_.core->last_seq();
    EXPECT_TRUE(h_.Report(grant, {Loss(3, 1)}).ok());
    EXPECT_EQ(h_.core->last_seq(), seq);
    ExpectRefused(h_.Report(grant, {Loss(5, 2), Loss(4, 1)}), absl::StatusCode::kFailedPrecondition,
                  reason::kConflictingReport, "step 1 of trial 1 was reported with other content");
    EXPECT_THAT(h_.memory.ListMeasurements(h_.Study("s").key, 1, 1).value(), SizeIs(1));  // All or nothing.
    h_.Restart();  // Points come back from storage.
  }
}

TEST_F(CoreFinish, BadReportsAreRefusedWithEveryFault) {
  const Grant grant = h_.Get("s", "a");
  ExpectRefused(h_.Report(grant, {}), absl::StatusCode::kInvalidArgument, reason::kBadField, "measurements: is empty");
  study::Measurement gradient = Loss(1, 3);
  gradient.gradient.emplace().values = {kNan};
  const absl::StatusOr<ReportReply> reply =
      h_.Report(grant, {Loss(1, -1), study::Measurement(), Loss(1, 2), Loss(2, 2), gradient});
  ExpectRefused(reply, absl::StatusCode::kInvalidArgument, reason::kBadField, "measurements[0].step: -1 is below 0");
  const std::string text(reply.status().message());
  EXPECT_THAT(text, HasSubstr("measurements[1].metrics: is empty; give at least one"));
  EXPECT_THAT(text, HasSubstr("measurements[3].step: 2 is there twice"));
  EXPECT_THAT(text, HasSubstr("measurements[4].gradient.full[0]: is not finite"));
  EXPECT_THAT(h_.Events("s", EventType::kMeasurement), IsEmpty());
}

TEST_F(CoreFinish, TheHolderOfACancelledTrialIsToldToStop) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.CancelTrial("s", 1).ok());
  EXPECT_EQ(h_.Report(grant, {Loss(1)})->directive, study::Directive::kStop);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kStop));
}

TEST_F(CoreFinish, AReportOnAFinalTrialIsRefused) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Complete(grant, Loss(1)).ok());
  ExpectRefused(h_.Report(grant, {Loss(1)}), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal,
                "trial 1 is COMPLETE already");
}

TEST_F(CoreFinish, AReportedCheckpointIsHandedToTheNextAttempt) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(grant, {Loss(1)}, "disk7/epoch1").ok());
  h_.Restart();
  h_.Pass(kTtl);
  EXPECT_EQ(h_.Get("s", "b").resume_checkpoint, "disk7/epoch1");
}

}  // namespace
}  // namespace luthier::coordinator::testing
