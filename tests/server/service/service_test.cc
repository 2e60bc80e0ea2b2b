// The gRPC shells over a whole server with storage in memory, through a real connection.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServiceTest, AskTellAndReadBack) {
  v1::Study study;
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec), &study).ok());
  EXPECT_EQ(study.name(), "projects/default/studies/s");
  EXPECT_EQ(study.state(), v1::Study::ACTIVE);
  EXPECT_EQ(study.spec().lease().ttl().seconds(), 60);  // Defaults are written out.
  const v1::Lease lease = Lease("s", "a1");
  EXPECT_EQ(lease.token().size(), 16u);
  EXPECT_EQ(lease.trial().state(), v1::Trial::RUNNING);
  EXPECT_EQ(lease.attempt(), 1);
  v1::FinishResponse finished;
  ASSERT_TRUE(Complete(lease, 0.25, &finished).ok());
  EXPECT_EQ(finished.state(), v1::Trial::COMPLETE);
  EXPECT_GT(finished.seq(), 0u);
  v1::GetTrialRequest get;
  get.set_name(lease.trial().name());
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  EXPECT_EQ(trial.state(), v1::Trial::COMPLETE);
  EXPECT_EQ(trial.final_measurement().metrics().at("loss"), 0.25);
  EXPECT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.provenance().designer(), "random");
  EXPECT_TRUE(trial.provenance().has_ask_index());
  v1::GetStudyRequest get_study;
  get_study.set_name("projects/default/studies/s");
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get_study, &study).ok());
  EXPECT_EQ(study.trials().complete(), 1);
  EXPECT_EQ(study.best_trial(), 1);
  EXPECT_EQ(study.best_value(), 0.25);
}

TEST_F(ServiceTest, RepeatedRequestsHaveOneEffect) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  EXPECT_EQ(StudyCount(), 1);
  v1::StudySpec other = FromJson<v1::StudySpec>(kSpec);
  other.set_seed(4);
  const absl::Status differs = Create("s", other);
  EXPECT_EQ(differs.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(differs.message()), HasSubstr("seed"));
  EXPECT_EQ(base::GetReason(differs), base::reason::kStudyExists);

  const v1::Lease first = Lease("s", "a1");
  const v1::Lease again = Lease("s", "a1");
  EXPECT_EQ(first.token(), again.token());
  EXPECT_EQ(first.trial().number(), again.trial().number());
  v1::SuggestRequest reused = Ask("s", "a1");
  reused.set_count(2);
  v1::SuggestResponse response;
  const absl::Status status = wire::FromGrpc(work_->Suggest(Context().get(), reused, &response));
  EXPECT_EQ(base::GetReason(status), base::reason::kRequestIdReused);

  v1::FinishResponse finished, replayed;
  ASSERT_TRUE(Complete(first, 0.5, &finished).ok());
  ASSERT_TRUE(Complete(first, 0.5, &replayed).ok());
  EXPECT_EQ(finished.seq(), replayed.seq());
  EXPECT_EQ(base::GetReason(Complete(first, 0.75)), base::reason::kConflictingReport);
}

TEST_F(ServiceTest, CreatingAStudyThatExistsReturnsItAsItIs) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  ASSERT_TRUE(Complete(Lease("s", "a1"), 0.25).ok());
  v1::Study study;
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec), &study).ok());
  EXPECT_EQ(study.trials().complete(), 1);
  EXPECT_EQ(study.best_trial(), 1);
  EXPECT_EQ(study.best_value(), 0.25);
}

TEST_F(ServiceTest, GradientsAreKeptOrDroppedWithAWarningAndTheLossSurvives) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::Gradient good;
  for (const double g : {1.0, -2.0}) good.mutable_full()->add_values(g);
  v1::FinishResponse finished;
  const v1::Lease first = Lease("s", "a1");
  ASSERT_TRUE(Complete(first, 1.0, &finished, &good).ok());
  EXPECT_EQ(finished.warnings_size(), 0);
  v1::Gradient wrong = good;
  wrong.mutable_full()->add_values(3.0);
  const v1::Lease second = Lease("s", "a2");
  ASSERT_TRUE(Complete(second, 2.0, &finished, &wrong).ok());
  EXPECT_EQ(finished.state(), v1::Trial::COMPLETE);
  ASSERT_EQ(finished.warnings_size(), 1);
  EXPECT_THAT(finished.warnings(0), HasSubstr("has 3 entries but the study has 2"));
  // In an early report the same mistake is an error, so that it is seen in minute one.
  const v1::Lease third = Lease("s", "a3");
  v1::ReportRequest report;
  report.set_trial(third.trial().name());
  report.set_token(third.token());
  v1::Measurement& m = *report.add_measurements();
  m.set_step(1);
  (*m.mutable_metrics())["loss"] = 3.0;
  *m.mutable_gradient() = wrong;
  v1::ReportResponse reported;
  const absl::Status status = wire::FromGrpc(work_->Report(Context().get(), report, &reported));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("measurements[0].gradient.full"));
}

