#include "server/coordinator/messages/study_checks.h"

#include <variant>

#include "lib/base/error.h"
#include "lib/catalogue/registry.h"
#include "lib/search/registry.h"
#include "lib/study/metrics.h"

namespace luthier::coordinator {
namespace {

absl::Status Check(const study::StudySpec& spec, bool new_objective) {
  base::Violations violations;
  violations.AddAll("", study::ValidateSpec(spec));
  if (new_objective) violations.AddAll("", study::ValidateNewSpec(spec));
  violations.AddAll("", search::Validate(spec));
  if (const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective)) {
    violations.AddAll("", catalogue::Validate(*builtin, spec.space, spec.metric, study::ObjectiveField(spec)));
    violations.AddAll("", catalogue::ValidateUse(spec));
  }
  return violations.ToStatus();
}

}  // namespace

absl::Status CheckNew(const study::StudySpec& spec) {
  return Check(spec, /*new_objective=*/true);
}

absl::Status CheckChanged(const study::StudySpec& before, const study::StudySpec& next) {
  return Check(next, next.objective != before.objective);
}

}  // namespace luthier::coordinator
