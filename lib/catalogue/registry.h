#ifndef LUTHIER_LIB_CATALOGUE_REGISTRY_H_
#define LUTHIER_LIB_CATALOGUE_REGISTRY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/catalogue/objective_info.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

namespace luthier::catalogue {

// Every builtin objective, in order of model name.
const std::vector<ObjectiveInfo>& Objectives();

// Returns NOT_FOUND with the closest name for an unknown one.
absl::StatusOr<const ObjectiveInfo*> FindObjective(absl::string_view model);

// One line: "logistic    L2 logistic regression …".
std::string DescribeShort(const ObjectiveInfo& info);
// Returns everything that a user needs to write a study: details, parameters with ranges and defaults, options,
// metrics, an example.
std::string Describe(const ObjectiveInfo& info);

// Returns the required parameters with their suggested ranges.
study::SearchSpace SuggestedSpace(const ObjectiveInfo& info);

// Checks a builtin objective against the study's space and metric without opening any file (for the server): the model,
// the data's name, the options (names, kinds, ranges), that every parameter of the space is accepted and within its
// legal range, that every required parameter is there, and that the metric is known and has the right goal. Returns
// INVALID_ARGUMENT with all violations, their fields as in the study file ("objective.builtin.options.nois",
// "space[0].float.min", "metric.name"; `metric_field` is the metric's, study::ObjectiveField).
absl::Status Validate(const study::BuiltinObjective& objective, const study::SearchSpace& space,
                      const study::MetricSpec& metric, absl::string_view metric_field = "metric");

// Checks that the builtin objective of a study provides what its algorithm and rules need: a learning curve for a
// `resource` or a stopping rule, gradients for a search by gradients alone, and no warm starts (option warm_start)
// where trials are compared by their curves or promise not to depend on each other; and that it reports the metrics
// besides that of Validate. Returns INVALID_ARGUMENT naming the
// fields. Returns OK for other objectives, and for a study that Validate refuses.
absl::Status ValidateUse(const study::StudySpec& spec);

// Returns true if the objective has a derivative by every continuous parameter of the space. `info` has the parameters
// of penalty groups, too (WithPenaltyGroups).
bool AreDifferentiable(const ObjectiveInfo& info, const study::SearchSpace& space);

// Returns true if trials of the study can have a gradient of its metric, as far as the study says. A builtin objective
// differentiates some of its metrics, unless its option `gradient` is false; nothing is known about other objectives,
// so the result is true.
bool MayDifferentiate(const study::StudySpec& spec);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_REGISTRY_H_
