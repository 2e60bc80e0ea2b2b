#include "lib/catalogue/vf_idca_info.h"

#include <string>
#include <utility>

#include "lib/catalogue/parameter_info.h"

namespace luthier::catalogue {
namespace {

constexpr char kMethod[] =
    " One trial chooses them all, by the value-function difference-of-convex algorithm (Gao et al. 2022), on rows "
    "split off once; its curve is the path of the steps. validation_loss is that of the best refit, a model of the "
    "training rows alone at the strengths found; iterate_loss is that of the algorithm's own weights, which have seen "
    "the validation rows. Targets are scaled by their deviation inside, and results are in their units.";

void AddCommon(ObjectiveInfo* info) {
  ParameterInfo start = MakeNumber(
      "start", ParameterKind::kFloat,
      "Where the last of the starts is: at the bounds of the model whose L1 strength is this share of the least that "
      "leaves no weight.",
      0.003, true, 1e-6, 1.0);
  start.suggested_min = 1e-3;
  start.suggested_scale = study::Scale::kLog;
  info->parameters.push_back(std::move(start));
  info->parameters.push_back(MakeNumber("starts", ParameterKind::kInt,
                                        "Number of starts, from models with next to no weights down to `start`. The "
                                        "best refit of all steps of all of them is the result.",
                                        8.0, true, 1.0, 1000.0));
  ParameterInfo tolerance =
      MakeNumber("tolerance", ParameterKind::kFloat,
                 "Ends where a step's relative length and the violation of the constraints, in units of the targets' "
                 "variance, are less than this.",
                 1e-2, true, 1e-6, 1.0);
  tolerance.suggested_scale = study::Scale::kLog;
  info->parameters.push_back(std::move(tolerance));
  info->parameters.push_back(MakeNumber("max_steps", ParameterKind::kInt,
                                        "A start ends after so many steps even if not there.", 100.0, false, 1.0, 1e5));
  AddRowSwitches(info, "Adds a constant term, which is not penalised.");
  info->parameters.push_back(MakeNumber("max_memory_mib", ParameterKind::kInt,
                                        "Limit for the Gram matrices of the columns.", 4096.0, false, 1.0, 1 << 20));
  AddReadOptions(info, "targets");
  info->metrics.push_back({"validation_loss", study::Goal::kMinimize,
                           "Mean squared error of the held-out rows by the refit, which has not seen them.", false});
  info->metrics.push_back({"validation_r2", study::Goal::kMaximize,
                           "Share of the held-out targets' variance that the refit explains; at most 1.", false});
  info->metrics.push_back(
      {"train_loss", study::Goal::kMinimize, "Mean squared error of the training rows by the refit.", false});
  info->metrics.push_back({"iterate_loss", study::Goal::kMinimize,
                           "Mean squared error of the held-out rows by the algorithm's weights, which have seen them.",
                           false});
  info->metrics.push_back({"l1", study::Goal::kMinimize, "The L1 strength found; that of elastic_net.", false});
  info->metrics.push_back({"nonzero", study::Goal::kMinimize, "Weights of the refit that are not 0.", false});
  info->metrics.push_back(
      {"violation", study::Goal::kMinimize, "Violation of the constraints by the last step.", false});
  info->needs_data = true;
  info->data_example = "synth:regression?rows=300&cols=100";
  info->data_formats =
      "A CSV, LIBSVM or IDX file below the worker's --data-root whose labels are numbers, plain, .gz or .xz, or "
      "generated: synth:regression?rows=300&cols=100&noise=0.5&waves=0&seed=1. Split by share (split.validation), from "
      "split.seed, by split.group_column or by split.time_column; not into folds.";
}

}  // namespace

bool IsVfIdca(const ObjectiveInfo& info) {
  return info.model == "vf_elastic_net" || info.model == "vf_sparse_group_lasso" ||
         info.model == "vf_matrix_completion" || info.model == "vf_svm";
}

ObjectiveInfo VfElasticNetInfo() {
  ObjectiveInfo info;
  info.model = "vf_elastic_net";
  info.description = "Chooses both strengths of the elastic net in one trial, by VF-iDCA";
  info.details = std::string("The l1 and l2 of objective elastic_net, with which its model can be trained.") + kMethod;
  AddCommon(&info);
  info.metrics.push_back({"l2", study::Goal::kMinimize, "The L2 strength found; that of elastic_net.", false});
  return info;
}

ObjectiveInfo VfSparseGroupLassoInfo() {
  ObjectiveInfo info;
  info.model = "vf_sparse_group_lasso";
  info.description = "Chooses a strength for each group of columns and for the L1 norm in one trial, by VF-iDCA";
  info.details = std::string(
                     "Half the sum over training rows of squared errors plus l1 times the sum of the weights' absolute "
                     "values plus, for each group of columns, its strength times the Euclidean norm of its weights.") +
                 kMethod +
                 " The strengths of the first 20 groups are in the trial's note; `luthier bilevel` shows all.";
  info.parameters.push_back(
      Make("groups", ParameterKind::kText,
           "Groups of columns, \"shape: mean_* worst_*; flags: 11-20 25\": columns by name, with a star or by number "
           "from 1, at most 100 groups. Columns of no group make one more, `rest`.",
           std::string(), false));
  info.parameters.push_back(MakeNumber("group_size", ParameterKind::kInt,
                                       "Without groups: each so many consecutive columns are one.", 10.0, false, 1.0,
                                       1e6));
  AddCommon(&info);
  return info;
}

ObjectiveInfo VfSvmInfo() {
  ObjectiveInfo info;
  info.model = "vf_svm";
  info.description = "Chooses a bound for each weight of a support vector machine in one trial, by VF-iDCA";
  info.details =
      "Minimises the mean hinge loss of the training rows plus l2/2 times the squared norm of the weights w, which are "
      "bounded one by one, |w_j| <= bound_j; two classes, the constant term is neither bounded nor penalised. One "
      "trial chooses l2 and all bounds, by the value-function difference-of-convex algorithm (Gao et al. 2022), with a "
      "model for each fold; its curve is the path of the steps. validation_loss is that of the best refit: models of "
      "the training rows alone, under the bounds found. The bounds of the first 20 columns are in the trial's note; "
      "`luthier bilevel` shows all.";
  ParameterInfo start = MakeNumber("start", ParameterKind::kFloat, "The first bound of each weight at the first start.",
                                   0.003, true, 1e-6, 1.0);
  start.suggested_scale = study::Scale::kLog;
  info.parameters.push_back(std::move(start));
  info.parameters.push_back(MakeNumber("starts", ParameterKind::kInt,
                                       "Number of starts, with first bounds from `start` up to 1. The best refit of "
                                       "all steps of all of them is the result.",
                                       5.0, true, 1.0, 1000.0));
  ParameterInfo tolerance =
      MakeNumber("tolerance", ParameterKind::kFloat,
                 "Ends where a step's relative length and the violation of the constraints are less than this.", 1e-2,
                 true, 1e-6, 1.0);
  tolerance.suggested_scale = study::Scale::kLog;
  info.parameters.push_back(std::move(tolerance));
  info.parameters.push_back(MakeNumber("max_steps", ParameterKind::kInt, "Ends after so many steps even if not there.",
                                       100.0, false, 1.0, 1e5));
  info.parameters.push_back(Make("standardize", ParameterKind::kBool,
                                 "Scales columns to mean 0 and deviation 1, computed from training rows only.", true,
                                 true));
  AddReadOptions(&info, "classes");
  info.metrics.push_back({"validation_loss", study::Goal::kMinimize,
                          "Mean hinge loss of held-out rows by the refit; over all folds.", false});
  info.metrics.push_back({"validation_accuracy", study::Goal::kMaximize,
                          "Share of held-out rows that the refit classifies correctly.", false});
  info.metrics.push_back(
      {"train_loss", study::Goal::kMinimize, "Mean hinge loss of the training rows by the refit.", false});
  info.metrics.push_back({"iterate_loss", study::Goal::kMinimize,
                          "Mean hinge loss of held-out rows by the algorithm's weights, which have seen them.", false});
  info.metrics.push_back({"l2", study::Goal::kMinimize, "The strength of the weights' norm found.", false});
  info.metrics.push_back(
      {"nonzero", study::Goal::kMinimize, "Columns whose bound is a thousandth of the largest or more.", false});
  info.metrics.push_back(
      {"violation", study::Goal::kMinimize, "Violation of the constraints by the last step.", false});
  info.needs_data = true;
  info.data_example = "synth:logistic?rows=300&cols=20";
  info.data_formats =
      "A CSV, LIBSVM or IDX file below the worker's --data-root with two classes, plain, .gz or .xz, or generated: "
      "synth:logistic?rows=300&cols=20. Up to 800 columns with one split, 400 with three folds.";
  return info;
}

}  // namespace luthier::catalogue
