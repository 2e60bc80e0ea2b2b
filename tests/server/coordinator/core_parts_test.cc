// Training in parts: targets, pauses, promotions, stopping rules, and what was trained twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {
namespace {

using absl::StatusCode;
using ::testing::Not;

TEST(CoreCheckpoints, KeepTheStepThatTheyHold) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(3)).ok());
  const auto report = [&](const Grant& grant, int64_t last, const std::string& checkpoint,
                          std::optional<int64_t> step) {
    ReportOp op;
    op.id = "s";
    op.number = grant.trial.number;
    op.token = grant.token;
    for (int64_t i = last - 1; i <= last; ++i) op.measurements.push_back(Loss(1.0, i));
    op.checkpoint = checkpoint;
    op.checkpoint_step = step;
    ASSERT_TRUE(h.Batch([&] {
                   std::vector<Operation> operations;
                   operations.push_back(std::move(op));
                   return operations;
                 }())
                    .ok());
  };
  const Grant grant = h.Get("s", "a");
  const auto held = [&] { return h.Trial("s", 1).trial.checkpoint_step; };
  report(grant, 2, "file", 1);
  EXPECT_EQ(held(), 1) << "the points of a report may go beyond its checkpoint";
  report(grant, 4, "file", std::nullopt);
  EXPECT_EQ(held(), 1) << "an older program says nothing of it: the same checkpoint keeps its step";
  report(grant, 6, "file", 6);
  EXPECT_EQ(held(), 6) << "it was written over";
  report(grant, 8, "other", std::nullopt);
  EXPECT_EQ(held(), 8);
  report(grant, 10, "bad", -1);
  EXPECT_EQ(h.Trial("s", 1).trial.checkpoint, "other");
  FinishOp release = MakeFinish(grant, ReleaseContent{});
  release.checkpoint = "last";
  release.checkpoint_step = 7;
  std::vector<Operation> operations;
  operations.push_back(std::move(release));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  const Grant next = h.Get("s", "b");
  EXPECT_EQ(next.trial.number, 1);
  EXPECT_EQ(next.resume_checkpoint, "last");
  EXPECT_EQ(next.resume_step, 7);
}

class CoreParts : public ::testing::Test {
 protected:
  explicit CoreParts(int64_t max_trials = 2, int64_t left_out = 0)
      : h_(Options(), [left_out](const study::StudySpec& spec) -> std::unique_ptr<search::Designer> {
          if (!spec.resource) return search::CreateDesigner(spec);
          return std::make_unique<RungDesigner>(spec, left_out);
        }) {
    EXPECT_TRUE(h_.Create("s", PartsSpec(max_trials)).ok());
  }
  static Core::Options Options() {
    Core::Options options = Harness::DefaultOptions();
    options.stoppers = [](const study::StudySpec&) { return std::make_unique<LimitStopper>(10.0); };
    return options;
  }
  // Trial 1, paused at its first target by worker a with checkpoint "c1"; trial 2 is running at worker b.
  Grant PauseFirst() {
    const Grant first = h_.Get("s", "a");
    second_ = h_.Suggest("s", "b").value().grants.empty() ? h_.Get("s", "b") : Grant();
    EXPECT_EQ(h_.Pause(first, Loss(0.5, 1), "c1")->state, TrialState::kPaused);
    return first;
  }
  void ExpectSound() {
    const absl::Status invariants = h_.core->CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    const ReplayReport report = VerifyReplay(&h_.memory, h_.Study("s"), [](const study::StudySpec& spec) {
                                  return std::unique_ptr<search::Designer>(std::make_unique<RungDesigner>(spec));
                                }).value();
    EXPECT_THAT(report.mismatches, IsEmpty());
    EXPECT_GT(report.checked, 0);
  }
  std::vector<std::string> Details(EventType type) {
    std::vector<std::string> details;
    for (const storage::Event& event : h_.Events("s", type)) details.push_back(event.detail);
    return details;
  }

