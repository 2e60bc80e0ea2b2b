#include "lib/objectives/crf_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/random.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/split.h"
#include "lib/objectives/registry.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

// Sentences whose chunks follow from their words, mostly.
std::string Sentences(uint64_t seed, int sentences) {
  base::RandomStream random(seed, "test.sentences");
  std::string text;
  for (int s = 0; s < sentences; ++s) {
    bool inside = false;
    const uint64_t length = 2 + random.UniformInt(8);
    for (uint64_t t = 0; t < length; ++t) {
      const uint64_t word = random.UniformInt(12);
      const bool chunk = (word % 3 != 0) != (random.Uniform() < 0.1);
      absl::StrAppend(&text, "Word", word, " P", word % 4, chunk ? (inside ? " I-NP" : " B-NP") : " O", "\n");
      inside = chunk;
    }
    text += "\n";
  }
  return text;
}

// Words of three letters, each with pixels of its own.
std::string Letters() {
  base::RandomStream random(5, "test.letters");
  std::string file;
  for (int word = 0; word < 40; ++word) {
    for (int t = 0; t < 4; ++t) {
      const uint64_t letter = random.UniformInt(3);
      std::string bitmap(32, '0');
      bitmap[letter] = 'f';
      bitmap[random.UniformInt(32)] = '8';
      absl::StrAppend(&file, "a\t", word, "\t", t, "\t", std::string(1, static_cast<char>('x' + letter)), "\t", bitmap,
                      "\n");
    }
  }
  return file;
}

// The sentences in CRFsuite's format.
std::string Tokens(const std::string& sentences) {
  std::string file;
  for (const absl::string_view line : absl::StrSplit(sentences, '\n')) {
    const std::vector<absl::string_view> f = absl::StrSplit(line, ' ');
    if (f.size() == 3) absl::StrAppend(&file, f[2], "\tw=", f[0], ":0.5\tp=", f[1], "\n");
    if (f.size() != 3) file += "\n";
  }
  return file;
}

class CrfObjectiveTest : public ::testing::Test {
 protected:
  CrfObjectiveTest() {
    dir_.Write("train.txt", Sentences(1, 120));
    dir_.Write("test.txt", Sentences(2, 60) + "New P1 B-XX\n\n");
    study::FloatRange range;
    range.min = 1e-3;
    range.max = 1e3;
    range.scale = study::Scale::kLog;
    study::ParameterSpec l2;
    l2.name = "l2";
    l2.domain = range;
    space_ = study::SearchSpace::Create({l2}).value();
  }

  study::BuiltinObjective Spec(study::Parameters options) const {
    study::BuiltinObjective spec;
    spec.model = "crf";
    spec.data = "train.txt";
    spec.options = std::move(options);
    return spec;
  }
  absl::StatusOr<std::unique_ptr<Objective>> Make(study::BuiltinObjective spec) const {
    return CreateObjective(spec, space_, kLoss, &root_);
  }
  std::unique_ptr<Objective> Make(study::Parameters options) const { return Make(Spec(std::move(options))).value(); }

  testing::TemporaryDirectory dir_;
  learn::DataRoot root_ = learn::DataRoot::Open(dir_.path()).value();
  study::SearchSpace space_;
};

EvaluationContext At(double l2) {
  EvaluationContext context;
  context.parameters = {{"l2", l2}};
  context.seed = 3;
  return context;
}

double Loss(const EvaluationResult& result) {
  return result.measurement->metrics.at("validation_loss");
}