TEST_F(ServiceTest, TrainingsAreCountedByHowTheyEnded) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  const auto tell = [&](int ask, const v1::Training* training) {
    const v1::Lease lease = Lease("s", absl::StrCat("ask-", ask));
    v1::CompleteRequest request;
    request.set_trial(lease.trial().name());
    request.set_token(lease.token());
    (*request.mutable_measurement()->mutable_metrics())["loss"] = ask;
    if (training != nullptr) *request.mutable_measurement()->mutable_training() = *training;
    request.mutable_measurement()->set_gradient_seconds(0.5);
    v1::FinishResponse response;
    EXPECT_TRUE(work_->Complete(Context().get(), request, &response).ok());
    return response;
  };
  v1::Training training;
  training.set_gradient_norm(1e-3);
  const v1::Training::Outcome outcomes[] = {v1::Training::LIMIT,     v1::Training::CONVERGED, v1::Training::LIMIT,
                                            v1::Training::PRECISION, v1::Training::TARGET,    v1::Training::DIVERGED};
  int asks = 0;
  for (const v1::Training::Outcome outcome : outcomes) {
    training.set_outcome(outcome);
    EXPECT_TRUE(tell(++asks, &training).warnings().empty());
  }
  tell(++asks, nullptr);
  // What is illegal is dropped with a warning; an outcome of a newer worker, too.
  training.set_gradient_norm(-1.0);
  EXPECT_THAT(tell(++asks, &training).warnings(),
              ::testing::ElementsAre(HasSubstr("the loss is kept: training.gradient_norm: -1 is not a finite number")));
  training.clear_gradient_norm();
  training.set_outcome(static_cast<v1::Training::Outcome>(9));
  EXPECT_THAT(tell(++asks, &training).warnings(), ::testing::ElementsAre(HasSubstr("training.outcome: 9 is not")));

  v1::GetStudyRequest request;
  request.set_name("projects/default/studies/s");
  v1::Study study;
  ASSERT_TRUE(studies_->GetStudy(Context().get(), request, &study).ok());
  EXPECT_EQ(study.trials().complete(), 9);
  EXPECT_EQ(study.trainings().converged(), 1);
  EXPECT_EQ(study.trainings().precision(), 1);
  EXPECT_EQ(study.trainings().target(), 1);
  EXPECT_EQ(study.trainings().limit(), 2);
  EXPECT_EQ(study.trainings().diverged(), 1);
  v1::GetTrialRequest get;
  get.set_name("projects/default/studies/s/trials/3");
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  EXPECT_EQ(trial.final_measurement().training().outcome(), v1::Training::LIMIT);
  EXPECT_EQ(trial.final_measurement().training().gradient_norm(), 1e-3);
  EXPECT_FALSE(trial.final_measurement().training().has_duality_gap());
  EXPECT_EQ(trial.final_measurement().gradient_seconds(), 0.5);
}

TEST_F(ServiceTest, NonFiniteFinalValueFailsTheTrial) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::FinishResponse finished;
  ASSERT_TRUE(Complete(Lease("s", "a1"), std::nan(""), &finished).ok());
  EXPECT_EQ(finished.state(), v1::Trial::FAILED);
  v1::GetTrialRequest get;
  get.set_name("projects/default/studies/s/trials/1");
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  EXPECT_EQ(trial.failure().reason(), "NON_FINITE");
  EXPECT_EQ(trial.failure().kind(), v1::Failure::CONFIG);
}

