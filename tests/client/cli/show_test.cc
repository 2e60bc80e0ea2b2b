#include "client/cli/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace luthier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Study SomeStudy() {
  v1::Study study;
  study.set_name("projects/default/studies/s");
  study.set_state(v1::Study::ACTIVE);
  study.mutable_spec()->mutable_metric()->set_name("loss");
  return study;
}

std::string Printed(const v1::Study& study, bool verbose = false) {
  std::ostringstream out;
  PrintStudy(out, study, {verbose, false});
  return out.str();
}

TEST(PrintStudy, ACertificateComesWithItsCondition) {
  v1::Study study = SomeStudy();
  EXPECT_THAT(Printed(study), Not(HasSubstr("ruled out")));
  v1::Certificate& c = *study.mutable_certificate();
  c.set_best_value(0.25);
  c.set_epsilon(0.01);
  c.set_lipschitz(40);
  c.set_steepest_slope(3.5);
  c.set_excluded_share(0.1234);
  c.set_standard_error(0.005);
  c.set_points(4096);
  c.set_results(57);
  EXPECT_THAT(
      Printed(study),
      HasSubstr("ruled out\n"
                "  12.3 % (+-0.5 %) of the space cannot hold a loss better than 0.25 by more than 0.01,\n"
                "  provided that loss nowhere changes faster than L = 40 per side of the unit cube that the scaled "
                "parameters span\n"
                "  (estimated by 4096 points from 57 results, between which the steepest slope is 3.5)\n"));
}

TEST(PrintStudy, WorkersWithWrongGradientsAreNamed) {
  v1::Study study = SomeStudy();
  v1::GradientsSetAside& entry = *study.add_gradients_set_aside();
  entry.set_worker("w\x1b[31m");
  entry.set_trials(3);
  EXPECT_THAT(Printed(study), AllOf(HasSubstr("are set aside in 3 trials: check their sign and units\n"),
                                    HasSubstr("warning  the gradients of worker w"), Not(HasSubstr("\x1b"))));
  entry.set_trials(1);
  EXPECT_THAT(Printed(study), HasSubstr("in 1 trial: "));
}