  Harness h_;
  Grant second_;
};

TEST_F(CoreParts, ATrialPausesAtItsTargetAndGoesOnWhenItIsPromoted) {
  const Grant first = PauseFirst();
  EXPECT_EQ(first.target_step, kFirstTarget);
  storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kPaused);
  EXPECT_EQ(row.trial.attempts.back().outcome, study::AttemptOutcome::kPaused);
  EXPECT_EQ(row.trial.final_measurement->metrics.at(kMetric), 0.5);
  EXPECT_EQ(row.trial.checkpoint_step, 1);
  EXPECT_EQ(row.finish_seq, 0u);
  EXPECT_THAT(h_.Heartbeat("a", {first.token}), ElementsAre(study::Directive::kLost));
  // The row is counted once: the budget of two has no third trial.
  const Grant again = h_.Get("s", "c");
  EXPECT_EQ(again.trial.number, 1);
  EXPECT_EQ(again.attempt, 2);
  EXPECT_EQ(again.target_step, kLastTarget);
  EXPECT_EQ(again.resume_checkpoint, "c1");
  EXPECT_EQ(again.resume_step, 1);
  row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kRunning);
  ASSERT_THAT(row.trial.promotions, SizeIs(1));
  EXPECT_EQ(row.trial.promotions[0].ask_index, 2u);
  EXPECT_EQ(row.trial.promotions[0].resource, kLastTarget);
  EXPECT_EQ(row.trial.promotions[0].origin, "promote");
  EXPECT_FALSE(row.trial.final_measurement.has_value());
  EXPECT_EQ(h_.Rows("s").size(), 2u);
  // At the last target the trial is complete.
  EXPECT_EQ(h_.Pause(again, Loss(0.25, 3), "c3")->state, TrialState::kComplete);
  EXPECT_EQ(study::ResourceSpent(h_.Trial("s", 1).trial), 3);
  ExpectSound();
  EXPECT_THAT(Details(EventType::kTrialPaused), ElementsAre("step=1"));
  EXPECT_THAT(Details(EventType::kTrialPromoted), ElementsAre("step=3 ask=2"));
  EXPECT_THAT(Details(EventType::kTrialRestarted), IsEmpty());
}

TEST_F(CoreParts, ACompleteTrialThatNeverNamedAStepIsLogged) {
  const Grant silent = h_.Get("s", "a");
  const Grant beyond = h_.Get("s", "b");
  EXPECT_TRUE(h_.Complete(silent, Loss(0.5)).ok());
  EXPECT_TRUE(h_.Report(beyond, {Loss(0.9, 1)}).ok());
  EXPECT_TRUE(h_.Report(beyond, {Loss(0.8, 2)}).ok());
  EXPECT_TRUE(h_.Complete(beyond, Loss(0.7)).ok());
  EXPECT_THAT(Details(EventType::kTrialCompleted),
              ElementsAre(HasSubstr("WARNING: no step of the training was ever reported"),
                          HasSubstr("WARNING: it was to pause at step 1 and trained on to step 2")));
}

TEST_F(CoreParts, AReleaseThatPassesOnACheckpointLeavesItsStep) {
  const Grant first = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(first, {Loss(0.9, 1)}, "c1").ok());
  ASSERT_TRUE(h_.Report(first, {Loss(0.8, 2)}).ok());
  ASSERT_TRUE(h_.Release(first, "c1").ok());
  const Grant again = h_.Get("s", "b");
  ASSERT_EQ(again.trial.number, 1);
  EXPECT_EQ(again.resume_checkpoint, "c1");
  EXPECT_EQ(again.resume_step, 1);
  // One that nobody has heard of was saved at the last step.
  ASSERT_TRUE(h_.Report(again, {Loss(0.7, 2)}).ok());
  ASSERT_TRUE(h_.Release(again, "c2").ok());
  EXPECT_EQ(h_.Get("s", "c").resume_step, 2);
}

