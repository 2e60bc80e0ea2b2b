#include "lib/catalogue/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lib/base/error.h"
#include "lib/catalogue/settings.h"
#include "tests/lib/catalogue/catalogue_testing.h"

namespace luthier::catalogue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Problems(const BuiltinObjective& objective, const SearchSpace& space, const MetricSpec& metric) {
  return std::string(Validate(objective, space, metric).message());
}

TEST(ValidateTest, GoodSpecsPass) {
  EXPECT_TRUE(Validate(Logistic(), L2Space(), kLoss).ok());
  for (const ObjectiveInfo& info : Objectives()) {
    BuiltinObjective objective;
    objective.model = info.model;
    if (info.needs_data) objective.data = "some/file.csv.xz";
    const MetricSpec metric = {info.metrics[0].name, info.metrics[0].goal};
    EXPECT_TRUE(Validate(objective, SuggestedSpace(info), metric).ok()) << info.model;
  }
}

TEST(ValidateTest, ModelsDataAndMetrics) {
  BuiltinObjective objective = Logistic();
  objective.model = "logistik";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss),
              AllOf(HasSubstr("objective.builtin.model"), HasSubstr("\"logistic\"?")));
  objective.model = "branin";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("did you mean \"function:branin\"?"));
  objective.model = "logistic";
  objective.data = "";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("objective.builtin.data: is required"));
  objective.data = "/etc/passwd";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("absolute"));
  objective.data = "synth:logistic?rwos=4";
  EXPECT_THAT(Problems(objective, L2Space(), kLoss), HasSubstr("did you mean \"rows\"?"));
  EXPECT_THAT(Problems(Logistic(), L2Space(), {"validation_los", study::Goal::kMinimize}),
              AllOf(HasSubstr("metric.name"), HasSubstr("did you mean \"validation_loss\"?")));
  EXPECT_THAT(Problems(Logistic(), L2Space(), {"validation_loss", study::Goal::kMaximize}), HasSubstr("metric.goal"));
  BuiltinObjective function;
  function.model = "function:camel";
  function.data = "x.csv";
  EXPECT_THAT(Problems(function, Space({Float("x1", -1, 1), Float("x2", -1, 1)}), kValue), HasSubstr("takes no data"));
}

TEST(ValidateTest, WrongOptionsAreNamed) {
  EXPECT_THAT(Problems(Logistic({{"tolerence", 1e-6}}), L2Space(), kLoss), HasSubstr("did you mean \"tolerance\"?"));
  EXPECT_THAT(Problems(Logistic({{"tolerance", -1.0}}), L2Space(), kLoss),
              HasSubstr("objective.builtin.options.tolerance"));
  EXPECT_THAT(Problems(Logistic({{"tolerance", NAN}}), L2Space(), kLoss), HasSubstr("is not in"));
  EXPECT_THAT(Problems(Logistic({{"max_iterations", 2.5}}), L2Space(), kLoss), HasSubstr("not a whole number"));
  EXPECT_THAT(Problems(Logistic({{"intercept", 1.0}}), L2Space(), kLoss), HasSubstr("not true or false"));
  EXPECT_THAT(Problems(Logistic({{"solver", std::string("lbgfs")}}), L2Space(), kLoss),
              HasSubstr("did you mean \"lbfgs\"?"));
  EXPECT_THAT(Problems(Logistic({{"label", 3.0}}), L2Space(), kLoss), HasSubstr("is not text"));
  EXPECT_THAT(Problems(Logistic({{"l2", 1.0}}), L2Space(), kLoss), HasSubstr("space[0].name: l2 is held fixed"));
}

