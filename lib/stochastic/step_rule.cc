#include "lib/stochastic/step_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"

namespace luthier::stochastic {

const std::vector<std::string>& StepRuleNames() {
  static const std::vector<std::string>& names = *new std::vector<std::string>{
      "const", "lmean", "lmax", "hedge", "opt", "averagehedgeopt1", "averagehedgeopt2", "port"};
  return names;
}

absl::StatusOr<StepRule> ParseStepRule(absl::string_view name) {
  const std::vector<std::string>& names = StepRuleNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<StepRule>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no step rule ", base::Quote(name), "; there are ", absl::StrJoin(names, ", ")));
}

double StepSize(StepRule rule, double constant, double l_max, double l_mean, double lambda, double seen) {
  double step = constant;
  switch (rule) {
    case StepRule::kConstant:
      break;
    case StepRule::kLmean:
      step = 1.0 / (l_mean + lambda);
      break;
    case StepRule::kLmax:
      step = 1.0 / (l_max + lambda);
      break;
    case StepRule::kHedge:
      step = 0.5 / (l_max + lambda) + 0.5 / (l_mean + lambda);
      break;
    case StepRule::kOptimum:
      step = 2.0 / (l_max + 2.0 * lambda);
      break;
    case StepRule::kAverageOptimum1:
      step = 2.0 / (0.5 * (l_mean + l_max) + 2.0 * lambda);
      break;
    case StepRule::kAverageOptimum2:
      step = 1.0 / (l_max + 2.0 * lambda) + 1.0 / (l_mean + 2.0 * lambda);
      break;
    case StepRule::kPort:
      step = (1.0 - seen) / (l_max + lambda) + seen * (0.5 / (l_max + lambda) + 0.5 / (l_mean + lambda));
      break;
  }
  return lambda > 0.0 ? std::min(step, 0.5 / lambda) : step;
}

}  // namespace luthier::stochastic