TEST_F(CoreParts, WithoutAResourceCheckpointsHaveTheirStepsToo) {
  study::StudySpec spec = PartsSpec(1);
  spec.resource.reset();
  ASSERT_TRUE(h_.Create("t", spec).ok());
  const Grant first = h_.Get("t", "a");
  ASSERT_TRUE(h_.Report(first, {Loss(0.9, 4), Loss(0.8, 5)}, "c5").ok());
  ASSERT_TRUE(h_.Report(first, {Loss(0.7, 6)}).ok());
  ASSERT_TRUE(h_.Release(first, "c5").ok());
  const Grant again = h_.Get("t", "b");
  EXPECT_EQ(again.resume_checkpoint, "c5");
  EXPECT_EQ(again.resume_step, 5);
  ASSERT_TRUE(h_.Report(again, {Loss(0.6, 7)}).ok());
  ASSERT_TRUE(h_.Release(again, "c7").ok());
  EXPECT_EQ(h_.Get("t", "c").resume_step, 7);
}

TEST_F(CoreParts, ASilentAttemptIsNotTakenForATrialThatNeverSpoke) {
  PauseFirst();
  const Grant again = h_.Get("s", "c");
  ASSERT_EQ(again.resume_step, 1);
  EXPECT_THAT(h_.Complete(again, Loss(0.25))->warnings,
              ElementsAre(HasSubstr("this attempt reported no step of the training, as an earlier one did")));
}

TEST_F(CoreParts, WithoutReportsNoStoppingRuleSeesATrial) {
  study::StudySpec spec = PartsSpec(2);
  spec.resource.reset();
  spec.stopping = study::MedianStopping{};
  ASSERT_TRUE(h_.Create("t", spec).ok());
  const Grant silent = h_.Get("t", "a");
  const Grant heard = h_.Get("t", "b");
  EXPECT_THAT(h_.Complete(silent, Loss(0.5, 9))->warnings, ElementsAre(HasSubstr("nothing was reported on the way")));
  EXPECT_TRUE(h_.Report(heard, {Loss(0.9, 1)}).ok());
  EXPECT_THAT(h_.Complete(heard, Loss(0.7))->warnings, IsEmpty());
}

TEST_F(CoreParts, ATrialThatEndsBeforeItsTargetMissedNothing) {
  const Grant first = h_.Get("s", "a");
  EXPECT_TRUE(h_.Complete(first, Loss(0.5, 1)).ok());
  EXPECT_THAT(Details(EventType::kTrialCompleted), ElementsAre(Not(HasSubstr("WARNING"))));
  ExpectSound();
}

TEST_F(CoreParts, ThePausesPointIsPartOfTheCurve) {
  const Grant first = h_.Get("s", "a");
  const Grant other = h_.Get("s", "a");
  ASSERT_TRUE(h_.Pause(first, Loss(0.5, 1)).ok());
  const auto points = h_.memory.ListMeasurements(1, 1, 1).value();
  EXPECT_THAT(points, ElementsAre(Loss(0.5, 1)));
  // Reported before: it stays one point.
  ASSERT_TRUE(h_.Report(other, {Loss(0.75, 1)}).ok());
  ASSERT_TRUE(h_.Pause(other, Loss(0.75, 1)).ok());
  EXPECT_THAT(h_.Events("s", EventType::kMeasurement), SizeIs(2));
}

TEST_F(CoreParts, AReportAtTheTargetIsAnsweredWithPauseEachTime) {
  const Grant grant = h_.Get("s", "a");
  EXPECT_EQ(h_.Report(grant, {Loss(0.9, 0)})->directive, study::Directive::kContinue);
  EXPECT_EQ(h_.Report(grant, {Loss(0.5, 1)})->directive, study::Directive::kPause);
  EXPECT_EQ(h_.Report(grant, {Loss(0.5, 1)})->directive, study::Directive::kPause);
  h_.Restart();
  EXPECT_EQ(h_.Report(grant, {Loss(0.9, 0)})->directive, study::Directive::kPause);
}