TEST_F(ServiceTest, LearningCurveIsReadBackWithNonFiniteValues) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  const v1::Lease lease = Lease("s", "a1");
  v1::ReportRequest report;
  report.set_trial(lease.trial().name());
  report.set_token(lease.token());
  report.set_checkpoint("file:abc");
  for (const auto& [step, value] : {std::pair{1, 3.0}, {2, std::numeric_limits<double>::infinity()}, {3, 1.0}}) {
    v1::Measurement& m = *report.add_measurements();
    m.set_step(step);
    (*m.mutable_metrics())["loss"] = value;
  }
  v1::ReportResponse reported;
  ASSERT_TRUE(work_->Report(Context().get(), report, &reported).ok());
  EXPECT_EQ(reported.directive(), v1::HeartbeatResponse::CONTINUE);
  ASSERT_TRUE(work_->Report(Context().get(), report, &reported).ok());  // Again: no effect.
  report.mutable_measurements(0)->set_elapsed_seconds(4);
  EXPECT_EQ(base::GetReason(wire::FromGrpc(work_->Report(Context().get(), report, &reported))),
            base::reason::kConflictingReport);
  v1::GetTrialRequest get;
  get.set_name(lease.trial().name());
  get.set_with_measurements(true);
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  ASSERT_EQ(trial.measurements_size(), 3);
  EXPECT_TRUE(std::isinf(trial.measurements(1).metrics().at("loss")));
  EXPECT_EQ(trial.checkpoint(), "file:abc");
  // Plots need no more points than they have pixels.
  get.set_max_measurements(2);
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  ASSERT_EQ(trial.measurements_size(), 2);
  EXPECT_EQ(trial.measurements(0).step(), 1);
  EXPECT_EQ(trial.measurements(1).step(), 3);
  for (const int32_t wrong : {1, -1}) {
    get.set_max_measurements(wrong);
    EXPECT_EQ(base::GetReason(wire::FromGrpc(studies_->GetTrial(Context().get(), get, &trial))),
              base::reason::kBadField);
  }
}

TEST_F(ServiceTest, AStudyFileIsCheckedWithoutMakingAStudy) {
  v1::CheckStudyFileRequest request;
  request.set_text("space:\n  - {name: x, float: {min: 0, max: 1}}\nmetric: {name: loss, goal: MINIMIZE}\n");
  v1::CheckStudyFileResponse checked;
  const grpc::Status right = studies_->CheckStudyFile(Context().get(), request, &checked);
  ASSERT_TRUE(right.ok()) << right.error_message();
  EXPECT_EQ(checked.spec().space(0).name(), "x");
  EXPECT_NE(checked.resolved_algorithm().kind_case(), v1::Algorithm::KIND_NOT_SET);
  EXPECT_GT(checked.algorithm_reasons_size(), 0);
  ASSERT_TRUE(Create("s", checked.spec()).ok()) << "CreateStudy takes it as it is";
  request.set_text("space:\n  - {name: x, float: {min: 2, max: 1}}\nmetrik: {name: loss}\n");
  const grpc::Status wrong = studies_->CheckStudyFile(Context().get(), request, &checked);
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(wrong.error_message(), HasSubstr("line:3:1: has no field \"metrik\""));
  request.set_text(std::string((1 << 20) + 1, ' '));
  EXPECT_THAT(studies_->CheckStudyFile(Context().get(), request, &checked).error_message(), HasSubstr("1 MiB"));
}

TEST_F(ServiceTest, CancelledTrialStopsItsWorker) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  const v1::Lease lease = Lease("s", "a1");
  v1::CancelTrialRequest cancel;
  cancel.set_name(lease.trial().name());
  v1::Trial trial;
  ASSERT_TRUE(studies_->CancelTrial(Context().get(), cancel, &trial).ok());
  EXPECT_EQ(trial.state(), v1::Trial::CANCELLED);
  v1::HeartbeatRequest beat;
  beat.set_worker("w1");
  beat.add_tokens(lease.token());
  beat.add_tokens(std::string(16, 'x'));
  v1::HeartbeatResponse beaten;
  ASSERT_TRUE(work_->Heartbeat(Context().get(), beat, &beaten).ok());
  ASSERT_EQ(beaten.directives_size(), 2);
  EXPECT_EQ(beaten.directives(0), v1::HeartbeatResponse::STOP);
  EXPECT_EQ(beaten.directives(1), v1::HeartbeatResponse::LOST);
  EXPECT_EQ(base::GetReason(Complete(lease, 1.0)), base::reason::kTrialFinal);
}

