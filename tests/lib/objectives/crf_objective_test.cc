#include "lib/objectives/crf_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/registry.h"
#include "lib/data/split.h"
#include "lib/objectives/create.h"
#include "lib/objectives/crf_settings.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/lib/objectives/crf_objective_testing.h"

namespace luthier::objectives {
namespace {

using study::TrainingOutcome;
using ::testing::HasSubstr;

TEST_F(CrfObjectiveTest, LearnsAndAllSolversAgree) {
  std::vector<double> losses;
  for (const char* solver : {"lbfgs", "auto", "sag", "saga"}) {
    study::Parameters options = {{"solver", std::string(solver)},
                                 {"max_passes", 2000.0},
                                 {"tolerance", 1e-7},
                                 {"validation_data", std::string("test.txt")}};
    const EvaluationResult result = Make(options)->Evaluate(AtStrength(1.0)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    losses.push_back(Loss(result));
    EXPECT_GT(result.measurement->metrics.at("validation_accuracy"), 0.7);
    EXPECT_GT(result.measurement->metrics.at("validation_f1"), 0.5);
    EXPECT_LT(result.measurement->metrics.at("train_loss"), losses.back());
    EXPECT_NEAR(losses.back(), losses.front(), 1e-5) << solver;
  }
}

// Tags of words, of which none begins a segment.
std::string Tags(bool with_columns) {
  std::string text;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(Sentences(3, 30), '\n'))) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() == 3)
      absl::StrAppend(&text, fields[0], with_columns ? " " + fields[1] : "",
                      fields[2] == "O" ? " no_split" : " yes_split");
    text += "\n";
  }
  return text;
}

TEST_F(CrfObjectiveTest, F1OfTagsThatAreNoSegmentsIsRefused) {
  dir_.Write("tags.txt", Tags(true));
  study::BuiltinObjective spec = Spec({{"max_passes", 3.0}});
  spec.data = "tags.txt";
  const auto of = [&](const std::string& metric) {
    return CreateObjective(spec, space_, {metric, study::Goal::kMaximize}, &root_)
        .value()
        ->Evaluate(AtStrength(1.0))
        .value();
  };
  const EvaluationResult f1 = of("validation_f1");
  ASSERT_EQ(f1.outcome, EvaluationOutcome::kFailed);
  EXPECT_EQ(f1.failure->reason, study::failure::kBadObjective);
  EXPECT_EQ(f1.failure->message,
            "validation_f1 is that of segments, and no label has the form B-X or I-X; use validation_accuracy");
  const EvaluationResult accuracy = of("validation_accuracy");
  ASSERT_EQ(accuracy.outcome, EvaluationOutcome::kComplete);
  EXPECT_FALSE(accuracy.measurement->metrics.contains("validation_f1")) << "it means nothing here";
}

TEST_F(CrfObjectiveTest, WordsAndLabelsAloneAreEnoughForTheDefault) {
  dir_.Write("two.txt", Tags(false));
  dir_.Write("three.txt", Tags(true));
  const auto loss = [&](const std::string& data, study::Parameters options) {
    options["max_passes"] = 3.0;
    study::BuiltinObjective spec = Spec(options);
    spec.data = data;
    return Loss(Make(spec).value()->Evaluate(AtStrength(1.0)).value());
  };
  const double words = loss("two.txt", {});
  EXPECT_EQ(words, loss("two.txt", {{"templates", std::string("chunking")}}));
  EXPECT_EQ(words,
            loss("two.txt", {{"templates", std::string("w[-2], w[-1], w[0], w[1], w[2], w[-1]|w[0], w[0]|w[1]")}}));
  EXPECT_NE(words, loss("three.txt", {})) << "tags tell something";
}