TEST_F(CoreParts, ARepeatedPauseGetsTheFirstAnswerAndAnotherContentIsRefused) {
  const Grant first = PauseFirst();
  const absl::StatusOr<FinishReply> again = h_.Pause(first, Loss(0.5, 1), "c1");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->state, TrialState::kPaused);
  ExpectRefused(h_.Pause(first, Loss(0.6, 1), "c1"), StatusCode::kFailedPrecondition, reason::kConflictingReport, "");
  ExpectRefused(h_.Complete(first, Loss(0.5, 1)), StatusCode::kFailedPrecondition, reason::kConflictingReport, "");
  const Grant promoted = h_.Get("s", "c");
  h_.Restart();
  EXPECT_EQ(h_.Pause(first, Loss(0.5, 1), "c1")->state, TrialState::kPaused);
  EXPECT_EQ(h_.Pause(first, Loss(0.5, 1), "c1")->seq, again->seq);
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  ExpectRefused(h_.Report(first, {Loss(0.1, 2)}), StatusCode::kFailedPrecondition, reason::kLeaseLost, "");
  EXPECT_TRUE(h_.Report(promoted, {Loss(0.1, 2)}).ok());
}

TEST_F(CoreParts, InvalidPausesAreRefused) {
  const Grant grant = h_.Get("s", "a");
  ExpectRefused(h_.Pause(grant, Loss(0.5, 0)), StatusCode::kInvalidArgument, reason::kBadField,
                "measurement.step: 0 is below the trial's target, step 1");
  study::Measurement nothing;
  nothing.step = 1;
  ExpectRefused(h_.Pause(grant, nothing), StatusCode::kInvalidArgument, reason::kBadField, "lacks the study's metric");
  ASSERT_TRUE(h_.Create("plain", MakeSpec()).ok());
  ExpectRefused(h_.Pause(h_.Get("plain", "a"), Loss(0.5, 1)), StatusCode::kInvalidArgument, reason::kBadField,
                "has no target to pause at");
  // A value that is not finite is an answer.
  EXPECT_EQ(h_.Pause(grant, Loss(std::numeric_limits<double>::quiet_NaN(), 1))->state, TrialState::kFailed);
  EXPECT_EQ(h_.Trial("s", 1).trial.failure->reason, study::failure::kNonFinite);
}

TEST_F(CoreParts, TrainingThatIsOverBeforeItsTargetIsComplete) {
  const Grant first = PauseFirst();
  const Grant promoted = h_.Get("s", "c");
  EXPECT_EQ(h_.Complete(promoted, Loss(0.25, 2))->state, TrialState::kComplete);
  ExpectSound();
}

TEST_F(CoreParts, EachPartHasItsOwnAttempts) {
  PauseFirst();
  for (int i = 0; i < 3; ++i) {
    const Grant grant = h_.Get("s", absl::StrCat("w", i));
    EXPECT_EQ(grant.trial.number, 1);
    EXPECT_EQ(grant.target_step, kLastTarget);
    EXPECT_EQ(grant.resume_checkpoint, "c1");
    ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
    EXPECT_EQ(h_.Trial("s", 1).trial.state, i < 2 ? TrialState::kPending : TrialState::kFailed);
  }
  EXPECT_EQ(h_.Trial("s", 1).trial.failure->reason, study::failure::kAttemptsExhausted);
  EXPECT_EQ(h_.Trial("s", 1).trial.promotions.size(), 1u) << "a retry is no other ask";
  ExpectSound();
}

TEST_F(CoreParts, ReleasesOfOnePartDoNotCountInTheNext) {
  const Grant first = h_.Get("s", "a");
  ASSERT_TRUE(h_.Release(first).ok());
  ASSERT_TRUE(h_.Pause(h_.Get("s", "a"), Loss(0.5, 1)).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.releases, 0);
  EXPECT_EQ(study::AttemptsUsed(h_.Trial("s", 1).trial), 0);
}

