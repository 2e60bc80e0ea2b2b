#include "lib/catalogue/regression_info.h"

#include <string>
#include <utility>
#include <vector>

#include "lib/catalogue/parameter_info.h"

namespace luthier::catalogue {
namespace {

// Adds the options that end training. The arguments say when training has converged, what max_iterations counts, and
// what the memory is for.
void AddTrainingOptions(ObjectiveInfo* info, std::string converged, const std::string& counted, std::string memory,
                        double tolerance = 1e-10) {
  info->parameters.push_back(
      MakeNumber("tolerance", ParameterKind::kFloat, std::move(converged), tolerance, false, 0.0, 0.1));
  info->parameters.push_back(MakeNumber("max_iterations", ParameterKind::kInt,
                                        counted + " even if not converged; the result then has no gradient.", 10000.0,
                                        false, 1.0, 1e6));
  info->parameters.push_back(
      MakeNumber("max_memory_mib", ParameterKind::kInt, std::move(memory), 4096.0, false, 1.0, 1 << 20));
}

enum class Training { kLinearSystem, kCoordinates, kNetwork };

// Adds the settings that all of them have, behind their own parameters.
void AddCommon(ObjectiveInfo* info, Training training) {
  AddRowSwitches(info, training == Training::kNetwork
                           ? "Takes targets relative to their mean. The network has constant terms in any case."
                           : "Adds a constant term, which is not penalised.");
  if (training == Training::kLinearSystem) AddUnroll(info);
  AddGradientOption(info);
  if (training == Training::kNetwork) {
    AddTrainingOptions(info,
                       "Training has converged when the gradient's norm is at most this times the one at the random "
                       "start.",
                       "Training ends after so many iterations of L-BFGS",
                       "Limit for each fold's rows, which are kept dense.", 1e-9);
  } else if (training == Training::kLinearSystem) {
    AddTrainingOptions(info,
                       "Conjugate gradients have converged when the gradient's norm is at most this times the one at "
                       "zero weights.",
                       "Conjugate gradients end after so many iterations",
                       "Limit for the matrices of each fold. Where ridge's would need more, it is solved by conjugate "
                       "gradients.");
  } else {
    AddTrainingOptions(info,
                       "Training has converged when the duality gap, a bound on what more training could gain, is at "
                       "most this times the objective at zero weights.",
                       "Training ends after so many sweeps over the columns",
                       "Limit for a dense copy of each fold's columns. Where it would need more, training reads sparse "
                       "columns.");
  }
  AddReadOptions(info, "targets");
  info->metrics.push_back({"validation_loss", study::Goal::kMinimize,
                           "Mean squared error of held-out rows; over all folds' rows with folds.", true});
  info->metrics.push_back({"validation_r2", study::Goal::kMaximize,
                           "Share of the held-out targets' variance that predictions explain; at most 1.", false});
  info->metrics.push_back(
      {"train_loss", study::Goal::kMinimize, "Mean squared error of the training rows, penalty excluded.", false});
  info->needs_data = true;
  info->data_example = "synth:regression?rows=500&cols=20";
  info->data_formats =
      "A CSV, LIBSVM or IDX file below the worker's --data-root whose labels are numbers, plain, .gz or .xz, or "
      "generated: synth:regression?rows=500&cols=20&noise=0.5&waves=0&seed=1. Split by share (split.validation) or "
      "into folds (split.folds), from split.seed, by split.group_column or by split.time_column.";
}

}  // namespace

bool IsRegression(const ObjectiveInfo& info) {
  return info.model == "ridge" || info.model == "kernel_ridge" || info.model == "elastic_net" || info.model == "mlp";
}

bool JudgesTrainingRows(const study::Parameters& options) {
  const auto found = options.find(kCriterionOption);
  if (found == options.end()) return false;
  const auto* text = std::get_if<std::string>(&found->second);
  return text != nullptr && *text != "validation";
}

ObjectiveInfo RidgeInfo() {
  ObjectiveInfo info;
  info.model = "ridge";
  info.description = "Ridge regression: tunes its strength, or one for each column, on held-out rows or over folds";
  info.details =
      "Minimises half the sum over training rows of squared errors plus l2/2 times the squared norm of the weights "
      "(intercept excluded), and scores the mean squared error of rows it has not seen. The sum, not the mean: l2 is "
      "alpha of scikit-learn's Ridge. Up to 3,000 columns by Cholesky's factor, beyond by conjugate gradients. The "
      "derivatives of validation_loss by the strengths come with the result, exact, per unit of l2 itself, with a "
      "proven error bound.";
  ParameterInfo l2 = MakeL2(1e10, 1e4);
  l2.differentiable = true;
  l2.vector = true;
  l2.units = "squared target per squared weight";
  l2.description += " A list, or a vector parameter (count), holds one strength for each column.";
  info.parameters.push_back(std::move(l2));
  info.parameters.push_back(Make("l2_groups", ParameterKind::kText,
                                 "Groups of columns with strengths of their own, \"shape: mean_* worst_*; flags: 11-20 "
                                 "25\": columns by name, with a star or by number from 1. Each group makes a "
                                 "parameter l2.NAME, required as l2 is, with a gradient; l2 is the strength of all "
                                 "other columns.",
                                 std::string(), false));
  ParameterInfo recency =
      MakeNumber(kRecencyOption, ParameterKind::kFloat,
                 "For series that change: rows are weighted by 1 / (1 + exp(-recency (time - recency_center))), times "
                 "from 0 to 1 over the training rows, in the order of split.time_column. Absent: all rows weigh the "
                 "same.",
                 1.0, true, 1e-3, 1e3);
  recency.default_value.reset();
  recency.optional = true;
  recency.suggested_min = 0.1;
  recency.suggested_max = 100.0;
  recency.suggested_scale = study::Scale::kLog;
  recency.differentiable = true;
  info.parameters.push_back(std::move(recency));
  ParameterInfo center = MakeNumber("recency_center", ParameterKind::kFloat,
                                    "With recency: the time whose rows weigh half of the most.", 0.5, true, 0.0, 0.95);
  center.differentiable = true;
  info.parameters.push_back(std::move(center));
  info.parameters.push_back(MakeChoice(
      kCriterionOption,
      "What validation_loss is. validation: the error of held-out rows. leave_one_out: every row is trained on and is "
      "predicted by the model without it, computed exactly from one fit. gcv: generalized cross-validation, which "
      "replaces each row's leverage by their mean. The latter two set no rows apart but the third set's, and take up "
      "to 3,000 columns.",
      {"validation", "leave_one_out", "gcv"}, false));
  info.parameters.push_back(Make(kTargetsOption, ParameterKind::kText,
                                 "Names of further columns to predict beside the label, \"motor_UPDRS, jitter\". They "
                                 "are then no features, share the strengths, and cost little: one factor serves all. "
                                 "Losses are means over rows and targets, as they are in the file: scale targets of "
                                 "different units. Up to 3,000 columns; CSV with a header.",
                                 std::string(), false));
  AddCommon(&info, Training::kLinearSystem);
  return info;
}

ObjectiveInfo KernelRidgeInfo() {
  ObjectiveInfo info;
  info.model = "kernel_ridge";
  info.description = "Kernel ridge regression with a Gaussian kernel: tunes its width, or one a column, and strength";
  info.details =
      "Predicts sum_k c_k exp(-gamma |x - x_k|^2) over the training rows x_k, where (K + l2 I) c is the targets minus "
      "their mean: gamma and l2 are gamma and alpha of scikit-learn's KernelRidge. Scores the mean squared error of "
      "rows it has not seen. Up to 4,000 training rows by Cholesky's factor, beyond by conjugate gradients; memory "
      "grows with their square. The derivatives of validation_loss by gamma and l2 come with the result, exact, per "
      "unit of the parameters themselves, with a proven error bound.";
  ParameterInfo gamma = MakeL2(1e10, 1e4);
  gamma.name = "gamma";
  gamma.units = "per squared unit of a feature";
  gamma.description =
      "Inverse squared width of the kernel, about 1/columns for standardized features. Search it on a log scale. A "
      "list, or a vector parameter (count), holds one for each column (automatic relevance determination).";
  gamma.suggested_min = 1e-5;
  gamma.suggested_max = 1e2;
  gamma.differentiable = true;
  gamma.vector = true;
  info.parameters.push_back(std::move(gamma));
  ParameterInfo l2 = MakeL2(1e10, 1e4);
  l2.differentiable = true;
  l2.units = "";
  l2.description = "Strength of the penalty: what is added to the kernel matrix' diagonal. Search it on a log scale.";
  info.parameters.push_back(std::move(l2));
  AddCommon(&info, Training::kLinearSystem);
  return info;
}

ObjectiveInfo ElasticNetInfo() {
  ObjectiveInfo info;
  info.model = "elastic_net";
  info.description = "Elastic net and lasso: tunes both strengths of a sparse linear regression";
  info.details =
      "Minimises half the sum over training rows of squared errors plus l1 times the sum of the weights' absolute "
      "values plus l2/2 times their squared norm (intercept excluded), and scores the mean squared error of rows it "
      "has not seen. Sums, not means: with n training rows, l1 and l2 are n alpha l1_ratio and n alpha (1 - l1_ratio) "
      "of scikit-learn's ElasticNet, and l2 is that of ridge. Most weights are exactly 0. Trained by coordinate "
      "descent and active sets until the duality gap proves it. The derivatives of validation_loss by l1 and l2 come "
      "with the "
      "result; they jump where a column gets or loses its weight, and a result near such a point says so.";
  ParameterInfo l1 = MakeL2(1e10, 1e4);
  l1.name = "l1";
  l1.description = "Strength of the L1 penalty: the larger, the fewer weights differ from 0. Search it on a log scale.";
  l1.units = "squared target per weight";
  l1.differentiable = true;
  info.parameters.push_back(std::move(l1));
  ParameterInfo l2 = MakeL2(1e10, 1e4);
  l2.description = "Strength of the L2 penalty; 0, the default, is the lasso. Search it on a log scale.";
  l2.units = "squared target per squared weight";
  l2.default_value = 0.0;
  l2.min = 0.0;
  l2.differentiable = true;
  info.parameters.push_back(std::move(l2));
  AddCommon(&info, Training::kCoordinates);
  info.metrics.push_back({"nonzero", study::Goal::kMinimize, "Weights that are not 0; the mean over folds.", false});
  return info;
}

ObjectiveInfo MlpInfo() {
  ObjectiveInfo info;
  info.model = "mlp";
  info.description = "A small neural network for regression: tunes a weight decay for each input";
  info.details =
      "Predicts v'tanh(W x + b) + v0 with a hidden layer of `units`. Minimises half the sum over training rows of "
      "squared errors plus l2_j/2 times the squared norm of the weights of input j, for each input, plus l2_out/2 "
      "times that of v, and scores the mean squared error of rows it has not seen. Trained by L-BFGS and Newton's "
      "steps from "
      "one random start, init_seed. The derivatives of validation_loss by the strengths come with the result where "
      "training ended at a minimum, without a proven error bound: training is not convex, and a trial whose Hessian is "
      "singular or has negative curvature says so and has none.";
  ParameterInfo l2 = MakeL2(1e10, 1e4);
  l2.differentiable = true;
  l2.vector = true;
  l2.units = "squared target per squared weight";
  l2.description += " A list, or a vector parameter (count), holds one strength for each input.";
  info.parameters.push_back(std::move(l2));
  info.parameters.push_back(Make("l2_groups", ParameterKind::kText,
                                 "Groups of inputs with strengths of their own, \"shape: mean_* worst_*; flags: 11-20 "
                                 "25\": columns by name, with a star or by number from 1. Each group makes a "
                                 "parameter l2.NAME, required as l2 is, with a gradient; l2 is the strength of all "
                                 "other inputs.",
                                 std::string(), false));
  ParameterInfo out = MakeL2(1e10, 1e4);
  out.name = "l2_out";
  out.units = "squared target per squared weight";
  out.description = "Strength of the penalty of the output layer. Search it on a log scale.";
  out.default_value = 0.01;
  info.parameters.push_back(std::move(out));
  ParameterInfo units = MakeNumber("units", ParameterKind::kInt, "Units of the hidden layer.", 8.0, true, 1.0, 1000.0);
  units.suggested_max = 64.0;
  units.suggested_scale = study::Scale::kLog;
  info.parameters.push_back(std::move(units));
  info.parameters.push_back(MakeNumber("init_seed", ParameterKind::kInt,
                                       "Of the random start. Starts end in different minima: trials with gradients "
                                       "should share one.",
                                       1.0, true, 0.0, 1e9));
  AddCommon(&info, Training::kNetwork);
  return info;
}

}  // namespace luthier::catalogue