TEST(ValidateTest, SpaceAgainstTheObjective) {
  EXPECT_THAT(
      Problems(Logistic(), Space({Float("L2", 1e-3, 1)}), kLoss),
      AllOf(HasSubstr("space[0].name"), HasSubstr("it takes l2, intercept, standardize, solver, max_iterations"),
            HasSubstr("space: lacks l2")));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 0, 1)}), kLoss), HasSubstr("space[0].float.min: 0 is not in"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 1e12)}), kLoss), HasSubstr("space[0].float.max"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), Float("tolerance", 0, 0.1)}), kLoss),
              HasSubstr("space[1].name: tolerance cannot be tuned"));
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), Float("intercept", 0, 1)}), kLoss),
              HasSubstr("space[1].float: intercept is a bool parameter, not float"));
  ParameterSpec solver;
  solver.name = "solver";
  solver.domain = study::CategoricalLabels{{"lbfgs", "sgd"}};
  EXPECT_THAT(Problems(Logistic(), Space({Float("l2", 1, 2), solver}), kLoss),
              HasSubstr("space[1].categorical.values[1]: \"sgd\" is not one of auto, lbfgs, newton_cg"));
  ParameterSpec intercept;
  intercept.name = "intercept";
  intercept.domain = study::BoolSwitch{};
  ParameterSpec conditional = Float("l2", 1, 2);
  conditional.condition = study::Condition{"intercept", {true}};
  EXPECT_THAT(Problems(Logistic(), Space({intercept, conditional}), kLoss), HasSubstr("space[1].condition"));
  BuiltinObjective function;
  function.model = "function:hartmann3";
  EXPECT_THAT(Problems(function, Space({Float("x1", 0, 1), Float("y", 0, 1)}), kValue),
              AllOf(HasSubstr("no parameter \"y\""), HasSubstr("lacks x2"), HasSubstr("lacks x3")));
}

TEST(ValidateTest, ObjectivesWithoutACurveCannotTrainInParts) {
  study::StudySpec spec;
  BuiltinObjective function;
  function.model = "function:branin";
  spec.objective = function;
  EXPECT_TRUE(ValidateUse(spec).ok()) << "nothing needs a curve";
  spec.resource = study::Resource{.min = 1, .max = 81, .unit = ""};
  EXPECT_THAT(std::string(ValidateUse(spec).message()),
              HasSubstr("objective.builtin.options.steps: is 0, so function:branin reports no learning curve, which "
                        "`resource` needs: set it to 81, the resource's max, or leave `resource` out"));
  spec.resource.reset();
  spec.stopping = study::MedianStopping{};
  EXPECT_THAT(std::string(ValidateUse(spec).message()), HasSubstr("which `stopping` needs: set it to at least 1"));
  function.options["steps"] = 9.0;
  spec.objective = function;
  EXPECT_TRUE(ValidateUse(spec).ok());
  for (const char* model : {"logistic", "hsvm", "crf", "no such"}) {
    function.model = model;
    function.options.clear();
    spec.objective = function;
    EXPECT_TRUE(ValidateUse(spec).ok()) << model;
  }
  spec.objective = study::CommandObjective{};
  EXPECT_TRUE(ValidateUse(spec).ok()) << "a program may report or not";
}

TEST(ValidateTest, EveryViolationIsNamedAtOnce) {
  const absl::Status status = Validate(Logistic({{"tolerance", -1.0}, {"nonsense", 1.0}}), Space({Float("l2", 0, 1)}),
                                       {"x", study::Goal::kMinimize});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetErrorDetail(status)->violations.size(), 4u);
}

TEST(DescribeTest, SaysAllAboutEveryObjective) {
  EXPECT_EQ(Objectives().size(), 24u);
  for (const ObjectiveInfo& info : Objectives()) {
    const std::string text = Describe(info);
    EXPECT_THAT(DescribeShort(info), HasSubstr(info.model));
    EXPECT_FALSE(info.description.empty() || info.details.empty());
    for (const ParameterInfo& p : info.parameters) {
      EXPECT_FALSE(p.description.empty()) << p.name;
      EXPECT_THAT(text, HasSubstr("  " + p.name + " ("));
      EXPECT_TRUE(!p.default_value || CheckValue(p, *p.default_value, p.name).ok()) << p.name;
      if (p.tunable && p.kind == ParameterKind::kFloat) {
        EXPECT_TRUE(p.min <= p.suggested_min && p.suggested_min < p.suggested_max && p.suggested_max <= p.max);
      }
    }
    for (const MetricInfo& m : info.metrics) EXPECT_THAT(text, HasSubstr("  " + m.name + " ("));
    // A study has at least one parameter.
    EXPECT_THAT(text, HasSubstr("\nExample\n  space:\n    - {name: ")) << info.model;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, 160u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
  EXPECT_EQ(FindObjective("logistc").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace luthier::catalogue