TEST_F(CoreParts, TrainingThatBeginsAfreshIsLoggedAndBothCostsAreCounted) {
  PauseFirst();
  const Grant promoted = h_.Get("s", "c");
  // A step that is not beyond the checkpoint's: it was not used.
  ASSERT_TRUE(h_.Report(promoted, {Loss(0.9, 0), Loss(0.6, 1)}).ok());
  ASSERT_TRUE(h_.Report(promoted, {Loss(0.9, 0), Loss(0.6, 1)}).ok());
  EXPECT_THAT(Details(EventType::kTrialRestarted), ElementsAre(HasSubstr("the checkpoint of step 1 was not used")));
  EXPECT_EQ(h_.Pause(promoted, Loss(0.25, 3))->state, TrialState::kComplete);
  EXPECT_EQ(study::ResourceSpent(h_.Trial("s", 1).trial), 1 + 3);
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->resource_spent, 4);
}

TEST_F(CoreParts, AWorkerMaySayWhereItBegan) {
  PauseFirst();
  const Grant promoted = h_.Get("s", "c");
  CompleteContent content;
  content.measurement = Loss(0.25, 3);
  content.paused = true;
  FinishOp op = MakeFinish(promoted, content);
  op.start_step = 0;
  Answered<FinishReply> answered;
  op.done = answered.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(op));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  ASSERT_TRUE(answered.get().ok());
  EXPECT_THAT(Details(EventType::kTrialRestarted), SizeIs(1));
  EXPECT_EQ(study::ResourceSpent(h_.Trial("s", 1).trial), 4);
}

TEST_F(CoreParts, AnUnknownStepOfTheResultSaysNothingAboutTheBeginning) {
  PauseFirst();
  const Grant promoted = h_.Get("s", "c");
  ASSERT_TRUE(h_.Report(promoted, {Loss(0.4, 2)}).ok());
  ASSERT_TRUE(h_.Complete(promoted, Loss(0.25)).ok());
  EXPECT_THAT(Details(EventType::kTrialRestarted), IsEmpty());
  EXPECT_EQ(study::ResourceSpent(h_.Trial("s", 1).trial), 2);
}

TEST_F(CoreParts, APauseWithoutACheckpointIsShown) {
  const Grant first = h_.Get("s", "a");
  ASSERT_TRUE(h_.Pause(first, Loss(0.5, 1), "").ok());
  EXPECT_THAT(Details(EventType::kTrialPaused), ElementsAre(HasSubstr("without a checkpoint")));
}

TEST_F(CoreParts, WithTheStudyEveryPausedTrialEndsWithItsLastValue) {
  PauseFirst();
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kPruned);
  EXPECT_EQ(row.trial.final_measurement->metrics.at(kMetric), 0.5);
  EXPECT_NE(row.finish_seq, 0u);
  // One that pauses in a study that has ended is pruned at once.
  EXPECT_EQ(h_.Pause(second_, Loss(0.75, 1))->state, TrialState::kPruned);
  EXPECT_EQ(h_.Pause(second_, Loss(0.75, 1))->state, TrialState::kPruned);
  EXPECT_EQ(h_.Trial("s", 2).trial.final_measurement->metrics.at(kMetric), 0.75);
  EXPECT_TRUE(h_.Suggest("s", "c")->study_done);
  ExpectSound();
}

TEST_F(CoreParts, APausedTrialCanBeCancelledAlsoWhenItsPromotionIsReady) {
  PauseFirst();
  const absl::StatusOr<SuggestReply> nothing = h_.Suggest("s", "c");  // The promotion is computed now, …
  ASSERT_THAT(nothing->grants, IsEmpty());
  ASSERT_TRUE(h_.CancelTrial("s", 1).ok());  // … and never granted.
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kCancelled);
  EXPECT_THAT(h_.Suggest("s", "c")->grants, IsEmpty());
  EXPECT_EQ(h_.Pause(second_, Loss(0.75, 1))->state, TrialState::kPaused);
  EXPECT_EQ(h_.Get("s", "c").trial.number, 2);
  ExpectSound();
}

