#ifndef LUTHIER_LIB_STUDY_SEARCH_SPACE_H_
#define LUTHIER_LIB_STUDY_SEARCH_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/measurement.h"
#include "lib/study/parameters.h"

namespace luthier::study {

enum class Scale { kLinear, kLog, kLogit };

// Real interval [min, max], both ends included. `step`: only min + i·step. Log needs min > 0, logit 0 < min < max < 1.
struct FloatRange {
  double min = 0.0;
  double max = 1.0;
  Scale scale = Scale::kLinear;
  std::optional<double> step;
  friend bool operator==(const FloatRange&, const FloatRange&) = default;
};

// Whole numbers min, min+step, … <= max. |min|, |max| <= 2^53. Log (min >= 1) excludes a step.
struct IntRange {
  int64_t min = 0;
  int64_t max = 0;
  int64_t step = 1;
  Scale scale = Scale::kLinear;
  friend bool operator==(const IntRange&, const IntRange&) = default;
};

// Labels in a meaningful order.
struct OrdinalLabels {
  std::vector<std::string> labels;
  friend bool operator==(const OrdinalLabels&, const OrdinalLabels&) = default;
};

// Labels without order.
struct CategoricalLabels {
  std::vector<std::string> labels;
  friend bool operator==(const CategoricalLabels&, const CategoricalLabels&) = default;
};

struct BoolSwitch {
  friend bool operator==(const BoolSwitch&, const BoolSwitch&) = default;
};

using ParameterDomain = std::variant<FloatRange, IntRange, OrdinalLabels, CategoricalLabels, BoolSwitch>;

// The parameter exists only when `parent` is active and has one of `values`.
struct Condition {
  std::string parent;
  std::vector<ParameterValue> values;
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct ParameterSpec {
  std::string name;  // [A-Za-z_][A-Za-z0-9_.]{0,63}
  ParameterDomain domain;
  std::optional<Condition> condition = std::nullopt;
  // A vector's default may be given as one number, which stands for all of its scalars; it is stored as the list.
  std::optional<ParameterValue> default_value = std::nullopt;
  // If present, the parameter is a vector of so many scalars, 1 to kMaxScalars, each with the domain above, which is a
  // FloatRange without step. Its value is a std::vector<double> of this length.
  std::optional<int> count = std::nullopt;
  std::string display_name = "";  // The name that people know it by, where that is not legal.

  bool is_vector() const { return count.has_value(); }
  int width() const { return count.value_or(1); }
  friend bool operator==(const ParameterSpec&, const ParameterSpec&) = default;
};

inline constexpr int kMaxParameters = 1000;
inline constexpr int kMaxScalars = 100'000;  // Limit for all parameters of a space together.
inline constexpr int kMaxLabels = 1000;
inline constexpr size_t kMaxLabelBytes = 256;

// One number of a setting: a scalar parameter (`element` 0), or one element of a vector parameter.
struct Scalar {
  int parameter = 0;
  int element = 0;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

// A validated, immutable list of parameters. Order is the user's and is significant (gradients, encodings).
class SearchSpace {
 public:
  // Returns INVALID_ARGUMENT naming every violation, fields relative to the list: "[3].float.max".
  static absl::StatusOr<SearchSpace> Create(std::vector<ParameterSpec> parameters);

  SearchSpace() = default;  // No parameters; only as a value to assign to.

  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  int size() const { return static_cast<int>(parameters_.size()); }
  // Number of scalars of all parameters together.
  int scalars() const { return scalars_; }
  std::optional<int> Find(absl::string_view name) const;
  // Indices in an order in which every parent precedes its children.
  const std::vector<int>& topological_order() const { return order_; }
  // Index of the parent of parameter i, or -1.
  int parent(int i) const { return parents_[i]; }
  // Returns true if parameter `i` exists, given the values of those before it in topological order.
  bool IsActive(int i, const Parameters& values) const;

  // The scalars that a gradient has entries for: floats without step, in the order of the parameters and of the
  // elements within a vector.
  const std::vector<Scalar>& differentiable() const { return differentiable_; }
  // "lr", or "l2[3]" for an element of a vector.
  std::string ScalarName(const Scalar& scalar) const;

  // Returns true if parameter `i` has only one legal value.
  bool IsConstant(int i) const;
  // Number of distinct settings counting only active parameters of the unconditioned product; absent when infinite or
  // above 2^63. Conditional spaces: an upper bound.
  std::optional<int64_t> Cardinality() const;
  // Number of legal values of parameter i, for a vector of each of its scalars; absent for a continuous one.
  std::optional<int64_t> Levels(int i) const;
  // The legal value number `level` (0 … Levels(i)-1) of parameter i, in ascending or listed order, and its inverse.
  // Parameter i must have levels and the value must be canonical.
  ParameterValue LevelValue(int i, int64_t level) const;
  int64_t LevelOf(int i, const ParameterValue& value) const;

  // Checks that every active parameter is present, no inactive or unknown one, and each value legal. Fields are
  // relative: "lr". Numbers may be off by the loss of printing ten digits: beyond a bound by 1e-9 of the range (scale
  // LOG, LOGIT: of the bound's distance from 0 or 1), off a step by 1e-9 of the number. Use Canonical to snap them.
  absl::Status Validate(const Parameters& values) const;
  // Returns a valid setting with numbers moved onto levels and into bounds exactly, or the same errors as Validate.
  absl::StatusOr<Parameters> Canonical(const Parameters& values) const;
  // Returns `given` completed by each missing active parameter's default value, or its middle without a default.
  // Returns the same errors as Validate.
  absl::StatusOr<Parameters> Complete(const Parameters& given) const;
  // The setting of all defaults (middles where none is given).
  Parameters Default() const;

  friend bool operator==(const SearchSpace& a, const SearchSpace& b) { return a.parameters_ == b.parameters_; }

 private:
  std::vector<ParameterSpec> parameters_;
  std::vector<int> order_;
  std::vector<int> parents_;
  std::vector<Scalar> differentiable_;
  int scalars_ = 0;
};

// Makes a gradient given by names (Gradient::by_name) one of the stored kinds: full where it has every differentiable
// parameter of the setting, else the slope along the vector of what it has, which loses the least of it. Returns
// INVALID_ARGUMENT for names that are no differentiable parameter of the setting, vectors, and numbers that are not
// finite.
absl::StatusOr<Gradient> FromNames(const SearchSpace& space, const Parameters& setting, const Gradient& gradient);

// Number of levels of a stepped range, and level i: min + i·step, written as the user would (0.3, not 3·0.1 =
// 0.30000000000000004): the nearest number of 15 digits where it differs by round-off only.
double StepCount(const FloatRange& range);
double StepValue(const FloatRange& range, double level);

// One value against one domain, or against a parameter that may be a vector. The returned value is canonical.
absl::StatusOr<ParameterValue> CanonicalValue(const ParameterDomain& domain, const ParameterValue& value);
absl::StatusOr<ParameterValue> CanonicalValue(const ParameterSpec& parameter, const ParameterValue& value);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_SEARCH_SPACE_H_
