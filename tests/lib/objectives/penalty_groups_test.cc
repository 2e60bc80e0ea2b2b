// Penalties for groups of columns: what the option says, that every solver finds the optimum of the problem it defines,
// and the derivative by each penalty.

#include "lib/catalogue/penalty_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/catalogue/registry.h"
#include "lib/model/linear_model.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kShape[] = "shape: mean_* ; flags: \"a flag\", b_flag";

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// A table with names: mean_a, mean_b, "a flag" (0 or 1), b_flag, other, constant; labels k0, k1, ...
class PenaltyGroupsTest : public ::testing::Test {
 protected:
  PenaltyGroupsTest() {
    for (const int classes : {2, 3}) {
      base::RandomStream random(17, "groups.table", static_cast<uint64_t>(classes));
      std::string csv = "mean_a,mean_b,a flag,b_flag,other,constant,kind\n", svm;
      for (int i = 0; i < 90; ++i) {
        const double a = random.Normal(), b = 3.0 * random.Normal() + 1.0, o = random.Normal();
        const int f = random.Uniform() < 0.5 ? 1 : 0, g = random.Uniform() < 0.3 ? 1 : 0;
        const double score = a - 0.3 * b + f - 2.0 * g + random.Normal();
        const int kind = score > 0.3 ? classes - 1 : score < -0.6 || classes == 2 ? 0 : 1;
        absl::StrAppend(&csv, a, ",", b, ",", f, ",", g, ",", o, ",3,k", kind, "\n");
        absl::StrAppend(&svm, kind, " 1:", a, " 2:", b, f > 0 ? " 3:1" : "", g > 0 ? " 4:1" : "", " 5:", o, "\n");
      }
      dir_.Write(absl::StrCat(classes, ".csv"), csv);
      dir_.Write(absl::StrCat(classes, ".svm"), svm);
    }
  }

