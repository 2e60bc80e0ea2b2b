// What must never make a wrong model: data and penalties at and beyond their limits, as an objective meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/objectives/create.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class BadInputTest : public ::testing::Test {
 protected:
  static BuiltinObjective Spec(const std::string& model, study::Parameters options = {}) {
    BuiltinObjective spec;
    spec.model = model;
    spec.data = model == "crf" ? "synth:sequences?sentences=40&length=6&words=30" : "synth:logistic?rows=60&cols=4";
    spec.split.seed = 1;
    spec.options = std::move(options);
    return spec;
  }
  absl::StatusOr<std::unique_ptr<Objective>> Make(const BuiltinObjective& spec, const SearchSpace& space) const {
    return CreateObjective(spec, space, kLoss, &root_);
  }

  testing::TemporaryDirectory dir_;
  data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
};

// No penalty, an absurd one, none at all: refused with the legal range, in the study, for a trial and for a model.
TEST_F(BadInputTest, StrengthsOutOfRangeAreRefusedEverywhere) {
  for (const char* model : {"logistic", "hsvm", "crf"}) {
    const auto good = Make(Spec(model), Space({Float("l2", 1e-3, 1e3, study::Scale::kLog)}));
    ASSERT_TRUE(good.ok()) << good.status();
    for (const double l2 : {0.0, -1.0, 1e-300, 1e300, kInfinity, kNaN}) {
      SCOPED_TRACE(absl::StrCat(model, " ", l2));
      const absl::StatusOr<std::unique_ptr<Objective>> fixed = Make(Spec(model, {{"l2", l2}}), Space({}));
      EXPECT_THAT(std::string(fixed.status().message()), HasSubstr("is not in [1e-"));
      EXPECT_THAT(std::string(fixed.status().message()), HasSubstr("l2"));
      const absl::StatusOr<EvaluationResult> trial = (*good)->Evaluate(At({{"l2", l2}}));
      EXPECT_EQ(trial.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(trial.status().message()), HasSubstr("is not in [1e-"));
      TrainRequest request;
      request.objective = Spec(model);
      request.parameters = {{"l2", l2}};
      const auto trained = TrainModel(request, nullptr, {});
      EXPECT_EQ(trained.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(trained.status().message()), HasSubstr("is not in [1e-"));
    }
    for (const double end : {0.0, 1e300}) {
      const SearchSpace wide = end == 0.0 ? Space({Float("l2", end, 1.0)}) : Space({Float("l2", 1.0, end)});
      EXPECT_THAT(std::string(Make(Spec(model), wide).status().message()), HasSubstr("the legal range of l2"));
    }
  }
}