TEST_F(CoreParts, WaitingAsksAreServedWhenATrialPauses) {
  const Grant first = h_.Get("s", "a");
  second_ = h_.Get("s", "b");
  Answered<SuggestReply> waiting = h_.Ask("s", "c");
  EXPECT_FALSE(waiting.ready());
  ASSERT_TRUE(h_.Pause(first, Loss(0.5, 1)).ok());
  ASSERT_TRUE(h_.Batch().ok());
  ASSERT_TRUE(waiting.ready());
  EXPECT_THAT(Numbers(*waiting.get()), ElementsAre(1));
}

TEST_F(CoreParts, ARestartForgetsNothing) {
  PauseFirst();
  h_.Restart();
  ExpectSound();
  const Grant promoted = h_.Get("s", "c");
  EXPECT_EQ(promoted.trial.number, 1);
  h_.Restart();
  EXPECT_EQ(h_.Pause(promoted, Loss(0.25, 3))->state, TrialState::kComplete);
  EXPECT_EQ(h_.Pause(second_, Loss(0.75, 1))->state, TrialState::kPaused);
  h_.Restart();
  EXPECT_EQ(h_.Pause(h_.Get("s", "c"), Loss(0.5, 3))->state, TrialState::kComplete);
  EXPECT_EQ(h_.Study("s").state, study::StudyState::kCompleted);
  ExpectSound();
}

TEST_F(CoreParts, AFailedCommitOfAPauseOrAPromotionLeavesNothing) {
  const absl::Status full = base::MakeError(StatusCode::kUnavailable, reason::kStorageFull, "disk full");
  const Grant first = h_.Get("s", "a");
  second_ = h_.Get("s", "b");
  h_.storage.FailNextCommit(full);
  EXPECT_FALSE(h_.Pause(first, Loss(0.5, 1), "c1").ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kRunning);
  ASSERT_TRUE(h_.Pause(first, Loss(0.5, 1), "c1").ok());
  ASSERT_THAT(h_.Suggest("s", "c")->grants, IsEmpty());
  h_.storage.FailNextCommit(full);
  EXPECT_FALSE(h_.Suggest("s", "c").ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, TrialState::kPaused);
  EXPECT_THAT(h_.Trial("s", 1).trial.promotions, IsEmpty());
  EXPECT_EQ(h_.Get("s", "c").trial.number, 1);
  ExpectSound();
}

TEST_F(CoreParts, ARuleEndsTheTrialUnderItsHolder) {
  const Grant grant = h_.Get("s", "a");
  EXPECT_EQ(h_.Report(grant, {Loss(50.0, 0)})->directive, study::Directive::kContinue);
  const absl::StatusOr<ReportReply> stopped = h_.Report(grant, {Loss(40.0, 2), Loss(20.0, 1)});
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->directive, study::Directive::kStop);
  const storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial.state, TrialState::kPruned);
  EXPECT_EQ(row.trial.attempts.back().outcome, study::AttemptOutcome::kPruned);
  EXPECT_EQ(row.trial.final_measurement->metrics.at(kMetric), 20.0) << "the first step at which it was stopped";
  EXPECT_THAT(Details(EventType::kTrialPruned), ElementsAre("step=1 above the limit"));
  // Told again, each time, also after a restart.
  EXPECT_EQ(h_.Report(grant, {Loss(40.0, 2), Loss(20.0, 1)})->directive, study::Directive::kStop);
  EXPECT_EQ(h_.Report(grant, {Loss(40.0, 2), Loss(20.0, 1)})->seq, stopped->seq);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kStop));
  h_.Restart();
  EXPECT_EQ(h_.Report(grant, {Loss(1.0, 3)})->directive, study::Directive::kStop);
  EXPECT_THAT(h_.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kStop));
  // What its worker still says changes nothing.
  ExpectRefused(h_.Complete(grant, Loss(0.1)), StatusCode::kFailedPrecondition, reason::kTrialFinal, "");
  EXPECT_EQ(h_.Trial("s", 1), row);
}

