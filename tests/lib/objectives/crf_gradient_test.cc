// The derivative of a chain model's validation loss by its strengths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/bilevel/chain_inner.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/create.h"
#include "tests/lib/objectives/objectives_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

BuiltinObjective ChainSpec(const std::string& groups, study::Parameters options = {}, int folds = 0) {
  BuiltinObjective spec;
  spec.model = "crf";
  spec.data = "synth:sequences?sentences=60&length=6&types=2&words=40&noise=0.2&seed=3";
  spec.split = {.validation = 0.4, .folds = folds, .seed = 5};
  spec.options = {{"templates", std::string("w[0], w[-1], w[1]")},
                  {"solver", std::string("lbfgs")},
                  {"tolerance", 1e-11},
                  {"max_passes", 2000.0}};
  if (!groups.empty()) spec.options["l2_groups"] = groups;
  for (const auto& [name, value] : options) spec.options[name] = value;
  return spec;
}

constexpr char kGroups[] = "transitions; here: w[0]";
const study::Parameters kChainStrengths = {{"l2", 0.3}, {"l2.transitions", 1.5}, {"l2.here", 0.05}};

SearchSpace Strengths() {
  return Space({Float("l2.here", 1e-4, 1e2, study::Scale::kLog), Float("l2", 1e-4, 1e2, study::Scale::kLog),
                Float("l2.transitions", 1e-4, 1e2, study::Scale::kLog)});
}

EvaluationResult Evaluate(const BuiltinObjective& spec, const SearchSpace& space, const study::Parameters& at) {
  return Make(spec, space, kLoss)->Evaluate(At(at)).value();
}

TEST(CrfGradientTest, MatchesDifferencesForEveryStrength) {
  for (const int folds : {0, 3}) {
    const Measurement m = *Evaluate(ChainSpec(kGroups, {}, folds), Strengths(), kChainStrengths).measurement;
    ASSERT_TRUE(m.gradient) << folds;
    EXPECT_FALSE(m.gradient->error_bound);  // No proven constants.
    const std::vector<std::string> names = {"l2.here", "l2", "l2.transitions"};
    ASSERT_EQ(m.gradient->values.size(), names.size());
    for (size_t k = 0; k < names.size(); ++k) {
      const double at = std::get<double>(kChainStrengths.at(names[k])), h = 1e-4 * at;
      const auto loss = [&](double value) {
        study::Parameters moved = kChainStrengths;
        moved[names[k]] = value;
        return Evaluate(ChainSpec(kGroups, {}, folds), Strengths(), moved).measurement->metrics.at("validation_loss");
      };
      const double numeric = (loss(at + h) - loss(at - h)) / (2.0 * h);
      EXPECT_NEAR(m.gradient->values[k], numeric, 1e-5 * std::abs(numeric) + 1e-9 / at) << names[k] << " " << folds;
    }
  }
}

TEST(CrfGradientTest, EverySolverEndsAtTheSameGradientEvenLoose) {
  const Measurement exact = *Evaluate(ChainSpec(kGroups), Strengths(), kChainStrengths).measurement;
  for (const char* solver : {"sag", "saga", "lbfgs"}) {
    const Measurement m = *Evaluate(ChainSpec(kGroups, {{"solver", std::string(solver)}, {"tolerance", 1e-3}}),
                                    Strengths(), kChainStrengths)
                               .measurement;
    ASSERT_TRUE(m.gradient) << solver;
    EXPECT_NEAR(m.metrics.at("validation_loss"), exact.metrics.at("validation_loss"), 1e-6) << solver;
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(m.gradient->values[k], exact.gradient->values[k], 1e-4 * std::abs(exact.gradient->values[k]))
          << solver;
    }
  }
}

TEST(CrfGradientTest, OneStrengthHasAGradientIfAskedFor) {
  const SearchSpace one = L2Space();
  EXPECT_FALSE(Evaluate(ChainSpec(""), one, {{"l2", 0.3}}).measurement->gradient);
  const Measurement m = *Evaluate(ChainSpec("", {{"gradient", true}}), one, {{"l2", 0.3}}).measurement;
  ASSERT_TRUE(m.gradient);
  const auto loss = [&](double l2) {
    return Evaluate(ChainSpec("", {{"gradient", true}}), one, {{"l2", l2}}).measurement->metrics.at("validation_loss");
  };
  const double numeric = (loss(0.3 + 3e-5) - loss(0.3 - 3e-5)) / 6e-5;
  EXPECT_NEAR(m.gradient->values[0], numeric, 1e-5 * std::abs(numeric));
}

TEST(CrfGradientTest, OnlyMinimaHaveAGradient) {
  // Not converged; with l1; switched off; a strength of 0; another metric; no memory for it, which is said.
  EXPECT_FALSE(Evaluate(ChainSpec(kGroups, {{"max_passes", 2.0}}), Strengths(), kChainStrengths).measurement->gradient);
  EXPECT_FALSE(Evaluate(ChainSpec(kGroups, {{"l1", 0.1}, {"solver", std::string("sag")}, {"tolerance", 1e-3}}),
                        Strengths(), kChainStrengths)
                   .measurement->gradient);
  EXPECT_FALSE(Evaluate(ChainSpec(kGroups, {{"gradient", false}}), Strengths(), kChainStrengths).measurement->gradient);
  EXPECT_FALSE(Evaluate(ChainSpec("", {{"solver", std::string("saga")}, {"gradient", true}, {"max_passes", 2.0}}),
                        L2Space(), {{"l2", 0.3}})
                   .measurement->gradient);
}