TEST_F(ServiceTest, ATrialPausesAtItsTargetAndIsPromoted) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_resource()->set_max(9);
  spec.mutable_algorithm()->mutable_successive_halving()->set_trials(3);
  spec.mutable_budget()->set_max_trials(3);
  ASSERT_TRUE(Create("s", spec).ok());
  std::map<int64_t, v1::Lease> leases;
  for (const char* ask : {"a1", "a2", "a3"}) {
    const v1::Lease lease = Lease("s", ask);
    EXPECT_EQ(lease.target_step(), 3);
    leases[lease.trial().number()] = lease;
  }
  for (const auto& [number, lease] : leases) {
    v1::ReportRequest report;
    report.set_trial(lease.trial().name());
    report.set_token(lease.token());
    report.set_start_step(0);
    v1::Measurement& point = *report.add_measurements();
    point.set_step(3);
    (*point.mutable_metrics())["loss"] = static_cast<double>(number);
    v1::ReportResponse reported;
    ASSERT_TRUE(work_->Report(Context().get(), report, &reported).ok());
    EXPECT_EQ(reported.directive(), v1::HeartbeatResponse::PAUSE);
    v1::CompleteRequest complete;
    complete.set_trial(lease.trial().name());
    complete.set_token(lease.token());
    *complete.mutable_measurement() = point;
    complete.set_paused(true);
    complete.set_checkpoint("c3");
    v1::FinishResponse finished;
    ASSERT_TRUE(work_->Complete(Context().get(), complete, &finished).ok());
    EXPECT_EQ(finished.state(), v1::Trial::PAUSED);
  }
  const v1::Lease promoted = Lease("s", "a4");
  EXPECT_EQ(promoted.trial().number(), 1) << "the best";
  EXPECT_EQ(promoted.target_step(), 9);
  EXPECT_EQ(promoted.resume_checkpoint(), "c3");
  EXPECT_EQ(promoted.resume_step(), 3);
  EXPECT_EQ(promoted.attempt(), 2);
  ASSERT_EQ(promoted.trial().promotions_size(), 1);
  EXPECT_EQ(promoted.trial().promotions(0).resource(), 9);
  v1::GetStudyRequest get;
  get.set_name("projects/default/studies/s");
  v1::Study study;
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get, &study).ok());
  EXPECT_EQ(study.trials().paused(), 2);
  EXPECT_EQ(study.trials().running(), 1);
  EXPECT_EQ(study.resource_spent(), 9);

  // The curve of a promoted trial begins with that of the attempts that it goes on from.
  const auto steps = [&] {
    v1::GetTrialRequest request;
    request.set_name(promoted.trial().name());
    request.set_with_measurements(true);
    v1::Trial trial;
    EXPECT_TRUE(studies_->GetTrial(Context().get(), request, &trial).ok());
    std::vector<int64_t> found;
    for (const v1::Measurement& point : trial.measurements()) found.push_back(point.step());
    return found;
  };
  EXPECT_EQ(steps(), std::vector<int64_t>({3})) << "the second attempt has reported nothing yet";
  v1::ReportRequest report;
  report.set_trial(promoted.trial().name());
  report.set_token(promoted.token());
  report.set_start_step(3);
  for (const int64_t step : {4, 7}) {
    v1::Measurement& point = *report.add_measurements();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = 1.0 / static_cast<double>(step);
  }
  v1::ReportResponse reported;
  ASSERT_TRUE(work_->Report(Context().get(), report, &reported).ok());
  EXPECT_EQ(steps(), std::vector<int64_t>({3, 4, 7}));

  // A pause takes no time: the table counts that of attempts.
  v1::GetTrialTableRequest ask;
  ask.set_name("projects/default/studies/s");
  for (const char* column : {"number", "seconds"}) ask.add_columns(column);
  v1::GetTrialTableResponse table;
  ASSERT_TRUE(studies_->GetTrialTable(Context().get(), ask, &table).ok());
  ASSERT_EQ(table.columns_size(), 2);
  std::vector<double> seconds(3);
  ASSERT_EQ(table.columns(1).numbers().size(), seconds.size() * sizeof(double));
  std::memcpy(seconds.data(), table.columns(1).numbers().data(), seconds.size() * sizeof(double));
  EXPECT_TRUE(std::isnan(seconds[0])) << "it runs";
  v1::Trial paused;
  v1::GetTrialRequest second;
  second.set_name("projects/default/studies/s/trials/2");
  ASSERT_TRUE(studies_->GetTrial(Context().get(), second, &paused).ok());
  const v1::Attempt& attempt = paused.attempts(0);
  const double took = static_cast<double>(attempt.end_time().seconds() - attempt.start_time().seconds()) +
                      1e-9 * (attempt.end_time().nanos() - attempt.start_time().nanos());
  EXPECT_NEAR(seconds[1], took, 0.05) << "it is paused, and its only attempt took that long";
}

