#include "server/service/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_join.h"
#include "lib/study/metrics.h"

namespace luthier::service {
namespace {

using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

v1::Trial SomeTrial() {
  v1::Trial trial;
  trial.set_number(7);
  trial.set_state(v1::Trial::COMPLETE);
  trial.mutable_provenance()->set_designer("lbo");
  trial.mutable_provenance()->set_origin("acq");
  (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = 0.5;
  return trial;
}

std::string Explained(const v1::Trial& trial) {
  return absl::StrJoin(Explain("loss", trial).sentences(), "\n");
}

TEST(Explain, SharesRuledOutComeWithTheirCondition) {
  v1::Trial trial = SomeTrial();
  EXPECT_THAT(Explained(trial), Not(HasSubstr("ruled out")));
  (*trial.mutable_provenance()->mutable_details())["excluded_share"] = 0.25;
  (*trial.mutable_provenance()->mutable_details())["lipschitz"] = 12.5;
  EXPECT_THAT(Explained(trial),
              AllOf(HasSubstr("25.0 % (+-1.4 %) of the space could not hold a record"),
                    HasSubstr("provided that the model's output (the results, standardised and warped) nowhere changes "
                              "faster than L = 12.5 per side of the unit cube"),
                    HasSubstr("1024 points")));
}

TEST(Explain, TellsWhatWasExpectedOfEachMetric) {
  study::StudySpec spec;
  study::SetMetrics({{.name = "loss"}, {.name = "ms", .objective = false, .at_most = 20}}, &spec);
  study::Trial trial;
  v1::ExplainTrialResponse out;
  ExplainMetrics(spec, trial, &out);
  EXPECT_EQ(out.expectations_size(), 0) << "a user added it";
  trial.provenance.details = {
      {"predicted_mean", 0.25}, {"predicted_sd", 0.125}, {"mean.ms", 17.5}, {"sd.ms", 2.0}, {"kept.ms", 0.875}};
  ExplainMetrics(spec, trial, &out);
  ASSERT_EQ(out.expectations_size(), 2);
  EXPECT_EQ(out.expectations(0).metric(), "loss");
  EXPECT_EQ(out.expectations(0).predicted().mean(), 0.25);
  EXPECT_FALSE(out.expectations(0).has_bounds_kept());
  EXPECT_EQ(out.expectations(1).predicted().sd(), 2.0);
  EXPECT_EQ(out.expectations(1).bounds_kept(), 0.875);
  EXPECT_EQ(out.sentences(0),
            "the models expected loss = 0.25 ± 0.12, ms = 17.5 ± 2 (within its bounds with probability 0.88)");
}

TEST(Explain, SaysWhatWasAskedAndWhatWasNotUsed) {
  v1::Trial trial = SomeTrial();
  EXPECT_THAT(Explained(trial), AllOf(Not(HasSubstr("slope along")), Not(HasSubstr("without the gradients")),
                                      Not(HasSubstr("set aside"))));
  trial.mutable_provenance()->add_direction(0.5);
  trial.mutable_provenance()->add_direction(-2);
  trial.mutable_provenance()->add_set_aside(3);
  trial.mutable_provenance()->add_set_aside(5);
  trial.set_gradient_set_aside(true);
  EXPECT_THAT(Explained(trial),
              AllOf(HasSubstr("asked for the slope along [0.5, -2]"),
                    HasSubstr("the first one made without the gradients of trials 3, 5, which contradict"),
                    HasSubstr("gradient set aside: it contradicts the losses")));
}

TEST(Explain, NeverSaysThatADroppedValueWasTried) {
  v1::Trial message = SomeTrial();
  message.mutable_provenance()->set_designer("user");
  EXPECT_THAT(Explained(message), HasSubstr("tried because a user added it"));

  study::StudySpec spec;
  study::ParameterSpec lr, layers;
  lr.name = "lr";
  study::FloatRange narrow;
  narrow.max = 0.1;
  lr.domain = narrow;
  layers.name = "layers";
  layers.domain = study::FloatRange();
  spec.space = study::SearchSpace::Create({lr, layers}).value();
  study::Trial trial;
  trial.provenance.designer = "user";
  trial.unused = {{"lr", 0.5}, {"layers", 0.5}, {"optimiser", std::string("adam")}};
  const std::string text = absl::StrJoin(Explain("loss", message, UnusedOf(spec, trial)).sentences(), "\n");
  EXPECT_THAT(text, Not(HasSubstr("tried because")));
  EXPECT_THAT(text, AllOf(HasSubstr("lr = 0.5, which is none of the parameter's values"),
                          HasSubstr("layers = 0.5, for which the objective did not ask"),
                          HasSubstr("optimiser = adam, of which no trial has told a parameter")));
  trial.provenance.designer = "bo";
  EXPECT_TRUE(UnusedOf(spec, trial).empty()) << "a designer's value that was not asked for is no user's wish";
}

TEST(Explain, SaysWhyAnotherSearchWasAsked) {
  v1::Trial trial = SomeTrial();
  EXPECT_THAT(Explained(trial), Not(HasSubstr("would try alone")));
  trial.mutable_provenance()->set_origin("direct");
  (*trial.mutable_provenance()->mutable_details())["member_trial"] = 3;
  (*trial.mutable_provenance()->mutable_details())["member_earned"] = 0;
  EXPECT_THAT(Explained(trial), AllOf(HasSubstr("origin: direct: the next point of a division"),
                                      HasSubstr("setting 3 of what direct would try alone, as one trial in 32 is")));
  (*trial.mutable_provenance()->mutable_details())["member_earned"] = 1;
  EXPECT_THAT(Explained(trial), HasSubstr("setting 3 of what direct would try alone, as one of its settings was the"));
  trial.mutable_provenance()->set_origin("random");
  EXPECT_THAT(Explained(trial), HasSubstr("setting 3 of what tpe would try alone"));
}

TEST(Explain, SaysThatALabelHadFewTrials) {
  v1::Trial trial = SomeTrial();
  EXPECT_THAT(Explained(trial), Not(HasSubstr("too few")));
  trial.mutable_provenance()->set_origin("label");
  (*trial.mutable_provenance()->mutable_details())["label.kernel"] = 1;
  EXPECT_THAT(Explained(trial), AllOf(HasSubstr("origin: label: the best that the model knows with a label that has"),
                                      HasSubstr("its kernel had 1 trial (stopped ones count half): too few to know")));
}

TEST(Explain, SaysHowFarThePredictionWasOff) {
  v1::Trial trial = SomeTrial();
  EXPECT_FALSE(Explain("loss", trial).has_surprise());
  (*trial.mutable_provenance()->mutable_details())["predicted_mean"] = 1.5;
  (*trial.mutable_provenance()->mutable_details())["predicted_sd"] = 0.5;
  const v1::ExplainTrialResponse explained = Explain("loss", trial);
  EXPECT_EQ(explained.surprise(), -2.0);
  (*trial.mutable_provenance()->mutable_details())["noise_sd"] = 1.2;
  EXPECT_NEAR(Explain("loss", trial).surprise(), -1.0 / 1.3, 1e-12) << "the root of 0.25 + 1.44";
  trial.mutable_provenance()->mutable_details()->erase("noise_sd");
  EXPECT_EQ(explained.predicted().mean(), 1.5);
  EXPECT_THAT(Explained(trial),
              AllOf(HasSubstr("origin: acq: the model expects"), HasSubstr("off by -2.00 standard deviations")));
  trial.clear_final_measurement();
  EXPECT_FALSE(Explain("loss", trial).has_surprise());
}

}  // namespace
}  // namespace luthier::service
