#include "lib/catalogue/parameter_info.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace luthier::catalogue {

ParameterInfo Make(std::string name, ParameterKind kind, std::string description, study::ParameterValue default_value,
                   bool tunable) {
  ParameterInfo p;
  p.name = std::move(name);
  p.kind = kind;
  p.description = std::move(description);
  p.default_value = std::move(default_value);
  p.tunable = tunable;
  return p;
}

ParameterInfo MakeNumber(std::string name, ParameterKind kind, std::string description, double default_value,
                         bool tunable, double min, double max) {
  ParameterInfo p = Make(std::move(name), kind, std::move(description), default_value, tunable);
  p.min = min;
  p.max = max;
  p.suggested_min = min;
  p.suggested_max = max;
  return p;
}

ParameterInfo MakeL2(double most, double usual) {
  ParameterInfo l2 = MakeNumber("l2", ParameterKind::kFloat, "Strength of the L2 penalty. Search it on a log scale.",
                                1.0, true, 1.0 / most, most);
  l2.default_value.reset();
  l2.suggested_min = 1.0 / usual;
  l2.suggested_max = usual;
  l2.suggested_scale = study::Scale::kLog;
  l2.units = "nats per squared weight";
  return l2;
}

void AddUnroll(ObjectiveInfo* info) {
  info->parameters.push_back(MakeChoice(
      "unroll",
      "Trains by exactly unroll_steps steps of this method from zero, and differentiates these steps instead of the "
      "optimum (iterative differentiation). Absent: training to the optimum.",
      {"gradient_descent", "heavy_ball", "lbfgs"}, false));
  info->parameters.back().default_value.reset();
  info->parameters.back().optional = true;
  info->parameters.push_back(
      MakeNumber("unroll_steps", ParameterKind::kInt, "Steps of unroll.", 100.0, false, 1.0, 1e5));
}

void AddRowSwitches(ObjectiveInfo* info, std::string intercept) {
  info->parameters.push_back(Make("intercept", ParameterKind::kBool, std::move(intercept), true, true));
  info->parameters.push_back(Make("standardize", ParameterKind::kBool,
                                  "Scales features to mean 0 and deviation 1, computed from training rows only.", true,
                                  true));
}

void AddGradientOption(ObjectiveInfo* info) {
  info->parameters.push_back(Make("gradient", ParameterKind::kBool,
                                  "Whether to compute the derivatives of validation_loss. Absent: where the search can "
                                  "use them.",
                                  true, false));
  info->parameters.back().default_value.reset();
  info->parameters.back().optional = true;
}

void AddReadOptions(ObjectiveInfo* info, const std::string& label) {
  info->parameters.push_back(MakeChoice("format", "Format of the data file; auto: by extension, then by content.",
                                        {"auto", "csv", "libsvm", "idx"}, false));
  info->parameters.push_back(
      MakeChoice("header", "CSV: whether the first line names the columns; auto: when a feature in it is not a number.",
                 {"auto", "yes", "no"}, false));
  info->parameters.push_back(Make("label", ParameterKind::kText,
                                  absl::StrCat("CSV: name of the column with the ", label, "; empty: the last column."),
                                  std::string(), false));
  info->parameters.push_back(
      Make("labels_file", ParameterKind::kText,
           absl::StrCat("IDX: file of the ", label, "; empty: the images' name with labels-idx1 for images-idx3."),
           std::string(), false));
}

ParameterInfo MakeChoice(std::string name, std::string description, std::vector<std::string> labels, bool tunable) {
  ParameterInfo p = Make(std::move(name), ParameterKind::kCategorical, std::move(description), labels[0], tunable);
  p.labels = std::move(labels);
  return p;
}

}  // namespace luthier::catalogue