TEST_F(CoreParts, ARuleAlsoEndsWhatAStoppedStudyStillRuns) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  h_.Restart();
  EXPECT_EQ(h_.Report(grant, {Loss(20.0, 1)})->directive, study::Directive::kStop);
}

TEST_F(CoreParts, AValueThatIsNotFiniteStopsWithoutAResult) {
  const Grant grant = h_.Get("s", "a");
  EXPECT_EQ(h_.Report(grant, {Loss(std::numeric_limits<double>::infinity(), 1)})->directive, study::Directive::kStop);
  EXPECT_FALSE(h_.Trial("s", 1).trial.final_measurement.has_value());
  ExpectSound();
}

TEST_F(CoreParts, ADeletedStudysLogIsNoHistory) {
  PauseFirst();
  const storage::StudyRecord study = h_.Study("s");
  const uint64_t before = h_.core->last_seq();
  ASSERT_TRUE(HistoryAt(&h_.memory, study.key, study.spec, before).ok());
  ASSERT_TRUE(h_.Control("s", Control::kCancel).ok());
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  EXPECT_TRUE(absl::IsNotFound(HistoryAt(&h_.memory, study.key, study.spec, h_.core->last_seq()).status()));
  EXPECT_TRUE(absl::IsNotFound(HistoryAt(&h_.memory, study.key, study.spec, before).status()))
      << "a request from before the end may be answered after it";
}

class CorePartsLeftOut : public CoreParts {
 protected:
  CorePartsLeftOut() : CoreParts(/*max_trials=*/2, /*left_out=*/2) {}
};

TEST_F(CorePartsLeftOut, AStudyEndsWhenItsDesignerHasNothingMoreToAskFor) {
  PauseFirst();
  EXPECT_EQ(h_.Pause(second_, Loss(0.1, 1))->state, TrialState::kPaused);
  EXPECT_EQ(h_.Study("s").state, study::StudyState::kActive) << "a full budget does not end it";
  EXPECT_EQ(h_.Pause(h_.Get("s", "c"), Loss(0.25, 3))->state, TrialState::kComplete);
  EXPECT_THAT(h_.Suggest("s", "c")->grants, IsEmpty());
  ASSERT_TRUE(h_.Batch().ok());
  EXPECT_EQ(h_.Study("s").state, study::StudyState::kCompleted);
  EXPECT_EQ(h_.Trial("s", 2).trial.state, TrialState::kPruned);
  EXPECT_TRUE(h_.Suggest("s", "c")->study_done);
}

TEST(CoreOpenSpaces, AStudyInPartsEndsWithItsBudget) {
  Harness h;
  study::StudySpec spec = MakeSpec(6);
  spec.algorithm = study::AshaOptions{};
  spec.objective = study::ExternalObjective{};
  spec.resource = study::Resource{1, 9, "epochs"};
  spec.open_space = true;
  ASSERT_TRUE(h.Create("s", spec).ok());
  for (int asks = 0; asks < 50; ++asks) {
    const absl::StatusOr<SuggestReply> reply = h.Suggest("s", "w");
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_TRUE(h.Batch().ok());
    if (reply->study_done) break;
    for (const Grant& grant : reply->grants) {
      const double loss = std::get<double>(grant.trial.parameters.at("x"));
      ASSERT_TRUE((grant.target_step < 9 ? h.Pause(grant, Loss(loss, grant.target_step))
                                         : h.Complete(grant, Loss(loss, grant.target_step)))
                      .ok());
    }
  }
  EXPECT_EQ(h.Study("s").state, study::StudyState::kCompleted);
}

}  // namespace
}  // namespace luthier::coordinator::testing
