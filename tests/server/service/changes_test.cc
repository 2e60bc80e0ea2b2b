// Calls that change a study that is there: bad input at the boundary, and what the API shows afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kName[] = "projects/default/studies/s";

class ChangesTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  }
  absl::Status Update(const std::string& spec, const std::vector<std::string>& paths, v1::Study* study = nullptr) {
    v1::UpdateStudyRequest request;
    request.set_name(kName);
    *request.mutable_spec() = FromJson<v1::StudySpec>(spec);
    for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
    v1::Study response;
    return wire::FromGrpc(studies_->UpdateStudy(Context().get(), request, study == nullptr ? &response : study));
  }
  static v1::Trial Result(double x, double loss) {
    v1::Trial trial;
    trial.set_state(v1::Trial::COMPLETE);
    auto& fields = *trial.mutable_parameters()->mutable_fields();
    fields["x"].set_number_value(x);
    fields["lr"].set_number_value(0.5);
    fields["k"].set_number_value(2);
    (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = loss;
    return trial;
  }
  absl::StatusOr<v1::ImportTrialsResponse> Import(const std::vector<v1::Trial>& trials, const std::string& id = "") {
    v1::ImportTrialsRequest request;
    request.set_parent(kName);
    request.set_request_id(id);
    request.set_source("test");
    for (const v1::Trial& trial : trials) *request.add_trials() = trial;
    v1::ImportTrialsResponse response;
    const absl::Status status = wire::FromGrpc(studies_->ImportTrials(Context().get(), request, &response));
    if (!status.ok()) return status;
    return response;
  }
  v1::ListTrialsResponse List() {
    v1::ListTrialsRequest request;
    request.set_parent(kName);
    v1::ListTrialsResponse response;
    EXPECT_TRUE(studies_->ListTrials(Context().get(), request, &response).ok());
    return response;
  }
  v1::Study Get() {
    v1::GetStudyRequest request;
    request.set_name(kName);
    v1::Study study;
    EXPECT_TRUE(studies_->GetStudy(Context().get(), request, &study).ok());
    return study;
  }
};

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

TEST_F(ChangesTest, MasksNameWhatMayChange) {
  EXPECT_THAT(Text(Update("{}", {})), HasSubstr("update_mask: is required"));
  EXPECT_THAT(Text(Update("{}", {"seed"})), HasSubstr("\"seed\" of a study can't be changed"));
  EXPECT_THAT(Text(Update("{}", {"metric.goal"})), HasSubstr("can't be changed"));
  EXPECT_THAT(Text(Update("{}", {"budget.max_trails"})), HasSubstr("did you mean \"budget.max_trials\"?"));
  EXPECT_THAT(Text(Update("{}", {"objective.command"})), HasSubstr("spec.objective"));
  EXPECT_THAT(Text(Update(R"({"budget": {"max_trials": 0}})", {"budget.max_trials"})), HasSubstr("budget.max_trials"));
  EXPECT_THAT(Text(Update(R"({"weight": 1e9})", {"weight"})), HasSubstr("weight"));
  EXPECT_THAT(Text(Update(R"({"space": [{"name": "x", "float": {"min": 0.5, "max": 1}}]})", {"space"})),
              HasSubstr("narrower"));
  EXPECT_THAT(Text(Update(R"({"space": [{"name": "x"}]})", {"space"})), HasSubstr("spec.space[0]"));
  EXPECT_EQ(Get().update_seq(), 1u) << "nothing changed";
  v1::Study study;
  // What the mask does not name is not looked at.
  ASSERT_TRUE(Update(R"({"budget": {"max_trials": 50, "patience": 3}, "seed": 9,
                         "space": [{"name": "x", "float": {"min": -1, "max": 1}}]})",
                     {"budget.max_trials", "space"}, &study)
                  .ok());
  EXPECT_EQ(study.spec().budget().max_trials(), 50);
  EXPECT_EQ(study.spec().budget().patience(), 0);
  EXPECT_EQ(study.spec().seed(), 3u);
  EXPECT_EQ(study.spec().space(0).float_().min(), -1.0);
  EXPECT_EQ(study.spec().space_size(), 3);
  // The file that made it still finds it.
  EXPECT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
}

