#include "lib/catalogue/matrix_info.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/parameter_info.h"

namespace luthier::catalogue {
namespace {

constexpr char kModel[] =
    "Completes a matrix of which some entries are known: ratings of items by users, say. Each row of the data is one "
    "entry: the numbers of its row and its column, features of it, and its value. It predicts f'w + G_ij, and "
    "minimises half the sum over training entries of squared errors plus nuclear times the nuclear norm of G (the sum "
    "of its "
    "singular values, which makes its rank low) plus, for each group of features, a strength times the Euclidean norm "
    "of their weights.";

void AddMatrixOptions(ObjectiveInfo* info) {
  for (const auto& [name, which] : {std::pair<const char*, const char*>{"row", "first"}, {"column", "second"}}) {
    info->parameters.push_back(
        Make(name, ParameterKind::kText,
             absl::StrCat("The column of the data that has the number of an entry's ", name,
                          ", by name or by number from 1; the ", which, " one if this is empty."),
             std::string(), false));
  }
  info->parameters.push_back(
      Make("groups", ParameterKind::kText,
           "Groups of features, \"age: age_*; genre: 7-12\": columns by name, with a star or by number from 1, at most "
           "100 groups. Features of no group make one more, `rest`.",
           std::string(), false));
  info->parameters.push_back(MakeNumber("group_size", ParameterKind::kInt,
                                        "Without groups: each so many consecutive features are one.", 1.0, false, 1.0,
                                        1e6));
  AddRowSwitches(info, "Takes values relative to their mean over the training entries.");
}

void AddMatrixMetrics(ObjectiveInfo* info) {
  info->metrics.push_back(
      {"validation_loss", study::Goal::kMinimize, "Mean squared error of held-out entries.", false});
  info->metrics.push_back({"validation_r2", study::Goal::kMaximize,
                           "Share of the held-out values' variance that predictions explain; at most 1.", false});
  info->metrics.push_back({"train_loss", study::Goal::kMinimize, "Mean squared error of the training entries.", false});
  info->metrics.push_back({"rank", study::Goal::kMinimize, "Rank of G, up to rounding.", false});
  info->needs_data = true;
  info->data_example = "synth:matrix?rows=40&cols=30&known=400";
  info->data_formats =
      "A CSV file below the worker's --data-root, plain, .gz or .xz, with one known entry a line; or generated: "
      "synth:matrix?rows=40&cols=30&known=400&rank=2&features=4&noise=0.3&seed=1. Numbers of rows and columns may be "
      "any numbers: equal ones are one row.";
}

}  // namespace

ObjectiveInfo MatrixCompletionInfo() {
  ObjectiveInfo info;
  info.model = "matrix_completion";
  info.description = "Low-rank matrix completion with side features: tunes the strength of the nuclear norm";
  info.details = absl::StrCat(kModel, " Trained by accelerated proximal steps until the duality gap proves it; up to ",
                              kMostMatrixCells, " rows times columns. It has no derivatives.");
  ParameterInfo nuclear = MakeL2(1e10, 1e4);
  nuclear.name = "nuclear";
  nuclear.description = "Strength of the nuclear norm: the larger, the lower the rank. Search it on a log scale.";
  nuclear.units = "squared value per singular value";
  info.parameters.push_back(std::move(nuclear));
  ParameterInfo group = MakeL2(1e10, 1e4);
  group.name = "group";
  group.description =
      "Strength of each group's norm: the larger, the fewer groups have weights. Search it on a log scale.";
  group.units = "squared value per weight";
  group.default_value = 1.0;
  info.parameters.push_back(std::move(group));
  AddMatrixOptions(&info);
  info.parameters.push_back(MakeNumber("tolerance", ParameterKind::kFloat,
                                       "Training has converged when the duality gap, a bound on what more training "
                                       "could gain, is at most this times the objective plus the values' variance.",
                                       1e-6, false, 0.0, 0.1));
  info.parameters.push_back(MakeNumber("max_iterations", ParameterKind::kInt,
                                       "Training ends after so many steps even if not converged.", 5000.0, false, 1.0,
                                       1e6));
  AddReadOptions(&info, "values");
  AddMatrixMetrics(&info);
  info.data_formats += " Split as regressions are.";
  return info;
}

ObjectiveInfo VfMatrixCompletionInfo() {
  ObjectiveInfo info;
  info.model = "vf_matrix_completion";
  info.description = "Chooses all strengths of a low-rank matrix completion in one trial, by VF-iDCA";
  info.details = absl::StrCat(
      kModel,
      " One trial chooses all strengths, by the value-function difference-of-convex algorithm (Gao et al. 2022), on "
      "entries split off once; its curve is the path of the steps. validation_loss is that of the best refit, a model "
      "of the training entries alone at the strengths found. Up to ",
      kMostMatrixSides, " rows plus columns; beyond that tune matrix_completion.");
  AddMatrixOptions(&info);
  ParameterInfo start = MakeNumber("start", ParameterKind::kFloat,
                                   "The first bound of the nuclear norm, as a share of the root of rows times columns "
                                   "in units of the values' deviation; a tenth of it bounds each group.",
                                   0.02, true, 1e-6, 0.5);
  start.suggested_scale = study::Scale::kLog;
  info.parameters.push_back(std::move(start));
  info.parameters.push_back(MakeNumber("tolerance", ParameterKind::kFloat,
                                       "Ends where a step's relative length and the violation of the constraints are "
                                       "less than this.",
                                       2e-3, true, 1e-6, 1.0));
  info.parameters.push_back(MakeNumber("max_steps", ParameterKind::kInt, "Ends after so many steps even if not there.",
                                       200.0, false, 1.0, 1e5));
  AddReadOptions(&info, "values");
  AddMatrixMetrics(&info);
  info.metrics.push_back({"iterate_loss", study::Goal::kMinimize,
                          "Mean squared error of the held-out entries by the algorithm's own model, which has seen "
                          "them.",
                          false});
  info.metrics.push_back(
      {"nuclear", study::Goal::kMinimize, "The strength of the nuclear norm found; that of matrix_completion.", false});
  info.metrics.push_back(
      {"violation", study::Goal::kMinimize, "Violation of the constraints by the last step.", false});
  info.data_formats += " Split by share (split.validation), not into folds.";
  return info;
}

}  // namespace luthier::catalogue
