// Studies with several metrics: final measurements, bounds, rules, histories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/study/metrics.h"
#include "server/coordinator/proposals/replay.h"
#include "server/coordinator/proposals/timeline.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using storage::EventType;
using study::Goal;
using study::StudyState;
using study::TrialState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace reason = base::reason;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// "loss" is minimized, "ms" is at most 20; `several`: "energy" is minimized, too.
study::StudySpec MetricsSpec(bool several = false, int64_t max_trials = 100) {
  study::StudySpec spec = MakeSpec(max_trials);
  std::vector<study::MetricSpec> metrics = {{kMetric, Goal::kMinimize}};
  metrics.push_back({.name = "ms", .objective = false, .at_most = 20});
  if (several) metrics.push_back({"energy", Goal::kMinimize});
  study::SetMetrics(std::move(metrics), &spec);
  return spec;
}

study::Measurement Measured(double loss, double ms, std::optional<double> energy = std::nullopt) {
  study::Measurement m = Loss(loss);
  m.metrics["ms"] = ms;
  if (energy) m.metrics["energy"] = *energy;
  return m;
}

storage::Storage::Summary Summary(Harness& h, const std::string& id) {
  return h.memory.Summarize(h.Study(id)).value();
}

TEST(CoreMetrics, AFinalMeasurementHasAllMetricsAndTheErrorNamesThoseThatLack) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec(true)).ok());
  const Grant grant = h.Get("s", "a");
  study::Measurement m = Loss(1.0);
  m.metrics["f1"] = 2.0;
  ExpectRefused(h.Complete(grant, m), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "measurement.metrics: lacks the study's metrics \"ms\", \"energy\"; it has f1, loss");
  m.metrics["ms"] = 3.0;
  ExpectRefused(h.Complete(grant, m), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "lacks the study's metric \"energy\"; it has f1, loss, ms");
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kRunning);
  EXPECT_TRUE(h.Complete(grant, Measured(1, 3, 2)).ok());
  EXPECT_TRUE(h.Complete(h.Get("s", "a"), Loss(1.0), /*pruned=*/true).ok()) << "a pruned trial may lack some";
}

// Returns a gradient of the one parameter.
study::Gradient Slope(double slope) {
  study::Gradient gradient;
  gradient.values = {slope};
  return gradient;
}

TEST(CoreMetrics, GradientsOfAllMetricsAreKept) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec(true)).ok());
  study::Measurement m = Measured(1, 2, 3);
  m.gradients = {{"loss", Slope(1.0)}, {"energy", Slope(3.0)}, {"f1", Slope(9.0)}};
  const absl::StatusOr<FinishReply> reply = h.Complete(h.Get("s", "a"), m);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->warnings, ::testing::IsEmpty());
  h.Restart();
  const study::Measurement stored = *h.Trial("s", 1).trial.final_measurement;
  EXPECT_EQ(*stored.gradient, Slope(1.0));
  EXPECT_THAT(stored.gradients, ::testing::ElementsAre(std::pair("energy", Slope(3.0))));
  const study::HistoryTrial told = ToHistoryTrial(h.Trial("s", 1).trial, h.Study("s").spec);
  EXPECT_THAT(told.gradients, ::testing::ElementsAre(Slope(1.0), std::nullopt, Slope(3.0))) << "by metric";
}

TEST(CoreMetrics, GradientsThatCantBeKeptAreDroppedFromAResultAndRefusedInAReport) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec(true)).ok());
  const Grant grant = h.Get("s", "a");
  study::Measurement m = Measured(1, 2, 3);
  m.step = 1;
  m.gradient = Slope(1.0);
  m.gradients = {{"loss", Slope(-1.0)}, {"energy", Slope(kNoNumber)}};
  m.gradients["ms"].values = {1.0, 2.0};
  const char* const contradicts = "gradients[\"loss\"]: is not `gradient`, which is of loss, too";
  ExpectRefused(h.Report(grant, {m}), absl::StatusCode::kInvalidArgument, reason::kBadField,
                absl::StrCat("measurements[0].", contradicts));
  const absl::StatusOr<FinishReply> reply = h.Complete(grant, m);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->warnings.size(), 1u);
  EXPECT_THAT(reply->warnings.front(), ::testing::HasSubstr("some gradients dropped, the loss is kept"));
  for (const char* why :
       {contradicts, "gradients[\"energy\"].full[0]: is not finite", "gradients[\"ms\"].full: has 2"}) {
    EXPECT_THAT(reply->warnings.front(), ::testing::HasSubstr(why));
  }
  const study::Trial trial = h.Trial("s", 1).trial;
  EXPECT_EQ(trial.state, TrialState::kComplete);
  EXPECT_FALSE(trial.final_measurement->gradient);
  EXPECT_TRUE(trial.final_measurement->gradients.empty());
}

