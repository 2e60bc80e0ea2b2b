#include "lib/objectives/create.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/function_info.h"
#include "lib/catalogue/registry.h"
#include "lib/catalogue/regression_info.h"
#include "lib/catalogue/test_functions.h"
#include "lib/catalogue/vf_idca_info.h"
#include "lib/objectives/crf_objective.h"
#include "lib/objectives/function_objective.h"
#include "lib/objectives/linear_objective.h"
#include "lib/objectives/matrix_objective.h"
#include "lib/objectives/regression_objective.h"
#include "lib/objectives/vf_idca_objective.h"

namespace luthier::objectives {

absl::StatusOr<std::unique_ptr<Objective>> CreateObjective(const study::BuiltinObjective& objective,
                                                           const study::SearchSpace& space,
                                                           const study::MetricSpec& metric, const data::DataRoot* root,
                                                           const data::DataCache* cache, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(catalogue::Validate(objective, space, metric));
  const catalogue::ObjectiveInfo& info = **catalogue::FindObjective(objective.model);
  if (absl::StartsWith(objective.model, catalogue::kFunctionPrefix)) {
    const absl::StatusOr<const catalogue::TestFunction*> function =
        catalogue::FindTestFunction(absl::string_view(objective.model).substr(sizeof(catalogue::kFunctionPrefix) - 1));
    LUTHIER_CHECK(function.ok());
    return CreateFunctionObjective(info, **function, objective.options, space);
  }
  const NewObjective made{info, objective, space, metric, root, cache};
  if (objective.model == "crf") return CreateCrfObjective(made, stop);
  if (catalogue::IsRegression(info)) return CreateRegressionObjective(made, stop);
  if (catalogue::IsVfIdca(info)) return CreateVfIdcaObjective(made, stop);
  if (objective.model == "matrix_completion") return CreateMatrixObjective(made, stop);
  return CreateLinearObjective(made, stop);
}

}  // namespace luthier::objectives
