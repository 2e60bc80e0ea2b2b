// Studies with several metrics through the API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMetricsSpec[] = R"({
  "space": [{"name": "x", "float": {"min": 0, "max": 1}}],
  "metrics": [{"name": "loss", "goal": "MINIMIZE", "reference": 10},
              {"name": "ms", "at_most": 20},
              {"name": "gain", "goal": "MAXIMIZE"}],
  "algorithm": {"random": {}},
  "budget": {"max_trials": 20}})";
constexpr char kBoundSpec[] = R"({
  "space": [{"name": "x", "float": {"min": 0, "max": 1}}],
  "metrics": [{"name": "loss", "goal": "MINIMIZE"}, {"name": "ms", "at_most": 20}],
  "algorithm": {"random": {}},
  "budget": {"max_trials": 20}})";

using Metrics = std::map<std::string, double>;

class StandingsTest : public ServiceTest {
 protected:
  void Import(const std::string& study, const std::vector<Metrics>& results) {
    v1::ImportTrialsRequest request;
    request.set_parent("projects/default/studies/" + study);
    for (const Metrics& metrics : results) {
      v1::Trial& trial = *request.add_trials();
      trial.set_state(v1::Trial::COMPLETE);
      (*trial.mutable_parameters()->mutable_fields())["x"].set_number_value(0.5);
      trial.mutable_final_measurement()->mutable_metrics()->insert(metrics.begin(), metrics.end());
    }
    v1::ImportTrialsResponse response;
    const grpc::Status status = studies_->ImportTrials(Context().get(), request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  v1::Study Get(const std::string& study) {
    v1::GetStudyRequest request;
    request.set_name("projects/default/studies/" + study);
    v1::Study response;
    EXPECT_TRUE(studies_->GetStudy(Context().get(), request, &response).ok());
    return response;
  }
  std::vector<int64_t> List(const std::string& study, const std::string& filter) {
    v1::ListTrialsRequest request;
    request.set_parent("projects/default/studies/" + study);
    request.set_filter(filter);
    v1::ListTrialsResponse response;
    const grpc::Status status = studies_->ListTrials(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<int64_t> numbers;
    for (const v1::Trial& trial : response.trials()) numbers.push_back(trial.number());
    return numbers;
  }
};

TEST_F(StandingsTest, WhileNothingMeetsTheBoundsTheLeastViolationIsTold) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kBoundSpec)).ok());
  EXPECT_EQ(Get("s").least_violating_trial(), 0);
  // The standard deviation of 40, 30, 50 is that of -10, 0, 10 around 40: the square root of 200 / 3.
  Import("s", {{{"loss", 1}, {"ms", 40}}, {{"loss", 2}, {"ms", 30}}, {{"loss", 0}, {"ms", 50}}});
  v1::Study study = Get("s");
  EXPECT_EQ(study.best_trial(), 0);
  EXPECT_EQ(study.infeasible(), 3);
  EXPECT_EQ(study.least_violating_trial(), 2);
  EXPECT_NEAR(study.least_violation(), 10 / std::sqrt(200.0 / 3.0), 1e-12);
  Import("s", {{{"loss", 7}, {"ms", 20}}});
  study = Get("s");
  EXPECT_EQ(study.best_trial(), 4);
  EXPECT_EQ(study.best_value(), 7);
  EXPECT_EQ(study.infeasible(), 3);
  EXPECT_EQ(study.least_violating_trial(), 0);
  EXPECT_FALSE(study.has_least_violation());
  EXPECT_THAT(study.front(), IsEmpty());
}

TEST_F(StandingsTest, TheFrontHasFeasibleTrialsThatNoneSurpasses) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kMetricsSpec)).ok());
  Import("s", {{{"loss", 5}, {"ms", 1}, {"gain", 5}},
               {{"loss", 0}, {"ms", 21}, {"gain", 9}},  // Beyond the bound.
               {{"loss", 1}, {"ms", 1}, {"gain", 1}},
               {{"loss", 6}, {"ms", 1}, {"gain", 5}},    // Trial 1 is better.
               {{"loss", 1}, {"ms", 2}, {"gain", 1}}});  // Equals trial 3 in both goals.
  v1::Study study = Get("s");
  EXPECT_THAT(study.front(), ElementsAre(3, 1));
  // Not each objective has a reference. Beyond loss 10 and gain 0.6, a tenth of 5 - 1 behind the worst, the box up to
  // loss 1 and gain 5 has the sides 9 and 4.4. Trial 3 covers 9 x 0.4 of it, and trial 1 beyond that 5 x 4.
  EXPECT_THAT(study.reference_point(), ElementsAre(10, ::testing::DoubleEq(0.6)));
  EXPECT_NEAR(study.hypervolume(), (9 * 0.4 + 5 * 4) / (9 * 4.4), 1e-12);
  EXPECT_EQ(study.infeasible(), 1);
  EXPECT_EQ(study.best_trial(), 0);
  EXPECT_FALSE(study.has_best_value());
  EXPECT_EQ(study.spec().metric().name(), "loss") << "for programs that know one metric";
  v1::DeleteTrialRequest request;
  request.set_name("projects/default/studies/s/trials/3");
  v1::DeleteTrialResponse response;
  ASSERT_TRUE(studies_->DeleteTrial(Context().get(), request, &response).ok());
  EXPECT_THAT(Get("s").front(), ElementsAre(5, 1));
}