TEST_F(ServiceTest, TheListSaysWhyNothingRunsAsTheStudyDoes) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_objective()->mutable_builtin()->set_model("function:branin");
  spec.clear_space();
  for (const char* name : {"x1", "x2"}) {
    v1::ParameterSpec& p = *spec.add_space();
    p.set_name(name);
    p.mutable_float_()->set_min(0.0);
    p.mutable_float_()->set_max(10.0);
  }
  spec.mutable_metric()->set_name("value");
  const absl::Status created = Create("s", spec);
  ASSERT_TRUE(created.ok()) << created;
  v1::GetStudyRequest get;
  get.set_name("projects/default/studies/s");
  v1::Study study;
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get, &study).ok());
  EXPECT_THAT(study.state_reason(), HasSubstr("no worker of the default pool"));
  v1::ListStudiesResponse list;
  ASSERT_TRUE(studies_->ListStudies(Context().get(), v1::ListStudiesRequest(), &list).ok());
  ASSERT_EQ(list.studies_size(), 1);
  EXPECT_EQ(list.studies(0).state_reason(), study.state_reason());
}

TEST_F(ServiceTest, ControlCallsAndLongPoll) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_budget()->set_max_parallel(1);
  ASSERT_TRUE(Create("s", spec).ok());
  const v1::Lease lease = Lease("s", "a1");
  // A second ask waits until the first trial ends.
  v1::SuggestResponse waited;
  grpc::Status status;
  std::thread waiter([&] { status = work_->Suggest(Context().get(), Ask("s", "a2"), &waited); });
  ASSERT_TRUE(Complete(lease, 1.0).ok());
  waiter.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(waited.leases_size(), 1);
  v1::ControlStudyRequest control;
  control.set_name("projects/default/studies/s");
  v1::Study study;
  ASSERT_TRUE(studies_->PauseStudy(Context().get(), control, &study).ok());
  EXPECT_EQ(study.state(), v1::Study::PAUSED);
  EXPECT_EQ(study.trials().running(), 1);
  v1::SuggestRequest paused = Ask("s", "a3");
  paused.set_fail_if_paused(true);
  v1::SuggestResponse refused;
  EXPECT_EQ(base::GetReason(wire::FromGrpc(work_->Suggest(Context().get(), paused, &refused))),
            base::reason::kStudyPaused);
  ASSERT_TRUE(studies_->ResumeStudy(Context().get(), control, &study).ok());
  EXPECT_EQ(study.state(), v1::Study::ACTIVE);
  ASSERT_TRUE(studies_->StopStudy(Context().get(), control, &study).ok());
  EXPECT_EQ(base::GetReason(wire::FromGrpc(studies_->PauseStudy(Context().get(), control, &study))),
            base::reason::kStudyFinished);
  v1::DeleteStudyResponse deleted;
  EXPECT_EQ(base::GetReason(wire::FromGrpc(studies_->DeleteStudy(Context().get(), control, &deleted))),
            base::reason::kTrialsRunning);
  ASSERT_TRUE(Complete(waited.leases(0), 1.0).ok());
  v1::SuggestResponse done;
  ASSERT_TRUE(work_->Suggest(Context().get(), Ask("s", "a4"), &done).ok());
  EXPECT_TRUE(done.study_done());
  ASSERT_TRUE(studies_->DeleteStudy(Context().get(), control, &deleted).ok());
  EXPECT_EQ(StudyCount(), 0);
}

