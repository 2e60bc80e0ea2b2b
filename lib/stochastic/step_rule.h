#ifndef LUTHIER_LIB_STOCHASTIC_STEP_RULE_H_
#define LUTHIER_LIB_STOCHASTIC_STEP_RULE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::stochastic {

// Rules for the step of a variance-reduced method (Ahmed 2018, section 2.6.2; there lambda is left implicit in the
// first rules). Lmax and Lmean are the largest and the mean Lipschitz constant of the examples' gradients. lambda is
// the weight of the L2 penalty and the modulus of strong convexity. Losses alone have the constants Lmax and Lmean;
// each rule adds lambda.
enum class StepRule {
  kConstant,         // StepOptions::constant
  kLmean,            // 1 / (Lmean + lambda)
  kLmax,             // 1 / (Lmax + lambda)
  kHedge,            // (1 / (Lmax + lambda) + 1 / (Lmean + lambda)) / 2
  kOptimum,          // 2 / (Lmax + 2 lambda)
  kAverageOptimum1,  // 2 / ((Lmean + Lmax) / 2 + 2 lambda)
  kAverageOptimum2,  // 1 / (Lmax + 2 lambda) + 1 / (Lmean + 2 lambda)
  kPort,             // (1 - m/n) lmax + m/n hedge, with m of n examples seen: that of Sampling::kLipschitzPort, where
                     // Lmax is a running maximum that shrinks by 2^(-1/n) an iteration.
};

// "const", "lmean", "lmax", "hedge", "opt", "averagehedgeopt1", "averagehedgeopt2", "port", in the order of the enum.
const std::vector<std::string>& StepRuleNames();
absl::StatusOr<StepRule> ParseStepRule(absl::string_view name);

// The step, > 0. At most 1 / (2 lambda): a longer one, as rules with a 2 take while Lmax is still a guess, would turn
// the sign of the weights. `seen`: m/n, of kPort.
double StepSize(StepRule rule, double constant, double l_max, double l_mean, double lambda, double seen = 1.0);

}  // namespace luthier::stochastic

#endif  // LUTHIER_LIB_STOCHASTIC_STEP_RULE_H_