// Results whose best values grow with the front: as a share of the box up to them it would fall.
TEST_F(StandingsTest, WithReferencesTheHypervolumeNeverFalls) {
  const std::string spec = absl::StrReplaceAll(kMetricsSpec, {{R"("gain",)", R"("gain", "reference": -1,)"}});
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(spec)).ok());
  double last = 0.0;
  for (int i = 0; i < 6; ++i) {
    Import("s", {{{"loss", 5.0 - std::pow(2.0, i)}, {"ms", 1}, {"gain", 5.0 - i}}});
    const double now = Get("s").hypervolume();
    EXPECT_GT(now, last);
    last = now;
  }
  // Columns between the losses 4, 3, 1, -3, -11, -27 and 10, as high as the gains 5 … 0 above -1.
  EXPECT_NEAR(last, 6 * 6 + 1 * 5 + 2 * 4 + 4 * 3 + 8 * 2 + 16 * 1, 1e-9);
}

TEST_F(StandingsTest, TrialsSayWhetherTheyAreFeasibleAndCanBeSelectedByIt) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kBoundSpec)).ok());
  Import("s", {{{"loss", 1}, {"ms", 40}}, {{"loss", 2}, {"ms", 3}}});
  Lease("s", "r");
  EXPECT_THAT(List("s", "feasible = true"), ElementsAre(2));
  EXPECT_THAT(List("s", "feasible = false"), ElementsAre(1));
  EXPECT_THAT(List("s", "feasible:*"), ElementsAre(1, 2)) << "the running trial has no result yet";
  EXPECT_THAT(List("s", "metrics.ms < 10 AND feasible = true"), ElementsAre(2));
  v1::ListTrialsRequest request;
  request.set_parent("projects/default/studies/s");
  request.set_filter("feasible = maybe");
  v1::ListTrialsResponse listed;
  EXPECT_THAT(studies_->ListTrials(Context().get(), request, &listed).error_message(),
              HasSubstr("is neither true nor false"));
  request.clear_filter();
  ASSERT_TRUE(studies_->ListTrials(Context().get(), request, &listed).ok());
  EXPECT_FALSE(listed.trials(0).feasible());
  EXPECT_TRUE(listed.trials(1).feasible());
  EXPECT_FALSE(listed.trials(2).has_feasible());
  v1::GetTrialTableRequest table;
  table.set_name("projects/default/studies/s");
  v1::GetTrialTableResponse columns;
  ASSERT_TRUE(studies_->GetTrialTable(Context().get(), table, &columns).ok());
  std::vector<std::string> names;
  for (const v1::TrialColumn& column : columns.columns()) names.push_back(column.name());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"feasible", "metrics.loss", "metrics.ms"}));
  v1::ExplainTrialRequest explain;
  explain.set_name("projects/default/studies/s/trials/1");
  v1::ExplainTrialResponse why;
  ASSERT_TRUE(studies_->ExplainTrial(Context().get(), explain, &why).ok());
  EXPECT_THAT(why.sentences(),
              ::testing::IsSupersetOf({"result: loss = 1", "beside it: ms = 40", "not feasible: ms = 40 is above 20"}));
}

TEST_F(StandingsTest, AStudyWithOneMetricHasNoneOfThis) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  ASSERT_TRUE(Complete(Lease("s", "r"), 0.5).ok());
  const v1::Study study = Get("s");
  EXPECT_EQ(study.best_trial(), 1);
  EXPECT_THAT(study.spec().metrics(), IsEmpty());
  v1::GetTrialRequest request;
  request.set_name("projects/default/studies/s/trials/1");
  v1::Trial trial;
  ASSERT_TRUE(studies_->GetTrial(Context().get(), request, &trial).ok());
  EXPECT_FALSE(trial.has_feasible());
  v1::GetTrialTableRequest table;
  table.set_name("projects/default/studies/s");
  v1::GetTrialTableResponse columns;
  ASSERT_TRUE(studies_->GetTrialTable(Context().get(), table, &columns).ok());
  for (const v1::TrialColumn& column : columns.columns()) EXPECT_NE(column.name(), "feasible");
}

TEST_F(StandingsTest, WhatTheAlgorithmDoesNotTakeIsRefusedAtCreation) {
  v1::StudySpec spec = FromJson<v1::StudySpec>(kMetricsSpec);
  spec.mutable_algorithm()->mutable_harmonica();
  const absl::Status status = Create("s", spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("spec.algorithm: harmonica does not take several objectives or bounds on metrics; use one of "));
}

}  // namespace
}  // namespace luthier::service::testing
