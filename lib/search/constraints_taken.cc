#include "lib/search/constraints_taken.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/study/legal_settings.h"

namespace luthier::search {

const std::vector<std::string>& AlgorithmsWithConstraints() {
  static const std::vector<std::string> names = {"asha",
                                                 "bo",
                                                 "cma_es",
                                                 "fobo",
                                                 "grid",
                                                 "halton",
                                                 "hbo",
                                                 "hyperband",
                                                 "lbo",
                                                 "nsga2",
                                                 "random",
                                                 "sobol",
                                                 "successive_halving",
                                                 "tpe"};
  return names;
}

absl::Status CheckConstraints(const study::StudySpec& spec, const study::AlgorithmSpec& chosen) {
  if (spec.constraints.empty()) return absl::OkStatus();
  base::Violations faults;
  study::ValidateConstraints(spec.space, spec.constraints, &faults);
  if (!faults.empty() || spec.open_space) return absl::OkStatus();  // study::ValidateSpec says so.
  const std::vector<std::string>& names = AlgorithmsWithConstraints();
  const std::string name = study::AlgorithmName(chosen);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return base::BadField("algorithm", absl::StrCat(name, " does not take constraints on parameters; use one of ",
                                                    absl::StrJoin(names, ", "), ", or auto"));
  }
  const study::LegalShare share = study::LegalShareOf(spec.space, spec.constraints);
  if (share.legal >= study::kFewestLegal) return absl::OkStatus();
  return base::BadField(
      "constraints",
      absl::StrCat(
          "leave too little of the space: ", share.legal, " of ", share.draws,
          " random settings keep them all (a share of ", study::FormatDouble(share.share()), "), and at least ",
          study::kFewestLegal,
          " must; narrow the ranges to where settings are legal, or loosen the "
          "constraints. Of numbers that are to have a fixed sum, leave one out and let the objective compute it"));
}

}  // namespace luthier::search