TEST(CoreMetrics, ANonFiniteMetricFailsTheTrialByName) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec()).ok());
  const absl::StatusOr<FinishReply> reply = h.Complete(h.Get("s", "a"), Measured(1.0, kNoNumber));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->state, TrialState::kFailed);
  EXPECT_EQ(h.Trial("s", 1).trial.failure->reason, study::failure::kNonFinite);
  EXPECT_EQ(h.Trial("s", 1).trial.failure->message, "ms is NaN");
  EXPECT_EQ(h.Complete(h.Get("s", "a"), Measured(kNoNumber, kNoNumber))->state, TrialState::kFailed);
  EXPECT_EQ(h.Trial("s", 2).trial.failure->message, "loss is NaN, ms is NaN");
}

TEST(CoreMetrics, ATrialBeyondABoundIsCompleteAndNotTheBest) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec()).ok());
  EXPECT_EQ(h.Complete(h.Get("s", "a"), Measured(0.1, 21))->state, TrialState::kComplete);
  EXPECT_EQ(Summary(h, "s").best_trial, 0);
  EXPECT_THAT(h.Events("s", EventType::kTrialCompleted).back().detail, HasSubstr("not feasible: ms = 21 is above 20"));
  EXPECT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.9, 20)).ok());
  EXPECT_EQ(Summary(h, "s").best_trial, 2);
  EXPECT_EQ(Summary(h, "s").best_value, 0.9);
  EXPECT_EQ(h.Events("s", EventType::kTrialCompleted).back().detail, "loss=0.9 ms=20");
}

TEST(CoreMetrics, OnlyAFeasibleTrialReachesTheTarget) {
  Harness h;
  study::StudySpec spec = MetricsSpec();
  spec.budget.target_value = 0.5;
  ASSERT_TRUE(h.Create("s", spec).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.1, 21)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  h.Restart();
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.5, 1)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
  EXPECT_EQ(h.Study("s").state_reason, "target_value reached by trial 2");
}

TEST(CoreMetrics, PatienceDoesNotSeeTrialsBeyondABound) {
  for (const bool restarts : {false, true}) {
    Harness h;
    study::StudySpec spec = MetricsSpec();
    spec.budget.patience = 2;
    ASSERT_TRUE(h.Create("s", spec).ok());
    const auto complete = [&](double loss, double ms) {
      if (restarts) h.Restart();
      ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(loss, ms)).ok());
    };
    complete(0.5, 1);
    for (int i = 0; i < 5; ++i) complete(0.1, 30);
    complete(0.6, 1);
    for (int i = 0; i < 5; ++i) complete(0.1, 30);
    EXPECT_EQ(h.Study("s").state, StudyState::kActive);
    complete(0.5, 1);
    EXPECT_EQ(h.Study("s").state_reason, "no better value in 2 trials");
  }
}

TEST(CoreMetrics, WithSeveralObjectivesPatienceGoesByTheFront) {
  for (const bool restarts : {false, true}) {
    Harness h;
    study::StudySpec spec = MetricsSpec(true);
    spec.budget.patience = 2;
    ASSERT_TRUE(h.Create("s", spec).ok());
    const auto complete = [&](double loss, double energy) {
      if (restarts) h.Restart();
      ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(loss, 1, energy)).ok());
    };
    complete(0.5, 5);
    complete(0.6, 6);
    complete(0.9, 1);  // Joins the front, although its loss is the worst.
    complete(0.9, 2);
    complete(0.4, 5);  // Takes the place of the first.
    complete(0.4, 5);
    EXPECT_EQ(h.Study("s").state, StudyState::kActive);
    EXPECT_EQ(Summary(h, "s").best_trial, 0) << "no trial is the best by itself";
    complete(0.5, 5);
    EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
    EXPECT_EQ(h.Study("s").state_reason, "no trial came onto the front in 2 trials");
  }
}

TEST(CoreMetrics, WithoutTheDeletedTrialTheFrontIsFoundAnew) {
  Harness h;
  study::StudySpec spec = MetricsSpec(true);
  spec.budget.patience = 2;
  ASSERT_TRUE(h.Create("s", spec).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.1, 1, 1)).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.5, 1, 5)).ok());
  ASSERT_TRUE(h.DeleteTrial("s", 1).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.6, 1, 6)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kActive) << "trial 2 is on the front now, so one came after it";
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.7, 1, 7)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
}

