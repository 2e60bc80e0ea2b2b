#ifndef LUTHIER_LIB_CATALOGUE_OBJECTIVE_INFO_H_
#define LUTHIER_LIB_CATALOGUE_OBJECTIVE_INFO_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"

// The schema of a builtin objective: its settings, its metrics and its data, as study files name them.
namespace luthier::catalogue {

enum class ParameterKind { kFloat, kInt, kBool, kCategorical, kText };
absl::string_view ParameterKindName(ParameterKind kind);  // "float", "int", "bool", "categorical", "text"

// One setting of an objective: tuned when the search space has a parameter of this name, held fixed when it is in the
// objective's options, else at its default.
struct ParameterInfo {
  std::string name;
  ParameterKind kind = ParameterKind::kFloat;
  std::string description;  // One sentence.
  std::string units;        // "" for a pure number.
  // Numbers: legal range, both ends included.
  double min = 0.0;
  double max = 0.0;
  // Float and int: a sensible search range and scale.
  double suggested_min = 0.0;
  double suggested_max = 0.0;
  study::Scale suggested_scale = study::Scale::kLinear;
  std::vector<std::string> labels;                     // Categorical: the legal ones.
  std::optional<study::ParameterValue> default_value;  // If absent, it must be given, unless `optional`.
  bool optional = false;                               // May be absent; `description` says what that means.
  bool tunable = false;                                // May be in the search space; otherwise only in options.
  bool differentiable = false;                         // Gradients have an entry for it, or one for each element.
  bool vector = false;                                 // Float: may be a list, tuned or fixed.

  bool required() const { return !default_value && !optional; }
};

struct MetricInfo {
  std::string name;
  study::Goal goal = study::Goal::kMinimize;
  std::string description;
  bool gradient = false;  // Its gradient comes with the final measurement, or the slope that was asked for.
};

struct ObjectiveInfo {
  std::string model;        // Name in the study file.
  std::string description;  // One line.
  std::string details;      // A paragraph: what is computed, from what.
  std::vector<ParameterInfo> parameters;
  std::vector<MetricInfo> metrics;
  bool needs_data = false;   // `data` and `split` are used.
  std::string data_example;  // Generated data, for studies without a file.
  std::string data_formats;  // Sentences: what `data` may be and how it is split.

  const ParameterInfo* FindParameter(absl::string_view name) const;
  const MetricInfo* FindMetric(absl::string_view name) const;
};

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_OBJECTIVE_INFO_H_
