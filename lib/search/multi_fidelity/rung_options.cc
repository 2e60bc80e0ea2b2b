#include "lib/search/multi_fidelity/rung_options.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/study/rung_schedule.h"

namespace luthier::search {
namespace {

constexpr int32_t kMaxEta = 1000;

void CheckBudget(const study::StudySpec& spec, int32_t eta, base::Violations* violations) {
  if (spec.budget.max_trials >= eta) return;
  violations->Add("budget.max_trials", absl::StrCat(spec.budget.max_trials, " is less than eta, ", eta,
                                                    ": of so few settings none could be left out"));
}

// Checks the requirements that all algorithms with rungs share.
void CheckRungs(const study::StudySpec& spec, int32_t eta, const NestedAlgorithms& others,
                base::Violations* violations) {
  const std::string name = study::AlgorithmName(spec.algorithm);
  const std::string at = absl::StrCat("algorithm.", name);
  if (eta < 2 || eta > kMaxEta) {
    violations->Add(at + ".eta", absl::StrCat(eta, " is not between 2 and ", kMaxEta));
  }
  if (!spec.resource) {
    violations->Add("resource", absl::StrCat("is required by ", name,
                                             ": give max, the step of the reports at which a setting has had all its "
                                             "training, e.g. {max: 81, unit: epochs}"));
  } else if (spec.resource->min >= 1 && spec.resource->max >= spec.resource->min && eta >= 2 &&
             study::MaxHalvings(*spec.resource, eta) < 1) {
    violations->Add("resource.max",
                    absl::StrCat(spec.resource->max, " is less than eta, ", eta, ", times resource.min, ",
                                 spec.resource->min, ": there would be no rung to stop at"));
  }
  if (spec.reproducible) {
    violations->Add("reproducible",
                    absl::StrCat("does not go with ", name, ": which trials go on depends on who was faster"));
  }
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  if (command != nullptr && !command->stdout_patterns.empty()) {
    violations->Add(
        "objective.command.stdout_patterns",
        absl::StrCat("give one result at the end, but ", name,
                     " needs reports on the way; print JSON lines instead (docs/guide/command_objective.md)"));
  }
  study::StudySpec nested = spec;
  nested.algorithm = study::AsAlgorithm(*study::SamplerOf(spec.algorithm));
  violations->AddMoved("algorithm", at + ".sampler", others.Validate(nested));
}

}  // namespace

absl::Status ValidateSuccessiveHalving(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options,
                                       const NestedAlgorithms& nested) {
  base::Violations violations;
  CheckRungs(spec, options.eta, nested, &violations);
  const std::string at = "algorithm.successive_halving";
  if (options.trials != 0 && (options.trials < options.eta || options.trials > spec.budget.max_trials)) {
    violations.Add(at + ".trials", absl::StrCat(options.trials, " is not between eta, ", options.eta,
                                                ", and budget.max_trials, ", spec.budget.max_trials));
  } else if (options.trials == 0) {
    CheckBudget(spec, options.eta, &violations);
  }
  return violations.ToStatus();
}

absl::Status ValidateHyperband(const study::StudySpec& spec, const study::HyperbandOptions& options,
                               const NestedAlgorithms& nested) {
  base::Violations violations;
  CheckRungs(spec, options.eta, nested, &violations);
  if (violations.empty()) {
    const int64_t first = study::BracketsOf(spec).front().sizes.front();
    if (first > spec.budget.max_trials) {
      violations.Add("budget.max_trials",
                     absl::StrCat(spec.budget.max_trials, " is less than the ", first,
                                  " settings of the first bracket; raise it, or raise resource.min, or take asha"));
    }
  }
  return violations.ToStatus();
}

absl::Status ValidateAsha(const study::StudySpec& spec, const study::AshaOptions& options,
                          const NestedAlgorithms& nested) {
  base::Violations violations;
  CheckRungs(spec, options.eta, nested, &violations);
  if (violations.empty()) {
    CheckBudget(spec, options.eta, &violations);
  }
  return violations.ToStatus();
}

}  // namespace luthier::search
