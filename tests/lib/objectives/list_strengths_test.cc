// A list l2: one strength a column, a class or a weight, and the derivative by each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;
using Vec = std::vector<double>;

BuiltinObjective Spec(const std::string& model, int classes, study::Parameters options = {}) {
  BuiltinObjective spec;
  spec.model = model;
  spec.data = absl::StrCat("synth:logistic?rows=150&cols=4&classes=", classes, "&seed=5&noise=0.2");
  spec.split = {.validation = 0.3, .folds = 0, .seed = 2, .third = 0.3};
  spec.options = std::move(options);
  return spec;
}

ParameterSpec List(double min, double max, int count) {
  ParameterSpec p = Float("l2", min, max, study::Scale::kLog);
  p.count = count;
  return p;
}
SearchSpace ListSpace(int count) {
  return Space({List(1e-4, 1e4, count)});
}

Vec Strengths(size_t count) {
  Vec l2;
  for (size_t k = 0; k < count; ++k) l2.push_back(std::pow(10.0, static_cast<double>(k % 4) / 1.5 - 1.0));
  return l2;
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(ListStrengthsTest, GradientMatchesDifferencesForEveryEntry) {
  struct Case {
    const char* model;
    int classes;
    size_t count;
    study::Parameters options;
  };
  const std::string per_class = "class", per_weight = "weight";
  for (const Case& c : {Case{"logistic", 2, 4, {}}, Case{"logistic", 2, 4, {{"intercept", false}}},
                        Case{"logistic", 2, 5, {{"penalize_intercept", true}}}, Case{"hsvm", 2, 5, {}},
                        Case{"hsvm", 2, 4, {{"intercept", false}}}, Case{"logistic", 3, 4, {}},
                        Case{"logistic", 3, 3, {{"l2_per", per_class}}},
                        Case{"logistic", 3, 12, {{"l2_per", per_weight}, {"intercept", false}}},
                        Case{"logistic", 3, 12, {{"l2_per", per_weight}, {"standardize", false}}}}) {
    SCOPED_TRACE(absl::StrCat(c.model, " ", c.classes, " classes ", c.count, " ", study::FormatParameters(c.options)));
    BuiltinObjective spec = Spec(c.model, c.classes, c.options);
    spec.options["tolerance"] = 1e-11;
    const std::unique_ptr<Objective> made =
        CreateObjective(spec, ListSpace(static_cast<int>(c.count)), kLoss, nullptr).value();
    const Vec at = Strengths(c.count);
    const Measurement m = *made->Evaluate(At({{"l2", at}}))->measurement;
    EXPECT_TRUE(m.metrics.contains("third_loss"));
    EXPECT_TRUE(m.metrics.contains("third_accuracy"));
    ASSERT_TRUE(m.gradient);
    ASSERT_EQ(m.gradient->values.size(), c.count);
    for (size_t k = 0; k < c.count; ++k) {
      const double h = 1e-5 * at[k];
      const auto loss = [&](double value) {
        Vec moved = at;
        moved[k] = value;
        return made->Evaluate(At({{"l2", moved}}))->measurement->metrics.at("validation_loss");
      };
      const double numeric = (loss(at[k] + h) - loss(at[k] - h)) / (2.0 * h);
      EXPECT_NEAR(m.gradient->values[k], numeric, 1e-5 * std::abs(numeric) + 1e-9 / at[k]) << k;
    }
  }
}

TEST(ListStrengthsTest, EqualStrengthsAreOneStrengthAndSolversAgree) {
  for (const int classes : {2, 3}) {
    const auto one =
        CreateObjective(Spec("logistic", classes), Space({Float("l2", 1e-4, 1e4)}), kLoss, nullptr).value();
    const double expected = one->Evaluate(At({{"l2", 0.5}}))->measurement->metrics.at("validation_loss");
    const auto list = CreateObjective(Spec("logistic", classes), ListSpace(4), kLoss, nullptr).value();
    EXPECT_NEAR(list->Evaluate(At({{"l2", Vec(4, 0.5)}}))->measurement->metrics.at("validation_loss"), expected, 1e-9);
  }
  Vec values;
  for (const char* solver : {"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
    const auto made = CreateObjective(Spec("logistic", 2, {{"solver", std::string(solver)}, {"intercept", false}}),
                                      ListSpace(4), kLoss, nullptr)
                          .value();
    values.push_back(made->Evaluate(At({{"l2", Strengths(4)}}))->measurement->metrics.at("validation_loss"));
    EXPECT_NEAR(values.back(), values.front(), 1e-6) << solver;
  }
}

TEST(ListStrengthsTest, AFixedListTrainsAModel) {
  TrainRequest request;
  request.objective = Spec("logistic", 2);
  request.parameters = {{"l2", Strengths(4)}};
  EXPECT_TRUE(TrainModel(request, nullptr, {}).ok());
  request.parameters = {{"l2", Strengths(3)}};
  EXPECT_THAT(Message(TrainModel(request, nullptr, {}).status()), HasSubstr("l2 has 3 strengths, and 4 are needed"));
}

TEST(ListStrengthsTest, WrongListsSayWhy) {
  const auto data = [](const BuiltinObjective& spec, int count) {
    return Message(CreateObjective(spec, ListSpace(count), kLoss, nullptr).status());
  };
  EXPECT_THAT(data(Spec("logistic", 2), 3), HasSubstr("l2 has 3 strengths, and 4 are needed: one for each column"));
  EXPECT_THAT(data(Spec("hsvm", 2), 4), HasSubstr("5 are needed: one for each column (4), and the intercept's"));
  EXPECT_THAT(data(Spec("logistic", 2, {{"l2_per", std::string("weight")}}), 4),
              HasSubstr("l2_per weight is for more than two classes"));
  EXPECT_THAT(data(Spec("logistic", 3, {{"l2_per", std::string("weight")}}), 4), HasSubstr("and 12 are needed"));
  const auto study = [](const BuiltinObjective& spec, const SearchSpace& space) {
    return Message(catalogue::Validate(spec, space, kLoss));
  };
  EXPECT_EQ(study(Spec("logistic", 2), ListSpace(4)), "");
  EXPECT_THAT(study(Spec("logistic", 2, {{"l2_groups", std::string("a: 1")}}), ListSpace(4)),
              HasSubstr("exclude each other"));
  EXPECT_THAT(study(Spec("logistic", 2, {{"l2_per", std::string("class")}}), Space({Float("l2", 1, 2)})),
              HasSubstr("l2_per: is for a list l2"));
  EXPECT_THAT(study(Spec("logistic", 2, {{"l2", Vec{1, -1}}}), Space({Float("tolerance", 1, 2)})),
              HasSubstr("l2[1]: \"-1\" is not in"));
  BuiltinObjective chain = Spec("crf", 2);
  chain.data = "synth:chain";
  EXPECT_THAT(study(chain, Space({List(1e-4, 1, 3)})), HasSubstr("l2 of objective crf is one number"));
  EXPECT_THAT(study(chain, Space({Float("l2", 1e-4, 1)})), HasSubstr("split.third: is not for objective crf"));
}

}  // namespace
}  // namespace luthier::objectives