// Each switch does something of its own, resumes to the bit, and its absence is its default.
// The catalogue names what can be set without knowing the trainer; the two must name the same.
TEST_F(CrfObjectiveTest, EverySolverOfTheCatalogueIsAMethodOfTheTrainer) {
  const catalogue::ObjectiveInfo info = catalogue::CrfInfo();
  std::vector<std::string> methods = {"auto"};
  for (const std::string& name : crf::ChainMethodNames()) methods.push_back(name);
  EXPECT_EQ(info.FindParameter("solver")->labels, methods);
  for (const std::string& label : methods) {
    const auto settings = catalogue::Settings::Resolve(info, {{"solver", label}}, {{"l2", 1.0}});
    EXPECT_EQ(ChainTrainingOptions(settings.value(), 1).method, label == "auto" ? "sag" : label);
  }
}

TEST_F(CrfObjectiveTest, ReportsAscendAndEndEarlyWhenTold) {
  const auto crf = Make(study::Parameters{{"max_passes", 12.0}, {"tolerance", 0.0}, {"report_every", 1.0}});
  std::vector<Measurement> curve;
  EvaluationContext context = AtStrength(1.0);
  context.report = [&](const Measurement& m) {
    curve.push_back(m);
    return true;
  };
  const EvaluationResult whole = crf->Evaluate(context).value();
  ASSERT_GE(curve.size(), 5);
  for (size_t k = 1; k < curve.size(); ++k) EXPECT_GT(curve[k].step, curve[k - 1].step);
  EXPECT_GT(whole.measurement->step, curve.back().step);
  EXPECT_GE(whole.measurement->step, 12);
  const EvaluationResult quiet = crf->Evaluate(AtStrength(1.0)).value();
  EXPECT_EQ(*quiet.measurement, *whole.measurement);
  context.report = [](const Measurement& m) { return m.step < 5; };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kStopped);
}

TEST_F(CrfObjectiveTest, TheFirstGradientIsToldOnceAndChangesNothing) {
  for (const char* solver : {"sag", "saga", "lbfgs"}) {
    const auto crf = Make(study::Parameters{{"max_passes", 4.0}, {"solver", std::string(solver)}});
    EvaluationContext context = AtStrength(1.0);
    int told = 0, reports = 0;
    context.first_gradient = [&] {
      EXPECT_EQ(reports, 0);
      ++told;
    };
    context.report = [&](const Measurement&) {
      ++reports;
      return true;
    };
    const EvaluationResult result = crf->Evaluate(context).value();
    EXPECT_EQ(told, 1) << solver;
    EXPECT_EQ(*result.measurement, *crf->Evaluate(AtStrength(1.0)).value().measurement) << solver;
  }
}

TEST_F(CrfObjectiveTest, CancelledAndResumedGivesTheSameBits) {
  for (const char* solver : {"sag", "lbfgs"}) {
    const auto crf = Make(study::Parameters{{"max_passes", 15.0},
                                            {"tolerance", 0.0},
                                            {"checkpoint_every", 4.0},
                                            {"report_every", 1.0},
                                            {"solver", std::string(solver)}});
    std::vector<Measurement> expected, curve;
    EvaluationContext context = AtStrength(0.5);
    context.report = [&](const Measurement& m) {
      expected.push_back(m);
      return true;
    };
    const EvaluationResult whole = crf->Evaluate(context).value();
    std::string checkpoint;
    base::StopSource source;
    context.stop = source.token();
    context.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
    context.report = [&](const Measurement& m) {
      curve.push_back(m);
      if (curve.size() == 6) source.RequestStop();
      return true;
    };
    EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
    ASSERT_FALSE(checkpoint.empty());
    EvaluationContext again = AtStrength(0.5);
    again.checkpoint = checkpoint;
    again.report = [&](const Measurement& m) {
      curve.push_back(m);
      return true;
    };
    const EvaluationResult resumed = crf->Evaluate(again).value();
    EXPECT_TRUE(resumed.resumed);
    EXPECT_EQ(*resumed.measurement, *whole.measurement);
    EXPECT_EQ(curve, expected);
    // Of another setting, or damaged: ignored.
    again.parameters = {{"l2", 0.6}};
    again.report = nullptr;
    EXPECT_FALSE(crf->Evaluate(again).value().resumed);
    checkpoint[checkpoint.size() / 2] = static_cast<char>(checkpoint[checkpoint.size() / 2] ^ 1);
    again = AtStrength(0.5);
    again.checkpoint = checkpoint;
    const EvaluationResult anew = crf->Evaluate(again).value();
    EXPECT_FALSE(anew.resumed);
    EXPECT_EQ(*anew.measurement, *whole.measurement);
  }
}

