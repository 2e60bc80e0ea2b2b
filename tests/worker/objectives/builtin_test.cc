#include "worker/objectives/builtin.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/objective_info.h"
#include "tests/worker/testing.h"
#include "worker/objectives/dispatch.h"

namespace luthier::worker {
namespace {

using ::testing::Not;

// Counts to ten, one step a point, from where its checkpoint says.
class Counter final : public objectives::Objective {
 public:
  const catalogue::ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<objectives::EvaluationResult> Evaluate(const objectives::EvaluationContext& context) const override {
    objectives::EvaluationResult result;
    if (context.parameters.count("use") != 0) {
      result.measurement = Point(0);
      result.measurement->metrics["gradient"] = static_cast<double>(context.gradient);
      result.measurement->metrics["direction"] = static_cast<double>(context.direction.size());
      return result;
    }
    if (context.parameters.count("odd") != 0) return absl::InvalidArgumentError("odd");
    if (context.parameters.count("fail") != 0) {
      result.outcome = objectives::EvaluationOutcome::kFailed;
      result.failure = study::Failure{study::FailureKind::kConfig, "DIVERGED", "it grew \x01"};
      return result;
    }
    int i = 0;
    if (!context.checkpoint.empty()) {
      i = std::stoi(context.checkpoint);
      result.resumed = true;
    }
    if (context.started) context.started(result.resumed, i);
    for (; i < 10; ++i) {
      if (context.stop.stop_requested()) {
        context.save_checkpoint(std::to_string(i));
        result.outcome = objectives::EvaluationOutcome::kCancelled;
        return result;
      }
      EXPECT_TRUE(context.report(Point(i)));
      if (context.target > 0 && i == context.target) {
        context.save_checkpoint(std::to_string(i + 1));
        result.outcome = objectives::EvaluationOutcome::kPaused;
        result.measurement = Point(i);
        return result;
      }
    }
    result.measurement = Point(i);
    return result;
  }
  static study::Measurement Point(int i) {
    study::Measurement m;
    m.step = i;
    m.metrics["loss"] = 1.0 / (1 + i);
    return m;
  }

 private:
  catalogue::ObjectiveInfo info_;
};

class BuiltinTest : public ::testing::Test {
 protected:
  BuiltinTest() {
    base::SetLogLevel(base::LogLevel::kOff);
    request_.study = "demo";
    request_.trial = 4;
    request_.spec.metric.name = "loss";
    request_.spec.objective = study::BuiltinObjective{"counter", "", {}, {}};
  }
  ~BuiltinTest() override { base::SetLogLevel(base::LogLevel::kInfo); }
  BuiltinRunner MakeRunner() {
    return BuiltinRunner(
        [this](const study::BuiltinObjective& objective, const study::SearchSpace&, const study::MetricSpec&,
               const base::StopToken& stop) -> absl::StatusOr<std::unique_ptr<objectives::Objective>> {
          made_.push_back(objective.model);
          if (!error_.ok()) return error_;
          LUTHIER_RETURN_IF_ERROR(stop.Poll());
          return std::make_unique<Counter>();
        },
        &checkpoints_);
  }

