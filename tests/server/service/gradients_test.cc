// Slopes that are asked for, gradients that are set aside, and certificates, as clients see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/search/registry.h"
#include "tests/server/service/fixture.h"

namespace luthier::service::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Asks for a direction, and from ask 3 on distrusts trials 1 and 2.
class Suspicious final : public search::Designer {
 public:
  explicit Suspicious(const study::StudySpec& spec) : other_(search::CreateDesigner(spec)) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    search::Suggestion suggestion = other_->Suggest(history, ask_index, stop).value();
    suggestion.direction = {1.0, -0.5};
    if (ask_index >= 3) suggestion.set_aside = {1, 2};
    return suggestion;
  }

 private:
  const std::unique_ptr<search::Designer> other_;
};

class GradientsTest : public ServiceTest {
 protected:
  GradientsTest() {
    designers_ = [](const study::StudySpec& spec) { return std::make_unique<Suspicious>(spec); };
  }

  v1::Lease LeaseFor(const std::string& worker) {
    v1::SuggestRequest request = Ask("s", absl::StrCat("request-", ++requests_));
    request.set_worker(worker);
    v1::SuggestResponse response;
    EXPECT_TRUE(work_->Suggest(Context().get(), request, &response).ok());
    EXPECT_EQ(response.leases_size(), 1);
    return response.leases_size() > 0 ? response.leases(0) : v1::Lease();
  }

  absl::StatusOr<v1::Study> GetStudy(const v1::CertificateRequest* certificate = nullptr) {
    v1::GetStudyRequest request;
    request.set_name("projects/default/studies/s");
    if (certificate != nullptr) *request.mutable_certificate() = *certificate;
    v1::Study study;
    const absl::Status status = wire::FromGrpc(studies_->GetStudy(Context().get(), request, &study));
    if (!status.ok()) return status;
    return study;
  }

  int requests_ = 0;
};

TEST_F(GradientsTest, AreAskedForAndSetAsideInTheOpen) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  for (const char* worker : {"bad", "worse", "good"}) {
    const v1::Lease lease = LeaseFor(worker);
    EXPECT_THAT(lease.trial().provenance().direction(), ElementsAre(1.0, -0.5));
    v1::Gradient gradient;
    *gradient.mutable_directional()->mutable_direction() = lease.trial().provenance().direction();
    gradient.mutable_directional()->set_slope(2.0);
    ASSERT_TRUE(Complete(lease, 1.0, nullptr, &gradient).ok());
  }
  EXPECT_TRUE(GetStudy()->gradients_set_aside().empty());
  EXPECT_THAT(LeaseFor("good").trial().provenance().set_aside(), ElementsAre(1, 2));

  const v1::Study study = GetStudy().value();
  ASSERT_EQ(study.gradients_set_aside_size(), 2);
  EXPECT_EQ(study.gradients_set_aside(0).worker(), "bad");
  EXPECT_EQ(study.gradients_set_aside(0).trials(), 1);
  EXPECT_EQ(study.gradients_set_aside(1).worker(), "worse");
  EXPECT_EQ(study.trials().complete(), 3);  // Losses are kept.
  EXPECT_FALSE(study.has_resolved_algorithm());
  EXPECT_TRUE(study.algorithm_reasons().empty());

  v1::ListTrialsRequest list;
  list.set_parent("projects/default/studies/s");
  list.set_page_size(2);
  std::vector<bool> flags;
  do {
    v1::ListTrialsResponse page;
    ASSERT_TRUE(studies_->ListTrials(Context().get(), list, &page).ok());
    for (const v1::Trial& trial : page.trials()) {
      flags.push_back(trial.gradient_set_aside());
      v1::GetTrialRequest get;
      get.set_name(trial.name());
      v1::Trial same;
      ASSERT_TRUE(studies_->GetTrial(Context().get(), get, &same).ok());
      EXPECT_EQ(same.gradient_set_aside(), trial.gradient_set_aside());
      EXPECT_EQ(same.final_measurement().has_gradient(), trial.number() <= 3);
    }
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_THAT(flags, ElementsAre(true, true, false, false));

  v1::WatchStudyRequest watch;
  watch.set_name("projects/default/studies/s");
  auto context = Context();
  const auto stream = studies_->WatchStudy(context.get(), watch);
  std::vector<std::pair<int64_t, std::string>> seen;
  v1::Event event;
  while (seen.size() < 2 && stream->Read(&event)) {
    if (event.type() == v1::Event::GRADIENT_SET_ASIDE) seen.emplace_back(event.trial(), event.actor());
  }
  context->TryCancel();
  EXPECT_THAT(seen, ElementsAre(std::pair(1, "bad"), std::pair(2, "worse")));
}