TEST(CoreMetrics, ImportedResultsAreCheckedAndJudgedAlike) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec()).ok());
  ImportedTrial trial;
  trial.parameters = {{"x", 0.5}, {"n", 1.0}};
  trial.measurement = Loss(0.1);
  ExpectRefused(h.Import("s", {trial}), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "trials[0].final_measurement.metrics: lacks the study's metric \"ms\"; it has loss; a COMPLETE trial "
                "has each");
  trial.measurement->metrics["ms"] = kNoNumber;
  ImportedTrial beyond = trial, feasible = trial;
  beyond.measurement->metrics["ms"] = 30;
  feasible.measurement->metrics["ms"] = 3;
  ASSERT_TRUE(h.Import("s", {trial, beyond, feasible}).ok());
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kFailed);
  EXPECT_EQ(h.Trial("s", 1).trial.failure->message, "ms is NaN");
  EXPECT_EQ(h.Trial("s", 2).trial.state, TrialState::kComplete);
  EXPECT_EQ(Summary(h, "s").best_trial, 3);
}

// Keeps what it is shown.
class Watching final : public search::Designer {
 public:
  Watching(const study::StudySpec& spec, std::map<int64_t, study::HistoryTrial>* seen)
      : random_(search::CreateDesigner(spec)), seen_(seen) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    seen_->clear();
    for (const study::HistoryTrial& trial : history.trials()) (*seen_)[trial.number] = trial;
    return random_->Suggest(history, ask_index, stop);
  }

 private:
  const std::unique_ptr<search::Designer> random_;
  std::map<int64_t, study::HistoryTrial>* const seen_;
};

TEST(CoreMetrics, DesignersSeeValuesErrorsAndFeasibilityBeforeAndAfterARestart) {
  std::map<int64_t, study::HistoryTrial> seen;
  Harness h(Harness::DefaultOptions(), [&](const study::StudySpec& spec) -> std::unique_ptr<search::Designer> {
    return std::make_unique<Watching>(spec, &seen);
  });
  study::StudySpec spec = MetricsSpec(true);
  spec.open_space = true;  // Its history is kept.
  spec.resource = study::Resource{1, 3, ""};
  ASSERT_TRUE(h.Create("s", spec).ok());
  const Grant first = h.Get("s", "a");
  study::Measurement point = Measured(2, 30, 5);
  point.step = 1;
  ASSERT_TRUE(h.Report(first, {point}).ok());
  // Rungs compare trials by all objectives.
  ExpectRefused(h.Report(first, {Loss(1.5, 2)}), absl::StatusCode::kInvalidArgument, reason::kBadField,
                "measurements[0].metrics: lacks the study's metrics \"ms\", \"energy\"; it has");
  study::Measurement m = Measured(1, 25, 4);
  m.step = 3;
  m.standard_errors = {{"energy", 0.5}};
  ASSERT_TRUE(h.Complete(first, m).ok());
  for (const bool restarted : {false, true}) {
    if (restarted) h.Restart();
    for (int asks = 0; asks < 4 && !seen.contains(1); ++asks) h.Get("s", "a");  // Some suggestions came earlier.
    ASSERT_TRUE(seen.contains(1));
    const study::HistoryTrial& trial = seen.at(1);
    EXPECT_EQ(trial.value, 1.0);
    EXPECT_THAT(trial.values, ElementsAre(1, 25, 4));
    EXPECT_THAT(trial.standard_errors, ElementsAre(std::nullopt, std::nullopt, 0.5));
    EXPECT_FALSE(trial.feasible);
    ASSERT_EQ(trial.points.size(), 1u);
    EXPECT_THAT(trial.points[0].values, ElementsAre(2, 30, 5));
  }
}

TEST(CoreMetrics, APointOfTheObjectiveAloneHasItsValueAlone) {
  std::map<int64_t, study::HistoryTrial> seen;
  Harness h(Harness::DefaultOptions(), [&](const study::StudySpec& spec) -> std::unique_ptr<search::Designer> {
    return std::make_unique<Watching>(spec, &seen);
  });
  study::StudySpec spec = MetricsSpec();
  spec.open_space = true;  // Its history is kept.
  spec.resource = study::Resource{1, 3, ""};
  ASSERT_TRUE(h.Create("s", spec).ok());
  const Grant first = h.Get("s", "a");
  study::Measurement point = Measured(2, 30);
  point.step = 1;
  ASSERT_TRUE(h.Report(first, {point, Loss(1.5, 2)}).ok());
  study::Measurement m = Measured(1, 25);
  m.step = 3;
  ASSERT_TRUE(h.Complete(first, m).ok());
  for (int asks = 0; asks < 4 && !seen.contains(1); ++asks) h.Get("s", "a");  // Some suggestions came earlier.
  ASSERT_TRUE(seen.contains(1));
  ASSERT_EQ(seen.at(1).points.size(), 2u);
  EXPECT_THAT(seen.at(1).points[0].values, ElementsAre(2, 30));
  EXPECT_THAT(seen.at(1).points[1].values, IsEmpty());
  EXPECT_EQ(seen.at(1).points[1].value, 1.5);
}