  TemporaryDirectory temporary_;
  CheckpointStore checkpoints_ = CheckpointStore::Open(temporary_.path()).value();
  RunRequest request_;
  std::vector<std::string> made_;
  absl::Status error_;
};

TEST_F(BuiltinTest, ReportsAndCompletes) {
  BuiltinRunner runner = MakeRunner();
  RecordingSink sink;
  const RunOutcome outcome = runner.Run(request_, &sink);
  EXPECT_EQ(outcome.result, RunResult::kComplete);
  EXPECT_EQ(outcome.measurement.step, 10);
  EXPECT_THAT(sink.reports, SizeIs(10));
}

TEST_F(BuiltinTest, TheObjectiveIsToldWhichGradientIsRead) {
  BuiltinRunner runner = MakeRunner();
  request_.parameters["use"] = true;
  for (const study::GradientUse use :
       {study::GradientUse::kNone, study::GradientUse::kFull, study::GradientUse::kDirectional}) {
    RecordingSink sink;
    request_.gradient = use;
    request_.direction.assign(use == study::GradientUse::kDirectional ? 3 : 0, 1.0);
    const RunOutcome outcome = runner.Run(request_, &sink);
    EXPECT_EQ(outcome.measurement.metrics.at("gradient"), static_cast<double>(use));
    EXPECT_EQ(outcome.measurement.metrics.at("direction"), static_cast<double>(request_.direction.size()));
  }
}

TEST_F(BuiltinTest, AStopWhileDataAreLoadedIsNoFailure) {
  BuiltinRunner runner = MakeRunner();
  RecordingSink sink;
  sink.stop_.Request(StopReason::kDrain);
  EXPECT_EQ(runner.Run(request_, &sink).result, RunResult::kStopped);
  RecordingSink again;
  EXPECT_EQ(runner.Run(request_, &again).result, RunResult::kComplete);
}

// A slot that waits for another's loading of the same data.
TEST_F(BuiltinTest, AStopWhileAnotherSlotLoadsEndsTheWait) {
  absl::Notification loading, go_on;
  BuiltinRunner runner(
      [&](const study::BuiltinObjective&, const study::SearchSpace&, const study::MetricSpec&,
          const base::StopToken&) -> absl::StatusOr<std::unique_ptr<objectives::Objective>> {
        loading.Notify();
        go_on.WaitForNotification();
        return std::make_unique<Counter>();
      },
      &checkpoints_);
  RecordingSink first, second, third;
  std::thread loader([&] { EXPECT_EQ(runner.Run(request_, &first).result, RunResult::kComplete); });
  loading.WaitForNotification();
  std::thread waiter([&] { EXPECT_EQ(runner.Run(request_, &third).result, RunResult::kComplete); });
  std::thread stopper([&] { second.stop_.Request(StopReason::kCancelled); });
  EXPECT_EQ(runner.Run(request_, &second).result, RunResult::kStopped);
  stopper.join();
  go_on.Notify();
  loader.join();
  waiter.join();
}

TEST_F(BuiltinTest, AStoppedRunGoesOnInTheNextAttempt) {
  BuiltinRunner runner = MakeRunner();
  RecordingSink first;
  first.on_report = [&] {
    if (first.reports.size() == 4) first.stop_.Request(StopReason::kDrain);
  };
  EXPECT_EQ(runner.Run(request_, &first).result, RunResult::kStopped);
  ASSERT_THAT(first.checkpoints, ElementsAre("file:demo.4.a1"));

  request_.attempt = 2;
  request_.resume_checkpoint = first.checkpoints[0];
  RecordingSink second;
  const RunOutcome outcome = runner.Run(request_, &second);
  EXPECT_EQ(outcome.result, RunResult::kComplete);
  EXPECT_THAT(second.reports, SizeIs(6));
  EXPECT_EQ(second.reports[0].step, 4);
  runner.Discard(request_);
  EXPECT_THAT(temporary_.Files(), IsEmpty());
}

// The model of a complete trial is there for others until the study is done; the result says what was started from.
TEST_F(BuiltinTest, ATrialStartsFromTheModelOfAnother) {
  BuiltinRunner runner(static_cast<const data::DataRoot*>(nullptr), &checkpoints_);
  request_.spec.space =
      study::SearchSpace::Create({{"l2", study::FloatRange{1e-3, 1e3, study::Scale::kLog, {}}, {}, {}}}).value();
  request_.spec.metric.name = "validation_loss";
  request_.spec.objective = study::BuiltinObjective{"logistic",
                                                    "synth:logistic?rows=200&cols=10&seed=3&noise=0.2",
                                                    {},
                                                    {{"warm_start", true}, {"solver", std::string("newton_cholesky")}}};
  request_.resume_checkpoint.clear();
  const auto run = [&](int64_t trial, int64_t source, double l2) {
    request_.trial = trial;
    request_.warm_start = source;
    request_.parameters = {{"l2", l2}};
    RecordingSink sink;
    const RunOutcome outcome = runner.Run(request_, &sink);
    EXPECT_EQ(outcome.result, RunResult::kComplete);
    runner.Discard(request_);
    return outcome;
  };
  EXPECT_THAT(run(4, 0, 1.0).output_tail, HasSubstr("started from zero: no complete trial differs in strengths alone"));
  const RunOutcome warm = run(5, 4, 1.5), cold = run(6, 77, 1.5);
  EXPECT_THAT(warm.output_tail, HasSubstr("started from the model of trial 4"));
  EXPECT_THAT(cold.output_tail, HasSubstr("started from zero, not from trial 77"));
  EXPECT_NEAR(warm.measurement.metrics.at("validation_loss"), cold.measurement.metrics.at("validation_loss"), 1e-7);
  EXPECT_LT(warm.measurement.step, cold.measurement.step);
  EXPECT_THAT(temporary_.Files(), SizeIs(3));
  runner.DiscardStudy("demo");
  EXPECT_THAT(temporary_.Files(), IsEmpty());
}

// Told to stop, the real ones do not begin another iteration.
TEST_F(BuiltinTest, BuiltinsStopBeforeTheirNextPoint) {
  BuiltinRunner runner(static_cast<const data::DataRoot*>(nullptr), &checkpoints_);
  const std::string data = "synth:logistic?rows=200&cols=10&seed=3&noise=0.2";
  const study::Parameters every = {{"report_every", 1.0}, {"tolerance", 0.0}};
  const study::SearchSpace l2 =
      study::SearchSpace::Create({{"l2", study::FloatRange{1e-3, 1e3, study::Scale::kLog, {}}, {}, {}}}).value();
  const study::SearchSpace plane = study::SearchSpace::Create({{"x1", study::FloatRange{-5.0, 10.0, {}, {}}, {}, {}},
                                                               {"x2", study::FloatRange{0.0, 15.0, {}, {}}, {}, {}}})
                                       .value();
  request_.resume_checkpoint.clear();
  for (const char* model : {"logistic", "hsvm", "function:branin"}) {
    const bool function = std::string(model) == "function:branin";
    request_.spec.space = function ? plane : l2;
    request_.spec.metric.name = function ? "value" : "validation_loss";
    request_.parameters = function ? study::Parameters{{"x1", 1.0}, {"x2", 2.0}} : study::Parameters{{"l2", 0.01}};
    request_.spec.objective =
        study::BuiltinObjective{model, function ? "" : data, {}, function ? study::Parameters{{"steps", 50.0}} : every};
    RecordingSink sink;
    sink.on_report = [&] {
      if (sink.reports.size() == 3) sink.stop_.Request(StopReason::kCancelled);
    };
    EXPECT_EQ(runner.Run(request_, &sink).result, RunResult::kStopped) << model;
    EXPECT_THAT(sink.reports, SizeIs(3)) << model;
  }
}

TEST_F(BuiltinTest, AMissingOrDamagedCheckpointMeansAFreshStart) {
  BuiltinRunner runner = MakeRunner();
  for (const char* reference : {"file:demo.4.a9", "s3://elsewhere", "file:demo.4.a1"}) {
    temporary_.Write("demo.4.a1", "damaged");
    request_.resume_checkpoint = reference;
    RecordingSink sink;
    EXPECT_EQ(runner.Run(request_, &sink).result, RunResult::kComplete);
    EXPECT_THAT(sink.reports, SizeIs(10));
    EXPECT_THAT(sink.started, ElementsAre(0));
    EXPECT_THAT(sink.why_afresh, Not(IsEmpty()));
  }
}

TEST_F(BuiltinTest, ATargetPausesAndAnotherWorkerGoesOn) {
  request_.target_step = 3;
  RecordingSink first;
  RunOutcome outcome = MakeRunner().Run(request_, &first);
  EXPECT_EQ(outcome.result, RunResult::kPaused);
  EXPECT_EQ(outcome.measurement.step, 3);
  ASSERT_THAT(first.checkpoints, ElementsAre("file:demo.4.a1"));
  request_.attempt = 2;
  request_.resume_checkpoint = first.checkpoints[0];
  request_.target_step = 20;
  BuiltinRunner other = MakeRunner();
  RecordingSink second;
  outcome = other.Run(request_, &second);
  EXPECT_EQ(outcome.result, RunResult::kComplete) << "it ends before its target";
  EXPECT_THAT(second.started, ElementsAre(4));
  EXPECT_THAT(second.reports, SizeIs(6));
  other.DiscardStudy("demo");
  EXPECT_THAT(temporary_.Files(), IsEmpty());
}

TEST_F(BuiltinTest, FailuresAreHandedOn) {
  BuiltinRunner runner = MakeRunner();
  RecordingSink sink;
  request_.parameters = {{"fail", 1.0}};
  EXPECT_EQ(runner.Run(request_, &sink).failure,
            (study::Failure{study::FailureKind::kConfig, "DIVERGED", "it grew ?"}));
  request_.parameters = {{"odd", 1.0}};
  EXPECT_EQ(runner.Run(request_, &sink).failure, (study::Failure{study::FailureKind::kConfig, "BAD_OBJECTIVE", "odd"}));
}

TEST_F(BuiltinTest, FailuresThatAreThisWorkersOwnAreTriedAgain) {
  BuiltinRunner runner = MakeRunner();
  RecordingSink sink;
  error_ = absl::NotFoundError("no such file");
  EXPECT_EQ(runner.Run(request_, &sink).failure,
            (study::Failure{study::FailureKind::kInfra, "BAD_OBJECTIVE", "no such file"}));
  error_ = absl::DataLossError("line 7");
  EXPECT_EQ(runner.Run(request_, &sink).failure.kind, study::FailureKind::kConfig);
}

TEST_F(BuiltinTest, DataIsLoadedOnceForTheLastStudies) {
  BuiltinRunner runner = MakeRunner();
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      RecordingSink sink;
      runner.Run(request_, &sink);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(made_, ElementsAre("counter"));
  RecordingSink sink;
  for (const char* model : {"a", "b", "c", "counter", "d", "counter", "a"}) {
    std::get<study::BuiltinObjective>(request_.spec.objective).model = model;
    runner.Run(request_, &sink);
  }
  EXPECT_THAT(made_, ElementsAre("counter", "a", "b", "c", "d", "a"));
}

TEST_F(BuiltinTest, DispatchKnowsTheKinds) {
  class Named final : public Runner {
   public:
    explicit Named(const char* name) : name_(name) {}
    RunOutcome Run(const RunRequest&, RunSink*) override { return Failed(study::FailureKind::kConfig, "NAMED", name_); }
    void Discard(const RunRequest&) override { ++discards; }
    void Abort() override { ++aborts; }
    int discards = 0, aborts = 0;

   private:
    const char* name_;
  };
  Named builtin("builtin"), command("command");
  Dispatch dispatch(&builtin, &command);
  RecordingSink sink;
  EXPECT_EQ(dispatch.Run(request_, &sink).failure.message, "builtin");
  dispatch.Discard(request_);
  request_.spec.objective = study::CommandObjective{};
  EXPECT_EQ(dispatch.Run(request_, &sink).failure.message, "command");
  request_.spec.objective = study::ExternalObjective{};
  EXPECT_THAT(dispatch.Run(request_, &sink).failure.message, HasSubstr("external"));
  dispatch.Discard(request_);
  dispatch.Abort();
  EXPECT_EQ(builtin.discards, 1);
  EXPECT_EQ(command.discards, 0);
  EXPECT_EQ(builtin.aborts + command.aborts, 2);
}

}  // namespace
}  // namespace luthier::worker