TEST_F(ChangesTest, ImportsAreCheckedAsAWhole) {
  v1::Trial unknown = Result(0.1, 1);
  (*unknown.mutable_parameters()->mutable_fields())["z"].set_number_value(1);
  EXPECT_THAT(Text(Import({Result(0.1, 1), unknown}).status()), HasSubstr("trials[1].parameters.z"));
  v1::Trial off_grid = Result(0.1, 1);
  (*off_grid.mutable_parameters()->mutable_fields())["k"].set_number_value(2.5);
  EXPECT_THAT(Text(Import({off_grid}).status()), HasSubstr("trials[0].parameters.k"));
  v1::Trial running = Result(0.1, 1);
  running.set_state(v1::Trial::RUNNING);
  EXPECT_THAT(Text(Import({running}).status()), HasSubstr("only results can be imported"));
  v1::Trial gradient = Result(0.1, 1);
  gradient.mutable_final_measurement()->mutable_gradient()->mutable_full()->add_values(1);
  EXPECT_THAT(Text(Import({gradient}).status()), HasSubstr("gradient"));
  EXPECT_THAT(Text(Import(std::vector<v1::Trial>(1001, Result(0.1, 1))).status()), HasSubstr("1 to 1000"));
  EXPECT_THAT(Text(Import({}).status()), HasSubstr("has 0 entries"));
  EXPECT_EQ(List().trials_size(), 0);

  v1::Trial point = Result(0.3, 2);
  point.add_measurements()->set_step(1);
  (*point.mutable_measurements(0)->mutable_metrics())["loss"] = 7.0;
  point.mutable_create_time()->set_seconds(1'000'000'000);
  const auto imported = Import({Result(0.1, 1), Result(0.1, 1), Result(0.2, NAN), point}, "once");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->numbers_size(), 4) << "two of one setting are two results";
  EXPECT_EQ(Import({Result(0.1, 1), Result(0.1, 1), Result(0.2, NAN), point}, "once")->numbers_size(), 4);
  EXPECT_EQ(base::GetReason(Import({Result(0.1, 2)}, "once").status()), base::reason::kRequestIdReused);
  const v1::ListTrialsResponse list = List();
  ASSERT_EQ(list.trials_size(), 4);
  EXPECT_EQ(list.trials(2).state(), v1::Trial::FAILED);
  EXPECT_EQ(list.trials(0).attributes().at("luthier.source"), "test");
  EXPECT_EQ(list.trials(3).create_time().seconds(), 1'000'000'000);
  v1::GetTrialRequest get;
  get.set_name(list.trials(3).name());
  get.set_with_measurements(true);
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &trial).ok());
  ASSERT_EQ(trial.measurements_size(), 1);
  EXPECT_EQ(trial.measurements(0).metrics().at("loss"), 7.0);
  const v1::Study study = Get();
  EXPECT_EQ(study.spec().budget().max_trials(), 24);
  EXPECT_EQ(study.added_trials(), 4);
  EXPECT_EQ(study.best_trial(), 1);
}