TEST(CoreMetrics, ATrialBeyondABoundStopsNoOther) {
  Harness h;
  study::StudySpec spec = MetricsSpec();
  spec.stopping = study::MedianStopping{.min_trials = 1};
  ASSERT_TRUE(h.Create("s", spec).ok());
  for (const bool restarted : {false, true}) {
    if (restarted) h.Restart();
    const Grant good = h.Get("s", "a");
    ASSERT_TRUE(h.Report(good, {Loss(0.1, 1)}).ok());
    ASSERT_TRUE(h.Complete(good, Measured(0.1, 100)).ok());
    const Grant other = h.Get("s", "a");
    const absl::StatusOr<ReportReply> report = h.Report(other, {Loss(0.9, 1)});
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->directive, study::Directive::kContinue);
    ASSERT_TRUE(h.Fail(other, MakeFailure(study::FailureKind::kConfig)).ok());
  }
  const Grant feasible = h.Get("s", "a");
  ASSERT_TRUE(h.Report(feasible, {Loss(0.1, 1)}).ok());
  ASSERT_TRUE(h.Complete(feasible, Measured(0.1, 1)).ok());
  EXPECT_EQ(h.Report(h.Get("s", "a"), {Loss(0.9, 1)})->directive, study::Directive::kStop);
}

TEST(CoreMetrics, WithSeveralObjectivesAPointHasAllMetricsOrNone) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec(true)).ok());
  const Grant trial = h.Get("s", "a");
  study::Measurement alone;
  alone.step = 1;
  alone.metrics["ms"] = 1;
  for (const study::Measurement& point : {Loss(0.5, 1), alone}) {
    const absl::Status status = h.Report(trial, {point}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("with several objectives a report at a step has each"));
  }
  alone.metrics = {{"grip", 1.0}};
  EXPECT_TRUE(h.Report(trial, {alone}).ok());
}

// A trial that is good in one objective goes on, whatever the other one's number is; one that is no number in both does
// not.
TEST(CoreMetrics, NaNInOneObjectiveStopsNoTrialThatIsGoodInTheOther) {
  Harness h;
  study::StudySpec spec = MetricsSpec(true);
  spec.stopping = study::MedianStopping{.min_trials = 1};
  ASSERT_TRUE(h.Create("s", spec).ok());
  const auto at = [](double loss, double energy) {
    study::Measurement m = Measured(loss, 1, energy);
    m.step = 1;
    return m;
  };
  for (int i = 0; i < 3; ++i) {
    const Grant other = h.Get("s", "a");
    ASSERT_TRUE(h.Report(other, {at(5, 5)}).ok());
    ASSERT_TRUE(h.Complete(other, Measured(5, 1, 5)).ok());
  }
  for (const bool restarted : {false, true}) {
    if (restarted) h.Restart();
    const auto directive = [&](double loss, double energy) {
      return h.Report(h.Get("s", "a"), {at(loss, energy)})->directive;
    };
    EXPECT_EQ(directive(1, kNoNumber), study::Directive::kContinue);
    EXPECT_EQ(directive(kNoNumber, 1), study::Directive::kContinue);
    EXPECT_EQ(directive(9, kNoNumber), study::Directive::kStop);
    EXPECT_EQ(directive(kNoNumber, 9), study::Directive::kStop);
    EXPECT_EQ(directive(kNoNumber, kNoNumber), study::Directive::kStop);
  }
}

TEST(CoreMetrics, RetriedTrialsNoLongerCount) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MetricsSpec(false, 2)).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.5, kNoNumber)).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.7, 30)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
  ASSERT_TRUE(h.Retry("s", {}).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Measured(0.5, 3)).ok());
  EXPECT_EQ(Summary(h, "s").best_trial, 3);
  EXPECT_EQ(VerifyReplay(&h.memory, h.Study("s")).value().mismatches.size(), 0u);
}

TEST(CoreMetrics, OneMetricWithoutBoundsWritesWhatItWrote) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  study::Measurement m = Loss(1.0);
  m.metrics["ms"] = kNoNumber;  // None of the study's.
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), m).ok());
  EXPECT_EQ(h.Trial("s", 1).trial.state, TrialState::kComplete);
  EXPECT_EQ(h.Events("s", EventType::kTrialCompleted).back().detail, "loss=1 ms=NaN");
}

}  // namespace
}  // namespace luthier::coordinator::testing