// What a lease of a new study says is read.
class LeaseGradientTest : public ServiceTest {
 protected:
  v1::GradientUse LeaseOf(const std::string& algorithm, const std::string& objective = "",
                          const std::string& metric = R"({"name": "validation_loss", "goal": "MINIMIZE"})") {
    const std::string id = absl::StrCat("s", ++studies_made_);
    const std::string json = absl::StrCat(
        R"({"space": [{"name": "l2", "float": {"min": 0.001, "max": 1}}], "metric": )", metric, R"(, "algorithm": )",
        algorithm, objective.empty() ? "" : absl::StrCat(R"(, "objective": )", objective), "}");
    const absl::Status created = Create(id, FromJson<v1::StudySpec>(json));
    EXPECT_TRUE(created.ok()) << created;
    v1::SuggestResponse first, again;
    EXPECT_TRUE(work_->Suggest(Context().get(), Ask(id, id), &first).ok());
    // Sent again, the ask has the same answer.
    EXPECT_TRUE(work_->Suggest(Context().get(), Ask(id, id), &again).ok());
    EXPECT_EQ(first.leases_size(), 1);
    EXPECT_EQ(again.leases_size(), 1);
    if (first.leases_size() != 1 || again.leases_size() != 1) return v1::GRADIENT_USE_UNSPECIFIED;
    EXPECT_EQ(again.leases(0).gradient(), first.leases(0).gradient());
    EXPECT_EQ(first.leases(0).gradient() == v1::GRADIENT_USE_DIRECTIONAL,
              !first.leases(0).trial().provenance().direction().empty());
    return first.leases(0).gradient();
  }
  int studies_made_ = 0;
};

TEST_F(LeaseGradientTest, IsWhatTheAlgorithmReads) {
  EXPECT_EQ(LeaseOf(R"({"random": {}})"), v1::GRADIENT_USE_NONE);
  EXPECT_EQ(LeaseOf(R"({"bo": {}})"), v1::GRADIENT_USE_NONE);
  EXPECT_EQ(LeaseOf(R"({"auto": {}})"), v1::GRADIENT_USE_FULL);
  EXPECT_EQ(LeaseOf(R"({"fobo": {}})"), v1::GRADIENT_USE_FULL);
  EXPECT_EQ(LeaseOf(R"({"fobo": {"gradients": "DIRECTIONAL"}})"), v1::GRADIENT_USE_DIRECTIONAL);
}

TEST_F(LeaseGradientTest, IsNothingWhereTheObjectiveHasNone) {
  const auto logistic = [](const std::string& options) {
    return absl::StrCat(
        R"({"builtin": {"model": "logistic", "data": "synth:logistic?rows=50&cols=2&seed=1", "options": {)", options,
        "}}}");
  };
  EXPECT_EQ(LeaseOf(R"({"fobo": {}})", logistic("")), v1::GRADIENT_USE_FULL);
  EXPECT_EQ(LeaseOf(R"({"fobo": {}})", logistic(R"("gradient": true)")), v1::GRADIENT_USE_FULL);
  EXPECT_EQ(LeaseOf(R"({"fobo": {}})", logistic(R"("gradient": false)")), v1::GRADIENT_USE_NONE);
  EXPECT_EQ(LeaseOf(R"({"fobo": {}})", logistic(""), R"({"name": "validation_accuracy", "goal": "MAXIMIZE"})"),
            v1::GRADIENT_USE_NONE);
  EXPECT_EQ(
      LeaseOf(R"({"fobo": {}})", R"({"command": {"argv": ["true"]}})", R"({"name": "anything", "goal": "MAXIMIZE"})"),
      v1::GRADIENT_USE_FULL);
}

TEST_F(GradientsTest, ACertificateIsGivenToWhoAsksForIt) {
  ASSERT_TRUE(Create("s", FromJson<v1::StudySpec>(kSpec)).ok());
  v1::CertificateRequest certificate;
  certificate.set_epsilon(0.5);
  certificate.set_lipschitz(20.0);
  EXPECT_FALSE(GetStudy(&certificate)->has_certificate());  // No results.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Complete(LeaseFor("w"), i).ok());
  EXPECT_FALSE(GetStudy()->has_certificate());
  const v1::Study study = GetStudy(&certificate).value();
  ASSERT_TRUE(study.has_certificate());
  EXPECT_EQ(study.certificate().best_value(), 0.0);
  EXPECT_EQ(study.certificate().epsilon(), 0.5);
  EXPECT_EQ(study.certificate().results(), 5);
  EXPECT_GE(study.certificate().lipschitz(), 20.0);
  EXPECT_GT(study.certificate().steepest_slope(), 0.0);
  EXPECT_GT(study.certificate().points(), 1000);
  // A constant of one's own, or an algorithm with bounds.
  certificate.clear_lipschitz();
  EXPECT_FALSE(GetStudy(&certificate)->has_certificate());
  certificate.set_lipschitz(-1.0);
  const absl::Status bad = GetStudy(&certificate).status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr("certificate.lipschitz"));
}

}  // namespace
}  // namespace luthier::service::testing