// At the ends of the legal range every solver ends with finite measures, or says what failed.
TEST_F(BadInputTest, TheEndsOfTheRangeEndWell) {
  const std::vector<std::string> linear = {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"};
  const std::vector<std::string> chains = {"auto", "sag", "saga", "lbfgs"};
  for (const char* model : {"logistic", "hsvm", "crf"}) {
    const bool crf = std::string(model) == "crf";
    const double low = crf ? 1e-8 : 1e-10, high = crf ? 1e8 : 1e10;
    for (const std::string& solver : crf ? chains : linear) {
      study::Parameters options = {{"solver", solver}};
      options[crf ? "max_passes" : "max_iterations"] = 15.0;
      if (std::string(model) == "logistic") options["penalize_intercept"] = true;
      const auto made = Make(Spec(model, options), Space({Float("l2", low, high, study::Scale::kLog)}));
      ASSERT_TRUE(made.ok()) << made.status();
      for (const double l2 : {low, high}) {
        SCOPED_TRACE(absl::StrCat(model, " ", solver, " ", l2));
        const EvaluationResult result = (*made)->Evaluate(At({{"l2", l2}})).value();
        if (result.outcome == EvaluationOutcome::kFailed) {
          EXPECT_EQ(result.failure->reason, study::failure::kDiverged);
          EXPECT_EQ(l2, low);
          continue;
        }
        ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
        for (const auto& [name, value] : result.measurement->metrics) EXPECT_TRUE(std::isfinite(value)) << name;
        // All weights are next to nothing: every class as likely as the other. An unfinished run may still be away.
        if (l2 == high && !crf && std::string(model) == "logistic") {
          EXPECT_NEAR(result.measurement->metrics.at("validation_loss"), std::log(2.0), 1e-3);
        }
      }
    }
  }
}

TEST_F(BadInputTest, FilesThatAreNoDataAreRefusedByName) {
  struct Bad {
    const char* name;
    std::string bytes;
    const char* message;
  };
  const std::string cut_gzip("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10), cut_xz(
                                                                      "\xfd"
                                                                      "7zXZ\0",
                                                                      6);
  for (const Bad& bad :
       {Bad{"empty.csv", "", "is empty"}, Bad{"header.csv", "x,y\n", "no rows"},
        Bad{"one.csv", "x,y\n1,a\n2,a\n", "two classes"}, Bad{"ragged.csv", "x,y\n1,a\n1,2,b\n", "ragged.csv:3"},
        Bad{"nan.csv", "x,y\nnan,a\n1,b\n", "nan.csv:2:1"}, Bad{"empty.svm", "", "no rows"},
        Bad{"below.svm", "1 1:1\n0 -2:1\n", "below.svm:2:3: the feature index is below 1"},
        Bad{"nan.svm", "1 1:nan\n0 1:1\n", "nan.svm:1"},
        Bad{"alone.csv", "1,a\n2,b\n3,b\n", "alone.csv: row 1 of the data is the only one of its class"},
        Bad{"cut.csv.gz", cut_gzip, "cut off"}, Bad{"cut.svm.xz", cut_xz, "cut off"}}) {
    dir_.Write(bad.name, bad.bytes);
    for (const char* model : {"logistic", "hsvm"}) {
      BuiltinObjective spec = Spec(model);
      spec.data = bad.name;
      const absl::Status status = Make(spec, L2Space()).status();
      EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message)) << model << " " << bad.name;
      EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss));
    }
  }
  for (const Bad& bad : {Bad{"empty.txt", "", "has no tokens"}, Bad{"ragged.txt", "a b O\nc X\n", "ragged.txt:2"},
                         Bad{"one.txt", "a b O\nc d O\n\ne f O\n\n", "nothing is to be learned"},
                         Bad{"narrow.txt", "a\nb\n", "at least two columns"}, Bad{"cut.txt.gz", cut_gzip, "cut off"},
                         Bad{"cut.txt.xz", cut_xz, "cut off"}}) {
    dir_.Write(bad.name, bad.bytes);
    BuiltinObjective spec = Spec("crf");
    spec.data = bad.name;
    EXPECT_THAT(std::string(Make(spec, L2Space()).status().message()), HasSubstr(bad.message)) << bad.name;
  }
}

// A column that is the same in all rows says nothing: the other weights and all measures are as without it.
TEST_F(BadInputTest, ConstantColumnsChangeNothing) {
  const data::Dataset rows = data::LoadDataset("synth:logistic?rows=80&cols=3&seed=5", {}, nullptr).value();
  std::string without, with;
  for (int64_t i = 0; i < rows.x.rows; ++i) {
    std::string line;
    for (int64_t e = rows.x.row_start[i]; e < rows.x.row_start[i + 1]; ++e) {
      absl::StrAppend(&line, study::FormatDouble(rows.x.value[static_cast<size_t>(e)]), ",");
    }
    absl::StrAppend(&without, line, rows.label[static_cast<size_t>(i)], "\n");
    absl::StrAppend(&with, "7.25,", line, rows.label[static_cast<size_t>(i)], "\n");
  }
  dir_.Write("without.csv", without);
  dir_.Write("with.csv", with);
  for (const char* model : {"logistic", "hsvm"}) {
    std::vector<Measurement> found;
    for (const char* file : {"without.csv", "with.csv"}) {
      BuiltinObjective spec = Spec(model, {{"solver", std::string("newton_cholesky")}});
      spec.data = file;
      found.push_back(*Make(spec, L2Space()).value()->Evaluate(At({{"l2", 0.5}}))->measurement);
    }
    for (const auto& [name, value] : found[0].metrics) EXPECT_NEAR(found[1].metrics.at(name), value, 1e-9) << name;
  }
}

}  // namespace
}  // namespace luthier::objectives
