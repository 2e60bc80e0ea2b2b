#ifndef LUTHIER_LIB_STUDY_PARAMETERS_H_
#define LUTHIER_LIB_STUDY_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace luthier::study {

// A value in user units. Numbers are doubles, integers too (the search space refuses integers beyond 2^53); text is the
// label of a categorical or ordinal parameter; a vector parameter's value is the list of its scalars.
using ParameterValue = std::variant<double, bool, std::string, std::vector<double>>;

// One setting: name -> value. Inactive conditional parameters are absent.
using Parameters = std::map<std::string, ParameterValue>;

// Names of parameters and metrics: [A-Za-z_][A-Za-z0-9_.]{0,63}.
bool IsName(absl::string_view name);

// The same for equal settings, by names and bits, on every machine; for different ones different but for one pair in
// 2^64.
uint64_t HashOf(const Parameters& parameters);

// Numbers by the shortest text that reads back to the same double; integers without a point; labels as they are;
// vectors as "[1, 0.5, 2]".
std::string FormatValue(const ParameterValue& value);
// `a=1, b=0.5, c=rbf` in name order.
std::string FormatParameters(const Parameters& parameters);
// The shortest decimal text that reads back to the same double; "NaN", "inf", "-inf".
std::string FormatDouble(double value);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_PARAMETERS_H_