TEST_F(ChangesTest, DeletedAndRetriedTrialsAreShownAsSuch) {
  ASSERT_TRUE(Import({Result(0.1, 1), Result(0.2, 2), Result(0.3, NAN)}).ok());
  v1::DeleteTrialRequest gone;
  gone.set_name(absl::StrCat(kName, "/trials/1"));
  v1::DeleteTrialResponse deleted;
  ASSERT_TRUE(studies_->DeleteTrial(Context().get(), gone, &deleted).ok());
  v1::GetTrialRequest get;
  get.set_name(gone.name());
  v1::Trial trial;
  EXPECT_EQ(studies_->GetTrial(Context().get(), get, &trial).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(List().trials_size(), 2);
  EXPECT_EQ(Get().best_trial(), 2);
  EXPECT_EQ(Get().trials().deleted(), 1);
  EXPECT_EQ(Get().trials().complete(), 1);

  v1::RetryTrialsRequest retry;
  retry.set_parent(kName);
  v1::EnqueueTrialsResponse retried;
  EXPECT_EQ(studies_->RetryTrials(Context().get(), retry, &retried).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  retry.set_all_failed(true);
  ASSERT_TRUE(studies_->RetryTrials(Context().get(), retry, &retried).ok());
  ASSERT_EQ(retried.trials_size(), 1);
  EXPECT_EQ(retried.trials(0).retry_of(), 3);
  EXPECT_EQ(List().trials(1).retried_by(), 4);
  EXPECT_EQ(Get().trials().retried(), 1);
}

TEST_F(ChangesTest, ATrialIsStoppedWithItsValue) {
  const v1::Lease lease = Lease("s", "stop");
  v1::StopTrialRequest request;
  request.set_name(lease.trial().name());
  v1::Trial trial;
  ASSERT_TRUE(studies_->StopTrial(Context().get(), request, &trial).ok());
  EXPECT_EQ(trial.state(), v1::Trial::RUNNING);
  EXPECT_TRUE(trial.stop_requested());
  v1::HeartbeatRequest beat;
  beat.set_worker("w1");
  beat.add_tokens(lease.token());
  v1::HeartbeatResponse told;
  ASSERT_TRUE(work_->Heartbeat(Context().get(), beat, &told).ok());
  EXPECT_EQ(told.directives(0), v1::HeartbeatResponse::FINISH);
  v1::ReportRequest report;
  report.set_trial(lease.trial().name());
  report.set_token(lease.token());
  (*report.add_measurements()->mutable_metrics())["loss"] = 0.5;
  v1::ReportResponse answer;
  ASSERT_TRUE(work_->Report(Context().get(), report, &answer).ok());
  EXPECT_EQ(answer.directive(), v1::HeartbeatResponse::FINISH);
  v1::FinishResponse finished;
  ASSERT_TRUE(Complete(lease, 0.25, &finished).ok());
  EXPECT_EQ(finished.state(), v1::Trial::PRUNED);
  ASSERT_TRUE(studies_->StopTrial(Context().get(), request, &trial).ok());
  EXPECT_EQ(trial.final_measurement().metrics().at("loss"), 0.25);
  request.set_name("nonsense");
  EXPECT_EQ(studies_->StopTrial(Context().get(), request, &trial).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ChangesTest, ATimeOfItsOwnIsGivenAndTakenFromAStudy) {
  v1::UpdateStudyRequest request;
  request.set_name(kName);
  request.mutable_update_mask()->add_paths("budget.max_wall");
  v1::Study study;
  request.mutable_spec()->mutable_budget()->mutable_max_wall()->set_seconds(-1);
  EXPECT_EQ(studies_->UpdateStudy(Context().get(), request, &study).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_spec()->mutable_budget()->mutable_max_wall()->set_seconds(3600);
  ASSERT_TRUE(studies_->UpdateStudy(Context().get(), request, &study).ok());
  EXPECT_EQ(study.spec().budget().max_wall().seconds(), 3600);
  request.mutable_spec()->mutable_budget()->clear_max_wall();
  ASSERT_TRUE(studies_->UpdateStudy(Context().get(), request, &study).ok());
  EXPECT_FALSE(study.spec().budget().has_max_wall());
}

TEST_F(ChangesTest, LongAttributesAreLeftOutOfLists) {
  ASSERT_TRUE(Import({Result(0.1, 1)}).ok());
  v1::SetAttributesRequest request;
  request.set_name(absl::StrCat(kName, "/trials/1"));
  v1::Trial trial;
  EXPECT_FALSE(studies_->SetAttributes(Context().get(), request, &trial).ok());
  (*request.mutable_attributes())["long"] = std::string(64 << 10, 'x');
  (*request.mutable_attributes())["short"] = "y";
  ASSERT_TRUE(studies_->SetAttributes(Context().get(), request, &trial).ok());
  EXPECT_EQ(trial.attributes().at("long").size(), size_t{64} << 10);
  const v1::Trial listed = List().trials(0);
  EXPECT_EQ(listed.attributes().count("long"), 0u);
  EXPECT_EQ(listed.attributes().at("short"), "y");
  ASSERT_EQ(listed.attributes_left_out_size(), 1);
  EXPECT_EQ(listed.attributes_left_out(0), "long");
  (*request.mutable_attributes())["long"] = std::string((64 << 10) + 1, 'x');
  EXPECT_FALSE(studies_->SetAttributes(Context().get(), request, &trial).ok());
}

}  // namespace
}  // namespace luthier::service::testing
