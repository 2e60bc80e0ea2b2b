#include "lib/catalogue/linear_info.h"

#include <string>
#include <utility>
#include <vector>

#include "lib/catalogue/parameter_info.h"
#include "lib/study/warm_start.h"

namespace luthier::catalogue {

namespace {

void AddStrengths(ObjectiveInfo* info) {
  ParameterInfo l2 = MakeL2(1e10, 1e4);
  l2.differentiable = true;
  l2.vector = true;
  l2.description +=
      " A list, or a vector parameter (count), holds one strength for each column, class or weight: l2_per says which.";
  info->parameters.push_back(std::move(l2));
  info->parameters.push_back(
      MakeChoice("l2_per",
                 "What the entries of a list l2 are for. column: one a column of the data, and a last one for a "
                 "penalised intercept. class, weight: with more than two classes, one a class, or one for each weight, "
                 "those of the first column's classes first.",
                 {"column", "class", "weight"}, false));
  info->parameters.push_back(
      Make("l2_groups", ParameterKind::kText,
           "Groups of columns with strengths of their own, \"shape: mean_* worst_*; flags: 11-20 "
           "25\": columns by name, with a star or by number from 1. Each group makes a "
           "parameter l2.NAME, required as l2 is, with a gradient; l2 is the strength of all "
           "other columns, and of a penalised intercept.",
           std::string(), false));
}

void AddLogisticMetrics(ObjectiveInfo* info) {
  info->metrics.push_back({"validation_loss", study::Goal::kMinimize,
                           "Mean logistic loss (nats) of held-out rows; over all folds' rows with folds.", true});
  info->metrics.push_back(
      {"validation_accuracy", study::Goal::kMaximize, "Share of held-out rows classified right.", false});
  info->metrics.push_back({"train_loss", study::Goal::kMinimize,
                           "Mean logistic loss (nats) of the training rows, penalty excluded.", false});
}

}  // namespace

ObjectiveInfo LogisticInfo() {
  ObjectiveInfo info;
  info.model = "logistic";
  info.description = "L2 logistic regression (two or more classes): tunes its strength on held-out rows or over folds";
  info.details =
      "Minimises the sum over training rows of the logistic loss plus l2/2 times the squared norm of the weights "
      "(intercepts excluded, unless penalize_intercept), and scores the result on rows it has not seen: one split, or "
      "the rows of all folds. The sum, not the mean: l2 is 1/C of scikit-learn and LIBLINEAR. The derivative of "
      "validation_loss with respect to l2 comes with the result; it is exact (implicit differentiation), per unit of "
      "l2 "
      "itself, also when the study searches l2 on a log scale. Groups of columns may have strengths of their own "
      "(l2_groups). Intermediate reports count passes over the training rows, whatever the solver: a loss, a gradient "
      "or a product with the Hessian of all rows is one.";
  AddStrengths(&info);
  AddRowSwitches(&info,
                 "Adds a constant term. Without it, or with penalize_intercept, the gradient carries a proven error "
                 "bound.");
  info.parameters.push_back(
      MakeChoice("solver",
                 "Training algorithm; all find the same optimum. auto: by rows, columns, density, spread of the rows' "
                 "norms; the trial says which and why. dual and svrg are for two classes.",
                 {"auto", "lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}, true));
  info.parameters.push_back(
      MakeNumber("max_iterations", ParameterKind::kInt,
                 "Training ends after so many iterations even if not converged; the result then has "
                 "no gradient.",
                 1000.0, true, 1.0, 1e6));
  info.parameters.back().suggested_min = 10.0;
  info.parameters.back().suggested_max = 1000.0;
  info.parameters.back().suggested_scale = study::Scale::kLog;
  info.parameters.push_back(
      MakeNumber("tolerance", ParameterKind::kFloat,
                 "Training has converged when the largest gradient entry is at most this times the "
                 "one at zero weights.",
                 1e-8, false, 0.0, 0.1));
  info.parameters.push_back(Make("penalize_intercept", ParameterKind::kBool,
                                 "Penalises the constant term as a weight: that of a constant feature 1, as LIBLINEAR "
                                 "has it. Two classes only.",
                                 false, false));
  info.parameters.push_back(MakeChoice("svrg_batch",
                                       "solver svrg: rows of the exact gradient of an epoch: 1, 2, 4, ... (grow), all "
                                       "(full), or as grow with plain steps for rows outside (mixed).",
                                       {"grow", "full", "mixed"}, true));
  info.parameters.push_back(MakeChoice("svrg_sampling",
                                       "solver svrg: half of the draws by the squared norms of the rows, or all rows "
                                       "alike. norms is much faster where they differ.",
                                       {"norms", "uniform"}, true));
  info.parameters.push_back(Make("svrg_skip", ParameterKind::kBool,
                                 "solver svrg: rows found without gradient three times in a row rest for a while. For "
                                 "losses that are 0 somewhere.",
                                 false, true));
  AddUnroll(&info);
  info.parameters.push_back(Make(study::kWarmStartOption, ParameterKind::kBool,
                                 "Training starts from the model of the nearest earlier trial that differs in "
                                 "strengths alone. Results then depend on it, up to the tolerance. Not with resource, "
                                 "stopping or reproducible.",
                                 false, false));
  AddGradientOption(&info);
  info.parameters.push_back(
      MakeNumber("threads", ParameterKind::kInt,
                 "Threads of one fold's training, for data of a million numbers and more in a worker of one slot. They "
                 "change no bit of the result. Two classes only; the steps of dual and svrg take one.",
                 1.0, false, 1.0, 256.0));
  info.parameters.push_back(
      MakeNumber("report_every", ParameterKind::kInt, "Passes between intermediate reports.", 5.0, false, 1.0, 1e6));
  info.parameters.push_back(
      MakeNumber("checkpoint_every", ParameterKind::kInt, "Passes between checkpoints.", 25.0, false, 1.0, 1e6));
  info.parameters.push_back(MakeNumber("max_memory_mib", ParameterKind::kInt,
                                       "Limit for the solver's vectors of weights, of each fold.", 4096.0, false, 1.0,
                                       1 << 20));
  AddReadOptions(&info, "classes");
  AddLogisticMetrics(&info);
  info.needs_data = true;
  info.data_example = "synth:logistic?rows=500&cols=20";
  info.data_formats =
      "A CSV, LIBSVM or IDX file below the worker's --data-root, plain, .gz or .xz, or generated: "
      "synth:logistic?rows=500&cols=20&classes=2&seed=1&noise=0.1, synth:images?rows=500&side=28&classes=10. Split by "
      "share (split.validation) or into folds (split.folds), stratified by class, from split.seed.";
  return info;
}

ObjectiveInfo HsvmInfo() {
  ObjectiveInfo info = LogisticInfo();  // Data, split, penalty, limits and metrics are the same.
  info.model = "hsvm";
  info.description = "Support vector machine with the Huberized hinge loss (two classes): tunes its strength";
  info.details =
      "Minimises the sum over training rows of the Huberized hinge loss plus l2/2 times the squared norm of weights "
      "and "
      "intercept, and scores the result on rows it has not seen. The derivative of validation_loss with respect to l2 "
      "comes with the result, exact wherever the weights are a smooth function of l2. Intermediate reports count "
      "passes "
      "over the training rows, whatever the solver: a loss, a gradient or a product with the Hessian of all rows is "
      "one.";
  std::erase_if(info.parameters, [](const ParameterInfo& p) { return p.name == "penalize_intercept"; });
  for (ParameterInfo& p : info.parameters) {
    if (p.name == "intercept") p.description = "Adds a constant feature 1, penalised like the others.";
    if (p.name == "l2_per") {
      p.description = "What the entries of a list l2 are for: columns of the data, and a last one for the intercept.";
      p.labels = {"column"};
    }
    if (p.name == "solver") {
      p.description =
          "Training algorithm; all find the same optimum. auto: by rows, columns, density, spread of the rows' norms; "
          "the trial says which and why.";
    }
    if (p.name == "svrg_skip") p.default_value = true;
  }
  ParameterInfo epsilon;
  epsilon.name = "epsilon";
  epsilon.kind = ParameterKind::kFloat;
  epsilon.description = "Half the width of the loss's quadratic part.";
  epsilon.min = epsilon.suggested_min = 1e-3;
  epsilon.max = epsilon.suggested_max = 10.0;
  epsilon.suggested_scale = study::Scale::kLog;
  epsilon.default_value = 0.5;
  epsilon.tunable = false;
  info.parameters.insert(info.parameters.begin() + 1, epsilon);
  for (MetricInfo& m : info.metrics) {
    if (m.name == "validation_loss") m.description = "Mean Huberized hinge loss of held-out rows, of all folds.";
    if (m.name == "train_loss") m.description = "Mean Huberized hinge loss of the training rows, penalty excluded.";
  }
  return info;
}

}  // namespace luthier::catalogue
