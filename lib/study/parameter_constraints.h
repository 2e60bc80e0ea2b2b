#ifndef LUTHIER_LIB_STUDY_PARAMETER_CONSTRAINTS_H_
#define LUTHIER_LIB_STUDY_PARAMETER_CONSTRAINTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/study/parameters.h"

namespace luthier::study {

// Values of one parameter that a forbidden combination names: a list of values, or else a range of numbers, of which an
// end may be absent; ends are included.
struct ForbiddenValues {
  std::vector<ParameterValue> values = {};
  std::optional<double> at_least = std::nullopt;
  std::optional<double> at_most = std::nullopt;
  friend bool operator==(const ForbiddenValues&, const ForbiddenValues&) = default;
};

// A condition on several parameters of a setting: a bounded sum, or a combination of values that is forbidden. Exactly
// one of `sum` and `forbid` is not empty.
struct ParameterConstraint {
  // Weights by parameter, finite and not 0. at_least <= sum of weight * value <= at_most in user units; an inactive
  // parameter counts 0, and each scalar of a vector counts.
  std::map<std::string, double> sum = {};
  std::optional<double> at_least = std::nullopt;
  std::optional<double> at_most = std::nullopt;
  // A setting in which every parameter named is active and has one of its values is illegal.
  std::map<std::string, ForbiddenValues> forbid = {};
  friend bool operator==(const ParameterConstraint&, const ParameterConstraint&) = default;
};

inline constexpr int kMaxConstraints = 64;

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_PARAMETER_CONSTRAINTS_H_
