#include "tests/contract/objective_contract.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace luthier::objectives {
namespace {

std::vector<ObjectiveCase> LinearCases() {
  std::vector<ObjectiveCase> cases;
  for (const std::string model : {"logistic", "hsvm"}) {
    for (const std::string solver : {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
      for (const int folds : {0, 3}) {
        ObjectiveCase c;
        c.name = absl::StrCat(model, "_", solver, folds > 0 ? "_folds" : "");
        c.objective = Logistic({{"solver", solver}, {"report_every", 1.0}, {"checkpoint_every", 3.0}}, folds);
        c.objective.model = model;
        if (model == "logistic") c.objective.options["penalize_intercept"] = true;
        c.space = L2Space();
        c.metric = kLoss;
        c.at = {{"l2", solver == "dual" ? 0.5 : 0.05}};  // Weak penalties take the dual method long.
        c.gradient = true;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<ObjectiveCase> ChainCases() {
  std::vector<ObjectiveCase> cases;
  for (const std::string solver : {"sag", "saga", "lbfgs"}) {
    ObjectiveCase c;
    c.name = absl::StrCat("crf_", solver);
    c.objective.model = "crf";
    c.objective.data = "synth:sequences?sentences=60&length=6&words=40";
    c.objective.options = {
        {"solver", solver}, {"max_passes", 9.0}, {"tolerance", 0.0}, {"report_every", 1.0}, {"checkpoint_every", 2.0}};
    c.space = L2Space();
    c.metric = kLoss;
    c.at = {{"l2", 1.0}};
    cases.push_back(c);
  }
  ObjectiveCase folds = cases.front();
  folds.name = "crf_folds";
  folds.objective.split.folds = 3;
  cases.push_back(folds);
  return cases;
}

// Regressions report their result alone.
std::vector<ObjectiveCase> RegressionCases() {
  std::vector<ObjectiveCase> cases;
  for (const std::string model : {"ridge", "kernel_ridge", "elastic_net", "mlp"}) {
    for (const int folds : {0, 3}) {
      for (const bool unrolled : {false, true}) {
        if (unrolled && (model == "elastic_net" || model == "mlp")) continue;
        ObjectiveCase c;
        c.name = absl::StrCat(model, folds > 0 ? "_folds" : "", unrolled ? "_unrolled" : "");
        c.objective.model = model;
        c.objective.data = "synth:regression?rows=60&cols=4";
        c.objective.split.folds = folds;
        if (unrolled) c.objective.options = {{"unroll", std::string("heavy_ball")}, {"unroll_steps", 12.0}};
        c.space = L2Space();
        c.metric = kLoss;
        c.at = {{"l2", 1.0}};
        if (model == "kernel_ridge") c.objective.options["gamma"] = 0.2;
        if (model == "mlp") c.objective.options["units"] = 3.0;
        if (model == "elastic_net") {
          c.space = Space({Float("l1", 1e-3, 1e3, study::Scale::kLog)});
          c.at = {{"l1", 2.0}};
        }
        c.gradient = true;
        c.curve = false;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<ObjectiveCase> MatrixCases() {
  std::vector<ObjectiveCase> cases;
  for (const int folds : {0, 3}) {
    ObjectiveCase c;
    c.name = absl::StrCat("matrix_completion", folds > 0 ? "_folds" : "");
    c.objective.model = "matrix_completion";
    c.objective.data = "synth:matrix?rows=12&cols=10&known=80&features=2";
    c.objective.split.folds = folds;
    c.space = Space({Float("nuclear", 1e-2, 1e2, study::Scale::kLog)});
    c.metric = kLoss;
    c.at = {{"nuclear", 2.0}};
    c.gradient = false;
    c.curve = false;
    cases.push_back(c);
  }
  return cases;
}

// One trial chooses the strengths, and its curve is not for comparing.
std::vector<ObjectiveCase> VfIdcaCases() {
  std::vector<ObjectiveCase> cases;
  for (const char* model : {"vf_elastic_net", "vf_sparse_group_lasso", "vf_matrix_completion", "vf_svm"}) {
    ObjectiveCase c;
    c.name = model;
    c.objective.model = model;
    c.objective.data = "synth:regression?rows=80&cols=30";
    if (c.name == "vf_matrix_completion") c.objective.data = "synth:matrix?rows=12&cols=10&known=80&features=2";
    if (c.name == "vf_svm") c.objective.data = "synth:logistic?rows=80&cols=6";
    c.space = Space({Float("start", 1e-3, 0.5, study::Scale::kLog)});
    c.metric = kLoss;
    c.at = {{"start", 0.2}};
    c.gradient = false;
    c.curve = false;
    c.path = true;
    cases.push_back(c);
  }
  return cases;
}

// Every function there is, with noise and a curve.
std::vector<ObjectiveCase> FunctionCases() {
  std::vector<ObjectiveCase> cases;
  for (const catalogue::ObjectiveInfo& info : catalogue::Objectives()) {
    if (info.model.rfind("function:", 0) != 0) continue;
    ObjectiveCase c;
    c.name = absl::StrReplaceAll(info.model, {{":", "_"}});
    c.objective.model = info.model;
    c.objective.options = {{"steps", 6.0}, {"noise", 0.1}, {"curve_spread", 0.5}};
    c.space = catalogue::SuggestedSpace(info);
    c.metric = kValue;
    for (const study::ParameterSpec& p : c.space.parameters()) {
      const auto& range = std::get<FloatRange>(p.domain);
      c.at[p.name] = range.min + 0.37 * (range.max - range.min);
    }
    c.gradient = true;
    c.trains = false;
    cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Linear, ObjectiveContract, ::testing::ValuesIn(LinearCases()), ObjectiveContract::Name);
INSTANTIATE_TEST_SUITE_P(Chains, ObjectiveContract, ::testing::ValuesIn(ChainCases()), ObjectiveContract::Name);
INSTANTIATE_TEST_SUITE_P(Matrices, ObjectiveContract, ::testing::ValuesIn(MatrixCases()), ObjectiveContract::Name);
INSTANTIATE_TEST_SUITE_P(VfIdca, ObjectiveContract, ::testing::ValuesIn(VfIdcaCases()), ObjectiveContract::Name);
INSTANTIATE_TEST_SUITE_P(Regressions, ObjectiveContract, ::testing::ValuesIn(RegressionCases()),
                         ObjectiveContract::Name);
INSTANTIATE_TEST_SUITE_P(Functions, ObjectiveContract, ::testing::ValuesIn(FunctionCases()), ObjectiveContract::Name);

TEST(ObjectiveContractTest, EveryObjectiveIsHeldToIt) {
  std::set<std::string> held, all;
  for (const auto& cases :
       {LinearCases(), ChainCases(), RegressionCases(), MatrixCases(), VfIdcaCases(), FunctionCases()}) {
    for (const ObjectiveCase& c : cases) held.insert(c.objective.model);
  }
  for (const catalogue::ObjectiveInfo& info : catalogue::Objectives()) all.insert(info.model);
  EXPECT_EQ(held, all);
}

}  // namespace
}  // namespace luthier::objectives