TEST(CrfGradientTest, TheCatalogueKnowsWhichStudiesHaveOne) {
  const auto may = [](const BuiltinObjective& objective, const SearchSpace& space,
                      const study::AlgorithmSpec& algorithm = study::AutoOptions()) {
    study::StudySpec spec;
    spec.algorithm = algorithm;
    spec.objective = objective;
    spec.space = space;
    spec.metric = kLoss;
    return catalogue::MayDifferentiate(spec);
  };
  EXPECT_TRUE(may(ChainSpec(kGroups), Strengths()));
  EXPECT_FALSE(may(ChainSpec(""), L2Space()));
  EXPECT_TRUE(may(ChainSpec(""), L2Space(), study::HoagOptions())) << "it goes by gradients alone";
  EXPECT_TRUE(may(ChainSpec("", {{"gradient", true}}), L2Space()));
  EXPECT_FALSE(may(ChainSpec(kGroups, {{"gradient", false}}), Strengths()));
  EXPECT_FALSE(may(ChainSpec(kGroups, {{"l1", 0.5}}), Strengths()));
  EXPECT_FALSE(may(ChainSpec("", {{"gradient", true}}), Space({Float("l2", 1e-4, 1), Float("l1", 1e-4, 1)})));
}

TEST(CrfGradientTest, ASearchByGradientsAloneIsRefusedWhereThereAreNone) {
  study::StudySpec spec;
  spec.objective = ChainSpec("");
  spec.space = L2Space();
  spec.algorithm = study::HoagOptionsFor(study::HoagPreset::kProjectedGradient);
  spec.metric = {"validation_accuracy", study::Goal::kMaximize};
  EXPECT_EQ(catalogue::ValidateUse(spec).message(),
            "algorithm: projected_gradient goes by gradients alone, and objective crf reports none of "
            "validation_accuracy; minimise validation_loss, or use another algorithm, such as auto");
  spec.metric = kLoss;
  EXPECT_TRUE(catalogue::ValidateUse(spec).ok());
  spec.objective = ChainSpec("", {{"gradient", false}});
  EXPECT_THAT(std::string(catalogue::ValidateUse(spec).message()), HasSubstr("with these options and parameters"));
  spec.algorithm = study::AutoOptions();
  EXPECT_TRUE(catalogue::ValidateUse(spec).ok());
}

// The preconditioner is within a factor of the diagonal, and positive; the product is the derivative of the gradient.
TEST(ChainInnerTest, ProductsAreDerivativesOfTheGradient) {
  crf::ChainData data;
  data.name = "test";
  data.attributes = 4;
  data.label_names = {"a", "b", "c"};
  base::RandomStream random(9, "chains");
  for (int i = 0; i < 12; ++i) {
    for (int t = 0; t < 4; ++t) {
      for (int32_t a = 0; a < 4; ++a) {
        if (random.Uniform() < 0.5) data.attribute.push_back(a);
      }
      data.token_start.push_back(static_cast<int64_t>(data.attribute.size()));
      data.label.push_back(static_cast<int32_t>(random.UniformInt(3)));
    }
    data.sequence_start.push_back(static_cast<int64_t>(data.label.size()));
  }
  bilevel::ChainInner inner(&data, {0, 1, 1, 0}, 2, {0.5, 2.0, 0.1}, crf::BestKernels());
  const Eigen::Index n = inner.dim();
  const int stride = data.shape().stride();
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n), v = x;
  for (Eigen::Index j = 0; j < n; ++j) {
    if (j % stride >= 3) continue;  // Padding.
    x[j] = random.Normal();
    v[j] = random.Normal();
  }
  ASSERT_TRUE(inner.SetPoint(x, {}).ok());
  const Eigen::VectorXd product = inner.HessianVector(v, {}).value();
  Eigen::VectorXd up, down;
  constexpr double kStep = 1e-5;
  ASSERT_TRUE(inner.Value(x + kStep * v, &up, {}).ok());
  ASSERT_TRUE(inner.Value(x - kStep * v, &down, {}).ok());
  EXPECT_LT((product - (up - down) / (2 * kStep)).norm(), 1e-7 * product.norm());
  const Eigen::VectorXd diagonal = inner.HessianDiagonal({}).value();
  EXPECT_GT(diagonal.minCoeff(), 0.0);
  for (Eigen::Index j = 0; j < n; ++j) {
    if (j % stride >= 3) continue;
    const double exact = inner.HessianVector(Eigen::VectorXd::Unit(n, j), {}).value()[j];
    EXPECT_LT(diagonal[j], 10.0 * exact) << j;
    EXPECT_GT(diagonal[j], exact / 10.0) << j;
  }
  // Each group's share of the cross derivative.
  const Eigen::VectorXd cross = inner.CrossTransposeVector(v);
  EXPECT_NEAR(cross[1], 2.0 * x.segment(stride, 2 * stride).dot(v.segment(stride, 2 * stride)), 1e-12);
  EXPECT_NEAR(cross[2], 0.1 * x.tail(3 * stride).dot(v.tail(3 * stride)), 1e-12);
}

}  // namespace
}  // namespace luthier::objectives