// At every sequence that is looked at in a trial: in training, in the measures of reports and at the end, in the check
// of the true gradient. Whoever resumes tells the same curve.
TEST_F(CrfObjectiveTest, AStopAnywhereIsSeenBeforeTheNextSequenceAndChangesNothing) {
  crf::testing::StopMeter& meter = crf::testing::Meter();
  const crf::Kernels kernels = crf::testing::CountingKernels();
  const catalogue::ObjectiveInfo& info = **catalogue::FindObjective("crf");
  dir_.Write("short.txt", Sentences(3, 14));
  for (const char* solver : {"sag", "saga", "lbfgs"}) {
    for (const int folds : {0, 2}) {
      study::BuiltinObjective spec =
          Spec({{"max_passes", 8.0}, {"tolerance", 3e-3}, {"report_every", 1.0}, {"solver", std::string(solver)}});
      spec.data = "short.txt";
      spec.split.folds = folds;
      const auto crf = CreateCrfObjective({info, spec, L2Space(), kLoss, &root_}, {}, kernels).value();
      std::vector<Measurement> expected;
      EvaluationContext context = AtStrength(0.5);
      context.report = [&](const Measurement& m) {
        expected.push_back(m);
        return true;
      };
      meter.Reset();
      const EvaluationResult whole = crf->Evaluate(context).value();
      const int64_t all = meter.gathered;
      ASSERT_GE(expected.size(), 1u);
      for (int64_t at = 1; at <= all; ++at) {
        meter.Reset();
        meter.raise_at_gathered = at;
        std::vector<Measurement> curve;
        std::string checkpoint;
        base::StopSource source;
        meter.raise = [&] { source.RequestStop(); };
        EvaluationContext first = AtStrength(0.5);
        first.stop = source.token();
        first.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
        first.report = [&](const Measurement& m) {
          curve.push_back(m);
          return true;
        };
        ASSERT_EQ(crf->Evaluate(first).value().outcome, EvaluationOutcome::kCancelled) << at;
        EXPECT_EQ(meter.gathered, at);
        ASSERT_FALSE(checkpoint.empty());
        EvaluationContext again = AtStrength(0.5);
        again.checkpoint = checkpoint;
        again.report = first.report;
        const EvaluationResult resumed = crf->Evaluate(again).value();
        EXPECT_TRUE(resumed.resumed);
        ASSERT_EQ(*resumed.measurement, *whole.measurement) << solver << " " << folds << " " << at;
        ASSERT_EQ(curve, expected) << solver << " " << folds << " " << at;
      }
    }
  }
  meter.Reset();
  meter.raise = nullptr;
}

// Before there is anything to save.
TEST_F(CrfObjectiveTest, AStopWhileDataAreReadOrEncodedIsSeen) {
  const base::StopSource at_once;
  at_once.RequestStop();
  EXPECT_EQ(CreateObjective(Spec({}), space_, kLoss, &root_, nullptr, at_once.token()).status().code(),
            absl::StatusCode::kCancelled);
  const auto crf = Make(study::Parameters{{"max_passes", 3.0}});
  base::StopSource source;
  source.RequestStop();
  EvaluationContext context = AtStrength(1.0);
  context.stop = source.token();
  context.save_checkpoint = [](const std::string&) { FAIL() << "there is nothing to save"; };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
  EXPECT_EQ(crf->Evaluate(AtStrength(1.0)).value().outcome, EvaluationOutcome::kComplete);
}