TEST_F(CrfObjectiveTest, LearnsAndAllSolversAgree) {
  std::vector<double> losses;
  for (const char* solver : {"lbfgs", "sag", "saga", "saga2", "hybrid", "oeg"}) {
    study::Parameters options = {{"solver", std::string(solver)},
                                 {"max_passes", 2000.0},
                                 {"tolerance", 1e-7},
                                 {"step_rule", std::string("lmax")},
                                 {"validation_data", std::string("test.txt")}};
    const EvaluationResult result = Make(options)->Evaluate(At(1.0)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    losses.push_back(Loss(result));
    EXPECT_GT(result.measurement->metrics.at("validation_accuracy"), 0.7);
    EXPECT_GT(result.measurement->metrics.at("validation_f1"), 0.5);
    EXPECT_LT(result.measurement->metrics.at("train_loss"), losses.back());
    EXPECT_NEAR(losses.back(), losses.front(), 1e-5) << solver;
  }
}

// Each switch does something of its own, resumes to the bit, and its absence is its default.
TEST_F(CrfObjectiveTest, FormsToCompareWithAreSettings) {
  const auto evaluate = [&](const study::Parameters& form, EvaluationContext context) {
    study::Parameters options = {
        {"solver", "saga"}, {"templates", "w[0]"}, {"max_passes", 12.0}, {"checkpoint_every", 1.0}};
    for (const auto& [name, value] : form) options[name] = value;
    return Make(std::move(options))->Evaluate(context).value();
  };
  std::set<double> losses = {Loss(evaluate({}, At(1.0)))};
  EXPECT_EQ(losses.count(Loss(evaluate({{"line_search", "fresh"}}, At(1.0)))), 1U);
  for (const study::Parameters& form :
       std::vector<study::Parameters>{{{"solver", "saga_literal"}},
                                      {{"solver", "saga2_literal"}},
                                      {{"sampling", "pl_literal"}},
                                      {{"sampling", "ms_unseen"}},
                                      {{"sampling", "pl_port"}, {"step_rule", "port"}},
                                      {{"line_search", "remembered"}, {"step_rule", "const"}}}) {
    std::string checkpoint;
    EvaluationContext context = At(1.0);
    context.save_checkpoint = [&](std::string bytes) {
      if (checkpoint.empty()) checkpoint = std::move(bytes);
    };
    const EvaluationResult whole = evaluate(form, context);
    EXPECT_TRUE(losses.insert(Loss(whole)).second) << study::FormatParameters(form);
    EvaluationContext resuming = At(1.0);
    resuming.checkpoint = checkpoint;
    const EvaluationResult resumed = evaluate(form, resuming);
    EXPECT_TRUE(resumed.resumed);
    EXPECT_EQ(Loss(resumed), Loss(whole));
  }
  const EvaluationResult refused = evaluate({{"line_search", "remembered"}, {"l1", 0.5}}, At(1.0));
  EXPECT_EQ(refused.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(refused.failure->message, HasSubstr("forms to compare with, go without l1"));
}

TEST_F(CrfObjectiveTest, ReportsAscendAndEndEarlyWhenTold) {
  const auto crf = Make(study::Parameters{{"max_passes", 12.0}, {"tolerance", 0.0}});
  std::vector<Measurement> curve;
  EvaluationContext context = At(1.0);
  context.report = [&](const Measurement& m) {
    curve.push_back(m);
    return true;
  };
  const EvaluationResult whole = crf->Evaluate(context).value();
  ASSERT_GE(curve.size(), 5);
  for (size_t k = 1; k < curve.size(); ++k) EXPECT_GT(curve[k].step, curve[k - 1].step);
  EXPECT_GT(whole.measurement->step, curve.back().step);
  EXPECT_GE(whole.measurement->step, 12);
  const EvaluationResult quiet = crf->Evaluate(At(1.0)).value();
  EXPECT_EQ(*quiet.measurement, *whole.measurement);
  context.report = [](const Measurement& m) { return m.step < 5; };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kStopped);
}

TEST_F(CrfObjectiveTest, TheFirstGradientIsToldOnceAndChangesNothing) {
  for (const char* solver : {"sag", "saga2", "lbfgs", "sg"}) {
    const auto crf = Make(study::Parameters{{"max_passes", 4.0}, {"solver", std::string(solver)}});
    EvaluationContext context = At(1.0);
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
    EXPECT_EQ(*result.measurement, *crf->Evaluate(At(1.0)).value().measurement) << solver;
  }
}

TEST_F(CrfObjectiveTest, CancelledAndResumedGivesTheSameBits) {
  for (const char* solver : {"sag", "lbfgs"}) {
    const auto crf = Make(study::Parameters{
        {"max_passes", 15.0}, {"tolerance", 0.0}, {"checkpoint_every", 4.0}, {"solver", std::string(solver)}});
    std::vector<Measurement> expected, curve;
    EvaluationContext context = At(0.5);
    context.report = [&](const Measurement& m) {
      expected.push_back(m);
      return true;
    };
    const EvaluationResult whole = crf->Evaluate(context).value();
    std::string checkpoint;
    Cancellation cancellation;
    context.cancellation = &cancellation;
    context.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
    context.report = [&](const Measurement& m) {
      curve.push_back(m);
      if (curve.size() == 6) cancellation.Cancel();
      return true;
    };
    EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
    ASSERT_FALSE(checkpoint.empty());
    EvaluationContext again = At(0.5);
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
    again = At(0.5);
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
  const ObjectiveInfo& info = **FindObjective("crf");
  dir_.Write("short.txt", Sentences(3, 14));
  for (const char* solver : {"sag", "lbfgs", "oeg"}) {
    for (const int folds : {0, 2}) {
      study::BuiltinObjective spec = Spec({{"max_passes", 8.0}, {"tolerance", 3e-3}, {"solver", std::string(solver)}});
      spec.data = "short.txt";
      spec.split.folds = folds;
      const auto crf = CreateCrfObjective(info, spec, &root_, nullptr, nullptr, kernels).value();
      std::vector<Measurement> expected;
      EvaluationContext context = At(0.5);
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
        Cancellation cancellation;
        meter.raise = [&] { cancellation.Cancel(); };
        EvaluationContext first = At(0.5);
        first.cancellation = &cancellation;
        first.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
        first.report = [&](const Measurement& m) {
          curve.push_back(m);
          return true;
        };
        ASSERT_EQ(crf->Evaluate(first).value().outcome, EvaluationOutcome::kCancelled) << at;
        EXPECT_EQ(meter.gathered, at);
        ASSERT_FALSE(checkpoint.empty());
        EvaluationContext again = At(0.5);
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
  const std::atomic<bool> stop = true;
  EXPECT_EQ(CreateObjective(Spec({}), space_, kLoss, &root_, nullptr, &stop).status().code(),
            absl::StatusCode::kCancelled);
  const auto crf = Make(study::Parameters{{"max_passes", 3.0}});
  Cancellation cancellation;
  cancellation.Cancel();
  EvaluationContext context = At(1.0);
  context.cancellation = &cancellation;
  context.save_checkpoint = [](const std::string&) { FAIL() << "there is nothing to save"; };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
  EXPECT_EQ(crf->Evaluate(At(1.0)).value().outcome, EvaluationOutcome::kComplete);
}

TEST_F(CrfObjectiveTest, PausedAndResumedGivesTheSameBits) {
  for (const int folds : {0, 3}) {
    study::BuiltinObjective spec = Spec({{"max_passes", 12.0}, {"tolerance", 0.0}});
    spec.split.folds = folds;
    const auto crf = Make(spec).value();
    std::vector<Measurement> whole, parts;
    const EvaluationResult straight = RunPaused(*crf, {{"l2", 0.5}}, {}, &whole);
    ASSERT_GE(whole.size(), 5u);
    const std::vector<int64_t> targets = {whole[0].step, whole[1].step, whole[4].step};
    EXPECT_EQ(RunPaused(*crf, {{"l2", 0.5}}, targets, &parts).measurement, straight.measurement) << folds;
    EXPECT_EQ(parts, whole) << folds;
    // A target between two points of the curve is a point, too.
    EvaluationContext between = At(0.5);
    between.target = whole[1].step + 1;
    const EvaluationResult paused = crf->Evaluate(between).value();
    EXPECT_EQ(paused.outcome, EvaluationOutcome::kPaused) << folds;
    EXPECT_GE(paused.measurement->step, between.target) << folds;
    EXPECT_LE(paused.measurement->step, whole[2].step) << folds;
  }
}

TEST_F(CrfObjectiveTest, SwitchesChangeTheFeatures) {
  const double all = Loss(Make(study::Parameters{})->Evaluate(At(1.0)).value());
  for (const study::Parameters& options :
       {study::Parameters{{"window", 0.0}}, study::Parameters{{"max_positions", 1.0}},
        study::Parameters{{"min_count", 5.0}}, study::Parameters{{"boundary", std::string("skip")}},
        study::Parameters{{"templates", std::string("w[0]")}}, study::Parameters{{"hash_bits", 4.0}}}) {
    const EvaluationResult result = Make(options)->Evaluate(At(1.0)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    EXPECT_NE(Loss(result), all);
  }
}

TEST_F(CrfObjectiveTest, LettersAreReadToo) {
  dir_.Write("letters.tsv", Letters());
  study::BuiltinObjective spec = Spec({{"format", std::string("letters")}});
  spec.data = "letters.tsv";
  const EvaluationResult result = Make(spec).value()->Evaluate(At(0.1)).value();
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
    const EvaluationResult result = (*made)->Evaluate(At(0.5)).value();
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
  const EvaluationResult result = Make(spec).value()->Evaluate(At(0.5)).value();
  ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
  EXPECT_GT(result.measurement->metrics.at("validation_f1"), 0.5);
  spec.options["validation_data"] = std::string("train.crfsuite");
  EXPECT_LT(Loss(Make(spec).value()->Evaluate(At(0.5)).value()), Loss(result));
}

TEST_F(CrfObjectiveTest, AnL1PenaltyLeavesFewWeights) {
  std::vector<double> active;
  for (const double l1 : {0.0, 0.5, 5.0}) {
    const EvaluationResult result =
        Make(study::Parameters{{"l1", l1}, {"max_passes", 200.0}})->Evaluate(At(0.1)).value();
    ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
    active.push_back(result.measurement->metrics.at("active_weights"));
  }
  EXPECT_GT(active[0], 2.0 * active[1]);
  EXPECT_GT(active[1], 2.0 * active[2]);
  EXPECT_GT(active[2], 0.0);
  const EvaluationResult refused =
      Make(study::Parameters{{"l1", 1.0}, {"solver", std::string("lbfgs")}})->Evaluate(At(0.1)).value();
  EXPECT_EQ(refused.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(refused.failure->message, HasSubstr("l1 > 0 needs solver sag or saga"));
}

// Over folds every sequence is held out once, so the metrics are those of all of them; each fold by itself is what one
// finds with a file for its training and one for its validation.
TEST_F(CrfObjectiveTest, FoldsAreTheSumOfTheirParts) {
  study::BuiltinObjective spec = Spec({{"solver", std::string("lbfgs")}, {"max_passes", 300.0}, {"tolerance", 1e-8}});
  spec.split.folds = 3;
  spec.split.seed = 4;
  const EvaluationResult whole = Make(spec).value()->Evaluate(At(1.0)).value();
  ASSERT_EQ(whole.outcome, EvaluationOutcome::kComplete);
  std::vector<std::string> sentences = absl::StrSplit(Sentences(1, 120), "\n\n", absl::SkipEmpty());
  ASSERT_EQ(sentences.size(), 120);
  double loss = 0.0, right = 0.0, tokens = 0.0;
  const std::vector<learn::Partition> parts = learn::SplitFolds(std::vector<int32_t>(120, 0), 1, 3, 4).value();
  for (const learn::Partition& part : parts) {
    std::string train, held_out;
    for (const int32_t i : part.train) train += sentences[static_cast<size_t>(i)] + "\n\n";
    for (const int32_t i : part.validation) held_out += sentences[static_cast<size_t>(i)] + "\n\n";
    dir_.Write("fold.txt", train);
    dir_.Write("held.txt", held_out);
    study::BuiltinObjective one = Spec(spec.options);
    one.options["validation_data"] = std::string("held.txt");
    one.data = "fold.txt";
    const EvaluationResult result = Make(one).value()->Evaluate(At(1.0)).value();
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
  study::BuiltinObjective spec = Spec({{"max_passes", 15.0}, {"tolerance", 0.0}});
  spec.split.folds = 3;
  const auto crf = Make(spec).value();
  const EvaluationResult whole = crf->Evaluate(At(0.5)).value();
  std::string checkpoint;
  Cancellation cancellation;
  EvaluationContext context = At(0.5);
  int reports = 0;
  context.cancellation = &cancellation;
  context.save_checkpoint = [&](std::string bytes) { checkpoint = std::move(bytes); };
  context.report = [&](const Measurement&) {
    if (++reports == 4) cancellation.Cancel();
    return true;
  };
  EXPECT_EQ(crf->Evaluate(context).value().outcome, EvaluationOutcome::kCancelled);
  EvaluationContext again = At(0.5);
  again.checkpoint = checkpoint;
  const EvaluationResult resumed = crf->Evaluate(again).value();
  EXPECT_TRUE(resumed.resumed);
  EXPECT_EQ(*resumed.measurement, *whole.measurement);
}

// What a worker kept gives another one the same bits, and an entry that is not whole or of another version is as none.
TEST_F(CrfObjectiveTest, KeptDataChangeNothing) {
  namespace fs = std::filesystem;
  dir_.Write("train.crfsuite", Tokens(Sentences(1, 120)));
  dir_.Write("test.crfsuite", Tokens(Sentences(2, 60)));
  dir_.Write("letters.tsv", Letters());
  // Not so long that a file system cannot write it.
  const auto long_ago = fs::last_write_time(dir_.path() + "/letters.tsv") - std::chrono::hours(24);
  EvaluationContext context;
  context.parameters = {{"l2", 0.5}};
  struct Case {
    std::string format, data, validation_data;
    size_t entries;  // Texts, encodings and an outline.
  };
  for (const Case& c :
       {Case{"columns", "train.txt", "", 3}, Case{"columns", "train.txt", "test.txt", 4},
        Case{"attributes", "train.crfsuite", "", 3}, Case{"attributes", "train.crfsuite", "test.crfsuite", 4},
        Case{"letters", "letters.tsv", "", 3}}) {
    const std::string directory = absl::StrCat(dir_.path(), "/cache ", c.format, c.entries);
    const learn::DataCache cache =
        learn::DataCache::Open(directory, {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000}).value();
    study::BuiltinObjective spec = Spec({{"min_count", 2.0}, {"max_passes", 5.0}, {"format", c.format}});
    spec.data = c.data;
    if (!c.validation_data.empty()) spec.options["validation_data"] = c.validation_data;
    const Measurement expected = *Make(spec).value()->Evaluate(context)->measurement;
    const auto entries = [&] {
      std::vector<fs::path> paths;
      for (const auto& entry : fs::directory_iterator(directory)) paths.push_back(entry.path());
      return paths;
    };
    for (const char* state : {"none", "there", "damaged", "truncated", "of another version", "there again"}) {
      const std::vector<fs::path> before = entries();
      EXPECT_EQ(before.size(), state == std::string("none") ? 0 : c.entries);
      for (const fs::path& path : before) {
        if (state == std::string("damaged")) {
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
          file.seekg(middle);
          const int byte = file.get();
          file.seekp(middle);
          file.put(static_cast<char>(byte ^ 1));
        } else if (state == std::string("truncated")) {
          fs::resize_file(path, fs::file_size(path) - 9);
        } else if (state == std::string("of another version")) {
          std::ofstream(path, std::ios::binary) << learn::CheckpointWriter("luthier.cache/0").Finish();
        }
        fs::last_write_time(path, long_ago);
      }
      const auto made = CreateObjective(spec, space_, kLoss, &root_, &cache);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ((*made)->Evaluate(context)->measurement, expected) << c.format << " " << state;
      // All were used or made anew; texts are not looked at when the encoding is there.
      size_t touched = 0;
      for (const fs::path& path : entries()) {
        if (fs::last_write_time(path) > long_ago + std::chrono::hours(1)) ++touched;
      }
      EXPECT_EQ(touched, absl::StartsWith(state, "there") ? 2 : c.entries) << state;
    }
  }
}

// What was kept says that data are in order: they are read when another encoding is needed.
TEST_F(CrfObjectiveTest, KeptDataAreReadWhenATrialNeedsThem) {
  const std::string directory = absl::StrCat(dir_.path(), "/cache lazy");
  const learn::DataCache cache =
      learn::DataCache::Open(directory, {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000}).value();
  study::BuiltinObjective spec =
      Spec({{"max_passes", 3.0}, {"l2_groups", std::string("transitions")}, {"l2.transitions", 0.3}});
  const auto space = [&] {
    study::ParameterSpec count;
    count.name = "min_count";
    count.domain = study::IntRange{.min = 1, .max = 5};
    return study::SearchSpace::Create({space_.parameters()[0], count}).value();
  }();
  const auto open = [&] { return CreateObjective(spec, space, kLoss, &root_, &cache); };
  const auto at = [&](const Objective& objective, double min_count) {
    EvaluationContext context = At(0.5);
    context.parameters["min_count"] = min_count;
    return objective.Evaluate(context);
  };
  const auto fresh = CreateObjective(spec, space, kLoss, &root_);
  const auto first = open();
  ASSERT_TRUE(first.ok()) << first.status();
  const Measurement kept = *at(**first, 1.0)->measurement;
  EXPECT_EQ(at(**fresh, 1.0)->measurement, kept);
  const auto second = open();
  EXPECT_EQ(at(**second, 1.0)->measurement, kept);
  // Stopped while it is read, and then not.
  Cancellation cancellation;
  cancellation.Cancel();
  EvaluationContext stopping = At(0.5);
  stopping.parameters["min_count"] = 2.0;
  stopping.cancellation = &cancellation;
  EXPECT_EQ((*second)->Evaluate(stopping)->outcome, EvaluationOutcome::kCancelled);
  EXPECT_EQ(at(**second, 2.0)->measurement, at(**fresh, 2.0)->measurement);
  EXPECT_EQ(at(**second, 1.0)->measurement, kept);
  // Changed behind its back: what is encoded stays, what would have to be read is refused; whoever opens it anew reads.
  const auto third = open();
  dir_.Write("train.txt", Sentences(7, 100));
  EXPECT_EQ(at(**third, 1.0)->measurement, kept);
  const absl::Status changed = at(**third, 3.0).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("train.txt has changed since this worker opened it"));
  const auto fourth = open();
  EXPECT_EQ(at(**fourth, 1.0)->measurement, at(**CreateObjective(spec, space, kLoss, &root_), 1.0)->measurement);
  EXPECT_NE(at(**fourth, 1.0)->measurement, kept);
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
  EXPECT_THAT(error(Spec({{"sampling", std::string("mss")}})), HasSubstr("sampling"));
  dir_.Write("ragged.txt", "a b O\nc O\n");
  spec = Spec({});
  spec.data = "ragged.txt";
  EXPECT_THAT(error(spec), HasSubstr("ragged.txt:2: has 2 columns"));
  // Memory that does not suffice fails the setting, not the worker.
  const EvaluationResult result =
      Make(study::Parameters{{"memory", std::string("absolute")}, {"max_memory_mib", 1.0}, {"hash_bits", 11.0}})
          ->Evaluate(At(1.0))
          .value();
  EXPECT_EQ(result.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(result.failure->message, HasSubstr("the modes need, in MiB"));
  const EvaluationResult wide =
      Make(study::Parameters{{"max_memory_mib", 64.0}, {"hash_bits", 24.0}})->Evaluate(At(1.0)).value();
  EXPECT_EQ(wide.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(wide.failure->message, HasSubstr("MiB for vectors of the"));
  // Without a held-out sequence that has a loss there is nothing to tune by; a loss of 0 it is not.
  dir_.Write("other.txt", "Word1 P1 B-XX\nWord2 P2 O\n\nWord1 P1 X\n");
  EXPECT_THAT(error(Spec({{"validation_data", std::string("other.txt")}})),
              HasSubstr("other.txt: every held-out sequence has a label that is not in the training part, such as"));
}

}  // namespace
}  // namespace luthier::objectives