TEST_F(ServiceTest, WatchDeliversStoredAndComingEventsInOrderAndEnds) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_budget()->set_max_trials(3);
  ASSERT_TRUE(Create("s", spec).ok());
  ASSERT_TRUE(Complete(Lease("s", "a1"), 1.0).ok());
  v1::WatchStudyRequest request;
  request.set_name("projects/default/studies/s");
  request.set_until_finished(true);
  auto context = Context();
  auto stream = studies_->WatchStudy(context.get(), request);
  v1::Event event;
  std::vector<v1::Event> events;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.type(), v1::Event::STUDY_CREATED);
  events.push_back(event);
  std::thread teller([&] {
    EXPECT_TRUE(Complete(Lease("s", "a2"), 2.0).ok());
    EXPECT_TRUE(Complete(Lease("s", "a3"), 3.0).ok());
  });
  while (stream->Read(&event)) {
    EXPECT_GT(event.seq(), events.back().seq());
    events.push_back(event);
  }
  teller.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(events.back().type(), v1::Event::STUDY_COMPLETED);
  // Resumable from any seq.
  request.set_after_seq(events[events.size() - 2].seq());
  context = Context();
  stream = studies_->WatchStudy(context.get(), request);
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.seq(), events.back().seq());
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
  request.set_name("projects/default/studies/none");
  context = Context();
  stream = studies_->WatchStudy(context.get(), request);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, PagesAndForeignPageTokens) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Complete(Lease("s", "a" + std::to_string(i)), i).ok());
  v1::ListTrialsRequest list;
  list.set_parent("projects/default/studies/s");
  list.set_page_size(2);
  std::vector<int64_t> numbers;
  v1::ListTrialsResponse page;
  do {
    page.Clear();
    ASSERT_TRUE(studies_->ListTrials(Context().get(), list, &page).ok());
    for (const v1::Trial& trial : page.trials()) numbers.push_back(trial.number());
    if (!page.next_page_token().empty()) list.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty());
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 2, 3, 4, 5));
  list.add_states(v1::Trial::RUNNING);  // The token is of another query now.
  const absl::Status status = wire::FromGrpc(studies_->ListTrials(Context().get(), list, &page));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("page_token"));
}

TEST_F(ServiceTest, EnqueuedTrialsComeFirstAllOrNothing) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::EnqueueTrialsRequest request;
  request.set_parent("projects/default/studies/s");
  auto& fields = *request.add_trials()->mutable_parameters()->mutable_fields();
  fields["x"].set_number_value(0.5);
  fields["k"].set_number_value(2);  // lr takes its default.
  v1::EnqueueTrialsResponse response;
  ASSERT_TRUE(studies_->EnqueueTrials(Context().get(), request, &response).ok());
  ASSERT_EQ(response.trials_size(), 1);
  const v1::Lease lease = Lease("s", "a1");
  EXPECT_EQ(lease.trial().number(), 1);
  EXPECT_EQ(lease.trial().parameters().fields().at("x").number_value(), 0.5);
  EXPECT_EQ(lease.trial().provenance().designer(), "user");
  auto& bad = *request.add_trials()->mutable_parameters()->mutable_fields();
  bad["x"].set_number_value(1.5);
  bad["k"].set_number_value(2);
  const absl::Status status = wire::FromGrpc(studies_->EnqueueTrials(Context().get(), request, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("trials[1].parameters.x"));
  v1::ListTrialsRequest list;
  list.set_parent("projects/default/studies/s");
  v1::ListTrialsResponse page;
  ASSERT_TRUE(studies_->ListTrials(Context().get(), list, &page).ok());
  EXPECT_EQ(page.trials_size(), 1);
}

TEST_F(ServiceTest, ServerInfo) {
  v1::ServerInfo info;
  ASSERT_TRUE(work_->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info).ok());
  EXPECT_TRUE(info.serving());
  EXPECT_FALSE(info.version().empty());
  EXPECT_FALSE(info.sqlite_version().empty());
}