TEST_F(CrfObjectiveTest, PausedAndResumedGivesTheSameBits) {
  for (const int folds : {0, 3}) {
    study::BuiltinObjective spec = Spec({{"max_passes", 12.0}, {"tolerance", 0.0}, {"report_every", 1.0}});
    spec.split.folds = folds;
    const auto crf = Make(spec).value();
    std::vector<Measurement> whole, parts;
    const EvaluationResult straight = RunPaused(*crf, {{"l2", 1.0}}, {}, &whole);
    ASSERT_GE(whole.size(), 5u);
    const std::vector<int64_t> targets = {whole[0].step, whole[1].step, whole[4].step};
    EXPECT_EQ(RunPaused(*crf, {{"l2", 1.0}}, targets, &parts).measurement, straight.measurement) << folds;
    EXPECT_EQ(parts, whole) << folds;
    // A target between two points of the curve is a point, too.
    EvaluationContext between = AtStrength(1.0);
    between.target = whole[1].step + 1;
    const EvaluationResult paused = crf->Evaluate(between).value();
    EXPECT_EQ(paused.outcome, EvaluationOutcome::kPaused) << folds;
    EXPECT_GE(paused.measurement->step, between.target) << folds;
    EXPECT_LE(paused.measurement->step, whole[2].step) << folds;
  }
}

TEST_F(CrfObjectiveTest, ConstantsAreSearchedAtEveryVisitUnderWeakPenaltiesWithSag) {
  const auto skips = [](const char* solver, double l2) {
    const auto settings = catalogue::Settings::Resolve(catalogue::CrfInfo(), {{"solver", solver}}, {{"l2", l2}});
    return ChainTrainingOptions(settings.value(), 1).average.skip_checks;
  };
  EXPECT_FALSE(skips("sag", 0.9));
  EXPECT_FALSE(skips("auto", 0.9));
  EXPECT_TRUE(skips("sag", 1.0));
  EXPECT_TRUE(skips("saga", 0.9));
}

TEST_F(CrfObjectiveTest, SaysHowTrainingEnded) {
  const auto ended = [&](study::Parameters options) {
    const EvaluationResult result = Make(std::move(options))->Evaluate(AtStrength(1.0)).value();
    EXPECT_EQ(result.outcome, EvaluationOutcome::kComplete);
    EXPECT_TRUE(result.measurement->training.has_value());
    return result.measurement->training.value_or(study::TrainingReport());
  };
  const double tolerance = std::get<double>(*catalogue::CrfInfo().FindParameter("tolerance")->default_value);
  for (const char* solver : {"sag", "lbfgs"}) {
    const study::TrainingReport converged = ended({{"solver", solver}});
    EXPECT_EQ(converged.outcome, TrainingOutcome::kConverged) << solver;
    EXPECT_GT(converged.gradient_norm.value(), 0.0);
    EXPECT_LE(converged.gradient_norm.value(), tolerance);
    EXPECT_FALSE(converged.duality_gap.has_value());
    // Whose limit it was that ended it.
    const study::TrainingReport told = ended({{"solver", solver}, {"max_passes", 4.0}});
    EXPECT_EQ(told.outcome, TrainingOutcome::kTarget) << solver;
    EXPECT_GT(told.gradient_norm.value(), tolerance) << solver;
  }
  EXPECT_EQ(ended({{"solver", "sag"}, {"tolerance", 0.0}}).outcome, TrainingOutcome::kLimit);
  // Rounding, which L-BFGS notices, and not a limit.
  const study::TrainingReport precise = ended({{"solver", "lbfgs"}, {"tolerance", 0.0}, {"max_passes", 1e5}});
  EXPECT_EQ(precise.outcome, TrainingOutcome::kPrecision);
  EXPECT_LT(precise.gradient_norm.value(), 1e-10);
}

// As when it is an option.
TEST_F(CrfObjectiveTest, ATunedLimitOfPassesIsATarget) {
  study::ParameterSpec passes;
  passes.name = "max_passes";
  passes.domain = study::IntRange{.min = 1, .max = 50};
  const study::SearchSpace space = study::SearchSpace::Create({space_.parameters()[0], passes}).value();
  const auto crf = CreateObjective(Spec({}), space, kLoss, &root_).value();
  EvaluationContext context = AtStrength(1.0);
  context.parameters["max_passes"] = 3.0;
  EXPECT_EQ(crf->Evaluate(context).value().measurement->training->outcome, TrainingOutcome::kTarget);
}