  static BuiltinObjective Spec(const std::string& model, study::Parameters options = {}, int classes = 2,
                               int folds = 0) {
    BuiltinObjective spec;
    spec.model = model;
    spec.data = absl::StrCat(classes, ".csv");
    spec.split = {.validation = folds > 0 ? 0.0 : 0.3, .folds = folds, .seed = 2};
    spec.options = std::move(options);
    if (!spec.options.contains("l2_groups")) spec.options["l2_groups"] = std::string(kShape);
    return spec;
  }
  static SearchSpace GroupSpace() {
    return Space({Float("l2.flags", 1e-4, 1e4, study::Scale::kLog), Float("l2", 1e-4, 1e4, study::Scale::kLog),
                  Float("l2.shape", 1e-4, 1e4, study::Scale::kLog)});
  }
  absl::StatusOr<std::unique_ptr<Objective>> Create(const BuiltinObjective& spec, const SearchSpace& space) const {
    return CreateObjective(spec, space, kLoss, &root_);
  }
  std::unique_ptr<Objective> MakeOne(const BuiltinObjective& spec, const SearchSpace& space = GroupSpace()) const {
    absl::StatusOr<std::unique_ptr<Objective>> made = Create(spec, space);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  absl::StatusOr<std::unique_ptr<model::Model>> Train(const BuiltinObjective& spec,
                                                      const study::Parameters& parameters) const {
    TrainRequest request;
    request.objective = spec;
    request.parameters = parameters;
    return TrainModel(request, &root_, {});
  }

  testing::TemporaryDirectory dir_;
  data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
};

const study::Parameters kAt = {{"l2", 0.7}, {"l2.shape", 0.02}, {"l2.flags", 5.0}};

// Largest entry of the gradient of sum loss + sum_j strength_j/2 |w_j|^2, and what it is without weights, by loops over
// a dense table. `penalty`: of each column, then of the bias (0: not penalised).
std::pair<double, double> LargestGradient(const model::LinearParts& parts, const data::Dataset& data,
                                          const std::vector<double>& penalty) {
  const int scores = parts.scores();
  const auto p = static_cast<size_t>(parts.cols);
  const auto slope = [&](double t) {
    if (parts.loss.kind == linear::MarginLoss::Kind::kLogistic) return -1.0 / (1.0 + std::exp(t));
    const double e = parts.loss.epsilon;
    return t > 1.0 + e ? 0.0 : t < 1.0 - e ? -1.0 : (t - 1.0 - e) / (2.0 * e);
  };
  const auto largest = [&](double scale) {
    std::vector<double> gradient((p + 1) * static_cast<size_t>(scores), 0.0);
    for (int64_t i = 0; i < data.x.rows; ++i) {
      std::vector<double> row(p, 0.0);
      const auto n = static_cast<size_t>(i);
      for (int64_t e = data.x.row_start[n]; e < data.x.row_start[n + 1]; ++e) {
        row[static_cast<size_t>(data.x.column[static_cast<size_t>(e)])] = data.x.value[static_cast<size_t>(e)];
      }
      if (parts.mean.size() > 0) {
        for (size_t j = 0; j < p; ++j) {
          const auto at = static_cast<Eigen::Index>(j);
          row[j] = (row[j] - parts.mean[at]) / parts.deviation[at];
        }
      }
      row.push_back(1.0);
      std::vector<double> z;
      for (int k = 0; k < scores; ++k) {
        double score = scale * parts.bias[k];
        for (size_t j = 0; j < p; ++j)
          score += scale * parts.weights[static_cast<Eigen::Index>(j) * scores + k] * row[j];
        z.push_back(score);
      }
      if (scores == 1) {
        const double sign = data.label[n] == 1 ? 1.0 : -1.0;
        z[0] = sign * slope(sign * z[0]);
      } else {
        double sum = 0.0;
        for (double& v : z) sum += v = std::exp(v);
        for (double& v : z) v /= sum;
        z[static_cast<size_t>(data.label[n])] -= 1.0;
      }
      for (size_t j = 0; j <= p; ++j) {
        for (size_t k = 0; k < z.size(); ++k) gradient[j * z.size() + k] += z[k] * row[j];
      }
    }
    double worst = 0.0;
    for (size_t j = 0; j <= p; ++j) {
      for (int k = 0; k < scores; ++k) {
        if (j == p && scores > 1 && k == 0) continue;  // No intercept.
        const double w = j == p ? parts.bias[k] : parts.weights[static_cast<Eigen::Index>(j) * scores + k];
        worst = std::max(worst, std::abs(gradient[j * static_cast<size_t>(scores) + static_cast<size_t>(k)] +
                                         penalty[j] * scale * w));
      }
    }
    return worst;
  };
  return {largest(1.0), largest(0.0)};
}

TEST_F(PenaltyGroupsTest, EverySolverEndsAtTheOptimumOfTheGroupedProblem) {
  for (const char* model : {"logistic", "hsvm"}) {
    const bool hinge = model == std::string("hsvm");
    for (const char* solver : {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
      for (const bool standardize : {true, false}) {
        for (const bool penalize : {false, true}) {
          if (!penalize && (hinge || solver == std::string("dual"))) continue;
          study::Parameters options = {{"solver", std::string(solver)},
                                       {"standardize", standardize},
                                       {"tolerance", 1e-9},
                                       {"max_iterations", 20000.0}};
          if (!hinge) options["penalize_intercept"] = penalize;
          SCOPED_TRACE(absl::StrCat(model, " ", solver, " ", standardize, penalize));
          // Raw columns and very different penalties take the stochastic solvers thousands of passes.
          const bool stochastic = solver == std::string("dual") || solver == std::string("svrg");
          const double shape = stochastic && !standardize ? 0.35 : 0.02;
          const auto trained = Train(Spec(model, options), {{"l2", 0.7}, {"l2.shape", shape}, {"l2.flags", 5.0}});
          ASSERT_TRUE(trained.ok()) << trained.status();
          EXPECT_EQ((*trained)->info().outcome, "converged");
          const auto& parts = dynamic_cast<const model::LinearModel&>(**trained).parts();
          const data::Dataset data = data::LoadDataset("2.csv", data::ReadOptions(), &root_).value();
          // A constant column has no weight when standardized.
          const auto [left, first] =
              LargestGradient(parts, data, {shape, shape, 5.0, 5.0, 0.7, 0.7, penalize || hinge ? 0.7 : 0.0});
          EXPECT_LT(left, 1e-7 * first);
        }
      }
    }
  }
}

TEST_F(PenaltyGroupsTest, MulticlassSolversEndAtTheOptimumToo) {
  for (const char* solver : {"lbfgs", "newton_cg"}) {
    const auto trained = Train(Spec("logistic", {{"solver", std::string(solver)}, {"tolerance", 1e-10}}, 3), kAt);
    ASSERT_TRUE(trained.ok()) << trained.status();
    const auto& parts = dynamic_cast<const model::LinearModel&>(**trained).parts();
    const data::Dataset data = data::LoadDataset("3.csv", data::ReadOptions(), &root_).value();
    const auto [left, first] = LargestGradient(parts, data, {0.02, 0.02, 5.0, 5.0, 0.7, 0.7, 0.0});
    EXPECT_LT(left, 1e-8 * first);
    EXPECT_EQ(std::get<double>((*trained)->info().settings.at("l2.shape")), 0.02);
    EXPECT_EQ(std::get<std::string>((*trained)->info().settings.at("l2_groups")), kShape);
  }
}

TEST_F(PenaltyGroupsTest, GradientMatchesDifferencesForEveryStrength) {
  for (const int classes : {2, 3}) {
    for (const int folds : {0, 3}) {
      for (const char* how : {"free", "penalized", "none"}) {
        if (classes == 3 && how == std::string("penalized")) continue;
        SCOPED_TRACE(absl::StrCat(classes, " ", folds, " ", how));
        study::Parameters options = {{"intercept", how != std::string("none")}, {"tolerance", 1e-11}};
        if (classes == 2) options["penalize_intercept"] = how == std::string("penalized");
        const auto made = MakeOne(Spec("logistic", options, classes, folds));
        const Measurement m = *made->Evaluate(At(kAt))->measurement;
        ASSERT_TRUE(m.gradient);
        ASSERT_EQ(m.gradient->values.size(), 3u);
        EXPECT_EQ(m.gradient->error_bound.has_value(), how != std::string("free"));
        double error = 0.0;
        const std::vector<std::string> names = {"l2.flags", "l2", "l2.shape"};  // As the space has them.
        for (size_t k = 0; k < names.size(); ++k) {
          const double at = std::get<double>(kAt.at(names[k]));
          const auto loss = [&](double value) {
            study::Parameters moved = kAt;
            moved[names[k]] = value;
            return made->Evaluate(At(moved))->measurement->metrics.at("validation_loss");
          };
          const double h = 1e-5 * at;
          const double numeric = (loss(at + h) - loss(at - h)) / (2.0 * h);
          EXPECT_NEAR(m.gradient->values[k], numeric, 1e-5 * std::abs(numeric) + 1e-9 / at) << names[k];
          error = std::max(error, std::abs(numeric));
        }
        if (m.gradient->error_bound) {
          EXPECT_LT(*m.gradient->error_bound, 1e-4 * error);
        }
      }
    }
  }
}

TEST_F(PenaltyGroupsTest, AFixedStrengthHasNoEntry) {
  const auto whole = MakeOne(Spec("hsvm"));
  const auto some =
      MakeOne(Spec("hsvm", {{"l2.flags", 5.0}}), Space({Float("l2.shape", 1e-4, 1e4), Float("l2", 0.1, 1)}));
  const Measurement all = *whole->Evaluate(At(kAt))->measurement;
  const Measurement two = *some->Evaluate(At({{"l2", 0.7}, {"l2.shape", 0.02}}))->measurement;
  EXPECT_EQ(all.metrics, two.metrics);
  EXPECT_THAT(two.gradient->values, ElementsAre(all.gradient->values[2], all.gradient->values[1]));
}

TEST_F(PenaltyGroupsTest, EqualStrengthsAreTheUngroupedModelBitForBit) {
  for (const char* solver : {"auto", "lbfgs", "svrg", "dual"}) {
    const study::Parameters options = {{"solver", std::string(solver)}, {"penalize_intercept", true}};
    const auto grouped = MakeOne(Spec("logistic", options, 2, 3));
    study::Parameters without = options;
    without["l2_groups"] = std::string();
    const auto plain = MakeOne(Spec("logistic", without, 2, 3), L2Space());
    const Measurement one = *plain->Evaluate(At({{"l2", 0.3}}))->measurement;
    const Measurement all = *grouped->Evaluate(At({{"l2", 0.3}, {"l2.shape", 0.3}, {"l2.flags", 0.3}}))->measurement;
    EXPECT_EQ(one.metrics, all.metrics);
    EXPECT_EQ(one.step, all.step);
    // Moving all penalties together.
    const std::vector<double>& g = all.gradient->values;
    EXPECT_NEAR(g[0] + g[1] + g[2], one.gradient->values[0], 1e-12);
  }
}

TEST_F(PenaltyGroupsTest, PausedAndResumedGivesTheSameBits) {
  for (const char* solver : {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
    const auto made = MakeOne(
        Spec("logistic", {{"solver", std::string(solver)}, {"penalize_intercept", true}, {"report_every", 1.0}}, 2, 2));
    std::vector<Measurement> whole, parts;
    const EvaluationResult straight = RunPaused(*made, kAt, {}, &whole);
    ASSERT_GE(straight.measurement->step, 3) << solver;
    EXPECT_EQ(RunPaused(*made, kAt, {1, 2}, &parts).measurement, straight.measurement) << solver;
    EXPECT_EQ(parts, whole);
    // The checkpoint of other penalties is not taken.
    EvaluationContext context = At(kAt);
    std::string saved;
    context.target = 1;
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    ASSERT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kPaused);
    EvaluationContext other = At(kAt);
    other.parameters["l2.shape"] = 0.03;
    other.checkpoint = saved;
    EXPECT_FALSE(made->Evaluate(other)->resumed) << solver;
  }
}

TEST_F(PenaltyGroupsTest, NumbersGiveTheSameAsNames) {
  BuiltinObjective by_name = Spec("logistic", {{"standardize", false}});
  BuiltinObjective by_number =
      Spec("logistic", {{"standardize", false}, {"l2_groups", std::string("shape: 1-2; flags: 3, 4")}});
  const Measurement expected = *MakeOne(by_name)->Evaluate(At(kAt))->measurement;
  EXPECT_EQ(*MakeOne(by_number)->Evaluate(At(kAt))->measurement, expected);
  // The table without its constant column, whose weight has next to no effect beside a free intercept.
  by_number.data = "2.svm";
  const Measurement sparse = *MakeOne(by_number)->Evaluate(At(kAt))->measurement;
  EXPECT_NEAR(sparse.metrics.at("validation_loss"), expected.metrics.at("validation_loss"), 1e-2);
}

TEST_F(PenaltyGroupsTest, TheEndsOfTheRangeEndWell) {
  for (const char* model : {"logistic", "hsvm"}) {
    for (const char* solver : {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
      study::Parameters options = {{"solver", std::string(solver)}, {"max_iterations", 15.0}};
      if (model == std::string("logistic")) options["penalize_intercept"] = true;
      const auto made =
          MakeOne(Spec(model, options),
                  Space({Float("l2", 1e-10, 1e10), Float("l2.shape", 1e-10, 1e10), Float("l2.flags", 1e-10, 1e10)}));
      for (const auto& [low, high] : {std::pair(1e-10, 1e10), {1e10, 1e-10}}) {
        SCOPED_TRACE(absl::StrCat(model, " ", solver, " ", low));
        const EvaluationResult result =
            made->Evaluate(At({{"l2", low}, {"l2.shape", high}, {"l2.flags", 1.0}})).value();
        if (result.outcome == EvaluationOutcome::kFailed) {
          EXPECT_EQ(result.failure->reason, study::failure::kDiverged);
          continue;
        }
        ASSERT_EQ(result.outcome, EvaluationOutcome::kComplete);
        for (const auto& [name, value] : result.measurement->metrics) EXPECT_TRUE(std::isfinite(value)) << name;
      }
    }
  }
}

TEST_F(PenaltyGroupsTest, ErrorsOfTheStudyAreFoundBeforeDataAreRead) {
  const auto problems = [&](const BuiltinObjective& spec, const SearchSpace& space) {
    return Message(catalogue::Validate(spec, space, kLoss));
  };
  EXPECT_EQ(problems(Spec("logistic"), GroupSpace()), "");
  EXPECT_THAT(problems(Spec("logistic"), L2Space()),
              AllOf(HasSubstr("space: lacks l2.shape"), HasSubstr("space: lacks l2.flags")));
  EXPECT_THAT(problems(Spec("logistic", {{"l2_groups", std::string("shape: 1; shape: 2")}}), L2Space()),
              HasSubstr("objective.builtin.options.l2_groups: there are two groups \"shape\""));
  EXPECT_THAT(problems(Spec("logistic", {{"l2_groups", 3.0}}), L2Space()), HasSubstr("l2_groups: \"3\" is not text"));
  EXPECT_THAT(problems(Spec("logistic", {{"l2.shpae", 1.0}}), GroupSpace()), HasSubstr("did you mean \"l2.shape\"?"));
  EXPECT_THAT(
      problems(Spec("logistic", {{"l2_groups", std::string()}}), GroupSpace()),
      HasSubstr("objective logistic has no parameter \"l2.flags\"; it takes l2, intercept, standardize, solver, "
                "max_iterations, svrg_batch, svrg_sampling, svrg_skip (groups are named in "
                "objective.builtin.options.l2_groups)"));
  for (const double l2 :
       {0.0, -1.0, 1e-300, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const char* model : {"logistic", "hsvm"}) {
      EXPECT_THAT(problems(Spec(model, {{"l2.shape", l2}, {"l2.flags", 1.0}}), L2Space()),
                  AllOf(HasSubstr("objective.builtin.options.l2.shape"), HasSubstr("is not in [1e-10, 1e+10]")));
      study::Parameters at = kAt;
      at["l2.shape"] = l2;
      EXPECT_THAT(Message(MakeOne(Spec(model))->Evaluate(At(at)).status()), HasSubstr("is not in [1e-10, 1e+10]"));
      EXPECT_THAT(Message(Train(Spec(model), at).status()), HasSubstr("is not in [1e-10, 1e+10]"));
    }
  }
}

TEST_F(PenaltyGroupsTest, GroupsThatDoNotFitTheDataAreRefused) {
  const auto error = [&](const std::string& groups, const std::string& data = "2.csv", study::Parameters more = {}) {
    BuiltinObjective spec = Spec("logistic", std::move(more));
    spec.data = data;
    spec.options["l2_groups"] = groups;
    const std::vector<catalogue::PenaltyGroup> parsed = catalogue::ParsePenaltyGroups(groups).value();
    for (const catalogue::PenaltyGroup& group : parsed) spec.options[catalogue::PenaltyName(group)] = 1.0;
    const std::string trained = Message(Train(spec, {{"l2", 1.0}}).status());
    const std::string created = Message(Create(spec, L2Space()).status());
    EXPECT_EQ(trained, created);
    return created;
  };
  EXPECT_EQ(error("a: mean_a; b: other 3-4"), "");
  EXPECT_THAT(error("a: mean_c"), HasSubstr("l2_groups: group \"a\": 2.csv has no column \"mean_c\" (name number "));
  EXPECT_THAT(error("a: median_*"), HasSubstr("has no column like \"median_*\""));
  EXPECT_THAT(error("a: kind"), HasSubstr("has no column \"kind\""));
  EXPECT_THAT(error("a: mean_*; b: 2"), HasSubstr("column 2 is in two groups, \"a\" and \"b\""));
  EXPECT_THAT(error("a: 5-7"), HasSubstr("\"5-7\" is beyond the 6 columns of 2.csv"));
  EXPECT_THAT(error("a: 7-"), HasSubstr("\"7-\" is beyond the 6 columns"));
  EXPECT_THAT(error("a: 1-2; b: 2-", "2.svm"), HasSubstr("column 2 is in two groups"));
  EXPECT_THAT(error("a: mean_a", "2.svm"), HasSubstr("the columns of 2.svm have no names; give their numbers"));
  EXPECT_THAT(error("a: mean_*; b: 3-"), HasSubstr("every column of 2.csv is in a group, so l2 has no effect"));
  EXPECT_EQ(error("a: mean_*; b: 3-", "2.csv", {{"penalize_intercept", true}}), "");
}

}  // namespace
}  // namespace luthier::objectives