TEST_F(ServiceTest, UnknownThingsAreNotFound) {
  v1::GetStudyRequest get;
  get.set_name("projects/default/studies/none");
  v1::Study study;
  absl::Status status = wire::FromGrpc(studies_->GetStudy(Context().get(), get, &study));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(base::GetReason(status), base::reason::kNotFound);
  v1::SuggestResponse response;
  EXPECT_EQ(work_->Suggest(Context().get(), Ask("none", "a1"), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::GetTrialRequest trial;
  trial.set_name("projects/default/studies/s/trials/7");
  v1::Trial out;
  EXPECT_EQ(studies_->GetTrial(Context().get(), trial, &out).error_code(), grpc::StatusCode::NOT_FOUND);
  get.set_name("studies/s");
  EXPECT_EQ(studies_->GetStudy(Context().get(), get, &study).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// --- Bad studies: each refused with its field, and no trace of it left. ---

struct BadSpec {
  const char* name;
  void (*spoil)(v1::StudySpec*);
  const char* field;   // Part of the message that names the field.
  const char* remedy;  // Part of the message that helps.
};

class BadStudyTest : public ServiceTest, public ::testing::WithParamInterface<BadSpec> {};

TEST_P(BadStudyTest, IsRefusedWithFieldAndRemedyAndLeavesNoTrace) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  GetParam().spoil(&spec);
  const absl::Status status = Create("bad", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(base::GetReason(status), base::reason::kBadField);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().field));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().remedy));
  EXPECT_EQ(StudyCount(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadStudyTest,
    ::testing::Values(
        BadSpec{"EmptySpace", [](v1::StudySpec* s) { s->clear_space(); }, "space", "at least one parameter"},
        BadSpec{"LowAboveHigh", [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->set_max(-1); },
                "space[0].float.max", "swap the bounds"},
        BadSpec{"LogFromZero", [](v1::StudySpec* s) { s->mutable_space(1)->mutable_float_()->set_min(0); },
                "space[1].float.min", "LINEAR"},
        BadSpec{"NanBound", [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->set_min(std::nan("")); },
                "space[0].float.min", "finite"},
        BadSpec{"DuplicateName", [](v1::StudySpec* s) { s->mutable_space(1)->set_name("x"); }, "space[1].name",
                "names must differ"},
        BadSpec{"TooManyParameters",
                [](v1::StudySpec* s) {
                  const v1::ParameterSpec p = s->space(0);
                  s->clear_space();
                  for (int i = 0; i < 1001; ++i) {
                    *s->add_space() = p;
                    s->mutable_space(i)->set_name("p" + std::to_string(i));
                  }
                },
                "space", "at most 1000"},
        BadSpec{"NoMetric", [](v1::StudySpec* s) { s->clear_metric(); }, "metric", "required"},
        BadSpec{"BadAlgorithmSetting", [](v1::StudySpec* s) { s->mutable_algorithm()->mutable_grid()->set_levels(1); },
                "algorithm.grid.levels", "2"},
        BadSpec{"HugeGrid", [](v1::StudySpec* s) { s->mutable_algorithm()->mutable_grid()->set_levels(1'000'000); },
                "algorithm.grid", "levels"},
        BadSpec{"NoTrials", [](v1::StudySpec* s) { s->mutable_budget()->set_max_trials(0); }, "budget.max_trials",
                "between 1"},
        BadSpec{"UnknownModel",
                [](v1::StudySpec* s) { s->mutable_objective()->mutable_builtin()->set_model("logistik"); },
                "objective.builtin.model", "did you mean \"logistic\"?"},
        BadSpec{"BackReference",
                [](v1::StudySpec* s) {
                  auto& command = *s->mutable_objective()->mutable_command();
                  command.add_argv("true");
                  (*command.mutable_stdout_patterns())["loss"] = "(a+)\\1";
                },
                "spec.objective.command.stdout_patterns[\"loss\"]", "back-references"},
        BadSpec{"ReproducibleWithoutParallel", [](v1::StudySpec* s) { s->set_reproducible(true); }, "reproducible",
                "max_parallel"}),
    [](const auto& param_info) { return param_info.param.name; });

TEST_F(ServiceTest, BadIdsAreRefused) {
  for (const char* id : {"", "UPPER", "-x", "a..b", "a/b", "ü"}) {
    const absl::Status status = Create(id, FromJson<v1::StudySpec>(kSpec));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_THAT(std::string(status.message()), HasSubstr("study_id"));
  }
  EXPECT_EQ(StudyCount(), 0);
}

TEST_F(ServiceTest, AllViolationsAreReportedAtOnce) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_space(0)->mutable_float_()->set_max(-1);
  spec.mutable_budget()->set_max_trials(0);
  const absl::Status status = Create("bad", spec);
  EXPECT_THAT(std::string(status.message()), HasSubstr("space[0].float.max"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("budget.max_trials"));
}

TEST_F(ServiceTest, StagesOfHarmonicaAreShownToWhoAsks) {
  std::string space;
  for (int i = 0; i < 14; ++i) absl::StrAppend(&space, i ? ", " : "", "{\"name\": \"b", i, "\", \"bool\": {}}");
  const std::string json = absl::StrCat(R"({"space": [)", space, R"(],
      "metric": {"name": "loss", "goal": "MINIMIZE"}, "budget": {"max_trials": 30},
      "algorithm": {"harmonica": {"samples": 20, "stages": 1, "base": {"sobol": {}},
                                  "expert": {"degree": 1, "terms": 1}}}})");
  v1::Study created;
  ASSERT_TRUE(Create("h", FromJson<v1::StudySpec>(json), &created).ok());
  EXPECT_TRUE(created.spec().algorithm().harmonica().base().sobol().scramble());  // Defaults are written out.
  EXPECT_EQ(created.spec().algorithm().harmonica().expert().restrictions(), 4);
  for (int i = 0; i < 22; ++i) {
    const v1::Lease lease = Lease("h", absl::StrCat("a", i));
    const bool on = lease.trial().parameters().fields().at("b3").bool_value();
    EXPECT_TRUE(on || i < 20);
    ASSERT_TRUE(Complete(lease, on ? 1.0 : 2.0).ok());
  }
  v1::GetStudyRequest get;
  get.set_name(created.name());
  v1::Study study;
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get, &study).ok());
  EXPECT_EQ(study.harmonica_stages_size(), 0);
  get.set_harmonica_stages(true);
  ASSERT_TRUE(studies_->GetStudy(Context().get(), get, &study).ok());
  ASSERT_EQ(study.harmonica_stages_size(), 1);
  const v1::HarmonicaStage& stage = study.harmonica_stages(0);
  EXPECT_TRUE(stage.believed());
  EXPECT_EQ(stage.samples(), 20);
  ASSERT_EQ(stage.terms_size(), 1);
  EXPECT_EQ(stage.terms(0).factors(0).name(), "b3");
  EXPECT_NEAR(stage.terms(0).weight(), 0.5, 1e-9);
  EXPECT_EQ(stage.terms(0).better_values(), "true");
  EXPECT_EQ(stage.terms(0).bootstrap_frequency(), 1.0);
  EXPECT_EQ(stage.restrictions(0).values().at("b3"), "true");
  EXPECT_EQ(study.parameters_never_selected_size(), 13);
}