TEST_F(CrfObjectiveTest, APauseIsATargetAndReportsSayNothing) {
  const auto crf = Make(study::Parameters{{"tolerance", 1e-9}});
  EvaluationContext context = AtStrength(1.0);
  context.target = 7;
  int reports = 0;
  context.report = [&](const Measurement& m) {
    EXPECT_FALSE(m.training.has_value());
    ++reports;
    return true;
  };
  const EvaluationResult paused = crf->Evaluate(context).value();
  ASSERT_EQ(paused.outcome, EvaluationOutcome::kPaused);
  EXPECT_GT(reports, 0);
  EXPECT_EQ(paused.measurement->training.value().outcome, TrainingOutcome::kTarget);
  EXPECT_FALSE(paused.measurement->training->gradient_norm.has_value());
  context.report = [](const Measurement&) { return false; };
  const EvaluationResult pruned = crf->Evaluate(context).value();
  ASSERT_EQ(pruned.outcome, EvaluationOutcome::kStopped);
  EXPECT_FALSE(pruned.measurement->training.has_value());
}

// Converged: all folds are. The norm is the largest one.
TEST_F(CrfObjectiveTest, TheWorstFoldSaysHowTrainingEnded) {
  study::BuiltinObjective spec = Spec({{"solver", std::string("lbfgs")}, {"tolerance", 1e-3}});
  spec.split.folds = 4;
  int converged = 0;
  for (double passes = 5.0; converged == 0; passes += 1.0) {
    ASSERT_LT(passes, 100.0);
    spec.options["max_passes"] = passes;
    const study::TrainingReport report =
        Make(spec).value()->Evaluate(AtStrength(1.0)).value().measurement->training.value();
    converged += report.outcome == TrainingOutcome::kConverged;
    EXPECT_EQ(report.outcome == TrainingOutcome::kConverged, *report.gradient_norm <= 1e-3) << passes;
  }
}

