#ifndef LUTHIER_LIB_CATALOGUE_SETTINGS_H_
#define LUTHIER_LIB_CATALOGUE_SETTINGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/catalogue/objective_info.h"
#include "lib/study/parameters.h"

namespace luthier::catalogue {

// Checks `value` against kind and legal range; the error's field is `field`.
absl::Status CheckValue(const ParameterInfo& info, const study::ParameterValue& value, const std::string& field);

// The values of all parameters of an objective: each is the trial's, else the fixed option, else the default.
class Settings {
 public:
  // Returns INVALID_ARGUMENT for unknown names, wrong kinds or ranges, and missing required ones.
  static absl::StatusOr<Settings> Resolve(const ObjectiveInfo& info, const study::Parameters& options,
                                          const study::Parameters& parameters);

  // The name must be one of the objective's, of that kind, and no list (IsVector, Vector).
  double Number(const std::string& name) const;
  int64_t Int(const std::string& name) const;
  bool Bool(const std::string& name) const;
  const std::string& Text(const std::string& name) const;
  bool IsVector(const std::string& name) const;
  const std::vector<double>& Vector(const std::string& name) const;
  const study::Parameters& values() const { return values_; }
  // Returns true if the study or the trial sets `name`, so that the value is not a default; for an optional parameter,
  // if it has a value.
  bool given(const std::string& name) const { return given_.contains(name); }

 private:
  study::Parameters values_;
  std::set<std::string> given_;
};

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_SETTINGS_H_