TEST_F(ServiceTest, AnAlgorithmThatTheSpaceIsTooSmallForSaysWhatItDoesInstead) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kSpec);
  spec.mutable_algorithm()->mutable_harmonica();
  v1::Study study;
  ASSERT_TRUE(Create("few", spec, &study).ok());
  EXPECT_TRUE(study.resolved_algorithm().has_random());
  ASSERT_EQ(study.algorithm_reasons_size(), 1);
  EXPECT_THAT(study.algorithm_reasons(0), HasSubstr("warning: no stages, random on the whole space instead"));
  spec.mutable_algorithm()->mutable_harmonica()->mutable_base()->mutable_harmonica();
  EXPECT_THAT(std::string(Create("deep", spec).message()), HasSubstr("algorithm.harmonica.base"));
}

TEST_F(ServiceTest, BinaryGarbageAndHugeMessagesChangeNothing) {
  grpc::GenericStub generic(channel_);
  grpc::CompletionQueue queue;
  for (const size_t size : {size_t{100}, size_t{5} << 20}) {
    std::string garbage(size, '\xff');
    grpc::Slice slice(garbage);
    grpc::ByteBuffer request(&slice, 1), response;
    auto context = Context();
    auto call = generic.PrepareUnaryCall(context.get(), "/luthier.v1.StudyService/CreateStudy", request, &queue);
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, reinterpret_cast<void*>(1));
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(status.ok());
  }
  EXPECT_EQ(StudyCount(), 0);
}

}  // namespace
}  // namespace luthier::service::testing