TEST_F(CrfObjectiveTest, SwitchesChangeTheFeatures) {
  const double all = Loss(Make(study::Parameters{})->Evaluate(AtStrength(1.0)).value());
  for (const study::Parameters& options :
       {study::Parameters{{"window", 0.0}}, study::Parameters{{"max_positions", 1.0}},
        study::Parameters{{"min_count", 5.0}}, study::Parameters{{"boundary", std::string("skip")}},
        study::Parameters{{"templates", std::string("w[0]")}}, study::Parameters{{"hash_bits", 4.0}}}) {
    const EvaluationResult result = Make(options)->Evaluate(AtStrength(1.0)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    EXPECT_NE(Loss(result), all);
  }
}

TEST_F(CrfObjectiveTest, LettersAreReadToo) {
  dir_.Write("letters.tsv", Letters());
  study::BuiltinObjective spec = Spec({{"format", std::string("letters")}});
  spec.data = "letters.tsv";
  const EvaluationResult result = Make(spec).value()->Evaluate(AtStrength(0.1)).value();
  ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
  EXPECT_GT(result.measurement->metrics.at("validation_accuracy"), 0.9);
}

TEST_F(CrfObjectiveTest, GeneratedSequencesNeedNoFiles) {
  for (const char* format : {"columns", "attributes", "letters"}) {
    const bool letters = format == std::string("letters");
    study::BuiltinObjective spec = Spec({{"max_passes", 30.0}, {"format", std::string(format)}});
    spec.data = "synth:sequences?sentences=200&length=8&types=2&words=100&noise=0.05";
    if (letters) spec.data = "synth:letters?words=150&letters=8&noise=0.1";
    const auto made = CreateObjective(spec, space_, kLoss, nullptr);
    ASSERT_TRUE(made.ok()) << made.status();
    const EvaluationResult result = (*made)->Evaluate(AtStrength(0.5)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    EXPECT_GT(result.measurement->metrics.at("validation_accuracy"), 0.8);
    spec.data = letters ? "synth:letters?word=3" : "synth:sequences?sentence=3";
    EXPECT_THAT(std::string(Make(spec).status().message()), HasSubstr("did you mean"));
  }
  // Held out by a file: that needs a root.
  study::BuiltinObjective spec = Spec({{"validation_data", std::string("test.txt")}});
  spec.data = "synth:sequences";
  EXPECT_THAT(std::string(CreateObjective(spec, space_, kLoss, nullptr).status().message()), HasSubstr("no data root"));
  EXPECT_TRUE(Make(spec).ok());
}

TEST_F(CrfObjectiveTest, TokensWithAttributesAreReadToo) {
  // The sentences with the word and the tag as attributes; a value makes the words weaker and nothing else.
  dir_.Write("train.crfsuite", Tokens(Sentences(1, 120)));
  study::BuiltinObjective spec = Spec({{"format", std::string("attributes")}});
  spec.data = "train.crfsuite";
  const EvaluationResult result = Make(spec).value()->Evaluate(AtStrength(0.5)).value();
  ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
  EXPECT_GT(result.measurement->metrics.at("validation_f1"), 0.5);
  spec.options["validation_data"] = std::string("train.crfsuite");
  EXPECT_LT(Loss(Make(spec).value()->Evaluate(AtStrength(0.5)).value()), Loss(result));
}

TEST_F(CrfObjectiveTest, AnL1PenaltyLeavesFewWeights) {
  std::vector<double> active;
  for (const double l1 : {0.0, 0.5, 5.0}) {
    const EvaluationResult result =
        Make(study::Parameters{{"l1", l1}, {"max_passes", 200.0}})->Evaluate(AtStrength(0.1)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    active.push_back(result.measurement->metrics.at("active_weights"));
  }
  EXPECT_GT(active[0], 2.0 * active[1]);
  EXPECT_GT(active[1], 2.0 * active[2]);
  EXPECT_GT(active[2], 0.0);
  const EvaluationResult refused =
      Make(study::Parameters{{"l1", 1.0}, {"solver", std::string("lbfgs")}})->Evaluate(AtStrength(0.1)).value();
  EXPECT_EQ(refused.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(refused.failure->message, HasSubstr("l1 > 0 needs solver sag or saga"));
}

// Over folds every sequence is held out once, so the metrics are those of all of them; each fold by itself is what one
// finds with a file for its training and one for its validation.
TEST_F(CrfObjectiveTest, FoldsAreTheSumOfTheirParts) {
  study::BuiltinObjective spec = Spec({{"solver", std::string("lbfgs")}, {"max_passes", 300.0}, {"tolerance", 1e-8}});
  spec.split.folds = 3;
  spec.split.seed = 4;
  const EvaluationResult whole = Make(spec).value()->Evaluate(AtStrength(1.0)).value();
  ASSERT_EQ(whole.outcome, EvaluationOutcome::kComplete);
  std::vector<std::string> sentences = absl::StrSplit(Sentences(1, 120), "\n\n", absl::SkipEmpty());
  ASSERT_EQ(sentences.size(), 120);
  double loss = 0.0, right = 0.0, tokens = 0.0;
  const std::vector<data::Partition> parts = data::SplitFolds(std::vector<int32_t>(120, 0), 1, 3, 4).value();
  for (const data::Partition& part : parts) {
    std::string train, held_out;
    for (const int32_t i : part.train) train += sentences[static_cast<size_t>(i)] + "\n\n";
    for (const int32_t i : part.validation) held_out += sentences[static_cast<size_t>(i)] + "\n\n";
    dir_.Write("fold.txt", train);
    dir_.Write("held.txt", held_out);
    study::BuiltinObjective one = Spec(spec.options);
    one.options["validation_data"] = std::string("held.txt");
    one.data = "fold.txt";
    const EvaluationResult result = Make(one).value()->Evaluate(AtStrength(1.0)).value();
    const auto lines = static_cast<double>(std::count(held_out.begin(), held_out.end(), '\n') -
                                           static_cast<int64_t>(part.validation.size()));
    loss += lines * Loss(result);
    right += lines * result.measurement->metrics.at("validation_accuracy");
    tokens += lines;
  }
  EXPECT_NEAR(Loss(whole), loss / tokens, 1e-9);
  EXPECT_NEAR(whole.measurement->metrics.at("validation_accuracy"), right / tokens, 1e-12);
}

TEST_F(CrfObjectiveTest, FoldsResumeWhereTheyWere) {
  study::BuiltinObjective spec = Spec({{"max_passes", 15.0}, {"tolerance", 0.0}, {"report_every", 1.0}});
  spec.split.folds = 3;
  const auto crf = Make(spec).value();
  const EvaluationResult whole = crf->Evaluate(AtStrength(0.5)).value();
  std::string checkpoint;
  base::StopSource source;
  EvaluationContext context = AtStrength(0.5);
  int reports = 0;
  context.stop = source.token();
  context.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
  context.report = [&](const Measurement&) {
    if (++reports == 4) source.RequestStop();
    return true;
  };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
  EvaluationContext again = AtStrength(0.5);
  again.checkpoint = checkpoint;
  const EvaluationResult resumed = crf->Evaluate(again).value();
  EXPECT_TRUE(resumed.resumed);
  EXPECT_EQ(*resumed.measurement, *whole.measurement);
}

TEST_F(CrfObjectiveTest, ErrorsSayWhatAndWhere) {
  const auto error = [&](study::BuiltinObjective spec) {
    return std::string(Make(std::move(spec)).status().message());
  };
  study::BuiltinObjective spec = Spec({});
  spec.split.folds = 3;
  spec.options["validation_data"] = std::string("test.txt");
  EXPECT_THAT(error(spec), HasSubstr("leave out split.folds"));
  spec = Spec({});
  spec.data = "synth:logistic?rows=10";
  EXPECT_THAT(error(spec), HasSubstr("there is no generator \"logistic\" here; write synth:sequences?"));
  spec.options["format"] = std::string("letters");
  EXPECT_THAT(error(spec), HasSubstr("write synth:letters?"));
  spec.options["format"] = std::string("attributes");
  EXPECT_THAT(error(spec), HasSubstr("write synth:sequences?"));
  EXPECT_THAT(error(Spec({{"templates", std::string("word[0]")}})), HasSubstr("there is no column \"word\""));
  EXPECT_THAT(error(Spec({{"templates", std::string("c2[0]")}})), HasSubstr("needs column 2"));
  EXPECT_THAT(error(Spec({{"validation_data", std::string("none.txt")}})), HasSubstr("none.txt"));
  EXPECT_THAT(error(Spec({{"solver", std::string("newton")}})), HasSubstr("solver"));
  dir_.Write("ragged.txt", "a b O\nc O\n");
  spec = Spec({});
  spec.data = "ragged.txt";
  EXPECT_THAT(error(spec), HasSubstr("ragged.txt:2: has 2 columns"));
  // Memory that does not suffice fails the setting, not the worker.
  study::BuiltinObjective many =
      Spec({{"max_memory_mib", 1.0}, {"templates", std::string("w[0]")}, {"max_passes", 2.0}});
  many.data = "synth:sequences?sentences=4000&words=20";
  const EvaluationResult result = Make(many).value()->Evaluate(AtStrength(1.0)).value();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(result.failure->message, HasSubstr("or take solver lbfgs, which keeps none"));
  const EvaluationResult wide =
      Make(study::Parameters{{"max_memory_mib", 64.0}, {"hash_bits", 24.0}})->Evaluate(AtStrength(1.0)).value();
  EXPECT_EQ(wide.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(wide.failure->message, HasSubstr("MiB for vectors of the"));
  // Without a held-out sequence that has a loss there is nothing to tune by; a loss of 0 it is not.
  dir_.Write("other.txt", "Word1 P1 B-XX\nWord2 P2 O\n\nWord1 P1 X\n");
  EXPECT_THAT(error(Spec({{"validation_data", std::string("other.txt")}})),
              HasSubstr("other.txt: every held-out sequence has a label that is not in the training part, such as"));
}

}  // namespace
}  // namespace luthier::objectives