TEST(PrintStudy, AChosenAlgorithmComesWithItsReasons) {
  v1::Study study = SomeStudy();
  study.mutable_spec()->mutable_algorithm()->mutable_random();
  EXPECT_THAT(Printed(study), Not(HasSubstr("chosen")));
  study.mutable_resolved_algorithm()->mutable_sobol()->set_scramble(true);
  study.add_algorithm_reasons("100 trials at once leave nothing to learn from");
  study.mutable_spec()->set_seed(7);
  study.mutable_spec()->set_reproducible(true);
  EXPECT_THAT(Printed(study), HasSubstr("\nalgorithm sobol, chosen by the service: 100 trials at once leave nothing"));
  const std::string text = Printed(study, /*verbose=*/true);
  // Nothing but the algorithm was chosen: no seed, no other field of a spec.
  EXPECT_THAT(text, HasSubstr("chosen by the service: algorithm:\n"
                              "  sobol: {scramble: true}\n"
                              "  100 trials at once leave nothing to learn from\n"
                              "spec\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("seed: 7"), Not(HasSubstr("seed: 0")), Not(HasSubstr("reproducible: false"))));
}

TEST(PrintStudy, HarmonicasStagesAreATable) {
  v1::Study study = SomeStudy();
  v1::HarmonicaStage& stage = *study.add_harmonica_stages();
  stage.set_samples(300);
  stage.set_failed(2);
  stage.set_r2(0.79);
  stage.set_cross_validated_r2(0.74);
  stage.add_warnings("what\x1b[31m");
  v1::HarmonicaStage::Term& one = *stage.add_terms();
  one.add_factors()->set_name("norm");
  one.set_weight(0.82);
  one.set_better_sign(-1);
  one.set_better_values("true");
  one.set_variance_share(0.41);
  one.set_bootstrap_frequency(1.0);
  v1::HarmonicaStage::Term& two = *stage.add_terms();
  two.add_factors()->set_name("lr:bit1(high half)");
  two.add_factors()->set_name("adam");
  two.set_weight(-0.43);
  two.set_better_sign(1);
  two.set_variance_share(0.11);
  v1::HarmonicaStage::Restriction& restriction = *stage.add_restrictions();
  (*restriction.mutable_values())["norm"] = "true";
  (*restriction.mutable_values())["adam"] = "false";
  restriction.set_value(-1.25);
  study.add_parameters_never_selected("dummy1");
  const std::string text = Printed(study);
  EXPECT_THAT(text, HasSubstr("stage 1: 300 samples (2 failed), of whose variance a polynomial explains 79 % "
                              "(cross-validated 74 %)\nwarning  what"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("lr:bit1(high half) x adam"));
  EXPECT_THAT(text, AllOf(HasSubstr("true"), HasSubstr("alike"), HasSubstr("41 %"), HasSubstr("100 %")));
  EXPECT_THAT(text, HasSubstr("handed on: adam=false, norm=true  (-1.25)\nnever selected: dummy1\n"));
}

v1::Trial SomeTrial() {
  v1::Trial trial;
  trial.set_name("projects/default/studies/s/trials/7");
  trial.set_number(7);
  trial.set_state(v1::Trial::COMPLETE);
  trial.mutable_provenance()->set_designer("lbo");
  trial.mutable_provenance()->set_origin("acq");
  (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = 0.5;
  return trial;
}

TEST(PrintTrial, HowTrainingEndedAndWhatItTook) {
  const auto printed = [](const v1::Trial& trial) {
    std::ostringstream out;
    PrintTrial(out, SomeStudy().spec(), trial);
    return out.str();
  };
  v1::Trial trial = SomeTrial();
  EXPECT_THAT(printed(trial), AllOf(Not(HasSubstr("training")), Not(HasSubstr("time"))));
  EXPECT_FALSE(TrialJson(trial).contains("training"));
  EXPECT_FALSE(TrialJson(trial).contains("gradient_seconds"));
  v1::Measurement& last = *trial.mutable_final_measurement();
  last.set_elapsed_seconds(12.5);
  EXPECT_THAT(printed(trial), HasSubstr("\ntime: 12.5 s\n"));
  last.set_gradient_seconds(3.25);
  last.mutable_training()->set_outcome(v1::Training::CONVERGED);
  EXPECT_THAT(printed(trial), HasSubstr("training ended: converged\ntime: 12.5 s, 3.25 s of it for the gradient\n"));
  last.mutable_training()->set_outcome(v1::Training::LIMIT);
  last.mutable_training()->set_gradient_norm(0.001);
  last.mutable_training()->set_duality_gap(0.0);
  EXPECT_THAT(printed(trial),
              HasSubstr("training ended: limit (the metrics are not those of the optimum), gradient norm "
                        "0.001, duality gap 0\n"));
  EXPECT_EQ(TrialJson(trial)["training"].dump(), R"({"outcome":"limit","gradient_norm":0.001,"duality_gap":0})");
  EXPECT_EQ(TrialJson(trial)["elapsed_seconds"], 12.5);
  EXPECT_EQ(TrialJson(trial)["gradient_seconds"], 3.25);
  // A number that is not there is left out; points of a curve have the same form.
  last.mutable_training()->clear_duality_gap();
  *trial.add_measurements() = last;
  EXPECT_EQ(TrialJson(trial)["training"].dump(), R"({"outcome":"limit","gradient_norm":0.001})");
  EXPECT_EQ(TrialJson(trial)["measurements"][0]["training"], TrialJson(trial)["training"]);
}

std::string Csv(const std::vector<v1::Trial>& trials) {
  std::ostringstream out;
  TrialTable(SomeStudy().spec(), trials).PrintCsv(out);
  return out.str();
}

TEST(TrialTable, HasAColumnForTrainingsWhereATrialSaysHowItsEnded) {
  v1::Trial plain = SomeTrial(), limited = SomeTrial();
  EXPECT_EQ(Csv({plain}), "number,state,loss,attempts,origin,worker,note\n7,COMPLETE,0.5,0,acq,,\n");
  limited.mutable_final_measurement()->mutable_training()->set_outcome(v1::Training::LIMIT);
  EXPECT_EQ(Csv({plain, limited}),
            "number,state,loss,training,attempts,origin,worker,note\n"
            "7,COMPLETE,0.5,,0,acq,,\n"
            "7,COMPLETE,0.5,limit,0,acq,,\n");
}

TEST(PrintStudy, TrainingsAreCountedAndLimitsWarnedOf) {
  v1::Study study = SomeStudy();
  EXPECT_EQ(TrainingsText(study.trainings()), "");
  EXPECT_EQ(LimitWarning(study), "");
  EXPECT_THAT(Printed(study), AllOf(Not(HasSubstr("\ntraining ")), Not(HasSubstr("warning"))));
  study.mutable_trainings()->set_converged(37);
  study.mutable_trainings()->set_precision(1);
  EXPECT_THAT(Printed(study), AllOf(HasSubstr("\ntraining 37 converged, 1 precision\n"), Not(HasSubstr("warning"))));
  study.mutable_trainings()->set_limit(1);
  EXPECT_EQ(LimitWarning(study), "1 of 39 trainings ended at its limit: its result is not that of the optimum");
  study.mutable_trainings()->set_limit(2);
  study.mutable_trainings()->set_target(3);
  study.mutable_trainings()->set_diverged(4);
  EXPECT_EQ(TrainingsText(study.trainings()), "37 converged, 1 precision, 3 target, 2 limit, 4 diverged");
  // Builtin objectives name the option.
  study.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("logistic");
  EXPECT_THAT(
      Printed(study),
      HasSubstr("warning  2 of 47 trainings ended at their limit (max_iterations): their results are not those of "
                "the optimum; see luthier trial list s\n"));
  study.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("crf");
  EXPECT_THAT(LimitWarning(study), HasSubstr("(max_passes)"));
  study.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("function:branin");
  EXPECT_THAT(LimitWarning(study), HasSubstr("at their limit: "));
  EXPECT_EQ(StudyJson(study)["trainings"].dump(),
            R"({"converged":37,"precision":1,"limit":2,"diverged":4,"target":3})");
}

TEST(PrintTrial, TrainingInPartsShowsWhatItCost) {
  v1::Study study = SomeStudy();
  study.mutable_trials()->set_paused(2);
  study.set_resource_spent(45);
  study.mutable_spec()->mutable_resource()->set_max(27);
  study.mutable_spec()->mutable_resource()->set_unit("epochs");
  EXPECT_THAT(Printed(study), AllOf(HasSubstr(", 2 paused\n"), HasSubstr("trained  45 epochs in all trials")));
  v1::Trial trial = SomeTrial();
  trial.set_state(v1::Trial::PAUSED);
  trial.set_checkpoint("file:s.7.a2");
  trial.set_checkpoint_step(9);
  trial.set_resource_spent(12);
  trial.mutable_provenance()->set_resource(3);
  v1::Provenance& promotion = *trial.add_promotions();
  promotion.set_ask_index(11);
  promotion.set_resource(9);
  v1::Attempt& first = *trial.add_attempts();
  first.set_last_step(3);
  first.set_outcome(v1::Attempt::PAUSED);
  trial.add_attempts()->set_last_step(9);
  std::ostringstream out;
  PrintTrial(out, study.spec(), trial);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("trial 7: PAUSED\n"), HasSubstr("checkpoint: file:s.7.a2, of step 9\n"),
                               HasSubstr("training: 9 of 9 epochs, 12 in all attempts (3 more than once)\n"),
                               HasSubstr("promoted: to 9 as suggestion 11\n"), HasSubstr(", steps 0 to 3")));
  const auto json = TrialJson(trial);
  EXPECT_EQ(json["resource_spent"], 12);
  EXPECT_EQ(json["promotions"].size(), 1u);
}

TEST(PrintTrial, TrainingThatNeverNamedAStepIsWarnedOf) {
  v1::Study study = SomeStudy();
  study.mutable_trials()->set_complete(2);
  study.mutable_spec()->mutable_resource()->set_max(27);
  EXPECT_THAT(Printed(study), AllOf(HasSubstr("warning  no trial has reported a step of its training"),
                                    HasSubstr(", no steps reported\n")));
  v1::Trial trial = SomeTrial();
  trial.mutable_provenance()->set_resource(9);
  v1::Attempt& attempt = *trial.add_attempts();
  const auto printed = [&] {
    std::ostringstream out;
    PrintTrial(out, study.spec(), trial);
    return out.str();
  };
  EXPECT_THAT(printed(), HasSubstr("warning: no step of the training was reported"));
  attempt.set_last_step(27);
  EXPECT_THAT(printed(), HasSubstr("warning: it was to pause at 9, and trained on"));
  attempt.set_last_step(9);
  EXPECT_THAT(printed(), Not(HasSubstr("warning")));
  study.set_resource_spent(9);
  EXPECT_THAT(Printed(study), Not(HasSubstr("steps reported")));
}

TEST(PrintTrial, AGradientThatWasSetAsideIsSaidToBe) {
  v1::Trial trial = SomeTrial();
  const auto printed = [&] {
    std::ostringstream out;
    PrintTrial(out, SomeStudy().spec(), trial);
    return out.str();
  };
  const std::string wanted =
      "gradient set aside: it contradicts the losses that the same worker reported; the losses are kept";
  EXPECT_THAT(printed(), Not(HasSubstr("set aside")));
  EXPECT_FALSE(TrialJson(trial)["gradient_set_aside"].get<bool>());
  trial.set_gradient_set_aside(true);
  EXPECT_THAT(printed(), HasSubstr(wanted));
  EXPECT_TRUE(TrialJson(trial)["gradient_set_aside"].get<bool>());
}

}  // namespace
}  // namespace luthier::cli
